"""Data: images by name, from folders, parquet or `datasets`; in memory or streamed, with the same batches."""

from .images import Images
from .memory import MemoryImages
from .named import EMBEDDED, HUB, known_names
from .opening import MEMORY_LIMIT, open_images
from .stream import StreamImages

__all__ = [
    "EMBEDDED",
    "HUB",
    "MEMORY_LIMIT",
    "Images",
    "MemoryImages",
    "StreamImages",
    "known_names",
    "open_images",
]
