"""Move files out of the way and into place, and undo it all if something fails.

New files are first written to a *stage* beside their final place, old files are moved to
a *store* beside theirs; both are folders named ``.wheelfit-…`` in the same file system, so
every step is one rename and takes no space. The steps are remembered. Leaving the
``with`` block by an exception undoes them in reverse order.

This covers errors and interrupts, not a killed process or a power cut. What those leave behind is
told apart: a stage alone is removed by the next process, a store may hold the only copy of a file.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from wheelfit.errors import EnvironmentReadOnly, EnvironmentUnavailable, FileConflict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

__all__ = ["WORKPLACE", "Transaction", "environment_error", "is_only_stage", "remove_abandoned"]


def __dir__() -> list[str]:
    return __all__


WORKPLACE = ".wheelfit-"
"""How the folders of stage and store begin."""

_STAGE = "new-"
# As tempfile names them, so that nothing with a name of somebody's choice is ever touched.
_OUR_WORKPLACE = re.compile(re.escape(WORKPLACE) + "[a-z0-9_]{8}")
_OUR_STAGE = re.compile(re.escape(_STAGE) + "[a-z0-9_]{8}")

_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def environment_error(error: OSError) -> EnvironmentUnavailable:
    """Say in our words why the environment could not be changed, after all was undone."""
    where = None if error.filename is None else os.fsdecode(error.filename)
    if error.errno in _DENIED:
        return EnvironmentReadOnly(
            f"the environment cannot be written: {error.strerror}",
            where=where,
            hint="nothing was changed; use a virtual environment, or --target with a folder "
            "of your own",
        )
    if error.errno in _FULL:
        return EnvironmentUnavailable(
            f"there is not enough space: {error.strerror}",
            where=where,
            hint="nothing was changed; make room and try again",
        )
    return EnvironmentUnavailable(
        f"the environment could not be changed: {error.strerror or error}",
        where=where,
        hint="nothing was changed",
    )


def is_only_stage(workplace: Path) -> bool:
    """Tell whether a folder that was left behind holds unpacked wheels and nothing else.

    :param workplace: a folder that lies beside what is installed.
    """
    if not _OUR_WORKPLACE.fullmatch(workplace.name) or workplace.is_symlink():
        return False
    try:
        with os.scandir(workplace) as entries:
            return all(
                _OUR_STAGE.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
                for entry in entries
            )
    except OSError:
        return False


def remove_abandoned(folder: Path) -> tuple[Path, ...]:
    """Remove the stages that killed processes left in a folder, and return which.

    A folder into which an old file was moved stays: that file may exist nowhere else.

    :param folder: one that no other process changes now, for its lock is held.
    """
    found = [path for path in sorted(folder.glob(f"{WORKPLACE}*")) if is_only_stage(path)]
    for path in found:
        shutil.rmtree(path, ignore_errors=True)
    return tuple(path for path in found if not path.exists())


class Transaction:
    """Change folders so that either all of it happens or nothing.

    Use as a context manager; nothing else may change the same folders meanwhile.

    :param homes: folders that are never removed, in which stage and store may lie; the first
        one in the right file system is taken.
    """

    def __init__(self, homes: Iterable[Path] = ()) -> None:
        self._homes = tuple(homes)
        self._undo: list[Callable[[], None]] = []
        self._workplaces: dict[int, Path] = {}
        self._stored = 0
        self._stores: dict[str, str] = {}
        self._lost: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and (lost := self._roll_back()):
            raise EnvironmentUnavailable(
                "the environment could not be changed, nor be brought back to what it was",
                note=f"{error}\nnot restored:\n" + "\n".join(lost),
                hint="the files moved away are in "
                + ", ".join(str(folder) for folder in self._workplaces.values()),
            ) from error
        for folder in self._workplaces.values():
            shutil.rmtree(folder, ignore_errors=True)
        self._workplaces.clear()

    def stage(self, folder: Path) -> Path:
        """Return a new empty folder in the file system of another one.

        :param folder: where the staged files will go; created if it is missing.
        """
        self.make_folder(folder)
        return Path(tempfile.mkdtemp(prefix=_STAGE, dir=self._workplace(folder)))

    def make_folder(self, folder: Path) -> None:
        """Create a folder and those above it; one that exists is left alone."""
        missing = []
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for path in reversed(missing):
            path.mkdir()
            self._undo.append(partial(_remove_folder, path))

    def put_away(self, path: str | Path) -> None:
        """Move a file or a whole folder out of the environment.

        :param path: what exists there; a link is moved, not what it leads to.
        """
        self._stored += 1
        folder = os.path.dirname(path)  # noqa: PTH120
        if folder not in self._stores:
            self._stores[folder] = str(self._workplace(Path(folder)))
        self._move(path, f"{self._stores[folder]}{os.sep}old-{self._stored}")

    def remove_empty(self, folder: str | Path) -> bool:
        """Remove a folder if nothing is in it.

        :return: whether it was removed.
        """
        try:
            mode = os.lstat(folder).st_mode
            os.rmdir(folder)  # noqa: PTH106
        except OSError:
            return False

        def restore() -> None:
            os.mkdir(folder)  # noqa: PTH102
            os.chmod(folder, mode & 0o7777)  # noqa: PTH101

        self._undo.append(restore)
        return True

    def place(self, staged: Path, final: Path, *, replace: bool = False, but: str = "") -> None:
        """Move the content of a staged folder into a folder of the environment.

        A folder that is new moves as a whole.

        :param staged: what `stage` returned, now filled.
        :param final: created if it is missing.
        :param replace: move what is in the way out of the environment.
        :param but: name of an entry that is left for another call.
        :raises FileConflict: something is in the way, and it may not be replaced.
        """
        self.make_folder(final)
        with os.scandir(staged) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name == but:
                    continue
                source, target = Path(entry.path), final / entry.name
                if not os.path.lexists(target):
                    self._move(source, target)
                elif entry.is_dir(follow_symlinks=False) and target.is_dir():
                    self.place(source, target, replace=replace)
                elif replace or staged.name == "__pycache__":  # bytecode of a module long gone
                    self.put_away(target)
                    self._move(source, target)
                else:
                    raise FileConflict(
                        "a file appeared in the environment while it was changed",
                        where=str(target),
                        hint="nothing was changed; try again",
                    )

    def _workplace(self, folder: Path) -> Path:
        device = folder.stat().st_dev
        if device not in self._workplaces:
            homes = (home for home in self._homes if home.is_dir())
            home = next((home for home in homes if home.stat().st_dev == device), folder)
            workplace = Path(tempfile.mkdtemp(prefix=WORKPLACE, dir=home))
            self._workplaces[device] = workplace
            # Gone before the folder it lies in, should that one have been created as well.
            self._undo.append(partial(self._discard, workplace))
        return self._workplaces[device]

    def _discard(self, workplace: Path) -> None:
        if not self._lost:  # else it holds the only copy of something
            shutil.rmtree(workplace, ignore_errors=True)

    def _move(self, source: str | Path, target: str | Path) -> None:
        _rename(source, target)
        self._undo.append(partial(_rename, target, source))

    def _roll_back(self) -> list[str]:
        """Undo every step, the last first, and return what could not be undone."""
        while self._undo:
            step = self._undo.pop()
            try:
                step()
            except OSError as error:
                self._lost.append(str(error))
        return self._lost


def _remove_folder(folder: Path) -> None:
    # Another process may have put something into it; then it is no longer ours to remove.
    with suppress(OSError):
        folder.rmdir()


def _rename(source: str | Path, target: str | Path) -> None:
    try:
        os.rename(source, target)  # noqa: PTH104
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        # A link or a mount inside the environment leads to another file system.
        _copy_and_delete(Path(source), Path(target))


def _copy_and_delete(source: Path, target: Path) -> None:
    is_folder = source.is_dir() and not source.is_symlink()
    try:
        if is_folder:
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy2(source, target, follow_symlinks=False)
            source.unlink()
    except BaseException:
        _delete(target)
        raise
    if is_folder:  # whole folders are only ever ours, staged
        _delete(source)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
