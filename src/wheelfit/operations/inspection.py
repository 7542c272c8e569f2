"""Inspection of the binaries in wheels, and of single libraries."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.core.filename import NEWER_FORMAT, is_newer_format
from wheelfit.errors import reporting_os_errors
from wheelfit.operations.plain_data import plain_fields, plain_report
from wheelfit.operations.requests import ValidatedRequest
from wheelfit.operations.rewriting import find_wheels
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.binaries.facts import Binaries, Binary
from wheelfit.wheels.binaries.instructions import with_instructions
from wheelfit.wheels.binaries.properties import ImpliedProperties, properties_of
from wheelfit.wheels.binaries.reading import read_binary, unpacked_binaries
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

    from wheelfit.operations.context import Context


class InspectRequest(ValidatedRequest):
    """The wheels and libraries to inspect."""

    wheels: tuple[str, ...]
    instructions: bool = False


@dataclass(frozen=True, slots=True)
class InspectedFile:
    """The binaries of one wheel, or one library."""

    path: Path
    binaries: Binaries
    binary_properties: ImpliedProperties

    def to_json(self) -> dict[str, object]:
        """Return the object of one file in ``--json``."""
        return plain_fields(
            self,
            "path",
            binaries=list(self.binaries),
            properties=list(map(str, self.binary_properties.properties)),
            notes=self.binary_properties.notes,
        )


@dataclass(frozen=True, slots=True)
class InspectReport:
    """The inspected files."""

    files: tuple[InspectedFile, ...]

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(self, wheels=self.files)


def inspect(request: InspectRequest, context: Context) -> Iterator[InspectedFile]:
    """Yield each wheel or library when it has been inspected."""
    del context
    for path in _paths(request.wheels):
        binaries = _read(path, instructions=request.instructions)
        yield InspectedFile(path, binaries, properties_of(binaries))


def _paths(names: Sequence[str]) -> Iterator[Path]:
    """Yield wheels and libraries, and the wheels in folders."""
    for name in names:
        path = Path(name)
        if path.is_dir() or path.suffix == ".whl":
            yield from find_wheels([name])
        else:
            yield path


def _read(path: Path, *, instructions: bool) -> Binaries:
    def read(file: BinaryIO, name: str) -> Binary | None:
        binary = read_binary(file, name)
        return with_instructions(binary, file) if binary is not None and instructions else binary

    if path.suffix == ".whl":
        with WheelArchive(path, lenient=True) as archive:
            binaries = [read(file, member.name) for member, file in unpacked_binaries(archive)]
        return Binaries(tuple(binary for binary in binaries if binary is not None))
    with reporting_os_errors("the file cannot be read", where=str(path)), path.open("rb") as file:
        binary = read(file, path.name)
    if is_newer_format(path.name):
        raise FileProblem(NEWER_FORMAT, where=str(path))
    if binary is None:
        raise FileProblem(
            "the file is neither a wheel nor a binary",
            where=str(path),
            hint="name a wheel or a library",
        )
    return Binaries((binary,))
