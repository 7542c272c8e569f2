"""Where an index goes: a folder, or what else can hold files by their path.

A target never shows half a file, and gets its pages after everything that they name. So that a
page can be exchanged alone, the path of what it names has the digest in it: an old page and a
new one lead to files that are both there.
"""

from __future__ import annotations

import errno
import hashlib
import os
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from wheelfit.errors import EnvironmentBusy, FileProblem
from wheelfit.server.generate.manifest import MANIFEST
from wheelfit.values import dataclass
from wheelfit.wheels.durable import write_all
from wheelfit.wheels.file_system import NATIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from wheelfit.sources.progress import Progress


__all__ = ["FILES", "SIMPLE", "FolderTarget", "Part", "Target"]


def __dir__() -> list[str]:
    return __all__


SIMPLE = "simple"
"""The folder of all pages."""
FILES = "files"
"""The folder of a target into which files are copied."""


@dataclass(frozen=True, slots=True)
class Part:
    """Hold a file that pages name."""

    path: str
    """Below the target, with ``/``."""
    sha256: str
    size: int
    source: Path | Callable[[], bytes]
    """Where the bytes are, or what gives them."""


class Target(Protocol):
    """Hold the files of an index.

    Errors that each method may raise: ``FileProblem``, or ``StorageUnavailable`` for a target
    that is elsewhere. After one of them, as after the end of the process at any moment, every
    file is whole: the old one, or the new one.
    """

    @property
    def name(self) -> str:
        """Name the target for people: without credentials."""

    def opened(self) -> AbstractContextManager[None]:
        """Hold the target for the length of a ``with`` block, in which everything is done.

        :raises EnvironmentBusy: somebody else publishes there.
        """

    def turning(self) -> AbstractContextManager[None]:
        """Hold it for the length of a ``with`` block in which pages are exchanged.

        :raises EnvironmentBusy: somebody else publishes there.
        """

    def read(self, path: str) -> bytes | None:
        """Return a small file; None if there is none."""

    def missing(self, parts: Sequence[Part], known: Iterable[tuple[str, str]]) -> list[Part]:
        """Return those of the parts that are not there yet.

        :param parts: what shall be there.
        :param known: paths and digests of what was put there before, as far as is known.
        """

    def put_parts(self, parts: Sequence[Part], progress: Progress) -> None:
        """Put files there; when it returns they stay, whatever happens to the machine."""

    def put_pages(self, pages: Sequence[tuple[str, bytes]]) -> None:
        """Put small files there, in this order."""

    def has_page(self, path: str, sha256: str) -> bool:
        """Tell whether a page is there; it may be assumed of a target that nobody else changes."""

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files that may be there or not."""


class FolderTarget:
    """Hold the files of an index in a folder (it implements `Target`).

    :param folder: the folder; made if it is not there.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._staging = folder / SIMPLE / ".staging"
        self._count = 0

    @property
    def name(self) -> str:
        """Name the target for people."""
        return str(self._folder)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Hold the folder against other processes; what a killed one left half done is removed."""
        pages = self._folder / SIMPLE
        try:
            pages.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _problem(pages, error) from error
        if not (self._folder / MANIFEST).exists():
            self._refuse_foreign(pages)
        with _locked(pages / ".lock") as is_held:
            if not is_held:
                raise EnvironmentBusy(
                    "another process is publishing there",
                    where=str(self._folder),
                    hint="try again when it has finished",
                )
            self._clear()
            try:
                yield
            finally:
                self._clear()

    def _clear(self) -> None:
        """Remove what was staged, by this process or by one that was killed."""
        self._count = 0
        if self._staging.exists():
            import shutil  # noqa: PLC0415 - start-up

            shutil.rmtree(self._staging, ignore_errors=True)

    def _refuse_foreign(self, pages: Path) -> None:
        """Refuse to write over pages that somebody else has made.

        A run that was killed before the first manifest leaves pages too, and they are ours.
        """
        names = os.listdir(pages)  # noqa: PTH208 - closed at once
        if ".lock" not in names and not all(name.startswith(".") for name in names):
            raise FileProblem(
                "there are pages already that wheelfit has not generated",
                where=str(pages),
                hint="remove them, or name another folder with --to",
            )

    def turning(self) -> AbstractContextManager[None]:
        """Hold nothing more: the folder is held already."""
        return nullcontext()

    def read(self, path: str) -> bytes | None:
        """Return a small file; None if there is none."""
        try:
            return (self._folder / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _problem(self._folder / path, error) from error

    def missing(self, parts: Sequence[Part], known: Iterable[tuple[str, str]]) -> list[Part]:
        """Return those of the parts that are not there yet, whatever is remembered of them."""
        del known
        return [part for part in parts if not self._has(part)]

    def _has(self, part: Part) -> bool:
        path = f"{self._folder}/{part.path}"
        try:
            if os.stat(path).st_size != part.size:  # noqa: PTH116 - thousands of them
                return False
        except OSError:
            return False
        if part.sha256[:16] in part.path:
            return True
        return hashlib.sha256(Path(path).read_bytes()).hexdigest() == part.sha256

    def has_page(self, path: str, sha256: str) -> bool:
        """Tell whether a page is there as it was written."""
        data = self.read(path)
        return data is not None and hashlib.sha256(data).hexdigest() == sha256

    def put_parts(self, parts: Sequence[Part], progress: Progress) -> None:
        """Put files there; those of a folder of the same file system share their bytes."""
        staged: list[tuple[str, str]] = []
        progress.start(sum(part.size for part in parts))
        for part in parts:
            temporary = self._stage(part.source if isinstance(part.source, Path) else part.source())
            staged.append((temporary, f"{self._folder}/{part.path}"))
            progress.advance(part.size)
        self._settle(staged)
        progress.done()

    def put_pages(self, pages: Sequence[tuple[str, bytes]]) -> None:
        """Put small files there, in this order."""
        self._settle([(self._stage(data), f"{self._folder}/{path}") for path, data in pages])

    def _stage(self, source: Path | bytes) -> str:
        try:
            if not self._count:
                self._staging.mkdir(parents=True, exist_ok=True)
            self._count += 1
            temporary = f"{self._staging}/{self._count}"
            if isinstance(source, Path):
                try:
                    NATIVE.reflink(source, temporary)
                except OSError as error:
                    if error.errno in (errno.ENOSPC, errno.EDQUOT):
                        raise
                    import shutil  # noqa: PLC0415 - start-up

                    with suppress(OSError):
                        os.unlink(temporary)  # noqa: PTH108 - as all paths here
                    shutil.copyfile(source, temporary)
            else:
                with open(temporary, "wb", buffering=0) as file:  # noqa: PTH123 - thousands of them
                    write_all(file, source)
        except OSError as error:
            raise _problem(self._staging, error) from error
        return temporary

    def _settle(self, staged: Sequence[tuple[str, str]]) -> None:
        """Give files their names, once their bytes are on the disk."""
        if not staged:
            return
        try:
            NATIVE.sync_tree(self._staging)
            made: set[str] = set()
            for temporary, path in staged:
                parent = os.path.dirname(path)  # noqa: PTH120 - thousands of them
                if parent not in made:
                    os.makedirs(parent, exist_ok=True)  # noqa: PTH103
                    made.add(parent)
                os.replace(temporary, path)  # noqa: PTH105 - thousands of them
            for folder in made:
                NATIVE.sync_folder(folder)
        except OSError as error:
            raise _problem(self._folder, error) from error

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files, and folders that are empty then."""
        for path in paths:
            file = self._folder / path
            try:
                file.unlink(missing_ok=True)
            except NotADirectoryError:
                continue
            except OSError as error:
                raise _problem(file, error) from error
            with suppress(OSError):
                file.parent.rmdir()


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Hold a lock file for the length of a ``with`` block; gives False if somebody else does."""
    try:
        import fcntl  # noqa: PLC0415 - not on Windows
    except ImportError:
        from filelock import FileLock, Timeout  # noqa: PLC0415 - start-up

        lock = FileLock(path, timeout=0, fallback_to_soft=False)
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
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise _problem(path, error) from error
    try:
        is_held = True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            is_held = False
        except OSError:
            pass  # a file system without locks
        yield is_held
    finally:
        os.close(descriptor)


def _problem(path: Path, error: BaseException) -> FileProblem:
    reason = getattr(error, "strerror", None) or type(error).__name__
    return FileProblem(f"it cannot be written: {reason}", where=str(path))
