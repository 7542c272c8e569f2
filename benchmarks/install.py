"""Install real wheels with wheelfit, uv and pip side by side; print times, ratios and goals.

    python benchmarks/install.py                           every scenario, 7 rounds each
    python benchmarks/install.py --rounds 9 cold-torch     one of them
    python benchmarks/install.py --quick                   tiny wheels, one round: does it run?
    python benchmarks/install.py --json FILE               keep every run
    python benchmarks/install.py --from FILE               the tables once more, of what was kept

``--plot`` and ``--docs`` write the plot and the tables of docs/explanation/install-speed.md.

The wheels are fetched once from the configured index and kept (2 GB; 5 GB with the variants made
of them). A server on the loopback interface gives them to every tool (`throttled_server.py`). Each
run is a whole command line in a new process, with a cache and an environment of its own; the tools
take turns, in rotating order. `install_runs.py` says how the traps of such measurements are kept
away. Figures are medians over the runs that nobody disturbed; ``by rounds`` are medians of the
ratios of each round, over all of them. Wheels of many files are measured in memory, as a file
system on a disk mostly measures itself there (``--on disk`` does it all the same).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from install_report import Result, draw, marked, report
from install_runs import Run, Runs, Scratch, copy_tree, kind_of, remove, run
from install_wheels import TREE, Wheels, fetched, kept_folder, tiny
from measuring import OWN, in_turn, install, new_environment
from throttled_server import Server

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSIONS = {"uv": "0.13.9", "pip": "26.3"}
SHARED_MEMORY = Path("/dev/shm")
ROOM = 8 << 30
"""Bytes that must be free in memory to measure there."""
STARTS = 21


@dataclass(frozen=True)
class Scenario:
    """What is installed, from where, in which state, and what it should cost."""

    words: tuple[str, ...]
    """The requirements."""
    state: str = "cold"
    """``cold``: an empty cache and environment; ``warm``: the cache has it; ``reinstall``: the
    environment, too; ``exchange``: another build is in the environment, and for wheelfit in the
    cache."""
    shelf: str = "large"
    """Which wheels the index has."""
    deps: bool = False
    """Whether dependencies are installed too."""
    rate: float = 0.0
    delay: float = 0.0
    in_memory: bool = False
    """Whether it has too many files for a file system on a disk."""
    goals: dict[str, float] = field(default_factory=dict)
    """The most that the ratio to a tool may be; ``MB`` is for the peak of memory."""
    rounds: dict[str, int] = field(default_factory=dict)
    """Fewer rounds, of tools that are slow here; 0 leaves one out."""


LARGE_GOALS = {"uv": 1.0, "pip": 0.45, "MB": 200}
CUBLAS, TORCH, ORT = ("nvidia-cublas-cu12",), ("torch",), ("onnxruntime-gpu",)
SLOW = partial(Scenario, rate=40e6, delay=0.02)
MANY_FILES = partial(Scenario, in_memory=True)
FEW, NONE = {"pip": 3}, {"pip": 0}
SCENARIOS = {
    "cold-cublas": Scenario(CUBLAS, goals=LARGE_GOALS),
    "cold-torch": MANY_FILES(TORCH, goals=LARGE_GOALS, rounds=FEW),
    "cold-onnxruntime": Scenario(ORT, goals=LARGE_GOALS),
    "slow-onnxruntime": SLOW(ORT, goals={"uv": 0.40, "MB": 200}, rounds={"uv": 5, "pip": 0}),
    "warm-torch": MANY_FILES(TORCH, "warm", goals={"uv": 0.75}, rounds=NONE),
    "warm-torch-disk": Scenario(TORCH, "warm", goals={"uv": 0.75}, rounds=NONE),
    "reinstall-torch": MANY_FILES(TORCH, "reinstall", goals={"uv": 0.75}, rounds=FEW),
    "cold-tree": MANY_FILES(
        TREE, shelf="tree", deps=True, goals={"uv": 1.3, "MB": 200}, rounds=FEW
    ),
    "link-tree": MANY_FILES(
        TREE, shelf="tree", deps=True, rate=100e6, delay=0.02, goals={"uv": 1.0}, rounds=NONE
    ),
    "warm-tree": MANY_FILES(TREE, "warm", "tree", deps=True, goals={"uv": 1.5}, rounds=FEW),
    "warm-tree-disk": Scenario(TREE, "warm", "tree", deps=True, goals={"uv": 1.1}, rounds=NONE),
    "exchange-cublas": Scenario(CUBLAS, "exchange", goals={"uv": 0.25}, rounds=NONE),
    "exchange-torch": MANY_FILES(TORCH, "exchange", goals={"uv": 0.25}, rounds=NONE),
    "slow-exchange-cublas": SLOW(
        CUBLAS, "exchange", goals={"uv": 0.05}, rounds={"uv": 3, "pip": 0}
    ),
}
START_UP = "start-up"


# --- the commands ---------------------------------------------------------------------


@dataclass
class Bench:
    """The tools, the server, and the folders everything happens in."""

    programs: dict[str, Path]
    wheels: Wheels
    server: Server
    disk: Scratch
    memory: Scratch | None
    rounds: int
    extra: int

    def scratch(self, scenario: Scenario) -> Scratch:
        """Return where a scenario happens."""
        return self.memory if scenario.in_memory and self.memory is not None else self.disk

    def environ(self, scratch: Scratch) -> dict[str, str]:
        """Return the variables of every run: nothing of the user's settings."""
        ours = ("PIP_", "UV_", "WHEELFIT_", "PYTHON", "VIRTUAL_ENV", "XDG_")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        temporary = scratch.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        return {
            **inherited,
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "UV_NO_CONFIG": "1",
            "XDG_CONFIG_HOME": str(temporary / "no-configuration"),
            "TMPDIR": str(temporary),  # where pip puts what it downloads
        }

    def command(self, tool: str, home: Home, index: str, words: Iterable[str]) -> list[str]:
        """Return the command with which a tool installs something."""
        python = str(home.environment / "bin" / "python")
        always = ["--cache-dir", str(home.cache), "--index-url", index, "--quiet"]
        head = {
            "wheelfit": ["install", "--python", python],
            "uv": ["pip", "install", "--python", python],
            # What the others leave out as well.
            "pip": ["--python", python, "install", "--no-compile"],
        }[tool]
        return [str(self.programs[tool]), *head, *always, *words]


@dataclass(frozen=True)
class Home:
    """An environment and a cache, in one folder."""

    folder: Path

    @property
    def environment(self) -> Path:
        """The environment."""
        return self.folder / "env"

    @property
    def cache(self) -> Path:
        """The cache."""
        return self.folder / "cache"


def new_home(scratch: Scratch, what: str, cache: Path | None = None) -> Home:
    """Make an environment without packages, and room for a cache.

    :param cache: a cache to use in place of an own one.
    """
    home = Home(scratch.fresh(what))
    home.folder.mkdir()
    new_environment(scratch.folder / "template", home.environment)
    if cache is not None:
        home.cache.symlink_to(cache)
    return home


REINSTALL = {"wheelfit": "--force-reinstall", "uv": "--reinstall", "pip": "--force-reinstall"}


class Contestant:
    """One tool in one scenario: brings everything into the state each run begins with."""

    def __init__(self, bench: Bench, scenario: Scenario, tool: str) -> None:
        self._bench = bench
        self._scenario = scenario
        self._tool = tool
        self._scratch = bench.scratch(scenario)
        self._state = scenario.state
        # Others know no labels: they get the plain wheel once more, from a server as before.
        self._has_labels = self._state == "exchange" and tool == "wheelfit"
        self._filled: Home | None = None
        if self._state != "cold":
            self._filled = new_home(self._scratch, f"{tool}-filled")
            bench.server.reset()
            self._run(self._filled, *self._labelled("cu129"))
            if self._state == "exchange" and not self._has_labels:
                self._scratch.put_away(self._filled.cache, shared=True)

    def once(self) -> Run:
        """Run once, from the state of the scenario."""
        home = self._home()
        again = self._state == "reinstall" or (self._state == "exchange" and not self._has_labels)
        words = [REINSTALL[self._tool]] if again else []
        self._bench.server.reset(rate=self._scenario.rate, delay=self._scenario.delay)
        measured = self._run(home, *words, *self._labelled("cu128"))
        count = self._bench.server.count()
        if self._state != "reinstall":
            # What a filled cache shares with an environment is needed again.
            self._scratch.put_away(home.folder, shared=self._state == "warm")
        return replace(measured, sent=count.sent, requests=count.requests)

    def done(self) -> None:
        """Give back the space of what was filled."""
        if self._filled is not None:
            self._scratch.put_away(self._filled.folder)

    def _home(self) -> Home:
        if self._filled is None:
            return new_home(self._scratch, self._tool)
        if self._state == "reinstall":
            return self._filled
        if self._state == "warm":
            return new_home(self._scratch, self._tool, self._filled.cache)
        home = Home(self._scratch.fresh(self._tool))
        copy_tree(self._filled.folder, home.folder)
        return home

    def _labelled(self, label: str) -> list[str]:
        if not self._has_labels:
            return []
        return [word for name in self._scenario.words for word in ("--label", f"{name}={label}")]

    def _run(self, home: Home, *words: str) -> Run:
        wheels = self._bench.wheels
        shelf = "siblings" if self._has_labels else self._scenario.shelf
        index = self._bench.server.index(getattr(wheels, shelf))
        deps = () if self._scenario.deps else ("--no-deps",)
        command = self._bench.command(
            self._tool, home, index, [*deps, *words, *self._scenario.words]
        )
        environ = self._bench.environ(self._scratch)
        return run(command, self._scratch, environ, server=self._bench.server.pid)


def measure(bench: Bench, scenario: Scenario) -> dict[str, Runs]:
    """Time the tools in one scenario, interleaved in rotating order."""
    rounds = {tool: scenario.rounds.get(tool, bench.rounds) for tool in bench.programs}
    tools = [tool for tool, count in rounds.items() if count]
    contestants = {tool: Contestant(bench, scenario, tool) for tool in tools}
    measured = {tool: Runs() for tool in tools}
    for number in range(bench.rounds + bench.extra):
        enough = {
            tool: rounds[tool] <= sum(not each.is_disturbed for each in runs.runs)
            for tool, runs in measured.items()
        }
        if number >= bench.rounds and enough["wheelfit"] and enough.get("uv", True):
            break
        for tool in in_turn(tools, number):
            if number < rounds[tool] or rounds[tool] == bench.rounds:
                measured[tool].runs.append(contestants[tool].once())
    for contestant in contestants.values():
        contestant.done()
    return measured


def measure_starts(bench: Bench, starts: int) -> dict[str, list[float]]:
    """Time the start of programs, in turns; return seconds by what was started."""
    scratch = bench.disk
    index = bench.server.index(bench.wheels.large)
    environ = bench.environ(scratch)
    bare = bench.programs["wheelfit"].with_name("python")
    commands = {"bare interpreter": [str(bare), "-I", "-c", "pass"]}
    dry = ["--dry-run", "--no-deps", *ORT]
    for tool, program in bench.programs.items():
        home = new_home(scratch, tool)
        commands[f"{tool} --help"] = [str(program), "--help"]
        commands[f"{tool} dry run"] = bench.command(tool, home, index, dry)
    bench.server.reset()
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(starts + 2):  # in the first ones bytecode and caches are written
        for name, command in commands.items():
            begin = time.perf_counter()
            subprocess.run(command, capture_output=True, check=True, env=environ)
            if number >= 2:
                seconds[name].append(time.perf_counter() - begin)
    return seconds


def measure_limits(bench: Bench) -> dict[str, dict[str, float]]:
    """Measure what this machine can do at most, by wheel, in processes of their own."""
    limits = {}
    for project in (*CUBLAS, *TORCH, *ORT):
        wheel = bench.wheels.of(project)
        url = f"{bench.server.origin}/{wheel.parent.name}/files/{wheel.name}"
        script = Path(__file__).with_name("install_limits.py")
        command = [sys.executable, *map(str, (script, wheel, bench.disk.folder)), url]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        limits[project] = json.loads(done.stdout)
    return limits


# --- preparation ----------------------------------------------------------------------


def tool_program(tool: str, arguments: Path | None, folder: Path) -> Path:
    """Return the program of a tool; installed into an environment of its own if need be."""
    if arguments is not None:
        return arguments.absolute()
    requirements = (f"{tool}=={VERSIONS[tool]}",) if tool in VERSIONS else OWN
    return install(folder / f"{tool}-{VERSIONS.get(tool, 'own')}", *requirements) / tool


def version_of(program: Path) -> str:
    """Return what a tool calls itself."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return " ".join(done.stdout.split()[:2])


def has_room(folder: Path) -> bool:
    """Return whether a folder lies in memory and has room for large wheels."""
    if not folder.is_dir() or kind_of(folder) != "tmpfs":
        return False
    return shutil.disk_usage(folder).free > ROOM


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ", ".join([*SCENARIOS, START_UP])
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=names)
    parser.add_argument("--rounds", type=int, default=7, help="counted runs of each (default 7)")
    parser.add_argument(
        "--extra", type=int, default=2, help="more rounds where runs were disturbed (default 2)"
    )
    parser.add_argument("--tool", action="append", choices=["uv", "pip"], help="besides wheelfit")
    for tool in ("wheelfit", "uv", "pip"):
        parser.add_argument(f"--{tool}", type=Path, metavar="PROGRAM", help="in place of a new one")
    parser.add_argument("--wheels", type=Path, default=kept_folder(), help="where they are kept")
    parser.add_argument("--scratch", type=Path, help="measure on this file system")
    parser.add_argument("--on", choices=["disk", "memory"], help="all of it; default: see above")
    parser.add_argument("--quick", action="store_true", help="tiny wheels, one round")
    parser.add_argument("--json", type=Path, help="write every run to this file")
    parser.add_argument("--plot", type=Path, help="draw the ratios to this SVG file")
    parser.add_argument(
        "--docs", type=Path, help="put the tables into this page, between its marks"
    )
    parser.add_argument("--from", dest="source", type=Path, help="measure nothing, read this file")
    arguments = parser.parse_args()
    unknown = set(arguments.scenarios) - {*SCENARIOS, START_UP}
    if unknown:
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    return arguments


def prepare(arguments: argparse.Namespace, stack: ExitStack) -> Bench:
    """Fetch wheels, install tools, start the server."""
    folder = Path(tempfile.mkdtemp(prefix="wheelfit-bench-", dir=arguments.scratch))
    stack.callback(remove, folder)
    wheels = tiny(folder / "wheels") if arguments.quick else fetched(arguments.wheels)
    programs = {}
    for tool in dict.fromkeys(["wheelfit", *(arguments.tool or ["uv", "pip"])]):
        place = folder if tool == "wheelfit" or arguments.quick else arguments.wheels
        programs[tool] = tool_program(tool, getattr(arguments, tool), place)
    memory = None
    if arguments.on != "disk" and (arguments.quick or has_room(SHARED_MEMORY)):
        place = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
        memory = Path(tempfile.mkdtemp(prefix="wheelfit-bench-", dir=place))
        stack.callback(remove, memory)
    elif arguments.on == "memory":
        sys.exit(f"{SHARED_MEMORY} is not in memory, or has less than {ROOM >> 30} GB")
    disk = folder if arguments.on != "memory" or memory is None else memory
    return Bench(
        programs=programs,
        wheels=wheels,
        server=stack.enter_context(Server(wheels.folders)),
        disk=Scratch(disk),
        memory=None if memory is None else Scratch(memory),
        rounds=1 if arguments.quick else arguments.rounds,
        extra=0 if arguments.quick else arguments.extra,
    )


def measure_all(arguments: argparse.Namespace) -> Result:
    """Measure what was asked for."""
    with ExitStack() as stack:
        bench = prepare(arguments, stack)
        versions = [version_of(program) for program in bench.programs.values()]
        machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"
        result = Result(machine, f"Python {platform.python_version()}, {', '.join(versions)}")
        result.limits = measure_limits(bench)
        for name in arguments.scenarios or [*SCENARIOS, START_UP]:
            begin = time.monotonic()
            if name == START_UP:
                result.starts = measure_starts(bench, 1 if arguments.quick else STARTS)
            else:
                result.runs[name] = measure(bench, SCENARIOS[name])
                result.places[name] = kind_of(bench.scratch(SCENARIOS[name]).folder)
            took = time.monotonic() - begin
            print(f"measured {name} in {took:.0f} s", file=sys.stderr, flush=True)
        return result


def main() -> None:
    """Measure what was asked for, print it, write it, draw it."""
    arguments = parse()
    if arguments.source is not None:
        result = Result.of_json(json.loads(arguments.source.read_text()))
    else:
        result = measure_all(arguments)
    text = "\n".join(report(result, {name: one.goals for name, one in SCENARIOS.items()}))
    print(text)
    if arguments.docs is not None:
        image = (
            f"![time as a multiple of uv's]({arguments.plot.name})\n\n" if arguments.plot else ""
        )
        arguments.docs.write_text(marked(arguments.docs.read_text(), image + text))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(result.as_json(), indent=1) + "\n")
    if arguments.plot is not None:
        draw(result, arguments.plot)


if __name__ == "__main__":
    main()
