"""Run wheelfit, pip and uv side by side and print ratios.

    python benchmarks/side_by_side.py                      every scenario, 5 runs each
    python benchmarks/side_by_side.py --runs 9 warm-dry-run --requirement jupyterlab

The three tools get environments of their own, installed from the package registry (wheelfit from
this checkout). Runs are interleaved in rotating order, because machines are shared and noisy; the
table shows medians and the ratio of medians, with the spread of each. Old environments are kept
until the end: file systems that have just deleted a tree create files slowly.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
UV_VERSION = "0.13.8"
PIP_VERSION = "26.3"
TOOLS = ("wheelfit", "pip", "uv")


@dataclass(frozen=True)
class Bench:
    """The installed tools and the folder everything happens in."""

    folder: Path
    commands: dict[str, list[str]]
    numbers: itertools.count[int]

    def fresh(self, what: str) -> Path:
        """Return the path of a new folder that does not exist yet."""
        return self.folder / f"{what}-{next(self.numbers)}"

    def environment(self) -> Path:
        """Make an empty virtual environment and return its interpreter."""
        place = self.fresh("env")
        template = self.folder / "template"
        if not template.exists():
            subprocess.run(
                [sys.executable, "-m", "venv", "--without-pip", "--copies", template], check=True
            )
        shutil.copytree(template, place, symlinks=True)
        return place / "bin" / "python"

    def install(self, tool: str, python: Path, cache: Path, *words: str) -> list[str]:
        """Return the command with which a tool installs into an environment."""
        head = self.commands[tool]
        if tool == "wheelfit":
            options = ["install", "--python", str(python), "--cache-dir", str(cache), "--quiet"]
        elif tool == "pip":
            options = ["--python", str(python), "install", "--cache-dir", str(cache), "--quiet"]
        else:
            options = [
                "pip",
                "install",
                "--python",
                str(python),
                "--cache-dir",
                str(cache),
                "--quiet",
            ]
        return [*head, *options, *words]


def prepare(folder: Path) -> Bench:
    """Install the three tools."""
    commands = {}
    packages = {
        "wheelfit": [str(CHECKOUT / "runtime"), str(CHECKOUT)],
        "pip": [f"pip=={PIP_VERSION}"],
        "uv": [f"uv=={UV_VERSION}"],
    }
    for tool in TOOLS:
        place = folder / f"tool-{tool}"
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run(
            [place / "bin" / "python", "-m", "pip", "install", "--quiet", *packages[tool]],
            check=True,
        )
        commands[tool] = [str(place / "bin" / tool)]
    return Bench(folder, commands, itertools.count())


Scenario = Callable[[Bench, str, str], Callable[[], list[str]]]


def start_up(bench: Bench, tool: str, requirement: str) -> Callable[[], list[str]]:
    """Print the help text."""
    del requirement
    return lambda: [*bench.commands[tool], "--help"]


def cold_dry_run(bench: Bench, tool: str, requirement: str) -> Callable[[], list[str]]:
    """Resolve with an empty cache."""
    python = bench.environment()
    return lambda: bench.install(tool, python, bench.fresh("cache"), "--dry-run", requirement)


def warm_dry_run(bench: Bench, tool: str, requirement: str) -> Callable[[], list[str]]:
    """Resolve with a cache that has seen it all."""
    python, cache = bench.environment(), bench.fresh("cache")
    command = bench.install(tool, python, cache, "--dry-run", requirement)
    run(command)
    return lambda: command


def cold_install(bench: Bench, tool: str, requirement: str) -> Callable[[], list[str]]:
    """Install into a new environment with an empty cache."""
    return lambda: bench.install(tool, bench.environment(), bench.fresh("cache"), requirement)


def warm_install(bench: Bench, tool: str, requirement: str) -> Callable[[], list[str]]:
    """Install into a new environment with a cache that has seen it all."""
    cache = bench.fresh("cache")
    run(bench.install(tool, bench.environment(), cache, requirement))
    return lambda: bench.install(tool, bench.environment(), cache, requirement)


SCENARIOS: dict[str, Scenario] = {
    "start-up": start_up,
    "cold-dry-run": cold_dry_run,
    "warm-dry-run": warm_dry_run,
    "cold-install": cold_install,
    "warm-install": warm_install,
}


def run(command: list[str]) -> float:
    """Run a command and return its wall time in seconds."""
    environ = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return seconds


def measure(
    bench: Bench, scenario: Scenario, requirement: str, runs: int
) -> dict[str, list[float]]:
    """Time all tools in one scenario, interleaved in rotating order."""
    makers = {tool: scenario(bench, tool, requirement) for tool in TOOLS}
    times: dict[str, list[float]] = {tool: [] for tool in TOOLS}
    for number in range(runs):
        turn = number % len(TOOLS)
        for tool in TOOLS[turn:] + TOOLS[:turn]:
            command = makers[tool]()  # makes environments before the clock runs
            times[tool].append(run(command))
    return times


def main() -> None:
    """Measure what was asked for and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each tool (default 5)")
    parser.add_argument(
        "--requirement", action="append", help="what to install (default: rich, jupyterlab)"
    )
    parser.add_argument("--json", action="store_true", help="print the single times as JSON")
    arguments = parser.parse_args()
    unknown = set(arguments.scenarios) - set(SCENARIOS)
    if unknown:
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")

    everything = {}
    with tempfile.TemporaryDirectory(prefix="wheelfit-bench-") as folder:
        bench = prepare(Path(folder))
        for name in arguments.scenarios or SCENARIOS:
            requirements = arguments.requirement or ["rich", "jupyterlab"]
            for requirement in requirements[:1] if name == "start-up" else requirements:
                times = measure(bench, SCENARIOS[name], requirement, arguments.runs)
                everything[f"{name} {requirement}" if name != "start-up" else name] = times
                print(f"measured {name} {requirement}", file=sys.stderr)
    if arguments.json:
        json.dump(everything, sys.stdout, indent=2)
        return
    print(f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    print(f"pip {PIP_VERSION}, uv {UV_VERSION}; {arguments.runs} runs; median (min to max) in s\n")
    print("| scenario | wheelfit | pip | uv | wheelfit/pip | wheelfit/uv |")
    print("|---|---|---|---|---|---|")
    for name, times in everything.items():
        medians = {tool: statistics.median(times[tool]) for tool in TOOLS}
        cells = [
            f"{medians[tool]:.3f} ({min(times[tool]):.3f} to {max(times[tool]):.3f})"
            for tool in TOOLS
        ]
        ratios = [f"{medians['wheelfit'] / medians[tool]:.2f}" for tool in ("pip", "uv")]
        print(f"| {name} | {' | '.join(cells + ratios)} |")


if __name__ == "__main__":
    main()
