"""Print what generating an index costs, beside the reference implementation.

    python benchmarks/index.py --variantlib PROGRAM       500 small variant wheels, and large ones
    python benchmarks/index.py --variantlib PROGRAM --rounds 9 --large 1400

``variantlib generate-index-json`` reads the document of each wheel and writes one file; wheelfit
also checks and hashes every wheel, extracts METADATA, and writes pages in HTML and JSON. Runs of
all commands are interleaved; medians are given of wall time and of processor time (user and
system), with ratios to variantlib. Each first run finds no pages and no memory of the files.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from measuring import processor_time

from wheelfit.testing.wheels import build_large_wheel, build_wheel, release_document

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL = 500
LABELS = 50
GOALS = {"first": 0.25, "unchanged": 0.050}
"""Share of variantlib's wall time, hashing included; and seconds over start-up."""


@dataclass
class Row:
    """Hold one command and what it took, in seconds."""

    name: str
    command: list[str]
    prepare: Callable[[], None] = lambda: None
    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def run(self) -> None:
        """Run it once."""
        self.prepare()
        used, started = processor_time(), time.perf_counter()
        subprocess.run(self.command, check=True, stdout=subprocess.DEVNULL)
        self.wall.append(time.perf_counter() - started)
        self.processor.append(processor_time() - used)

    @property
    def medians(self) -> tuple[float, float]:
        """Wall time and processor time."""
        return statistics.median(self.wall), statistics.median(self.processor)


def build_small(folder: Path) -> None:
    """Write releases of 50 labels each."""
    variants = {f"v{number}": {"test": {"number": [str(number)]}} for number in range(LABELS)}
    static = {"test": {"number": [str(number) for number in range(LABELS)]}}
    document = release_document(variants, static=static)
    for release in range(SMALL // LABELS):
        for label in variants:
            build_wheel(folder, "small", f"{release}.0", label=label, document=document)


def build_large(folder: Path, megabytes: int) -> None:
    """Write three variant wheels of one release, which have this size together."""
    variants = {name: {"test": {"name": [name]}} for name in ("a", "b", "c")}
    document = release_document(variants, static={"test": {"name": list(variants)}})
    for label in variants:
        size = megabytes * 1_000_000 // 3
        build_large_wheel(folder, "large", "1.0", size, label=label, document=document)


def compare(folder: Path, variantlib: str | None, rounds: int) -> None:
    """Print a table for one folder of wheels."""

    def forget() -> None:
        shutil.rmtree(folder / "simple", ignore_errors=True)
        for path in folder.glob("*.metadata"):
            path.unlink()

    generate = [sys.executable, "-m", "wheelfit", "index", "generate", str(folder)]
    rows = [
        Row("wheelfit --version", [*generate[:3], "--version"]),
        Row("wheelfit, first", generate, forget),
        Row("wheelfit, unchanged", generate),
    ]
    if variantlib:
        rows.append(Row("variantlib", [variantlib, "generate-index-json", "-d", str(folder)]))
    for _ in range(rounds + 1):
        for row in rows:
            row.run()
    for row in rows:  # the first round warms what is read
        del row.wall[0], row.processor[0]
    reference = rows[-1].medians if variantlib else None
    print(f"{'':24}{'wall s':>9}{'ratio':>8}{'processor s':>13}{'ratio':>8}")
    for row in rows:
        wall, processor = row.medians
        ratios = (
            ("", "")
            if reference is None
            else (f"{wall / reference[0]:.2f}", f"{processor / reference[1]:.2f}")
        )
        print(f"{row.name:24}{wall:9.3f}{ratios[0]:>8}{processor:13.3f}{ratios[1]:>8}")
    start, first, unchanged = (row.medians[0] for row in rows[:3])
    if reference is not None:
        share = first / reference[0]
        print(f"first / variantlib: {share:.2f} (goal {GOALS['first']})")
    over = unchanged - start
    print(f"unchanged, over start-up: {over * 1000:.0f} ms (goal {GOALS['unchanged'] * 1000:.0f})")


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--variantlib", help="its program, in an environment of its own")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--large", type=int, default=1400, help="MB of the large wheels")
    parser.add_argument("--folder", type=Path, help="where the wheels are built")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as place:
        small, large = Path(place, "small"), Path(place, "large")
        build_small(small)
        print(f"{SMALL} small variant wheels")
        compare(small, arguments.variantlib, arguments.rounds)
        build_large(large, arguments.large)
        print(f"\n3 variant wheels, {arguments.large} MB together")
        compare(large, arguments.variantlib, arguments.rounds)


if __name__ == "__main__":
    main()
