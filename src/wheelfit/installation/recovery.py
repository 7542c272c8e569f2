"""Recover an environment whose change was interrupted: by a kill, a power cut, an error.

The journal alone decides what happens (`wheelfit.installation.journal`), and only a journal that
wheelfit wrote for this user and this environment; other files are reported and left alone. All
operations go through open folders and follow no link. Steps are undone from the last to the first,
each by the state of the disk, so that the change and its undoing may be interrupted at any moment.

Other tools may have changed the environment since, without regard to the journal. Their changes
stay: a file that they recorded is not moved, and a distribution that they replaced or removed is
not restored.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from wheelfit.errors import LinkRefused, NotRecoverable
from wheelfit.installation.journal import (
    FOLDERS,
    MARK,
    JournalStage,
    check_workplace,
    journal_path,
    journal_stage_of,
    read_changes,
    read_folders,
    read_journal,
)
from wheelfit.installation.removal import RealPaths, files_in_record, is_real_folder
from wheelfit.installation.steps import Step, StepKind
from wheelfit.wheels.file_system import NATIVE, FileSystem
from wheelfit_runtime.errors import InvalidWheel, os_reason
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wheelfit.installation.environment_folders import EnvironmentFolders
    from wheelfit.installation.journal import Journal

_MAX_NOTES = 10
_SEPARATORS = pattern(r"[-_.]+")


class RecoveryOutcome(StrEnum):
    """The outcome of an interrupted change."""

    UNDONE = "undone"
    """The environment is as it was before."""
    FINISHED = "finished"
    """The change was complete; only its temporary files were removed."""
    CLEARED = "cleared"
    """Nothing in the environment was changed yet; the prepared files were removed."""


OUTCOMES = {
    None: RecoveryOutcome.CLEARED,
    JournalStage.COMMITTED: RecoveryOutcome.FINISHED,
    JournalStage.JOURNAL: RecoveryOutcome.UNDONE,
    JournalStage.UNDONE: RecoveryOutcome.UNDONE,
}
"""The outcome of recovering a change that was interrupted, by its stage."""


_MESSAGES = {
    RecoveryOutcome.UNDONE: "an interrupted change was undone",
    RecoveryOutcome.FINISHED: "an interrupted change was finished",
    RecoveryOutcome.CLEARED: "files that an interrupted change had prepared were removed",
}


class Recovery(NamedTuple):
    """The result of a recovery."""

    outcome: RecoveryOutcome
    changes: tuple[str, ...] = ()
    """The parts of the change, such as ``install demo 2.0``; empty if unknown."""
    notes: tuple[str, ...] = ()
    """The paths that were not restored or cannot be removed, one sentence each."""
    created: tuple[str, ...] = ()
    """Folders created for the change, the deepest first, to remove once the lock is released."""

    def __str__(self) -> str:
        changes = f": {', '.join(self.changes)}" if self.changes else ""
        return _MESSAGES[self.outcome] + changes


def recover(folders: EnvironmentFolders, file_system: FileSystem = NATIVE) -> Recovery | None:
    """Undo or finish a change that was interrupted; return None if there is none.

    :raises NotRecoverable: the journal is not valid; nothing was changed.
    :raises LinkRefused: a link is in the place of a folder; it was not followed.
    :raises OSError: an operation failed; the recovery can be repeated.
    """
    if not folders.is_changing:
        return None
    with file_system.limited_to(folders.roots.values()) as disk:
        check_workplace(folders, folders.workplace, disk)
        return _recover(folders, disk)


def _recover(folders: EnvironmentFolders, disk: FileSystem) -> Recovery:
    stage = journal_stage_of(folders)
    changes: tuple[str, ...] = ()
    notes: list[str] = []
    if stage is not None:
        # The process may have ended after the rename of the journal and before this call.
        disk.sync_folder(folders.workplace)
    if stage is JournalStage.JOURNAL:
        journal = read_journal(folders, disk)
        changes = journal.changes
        notes += undo(folders, journal, disk)
        record_stage(folders, JournalStage.UNDONE, disk)
    elif stage is not None:
        with suppress(NotRecoverable):
            changes = read_changes(folders, disk, stage)
    other_workplaces, created_levels = read_folders(folders, disk)
    notes += _clear(folders, other_workplaces, disk)
    outcome = OUTCOMES[stage]
    created: tuple[str, ...] = ()
    if outcome is not RecoveryOutcome.FINISHED:
        created = tuple(_created_folders(folders, created_levels))
    return Recovery(outcome, changes, tuple(notes), created)


def undo(folders: EnvironmentFolders, journal: Journal, file_system: FileSystem) -> list[str]:
    """Undo the completed steps of a journal.

    :return: the paths not restored, a sentence each.
    """
    notes = _Undo(folders, journal, file_system).undo()
    sync_folders(journal.steps, file_system)
    return notes


def record_stage(folders: EnvironmentFolders, stage: JournalStage, file_system: FileSystem) -> None:
    """Record on the disk that a change is committed or undone."""
    file_system.replace(journal_path(folders), journal_path(folders, stage))
    file_system.sync_folder(folders.workplace)


def sync_folders(steps: Iterable[Step], file_system: FileSystem) -> None:
    """Write the folders of steps that were made or undone to the disk."""
    paths = {path for step in steps for path in (step.path, step.workplace_path) if path}
    for folder in sorted({os.path.dirname(path) for path in paths}):  # noqa: PTH120
        if os.path.isdir(folder):  # noqa: PTH112
            file_system.sync_folder(folder)


# --- undoing ---------------------------------------------------------------------------------


class _Undo:
    """The undoing of a journal's steps, except where another tool has changed the result since."""

    def __init__(
        self, folders: EnvironmentFolders, journal: Journal, file_system: FileSystem
    ) -> None:
        self._steps = journal.steps
        self._disk = file_system
        self._real = RealPaths()
        self._staying: list[str] = []
        self._own_files = self._recorded_by_us()
        foreign_records = [path for path in _records(folders) if not self._is_known(path)]
        self._foreign_files = frozenset(
            self._real.of(path)
            for record in foreign_records
            for path in _recorded(os.path.join(record, "RECORD"), record)  # noqa: PTH118
        )
        foreign_projects = {_project(path) for path in foreign_records}
        # Projects that another tool has installed (there is a foreign record) or removed since.
        superseded: set[str] = set()
        for step in self._steps:
            if _is_record(step.path) and step.kind is not StepKind.DROP:
                owners = step.owners or frozenset({_project(step.path)})
                is_removed = not self._is_somewhere(step)
                superseded |= owners if is_removed else owners & foreign_projects
        self._superseded = frozenset(superseded)

    def undo(self) -> list[str]:
        """Undo all steps, and return the paths not restored, a sentence each."""
        emptied: list[str] = []
        for step in reversed(self._steps):
            match step.kind:
                case StepKind.PUT:
                    self._undo_put(step)
                case StepKind.SWAP:
                    self._undo_swap(step)
                case StepKind.TAKE:
                    self._undo_take(step)
                case StepKind.DROP:
                    if self._is_superseded(step):
                        emptied.append(step.path)
                    else:
                        self._disk.make_folders(step.path)
        for folder in reversed(emptied):
            _remove_empty(folder, self._disk)
        notes = [f"{path} stays: it was added since" for path in self._staying[:_MAX_NOTES]]
        if (hidden := len(self._staying) - _MAX_NOTES) > 0:
            notes.append(f"the same holds for {count_of(hidden, 'other path')}")
        return notes + [
            f"{name} was not restored: another tool changed it since"
            for name in sorted(self._superseded)
        ]

    def _undo_put(self, step: Step) -> None:
        if not self._disk.exists(step.workplace_path) and self._disk.exists(step.path):
            if not is_real_folder(step.path) and self._is_foreign(step.path):
                self._staying.append(step.path)
                return
            self._disk.move(step.path, step.workplace_path)
        # The added folder is in the workplace now. Files that another tool put into it, while
        # it was at step.path, are moved back there.
        self._bring_back(step.workplace_path, step.path)

    def _undo_swap(self, step: Step) -> None:
        """Undo an exchange, unless it was not made or is undone already.

        Before the exchange, the old path is at ``step.path`` and the new one in the workplace;
        after it, the reverse.
        """
        if not self._disk.exists(step.workplace_path):
            return  # an earlier recovery moved it back, or removed it after all steps were undone
        is_new_path_staged = identity_of(step.workplace_path) == step.new_identity
        is_exchanged = identity_of(step.path) == step.new_identity and not is_new_path_staged
        if is_exchanged:
            if self._is_superseded(step):
                # The old path must not be restored, but the new one is removed.
                self._remove_own(step.path)
                return
            for path in self._foreign(step.path, step.path):
                old = step.workplace_path + path[len(step.path) :]
                if self._disk.exists(old) and not is_real_folder(old):
                    self._disk.remove_file(old)  # `_bring_back` moves the foreign file there
            if not self._disk.exchange(step.path, step.workplace_path):
                raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP), step.path)
        elif not self._disk.exists(step.path) and not is_new_path_staged:
            # It was exchanged, and the new path was removed since.
            if not self._is_superseded(step):
                self._move_back(step)
            return
        if self._is_superseded(step) and identity_of(step.workplace_path) == step.old_identity:
            return  # the old folder is in the workplace, and has no foreign files
        self._bring_back(step.workplace_path, step.path)

    def _undo_take(self, step: Step) -> None:
        if self._is_superseded(step):
            # Its remaining files have no owner any more.
            if self._disk.exists(step.path):
                self._remove_own(step.path)
            return
        if not self._disk.exists(step.workplace_path):
            return
        if not self._disk.exists(step.path):
            self._move_back(step)
        elif is_real_folder(step.path) and is_real_folder(step.workplace_path):
            # Another process created a folder of that name; the old files are moved into it.
            for path in _files_below(step.workplace_path):
                self._move_if_free(path, step.path + path[len(step.workplace_path) :])
        else:
            self._staying.append(step.path)

    def _move_back(self, step: Step) -> None:
        self._disk.make_folders(os.path.dirname(step.path))  # noqa: PTH120
        self._disk.move(step.workplace_path, step.path)

    def _bring_back(self, folder: str, target: str) -> None:
        """Move foreign files from a removed folder back to its place."""
        if is_real_folder(folder):
            for path in list(self._foreign(folder, target)):
                self._move_if_free(path, target + path[len(folder) :])

    def _remove_own(self, target: str) -> None:
        """Remove the files of this change from a place, and keep foreign ones."""
        if not is_real_folder(target):
            if not self._is_foreign(target):
                self._disk.remove_file(target)
            return
        foreign = set(self._foreign(target, target))
        for path in _files_below(target):
            if path not in foreign:
                self._disk.remove_file(path)
        for base, _, _ in os.walk(target, topdown=False):
            if not os.listdir(base):  # noqa: PTH208
                self._disk.remove_folder(base)

    def _move_if_free(self, path: str, target: str) -> None:
        if not self._disk.exists(target):
            self._disk.make_folders(os.path.dirname(target))  # noqa: PTH120
            self._disk.move(path, target)
            self._staying.append(target)

    # --- owners ---

    def _foreign(self, folder: str, target: str) -> Iterator[str]:
        """Yield the foreign files in a folder.

        :param target: the path of the folder in the environment; it may be in the workplace now.
        """
        for path in _files_below(folder):
            if self._is_foreign(target + path[len(folder) :]):
                yield path

    def _is_foreign(self, target: str) -> bool:
        real = self._real.of(target)
        if real in self._foreign_files:
            return True
        # A file in no RECORD is foreign too, except bytecode; but not if the change's own files are
        # unknown, since no RECORD of it could be read.
        is_bytecode = os.path.basename(os.path.dirname(target)) == "__pycache__"  # noqa: PTH119, PTH120
        return bool(self._own_files) and real not in self._own_files and not is_bytecode

    def _recorded_by_us(self) -> frozenset[str]:
        """Return the files in the RECORDs of the distributions that the change adds or removes."""
        recorded: set[str] = set()
        for step in self._steps:
            if step.kind is StepKind.DROP or not _is_record(step.path):
                continue
            for path in (step.workplace_path, step.path):
                if identity_of(path) in {step.new_identity, step.old_identity}:
                    # The step concerns the whole .dist-info folder, or the RECORD alone. Paths in
                    # RECORD are relative to the folder in the environment, not in the workplace.
                    if step.path.endswith(".dist-info"):
                        record, folder = os.path.join(path, "RECORD"), step.path  # noqa: PTH118
                    else:
                        record, folder = path, os.path.dirname(step.path)  # noqa: PTH120
                    recorded.update(map(self._real.of, _recorded(record, folder)))
        return frozenset(recorded)

    def _is_known(self, record: str) -> bool:
        """Return whether a ``.dist-info`` folder is part of this change."""
        for step in self._steps:
            if step.path.startswith(record + os.sep):
                return True
            # Unless the step removes the folder, another one may be in its place now.
            if step.path == record and (
                step.kind is StepKind.DROP
                or identity_of(record) in {step.new_identity, step.old_identity}
            ):
                return True
        return False

    def _is_somewhere(self, step: Step) -> bool:
        """Return whether the old record still exists, or the new one if there is no old one."""
        number = step.new_identity if step.kind is StepKind.PUT else step.old_identity
        return number in {identity_of(step.path), identity_of(step.workplace_path)}

    def _is_superseded(self, step: Step) -> bool:
        return bool(step.owners) and step.owners <= self._superseded


def _is_record(target: str) -> bool:
    """Return whether a path is a ``.dist-info`` folder or the RECORD in one."""
    folder, name = os.path.split(target)
    return name.endswith(".dist-info") or (name == "RECORD" and folder.endswith(".dist-info"))


def _records(folders: EnvironmentFolders) -> list[str]:
    records: dict[str, None] = {}
    for library in (folders.roots["purelib"], folders.roots["platlib"]):
        with suppress(OSError):
            names = os.listdir(library)  # noqa: PTH208
            records |= {
                os.path.join(library, name): None  # noqa: PTH118
                for name in sorted(names)
                if name.endswith(".dist-info")
            }
    return list(records)


def _recorded(record: str, dist_info: str) -> tuple[str, ...]:
    try:
        return files_in_record(Path(record), Path(dist_info))
    except InvalidWheel:
        return ()


def _project(record: str) -> str:
    folder = record if record.endswith(".dist-info") else os.path.dirname(record)  # noqa: PTH120
    name = os.path.basename(folder).removesuffix(".dist-info")  # noqa: PTH119
    # As in `packaging`, which may be missing when an environment has to be recovered.
    return str(_SEPARATORS.sub("-", name.rpartition("-")[0])).lower()


def identity_of(path: str) -> int:
    """Return a number that differs for successive files or folders of one path; -1: missing.

    :param path: the file or folder; links are not followed.
    """
    try:
        number = os.lstat(path).st_ino
    except OSError:
        return -1
    try:
        record = os.lstat(os.path.join(path, "RECORD"))  # noqa: PTH118
    except OSError:
        return number
    # File systems reuse the inode of a removed folder; the RECORD of a distribution that another
    # tool reinstalled is newer.
    return number << 64 | record.st_mtime_ns


def _files_below(folder: str) -> Iterator[str]:
    """Yield the files and links below a folder."""
    for base, folders, names in os.walk(folder):
        for name in (*names, *folders):
            path = os.path.join(base, name)  # noqa: PTH118
            if name in names or os.path.islink(path):  # noqa: PTH114
                yield path


# --- clearing away ---------------------------------------------------------------------------


def _created_folders(folders: EnvironmentFolders, levels: Mapping[str, int]) -> Iterator[str]:
    """Yield the folders that were made for a change."""
    for scheme, count in levels.items():
        path = folders.roots[scheme]
        for _ in range(min(count, path.count(os.sep))):
            yield path
            path = os.path.dirname(path)  # noqa: PTH120


def _clear(
    folders: EnvironmentFolders, other_workplaces: Iterable[str], disk: FileSystem
) -> list[str]:
    """Remove the workplaces; the journal of the change is removed last."""
    notes = []
    for workplace in (*other_workplaces, folders.workplace):
        try:
            check_workplace(folders, workplace, disk)
            entries = disk.entries(workplace)
        except FileNotFoundError:
            continue
        except (LinkRefused, NotRecoverable) as error:
            if workplace == folders.workplace:
                raise
            notes.append(f"{workplace} stays: {error.message}")
            continue
        marks = [name for name, is_folder in entries if name.startswith(MARK) and not is_folder]
        is_main = workplace == folders.workplace
        # If this is interrupted after the record of the stage is removed, the next recovery treats
        # the rest as only prepared, and removes it.
        removed_last = [*(stage.value for stage in JournalStage), FOLDERS] if is_main else []
        for name, is_folder in entries:
            if name.startswith(MARK) or name in removed_last:
                continue
            try:
                _remove_tree(os.path.join(workplace, name), disk, is_folder=is_folder)  # noqa: PTH118
            except PermissionError as error:
                # On Windows, a library that a process has loaded; the mark stays, by which the
                # next command recognises the workplace.
                notes.append(f"{error.filename} could not be removed yet: {os_reason(error)}")
                marks = []
        for name in (*removed_last, *marks):
            path = os.path.join(workplace, name)  # noqa: PTH118
            if disk.exists(path):
                disk.remove_file(path)
        _remove_empty(workplace, disk)
    return notes


def _remove_empty(folder: str, file_system: FileSystem) -> None:
    with suppress(OSError):
        file_system.remove_folder(folder)


def _remove_tree(path: str, disk: FileSystem, *, is_folder: bool) -> None:
    """Remove a file, a link or a folder with everything in it."""
    if not is_folder:
        disk.remove_file(path)
        return
    try:
        _empty(path, disk)
    except PermissionError:
        disk.set_mode(path, 0o700)  # a folder that its wheel made read-only
        _empty(path, disk)
    disk.remove_folder(path)


def _empty(folder: str, disk: FileSystem) -> None:
    entries = disk.entries(folder)
    disk.remove_files(folder, [name for name, is_folder in entries if not is_folder])
    for name, is_folder in entries:
        if is_folder:
            _remove_tree(f"{folder}{os.sep}{name}", disk, is_folder=True)
