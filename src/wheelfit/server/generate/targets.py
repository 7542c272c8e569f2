"""Targets of an index: a folder, or another store of files by path.

A target never has a partial file, and pages are written after all files that they name. Paths of
files contain their digest, so that both an old page and a new one name files that exist.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from wheelfit.errors import EnvironmentBusy, LinkRefused
from wheelfit.server.generate.collection import unreadable_file
from wheelfit.server.generate.manifest import MANIFEST
from wheelfit.sources.cache_locks import lock_open_file
from wheelfit.wheels.file_system import NATIVE
from wheelfit.wheels.rooted_folder import RootedFolder
from wheelfit_runtime.errors import FileProblem, os_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wheelfit.sources.progress import Progress


SIMPLE = "simple"
"""The folder of all pages."""
FILES = "files"
"""The folder of a target into which files are copied."""
_STAGING = f"{SIMPLE}/.staging"
_LOCK = f"{SIMPLE}/.lock"
_MAX_PAGE_SIZE = 1 << 30
"""Bytes of the largest page that is read."""
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file of an index, apart from its pages."""

    path: str
    """Below the target, with ``/``."""
    sha256: str
    size: int
    source: Path | Callable[[], bytes]
    """The file with the bytes, or a function that returns them."""


class Target(Protocol):
    """A place for the files of an index.

    Each method may raise ``FileProblem``, or ``StorageUnavailable`` for remote targets. After an
    error, or the end of the process at any moment, every file is whole: the old or the new one.
    """

    name: str
    """The name in messages, without credentials."""

    def lock(self) -> AbstractContextManager[None]:
        """Lock the target for a ``with`` block that contains all operations.

        :raises EnvironmentBusy: another process publishes there.
        """

    def page_lock(self) -> AbstractContextManager[None]:
        """Lock it for a ``with`` block in which pages are replaced.

        :raises EnvironmentBusy: another process publishes there.
        """

    def read(self, path: str) -> bytes | None:
        """Return a small file; None if there is none."""

    def fetch(self, path: str, destination: Path) -> bool:
        """Copy a file of any size out of the target; return False if it does not exist."""

    def missing(
        self, files: Sequence[PublishedFile], written: Iterable[tuple[str, str]]
    ) -> list[PublishedFile]:
        """Return those of the files that are missing.

        :param written: paths and digests of the files that earlier runs put there.
        """

    def put_files(self, files: Sequence[PublishedFile], progress: Progress) -> None:
        """Write files durably."""

    def put_pages(self, pages: Sequence[tuple[str, bytes]]) -> None:
        """Write small files, in this order."""

    def has_page(self, path: str, sha256: str) -> bool:
        """Return whether a page exists, or True where checking takes too long."""

    def remove(self, paths: Iterable[str]) -> None:
        """Remove those of the files that exist."""


class FolderTarget:
    """An index in a folder: a `Target`. No link inside the folder is followed.

    :param folder: created if it is missing; may itself be a link.
    """

    def __init__(self, folder: Path) -> None:
        self.name = str(folder)
        self._folder = folder
        self._locked_folder: RootedFolder | None = None
        self._staged_count = 0

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder, and remove leftovers of a killed process.

        :raises LinkRefused: a folder of the index is a link.
        """
        pages = self._folder / SIMPLE
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            root = RootedFolder(self._folder)
        except OSError as error:
            raise _write_error(pages, error) from error
        with root:
            try:
                root.make_folders(SIMPLE)
                if not root.exists(MANIFEST):
                    self._refuse_foreign(pages, root.names(SIMPLE))
                _refuse_links(root)
            except OSError as error:
                raise _write_error(pages, error) from error
            with _locked(root) as is_held:
                if not is_held:
                    raise EnvironmentBusy(
                        "another process is publishing to this target",
                        where=str(self._folder),
                        hint="try again when it has finished",
                    )
                self._clear(root)
                self._locked_folder = root
                try:
                    yield
                finally:
                    self._locked_folder = None
                    self._clear(root)

    def _clear(self, root: RootedFolder) -> None:
        """Remove staged files, of this process or a killed one."""
        self._staged_count = 0
        with suppress(OSError):
            root.remove_tree(_STAGING)

    @staticmethod
    def _refuse_foreign(pages: Path, names: Sequence[str]) -> None:
        """Raise if the pages are foreign, and not left by a run killed before its manifest."""
        if ".lock" not in names and not all(name.startswith(".") for name in names):
            raise FileProblem(
                "the folder has pages that wheelfit has not generated",
                where=str(pages),
                hint="remove them, or name another folder with --to",
            )

    @property
    def _root(self) -> RootedFolder:
        if self._locked_folder is None:
            raise ValueError("the target is not locked")
        return self._locked_folder

    def _opened(self) -> AbstractContextManager[RootedFolder]:
        """Return the folder, opened to read it; a locked one stays open."""
        if self._locked_folder is not None:
            return nullcontext(self._locked_folder)
        return RootedFolder(self._folder)

    def page_lock(self) -> AbstractContextManager[None]:
        """Return a context without effect: the folder is locked already."""
        return nullcontext()

    def read(self, path: str) -> bytes | None:
        """Return a small file; None if there is none.

        :raises LinkRefused: it or a folder above it is a link.
        """
        try:
            with self._opened() as root:
                return root.read(path, _MAX_PAGE_SIZE)
        except LinkRefused:
            raise
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None  # also for a path that leads out of the folder
        except OSError as error:
            raise unreadable_file(self._folder / path, error) from error

    def fetch(self, path: str, destination: Path) -> bool:
        """Copy a file of any size out of the folder; return False if it does not exist.

        :raises LinkRefused: it or a folder above it is a link.
        """
        import shutil

        try:
            with (
                self._opened() as root,
                open(root.open(path), "rb") as file,  # noqa: PTH123 - by its handle
                destination.open("wb") as copy,
            ):
                shutil.copyfileobj(file, copy)
        except LinkRefused:
            raise
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return False  # also for a path that leads out of the folder
        except OSError as error:
            message = f"the file cannot be copied: {os_reason(error)}"
            raise FileProblem(message, where=str(self._folder / path)) from error
        return True

    def missing(
        self, files: Sequence[PublishedFile], written: Iterable[tuple[str, str]]
    ) -> list[PublishedFile]:
        """Return those of the files that are missing, as found in the folder."""
        del written
        return [file for file in files if not self._has(file)]

    def _has(self, file: PublishedFile) -> bool:
        try:
            status = self._root.lstat(file.path)
        except (OSError, ValueError):
            return False
        if not stat.S_ISREG(status.st_mode) or status.st_size != file.size:
            return False
        if file.sha256[:16] in file.path:
            return True  # no file with other content has this path
        with open(self._root.open(file.path), "rb") as content:  # noqa: PTH123 - by its handle
            return hashlib.file_digest(content, "sha256").hexdigest() == file.sha256

    def has_page(self, path: str, sha256: str) -> bool:
        """Return whether a page exists unchanged."""
        try:
            data = self.read(path)
        except LinkRefused:
            return False  # the error is raised when it is written
        return data is not None and hashlib.sha256(data).hexdigest() == sha256

    def put_files(self, files: Sequence[PublishedFile], progress: Progress) -> None:
        """Write files; copies share their bytes with the source if the file system can do that."""
        self._check_links(file.path for file in files)
        staged: list[tuple[str, str]] = []
        progress.start(sum(file.size for file in files))
        for file in files:
            temporary = self._stage(file.source if isinstance(file.source, Path) else file.source())
            staged.append((temporary, file.path))
            progress.advance(file.size)
        self._commit(staged)
        progress.done()

    def put_pages(self, pages: Sequence[tuple[str, bytes]]) -> None:
        """Write small files, in this order."""
        self._check_links(path for path, _ in pages)
        self._commit([(self._stage(data), path) for path, data in pages])

    def _check_links(self, paths: Iterable[str]) -> None:
        """Raise ``LinkRefused`` for a link above a file, before the first file is written."""
        for folder in {path.rpartition("/")[0] for path in paths} - {""}:
            try:
                self._root.handle(folder)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise _write_error(self._folder / folder, error) from error

    def _stage(self, source: Path | bytes) -> str:
        """Write a file below the staging folder; return its path."""
        root = self._root
        try:
            if not self._staged_count:
                root.make_folder(_STAGING)
            self._staged_count += 1
            temporary = f"{_STAGING}/{self._staged_count}"
            if isinstance(source, Path):
                _copy(source, root, temporary)
            else:
                root.write(temporary, source)
        except OSError as error:
            raise _write_error(self._folder / _STAGING, error) from error
        return temporary

    def _commit(self, staged: Sequence[tuple[str, str]]) -> None:
        """Rename files to their final names, once their bytes are on the disk."""
        if not staged:
            return
        root = self._root
        try:
            NATIVE.sync_tree(self._folder / _STAGING)
            parents: set[str] = set()
            for temporary, path in staged:
                parent = path.rpartition("/")[0]
                if parent not in parents:
                    if parent:
                        root.make_folders(parent)
                    parents.add(parent)
                root.replace(temporary, path)
            for folder in parents:
                root.sync_folder(folder)
        except OSError as error:
            raise _write_error(self._folder, error) from error

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files, and folders that are empty then."""
        root = self._root
        for path in paths:
            try:
                root.remove_file(path)
            except FileNotFoundError:
                pass
            except NotADirectoryError:
                continue
            except OSError as error:
                raise _write_error(self._folder / path, error) from error
            folder = path.rpartition("/")[0]
            if folder:
                with suppress(OSError):
                    root.remove_folder(folder)


def _refuse_links(root: RootedFolder) -> None:
    """Raise if the folder of a project is a link, before anything is changed."""
    with os.scandir(root.handle(SIMPLE)) as entries:
        for entry in entries:
            if entry.is_symlink() and not entry.name.startswith((".", "index.")):
                raise LinkRefused(
                    "the folder of a project is a link, which is not followed",
                    where=root.path_of(f"{SIMPLE}/{entry.name}"),
                    hint="remove the link",
                )


def _copy(source: Path, root: RootedFolder, name: str) -> None:
    """Copy a file into a folder; both share their bytes if the file system can do that."""
    with source.open("rb") as reading:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        with open(root.open(name, flags), "wb") as writing:  # noqa: PTH123 - by its handle
            if sys.platform == "linux":
                from wheelfit.wheels.system_calls import share_bytes  # imports ctypes

                with suppress(OSError):  # an error of the disk is raised by the copy below
                    share_bytes(reading.fileno(), writing.fileno())
                    return
            import shutil

            shutil.copyfileobj(reading, writing, _PIECE)


@contextmanager
def _locked(root: RootedFolder) -> Iterator[bool]:
    """Lock a file for a ``with`` block; yield False if another process has locked it."""
    if sys.platform == "win32":
        from filelock import FileLock, Timeout

        lock = FileLock(root.path_of(_LOCK), timeout=0, fallback_to_soft=False)
        try:
            lock.acquire()
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()
        return
    try:
        descriptor = root.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    except OSError as error:
        raise _write_error(Path(root.path_of(_LOCK)), error) from error
    try:
        yield lock_open_file(descriptor, exclusive=True)
    finally:
        os.close(descriptor)


def _write_error(path: Path, error: OSError) -> FileProblem:
    return FileProblem(f"the file cannot be written: {os_reason(error)}", where=str(path))
