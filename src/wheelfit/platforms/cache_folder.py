"""Where things are kept between two runs."""

# A later start of a program that has libraries comes here: nothing is imported that it could do
# without.
# ruff: noqa: PTH111, PTH117, PTH118

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = ["cache_folder_of", "default_cache_folder", "usable_cache_folder"]


def __dir__() -> list[str]:
    return __all__


def default_cache_folder(environ: Mapping[str, str], home: str, platform: str) -> str:
    """Return where things are kept when nobody says where.

    :param environ: ``WHEELFIT_CACHE_DIR``, else where the system keeps caches.
    :param home: the user's folder.
    :param platform: as ``sys.platform``.
    """
    named = environ.get("WHEELFIT_CACHE_DIR")
    if named:
        return named
    if platform == "win32":
        local = environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
        return os.path.join(local, "wheelfit", "Cache")
    if platform == "darwin":
        return os.path.join(home, "Library", "Caches", "wheelfit")
    base = environ.get("XDG_CACHE_HOME", "")
    # The specification of this variable wants relative paths to be ignored.
    return os.path.join(base if base.startswith("/") else os.path.join(home, ".cache"), "wheelfit")


def cache_folder_of(environ: Mapping[str, str]) -> str:
    """Return where things of this user are kept on this system, as an absolute path.

    :param environ: environment variables.
    """
    home = environ.get("HOME") if sys.platform != "win32" else None
    home = home or os.path.expanduser("~")
    if not os.path.isabs(home):
        home = "/nonexistent"  # a container may run as a user who has none
    return os.path.abspath(default_cache_folder(environ, home, sys.platform))  # noqa: PTH100


def usable_cache_folder(folder: Path | None, note: Callable[[str], None]) -> Path | None:
    """Return the cache folder, unless root would leave files in somebody else's.

    :param folder: where things would be kept; None: nowhere.
    :param note: told why it is not used.
    """
    if folder is None or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return folder
    there = next((each for each in (folder, *folder.parents) if each.exists()), None)
    if there is None or there.stat().st_uid == 0:
        return folder
    note(f"{folder} belongs to another user, so nothing is kept; with sudo, use sudo -H")
    return None
