"""What every repository needs to read files: the right reader for each, by its URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.sources.local_files import LocalFiles
from wheelfit.sources.progress import NO_PROGRESS
from wheelfit.sources.repository import READ_LIMIT
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from pathlib import Path

    from wheelfit.sources.page import File
    from wheelfit.sources.progress import Progress
    from wheelfit.sources.repository import Files
    from wheelfit.sources.size import FileSize
    from wheelfit.sources.wheel_store import WheelStore
    from wheelfit.wheels.unpacked import UnpackedWheel


class AllFiles:
    """Read local files here and the others through a client; it implements ``Files``.

    :param remote: reads ``http:`` and ``https:`` files; None if none are expected.
    :param wheels: keeps unpacked wheels; None keeps none.
    """

    def __init__(self, remote: Files | None = None, wheels: WheelStore | None = None) -> None:
        self._local = LocalFiles(wheels)
        self._remote = remote

    def read(self, file: File, *, limit: int = READ_LIMIT) -> bytes:
        """Return the content of a small file."""
        return self._for(file).read(file, limit=limit)

    def metadata(self, file: File) -> bytes:
        """Return the METADATA of a wheel."""
        return self._for(file).metadata(file)

    def variant_document(self, file: File) -> bytes | None:
        """Return the ``variant.json`` inside a variant wheel."""
        return self._for(file).variant_document(file)

    def size(self, file: File, *, unpacked: bool = False) -> FileSize:
        """Return how large a wheel is."""
        return self._for(file).size(file, unpacked=unpacked)

    def download(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> Path:
        """Put the whole file into a folder."""
        return self._for(file).download(file, folder, progress)

    def unpacked(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> UnpackedWheel:
        """Return a wheel unpacked and verified."""
        return self._for(file).unpacked(file, folder, progress)

    def _for(self, file: File) -> Files:
        if file.is_local:
            return self._local
        if self._remote is None:
            raise FileProblem("the file is not on this machine", where=file.url)
        return self._remote


class ReadsFiles:
    """Give a repository the methods that read files.

    :param files: does the reading.
    """

    def __init__(self, files: Files) -> None:
        self._files = files

    def read(self, file: File, *, limit: int = READ_LIMIT) -> bytes:
        """Return the content of a small file."""
        return self._files.read(file, limit=limit)

    def metadata(self, file: File) -> bytes:
        """Return the METADATA of a wheel."""
        return self._files.metadata(file)

    def variant_document(self, file: File) -> bytes | None:
        """Return the ``variant.json`` inside a variant wheel."""
        return self._files.variant_document(file)

    def size(self, file: File, *, unpacked: bool = False) -> FileSize:
        """Return how large a wheel is."""
        return self._files.size(file, unpacked=unpacked)

    def download(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> Path:
        """Put the whole file into a folder."""
        return self._files.download(file, folder, progress)

    def unpacked(self, file: File, folder: Path, progress: Progress = NO_PROGRESS) -> UnpackedWheel:
        """Return a wheel unpacked and verified."""
        return self._files.unpacked(file, folder, progress)
