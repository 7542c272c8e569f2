"""Configuration folders and files of the user and of the site."""

from __future__ import annotations

import errno
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "WHEELFIT_CONFIG_FILE"
"""The environment variable with another path of the user's settings; ``/dev/null`` for none."""


def home() -> Path:
    """Return the user's home folder; without one, as in containers, a path that does not exist."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


def configuration_file(environ: Mapping[str, str], platform: str, home: Path) -> Path:
    """Return the path of the user's settings, whether the file exists or not.

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
    """Return the folder of the site's files, which does not depend on environment variables.

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

        # Not from the environment variable, which a user could set.
        buffer = ctypes.create_unicode_buffer(260)
        if ctypes.windll.shell32.SHGetFolderPathW(None, 35, None, 0, buffer) == 0:
            return buffer.value
    return "C:\\ProgramData"


def refuse_pipe(path: Path) -> None:
    """Raise for a pipe, which could be in an unpacked archive, and block forever.

    :raises OSError: the path is a pipe, or cannot be examined.
    """
    if path.is_fifo():
        raise OSError(errno.EINVAL, "it is a pipe")
