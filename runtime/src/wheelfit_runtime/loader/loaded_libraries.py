"""The shared libraries mapped into this process, and their conflicts with libraries to load.

There are three functions::

    mapped = read_mapped()                             # path, SONAME and build id of each
    wanted = read_library("/store/…/libcudart.so.12")  # the same of a file not loaded yet
    for conflict in find_conflicts([wanted], mapped):  # empty: no conflict
        ...

`conflict.level` is the severity:

========= ==========================================================================
``error`` a mapped library has the same path or the same SONAME, and another content:
          the loader gives the first one to every caller that uses the name, whatever it was
          built for. For the same path: the file was replaced while the process used it.
``warn``  another major of the same family is mapped under other SONAMEs: a program finds
          the library that it is linked to, but a look-up by symbol finds the first one.
(none)    everything else, such as the same library under the same or another path.
========= ==========================================================================

Only Linux lists mapped files; elsewhere `read_mapped` returns nothing and nothing conflicts.
"""
# Paths are the machine's, and `pathlib` takes longer to import than all of this.
# ruff: noqa: PTH116, PTH123

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.elf import read_shared_object
from wheelfit_runtime.platforms.probes.mapped_libraries import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Literal

_MAPS = "/proc/self/maps"
_CHUNK_SIZE = 1 << 20


@dataclass(frozen=True, slots=True)
class Library:
    """One shared library: a file, mapped or not."""

    path: str
    """The path by which the process mapped it."""
    soname: str = ""
    """Its SONAME; empty: it has none, or cannot be read any more."""
    build_id: str = ""
    """The build id from its linker; empty: it has none."""
    replaced: bool = False
    """Whether another file, or none, has its path since it was mapped."""

    @property
    def name(self) -> str:
        """The SONAME, else the name of the file."""
        return self.soname or self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Conflict:
    """The conflict of a library with a mapped one."""

    level: Literal["error", "warn"]
    wanted: Library
    mapped: Library
    reason: str
    """A description of the conflict: a sentence without a final full stop."""


def read_mapped(maps: str = _MAPS) -> tuple[Library, ...]:
    """Return the shared libraries that are mapped, in order of address; none if unknown."""
    try:
        # Not bounded like the reading of other processes: our own maps may be long.
        with open(maps, "rb") as stream:
            text = stream.read().decode("utf-8", "surrogateescape")
    except OSError:
        return ()
    libraries = []
    for file in parse(text):
        if ".so" not in file.name:
            continue  # no library, but for example the program itself
        # Inodes are not compared: for layers of a container, those in this list differ from stat.
        status = None if file.deleted else _status(file.path)
        libraries.append(
            Library(file.path, replaced=True) if status is None else _library(file.path, status)
        )
    return tuple(libraries)


def read_library(path: str) -> Library:
    """Return the description of a file to load; without names if it is not a library."""
    return _library(path, os.stat(path))


def find_conflicts(wanted: Iterable[Library], mapped: Sequence[Library]) -> tuple[Conflict, ...]:
    """Return the conflicts of libraries to load with mapped ones.

    :param wanted: the libraries to load together; they are not compared with each other.
    """
    wanted = tuple(wanted)
    conflicts = [
        conflict
        for library in wanted
        for other in mapped
        if (conflict := _conflict(library, other))
    ]
    conflicts += _other_majors(wanted, mapped)
    return tuple(conflicts)


def is_same_library(library: Library, other: Library) -> bool:
    """Return whether two libraries have the same code, whatever their paths.

    Build ids are compared if both have one, so that a copy with an edited search path is the same;
    else all bytes are compared.
    """
    if library.replaced or other.replaced:
        return False  # the mapped file does not exist any more
    if library.build_id and other.build_id:
        return library.build_id == other.build_id
    status, other_status = _status(library.path), _status(other.path)
    if status is None or other_status is None:
        return False
    if (status.st_dev, status.st_ino) == (other_status.st_dev, other_status.st_ino):
        return True
    return status.st_size == other_status.st_size and _is_same_content(library.path, other.path)


def family_and_major(name: str) -> tuple[str, int] | None:
    """Return the family and major of a library's name; None if the name does not show them.

    >>> family_and_major("libcufft.so.11")
    ('cuda', 12)
    >>> family_and_major("libamdhip64.so.6")
    ('amdhip64', 6)
    >>> family_and_major("libcurand.so.10") is None  # the name in CUDA 12 and in CUDA 13
    True

    :param name: a SONAME, or a file name without folders.
    """
    # Imported late, because of its patterns and tables.
    from wheelfit_runtime.platforms.accelerator_libraries import identify

    library = identify(name)
    if library is None or library.family in {"driver", "openmp", "blas"}:
        return None
    if library.family == "cuda":
        return None if library.cuda_major is None else ("cuda", library.cuda_major)
    first = library.number.partition(".")[0]
    return (library.stem, int(first)) if first else None


_CACHE: dict[tuple[str, int, int, int], Library] = {}
"""A cache of libraries, by path, device, inode and time of change."""


def _library(path: str, status: os.stat_result) -> Library:
    key = (path, status.st_dev, status.st_ino, status.st_mtime_ns)
    library = _CACHE.get(key)
    if library is None:
        try:
            with open(path, "rb") as stream:
                names = read_shared_object(stream)
        except OSError:
            return Library(path)  # not cached: the next attempt may succeed
        library = Library(path, names.soname or "", names.build_id or "")
        _CACHE[key] = library
    return library


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def _conflict(wanted: Library, mapped: Library) -> Conflict | None:
    if wanted.path == mapped.path:
        if not mapped.replaced:
            return None
        reason = f"{wanted.path} was replaced after this process had loaded it"
        return Conflict("error", wanted, mapped, reason)
    # The SONAME of a replaced file is unknown, but its file name is the SONAME, maybe with further
    # parts: libx.so.1.2 has libx.so.1, and libx.so.12 has not.
    has_same_name = wanted.soname and (
        mapped.soname == wanted.soname
        or (mapped.replaced and f"{mapped.name}.".startswith(f"{wanted.soname}."))
    )
    if not has_same_name or is_same_library(wanted, mapped):
        return None
    reason = f"another {wanted.soname} is loaded already: {mapped.path}"
    return Conflict("error", wanted, mapped, reason)


def _other_majors(wanted: Sequence[Library], mapped: Sequence[Library]) -> list[Conflict]:
    """Return a warning for each mapped family and major of which another major is to be loaded."""
    wanted_majors: dict[str, dict[int, Library]] = {}
    for library in wanted:
        if (identity := family_and_major(library.name)) is not None:
            wanted_majors.setdefault(identity[0], {}).setdefault(identity[1], library)
    conflicts: dict[tuple[str, int], Conflict] = {}
    for other in mapped if wanted_majors else ():
        identity = family_and_major(other.name)
        if identity is None or identity in conflicts:
            continue
        family, major = identity
        different = {
            number: library
            for number, library in wanted_majors.get(family, {}).items()
            if number != major
        }
        if different:
            title = {"cuda": "CUDA"}.get(family, family)
            names = " and ".join(map(str, sorted(different)))
            reason = (
                f"{title} {major} is loaded already ({other.path}), and {names} would be loaded too"
            )
            conflicts[identity] = Conflict("warn", next(iter(different.values())), other, reason)
    return list(conflicts.values())


def _is_same_content(path: str, other: str) -> bool:
    try:
        with open(path, "rb") as file, open(other, "rb") as other_file:
            while True:
                piece = file.read(_CHUNK_SIZE)
                if piece != other_file.read(_CHUNK_SIZE):
                    return False
                if not piece:
                    return True
    except OSError:
        return False
