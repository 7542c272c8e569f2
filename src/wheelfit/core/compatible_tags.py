"""The wheel tags that an interpreter on a platform accepts, and the values a platform implies.

Everything is computed from arguments, never from the running interpreter. The orders are those of
`packaging.tags`, which computes them for the running interpreter.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from packaging.tags import (
    INTERPRETER_SHORT_NAMES,
    compatible_tags,
    cpython_tags,
    generic_tags,
    mac_platforms,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packaging.tags import Tag
    from packaging.version import Version


class ShortTags(NamedTuple):
    """The ABI and platform tags from which `tags_for` computes a long list of tags."""

    abis: tuple[str, ...]
    """ABI tags, best first, such as ``cp313``; without ``abi3`` and ``none``."""
    platforms: tuple[str, ...]
    """Platform tags, best first; without ``any``."""


def tags_for(
    implementation: str, version: Version, abis: Sequence[str], platforms: Sequence[str]
) -> tuple[Tag, ...]:
    """Return the tags an interpreter accepts, best first.

    :param implementation: as ``sys.implementation.name``.
    :param version: version of Python, of which the first two numbers are used.
    :param abis: ABI tags, best first; empty: those of a default build of CPython; with another
        implementation, pure wheels only.
    :param platforms: platform tags, best first; at least one.
    """
    return _tags_for(implementation, version.major, version.minor, tuple(abis), tuple(platforms))


@lru_cache(maxsize=16)  # for the machines of a lock, and the clients of a proxy
def _tags_for(
    implementation: str, major: int, minor: int, abis: tuple[str, ...], platforms: tuple[str, ...]
) -> tuple[Tag, ...]:
    python_version = (major, minor)
    short_name = INTERPRETER_SHORT_NAMES.get(implementation, implementation)
    interpreter = f"{short_name}{major}{minor}"
    if short_name == "cp":
        native = cpython_tags(python_version, abis or [interpreter], platforms)
        generic = compatible_tags(python_version, interpreter, platforms)
    else:
        native = generic_tags(interpreter, abis, platforms)
        generic = compatible_tags(python_version, "pp3" if short_name == "pp" else None, platforms)
    return (*native, *generic)


def shorten(tags: Sequence[Tag], implementation: str, version: Version) -> ShortTags | None:
    """Return the parameters with which `tags_for` returns these tags; None if it cannot."""
    short_name = INTERPRETER_SHORT_NAMES.get(implementation, implementation)
    interpreter = f"{short_name}{version.major}{version.minor}"
    interpreter_tags = [tag for tag in tags if tag.interpreter == interpreter]
    general_abis = {"abi3", "abi3t", "none"}
    parts = ShortTags(
        tuple(dict.fromkeys(tag.abi for tag in interpreter_tags if tag.abi not in general_abis)),
        tuple(dict.fromkeys(tag.platform for tag in interpreter_tags if tag.platform != "any")),
    )
    if not parts.platforms:
        return None
    rebuilt = tags_for(implementation, version, parts.abis, parts.platforms)
    return parts if rebuilt == tuple(tags) else None


# The names before PEP 600, by minor version of glibc.
_OLD_NAMES: Final = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}


def linux_platforms(
    machine: str, *, glibc: int | None = None, musl: int | None = None
) -> tuple[str, ...]:
    """Return the platform tags of a Linux system, best first.

    :param machine: as printed by ``uname -m``: ``x86_64``, ``aarch64``.
    :param glibc: minor version of glibc 2, as 39 for 2.39; None without glibc.
    :param musl: minor version of musl 1, as 2 for 1.2; None without musl.
    """
    oldest = 5 if machine in {"x86_64", "i686"} else 17

    def tags() -> Iterator[str]:
        yield f"linux_{machine}"
        for minor in range(glibc if glibc is not None else -1, oldest - 1, -1):
            yield f"manylinux_2_{minor}_{machine}"
            if minor in _OLD_NAMES:
                yield f"{_OLD_NAMES[minor]}_{machine}"
        for minor in range(musl if musl is not None else -1, -1, -1):
            yield f"musllinux_1_{minor}_{machine}"

    return tuple(tags())


def macos_platforms(machine: str, major: int, minor: int = 0) -> tuple[str, ...]:
    """Return the platform tags of a Mac, best first.

    >>> macos_platforms("arm64", 11)[:2]
    ('macosx_11_0_arm64', 'macosx_11_0_universal2')

    :param machine: as printed by ``uname -m``: ``arm64``, ``x86_64``.
    :param major: first number of the version of macOS, 10 or more.
    :param minor: second number, which is used for macOS 10 only.
    """
    return tuple(mac_platforms((major, minor), machine))


def platforms_of(architecture: str, library: str, version: str = "") -> tuple[str, ...]:
    """Return the platform tags of a system, best first.

    >>> platforms_of("aarch64", "")
    ('win_arm64',)

    :param architecture: the name used by providers: ``x86_64``, ``aarch64``.
    :param library: ``glibc``, ``musl`` or ``macos``; empty for Windows.
    :param version: the version of the library or of macOS, such as ``2.28``.
    """
    major, minor = map(int, (version or "0.0").split("."))
    if library == "glibc":
        return linux_platforms(architecture, glibc=minor)
    if library == "musl":
        return linux_platforms(architecture, musl=minor)
    if library == "macos":
        machine = "arm64" if architecture == "aarch64" else architecture
        return macos_platforms(machine, major, minor)
    return ("win_arm64" if architecture == "aarch64" else "win_amd64",)


_LINUX = re.compile(r"(?:linux|manylinux1|manylinux20\d\d|(?:many|musl)linux_\d+_\d+)_(.+)")
_MACOS = re.compile(r"macosx_\d+_\d+_(.+)")
_WINDOWS: Final = {"win32": "x86", "win_amd64": "AMD64", "win_arm64": "ARM64"}


def platform_values(tag: str) -> dict[str, str]:
    """Return the marker values that a platform tag implies; empty for an unknown one.

    :param tag: the best platform tag of the target, such as ``manylinux_2_28_aarch64``.
    """
    if linux := _LINUX.fullmatch(tag):
        return _platform("posix", "linux", "Linux", linux[1])
    if macos := _MACOS.fullmatch(tag):
        return _platform("posix", "darwin", "Darwin", macos[1])
    if tag in _WINDOWS:
        return _platform("nt", "win32", "Windows", _WINDOWS[tag])
    return {}


def _platform(os_name: str, sys_platform: str, system: str, machine: str) -> dict[str, str]:
    return {
        "os_name": os_name,
        "platform_machine": machine,
        "platform_release": "",  # unknown, which is an empty string in markers
        "platform_system": system,
        "platform_version": "",
        "sys_platform": sys_platform,
    }


_IMPLEMENTATIONS: Final = {
    "cpython": "CPython",
    "graalpy": "GraalVM",
    "ironpython": "IronPython",
    "jython": "Jython",
    "pypy": "PyPy",
}


def interpreter_values(implementation: str, version: Version) -> dict[str, str]:
    """Return the marker values that an interpreter implies."""
    full = f"{version.major}.{version.minor}.{version.micro}"
    full += "".join(map(str, version.pre or ()))
    return {
        "implementation_name": implementation,
        "implementation_version": full,
        "platform_python_implementation": _IMPLEMENTATIONS.get(implementation, implementation),
        "python_full_version": full,
        "python_version": f"{version.major}.{version.minor}",
    }
