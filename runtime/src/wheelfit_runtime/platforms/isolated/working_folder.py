"""Remove the working folder of a plugin, in any state.

Used by the caller, and by the supervisor if the caller has ended. Runs on CPython 3.9 and later.
"""

from __future__ import annotations

import os
import time

_PATIENCE = 2.0
"""Seconds; a plugin may have made any number of files."""


def remove(folder: str) -> None:
    """Remove a folder of any depth, or give up after two seconds.

    The entries of a folder in it are moved up before that folder is removed, so the depth has no
    limit.
    """
    end = time.monotonic() + _PATIENCE
    number = 0
    try:
        while time.monotonic() < end:
            entries = list(os.scandir(folder))
            if not entries:
                os.rmdir(folder)  # noqa: PTH106 - paths are text here
                return
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)  # noqa: PTH108
                    continue
                os.chmod(entry.path, 0o700)  # noqa: PTH101
                for inner in os.listdir(entry.path):  # noqa: PTH208
                    number += 1
                    new_path = os.path.join(folder, f"{number}.moved")  # noqa: PTH118
                    os.rename(os.path.join(entry.path, inner), new_path)  # noqa: PTH104, PTH118
                os.rmdir(entry.path)  # noqa: PTH106
    except OSError:
        return
