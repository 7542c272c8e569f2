"""The files of a folder from which an index is generated."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING

from wheelfit_runtime.errors import FileProblem, os_reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TypeAlias


_PROVENANCE = ".provenance"
"""Suffix of the provenance of a file (PEP 740), published unchanged."""
_YANKED = ".yanked"
"""Suffix of the reason why a file or a release is yanked (PEP 592)."""

ARCHIVES = (".whl", ".tar.gz", ".zip")

Signature: TypeAlias = "tuple[int, int, int, int, int]"
"""Device, inode, size, and the times of the last changes of content and status of a file."""


@dataclass(frozen=True, slots=True)
class CollectedFile:
    """A file of the folder."""

    path: Path
    name: str
    """Path below the folder, with ``/``."""
    signature: Signature

    @property
    def filename(self) -> str:
        """The name without folders."""
        return self.name.rpartition("/")[2]

    @property
    def size(self) -> int:
        """Bytes."""
        return self.signature[2]

    @property
    def modified(self) -> int:
        """The time of the last change of the content, in nanoseconds since 1970."""
        return self.signature[3]

    def reread(self) -> CollectedFile:
        """Return the file in its present state."""
        try:
            return CollectedFile(self.path, self.name, _signature(self.path.stat()))
        except OSError as error:
            raise unreadable_file(self.path, error) from error


@dataclass(frozen=True, slots=True)
class CollectedFiles:
    """The files of a folder, sorted by path."""

    archives: tuple[CollectedFile, ...] = ()
    """Wheels, recognized by their suffix alone, and source distributions."""
    index_files: tuple[CollectedFile, ...] = ()
    """Existing files named as ``torch-2.8.0-variants.json``."""
    provenance: Mapping[str, CollectedFile] = field(default_factory=dict)
    """By the path of the file that it is about."""
    yanked: Mapping[str, CollectedFile] = field(default_factory=dict)
    """By the path of the file, or by a release as ``torch-2.8.0``."""
    misnamed: tuple[str, ...] = ()
    """Archives that are not named as source distributions."""
    newer_format: tuple[str, ...] = ()
    """Wheels of a newer format."""


def collect(folder: Path, *, excluded: frozenset[Path] = frozenset()) -> CollectedFiles:
    """Collect the files of a folder and its subfolders, hidden ones excepted.

    :raises FileProblem: a folder cannot be read.
    """
    from wheelfit.core.filename import is_newer_format, parse_index_file_name, release_of

    archives: list[CollectedFile] = []
    index_files: list[CollectedFile] = []
    misnamed: list[str] = []
    newer_format: list[str] = []
    provenance: dict[str, CollectedFile] = {}
    yanked: dict[str, CollectedFile] = {}
    for file in walk(folder, excluded=excluded):
        name = file.name
        if name.endswith(_PROVENANCE):
            provenance[name.removesuffix(_PROVENANCE)] = file
        elif name.endswith(_YANKED):
            target = name.removesuffix(_YANKED)
            yanked[target if target.endswith(ARCHIVES) else target.rpartition("/")[2]] = file
        elif name.endswith(".whl") or (name.endswith(ARCHIVES) and release_of(file.filename)):
            archives.append(file)
        elif name.endswith(ARCHIVES):
            misnamed.append(name)
        elif is_newer_format(name):
            newer_format.append(name)
        elif parse_index_file_name(file.filename) is not None:
            index_files.append(file)
    return CollectedFiles(
        tuple(archives),
        tuple(index_files),
        provenance,
        yanked,
        tuple(misnamed),
        tuple(newer_format),
    )


_COLLECTED_SUFFIXES = (*ARCHIVES, ".whlx", _PROVENANCE, _YANKED, ".json")


def walk(
    folder: Path, *, excluded: frozenset[Path] = frozenset(), prefix: str = ""
) -> Iterator[CollectedFile]:
    """Yield the files that may matter, sorted in each folder; their names start with a prefix."""
    if folder in excluded:
        return
    try:
        with os.scandir(folder) as entries:
            listed = sorted((entry.name, entry.path) for entry in entries)
    except OSError as error:
        raise unreadable_file(folder, error) from error
    for name, path in listed:
        if name.startswith("."):
            continue
        try:
            status = os.stat(path)  # noqa: PTH116 - thousands of them, and links are followed
        except OSError:
            continue  # a dangling link, or the file was just removed
        if S_ISDIR(status.st_mode):
            yield from walk(Path(path), excluded=excluded, prefix=f"{prefix}{name}/")
        elif S_ISREG(status.st_mode) and name.endswith(_COLLECTED_SUFFIXES):
            yield CollectedFile(Path(path), f"{prefix}{name}", _signature(status))


def _signature(status: os.stat_result) -> Signature:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def unreadable_file(path: Path, error: OSError) -> FileProblem:
    """Return the error for a file or folder that cannot be read."""
    return FileProblem(f"the file cannot be read: {os_reason(error)}", where=str(path))
