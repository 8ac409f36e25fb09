"""How many processor cores this process may use."""

import os


def available_cores() -> int:
    """Cores this process is bound to, shared out over the processes of a distributed run on this node."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, bound // max(1, int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))
