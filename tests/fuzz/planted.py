"""A target with bugs, to show that fuzzing finds bugs; see `test_fuzzing`."""

from __future__ import annotations

import time

LONGEST = 16


def check(data: bytes) -> None:
    """Fail for one text, and be slow for another."""
    if data.startswith(b"slow"):
        start = time.process_time()
        while time.process_time() < start + 1.1:
            pass
    if data[:1] == b"b" and data[1:2] == b"u" and data[2:3] == b"g":
        raise AssertionError("the planted bug")
