"""The files to publish, and their order."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from enum import IntEnum
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.building.index_file import combined_index_file, read_wheel_document
from wheelfit.checking.pages import ListedRelease, sort_files
from wheelfit.core import index_metadata
from wheelfit.core.filename import (
    NEWER_FORMAT,
    index_file_name,
    is_newer_format,
    parse_index_file_name,
    parse_wheel_filename,
    sdist_release,
)
from wheelfit.errors import InvalidFilename
from wheelfit.sources.progress import NO_PROGRESS
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.labels import Label
    from wheelfit.sources.page import File
    from wheelfit.sources.progress import Progress

    Release = tuple[NormalizedName, Version]

ATTESTATION = ".publish.attestation"
"""Behind the name of a file: one attestation about it (PEP 740), as the signing tools name it."""
_BLOCK = 1 << 20


class FileKind(IntEnum):
    """The kind of a file; smaller ones go first (B-52)."""

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
    """Files with attestations of it."""

    @property
    def filename(self) -> str:
        """The name under which it is published."""
        return self.path.name

    @property
    def _place(self) -> tuple[Release, FileKind, str]:
        return (self.release, self.kind, self.filename)


@dataclass(frozen=True, slots=True)
class ReleaseSet:
    """The files that were named, and those among them to publish."""

    files: tuple[OutgoingFile, ...]
    """In the order in which they go."""
    index_files: tuple[Path, ...] = ()
    """``-variants.json`` files; their expected content follows from the wheels."""
    strange: tuple[Path, ...] = ()
    """Wheels with invalid names; they cannot be published."""

    @property
    def releases(self) -> tuple[Release, ...]:
        """The releases that files are of, sorted."""
        return tuple(sorted({file.release for file in self.files}))

    @property
    def checked(self) -> tuple[Path, ...]:
        """The files that `wheelfit check` reads: all but source distributions."""
        wheels = (file.path for file in self.files if file.kind is not FileKind.SOURCE)
        return (*wheels, *self.index_files, *self.strange)

    def of(self, release: Release) -> tuple[OutgoingFile, ...]:
        """Return the files of a release."""
        return tuple(file for file in self.files if file.release == release)


def release_groups(files: Iterable[OutgoingFile]) -> dict[Release, list[OutgoingFile]]:
    """Return files by their release, in the order in which they come."""
    groups: dict[Release, list[OutgoingFile]] = {}
    for file in files:
        groups.setdefault(file.release, []).append(file)
    return groups


def collect(named: Sequence[Path], progress: Progress = NO_PROGRESS) -> ReleaseSet:
    """Collect the named files, and hash them.

    :param named: files, and folders that are searched with all subfolders for wheels and source
        distributions.
    :raises FileProblem: a file is missing, cannot be published, or occurs twice.
    """
    paths = list(dict.fromkeys(path for one in named for path in _found(one)))
    wheels = [path for path in paths if parse_index_file_name(path.name) is None]
    progress.start(sum(path.stat().st_size for path in wheels))
    files: dict[str, OutgoingFile] = {}
    strange = []
    for path in wheels:
        known = _known(path)
        if known is None:
            strange.append(path)
            continue
        sha256, size = _digest(path, progress.advance)
        kind, release, label = known
        one = OutgoingFile(path, kind, release, size, sha256, label, tuple(_attestations(path)))
        other = files.setdefault(path.name.casefold(), one)
        if (other.filename, other.sha256) != (one.filename, one.sha256):
            raise FileProblem(
                f"two files have one name: {other.path} and {path}",
                where=str(path),
                hint="name one of them",
            )
    progress.done()
    if not files and not strange:
        raise FileProblem(
            "no files to publish",
            where=", ".join(map(str, named)),
            hint="name wheels and source distributions, or a folder of them",
        )
    ordered = sorted(files.values(), key=lambda file: file._place)  # noqa: SLF001 - its own
    index_files = tuple(path for path in paths if parse_index_file_name(path.name) is not None)
    return ReleaseSet(tuple(ordered), index_files, tuple(strange))


def _found(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from _in_folder(path)
    elif not path.is_file():
        raise FileProblem("the file or folder does not exist", where=str(path))
    elif _matters(path.name):
        yield path
    elif not path.name.endswith(ATTESTATION):  # which a pattern of the shell names too
        raise FileProblem(
            "the file is neither a wheel nor a source distribution",
            where=str(path),
            hint="name wheels, source distributions, and folders of them",
        )


def _in_folder(folder: Path) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        where = str(error.filename or folder)
        raise FileProblem(f"the folder cannot be read: {error.strerror}", where=where) from error

    for root, folders, names in os.walk(folder, onerror=fail):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(root, name)
            if not name.startswith(".") and _matters(name) and path.is_file():
                yield path


def _matters(name: str) -> bool:
    if is_newer_format(name):
        raise FileProblem(NEWER_FORMAT, where=name)
    is_wheel = name.endswith(".whl")
    return is_wheel or parse_index_file_name(name) is not None or sdist_release(name) is not None


def _known(path: Path) -> tuple[FileKind, Release, Label | None] | None:
    if (source := sdist_release(path.name)) is not None:
        return FileKind.SOURCE, source, None
    try:
        name = parse_wheel_filename(path.name)
    except InvalidFilename:
        return None
    kind = FileKind.PLAIN if name.label is None else FileKind.VARIANT
    return kind, (name.name, name.version), name.label


def _attestations(path: Path) -> Iterable[Path]:
    return sorted(path.parent.glob(f"{escape(path.name)}*{ATTESTATION}"))


def _digest(path: Path, read: Callable[[int], None]) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while piece := file.read(_BLOCK):
                digest.update(piece)
                size += len(piece)
                read(len(piece))
    except OSError as error:
        raise FileProblem(f"the file cannot be read: {error.strerror}", where=str(path)) from error
    return digest.hexdigest(), size


def index_files_of(
    outgoing: ReleaseSet,
    there: Mapping[NormalizedName, Sequence[File]],
    read: Callable[[File], bytes | None],
) -> dict[Release, bytes]:
    """Combine the documents of all variant wheels of each release (B-50).

    :raises InvalidWheel: a wheel has no document, or an unsound one, or their combined document
        cannot be written.
    """
    found = {}
    for release in outgoing.releases:
        mine = [one for one in outgoing.of(release) if one.kind is FileKind.VARIANT]
        names = {one.filename for one in mine}
        documents = [(one.filename, read_wheel_document(one.path)) for one in mine]
        for file, wheel in _listed(release, there).wheels:
            if wheel.label is not None and file.filename not in names:
                data = read(file)
                where = file.filename
                documents.append(
                    (where, index_metadata.read_wheel_document(data, wheel.label, where=where))
                )
        if documents:
            found[release] = combined_index_file(documents)
    return found


def new_index_files(
    index_files: Mapping[Release, bytes], there: Mapping[NormalizedName, Sequence[File]]
) -> dict[Release, bytes]:
    """Return the index files that an index does not have yet."""
    return {
        release: data
        for release, data in index_files.items()
        if (index_file_name(*release), hashlib.sha256(data).hexdigest())
        not in (
            (file.filename, file.hashes.get("sha256"))
            for file in _listed(release, there).index_files
        )
    }


def _listed(release: Release, there: Mapping[NormalizedName, Sequence[File]]) -> ListedRelease:
    return sort_files(there.get(release[0], ())).get(release, ListedRelease())
