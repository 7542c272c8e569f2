"""Records of machines: written for a bug report, and looked at by whoever gets one."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.core.provider_steps import ProviderPolicy
from wheelfit.errors import FileProblem, UsageError
from wheelfit.platforms import recording
from wheelfit.platforms.discovery import Machine

if TYPE_CHECKING:
    from argparse import Namespace

    from wheelfit.cli.output import Output
    from wheelfit.operations.machine import ChosenMachine


@dataclass(frozen=True, slots=True)
class Record:
    """Hold what became of a record."""

    folder: str
    """Where it lies."""
    differs: tuple[str, ...]
    """Namespaces of which it says something else than detection does now."""
    is_new: bool
    """Whether it was written just now."""

    def to_mapping(self) -> dict[str, object]:
        """Return it for results."""
        return {"folder": self.folder, "differs": list(self.differs)}

    def tell(self, output: Output) -> None:
        """Say what was written, and what to think of it."""
        if self.is_new:
            output.say(
                f"recorded this machine in {self.folder}; look through it before you send it, "
                f"and look at what it says: wheelfit probe --replay {self.folder}"
            )
        for namespace in self.differs:
            when = "as replayed" if self.is_new else "now as when it was recorded"
            output.warn(f"{namespace}: detection does not say the same {when}")


def check_options(arguments: Namespace) -> None:
    """Refuse options of `probe` that contradict each other.

    :raises UsageError: they do.
    """
    given = [
        option
        for option, is_given in (
            ("--record", arguments.record),
            ("--replay", arguments.replay),
            ("--for", arguments.host),
        )
        if is_given
    ]
    if len(given) > 1:
        raise UsageError(
            f"{' and '.join(given)} name different machines",
            hint="--record is about this machine; --replay and --for are about another",
        )
    if arguments.replay and arguments.output:
        raise UsageError(
            "a record does not hold the interpreter that -o writes down",
            hint="have probe -o run on the recorded machine",
        )


def write_record(name: str, machine: ChosenMachine) -> Record:
    """Record the machine this runs on.

    :param name: the folder; may hold an earlier record, which is replaced.
    :raises FileProblem: the folder holds something else, or cannot be written.
    """
    assert isinstance(machine.detector, Machine)  # noqa: S101 - check_options saw to it
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
