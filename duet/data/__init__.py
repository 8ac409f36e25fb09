"""Data: images by name, from folders, parquet or `datasets`; in memory or streamed, with the same batches."""

from .error import DataError
from .images import Images
from .memory import MemoryImages
from .named import EMBEDDED, HUB, known_names
from .opening import MEMORY_LIMIT, open_images
from .stream import StreamImages

__all__ = [
    "EMBEDDED",
    "HUB",
    "MEMORY_LIMIT",
    "DataError",
    "Images",
    "MemoryImages",
    "StreamImages",
    "known_names",
    "open_images",
]
