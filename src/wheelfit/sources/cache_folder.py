"""Where things are kept between two runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["default_cache_folder"]


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
