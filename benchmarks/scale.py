"""Order and select among ever more variants, with wheelfit and variantlib; print and plot.

    python benchmarks/scale.py                                        10 to 100,000 labels
    python benchmarks/scale.py --runs 9 --sizes 100 1000
    python benchmarks/scale.py --plot docs/explanation/scale.svg      needs --group benchmarks

Each size is one release with that many labels, each label with properties of its own and
with one wheel; both tools get the same file. One more release has 100,000 wheels of 10,000
labels, the most that wheelfit reads unless it is told otherwise. Every measurement is a new
process; the tools take turns, because machines are shared and noisy; processor time is
measured, of one thread, and the table has medians. A tool that takes longer than the limit at
some size is not asked for larger ones.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from measuring import install, pyplot, save
from scale_release import make_release

if TYPE_CHECKING:
    from collections.abc import Sequence

VARIANTLIB_VERSION = "0.2.2"
CHILD = Path(__file__).with_name("scale_child.py")
SIZES = (10, 100, 1_000, 10_000, 100_000)
WHEELS = 100_000
LABELS = 10_000


@dataclass
class Series:
    """What was measured of one tool at one size."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    megabytes: list[float] = field(default_factory=list)
    chosen: str = ""

    def add(self, answer: dict[str, object]) -> None:
        """Take one measurement."""
        seconds: dict[str, float] = answer["seconds"]  # type: ignore[assignment]
        for stage, value in seconds.items():
            self.seconds.setdefault(stage, []).append(value)
        self.megabytes.append(float(str(answer["megabytes"])))
        self.chosen = str(answer["chosen"])

    def median(self, *stages: str) -> float:
        """Return the median of some stages together, in seconds."""
        runs = zip(*(self.seconds[stage] for stage in stages), strict=True)
        return statistics.median(map(sum, runs))


Table = dict[int, dict[str, Series]]


def write(folder: Path, labels: int, wheels: int) -> Path:
    """Write the two files of a release."""
    place = folder / f"{labels}-{wheels}"
    place.mkdir()
    release = make_release(labels, wheels)
    (place / "document.json").write_bytes(release.document)
    (place / "page.json").write_bytes(release.page)
    return place


def ask(python: Path, tool: str, place: Path, limit: int) -> dict[str, object] | None:
    """Measure once; None when it takes too long."""
    done = subprocess.run(
        [python, CHILD, tool, place, str(limit)],
        cwd=place,  # variantlib reads a configuration from the working directory
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == -signal.SIGXCPU:
        return None
    if done.returncode:
        sys.exit(f"{tool} failed at {place.name}:\n{done.stderr}")
    return dict(json.loads(done.stdout))


def measure(
    pythons: dict[str, Path], folder: Path, sizes: Sequence[int], runs: int, limit: int
) -> Table:
    """Measure every size, the tools in turn."""
    table: Table = {}
    given_up: set[str] = set()
    for size in sizes:
        place = write(folder, size, size)
        table[size] = {}
        for turn in range(runs):
            order = list(pythons) if turn % 2 == 0 else list(reversed(pythons))
            for tool in order:
                if tool in given_up:
                    continue
                answer = ask(pythons[tool], tool, place, limit)
                if answer is None:
                    print(f"{tool}: more than {limit} s for {size:,} labels, cut off", flush=True)
                    given_up.add(tool)
                    table[size].pop(tool, None)
                    continue
                table[size].setdefault(tool, Series()).add(answer)
        chosen = {series.chosen for series in table[size].values()}
        assert len(chosen) == 1, f"the tools choose differently: {chosen}"
    return table


def milliseconds(seconds: float) -> str:
    """Write a time."""
    return f"{seconds * 1000:,.1f}" if seconds < 0.1 else f"{seconds * 1000:,.0f}"


def print_table(table: Table) -> None:
    """Print medians and ratios."""
    print("\nmilliseconds to read the document and to order its labels; variantlib to wheelfit")
    print("| labels | wheelfit | variantlib | ratio of reading | of ordering | of both | MB |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for size, tools in table.items():
        ours, theirs = tools["wheelfit"], tools.get("variantlib")
        cells = [f"{size:,}"]
        for series in (ours, theirs):
            if series is None:
                cells.append("cut off")
                continue
            read, order = series.median("document"), series.median("order")
            cells.append(f"{milliseconds(read)}, {milliseconds(order)}")
        memory = f"{statistics.median(ours.megabytes):.0f}"
        if theirs is None:
            cells += ["", "", "", memory]
        else:
            for stages in (["document"], ["order"], ["document", "order"]):
                cells.append(f"{theirs.median(*stages) / ours.median(*stages):.0f}x")
            cells.append(f"{memory}, {statistics.median(theirs.megabytes):.0f}")
        print(f"| {' | '.join(cells)} |")


def print_stages(title: str, series: Series) -> None:
    """Print where the time of wheelfit goes."""
    parts = ", ".join(
        f"{stage} {milliseconds(statistics.median(values))}"
        for stage, values in series.seconds.items()
    )
    print(f"{title}: {parts} ms; peak {statistics.median(series.megabytes):.0f} MB")


def plot(table: Table, path: Path) -> None:
    """Draw both tools on one plot."""
    figure, axes = pyplot().subplots(figsize=(6, 3.8))
    styles = {"wheelfit": ("#1b6ca8", "o"), "variantlib": ("#c0561b", "s")}
    for tool, (colour, mark) in styles.items():
        for stages, line in ((("order",), "-"), (("document", "order"), ":")):
            points = [
                (size, series[tool].median(*stages) * 1000)
                for size, series in table.items()
                if tool in series
            ]
            label = f"{tool}, {'order' if line == '-' else 'read and order'}"
            sizes, values = zip(*points, strict=True)
            axes.plot(sizes, values, line, color=colour, marker=mark, markersize=4, label=label)
    axes.set(xscale="log", yscale="log", xlabel="labels", ylabel="milliseconds")
    axes.minorticks_off()
    axes.grid(visible=True, which="major", linewidth=0.3)
    axes.legend(frameon=False)
    save(figure, path)


def main() -> None:
    """Measure, print, and plot if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="measurements of each tool and size")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="labels")
    parser.add_argument("--limit", type=int, default=60, help="processor seconds for one run")
    parser.add_argument("--plot", type=Path, help="write the plot here, as SVG")
    arguments = parser.parse_args()
    cores = os.cpu_count()
    print(f"Python {platform.python_version()}, {platform.machine()}, {cores} cores")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        theirs = install(folder / "variantlib", f"variantlib=={VARIANTLIB_VERSION}") / "python"
        pythons = {"wheelfit": Path(sys.executable), "variantlib": theirs}
        table = measure(pythons, folder, arguments.sizes, arguments.runs, arguments.limit)
        print_table(table)
        for size, tools in table.items():
            print_stages(f"wheelfit, {size:,} labels", tools["wheelfit"])
        place, many = write(folder, LABELS, WHEELS), Series()
        for _ in range(arguments.runs):
            answer = ask(pythons["wheelfit"], "wheelfit", place, arguments.limit)
            if answer is not None:
                many.add(answer)
        if many.megabytes:
            print_stages(f"wheelfit, {WHEELS:,} wheels of {LABELS:,} labels", many)
    if arguments.plot is not None:
        plot(table, arguments.plot)


if __name__ == "__main__":
    main()
