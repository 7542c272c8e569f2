"""Folders and files of the user and of the site."""

from __future__ import annotations

import errno
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "WHEELFIT_CONFIG_FILE"
"""Names another file than the user's; ``/dev/null`` is none."""


def home() -> Path:
    """Return the user's home; a container may run as a user who has none."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


def configuration_file(environ: Mapping[str, str], platform: str, home: Path) -> Path:
    """Return which file holds the user's settings, whether it exists or not.

    :param platform: as ``sys.platform``.
    """
    if named := environ.get(VARIABLE):
        return Path(named)
    if platform == "win32":
        folder = Path(environ.get("APPDATA") or home / "AppData/Roaming")
    elif platform == "darwin":
        folder = home / "Library/Application Support"
    else:
        folder = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    return folder / "wheelfit" / "wheelfit.toml"


def site_folder(platform: str) -> Path:
    """Return where files of the site lie; no variable of a user leads elsewhere.

    :param platform: as ``sys.platform``.
    """
    if platform == "win32":
        return Path(_program_data()) / "wheelfit"
    if platform == "darwin":
        return Path("/Library/Application Support/wheelfit")
    return Path("/etc/wheelfit")


def _program_data() -> str:
    if sys.platform == "win32":
        import ctypes

        # The variable of that name could be set by anybody; the system knows better.
        buffer = ctypes.create_unicode_buffer(260)
        if ctypes.windll.shell32.SHGetFolderPathW(None, 35, None, 0, buffer) == 0:
            return buffer.value
    return "C:\\ProgramData"


def refuse_pipe(path: Path) -> None:
    """Refuse to wait for a pipe, which an archive can bring along.

    :raises OSError: it is one, or cannot be looked at.
    """
    if path.is_fifo():
        raise OSError(errno.EINVAL, "it is a pipe")
