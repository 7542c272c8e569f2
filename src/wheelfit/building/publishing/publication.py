"""Publication of a release: at once if an index has stages, else in a safe order."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from wheelfit.building.publishing.answers import NAME_TAKEN
from wheelfit.building.publishing.completeness import IndexComparison, compare_with_index
from wheelfit.errors import UploadRefused
from wheelfit_runtime.errors import (
    FileProblem,
    IntegrityError,
    NetworkError,
    PolicyRefusal,
    UnexpectedStatus,
    UserError,
    WheelfitError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wheelfit.building.publishing.release_files import OutgoingFile
    from wheelfit.building.publishing.twine_sender import Sender
    from wheelfit.checking.findings import Finding
    from wheelfit.core.filename import Release
    from wheelfit.sources.page import File
    from wheelfit.sources.progress import Progress

_STAGE_LIFETIME = 86400.0
"""Seconds that a stage waits for the resumption of its publication."""
_MAX_ATTEMPTS = 3
_RETRY_HINT = "run the same command again: existing files are not sent again"


class Stages(Protocol):
    """The stages of an index, as `ServerAdministration` has them for an index of wheelfit."""

    def open_stage(self, lifetime: float) -> str:
        """Open a stage; return its ID."""

    def stages(self) -> Sequence[Mapping[str, Any]]:
        """Return the open stages, each with its ``id`` and ``files``."""

    def publish(self, stage: str) -> None:
        """Publish all files of a stage at once."""

    def drop(self, stage: str) -> None:
        """Delete a stage and its files."""


@dataclass(frozen=True, slots=True)
class PublishResult:
    """The result of a publication: the sent files, those that existed before, and the refusals."""

    sent: tuple[str, ...] = ()
    existing: tuple[str, ...] = ()
    """Names of files that the index had before."""
    stage: str | None = None
    """The published stage; None if there was none."""
    is_resumed: bool = False
    """Whether that stage was opened by an interrupted publication."""
    refused_index_files: tuple[str, ...] = ()
    """The reasons why the index refused index files."""
    unlisted: tuple[str, ...] = ()
    """Sent files that the index does not list afterwards."""
    is_confirmed: bool = True
    """Whether the listing of the index could be read afterwards."""


def publish_as_one(
    files: Sequence[OutgoingFile],
    stages: Stages,
    sender_for: Callable[[str], Sender],
    list_index: Callable[[], Mapping[str, File]],
    progress: Progress,
) -> PublishResult:
    """Publish files so that all of them become visible at once, or none.

    If a stage has only files of this release, an interrupted publication left it, and it is used
    again. If a file is refused or damaged the stage is dropped, since its files will change.

    :raises UploadRefused: a file is refused, or the index has one with other content.
    :raises NetworkError: the index cannot be reached; sent files stay in the stage.
    """
    for attempt in range(1, _MAX_ATTEMPTS + 1):
        comparison = compare_with_index(files, list_index())
        refuse_conflicts(comparison)
        existing = tuple(file.filename for file in comparison.existing)
        if not comparison.new:
            return PublishResult(existing=existing)
        stage, staged = _interrupted_stage(stages, comparison.new)
        is_resumed = stage is not None
        if stage is None:
            stage = stages.open_stage(_STAGE_LIFETIME)
        try:
            sent = _send_missing(comparison.new, staged, sender_for(stage), progress)
            stages.publish(stage)
        except (UploadRefused, FileProblem) as error:
            # Another process publishes the same files: its stage has a file of one of these names,
            # or it has published this stage.
            if attempt < _MAX_ATTEMPTS and _is_race(error):
                if not is_resumed:
                    _drop_stage(stages, stage)
                continue
            _drop_stage(stages, stage)
            error.hint = error.hint or _conflicting_stage_hint(stages, comparison.new)
            raise
        except (UserError, PolicyRefusal, IntegrityError):
            _drop_stage(stages, stage)
            raise
        except NetworkError as error:
            has_files = _drop_empty_stage(stages, stage)
            error.note = error.note or (
                "nothing is published; sent files stay in the stage on the index"
                if has_files
                else "nothing is published"
            )
            error.hint = error.hint or _RETRY_HINT
            raise
        except KeyboardInterrupt:
            _drop_empty_stage(stages, stage)
            raise
        return PublishResult(tuple(sent), existing + tuple(staged), stage, is_resumed)
    raise AssertionError  # the last attempt returned or raised


def publish_in_order(
    files: Sequence[OutgoingFile],
    index_files: Mapping[Release, bytes],
    sender: Sender,
    list_index: Callable[[], Mapping[str, File]],
    progress: Progress,
) -> PublishResult:
    """Publish files one after the other, the index file of a release last (B-52).

    Before the last file is sent, users see only some of them; these are usable, since wheels for
    all machines come first.

    :param list_index: returns the files that the index lists, by name; others may send the same
        files meanwhile.
    :raises UploadRefused: a file is refused.
    :raises PolicyRefusal: the user may not upload a file.
    :raises NetworkError: the index cannot be reached.
    """
    comparison = compare_with_index(files, list_index())
    refuse_conflicts(comparison)
    sent: list[str] = []
    existing = [file.filename for file in comparison.existing]
    refused = []
    progress.start(sum(file.size for file in comparison.new))
    try:
        for file in comparison.new:
            is_sent = _send_unless_listed(file, sender, list_index, progress)
            (sent if is_sent else existing).append(file.filename)
        for release, data in index_files.items():
            try:
                sender.send_index_file(release, data)
            except (UploadRefused, UnexpectedStatus) as error:
                if isinstance(error, UnexpectedStatus) and error.status >= 500:
                    raise
                refused.append(error.message)
    except (NetworkError, UserError, PolicyRefusal, IntegrityError) as error:
        error.note = error.note or _progress_note(len(sent), len(comparison.new))
        if isinstance(error, NetworkError):
            error.hint = error.hint or _RETRY_HINT
        raise
    finally:
        sender.close()
    progress.done()
    return PublishResult(tuple(sent), tuple(existing), refused_index_files=tuple(refused))


def _send_unless_listed(
    file: OutgoingFile,
    sender: Sender,
    list_index: Callable[[], Mapping[str, File]],
    progress: Progress,
) -> bool:
    """Send a file; return False if another publisher sent the same content first.

    :raises UploadRefused: it is refused; ``name-taken`` if other content was sent first.
    """
    try:
        sender.send(file, progress.advance)
    except UploadRefused as error:
        if not any(detail["reference"] == NAME_TAKEN for detail in error.details):
            raise
        comparison = compare_with_index([file], list_index())
        if comparison.existing:
            return False
        if comparison.findings:
            raise _name_conflict(file.filename, comparison.findings[0].message) from None
        raise
    return True


def _progress_note(sent: int, count: int) -> str:
    if not sent:
        return "nothing was sent"
    return f"{sent} of {count} files are published; missing: {count - sent}"


def _interrupted_stage(
    stages: Stages, files: Sequence[OutgoingFile]
) -> tuple[str | None, tuple[str, ...]]:
    """Return the stage of an interrupted publication of the same files, and its files."""
    digests = {file.filename: file.sha256 for file in files}
    for stage in reversed(stages.stages()):
        staged = {str(file["filename"]): file["sha256"] for file in stage.get("files", ())}
        if staged and staged.items() <= digests.items():
            return str(stage["id"]), tuple(sorted(staged))
    return None, ()


def _conflicting_stage_hint(stages: Stages, files: Sequence[OutgoingFile]) -> str | None:
    """Return a hint about another stage with the same file names, as of an earlier build."""
    names = {file.filename for file in files}
    for stage in stages.stages():
        if any(file["filename"] in names for file in stage.get("files", ())):
            stage_id = stage["id"]
            return (
                f"the stage {stage_id} of another user or an earlier attempt has files of these "
                f"names; `wheelfit index stage drop {stage_id} --at PLACE` deletes them"
            )
    return None


def _send_missing(
    files: Sequence[OutgoingFile], staged: Sequence[str], sender: Sender, progress: Progress
) -> list[str]:
    missing = [file for file in files if file.filename not in staged]
    progress.start(sum(file.size for file in missing))
    try:
        for file in missing:
            try:
                sender.send(file, progress.advance)
            except UnexpectedStatus as error:
                # The server answered earlier requests, so the stage is missing, not the server.
                if error.status == 404:
                    raise FileProblem("the stage no longer exists") from None
                raise
    finally:
        sender.close()
    progress.done()
    return [file.filename for file in missing]


def _is_race(error: UserError) -> bool:
    """Return whether another process that publishes the same files can be the cause.

    A `FileProblem` may mean that the stage does not exist any more.
    """
    if isinstance(error, FileProblem):
        return True
    return {str(detail["reference"]) for detail in error.details} <= {NAME_TAKEN, "no-such-stage"}


def _drop_stage(stages: Stages, stage: str) -> None:
    """Drop a stage, if it exists and can be dropped."""
    with suppress(FileProblem, NetworkError, PolicyRefusal):
        stages.drop(stage)


def _drop_empty_stage(stages: Stages, stage: str) -> bool:
    """Drop a stage without files; return whether it may still exist, with files."""
    try:
        matching = [open_stage for open_stage in stages.stages() if str(open_stage["id"]) == stage]
    except (NetworkError, PolicyRefusal):
        return True  # the index drops it when it expires
    if matching and not matching[0].get("files"):
        _drop_stage(stages, stage)
        return False
    return bool(matching)


def refuse_conflicts(comparison: IndexComparison) -> None:
    """Raise if the index has other content under the names of some files."""
    if comparison.findings:
        raise _name_conflict(comparison.findings[0].where, comparison.findings[0].message)


def _name_conflict(where: str, message: str) -> UploadRefused:
    return UploadRefused(
        f"the index has a file of this name with other content: {message}",
        where=where,
        hint="publish a new version, or a wheel with a new build number",
        details=[{"reference": NAME_TAKEN, "message": message, "where": where}],
    )


_LONGEST_PAUSE = 8.0


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The result of looking for sent files in the listing of an index."""

    missing: tuple[OutgoingFile, ...] = ()
    """Files that it does not list."""
    findings: tuple[Finding, ...] = ()
    """Findings about files it lists with other content."""
    error: WheelfitError | None = None
    """The error by which the index could not be listed; then the other fields are empty."""


def confirm(
    files: Sequence[OutgoingFile],
    list_index: Callable[[], Mapping[str, File]],
    *,
    timeout: float,
    pause: Callable[[float], None] = time.sleep,
) -> Confirmation:
    """Confirm that an index lists sent files, with retries in case of a cache.

    :param timeout: total seconds of pauses between requests.
    """
    next_pause = 1.0
    while True:
        confirmation = _compare_with_listing(files, list_index)
        wait = min(next_pause, timeout)
        if (confirmation.error is None and not confirmation.missing) or wait <= 0:
            return confirmation
        pause(wait)
        timeout -= wait
        next_pause = min(2 * next_pause, _LONGEST_PAUSE)


def _compare_with_listing(
    files: Sequence[OutgoingFile], list_index: Callable[[], Mapping[str, File]]
) -> Confirmation:
    try:
        listed = list_index()
    except WheelfitError as error:
        return Confirmation(error=error)
    missing = tuple(file for file in files if file.filename not in listed)
    return Confirmation(missing, compare_with_index(files, listed).findings)
