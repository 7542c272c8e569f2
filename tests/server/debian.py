"""Programs that tests need and that Debian has: found, or installed where that is possible."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from filelock import FileLock

_T = TypeVar("_T")


class Unavailable(Exception):
    """Say why something cannot be had here."""


def find_or_install(package: str, look: Callable[[], _T | None]) -> _T:
    """Return what is looked for; install Debian's package if it is not there.

    :param package: its name.
    :param look: finds what is wanted, or returns None.
    :raises Unavailable: there is none, and only root could install it, or that fails.
    """
    if (found := look()) is not None:
        return found
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise Unavailable(f"{package} is not installed, and only root could install it")
    install = ("install", "--yes", "--no-install-recommends", package)
    # Of several processes that test at once one installs, and the others wait for it.
    with FileLock(Path(tempfile.gettempdir()) / "wheelfit-apt.lock"):
        if (found := look()) is not None:
            return found
        said = ""
        for words in (install, ("update",), install):  # lists may be old, or not be there
            said = _apt(package, *words)
            if (found := look()) is not None:
                return found
    raise Unavailable(f"Debian's {package} cannot be installed: {said}")


def _apt(package: str, *words: str) -> str:
    """Run apt-get; return the end of what it says."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "-o", "DPkg::Lock::Timeout=120", *words]
    try:
        completed = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"installing Debian's {package} takes too long") from None
    return completed.stderr[-300:]
