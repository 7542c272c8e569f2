"""Readers of files, from which repositories are put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.sources.local_files import LocalFiles
from wheelfit.sources.progress import NO_PROGRESS, Progress
from wheelfit.sources.repository import READ_LIMIT, Content, FileSize, TooCostly
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.sources.page import File, ProjectPage
    from wheelfit.sources.repository import Files, Repository
    from wheelfit.sources.wheel_store import WheelStore
    from wheelfit.wheels.bytes_source import ByteSource
    from wheelfit.wheels.unpacked import UnpackedWheel


class DelegatedFiles:
    """A mixin for repositories that read files with another reader: ``Files``.

    :param files: reads all files, unless a subclass chooses by file (`_reader`).
    """

    def __init__(self, files: Files) -> None:
        self._files = files

    def read(self, file: File, *, limit: int = READ_LIMIT) -> bytes:
        """Return the content of a small file."""
        return self._reader(file).read(file, limit=limit)

    def metadata(self, file: File) -> bytes:
        """Return the METADATA of a wheel."""
        return self._reader(file).metadata(file)

    def variant_document(self, file: File) -> bytes | None:
        """Return the ``variant.json`` inside a variant wheel."""
        return self._reader(file).variant_document(file)

    def size(self, file: File, *, unpacked: bool = False) -> FileSize:
        """Return the size of a wheel."""
        return self._reader(file).size(file, unpacked=unpacked)

    def open(self, file: File) -> ByteSource:
        """Return the bytes of a wheel."""
        return self._reader(file).open(file)

    def download(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> Path:
        """Put the whole file into a folder."""
        return self._reader(file).download(file, folder, progress)

    def unpacked(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> UnpackedWheel:
        """Return a wheel unpacked and verified."""
        return self._reader(file).unpacked(file, folder, progress)

    def _reader(self, file: File) -> Files:
        """Return the reader of a file."""
        del file
        return self._files


class AllFiles(DelegatedFiles):
    """The reader of local files and of those behind a client: ``Files``.

    :param remote: reads ``http:`` and ``https:`` files; None if none are expected.
    :param wheels: keeps unpacked wheels; None keeps none.
    """

    def __init__(self, remote: Files | None = None, wheels: WheelStore | None = None) -> None:
        super().__init__(LocalFiles(wheels))
        self._remote = remote

    def _reader(self, file: File) -> Files:
        if file.is_local:
            return self._files
        if self._remote is None:
            raise FileProblem("the file is not on this machine", where=file.url)
        return self._remote


class RepositoryWrapper(DelegatedFiles):
    """A repository that forwards all calls to another; subclasses change some of them."""

    def __init__(self, repository: Repository) -> None:
        super().__init__(repository)
        self._repository = repository
        self.name = repository.name

    def projects(self) -> Iterable[NormalizedName]:
        """Return the names of all projects."""
        return self._repository.projects()

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project, or None if it is not known."""
        return self._repository.project(name)


class SinglePageRepository(DelegatedFiles):
    """A repository of one project, as its page was when it was read."""

    def __init__(self, page: ProjectPage, files: Files) -> None:
        super().__init__(files)
        self._page = page
        self.name = page.source

    def projects(self) -> tuple[NormalizedName, ...]:
        """Return the name of the project."""
        return (self._page.name,)

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of the project; None of any other."""
        return self._page if name == self._page.name else None


class ContentFiles:
    """A mixin for an ``Index`` that reads files through its own `content`: ``Files``.

    Only small files beside wheels are read; no wheel is fetched or opened, since that of a mirror
    may have gigabytes.
    """

    def content(self, filename: str) -> Content | None:
        """Return the bytes of a listed file, see ``Index``."""
        raise NotImplementedError

    def read(self, file: File, *, limit: int = READ_LIMIT) -> bytes:
        """Return the content of a small file.

        :raises FileProblem: the file is missing or too long.
        """
        return self._read_small(file.filename, limit)

    def metadata(self, file: File) -> bytes:
        """Return the METADATA of a wheel.

        :raises FileProblem: the index has no METADATA beside the wheel.
        """
        if file.metadata_hashes is None:
            _refuse(file)
        return self._read_small(f"{file.filename}.metadata", READ_LIMIT)

    def variant_document(self, file: File) -> bytes | None:
        """Return None for a plain wheel.

        :raises TooCostly: the wheel is a variant.
        """
        if not parse_wheel_filename(file.filename).is_variant:  # F-10
            return None
        raise TooCostly("an index does not read wheels for its pages", where=file.filename)

    def size(self, file: File, *, unpacked: bool = False) -> FileSize:
        """Return the size that is listed."""
        del unpacked
        return FileSize(file.size)

    def open(self, file: File) -> ByteSource:
        """Raise ``FileProblem``."""
        _refuse(file)

    def download(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> Path:
        """Raise ``FileProblem``."""
        del folder, progress
        _refuse(file)

    def unpacked(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> UnpackedWheel:
        """Raise ``FileProblem``."""
        del folder, progress
        _refuse(file)

    def _read_small(self, name: str, limit: int) -> bytes:
        content = self.content(name)
        if content is None:
            raise FileProblem("the listed file is missing", where=name)
        if content.size > limit:
            raise FileProblem(f"the file has more than {limit} bytes", where=name)
        return b"".join(content.parts(0, content.size))


def _refuse(file: File) -> NoReturn:
    raise FileProblem("an index does not fetch wheels for its pages", where=file.filename)
