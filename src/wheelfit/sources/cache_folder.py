"""Where things are kept between two runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["default_cache_folder", "usable_cache_folder"]


def __dir__() -> list[str]:
    return __all__


def default_cache_folder(environ: Mapping[str, str], home: Path, platform: str) -> Path:
    """Return where things are kept when nobody says where.

    :param platform: as ``sys.platform``.
    """
    named = environ.get("WHEELFIT_CACHE_DIR")
    if named:
        return Path(named)
    if platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or home / "AppData/Local", "wheelfit", "Cache")
    if platform == "darwin":
        return home / "Library/Caches/wheelfit"
    return Path(environ.get("XDG_CACHE_HOME") or home / ".cache", "wheelfit")


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
