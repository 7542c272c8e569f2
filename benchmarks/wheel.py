"""Make variant wheels of real large wheels, beside cp and variantlib; print times and ratios.

    python benchmarks/wheel.py                     every wheel, 7 rounds each
    python benchmarks/wheel.py --rounds 3 torch    one of them
    python benchmarks/wheel.py --quick             a small wheel, one round: does it run?
    python benchmarks/wheel.py --docs              write the table of wheel-speed.md
    python benchmarks/wheel.py --on FOLDER         on another file system, as one that shares blocks

Each run is a whole command in a new process; the tools take turns, and nothing is waiting to be
written to the disk when one begins. ``cp`` copies bytes (``--reflink=never``) and does not wait for
the disk, as ``wheelfit wheel make --no-fsync`` does not; ``cp + sync`` waits for that one file, as
``wheelfit wheel make`` does. variantlib has an environment of its own and runs once or twice: it
unpacks and packs everything anew. Figures are medians; ratios are medians of the ratios of each
round.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from install_report import marked
from install_wheels import fetch, kept_folder
from measuring import CHECKOUT, in_turn, install

from wheelfit.testing.wheels import build_wheel

PAGE = CHECKOUT / "docs" / "explanation" / "wheel-speed.md"
VARIANTLIB = "variantlib[cli]==0.2.2"
SHARED_MEMORY = Path("/dev/shm")
PROJECTS = ("nvidia-cublas-cu12", "onnxruntime-gpu", "torch")
TABLE = """
[variant.default-priorities]
namespace = ["x86_64"]
[variant.providers.x86_64]
requires = ["x86-64-variant-provider<1"]
plugin-api = "x86_64_variant_provider"
"""
PROPERTY = "x86_64 :: level :: v3"
COPY, COPY_SYNC, MAKE, MAKE_SYNC, REFERENCE = (
    "cp",
    "cp + sync",
    "wheelfit --no-fsync",
    "wheelfit",
    "variantlib",
)
PAIRS = ((MAKE, COPY), (MAKE_SYNC, COPY_SYNC), (REFERENCE, MAKE_SYNC))


@dataclass
class Bench:
    """What is run, and where."""

    folder: Path
    variantlib: Path | None
    rounds: int
    times: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """By place and tool: seconds of each round."""

    def command(self, tool: str, source: Path, out: Path) -> list[str]:
        """Return the command line of a tool."""
        copy = f"cp --reflink=never {source} {out / source.name}"
        wheelfit = [
            str(Path(sys.executable).parent / "wheelfit"), "wheel", "make", str(source), "-q",
            "-o", str(out), "--project", str(self.folder), "-p", PROPERTY, "--label", "v3",
        ]  # fmt: skip
        return {
            COPY: ["/bin/sh", "-c", copy],
            COPY_SYNC: ["/bin/sh", "-c", f"{copy} && sync {out / source.name}"],
            MAKE: [*wheelfit, "--no-fsync"],
            MAKE_SYNC: wheelfit,
            REFERENCE: [
                str(self.variantlib), "make-variant", "-f", str(source), "-o", str(out),
                "-p", PROPERTY, "--variant-label", "v3", "--skip-plugin-validation",
                "--pyproject-toml", str(self.folder / "pyproject.toml"),
            ],
        }[tool]  # fmt: skip

    def measure(self, tool: str, source: Path, place: Path) -> float:
        """Run a tool once, and return its seconds."""
        out = place / "out"
        out.mkdir()
        with source.open("rb") as file:  # it is in memory for everybody
            while file.read(1 << 22):
                pass
        os.sync()
        begin = time.perf_counter()
        subprocess.run(self.command(tool, source, out), check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - begin
        assert any(out.glob("*.whl"))
        shutil.rmtree(out)
        return seconds

    def run(self, name: str, source: Path, place: Path) -> None:
        """Let the tools take turns."""
        tools = [COPY, COPY_SYNC, MAKE, MAKE_SYNC]
        for number in range(self.rounds):
            slow = self.variantlib is not None and number < min(2, self.rounds)
            for tool in [*in_turn(tools, number), *([REFERENCE] if slow else [])]:
                seconds = self.measure(tool, source, place)
                self.times.setdefault((name, tool), []).append(seconds)
                print(f"{name:<40} {tool:<20} {seconds:7.3f} s", file=sys.stderr)

    def ratio(self, name: str, one: str, other: str) -> float | None:
        """Return the median of the ratios of two tools, round by round."""
        pairs = zip(
            self.times.get((name, one), []), self.times.get((name, other), []), strict=False
        )
        ratios = [first / second for first, second in pairs]
        return statistics.median(ratios) if ratios else None

    def table(self) -> list[str]:
        """Return the table, as the documentation has it."""
        tools = (COPY, COPY_SYNC, MAKE, MAKE_SYNC, REFERENCE)
        heads = [*tools, *(f"{one} / {other}" for one, other in PAIRS)]
        lines = [
            f"| wheel | {' | '.join(heads)} |",
            f"|---|{'---:|' * len(heads)}",
        ]
        for name in dict.fromkeys(name for name, _ in self.times):
            cells = [
                f"{statistics.median(found):.3f} s"
                if (found := self.times.get((name, tool)))
                else ""
                for tool in tools
            ]
            ratios = [self.ratio(name, one, other) for one, other in PAIRS]
            cells += ["" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        return lines


def large_wheels(folder: Path, wanted: list[str]) -> list[tuple[str, Path]]:
    """Return the wheels to measure with, fetched once."""
    large = folder / "large"
    if not large.exists():
        fetch(large, PROJECTS, "--no-deps")
    found = []
    for project in PROJECTS:
        (path,) = large.glob(f"{project.replace('-', '_')}-*.whl")
        if not wanted or project in wanted:
            size = path.stat().st_size / 1e6
            found.append((f"{project}, {size:,.0f} MB", path))
    return found


def machine() -> str:
    """Say where it was measured."""
    today = datetime.now(UTC)
    return (
        f"measured on {today.day} {today:%B %Y} with {os.cpu_count()} processors, "
        f"{platform.python_implementation()} {platform.python_version()}"
    )


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("projects", nargs="*", metavar="PROJECT", help="of these only")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--wheels", type=Path, default=kept_folder(), help="where wheels are kept")
    parser.add_argument("--on", type=Path, action="append", help="folders to write in")
    parser.add_argument("--no-variantlib", action="store_true")
    parser.add_argument("--quick", action="store_true", help="a small wheel, one round")
    parser.add_argument("--docs", action="store_true", help="write the table into the docs")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wheel-benchmark-") as name:
        folder = Path(name)
        (folder / "pyproject.toml").write_text(TABLE)
        if arguments.quick:
            wheels = [("small", build_wheel(folder / "in", "some", "1.0"))]
            bench = Bench(folder, None, 1)
        else:
            wheels = large_wheels(arguments.wheels, arguments.projects)
            program = None
            if not arguments.no_variantlib:
                place = arguments.wheels / VARIANTLIB.replace("[cli]==", "-")
                program = install(place, VARIANTLIB) / "variantlib"
            bench = Bench(folder, program, arguments.rounds)
        places = arguments.on or [Path(tempfile.gettempdir())]
        if not arguments.on and not arguments.quick and SHARED_MEMORY.is_dir():
            places.append(SHARED_MEMORY)
        for on in places:
            kind = "in memory" if on == SHARED_MEMORY else "on disk"
            with tempfile.TemporaryDirectory(dir=on, prefix="wheel-benchmark-") as scratch:
                for wheel, path in wheels:
                    source = Path(shutil.copy(path, scratch))
                    bench.run(f"{wheel}, {kind}", source, Path(scratch))
                    source.unlink()
    lines = bench.table()
    print("\n".join(lines))
    if arguments.docs:
        new = "\n".join([f"Medians of {arguments.rounds} rounds, {machine()}.", "", *lines])
        PAGE.write_text(marked(PAGE.read_text(), new, "<!-- table -->", "<!-- end -->"))


if __name__ == "__main__":
    main()
