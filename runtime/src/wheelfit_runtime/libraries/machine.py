"""The facts of this machine that decide the compatibility of library wheels."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit_runtime.errors import NoCompatibleWheel
from wheelfit_runtime.platforms.system_view import (
    architecture_of_this_process,
    system_of_this_process,
)

if TYPE_CHECKING:
    from wheelfit_runtime.libraries.toolkits import LibraryFamily

_LEGACY = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_TEGRA = "/etc/nv_tegra_release"


@dataclass(frozen=True, slots=True)
class Machine:
    """The values of markers and platform tags of a machine."""

    system: str
    """``Linux``, ``Windows`` or ``Darwin``."""
    architecture: str
    """The name that Linux uses: ``x86_64``, ``aarch64``."""
    glibc: tuple[int, int] | None = None
    """The version of glibc; None: another C library, such as musl."""
    is_tegra: bool = False
    """Whether it is one of NVIDIA's Jetson boards."""

    @property
    def markers(self) -> dict[str, str]:
        """The environment markers that the metadata of libraries use."""
        platforms = {"Linux": "linux", "Windows": "win32", "Darwin": "darwin"}
        return {
            "sys_platform": platforms.get(self.system, self.system.lower()),
            "platform_system": self.system,
            "platform_machine": self.architecture,
            "os_name": "nt" if self.system == "Windows" else "posix",
            "implementation_name": sys.implementation.name,
            "python_version": f"{sys.version_info.major}.{sys.version_info.minor}",
        }


def this_machine() -> Machine:
    """Return the description of this machine."""
    is_tegra = os.path.exists(_TEGRA)  # noqa: PTH110
    return Machine(system_of_this_process(), architecture_of_this_process(), _glibc(), is_tegra)


def _glibc() -> tuple[int, int] | None:
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        major, minor = version.split(".")[:2]
        return (int(major), int(minor)) if name == "glibc" else None
    except (AttributeError, OSError, ValueError):
        return None


def check_machine(family: LibraryFamily, machine: Machine) -> None:
    """Raise `NoCompatibleWheel` if a family has no libraries for a machine."""
    supported = ", ".join(" ".join(names) for names in family.machines)
    if (machine.system, machine.architecture) not in family.machines:
        message = f"no {family.title} libraries exist for {machine.system} {machine.architecture}"
    elif machine.system == "Linux" and machine.glibc is None:
        message = f"the {family.title} libraries need glibc, and this system has another C library"
    elif machine.is_tegra and not family.is_for_tegra:
        message = f"the {family.title} wheels are not made for Jetson boards, which have their own"
    else:
        return
    raise NoCompatibleWheel(message, note=f"supported: {supported} (with glibc)")


def is_compatible(filename: str, machine: Machine) -> bool:
    """Return whether the platform tags of a wheel are compatible with a machine."""
    platforms = filename.removesuffix(".whl").rpartition("-")[2].split(".")
    return any(_is_platform_compatible(tag, machine) for tag in platforms)


def _is_platform_compatible(tag: str, machine: Machine) -> bool:
    if tag == "any":
        return True
    if machine.system != "Linux" or not tag.endswith(f"_{machine.architecture}"):
        return False
    kind = tag.removesuffix(f"_{machine.architecture}")
    if kind == "linux":
        return True
    if kind.startswith("manylinux_"):
        numbers = kind.split("_")[1:]
        if len(numbers) != 2 or not all(part.isdecimal() for part in numbers):
            return False
        oldest = (int(numbers[0]), int(numbers[1]))
    elif kind in _LEGACY:
        oldest = _LEGACY[kind]
    else:
        return False
    return machine.glibc is not None and oldest <= machine.glibc
