"""Descriptions of incompatible wheel tags, which show only the parts that differ.

As ``built for cp312 on Windows x86_64, this is cp311 on Linux x86_64``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.words import natural_sort_key
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packaging.tags import Tag

    from wheelfit.core.target import TagPreference


class TagPhrases:
    """Descriptions of the tags of wheels in comparison with a target."""

    def __init__(self, target: TagPreference) -> None:
        self._python = _python(target.tags[0]) if target.tags else None
        self._pythons = {(tag.interpreter, tag.abi) for tag in target.tags}
        # In order, for the first one is the closest description of the target.
        self._platforms = dict.fromkeys(tag.platform for tag in target.tags)
        self._phrases: dict[frozenset[Tag], str] = {}

    def why_none_fits(self, tags: frozenset[Tag]) -> str:
        """Return the reason no tag of a wheel fits."""
        words = self._phrases.get(tags)
        if words is None:
            words = self._phrases[tags] = f"no wheel tag fits: {self._compare(tags)}"
        return words

    def _compare(self, tags: frozenset[Tag]) -> str:
        target_python = self._python
        if target_python is None:
            return "the target has no known tags"
        python_fits = any((tag.interpreter, tag.abi) in self._pythons for tag in tags)
        platform_fits = any(tag.platform in self._platforms for tag in tags)
        built = listed(pythons_in_words(tags), "or")
        if platform_fits and not python_fits:
            return f"built for {built}, this is {target_python}"
        built_on = listed(platforms_in_words(tags), "or")
        target_platform = _system(next(iter(self._platforms)))[0]
        if python_fits and not platform_fits:
            if built_on == target_platform:  # the same system, but too new a version of it
                return f"built for {target_platform} with {self._versions(tags)}"
            return f"built for {built_on}, this is {target_platform}"
        return f"built for {built} on {built_on}, this is {target_python} on {target_platform}"

    def _versions(self, tags: frozenset[Tag]) -> str:
        """Return the required and the actual version of the system or C library."""
        wanted = sorted({_system(tag.platform)[1] for tag in tags}, key=natural_sort_key)
        versions = [_system(platform)[1] for platform in self._platforms]
        actual = max((version for version in versions if version), key=natural_sort_key, default="")
        return f"{wanted[0]} or newer, this has {actual or 'another'}"


def pythons_in_words(tags: Iterable[Tag]) -> tuple[str, ...]:
    """Return the Pythons of tags, each once."""
    return tuple(sorted({_python(tag) for tag in tags}, key=natural_sort_key))


def platforms_in_words(tags: Iterable[Tag]) -> tuple[str, ...]:
    """Return the platforms of tags, each once."""
    return tuple(sorted({_system(tag.platform)[0] for tag in tags}, key=natural_sort_key))


def _python(tag: Tag) -> str:
    if tag.abi in ("none", tag.interpreter):
        return tag.interpreter
    if tag.abi == "abi3":
        return f"{tag.interpreter} and newer (abi3)"
    if tag.abi.startswith(tag.interpreter):  # cp313t: free-threaded, cp38m, cp313d
        return tag.abi
    return f"{tag.interpreter} ({tag.abi})"


_LINUX = re.compile(r"(manylinux|musllinux)_(\d+)_(\d+)_(\w+)")
_OLD_LINUX = re.compile(r"(manylinux1|manylinux2010|manylinux2014|linux)_(\w+)")
_MACOS = re.compile(r"macosx_(\d+)_(\d+)_(\w+)")
_WINDOWS = {"win32": "x86", "win_amd64": "x86_64", "win_arm64": "arm64"}
_GLIBC = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}


def _system(platform: str) -> tuple[str, str]:
    """Return system and machine in words, and the required version; empty: any.

    :param platform: as ``manylinux_2_28_x86_64``.
    """
    if platform == "any":
        return "any platform", ""
    if platform in _WINDOWS:
        return f"Windows {_WINDOWS[platform]}", ""
    if match := _LINUX.fullmatch(platform):
        kind, major, minor, machine = match.groups()
        if kind == "musllinux":
            return f"Linux {machine} (musl)", f"musl {major}.{minor}"
        return f"Linux {machine}", f"glibc {major}.{minor}"
    if match := _OLD_LINUX.fullmatch(platform):
        kind, machine = match.groups()
        return f"Linux {machine}", f"glibc {_GLIBC[kind]}" if kind in _GLIBC else ""
    if match := _MACOS.fullmatch(platform):
        major, minor, machine = match.groups()
        return f"macOS {machine}", f"macOS {major}.{minor}"
    return platform, ""
