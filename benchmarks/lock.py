"""Lock and sync a tree with wheelfit, uv, pip and others; print times and what was asked for.

    python benchmarks/lock.py                             every scenario, 5 runs each
    python benchmarks/lock.py --runs 9 one-revalidated    one of them
    python benchmarks/lock.py --delay 30                  on a line with 30 ms to each answer
    python benchmarks/lock.py --registry                  against the configured index itself

Tools get environments of their own, installed from the package registry (wheelfit from this
checkout). They ask an index on the loopback interface that repeats the configured one from memory
and counts (`counting_index.py`). Runs are interleaved in rotating order, because machines are
shared and noisy; the table shows medians and the ratio of medians, with the spread of each.
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
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from counting_index import Count, CountingIndex
from measuring import OWN, in_turn, install, new_environment, processor_time

from wheelfit.server.loopback import LoopbackServer

PACKAGES = {
    "wheelfit": OWN,
    "uv": ("uv==0.13.9",),
    "pip": ("pip==26.3",),
    "poetry": ("poetry==2.5.1",),
}
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
TREE = ("jupyterlab", "scikit-learn", "pandas")
PYPROJECT = """\
[project]
name = "tree"
version = "1"
requires-python = "=={python}.*"
dependencies = {needs}
"""


@dataclass(frozen=True)
class Bench:
    """The installed tools, the index, and the folder everything happens in."""

    folder: Path
    tools: dict[str, Path]
    index: str | None
    """The URL to ask; None: as configured."""
    tree: tuple[str, ...]
    lock: list[bytes] = field(default_factory=list)
    """The lock to sync from, once there is one."""
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def fresh(self, what: str) -> Path:
        """Make a new folder."""
        place = self.folder / f"{what}-{next(self.numbers)}"
        place.mkdir()
        return place

    def project(self, *, with_lock: bool) -> Path:
        """Make a new folder with the tree as a requirements file and as a project.

        :param with_lock: put a lock there too, and an empty environment.
        """
        place = self.fresh("project")
        if with_lock:
            (place / "pylock.toml").write_bytes(self.lock[0])
            new_environment(self.folder / "template", place / "env")
        (place / "tree.in").write_text("\n".join(self.tree) + "\n")
        needs = json.dumps(list(self.tree))
        (place / "pyproject.toml").write_text(PYPROJECT.format(python=PYTHON, needs=needs))
        return place


Command = Callable[[Bench, Path], list[str]]
"""From the bench and a cache folder to a command that locks the tree in the current folder."""


def wheelfit(bench: Bench, cache: Path, *arguments: str) -> list[str]:
    """Lock with wheelfit."""
    index_options = ["--index-url", bench.index] if bench.index else []
    base = ["lock", "--cache-dir", str(cache), "--quiet", "-r", "tree.in"]
    return [str(bench.tools["wheelfit"]), *base, *index_options, *arguments]


def wheelfit_here(bench: Bench, cache: Path) -> list[str]:
    """Lock for this kind of machine only."""
    return wheelfit(bench, cache, "--platform", f"{sys.platform}-{platform.machine()}")


def uv(bench: Bench, cache: Path, *arguments: str) -> list[str]:
    """Call uv."""
    index_options = ["--default-index", bench.index] if bench.index else []
    always = ["--cache-dir", str(cache), "--quiet", *index_options]
    return [str(bench.tools["uv"]), *arguments, *always]


def uv_compile(bench: Bench, cache: Path, *arguments: str) -> list[str]:
    """Write a lock as wheelfit does, with uv."""
    output = ("--format", "pylock.toml", "--output-file", "pylock.toml")
    return uv(bench, cache, "pip", "compile", "tree.in", *output, "-p", PYTHON, *arguments)


def pip_lock(bench: Bench, cache: Path) -> list[str]:
    """Write a lock for this machine with pip."""
    index_options = ["--index-url", bench.index] if bench.index else []
    arguments = ["lock", "--cache-dir", str(cache), "--quiet", "-r", "tree.in", *index_options]
    return [str(bench.tools["pip"]), *arguments]


def wheelfit_sync(bench: Bench, cache: Path) -> list[str]:
    """Make an environment equal to a lock with wheelfit."""
    arguments = ["sync", "--cache-dir", str(cache), "--quiet", "--python", "env/bin/python"]
    return [str(bench.tools["wheelfit"]), *arguments]


def uv_sync(bench: Bench, cache: Path) -> list[str]:
    """Make an environment equal to a lock with uv."""
    return uv(bench, cache, "pip", "sync", "pylock.toml", "--python", "env/bin/python")


def pip_sync(bench: Bench, cache: Path) -> list[str]:
    """Install what a lock lists with pip."""
    arguments = ["--python", "env/bin/python", "install", "--cache-dir", str(cache), "--quiet"]
    return [str(bench.tools["pip"]), *arguments, "--no-deps", "--no-compile", "-r", "pylock.toml"]


def poetry_lock(bench: Bench, cache: Path) -> list[str]:
    """Lock the project with poetry, which takes index and cache from elsewhere."""
    del cache
    return [str(bench.tools["poetry"]), "lock", "--quiet"]


ONE: dict[str, Command] = {
    "wheelfit": wheelfit_here,
    "uv": uv_compile,
    "pip": pip_lock,
}
ALL: dict[str, Command] = {
    "wheelfit": wheelfit,
    "uv": lambda bench, cache: uv_compile(bench, cache, "--universal"),
    "uv lock": lambda bench, cache: uv(bench, cache, "lock"),
    "poetry": poetry_lock,
}


CHECK: dict[str, Command] = {"wheelfit": lambda bench, cache: wheelfit(bench, cache, "--check")}
SAME: dict[str, Command] = {"wheelfit": wheelfit, "uv": ALL["uv"]}
SYNC: dict[str, Command] = {"wheelfit": wheelfit_sync, "uv": uv_sync, "pip": pip_sync}


@dataclass(frozen=True)
class Scenario:
    """Which tools do what, in which state."""

    commands: dict[str, Command]
    fresh: int
    """Seconds for which the index calls its pages fresh."""
    warm: bool
    """Whether the tools have seen it all before."""
    locked: bool = False
    """Whether there is a lock already."""
    repeated: bool = False
    """Whether the command ran before in the same folder, so that there is nothing to do."""


SCENARIOS = {
    "one-cold": Scenario(ONE, 600, warm=False),
    "one-revalidated": Scenario(ONE, 0, warm=True),
    "one-fresh": Scenario(ONE, 600, warm=True),
    "all-cold": Scenario(ALL, 600, warm=False),
    "all-revalidated": Scenario(ALL, 0, warm=True),
    "all-fresh": Scenario(ALL, 600, warm=True),
    "check-fresh": Scenario(CHECK, 600, warm=True, locked=True),
    "check-revalidated": Scenario(CHECK, 0, warm=True, locked=True),
    "same-fresh": Scenario(SAME, 600, warm=True, locked=True),
    "same-revalidated": Scenario(SAME, 0, warm=True, locked=True),
    "sync-cold": Scenario(SYNC, 600, warm=False, locked=True),
    "sync-warm": Scenario(SYNC, 600, warm=True, locked=True),
    "sync-same": Scenario(SYNC, 600, warm=True, locked=True, repeated=True),
}


@dataclass
class Measured:
    """What came of one tool in one scenario."""

    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    """Seconds of processor time, which other processes disturb less."""
    count: Count | None = None
    """Of the last run."""


def run(
    bench: Bench, command: list[str], cache: Path, *, with_lock: bool, repeated: bool = False
) -> tuple[float, float]:
    """Run a command in a new folder; return the seconds it took, and those of processor time.

    :param repeated: whether a second run of it in that folder counts, not the first.
    """
    environ = {
        **os.environ,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "POETRY_CACHE_DIR": str(cache),
        "POETRY_VIRTUALENVS_CREATE": "false",
    }
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if bench.index:
        for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
            environ.pop(name, None)
        environ["PIP_CONFIG_FILE"] = os.devnull
    project = bench.project(with_lock=with_lock)
    if bench.index and Path(command[0]).name == "poetry":
        source = f'\n[[tool.poetry.source]]\nname = "here"\nurl = "{bench.index}"\n'
        with (project / "pyproject.toml").open("a") as file:
            file.write(source + "\n[tool.poetry]\npackage-mode = false\n")
    for _ in range(2 if repeated else 1):
        begin, used = time.perf_counter(), processor_time()
        completed = subprocess.run(
            command, cwd=project, capture_output=True, text=True, env=environ, check=False
        )
        seconds = time.perf_counter() - begin
        if completed.returncode:
            output = f"{completed.stdout}{completed.stderr}"
            sys.exit(f"{' '.join(command)} ended with {completed.returncode}:\n{output}")
    return seconds, processor_time() - used


def measure(
    bench: Bench, index: CountingIndex, scenario: Scenario, tools: Iterable[str], runs: int
) -> dict[str, Measured]:
    """Time the tools in one scenario, interleaved in rotating order."""
    commands = {name: scenario.commands[name] for name in tools if name in scenario.commands}
    index.fresh = scenario.fresh
    caches = {name: bench.fresh("cache") for name in commands}
    with_lock = scenario.locked
    for name, make in commands.items():  # what tools and index have to learn, they learn here
        run(bench, make(bench, caches[name]), caches[name], with_lock=with_lock)
    measured = {name: Measured() for name in commands}
    for number in range(runs):
        for name in in_turn(commands, number):
            cache = caches[name] if scenario.warm else bench.fresh("cache")
            command = commands[name](bench, cache)
            index.count = Count()
            seconds, processor = run(
                bench, command, cache, with_lock=with_lock, repeated=scenario.repeated
            )
            measured[name].seconds.append(seconds)
            measured[name].processor.append(processor)
            measured[name].count = index.count
    return measured


def lock_of(bench: Bench) -> bytes:
    """Return a lock that every tool can read."""
    place, cache = bench.project(with_lock=False), bench.fresh("cache")
    subprocess.run(wheelfit(bench, cache), cwd=place, check=True, capture_output=True)
    return (place / "pylock.toml").read_bytes()


def table(results: dict[str, dict[str, Measured]], *, counted: bool) -> Iterable[str]:
    """Yield the lines of the table."""
    heads = ["scenario", "tool", "median (min to max) in s", "wheelfit/tool", "processor"]
    heads += ["pages", "unchanged", "metadata", "wheels", "MB"] if counted else []
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for name, measured in results.items():
        own = statistics.median(measured["wheelfit"].seconds)
        for tool, measurement in measured.items():
            median = statistics.median(measurement.seconds)
            cells = [
                name,
                tool,
                f"{median:.2f} ({min(measurement.seconds):.2f} to {max(measurement.seconds):.2f})",
            ]
            cells.append(f"{own / median:.2f}")
            processor = measurement.processor
            cells.append(f"{statistics.median(processor):.2f} (from {min(processor):.2f})")
            if counted and (count := measurement.count):
                numbers = (count.pages, count.unchanged, count.metadata, count.wheels)
                cells += [*map(str, numbers), f"{count.sent / 1e6:.1f}"]
            yield f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure what was asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each tool (default 5)")
    parser.add_argument("--requirement", action="append", help=f"default: {', '.join(TREE)}")
    parser.add_argument("--tool", action="append", choices=PACKAGES, help="besides wheelfit")
    parser.add_argument("--delay", type=float, default=0.0, help="milliseconds before each answer")
    parser.add_argument("--registry", action="store_true", help="ask the configured index itself")
    arguments = parser.parse_args()
    unknown = set(arguments.scenarios) - set(SCENARIOS)
    if unknown:
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")

    tools = dict.fromkeys(["wheelfit", *(arguments.tool or ["uv", "pip"])])
    names = [*tools, "uv lock"] if "uv" in tools else [*tools]
    tree = tuple(arguments.requirement or TREE)
    index = CountingIndex(delay=arguments.delay / 1000)
    results = {}
    with (
        tempfile.TemporaryDirectory(prefix="wheelfit-bench-") as folder,
        LoopbackServer(index) as server,
    ):
        url = None if arguments.registry else f"{server.origin}/simple/"
        programs = {
            tool: install(Path(folder) / f"tool-{tool}", *PACKAGES[tool]) / tool for tool in tools
        }
        bench = Bench(Path(folder), programs, url, tree)
        bench.lock.append(lock_of(bench))
        for name in arguments.scenarios or SCENARIOS:
            results[name] = measure(bench, index, SCENARIOS[name], names, arguments.runs)
            print(f"measured {name}", file=sys.stderr)
            for place in Path(folder).glob("project-*"):
                shutil.rmtree(place)
    versions = ", ".join(PACKAGES[tool][0] for tool in tools if tool != "wheelfit")
    print(f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    line = f", {arguments.delay:g} ms to each answer" if arguments.delay else ""
    print(f"{versions}; {arguments.runs} runs; {', '.join(tree)}{line}\n")
    print("\n".join(table(results, counted=url is not None)))


if __name__ == "__main__":
    main()
