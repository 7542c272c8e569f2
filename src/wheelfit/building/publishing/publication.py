"""Publication of a set: at once where an index can stage it, else in a safe order."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from wheelfit.building.publishing.answers import NAME_TAKEN
from wheelfit.building.publishing.completeness import compare
from wheelfit.errors import UploadRefused
from wheelfit_runtime.errors import (
    FileProblem,
    NetworkError,
    PolicyRefusal,
    UnexpectedStatus,
    UserError,
    WheelfitError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wheelfit.building.publishing.completeness import IndexComparison
    from wheelfit.building.publishing.release_files import OutgoingFile, Release
    from wheelfit.building.publishing.twine_sender import Sender
    from wheelfit.checking.findings import Finding
    from wheelfit.sources.page import File
    from wheelfit.sources.progress import Progress

_LASTS = 86400.0
"""Seconds that a stage waits for the resumption of its publication."""
_ROUNDS = 3
_AGAIN = "run the same command again: what is there already is not sent again"


class Stages(Protocol):
    """The stages of an index, which hold files back; `ServerAdministration` of an index of ours."""

    def open_stage(self, owner: str, lifetime: float) -> dict[str, Any]:
        """Open a stage; return its ``id``."""

    def stages(self) -> list[dict[str, Any]]:
        """Return the stages that are open, each with its ``id`` and ``files``."""

    def publish(self, stage: str) -> list[str]:
        """Publish all files of a stage at once."""

    def drop(self, stage: str) -> int:
        """Delete a stage and its files."""


@dataclass(frozen=True, slots=True)
class PublishResult:
    """The result of publishing."""

    sent: tuple[str, ...] = ()
    there: tuple[str, ...] = ()
    """Names of those that were there already."""
    stage: str | None = None
    """Which stage was published; None: there was none."""
    is_resumed: bool = False
    """Whether that stage was opened by an interrupted publication."""
    refused_index_files: tuple[str, ...] = ()
    """Index files that the index does not take, each with its reason."""
    unlisted: tuple[str, ...] = ()
    """Sent files that the index does not list afterwards."""
    is_confirmed: bool = True
    """Whether the list of the index could be read afterwards."""


def publish_as_one(
    files: Sequence[OutgoingFile],
    stages: Stages,
    sender_for: Callable[[str], Sender],
    listed: Callable[[], Mapping[str, File]],
    progress: Progress,
) -> PublishResult:
    """Publish files so that all of them become visible at once, or none.

    An interrupted publication is resumed: a stage of ours that has nothing but files of the set. If
    a file is refused the stage is dropped, since its files will change.

    :raises UploadRefused: a file is refused, or the set contradicts published files.
    :raises NetworkError: the index cannot be reached; sent files wait in the stage.
    """
    for last in (False,) * (_ROUNDS - 1) + (True,):
        compared = compare(files, listed())
        refuse_conflicts(compared)
        there = tuple(one.filename for one in compared.there)
        if not compared.new:
            return PublishResult(there=there)
        stage, waiting = _stage_of(stages, compared.new)
        is_resumed = stage is not None
        if stage is None:
            stage = str(stages.open_stage("", _LASTS)["id"])
        try:
            sent = _fill(compared.new, waiting, sender_for(stage), progress)
            stages.publish(stage)
        except (UploadRefused, FileProblem) as error:
            # Another process publishes the same: its stage has a name, or ours is published.
            if not last and _is_race(error):
                _forget(stages, stage, unless=is_resumed)
                continue
            _forget(stages, stage)
            error.hint = error.hint or _who_holds(stages, compared.new)
            raise
        except (UserError, PolicyRefusal):
            _forget(stages, stage)
            raise
        except NetworkError as error:
            waits = _forget_empty(stages, stage)
            error.note = error.note or (
                "nothing is published; what was sent waits on the index"
                if waits
                else "nothing is published"
            )
            error.hint = error.hint or _AGAIN
            raise
        except KeyboardInterrupt:
            _forget_empty(stages, stage)
            raise
        return PublishResult(tuple(sent), there + tuple(waiting), stage, is_resumed)
    raise AssertionError  # the last round returned or raised


def publish_in_order(
    files: Sequence[OutgoingFile],
    index_files: Mapping[Release, bytes],
    sender: Sender,
    listed: Callable[[], Mapping[str, File]],
    progress: Progress,
) -> PublishResult:
    """Publish files one after the other, the index file of a release last (B-52).

    In between users see a part, which is usable, since wheels for all machines come first.

    :param listed: lists the index; others may send the same files meanwhile.
    :raises UploadRefused: a file is refused.
    :raises NetworkError: the index cannot be reached.
    """
    compared = compare(files, listed())
    refuse_conflicts(compared)
    sent: list[str] = []
    there = [one.filename for one in compared.there]
    refused = []
    progress.start(sum(one.size for one in compared.new))
    try:
        for one in compared.new:
            is_sent = _send_or_find(one, sender, listed, progress)
            (sent if is_sent else there).append(one.filename)
        for release, data in index_files.items():
            try:
                sender.send_index_file(release, data)
            except (UploadRefused, UnexpectedStatus) as error:
                if isinstance(error, UnexpectedStatus) and error.status >= 500:
                    raise
                refused.append(error.message)
    except (NetworkError, UserError) as error:
        error.note = error.note or _so_far(len(sent), len(compared.new))
        if isinstance(error, NetworkError):
            error.hint = error.hint or _AGAIN
        raise
    finally:
        sender.close()
    progress.done()
    return PublishResult(tuple(sent), tuple(there), refused_index_files=tuple(refused))


def _send_or_find(
    file: OutgoingFile, sender: Sender, listed: Callable[[], Mapping[str, File]], progress: Progress
) -> bool:
    """Send a file; return False if another publisher was quicker with the same content.

    :raises UploadRefused: it is refused; ``name-taken`` where other content was quicker.
    """
    try:
        sender.send(file, progress.advance)
    except UploadRefused as error:
        if not _is_taken(error):
            raise
        compared = compare([file], listed())
        if compared.there:
            return False
        if compared.findings:
            raise _taken(file.filename, compared.findings[0].message) from None
        raise
    return True


def _so_far(sent: int, count: int) -> str:
    if not sent:
        return "nothing was sent"
    return (
        f"{sent} of {count} files were sent, and the index shows them; {count - sent} are missing"
    )


def _stage_of(stages: Stages, files: Sequence[OutgoingFile]) -> tuple[str | None, tuple[str, ...]]:
    """Return the stage of an interrupted publication of the same files, and its files."""
    wanted = {one.filename: one.sha256 for one in files}
    for stage in reversed(stages.stages()):
        waiting = {str(file["filename"]): file["sha256"] for file in stage.get("files", ())}
        if waiting and waiting.items() <= wanted.items():
            return str(stage["id"]), tuple(sorted(waiting))
    return None, ()


def _who_holds(stages: Stages, files: Sequence[OutgoingFile]) -> str | None:
    """Return a hint about another stage with names of ours, as one of older builds."""
    names = {one.filename for one in files}
    for stage in stages.stages():
        if any(file["filename"] in names for file in stage.get("files", ())):
            held = stage["id"]
            return (
                f"the stage {held} has files of these names, from somebody else or from an earlier "
                f"attempt; `wheelfit index stage drop {held} --at PLACE` forgets them"
            )
    return None


def _fill(
    files: Sequence[OutgoingFile], waiting: Sequence[str], sender: Sender, progress: Progress
) -> list[str]:
    missing = [file for file in files if file.filename not in waiting]
    progress.start(sum(one.size for one in missing))
    try:
        for one in missing:
            try:
                sender.send(one, progress.advance)
            except UnexpectedStatus as error:
                if error.status == 404:  # the stage, for the server was there a moment ago
                    raise FileProblem("the stage no longer exists") from None
                raise
    finally:
        sender.close()
    progress.done()
    return [one.filename for one in missing]


def _is_taken(error: UserError) -> bool:
    return any(detail["reference"] == NAME_TAKEN for detail in error.details)


def _is_race(error: UserError) -> bool:
    if isinstance(error, FileProblem):
        return True
    return {str(detail["reference"]) for detail in error.details} <= {NAME_TAKEN, "no-such-stage"}


def _forget(stages: Stages, stage: str, *, unless: bool = False) -> None:
    """Drop a stage, if it exists and can be dropped."""
    if unless:
        return
    try:
        stages.drop(stage)
    except (FileProblem, NetworkError, PolicyRefusal):
        return


def _forget_empty(stages: Stages, stage: str) -> bool:
    """Drop a stage without files; return whether it may still exist, with files."""
    try:
        matching = [one for one in stages.stages() if str(one["id"]) == stage]
    except (NetworkError, PolicyRefusal):
        return True  # the index itself forgets it
    if matching and not matching[0].get("files"):
        _forget(stages, stage)
        return False
    return bool(matching)


def refuse_conflicts(compared: IndexComparison) -> None:
    """Raise on files whose names are taken by other content."""
    if compared.findings:
        raise _taken(compared.findings[0].where, compared.findings[0].message)


def _taken(where: str, message: str) -> UploadRefused:
    return UploadRefused(
        f"the index has a file of this name with other content: {message}",
        where=where,
        hint="publish a new version, or a wheel with a new build number",
        details=[{"reference": NAME_TAKEN, "message": message, "where": where}],
    )


_LONGEST_PAUSE = 8.0


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The listing by an index of the files that it was sent."""

    missing: tuple[OutgoingFile, ...] = ()
    """Files that it does not list."""
    findings: tuple[Finding, ...] = ()
    """Findings about files it lists with other content."""
    error: WheelfitError | None = None
    """The reason why that is unknown; then the other fields are empty."""


def confirm(
    files: Sequence[OutgoingFile],
    listed: Callable[[], Mapping[str, File]],
    *,
    patience: float,
    pause: Callable[[float], None] = time.sleep,
) -> Confirmation:
    """Confirm that an index lists sent files, repeatedly where a cache may lag behind.

    :param patience: total seconds of pauses between requests.
    """
    next_pause = 1.0
    while True:
        confirmation = _look(files, listed)
        waits = min(next_pause, patience)
        if (confirmation.error is None and not confirmation.missing) or waits <= 0:
            return confirmation
        pause(waits)
        patience -= waits
        next_pause = min(2 * next_pause, _LONGEST_PAUSE)


def _look(files: Sequence[OutgoingFile], listed: Callable[[], Mapping[str, File]]) -> Confirmation:
    try:
        there = listed()
    except WheelfitError as error:
        return Confirmation(error=error)
    missing = tuple(file for file in files if file.filename not in there)
    return Confirmation(missing, compare(files, there).findings)
