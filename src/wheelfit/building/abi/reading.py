"""Read the symbols of a wheel, or of a library that lies by itself."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.binaries.elf import MAGIC
from wheelfit.wheels.binaries.reading import symbols_in, unpacked_binaries
from wheelfit.wheels.binaries.window import Unreadable
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

    from wheelfit.wheels.binaries.elf import Symbols


@dataclass(slots=True)
class Libraries:
    """Collect the libraries of one file."""

    symbols: dict[str, Symbols] = field(default_factory=dict)
    """By file name."""
    faults: list[str] = field(default_factory=list)
    """What could not be read, with the reason."""
    kept: dict[str, Path] = field(default_factory=dict)
    """Copies of those that have debug information, by file name."""

    def add(self, name: str, file: BinaryIO, keep: Path | None, *, every: bool = False) -> None:
        """Read one library.

        :raises NeedsExtra: what reads such files is not installed.
        """
        file.seek(0)
        if file.read(len(MAGIC)) != MAGIC:
            return
        short = name.rpartition("/")[2]
        try:
            found = symbols_in(file)
        except Unreadable as error:
            self.faults.append(f"{name}: {error}")
            return
        self.symbols.setdefault(short, found)
        if keep is not None and (every or found.has_debug) and short not in self.kept:
            keep.mkdir(exist_ok=True)
            target = keep / short
            file.seek(0)
            with target.open("wb") as copy:
                shutil.copyfileobj(file, copy, 1 << 20)
            self.kept[short] = target


def read_libraries(path: Path, *, keep: Path | None = None, every: bool = False) -> Libraries:
    """Return the ELF files of a wheel, or the one that a path leads to.

    :raises FileProblem: it cannot be read.
    :raises InvalidWheel: the wheel is not sound.
    :raises NeedsExtra: what reads such files is not installed.
    """
    libraries = Libraries()
    if path.suffix == ".whl":
        with WheelArchive(path) as archive:
            for member, file in unpacked_binaries(archive):
                libraries.add(member.name, file, keep, every=every)
        return libraries
    try:
        with path.open("rb") as file:
            libraries.add(path.name, file, keep, every=every)
    except OSError as error:
        raise FileProblem(
            f"it cannot be read: {error.strerror or type(error).__name__}", where=str(path)
        ) from error
    if not libraries.symbols and not libraries.faults:
        raise FileProblem("it is neither a wheel nor an ELF file", where=str(path))
    return libraries
