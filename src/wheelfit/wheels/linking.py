"""Give the files of an unpacked wheel a second place, without moving their bytes if possible."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from wheelfit.wheels.unpacked import UnpackedWheel

__all__ = ["Linker", "current_umask"]


def __dir__() -> list[str]:
    return __all__


class Linker:
    """Link files, or copy them where they cannot be linked.

    A linked file has the permissions that it got when it was unpacked, so one that was
    unpacked with another umask is copied.
    """

    def __init__(self) -> None:
        self._umask = current_umask()

    @property
    def executable_mode(self) -> int:
        """Permissions of a file that can be executed."""
        return 0o777 & ~self._umask | 0o111

    def put(self, wheel: UnpackedWheel, name: str, target: Path) -> None:
        """Give a file of a wheel another place.

        :param wheel: the wheel.
        :param name: of the file in it.
        :param target: does not exist; its folder does.
        :raises OSError: it cannot be written.
        """
        source = wheel.path_of(name)
        if wheel.umask == self._umask:
            try:
                os.link(source, target)
            except FileExistsError:
                raise
            except OSError:
                pass
            else:
                return
        with source.open("rb") as reading, target.open("xb") as writing:
            shutil.copyfileobj(reading, writing, 1 << 18)
        if wheel.is_executable(name):
            target.chmod(self.executable_mode)


def current_umask() -> int:
    """Return which permissions new files do not get."""
    try:
        with open("/proc/self/status", "rb") as status:  # noqa: PTH123  # asking changes it
            for line in status:
                if line.startswith(b"Umask:"):
                    return int(line.split()[1], 8)
    except OSError:
        pass
    umask = os.umask(0)
    os.umask(umask)
    return umask
