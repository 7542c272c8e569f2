"""The files to publish, and their order."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from enum import IntEnum
from glob import escape
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.building.index_file import combined_index_file, read_wheel_document
from wheelfit.checking.pages import ListedRelease, listed_releases
from wheelfit.core import index_metadata
from wheelfit.core.filename import (
    NEWER_FORMAT,
    index_file_name,
    is_newer_format,
    parse_index_file_name,
    sdist_release,
    wheel_filename_of,
)
from wheelfit.errors import reporting_os_errors
from wheelfit.sources.progress import NO_PROGRESS, Progress
from wheelfit_runtime.errors import FileProblem, os_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.core.filename import Release
    from wheelfit.core.labels import Label
    from wheelfit.sources.page import File


ATTESTATION = ".publish.attestation"
"""Suffix of a file with an attestation (PEP 740) of the file that is named before it."""
_CHUNK_SIZE = 1 << 20


class FileKind(IntEnum):
    """The kind of a file; smaller numbers are published first (B-52)."""

    SOURCE = 0
    """A source distribution."""
    PLAIN = 1
    """A wheel without label, which every installer takes."""
    VARIANT = 2
    """A wheel with a label."""


@dataclass(frozen=True, slots=True)
class OutgoingFile:
    """A file to publish."""

    path: Path
    kind: FileKind
    release: Release
    size: int
    sha256: str
    label: Label | None = None
    attestations: tuple[Path, ...] = ()
    """The files with its attestations."""

    @property
    def filename(self) -> str:
        """The file name in the index."""
        return self.path.name


@dataclass(frozen=True, slots=True)
class ReleaseSet:
    """The files that were named, and those among them to publish."""

    files: tuple[OutgoingFile, ...]
    """In the order in which they are published."""
    index_files: tuple[Path, ...] = ()
    """``-variants.json`` files; their expected content follows from the wheels."""
    invalid_names: tuple[Path, ...] = ()
    """Wheels with invalid names; they cannot be published."""

    @property
    def releases(self) -> tuple[Release, ...]:
        """The releases of the files, sorted."""
        return tuple(sorted({file.release for file in self.files}))

    @property
    def checked(self) -> tuple[Path, ...]:
        """The files that `wheelfit check` reads: all but source distributions."""
        wheels = (file.path for file in self.files if file.kind is not FileKind.SOURCE)
        return (*wheels, *self.index_files, *self.invalid_names)

    def of(self, release: Release) -> tuple[OutgoingFile, ...]:
        """Return the files of a release."""
        return tuple(file for file in self.files if file.release == release)


def release_groups(files: Iterable[OutgoingFile]) -> dict[Release, list[OutgoingFile]]:
    """Group files by release, in their order."""
    groups: dict[Release, list[OutgoingFile]] = {}
    for file in files:
        groups.setdefault(file.release, []).append(file)
    return groups


def collect_files(named: Sequence[Path], progress: Progress = NO_PROGRESS) -> ReleaseSet:
    """Collect the named files, and hash them.

    :param named: files, and folders that are searched with all subfolders for wheels and source
        distributions.
    :raises FileProblem: a file is missing, cannot be published, or differs from another one of its
        name.
    """
    index_files: list[Path] = []
    archives: list[Path] = []
    for path in dict.fromkeys(chain.from_iterable(map(_publishable_files, named))):
        is_index_file = parse_index_file_name(path.name) is not None
        (index_files if is_index_file else archives).append(path)
    progress.start(sum(path.stat().st_size for path in archives))
    files: dict[str, OutgoingFile] = {}
    invalid_names = []
    for path in archives:
        identity = _read_filename(path)
        if identity is None:
            invalid_names.append(path)
            continue
        sha256, size = _hash_file(path, progress.advance)
        kind, release, label = identity
        file = OutgoingFile(path, kind, release, size, sha256, label, _attestations(path))
        other = files.setdefault(path.name.casefold(), file)
        if (other.filename, other.sha256) != (file.filename, file.sha256):
            raise FileProblem(
                f"two files have one name: {other.path} and {path}",
                where=str(path),
                hint="name one of them",
            )
    progress.done()
    if not files and not invalid_names:
        raise FileProblem(
            "no wheels or source distributions found",
            where=", ".join(map(str, named)),
            hint="name wheels and source distributions, or a folder of them",
        )
    ordered = sorted(files.values(), key=attrgetter("release", "kind", "filename"))
    return ReleaseSet(tuple(ordered), tuple(index_files), tuple(invalid_names))


def _publishable_files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from _publishable_files_below(path)
    elif not path.is_file():
        raise FileProblem(
            "the file or folder does not exist",
            where=str(path),
            hint="name files or folders that exist; `wheelfit build` writes wheels",
        )
    elif _is_publishable(path.name):
        yield path
    # Attestations are skipped without an error: a shell pattern such as dist/* names them too.
    elif not path.name.endswith(ATTESTATION):
        raise FileProblem(
            "the file is neither a wheel nor a source distribution",
            where=str(path),
            hint="name wheels, source distributions, and folders of them",
        )


def _publishable_files_below(folder: Path) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        where = str(error.filename or folder)
        raise FileProblem(f"the folder cannot be read: {os_reason(error)}", where=where) from error

    for root, folders, names in os.walk(folder, onerror=fail):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(root, name)
            if not name.startswith(".") and _is_publishable(name) and path.is_file():
                yield path


def _is_publishable(name: str) -> bool:
    if is_newer_format(name):
        raise FileProblem(NEWER_FORMAT, where=name)
    is_wheel = name.endswith(".whl")
    return is_wheel or parse_index_file_name(name) is not None or sdist_release(name) is not None


def _read_filename(path: Path) -> tuple[FileKind, Release, Label | None] | None:
    if (source := sdist_release(path.name)) is not None:
        return FileKind.SOURCE, source, None
    name = wheel_filename_of(path.name)
    if name is None:
        return None
    kind = FileKind.PLAIN if name.label is None else FileKind.VARIANT
    return kind, (name.name, name.version), name.label


def _attestations(path: Path) -> tuple[Path, ...]:
    return tuple(sorted(path.parent.glob(f"{escape(path.name)}*{ATTESTATION}")))


def _hash_file(path: Path, advance: Callable[[int], None]) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    with reporting_os_errors("the file cannot be read", where=str(path)), path.open("rb") as file:
        while piece := file.read(_CHUNK_SIZE):
            digest.update(piece)
            size += len(piece)
            advance(len(piece))
    return digest.hexdigest(), size


def index_files_of(
    outgoing: ReleaseSet,
    listings: Mapping[NormalizedName, Sequence[File]],
    read_document: Callable[[File], bytes | None],
) -> dict[Release, bytes]:
    """Combine the documents of all variant wheels of each release (B-50).

    :param read_document: returns the document of a listed wheel; None if it has none.
    :raises InvalidWheel: a wheel has no document, or an invalid one, or their combined document
        cannot be written.
    """
    index_files = {}
    for release in outgoing.releases:
        local_wheels = [file for file in outgoing.of(release) if file.kind is FileKind.VARIANT]
        documents = {wheel.filename: read_wheel_document(wheel.path) for wheel in local_wheels}
        for listed_file, name in _listed(release, listings).wheels:
            where = listed_file.filename
            if name.label is not None and where not in documents:
                data = read_document(listed_file)
                documents[where] = index_metadata.read_wheel_document(data, name.label, where=where)
        if documents:
            index_files[release] = combined_index_file(list(documents.items()))
    return index_files


def new_index_files(
    index_files: Mapping[Release, bytes], listings: Mapping[NormalizedName, Sequence[File]]
) -> dict[Release, bytes]:
    """Return the index files that an index does not have yet."""
    new = {}
    for release, data in index_files.items():
        listed_files = {
            (file.filename, file.hashes.get("sha256"))
            for file in _listed(release, listings).index_files
        }
        if (index_file_name(*release), hashlib.sha256(data).hexdigest()) not in listed_files:
            new[release] = data
    return new


def _listed(release: Release, listings: Mapping[NormalizedName, Sequence[File]]) -> ListedRelease:
    return listed_releases(listings.get(release[0], ())).get(release, ListedRelease())
