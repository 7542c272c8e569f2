"""The settings of the library store and its sources, from environment variables and the system."""

# Imported at every start of a program with libraries, so it imports as little as possible.
# ruff: noqa: PTH111, PTH118
from __future__ import annotations

import os
import sys

from wheelfit_runtime.platforms.cache_folder import cache_folder_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

TRANSPORTS = ("pip", "uv", "http")
"""The transports that find and fetch wheels, by name."""

_PUBLIC = "https://pypi.org/simple/"
_FALSE = ("", "0", "false", "no", "off")


def store_folder(environ: Mapping[str, str]) -> str:
    """Return the folder of the user's own store.

    :param environ: the variables, with ``WHEELFIT_LIBRARY_STORE`` or those of the cache folder.
    """
    folder = environ.get("WHEELFIT_LIBRARY_STORE")
    if folder:
        return os.path.abspath(os.path.expanduser(folder))  # noqa: PTH100
    return os.path.join(cache_folder_of(environ), "libraries")


def site_stores(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the folders of the read-only stores of the site (``WHEELFIT_LIBRARY_SITES``)."""
    folders = environ.get("WHEELFIT_LIBRARY_SITES", "")
    return tuple(part for part in folders.split(os.pathsep) if part)


def is_offline(environ: Mapping[str, str]) -> bool:
    """Return whether nothing may be fetched (``WHEELFIT_OFFLINE``)."""
    return environ.get("WHEELFIT_OFFLINE", "").lower() not in _FALSE


def usual_index(environ: Mapping[str, str]) -> str:
    """Return the URL of the index for fetching without an installer."""
    names = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL")
    return next((environ[name] for name in names if environ.get(name)), _PUBLIC)


def is_frozen() -> bool:
    """Return whether this is a frozen application, whose program is not a Python interpreter."""
    # PyInstaller sets sys.frozen, and Nuitka __compiled__ in each module.
    return bool(getattr(sys, "frozen", False)) or "__compiled__" in globals()
