"""The orientation tag of a block of camera data: read nothing else, move nothing else.

Such a block is a small TIFF: a header, and lists of entries that point into the block by offsets. So nothing may move.
A tag that is there is overwritten; one that is missing goes into a copy of the first list at the end of the block.
"""

from __future__ import annotations

import struct

from ..data.decoding import ORIENTATION, Unreadable

SHORT = 3
ENTRY = 12
ORDERS = {b"II*\0": "<", b"MM\0*": ">"}
TURNED = ((1, 6, 3, 8), (2, 7, 4, 5))
"""Orientations, each the one before turned a quarter clockwise: without and with a mirror."""


def turned_orientation(orientation: int, quarters: int) -> int:
    """The tag that shows what `orientation` shows, turned clockwise by so many quarters."""
    row = TURNED[0] if orientation in TURNED[0] else TURNED[1]
    return row[(row.index(orientation) + quarters) % 4]


def with_orientation(block: bytes | None, orientation: int) -> bytes:
    """The block with that orientation; a new one where there is none. Every other byte stays where it is."""
    if not block:
        return b"II*\0" + struct.pack("<IHHHIHHI", 8, 1, ORIENTATION, SHORT, 1, orientation, 0, 0)
    order = ORDERS.get(block[:4])
    if order is None:
        raise Unreadable("its camera data is of an unknown form")
    try:
        (start,) = struct.unpack_from(order + "I", block, 4)
        (count,) = struct.unpack_from(order + "H", block, start)
        entries = [block[start + 2 + ENTRY * k : start + 2 + ENTRY * (k + 1)] for k in range(count)]
        (following,) = struct.unpack_from(order + "I", block, start + 2 + ENTRY * count)
        tags = [struct.unpack_from(order + "H", entry)[0] for entry in entries]
    except struct.error:
        raise Unreadable("its camera data is broken") from None
    entry = struct.pack(order + "HHIHH", ORIENTATION, SHORT, 1, orientation, 0)
    if ORIENTATION in tags:
        place = start + 2 + ENTRY * tags.index(ORIENTATION)
        return block[:place] + entry + block[place + ENTRY :]
    place = sum(tag < ORIENTATION for tag in tags)
    entries.insert(place, entry)
    padded = block + b"\0" * (len(block) % 2)  # lists begin at even places
    listed = struct.pack(order + "H", len(entries)) + b"".join(entries) + struct.pack(order + "I", following)
    return padded[:4] + struct.pack(order + "I", len(padded)) + padded[8:] + listed
