"""Data: images by name, from folders, parquet or `datasets`; in memory or streamed, with the same batches."""

from duet.data.error import DataError
from duet.data.images import Images
from duet.data.memory import MemoryImages
from duet.data.named import EMBEDDED, HUB, known_names
from duet.data.opening import MEMORY_LIMIT, open_images
from duet.data.stream import StreamImages

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
