"""The number of processors that threads and processes may share."""

from __future__ import annotations

import os


def processor_count() -> int:
    """Return the processors of this process: a container has fewer than the machine."""
    if hasattr(os, "sched_getaffinity"):  # on Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
