"""Files that run code whenever Python starts, wherever a wheel puts them.

An attacker needs no more than such a file: the package need not be imported. Python reads them only
from the library folders, which a wheel can reach from its root, from ``purelib`` and ``platlib``,
and from ``data`` by a path below the prefix. Some wheels need them in their root, as editable
installations; elsewhere they are refused.
"""

from __future__ import annotations

import os
from enum import Enum
from typing import TYPE_CHECKING

from wheelfit.wheels.reserved_files import STARTUP_ENDINGS, STARTUP_MODULES, runs_at_startup

if TYPE_CHECKING:
    from wheelfit.installation.environment import Environment


class StartupFiles(Enum):
    """The policy for wheels that have startup files."""

    WARN = "warn"
    ALLOW = "allow"
    DENY = "deny"


class StartupFolders:
    """The folders in which Python looks for startup files."""

    def __init__(self, environment: Environment) -> None:
        folders = (*environment.schemes.libraries(), environment.stdlib)
        self._folders = tuple(
            dict.fromkeys(os.path.realpath(folder) + os.sep for folder in folders)
        )
        self._real: dict[str, str] = {}

    def may_contain(self, folder: str) -> bool:
        """Return whether a folder may contain such files; most folders cannot."""
        lower = (folder + os.sep).lower()
        for root in map(str.lower, self._folders):
            if lower == root:
                return True
            # A module may also be a folder, as sitecustomize/__init__.py.
            if lower.startswith(root) and any(
                name in lower[len(root) :] for name in STARTUP_MODULES
            ):
                return True
        return False

    def runs(self, path: str) -> bool:
        """Return whether a file runs code whenever Python starts."""
        lower = path.lower()
        if not lower.endswith(STARTUP_ENDINGS) and not any(
            name in lower for name in STARTUP_MODULES
        ):
            return False
        folder, name = os.path.split(path)
        if folder not in self._real:
            self._real[folder] = os.path.realpath(folder)
        real = os.path.join(self._real[folder], name).lower()  # noqa: PTH118  # many of them
        return any(
            runs_at_startup(real[len(root) :].replace(os.sep, "/"))
            for root in self._folders
            if real.startswith(root.lower())
        )
