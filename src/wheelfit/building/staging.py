"""Staged results of many wheels, moved to their destinations together: all of them, or none.

Results are written into a hidden folder beside their destinations. When all exist without
conflicts, each is renamed, which is fast; if one cannot be moved, the moves before it are undone. A
killed process leaves the hidden folder, which the next process removes. Ctrl-C is deferred during
the renames and the removal of that folder, so a reported interruption always means that results are
missing.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.errors import reporting_os_errors
from wheelfit.wheels.atomic_write import move_into_place, sync_to_disk
from wheelfit_runtime.errors import FileProblem, os_reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self


_PREFIX = ".wheelfit-stage-"
_LOCK = "in-use"
_PART = f".{'[0-9a-f]' * 16}.part"
"""The pattern of unfinished files, and of hidden folders that are not locked yet."""
_ABANDONED_AGE = 3600.0
"""Seconds after which a hidden folder is abandoned."""


class Staging:
    """Results that are not published yet; a context manager that removes its hidden folders."""

    def __init__(self) -> None:
        self._folders: dict[Path, Path] = {}
        self._locks: list[int] = []
        self._count = 0
        self._deferred: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for descriptor in self._locks:
            with suppress(OSError):
                os.close(descriptor)
        # Signals during the removal are dropped: the results are published, or an error is raised.
        with _deferred_signals():
            for stage in self._folders.values():
                shutil.rmtree(stage, ignore_errors=True)

    def new_folder(self, folder: Path) -> Path:
        """Return a new hidden folder for one result.

        :raises FileProblem: nothing can be written there.
        """
        self._count += 1
        with reporting_os_errors("the folder cannot be written", where=str(folder)):
            if folder not in self._folders:
                _remove_abandoned(folder)
                name = os.urandom(8).hex()
                hidden_folder = folder / f".{name}.part"
                hidden_folder.mkdir()
                self._folders[folder] = hidden_folder
                self._locks += _lock(hidden_folder / _LOCK)
                # The folder is locked before it gets its final name: other processes remove an
                # unlocked folder of that name as abandoned.
                self._folders[folder] = hidden_folder.rename(folder / f"{_PREFIX}{name}")
            result_folder = self._folders[folder] / str(self._count)
            result_folder.mkdir()
        return result_folder

    def publish(
        self,
        pairs: Sequence[tuple[Path, Path]],
        *,
        overwrite: Sequence[Path] = (),
        dry_run: bool = False,
    ) -> None:
        """Move results to their destinations: all, or none.

        :param dry_run: whether to check for conflicts only.
        :raises FileProblem: two results have the same destination, a destination exists, or a
            result cannot be moved.
        :raises KeyboardInterrupt: Ctrl-C was pressed while earlier results were published.
        """
        while self._deferred:  # signals that arrived while an earlier call moved results
            signal.raise_signal(self._deferred.pop())
        results: dict[Path, Path] = {}
        for result, destination in pairs:
            if destination in results:
                raise FileProblem(
                    f"two of the results have the name {destination.name}",
                    where=str(destination.parent),
                    hint="give them different labels, or different folders",
                )
            results[destination] = result
            if destination not in overwrite and destination.exists():
                raise FileProblem(
                    "the file already exists",
                    where=str(destination),
                    hint="--overwrite replaces it; or choose another folder",
                )
        if dry_run:
            return
        with _deferred_signals() as self._deferred:
            self._move(results, overwrite)

    def _move(self, results: Mapping[Path, Path], overwrite: Sequence[Path]) -> None:
        moved: list[tuple[Path, Path | None]] = []
        try:
            for destination, result in results.items():
                backup = None
                if destination in overwrite and destination.exists():
                    sync_to_disk(result)  # it replaces the only copy
                    backup = self._backup(destination)
                move_into_place(result, destination, overwrite=destination in overwrite, sync=False)
                moved.append((destination, backup))
        except OSError as error:
            self._undo(moved)
            raise FileProblem(
                f"the file cannot be moved to its destination: {os_reason(error)}",
                where=str(destination),
            ) from None
        except BaseException:
            self._undo(moved)
            raise
        for folder in self._folders:
            sync_to_disk(folder)

    def _backup(self, path: Path) -> Path:
        """Return a second path for the content of a file that will be replaced."""
        self._count += 1
        backup = self._folders[path.parent] / f"before-{self._count}"
        try:
            backup.hardlink_to(path)
        except OSError:  # a file system without links
            shutil.copy2(path, backup)
        return backup

    @staticmethod
    def _undo(moved: Sequence[tuple[Path, Path | None]]) -> None:
        for destination, backup in reversed(moved):
            with suppress(OSError):
                if backup is not None:
                    backup.replace(destination)
                else:
                    destination.unlink()


def deliver(files: Sequence[Path], folder: Path) -> tuple[Path, ...]:
    """Copy files into a folder, replacing those of an earlier build: all of them, or none.

    :param folder: the folder; it is created if it does not exist.
    :raises FileProblem: a file cannot be written; no file has changed.
    """
    destinations = [folder / path.name for path in files]
    with reporting_os_errors("the built files cannot be written", where=str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        with Staging() as staging:
            staged = staging.new_folder(folder)
            for path in files:
                sync_to_disk(Path(shutil.copyfile(path, staged / path.name)))
            for destination in destinations:
                if destination.is_dir():
                    raise FileProblem("a folder of this name exists", where=str(destination))
            staging.publish(
                [(staged / destination.name, destination) for destination in destinations],
                overwrite=destinations,
            )
    return tuple(destinations)


@contextmanager
def _deferred_signals() -> Iterator[list[int]]:
    """Defer SIGINT and SIGTERM until the end of a short block; yield the received ones."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received  # signals interrupt the main thread only
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in handlers:
        signal.signal(number, lambda number, _: received.append(number))
    try:
        yield received
    finally:
        for number, handler in handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _lock(path: Path) -> list[int]:
    """Mark a folder as in use until this process ends; return the lock's descriptor, if any."""
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock  # not on Windows
    except ImportError:
        return []
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    with suppress(OSError):
        flock(descriptor, LOCK_EX | LOCK_NB)
    return [descriptor]


def _remove_abandoned(folder: Path) -> None:
    """Remove leftovers of a killed process."""
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:
        return
    for part in folder.glob(_PART):
        with suppress(OSError):
            if time.time() - part.lstat().st_mtime > _ABANDONED_AGE:
                if part.is_dir():
                    shutil.rmtree(part, ignore_errors=True)
                else:
                    part.unlink()
    for stage in folder.glob(f"{_PREFIX}*"):
        try:
            descriptor = os.open(stage / _LOCK, os.O_RDWR)
        except FileNotFoundError:
            # Its removal was interrupted: a folder has its lock before it has this name.
            shutil.rmtree(stage, ignore_errors=True)
            continue
        except OSError:
            continue  # of another user
        try:
            flock(descriptor, LOCK_EX | LOCK_NB)  # refused while its owner runs
            shutil.rmtree(stage, ignore_errors=True)
        except OSError:
            pass
        finally:
            os.close(descriptor)
