"""Records of machines, written for bug reports and replayed elsewhere."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.core.provider_steps import ProviderPolicy
from wheelfit_runtime.errors import FileProblem
from wheelfit_runtime.platforms import recording
from wheelfit_runtime.platforms.discovery import Machine

if TYPE_CHECKING:
    from wheelfit.operations.machine import ChosenMachine


@dataclass(frozen=True, slots=True)
class Record:
    """A record that was written or opened."""

    folder: str
    differs: tuple[str, ...]
    """Namespaces for which it differs from what detection returns now."""
    is_new: bool
    """Whether it was written just now."""

    def to_json(self) -> dict[str, object]:
        """Return it as plain data."""
        return {"folder": self.folder, "differs": list(self.differs)}


def write_record(name: str, machine: ChosenMachine) -> Record:
    """Record the machine this runs on.

    :param name: the folder; may hold an earlier record, which is replaced.
    :raises FileProblem: the folder holds something else, or cannot be written.
    """
    assert isinstance(machine.detector, Machine)  # noqa: S101 - no other one has --record
    try:
        differs = recording.record(Path(name), machine.detector)
    except FileExistsError:
        raise FileProblem(
            "the folder holds something else than a record, so nothing is written",
            where=name,
            hint="name a new folder",
        ) from None
    except OSError as error:
        raise FileProblem(
            f"the record cannot be written: {error.strerror or error}",
            where=name,
            hint="name a new folder, where there is room",
        ) from None
    return Record(name, differs, is_new=True)


def open_record(name: str, current: ChosenMachine) -> tuple[ChosenMachine, Record]:
    """Open a recorded machine.

    :param name: its folder.
    :param current: this machine, chosen by the same options.
    :raises FileProblem: it cannot be read, or is no record.
    """
    folder = Path(name)
    try:
        machine = recording.open_recorded(folder)
        words = recording.description(folder)["description"]
        expected = recording.expected(folder)
        said = json.loads(json.dumps(recording.as_expected(machine)))
        differs = tuple(name for name, told in said.items() if expected.get(name, told) != told)
    except (OSError, ValueError) as error:
        place = Path(error.filename).name if isinstance(error, OSError) and error.filename else ""
        why = f"{place}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise FileProblem(
            f"this is no record of a machine: {why}",
            where=name,
            hint="write one with: wheelfit probe --record DIR",
        ) from None
    chosen = replace(
        current,
        name=name,
        words=words,
        detector=_with_options_of(current, machine),
        namespaces=machine.namespaces,
        overrides=machine.overrides_in_effect(),
        policy=ProviderPolicy(disabled=current.policy.disabled),
    )
    return chosen, Record(name, differs, is_new=False)


def _with_options_of(current: ChosenMachine, recorded: Machine) -> Machine:
    """Return a recorded machine that is asked as this one would be (P-123, P-153)."""
    if not isinstance(current.detector, Machine):
        return recorded
    asked = current.detector.surroundings
    return Machine.over(
        replace(
            recorded.surroundings,
            rocm_same_major=asked.rocm_same_major,
            tpu_generation=asked.tpu_generation,
        )
    )
