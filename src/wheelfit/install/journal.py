"""What is written down before an environment changes, so that any process can put it right.

One file at one place: in the workplace in the library folder. It lists every step of a
change and is complete and on the disk before the first one is made. Its name says how far
things are: `Stage.JOURNAL`, and the change is undone by whoever finds it; `Stage.COMMITTED`,
and it is done; `Stage.UNDONE`, and it is undone. In the last two cases only the workplace is
left to be removed. A file that is not whole, or names something outside the environment, is
refused: then nothing is touched.
"""

from __future__ import annotations

import hashlib
import json
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wheelfit.errors import NotRecoverable
from wheelfit.install.places import WORKPLACE
from wheelfit.install.steps import Kind, Step
from wheelfit.values import dataclass

if TYPE_CHECKING:
    from wheelfit.install.places import Places

__all__ = ["Journal", "Stage", "read_changes", "read_journal", "stage_of"]


def __dir__() -> list[str]:
    return __all__


_VERSION: Final = 1
_HEAD: Final = b"wheelfit journal sha256="
_LONGEST: Final = 256 * 1024 * 1024


class Stage(StrEnum):
    """Say how far a change is, by the name of the file that lies in the workplace."""

    JOURNAL = "journal"
    """Steps are being made, or undone; what was is not lost, and nobody relies on what comes."""
    COMMITTED = "committed"
    """All steps are made."""
    UNDONE = "undone"
    """All steps are undone."""


@dataclass(frozen=True, slots=True)
class Journal:
    """Hold a change: what it is for people, and its steps."""

    changes: tuple[str, ...]
    """What is changed in words, as ``install demo 2.0``."""
    steps: tuple[Step, ...]
    """The renames in their order."""

    def to_bytes(self, places: Places) -> bytes:
        """Return the content of the file.

        :param places: the folders of the environment.
        """
        document = {
            "version": _VERSION,
            "layout": dict(places.layout),
            "workplace": _number(places),
            "changes": list(self.changes),
            "steps": [
                [
                    step.kind.value,
                    places.encode(step.place),
                    places.encode(step.aside) if step.aside else "",
                    sorted(step.owners),
                    step.coming,
                    step.going,
                ]
                for step in self.steps
            ],
        }
        # ASCII, so that a name that is no text survives as the surrogates that stand for it.
        body = json.dumps(document, separators=(",", ":")).encode("ascii")
        return _HEAD + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def stage_of(places: Places) -> Stage | None:
    """Say how far the change is that was begun; None if no step of one was made.

    :param places: the folders of the environment.
    """
    for stage in Stage:
        if os.path.lexists(os.path.join(places.workplace, stage.value)):  # noqa: PTH118
            return stage
    return None


def read_journal(places: Places, stage: Stage = Stage.JOURNAL) -> Journal:
    """Read the journal of a change.

    :param places: the folders of the environment.
    :param stage: how far it is.
    :raises NotRecoverable: it is not whole, or not of this environment.
    """
    path = Path(places.workplace, stage.value)
    try:
        return _parse(_document(path), places, path)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _refusal(path, "the journal of a change is not one for this environment") from None


def read_changes(places: Places, stage: Stage) -> tuple[str, ...]:
    """Return what a change was in words; its steps, which take longer, are not looked at.

    :param places: the folders of the environment.
    :param stage: how far it is.
    :raises NotRecoverable: the journal is not whole.
    """
    path = Path(places.workplace, stage.value)
    try:
        return tuple(map(str, _document(path)["changes"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _refusal(path, "the journal of a change is not one of wheelfit") from None


def _document(path: Path) -> Any:
    """Return what a journal says; it was written completely."""
    try:
        with path.open("rb") as stream:
            data = stream.read(_LONGEST)
    except OSError as error:
        raise _refusal(path, f"the journal of a change cannot be read: {error.strerror}") from None
    head, _, body = data.partition(b"\n")
    if head != _HEAD + hashlib.sha256(body).hexdigest().encode():
        raise _refusal(path, "the journal of a change is damaged")
    return json.loads(body)


def _parse(document: Any, places: Places, path: Path) -> Journal:
    if document["version"] != _VERSION:
        raise _refusal(path, "the journal of a change was written by another version of wheelfit")
    if document["layout"] != dict(places.layout):
        raise _refusal(
            path,
            "the journal of a change is about other folders than these",
            "name the environment as when it was changed: --python, --prefix, --root or --target",
        )
    if document["workplace"] != _number(places):
        raise _refusal(
            path,
            "a change of the environment was interrupted, and it was copied since",
            "recover the original, or make the environment anew",
        )
    return Journal(
        tuple(map(str, document["changes"])),
        tuple(_step(*row, places=places) for row in document["steps"]),
    )


def _number(places: Places) -> int:
    """Return the file number of the workplace; the steps know what they move by such numbers."""
    return os.stat(places.workplace).st_ino  # noqa: PTH116


def _step(
    kind: str, place: str, aside: str, owners: list[str], coming: int, going: int, *, places: Places
) -> Step:
    found = Step(
        Kind(kind),
        places.decode(place),
        places.decode(aside) if aside else "",
        frozenset(map(str, owners)),
        int(coming),
        int(going),
    )
    # A step leads from a workplace into the environment or back, nowhere else.
    if found.place in places.kept or WORKPLACE in place.split("/"):
        raise ValueError(place)
    if (found.kind is not Kind.DROP) != (WORKPLACE in aside.split("/")[:-1]):
        raise ValueError(aside)
    return found


def _refusal(path: Path, message: str, hint: str | None = None) -> NotRecoverable:
    return NotRecoverable(
        message,
        where=str(path),
        note=None if hint else "nothing was touched; what was there before lies beside the journal",
        hint=hint or "make the environment anew, or delete the folder once it is as it should be",
    )
