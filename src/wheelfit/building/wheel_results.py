"""The results of a project's tests with each of its wheels, and the record beside the wheels.

The record is in a hidden folder, so that ``twine upload dist/*`` does not see it. It identifies a
wheel by its SHA-256: a rebuilt wheel is untested.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from wheelfit.building.publishing.refusals import UNTESTED_WHEEL
from wheelfit.checking.findings import Finding, Location
from wheelfit.core import strict_json
from wheelfit.wheels.atomic_write import write_file
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from wheelfit.building.publishing.release_files import OutgoingFile

FOLDER = ".wheelfit-tests"
"""The folder beside the wheels, for the record and the output of the tests."""
_RECORD = "results.json"

State = Literal["passed", "failed", "not-run"]
How = Literal["machine", "emulated", "described"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelResult:
    """The result of the tests with one wheel."""

    filename: str
    label: str | None
    sha256: str
    state: State
    how: How | None = None
    """How they ran: on this machine, under QEMU, or on this machine with an override or a simulated
    driver for another one. None: they did not run.
    """
    cpu: str | None = None
    seconds: float | None = None
    """The duration of the command, without the installation."""
    exit_code: int | None = None
    """The exit code of the command; None: it did not run."""
    reason: str = ""
    """The reason why the tests did not run, or why the wheel failed before the command."""
    log: str | None = None

    @property
    def proves_support(self) -> bool:
        """Whether the tests passed on hardware that the wheel needs, or its emulation."""
        return self.state == "passed" and self.how in ("machine", "emulated")

    def to_mapping(self) -> dict[str, object]:
        """Return the result as plain data."""
        return asdict(self)


def read_results(folder: Path) -> dict[str, WheelResult] | None:
    """Return the recorded results of wheels in a folder by SHA-256; None if there is no record."""
    path = folder / FOLDER / _RECORD
    try:
        results = strict_json.load(path.read_bytes())["results"]
        return {sha256: WheelResult(**entry) for sha256, entry in results.items()}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise FileProblem(
            f"the record of tests cannot be read: {error}",
            where=str(path),
            hint="remove it, and run `wheelfit test` again",
        ) from None


def write_results(folder: Path, results: Sequence[WheelResult]) -> None:
    """Add results to the record of a folder; those of other wheels stay, as of another machine.

    A pass is replaced by a failure or another pass, but not by tests that did not run.
    """
    recorded = read_results(folder) or {}
    for result in results:
        earlier = recorded.get(result.sha256)
        was_proven = earlier is not None and earlier.proves_support
        if result.proves_support or result.state == "failed" or not was_proven:
            recorded[result.sha256] = result
    entries = {sha256: result.to_mapping() for sha256, result in recorded.items()}
    text = json.dumps({"version": 1, "results": entries}, indent=1) + "\n"
    (folder / FOLDER).mkdir(exist_ok=True)
    write_file(folder / FOLDER / _RECORD, text.encode())


def untested_findings(files: Iterable[OutgoingFile]) -> Iterator[Finding]:
    """Yield findings about variants without passing tests, and any wheel with failed ones.

    Wheels without a record beside them are ignored: a project that never ran `wheelfit test` need
    not have tests.
    """
    records: dict[Path, dict[str, WheelResult] | None] = {}
    for file in files:
        folder = file.path.parent
        if folder not in records:
            records[folder] = read_results(folder)
        record = records[folder]
        if record is None:
            continue
        result = record.get(file.sha256)
        if result is not None and result.state == "failed":
            yield Location(str(file.path)).finding(UNTESTED_WHEEL, "its tests failed")
        elif file.label is not None and not (result and result.proves_support):
            yield Location(str(file.path)).finding(UNTESTED_WHEEL, _untested_reason(result))


def _untested_reason(result: WheelResult | None) -> str:
    if result is None:
        return "no test of this file is recorded"
    if result.state == "passed":
        return "its tests passed only with an override or a simulated driver"
    return "its tests could not run on the machines that tested the release"
