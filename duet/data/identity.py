"""Which images a set holds, in a few bytes: the same for every storage and any order of the files."""

from __future__ import annotations

import hashlib
from typing import Any

from .images import Images

DIGITS = 16


def identity_of(images: Images) -> dict[str, Any]:
    """Count images and hash their identities: `{"count": 50000, "fingerprint": "16 hex digits"}`.

    The labels count too: a table knows its rows by their numbers alone, and labels tell two tables apart. No pixel is
    decoded. The digests are sorted, so the order of the images does not matter, as far as their names do not hold it:
    the rows of a table in another order are other images. Of a stream, unreadable images are counted.
    """
    labels = [None] * len(images) if images.labels is None else images.labels.tolist()
    digests = sorted(
        hashlib.blake2b(f"{label} ".encode() + identity, digest_size=16).digest()
        for label, identity in zip(labels, images.identities(), strict=True)
    )
    return {"count": len(digests), "fingerprint": hashlib.sha256(b"".join(digests)).hexdigest()[:DIGITS]}
