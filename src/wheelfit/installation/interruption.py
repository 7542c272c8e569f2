"""Recover from an interrupted change of an environment, or report one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.errors import EnvironmentBusy, NotRecoverable
from wheelfit.installation.environment_folders import EnvironmentFolders
from wheelfit.installation.journal import check_workplace, journal_stage_of, read_changes
from wheelfit.installation.locking import LOCK_TIMEOUT, locked
from wheelfit.installation.recovery import OUTCOMES, Recovery, RecoveryOutcome, recover
from wheelfit.installation.staging_folders import remove_folders
from wheelfit.installation.transaction import environment_error
from wheelfit.wheels.file_system import NATIVE

if TYPE_CHECKING:
    from wheelfit.installation.environment import Environment


@dataclass(frozen=True, slots=True)
class Interruption:
    """A change that is not finished."""

    outcome: RecoveryOutcome
    """The expected outcome of its recovery."""
    changes: tuple[str, ...] = ()
    """The parts of the change, such as ``install demo 2.0``; empty if unknown."""
    running: bool = False
    """Whether a process is executing it."""
    refusal: NotRecoverable | None = None
    """The reason it cannot be recovered; None: it can."""

    def __str__(self) -> str:
        changes = f" ({', '.join(self.changes)})" if self.changes else ""
        if self.running:
            return f"this environment is being changed by another process{changes}"
        if self.refusal is not None:
            return f"{self.refusal}; it is left alone, and `wheelfit recover` shows what to do"
        return (
            f"a change of this environment was interrupted{changes}; `wheelfit recover` repairs it"
        )


def find_interruption(environment: Environment) -> Interruption | None:
    """Return the unfinished change of an environment; None if there is none."""
    folders = EnvironmentFolders.of(environment.schemes, environment.signer)
    if not folders.is_changing:
        return None
    stage = journal_stage_of(folders)
    changes: tuple[str, ...] = ()
    refusal = None
    with suppress(OSError), NATIVE.limited_to(folders.roots.values()) as disk:
        try:
            check_workplace(folders, folders.workplace, disk)
            if stage is not None:
                changes = read_changes(folders, disk, stage)
        except NotRecoverable as error:
            refusal = error
    return Interruption(OUTCOMES[stage], changes, _is_locked(folders), refusal)


def _is_locked(folders: EnvironmentFolders) -> bool:
    """Return whether a process holds the lock; the lock of a killed process is removed."""
    if not folders.is_locked:
        return False
    try:
        with locked(Path(folders.library), lock_timeout=0):
            return False
    except (EnvironmentBusy, OSError):
        return True


def recover_environment(
    environment: Environment, *, allow_unlocked: bool = False
) -> Recovery | None:
    """Undo or finish a change that was interrupted.

    :return: None if there is none, or a process may still be making it (see `allow_unlocked`).

    :param allow_unlocked: whether to recover even if the file system has no locks: the user states
        that no other process changes the environment.
    :raises NotRecoverable: its journal is not valid; nothing was changed.
    :raises LinkRefused: a link leads out of the environment.
    :raises EnvironmentUnavailable: the environment is busy, or cannot be written.
    """
    folders = EnvironmentFolders.of(environment.schemes, environment.signer)
    if not folders.is_changing:
        _is_locked(folders)  # removes the lock of a killed process
        return None
    # The journal names real paths.
    folders = EnvironmentFolders(environment.real_folders(), environment.signer)
    try:
        with locked(Path(folders.library), lock_timeout=LOCK_TIMEOUT) as is_locked:
            # Without locks it is unknown whether another process is still executing the change.
            recovered = recover(folders, NATIVE) if is_locked or allow_unlocked else None
    except OSError as error:
        raise environment_error(error, "the recovery can be repeated") from None
    if recovered is not None:
        remove_folders(recovered.created)
    return recovered
