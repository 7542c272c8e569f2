"""Compare types of a library with ``abicompat`` of libabigail, where it is installed (B-61).

Symbols do not show that a structure has grown. Debug information does, and most published
libraries have none.
"""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_FAILED, _CHANGED = 1 | 2, 4 | 8
_LONGEST = 300.0
"""Seconds; a library of some hundred megabytes of debug information may take minutes."""
_SHOWN = 3


def find_program() -> str | None:
    """Return the program, if it is installed."""
    return shutil.which("abicompat")


def changed_types(program: str, consumer: Path, before: Path, after: Path) -> str | None:
    """Say how the types that a consumer uses differ between two versions of a library.

    :return: empty if they are alike, a sentence if not; None if that cannot be found out.
    """
    try:
        done = subprocess.run(
            [program, consumer, before, after],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode < 0 or done.returncode & _FAILED:
        return None
    if not done.returncode & _CHANGED:
        return ""
    changes = [
        line.strip().removeprefix("[C] ").rstrip(":")
        for line in done.stdout.splitlines()
        if line.lstrip().startswith("[")
    ]
    more = f" (and {len(changes) - _SHOWN} more)" if len(changes) > _SHOWN else ""
    return ("; ".join(changes[:_SHOWN]) or "its interface changed") + more
