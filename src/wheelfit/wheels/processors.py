"""The number of processors that threads and processes may share."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from functools import cache
from pathlib import Path

_OWN_GROUP = Path("/sys/fs/cgroup")
"""The control group of a container, which sees its own as the root."""


@cache
def processor_count(control_group: Path = _OWN_GROUP) -> int:
    """Return the processors of this process: a container has fewer than the machine.

    A container may also have a share of their time, as with ``docker run --cpus 2``; it is rounded
    up.

    :param control_group: folder with the limits of control groups (version 2, Linux).
    """
    # Where the system tells, on Linux, these are fewer than all processors.
    has_affinity = hasattr(os, "sched_getaffinity")
    count = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota, period = (control_group / "cpu.max").read_text().split()  # in microseconds
        count = min(count, max(1, math.ceil(int(quota) / int(period))))
    return count
