"""Staged results of many wheels, moved to their names together: all of them, or none.

Results are written into a hidden folder beside their places. When all exist without conflicts, each
is moved by a rename, which takes no time; if one cannot be moved, the moves before it are undone. A
killed process leaves the hidden folder, which the next process removes. Ctrl-C waits during the
renames and the removal of that folder, so a reported interruption always means that results are
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

from wheelfit.wheels.atomic_write import move_into_place, sync_to_disk
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType
    from typing import Self


_PREFIX = ".wheelfit-stage-"
_LOCK = "in-use"
_PART = f".{'[0-9a-f]' * 16}.part"
"""Unfinished parts: files, and folders that were not locked yet."""
_ABANDONED = 3600.0
"""Seconds after which a hidden folder is abandoned."""


class Staging:
    """Results that are not published yet; a context manager that leaves nothing behind."""

    def __init__(self) -> None:
        self._folders: dict[Path, Path] = {}
        self._locks: list[int] = []
        self._count = 0
        self._held: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number in self._locks:
            with suppress(OSError):
                os.close(number)
        with _undisturbed():  # without effect: everything is published, or an error is raised
            for stage in self._folders.values():
                shutil.rmtree(stage, ignore_errors=True)

    def room_for(self, folder: Path) -> Path:
        """Return a new folder in which one result for another folder is written.

        :raises FileProblem: nothing can be written there.
        """
        self._count += 1
        try:
            if folder not in self._folders:
                _remove_abandoned(folder)
                name = os.urandom(8).hex()
                new = folder / f".{name}.part"
                new.mkdir()
                self._folders[folder] = new
                self._locks += _lock(new / _LOCK)
                # Only now, when it is locked, other processes may check whether it is abandoned.
                self._folders[folder] = new.rename(folder / f"{_PREFIX}{name}")
            room = self._folders[folder] / str(self._count)
            room.mkdir()
        except OSError as error:
            raise FileProblem(
                f"the folder cannot be written: {error.strerror}", where=str(folder)
            ) from None
        return room

    def publish(
        self,
        pairs: Sequence[tuple[Path, Path]],
        *,
        overwrite: Sequence[Path] = (),
        rehearse: bool = False,
    ) -> None:
        """Move results to their places: all, or none.

        :param rehearse: whether nothing is moved, but conflicts are raised.
        :raises FileProblem: two have one place, a file is in the way, or cannot be moved.
        :raises KeyboardInterrupt: Ctrl-C was pressed while others were published.
        """
        while self._held:
            signal.raise_signal(self._held.pop())
        places: dict[Path, Path] = {}
        for result, place in pairs:
            if place in places:
                raise FileProblem(
                    f"two of the results would be called {place.name}", where=str(place.parent),
                    hint="give them different labels, or different folders",
                )  # fmt: skip
            places[place] = result
            if place not in overwrite and place.exists():
                raise FileProblem(
                    "the file already exists",
                    where=str(place),
                    hint="--overwrite replaces it; or choose another folder",
                )
        if rehearse:
            return
        with _undisturbed() as self._held:
            self._move(places, overwrite)

    def _move(self, places: Mapping[Path, Path], overwrite: Sequence[Path]) -> None:
        done: list[tuple[Path, Path | None]] = []
        try:
            for place, result in places.items():
                before = None
                if place in overwrite and place.exists():
                    sync_to_disk(result)  # there is nothing else to go back to
                    before = self._kept(place)
                # On a file system without links nothing is kept; then published results stay.
                move_into_place(result, place, overwrite=place in overwrite, sync=False)
                done.append((place, before))
        except OSError as error:
            self._take_back(done)
            raise FileProblem(
                f"the file cannot be moved to its place: {error.strerror}", where=str(place)
            ) from None
        except BaseException:
            self._take_back(done)
            raise
        for folder in self._folders:
            sync_to_disk(folder)

    def _kept(self, place: Path) -> Path | None:
        """Link a file to replace under a second name, and return that."""
        self._count += 1
        before = self._folders[place.parent] / f"before-{self._count}"
        try:
            before.hardlink_to(place)
        except OSError:
            return None
        return before

    @staticmethod
    def _take_back(done: Sequence[tuple[Path, Path | None]]) -> None:
        for place, before in reversed(done):
            with suppress(OSError):
                if before is not None:
                    before.replace(place)
                else:
                    place.unlink()


def deliver(files: Sequence[Path], folder: Path) -> tuple[Path, ...]:
    """Copy files into a folder, replacing those of an earlier build: all of them, or none.

    :param folder: made if it does not exist.
    :raises FileProblem: a file cannot be written; no file has changed.
    """
    places = [folder / path.name for path in files]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with Staging() as staging:
            room = staging.room_for(folder)
            for path in files:
                sync_to_disk(Path(shutil.copyfile(path, room / path.name)))
            for place in places:
                if place.is_dir():
                    raise FileProblem("a folder of this name exists", where=str(place))
            staging.publish([(room / place.name, place) for place in places], overwrite=places)
    except OSError as error:
        message = f"the built files cannot be written: {error.strerror or error}"
        raise FileProblem(message, where=str(folder)) from None
    return tuple(places)


@contextmanager
def _undisturbed() -> Iterator[list[int]]:
    """Delay Ctrl-C and requests to end until a short block is done; yield those that came."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came  # where nothing is interrupted
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda number, _: came.append(number))
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _lock(path: Path) -> list[int]:
    """Mark a folder as in use until this process ends."""
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock  # not on Windows
    except ImportError:
        return []
    number = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    with suppress(OSError):
        flock(number, LOCK_EX | LOCK_NB)
    return [number]


def _remove_abandoned(folder: Path) -> None:
    """Remove leftovers of a killed process."""
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:
        return
    for part in folder.glob(_PART):
        with suppress(OSError):
            if time.time() - part.lstat().st_mtime > _ABANDONED:
                if part.is_dir():
                    shutil.rmtree(part, ignore_errors=True)
                else:
                    part.unlink()
    for stage in folder.glob(f"{_PREFIX}*"):
        try:
            number = os.open(stage / _LOCK, os.O_RDWR)
        except FileNotFoundError:  # it was being removed: it gets its name when it has a lock
            shutil.rmtree(stage, ignore_errors=True)
            continue
        except OSError:
            continue  # of another user
        try:
            flock(number, LOCK_EX | LOCK_NB)  # refused while its owner lives
            shutil.rmtree(stage, ignore_errors=True)
        except OSError:
            pass
        finally:
            os.close(number)
