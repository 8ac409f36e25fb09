"""What the C library does with freed memory."""

from __future__ import annotations

import ctypes
import sys

# Options of mallopt, as malloc.h numbers them.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3


kept = False
"""Whether this process keeps what it frees: large temporaries are then as cheap as small ones."""


def keep_freed_memory() -> bool:
    """Let the process keep what it frees, instead of giving it back to the system at every step; True if it can.

    Without this each training step on a CPU asks anew for the pages of its activations, and the system clears every one
    of them: a tenth of the step and more. The process holds its peak until it ends. Only glibc (Linux) has the
    switch; elsewhere nothing happens.
    """
    global kept
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    # Blocks of 1 GiB and more, such as a set of images, still come and go on their own.
    kept = mallopt is not None and all([mallopt(M_MMAP_THRESHOLD, 2**30), mallopt(M_TRIM_THRESHOLD, 2**31 - 1)])
    return kept
