"""Give the files of an unpacked wheel a second place, without moving their bytes if possible."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from wheelfit.wheels.unpacked import UnpackedWheel

__all__ = ["Linker", "current_umask", "link_or_copy"]


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
        mode = self.executable_mode if wheel.is_executable(name) else 0o666 & ~self._umask
        link_or_copy(wheel.path_of(name), target, mode)


def link_or_copy(source: Path, target: Path | str, mode: int) -> None:
    """Give a file a second name if its permissions are the ones wanted, else copy it."""
    if os.stat(source).st_mode & 0o777 == mode:  # noqa: PTH116
        try:
            os.link(source, target)
        except FileExistsError:
            raise
        except OSError:
            pass
        else:
            return
    with source.open("rb") as reading, open(target, "xb") as writing:  # noqa: PTH123
        shutil.copyfileobj(reading, writing, 1 << 18)
        if hasattr(os, "fchmod"):
            os.fchmod(writing.fileno(), mode)


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
