"""Change an environment atomically: it always is either the old or the new one.

1. **Stage.** New files are written into a *workplace* beside their places, in the same file system
    (`wheelfit.installation.staging_folders`).
2. **Plan.** All renames are planned before the first (`wheelfit.installation.steps`).
3. **Journal.** They are written to the journal, and journal and stage to the disk
    (`wheelfit.installation.journal`).
4. **Switch.** The renames are made.
5. **Commit.** Once they are on the disk, the journal is renamed.
6. **Clean up.** Replaced files are deleted, and the workplace with them.

All operations go through the folders of the environment, which are open from the start
(`FileSystem.limited_to`): a link that takes the place of a folder meanwhile is an error, and is not
followed.

After an error or interrupt before 5, everything is undone by the journal, as the next process would
do it after a kill or a power cut (`wheelfit.installation.recovery`).
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from wheelfit.errors import LinkRefused, NotRecoverable
from wheelfit.installation.folder_scan import FolderScan
from wheelfit.installation.journal import (
    Journal,
    JournalStage,
    journal_path,
    journal_stage_of,
    read_journal,
)
from wheelfit.installation.recovery import (
    RecoveryOutcome,
    identity_of,
    record_stage,
    recover,
    sync_folders,
    undo,
)
from wheelfit.installation.removal import RealPaths
from wheelfit.installation.staging_folders import Workplaces
from wheelfit.installation.steps import Step, StepKind, plan_steps
from wheelfit.wheels.disk_space import FULL, no_space_message
from wheelfit.wheels.file_system import NATIVE
from wheelfit_runtime.errors import EnvironmentUnavailable, os_reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wheelfit.installation.environment_folders import EnvironmentFolders
    from wheelfit.installation.recovery import Recovery
    from wheelfit.wheels.file_system import FileSystem

_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def environment_error(
    error: OSError,
    state: str = "nothing was changed",
    *,
    destination: Path | None = None,
    needed: int | None = None,
) -> EnvironmentUnavailable:
    """Return the error with the reason why the environment could not be changed.

    :param state: the state of the environment, the beginning of the hint.
    :param destination: the folder of the environment where everything is written.
    :param needed: bytes needed there.
    """
    where = None if error.filename is None else os.fsdecode(error.filename)
    if error.errno in _DENIED:
        return EnvironmentUnavailable(
            f"the environment cannot be written: {os_reason(error)}",
            code="environment-read-only",
            where=where,
            hint=f"{state}; use a virtual environment, or --target with a folder of your own",
        )
    if error.errno in FULL:
        # The error of a copy names the source, and second the target, whose disk is full.
        full_folder = destination
        if error.filename2:
            full_folder = Path(os.fsdecode(error.filename2))
        elif not destination and error.filename is not None:
            full_folder = Path(os.fsdecode(error.filename))
        return EnvironmentUnavailable(
            no_space_message(full_folder or Path(), needed, error=error),
            where=None if full_folder is None else str(full_folder),
            hint=f"{state}; make room and try again",
        )
    return EnvironmentUnavailable(
        f"the environment could not be changed: {os_reason(error)}",
        where=where,
        hint=state,
    )


class Transaction:
    """An atomic change of an environment.

    Use it as a context manager, with the environment locked. Fill the folders that `stage` returns,
    then call `switch` once. Leaving the block without that removes the staged files.

    :param created: folders that were created for this change, the deepest first.
    :param lock_timeout: seconds to wait for another process if the file system has no locks, and
        the workplace serves as lock; None: the environment is locked.
    """

    def __init__(
        self,
        folders: EnvironmentFolders,
        *,
        created: Sequence[str] = (),
        lock_timeout: float | None = None,
        file_system: FileSystem = NATIVE,
    ) -> None:
        self._folders = folders
        self._lock_timeout = lock_timeout
        self._file_system = file_system
        self._disk = file_system
        self._open: AbstractContextManager[FileSystem] | None = None
        self._created = created
        self._workplaces: Workplaces
        self._notes: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user, a sentence each; complete when the block is left."""
        return self._notes

    @property
    def files(self) -> FileSystem:
        """The file system, limited to the open folders of the environment."""
        return self._disk

    def __enter__(self) -> Self:
        self._open = self._file_system.limited_to(self._folders.roots.values())
        self._disk = self._open.__enter__()
        try:
            self._workplaces = Workplaces(
                self._folders, self._created, self._disk, self._file_system
            )
            try:
                is_workplace_new = self._workplaces.claim(self._lock_timeout)
            except BaseException:
                # A signal may have come just after it was created. Without the lock, an empty one
                # may belong to another process.
                if self._lock_timeout is None:
                    with suppress(OSError):
                        self._disk.remove_folder(self._folders.workplace)
                raise
            try:
                self._workplaces.open(created=is_workplace_new)
            except BaseException as error:
                self._recover_after(error)
                raise
        except BaseException:
            self._open.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            self._recover_after(error)
        finally:
            if self._open is not None:
                self._open.__exit__(None, None, None)

    def _recover_after(self, error: BaseException | None) -> None:
        """Undo an uncommitted change, and remove the workplace."""
        try:
            recovered = self._recover()
        except (OSError, LinkRefused, NotRecoverable) as failure:
            if error is None or journal_stage_of(self._folders) is JournalStage.COMMITTED:
                self._notes = (f"the replaced files could not be removed yet: {failure}",)
                return
            raise EnvironmentUnavailable(
                "the environment could be neither changed nor restored",
                where=self._folders.workplace,
                note=f"{error}\n{failure}",
                hint="run `wheelfit recover`; the next command that changes the environment does "
                "the same",
            ) from error
        if recovered is not None:
            self._notes = recovered.notes
        if recovered is None or recovered.outcome is not RecoveryOutcome.FINISHED:
            self._workplaces.remove_created()

    def _recover(self) -> Recovery | None:
        try:
            return recover(self._folders, self._disk)
        except KeyboardInterrupt:
            # The clean-up is short, so an interrupt ends it only at the second attempt.
            recover(self._folders, self._disk)
            raise

    # --- stage ---

    def stage(self, scheme: str) -> Path:
        """Return the staged folder of a scheme."""
        return self._workplaces.stage(scheme)

    # --- switch ---

    def switch(
        self,
        removed_files: Mapping[str, Mapping[str, str]],
        *,
        changes: Sequence[str] = (),
        replace: bool = False,
    ) -> None:
        """Move the staged files to their places, and remove leaving ones; all or nothing.

        :param removed_files: by folder, an absolute path, the owner of each file to remove from it.
        :param changes: descriptions of the changes, for readers of the journal.
        :param replace: whether existing files without an owner may be replaced.
        :raises IntegrityError: ``file-conflict``; an existing file may not be replaced.
        :raises OSError: an operation failed; leaving the block restores the old state.
        """
        self._workplaces.make_roots()
        modes = iter(_MODES)
        mode = next(modes)
        while True:
            steps = self._plan(removed_files, replace=replace, mode=mode)
            try:
                self._make_changes(Journal(tuple(changes), steps))
            except OSError as error:
                if error.errno not in _UNSUPPORTED or (next_mode := next(modes, None)) is None:
                    raise
                mode = next_mode
                self._undo()
            else:
                return

    def _plan(
        self, removed_files: Mapping[str, Mapping[str, str]], *, replace: bool, mode: _Mode
    ) -> tuple[Step, ...]:
        from wheelfit.wheels.paths import fold_name

        ignores_case = not self._disk.is_case_sensitive(self._folders.library)
        real = RealPaths()
        # Links within the environment are followed here, so that steps name folders themselves.
        removed: dict[str, dict[str, str]] = {}
        for folder, names in removed_files.items():
            removed.setdefault(real.folder(folder), {}).update(names)
        # A folder that is reached by a link stays, even if it becomes empty.
        linked = set()
        for folder in removed_files:
            parent, name = os.path.split(folder)
            path_without_link = os.path.join(real.folder(parent), name)  # noqa: PTH118
            if real.folder(folder) != path_without_link:
                linked.add(real.folder(folder))
        steps = plan_steps(
            self._workplaces.stages,
            removed,
            read_folder=FolderScan(),  # a new one, as files may have appeared since the first
            store=self._workplaces.store,
            kept=self._folders.unmovable | linked,
            real=real.folder,
            replace=replace,
            whole_folders=mode.whole_folders,
            exchange=mode.exchange,
            fold=fold_name if ignores_case else None,
        )
        for step in steps:
            if not self._folders.has(step.path):
                raise LinkRefused(
                    "a link leads out of the environment, and is not followed",
                    where=step.path,
                    hint="nothing was changed; remove the link",
                )
        return tuple(self._with_identities(self._in_same_file_system(step)) for step in steps)

    def _in_same_file_system(self, step: Step) -> Step:
        """Copy a staged path into the file system of its place, if that is another one.

        A link or a mount within the environment may lead there.
        """
        if step.kind not in {StepKind.PUT, StepKind.SWAP}:
            return step
        folder = os.path.dirname(step.path)  # noqa: PTH120
        if self._workplaces.is_in_workplace_for(step.workplace_path, folder):
            return step
        near = f"{self._workplaces.store(folder)}{os.sep}new-{secrets.token_hex(4)}"
        _copy(step.workplace_path, near, self._disk)
        return step._replace(workplace_path=near)

    def _with_identities(self, step: Step) -> Step:
        new_path = step.workplace_path if step.kind in {StepKind.PUT, StepKind.SWAP} else ""
        old_path = step.path if step.kind in {StepKind.SWAP, StepKind.TAKE} else ""
        return step._replace(
            new_identity=identity_of(new_path) if new_path else 0,
            old_identity=identity_of(old_path) if old_path else 0,
        )

    def _make_changes(self, journal: Journal) -> None:
        final = journal_path(self._folders)
        self._disk.write(f"{final}.new", journal.to_bytes(self._folders))
        self._workplaces.sync()
        self._disk.replace(f"{final}.new", final)
        self._disk.sync_folder(self._folders.workplace)
        # From here on the environment changes.
        for step in journal.steps:
            self._make_step(step)
        sync_folders(journal.steps, self._disk)
        try:
            record_stage(self._folders, JournalStage.COMMITTED, self._disk)
        except OSError as error:
            self._revoke_commit(error)
            raise

    def _revoke_commit(self, error: OSError) -> None:
        """Revoke the commit, which may not be on the disk."""
        committed = journal_path(self._folders, JournalStage.COMMITTED)
        try:
            with suppress(FileNotFoundError):
                self._disk.replace(committed, journal_path(self._folders))
        except OSError as failure:
            raise EnvironmentUnavailable(
                "the environment was changed, but a power cut may undo the change",
                where=self._folders.workplace,
                note=f"{error}\n{failure}",
                hint="once the disk can be written, run `wheelfit recover`",
            ) from error

    def _make_step(self, step: Step) -> None:
        match step.kind:
            case StepKind.PUT:
                self._disk.move(step.workplace_path, step.path)
            case StepKind.TAKE:
                self._disk.move(step.path, step.workplace_path)
            case StepKind.DROP:
                self._disk.remove_folder(step.path)
            case StepKind.SWAP:
                if not self._disk.exchange(step.workplace_path, step.path):
                    raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP), step.path)

    def _undo(self) -> None:
        undo(self._folders, read_journal(self._folders, self._disk), self._disk)
        self._disk.remove_file(journal_path(self._folders))


class _Mode(NamedTuple):
    """The kinds of renames that a plan may use."""

    whole_folders: bool = True
    exchange: bool = True


# In an overlay file system, as in containers, folders of the lower layer cannot be renamed, but
# files can; and not every file system can exchange two names.
_UNSUPPORTED = frozenset({errno.EXDEV, errno.ENOTSUP, errno.EOPNOTSUPP})
_MODES = (_Mode(), _Mode(exchange=False), _Mode(whole_folders=False), _Mode(False, False))


def _copy(source: str, target: str, disk: FileSystem) -> None:
    status = disk.lstat(source)
    if stat.S_ISDIR(status.st_mode):
        disk.make_folder(target)
        for name, _ in disk.entries(source):
            _copy(f"{source}{os.sep}{name}", f"{target}{os.sep}{name}", disk)
        disk.set_mode(target, stat.S_IMODE(status.st_mode))
    else:
        disk.copy(source, target)
