"""One project of an index as a repository has it, read without a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.server.index import Content
from wheelfit.sources.progress import NO_PROGRESS
from wheelfit.sources.repository import READ_LIMIT, TooCostly
from wheelfit.sources.size import FileSize
from wheelfit.wheels.archive import WheelArchive
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.server.index import Index
    from wheelfit.sources.page import File, ProjectPage
    from wheelfit.sources.progress import Progress
    from wheelfit.wheels.unpacked import UnpackedWheel


class IndexFiles:
    """Read small things of the files of one project: a `Repository`.

    Nothing is fetched from elsewhere, and nothing is put on a disk: pages for people do without.

    :param index: has the files.
    :param page: the project as it was when the page was begun; there is no other here.
    :param reads_wheels: whether parts of wheels may be read, because they are at hand. A mirror
        would fetch them, gigabytes for the sake of a line.
    """

    name = "this index"

    def __init__(self, index: Index, page: ProjectPage, *, reads_wheels: bool) -> None:
        self._index = index
        self._reads_wheels = reads_wheels
        self._page = page

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of the project, or None of any other."""
        return self._page if name == self._page.name else None

    def read(self, file: File, *, limit: int = READ_LIMIT) -> bytes:
        """Return the content of a small file.

        :raises FileProblem: it is not here, or too long.
        """
        return self._read(file.filename, limit)

    def metadata(self, file: File) -> bytes:
        """Return the METADATA of a wheel.

        :raises FileProblem: it is not here.
        :raises InvalidWheel: the wheel is not sound.
        """
        if file.metadata_hashes is not None:
            return self._read(f"{file.filename}.metadata", READ_LIMIT)
        if not self._reads_wheels:
            _refuse(file)
        with self._open(file) as wheel:
            return wheel.metadata()

    def variant_document(self, file: File) -> bytes | None:
        """Return the ``variant.json`` inside a variant wheel.

        :raises FileProblem: it is not here.
        :raises TooCostly: wheels are not read.
        :raises InvalidWheel: the wheel is not sound.
        """
        if not parse_wheel_filename(file.filename).is_variant:  # F-10
            return None
        if not self._reads_wheels:
            raise TooCostly("no wheel is read for a page", where=file.filename)
        with self._open(file) as wheel:
            return wheel.variant_document()

    def size(self, file: File, *, unpacked: bool = False) -> FileSize:
        """Return what is listed."""
        del unpacked
        return FileSize(file.size)

    def download(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> Path:
        """Refuse to."""
        del folder, progress
        _refuse(file)

    def unpacked(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> UnpackedWheel:
        """Refuse to."""
        del folder, progress
        _refuse(file)

    def _open(self, file: File) -> WheelArchive:
        filename = parse_wheel_filename(file.filename)
        return WheelArchive(_Bytes(self._content(file.filename)), filename, where=file.filename)

    def _read(self, name: str, limit: int) -> bytes:
        content = self._content(name)
        if content.size > limit:
            raise FileProblem(f"it has more than {limit} bytes", where=name)
        return b"".join(content.parts(0, content.size))

    def _content(self, name: str) -> Content:
        content = self._index.content(name)
        if not isinstance(content, Content):
            why = "it is listed and not there" if content is None else "it is on another server"
            raise FileProblem(why, where=name)
        return content


class _Bytes:
    """Read content by position: a `ByteSource`."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self.size = content.size
        """Bytes of the whole file."""

    def read_at(self, start: int, length: int, /) -> bytes:
        """Return bytes, fewer only where the file ends."""
        stop = min(start + length, self.size)
        return b"".join(self._content.parts(start, stop)) if start < stop else b""

    def close(self) -> None:
        """Do nothing: every reading opens what it needs."""


def _refuse(file: File) -> NoReturn:
    raise FileProblem("no wheel is fetched for a page", where=file.filename)
