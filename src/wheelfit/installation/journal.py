"""The journal written before an environment changes, so that any process can restore it.

The journal is a file in the workplace, which is a folder in the library folder. It lists every step
of a change, and is on disk before the first step. Its name is the stage of the change: with
`JournalStage.JOURNAL`, the next process undoes the change; with `JournalStage.COMMITTED` or
`JournalStage.UNDONE`, it only removes the workplace. A journal that is incomplete, or names a file
outside the environment, is refused by `NotRecoverable`, and nothing is changed.

The workplace may have come with a clone or an archive, or from another user. So its files are
signed, and it has a mark: the signature of its inode by the user's `Signer`. `check_workplace`
refuses a workplace without its mark.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from wheelfit.errors import NotRecoverable
from wheelfit.installation.environment_folders import WORKPLACE, EnvironmentFolders
from wheelfit.installation.steps import Step, StepKind
from wheelfit_runtime.errors import os_reason

if TYPE_CHECKING:
    from wheelfit.wheels.file_system import FileSystem

FOLDERS: Final = "folders"
"""The file in the workplace that lists the folders created outside of it."""
MARK: Final = "of-"
"""The start of the name of the file that marks a workplace as this user's."""

_VERSION: Final = 1
_HEAD: Final = b"wheelfit journal sha256="
_SIGNED: Final = b" by="
_MAX_BYTES: Final = 256 * 1024 * 1024
_WRITABLE_BY_OTHERS: Final = 0o022


class JournalStage(StrEnum):
    """The stage of a change, by the name of the file in the workplace."""

    JOURNAL = "journal"
    """Steps are being made or undone; the old state can be restored."""
    COMMITTED = "committed"
    """All steps are made."""
    UNDONE = "undone"
    """All steps are undone."""


class Journal(NamedTuple):
    """A change: its description for users, and its steps."""

    changes: tuple[str, ...]
    """The changes in words, such as ``install demo 2.0``."""
    steps: tuple[Step, ...]

    def to_bytes(self, folders: EnvironmentFolders) -> bytes:
        """Return the content of the file."""
        document = {
            "version": _VERSION,
            "layout": dict(folders.layout),
            "workplace": _workplace_inode(folders),
            "changes": list(self.changes),
            "steps": [
                [
                    step.kind.value,
                    folders.encode(step.path),
                    folders.encode(step.workplace_path) if step.workplace_path else "",
                    sorted(step.owners),
                    step.new_identity,
                    step.old_identity,
                ]
                for step in self.steps
            ],
        }
        # ASCII, so that file names that are not text are kept, as escaped surrogates.
        return _signed(document, folders)


def format_folders(
    folders: EnvironmentFolders, workplaces: list[str], created: dict[str, int]
) -> bytes:
    """Return the list of other folders created for a change, as bytes.

    :param created: by scheme, how many folders were created: that of the scheme and its parents.
    """
    document = {
        "workplace": _workplace_inode(folders),
        "workplaces": [folders.encode(path) for path in workplaces],
        "made": created,
    }
    return _signed(document, folders)


def _signed(document: Any, folders: EnvironmentFolders) -> bytes:
    body = json.dumps(document, separators=(",", ":")).encode("ascii")
    head = _HEAD + hashlib.sha256(body).hexdigest().encode()
    return head + _SIGNED + folders.signer.of("journal", body).encode() + b"\n" + body


def mark_of(folders: EnvironmentFolders, workplace: str, disk: FileSystem) -> str:
    """Return the name of the file that marks a workplace as this user's."""
    status = disk.lstat(workplace)
    mode = stat.S_IMODE(status.st_mode)
    return MARK + folders.signer.of("workplace", status.st_ino, status.st_uid, mode)[:32]


def mark_workplace(
    folders: EnvironmentFolders, workplace: str, disk: FileSystem, *, created: bool
) -> None:
    """Mark a workplace as this user's; an existing one is checked first.

    :param created: whether this process has just made it.
    """
    if not created:
        check_workplace(folders, workplace, disk)
    mark = os.path.join(workplace, mark_of(folders, workplace, disk))  # noqa: PTH118
    if disk.exists(mark):
        return
    disk.write(mark, b"")
    status = disk.lstat(workplace)
    if (fault := _ownership_fault(status)) is None:
        return
    # On some file systems, as FAT and network shares, all files have one owner and mode. If the new
    # mark has another owner or a stricter mode than the folder, another user replaced the folder.
    with suppress(OSError):
        disk.set_mode(mark, 0o600)
    mark_status = disk.lstat(mark)
    has_other_owner = status.st_uid != mark_status.st_uid
    has_stricter_mode = status.st_mode & ~mark_status.st_mode & _WRITABLE_BY_OTHERS
    if has_other_owner or has_stricter_mode:
        disk.remove_file(mark)
        raise _untrusted(workplace, fault)


def check_workplace(folders: EnvironmentFolders, workplace: str, disk: FileSystem) -> None:
    """Check that this user's wheelfit created a workplace, in this folder.

    An empty workplace is accepted: its process may have been killed before it wrote the mark.

    :param disk: the file system of the workplace, with open folders.
    :raises NotRecoverable: the workplace may be from elsewhere.
    """
    status = disk.lstat(workplace)
    if not stat.S_ISDIR(status.st_mode):
        kind = "a link" if stat.S_ISLNK(status.st_mode) else "a file"
        raise _untrusted(workplace, f"{kind} is in the place of a change that was interrupted")
    fault = _ownership_fault(status)
    try:
        names = [name for name, _ in disk.entries(workplace)]
    except PermissionError:
        if fault is None:
            raise
        names = []
    # The mark is a signature of owner and mode too, so these have not changed since its creation.
    if mark_of(folders, workplace, disk) in names:
        return
    if fault is not None:
        raise _untrusted(workplace, fault)
    if names:
        raise _untrusted(
            workplace,
            "an interrupted change was not started by you in this environment: it was copied, "
            "or came with a clone or an archive",
            note=folders.signer.storage_problem,
        )


def _ownership_fault(status: os.stat_result) -> str | None:
    """Return the reason to suspect another user's changes of a workplace; None: there is none."""
    if not hasattr(os, "geteuid"):  # on Windows the mark alone counts
        return None
    if status.st_uid != os.geteuid():
        return "another user's change of the environment was interrupted"
    if status.st_mode & _WRITABLE_BY_OTHERS:
        return "a change was interrupted, and other users can write to its files"
    return None


def _untrusted(workplace: str, message: str, note: str | None = None) -> NotRecoverable:
    return NotRecoverable(
        message,
        where=workplace,
        note="nothing was changed" + (f"; {note}" if note else ""),
        hint="delete it if the environment is correct, or recreate the environment",
    )


def journal_stage_of(folders: EnvironmentFolders) -> JournalStage | None:
    """Return the stage of an interrupted change; None if no step of one was made."""
    for stage in JournalStage:
        if os.path.lexists(journal_path(folders, stage)):
            return stage
    return None


def journal_path(folders: EnvironmentFolders, stage: JournalStage = JournalStage.JOURNAL) -> str:
    """Return the path that the journal of a change has in a stage."""
    return os.path.join(folders.workplace, stage.value)  # noqa: PTH118


def read_journal(folders: EnvironmentFolders, disk: FileSystem) -> Journal:
    """Read the journal of a change."""
    path = journal_path(folders)
    try:
        return _parse(_document(path, folders, disk), folders, path)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _refusal(path, "the journal of a change is not valid for this environment") from None


def read_changes(
    folders: EnvironmentFolders, disk: FileSystem, stage: JournalStage
) -> tuple[str, ...]:
    """Return a description of a change, without reading its steps, which takes longer."""
    path = journal_path(folders, stage)
    try:
        return tuple(map(str, _document(path, folders, disk)["changes"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _refusal(path, "the journal of a change was not written by wheelfit") from None


def read_folders(folders: EnvironmentFolders, disk: FileSystem) -> tuple[list[str], dict[str, int]]:
    """Return the arguments of `format_folders`; empty if this workplace has no valid list."""
    path = os.path.join(folders.workplace, FOLDERS)  # noqa: PTH118
    try:
        document = _document(path, folders, disk)
        if document["workplace"] != _workplace_inode(folders):
            return [], {}
        workplaces = [folders.decode(text) for text in document["workplaces"]]
        created = {str(scheme): int(levels) for scheme, levels in document["made"].items()}
    except (NotRecoverable, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return [], {}
    valid = [folder for folder in workplaces if os.path.basename(folder) == WORKPLACE]  # noqa: PTH119
    return valid, {scheme: levels for scheme, levels in created.items() if scheme in folders.roots}


def _document(path: str, folders: EnvironmentFolders, disk: FileSystem) -> Any:
    """Return the content of a journal, written completely and by this user."""
    try:
        is_own = disk.lstat(path).st_uid == disk.lstat(folders.workplace).st_uid
        data = disk.read(path, _MAX_BYTES)
    except OSError as error:
        raise _refusal(
            path, f"the journal of a change cannot be read: {os_reason(error)}"
        ) from None
    head, _, body = data.partition(b"\n")
    head, _, signature = head.partition(_SIGNED)
    if head != _HEAD + hashlib.sha256(body).hexdigest().encode():
        raise _refusal(path, "the journal of a change is damaged")
    if not is_own or not folders.signer.is_of(
        signature.decode("utf-8", "replace"), "journal", body
    ):
        raise _untrusted(
            path,
            "the journal of a change was not written by you",
            note=folders.signer.storage_problem,
        )
    return json.loads(body)


def _parse(document: Any, folders: EnvironmentFolders, path: str) -> Journal:
    if document["version"] != _VERSION:
        raise _refusal(path, "the journal of a change was written by another version of wheelfit")
    if document["layout"] != dict(folders.layout):
        raise _refusal(
            path,
            "the journal of a change is for other folders",
            "use the same --python, --prefix, --root or --target as for the change",
        )
    if document["workplace"] != _workplace_inode(folders):
        raise _refusal(
            path,
            "a change was interrupted before this environment was copied",
            "recover the original, or recreate this environment",
        )
    return Journal(
        tuple(map(str, document["changes"])),
        tuple(_step(*row, folders=folders) for row in document["steps"]),
    )


def _workplace_inode(folders: EnvironmentFolders) -> int:
    return os.lstat(folders.workplace).st_ino


def _step(
    kind: str,
    path: str,
    workplace_path: str,
    owners: list[str],
    new_identity: int,
    old_identity: int,
    *,
    folders: EnvironmentFolders,
) -> Step:
    step = Step(
        StepKind(kind),
        folders.decode(path),
        folders.decode(workplace_path) if workplace_path else "",
        frozenset(map(str, owners)),
        int(new_identity),
        int(old_identity),
    )
    # A step moves a file from a workplace into the environment, or back.
    if step.path in folders.unmovable or WORKPLACE in path.split("/"):
        raise ValueError(path)
    needs_workplace = step.kind is not StepKind.DROP
    has_workplace = WORKPLACE in workplace_path.split("/")[:-1]
    if has_workplace != needs_workplace:
        raise ValueError(workplace_path)
    return step


def _refusal(path: str, message: str, hint: str | None = None) -> NotRecoverable:
    return NotRecoverable(
        message,
        where=path,
        note=None if hint else "nothing was changed; the old files are beside the journal",
        hint=hint or "recreate the environment, or delete the folder once it is correct",
    )
