"""Measure how costs grow with packages, files and clients, beside other tools; print and plot.

    python benchmarks/growth.py                                   every curve
    python benchmarks/growth.py sync-packages serve-clients       some of them
    python benchmarks/growth.py --largest 1000 --runs 1           quickly
    python benchmarks/growth.py --docs                            write scale.md and growth.svg

A curve is one task at growing sizes. Tools have environments of their own and take turns; each run
is a whole command in a new process, and the median of its processor time (user and system) counts,
because machines are shared. A tool that takes longer than the limit at one size is not asked for
larger ones. *Steepness* is the slope between the last two sizes on logarithmic scales: 1 is linear.
The load for servers comes from `wrk` (a Debian package), and their processor time for one page
counts. The plots need ``--group benchmarks``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import multiprocessing
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import server as servers
from install_report import marked
from measuring import in_turn, install, new_environment, plain_environ, processor_time, pyplot, save
from wheel import machine

from wheelfit.server.loopback import LoopbackServer
from wheelfit.server.messages import Request, Response, content_response
from wheelfit.testing.wheels import build_wheel, release_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

PACKAGES = {
    "uv": ("uv==0.13.9",),
    "pip": ("pip==26.3",),
    "variantlib": ("variantlib[cli]==0.2.2",),
}
DOCS = Path(__file__).resolve().parent.parent / "docs" / "explanation" / "scale.md"
START, STOP = "<!-- growth -->", "<!-- end of growth -->"
PAGE = "application/vnd.pypi.simple.v1+json"
ROW = """
[[packages]]
name = "{name}"
version = "1.0"
[[packages.wheels]]
name = "{wheel}"
path = "wheels/{wheel}"
hashes = {{ sha256 = "{digest}" }}
"""
TENS = (10, 100, 1_000, 10_000)
COLOURS = {
    "wheelfit": "#1b6ca8", "uv": "#7a3fa0", "pip": "#c0561b", "variantlib": "#c0561b",
    "devpi-server": "#3d8b40", "pypiserver": "#c0561b", "simple-repository-server": "#7a3fa0",
}  # fmt: skip


@dataclass(frozen=True)
class Bench:
    """The tools, and the folder where everything happens."""

    folder: Path
    environments: Path
    numbers: Iterator[int]

    def programs(self, tool: str) -> Path:
        """Return the folder of a tool's programs, installed once."""
        if tool == "wheelfit":
            return Path(sys.executable).parent
        requirements = PACKAGES.get(tool) or servers.OTHERS[tool]
        return install(self.environments / tool, *requirements)

    def fresh(self, what: str) -> Path:
        """Return the path of a new folder that does not exist yet."""
        return self.folder / f"{what}-{next(self.numbers)}"

    def environment(self) -> Path:
        """Make an empty virtual environment and return its interpreter."""
        place = new_environment(self.folder / "template", self.fresh("environment"))
        return place / "bin" / "python"


@dataclass(frozen=True)
class Subject:
    """One curve."""

    title: str
    unit: str
    sizes: tuple[int, ...]
    tools: tuple[str, ...]
    prepare: Callable[[Bench, ExitStack, int], Callable[[str], float]]
    """Makes what is measured at one size; returns a function that runs a tool once, and returns
    seconds."""


@dataclass
class Curve:
    """The medians of one subject, by tool and size, in seconds."""

    subject: Subject
    seconds: dict[str, dict[int, float]] = field(default_factory=dict)

    def steepness(self, tool: str) -> float:
        """Return the slope between the last two sizes on logarithmic scales."""
        points = list(self.seconds[tool].items())
        if len(points) < 2:
            return math.nan
        (small, before), (large, after) = points[-2:]
        return math.log(after / before) / math.log(large / small)


# --- running commands ---------------------------------------------------------------


def processor_seconds(command: list[str | Path], folder: Path) -> float:
    """Run a command, and return its user and system time."""
    used = processor_time()
    environ = plain_environ()
    done = subprocess.run(
        command, cwd=folder, env=environ, check=False, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return processor_time() - used


# --- sync ------------------------------------------------------------------------------


def write_project(folder: Path, packages: int, files: int) -> None:
    """Write wheels, a lock that names them by path, and requirements of pip's format."""
    rows, lines = ['lock-version = "1.0"\ncreated-by = "benchmark"\n'], []
    for number in range(packages):
        name = f"package-{number}"
        contents = {f"package_{number}/m{one}.py": f"n = {one}\n" for one in range(files)}
        wheel = build_wheel(folder / "wheels", name, "1.0", files=contents)
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        rows.append(ROW.format(name=name, wheel=wheel.name, digest=digest))
        lines.append(f"{name} @ {wheel.as_uri()} --hash=sha256:{digest}\n")
    (folder / "pylock.toml").write_text("".join(rows))
    (folder / "requirements.txt").write_text("".join(lines))


def sync(bench: Bench, *, packages: int, files: int, again: bool) -> Callable[[str], float]:
    """Prepare the synchronisation of new environments, with a warm cache, or of equal ones."""
    project = bench.fresh("project")
    write_project(project, packages, files)
    cache = {tool: bench.fresh(f"cache-{tool}") for tool in ("wheelfit", "uv", "pip")}
    equal: dict[str, Path] = {}

    def command(tool: str, python: Path) -> list[str | Path]:
        program, kept = bench.programs(tool) / tool, cache[tool]
        commands: dict[str, list[str | Path]] = {
            "wheelfit": [program, "sync", "-q", "--python", python, "--cache-dir", kept],
            "uv": [
                program, "pip", "sync", "-q", "--python", python, "--cache-dir", kept, "--offline",
                "--preview", "pylock.toml",
            ],
            "pip": [
                program, "--python", python, "install", "-q", "--cache-dir", kept, "--no-deps",
                "--no-index", "--disable-pip-version-check", "-r", "requirements.txt",
            ],
        }  # fmt: skip
        return commands[tool]

    def run(tool: str) -> float:
        if tool not in equal:
            equal[tool] = bench.environment()
            processor_seconds(command(tool, equal[tool]), project)  # fills the cache
        python = equal[tool] if again else bench.environment()
        seconds = processor_seconds(command(tool, python), project)
        if not again:
            shutil.rmtree(python.parent.parent)
        return seconds

    return run


# --- explain ---------------------------------------------------------------------------


def serve_pages(releases: int, line: Connection) -> None:
    """Serve pages with four wheels for each release, or one wheel, and their METADATA."""

    def page(name: str) -> bytes:
        files = []
        stem = name.replace("-", "_")
        for number in range(releases):
            for tag in ("cp311", "cp312", "cp313", "cp314")[: 4 if releases > 1 else 1]:
                wheel = f"{stem}-1.{number}-{tag}-{tag}-manylinux_2_28_x86_64.whl"
                wheel = wheel if releases > 1 else f"{stem}-1.0-py3-none-any.whl"
                digest = hashlib.sha256(wheel.encode()).hexdigest()
                files.append(
                    {
                        "filename": wheel,
                        "url": f"../../files/{wheel}",
                        "hashes": {"sha256": digest},
                        "core-metadata": True,
                        "size": 1000,
                        "upload-time": "2026-01-01T00:00:00.000000Z",
                    }
                )
        content = {"meta": {"api-version": "1.1"}, "name": name, "files": files}
        return json.dumps(content).encode()

    pages: dict[str, bytes] = {}

    def answer(request: Request) -> Response:
        parts = request.path.strip("/").split("/")
        if parts[0] == "files":
            name, version, *_ = parts[1].split("-")
            body = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
            headers = {"content-type": "text/plain"}
        else:
            name = parts[-1]
            if name not in pages:
                pages[name] = page(name)
            body, headers = pages[name], {"content-type": PAGE, "cache-control": "max-age=600"}
        etag = f'"{hashlib.sha256(body).hexdigest()}"'
        return content_response(request, body, len(body), etag=etag, headers=headers)

    with LoopbackServer(answer) as server:
        line.send(f"{server.origin}/simple/")
        line.recv()


@contextmanager
def index_of_pages(releases: int) -> Iterator[str]:
    """Run that index in a process of its own, and yield its URL."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.Process(target=serve_pages, args=(releases, there))
    process.start()
    yield here.recv()
    here.send("end")
    process.join()


def explain(
    bench: Bench, stack: ExitStack, *, projects: int, releases: int
) -> Callable[[str], float]:
    """Prepare the choice of one wheel of each project; pages are fresh in the cache."""
    url = stack.enter_context(index_of_pages(releases))
    folder = bench.fresh("requirements")
    folder.mkdir()
    (folder / "in.txt").write_text("".join(f"package-{number}\n" for number in range(projects)))
    python = bench.environment()
    kept = {tool: bench.fresh(f"cache-{tool}") for tool in ("wheelfit", "uv", "pip")}
    filled: set[str] = set()

    def run(tool: str) -> float:
        program, cache = bench.programs(tool) / tool, kept[tool]
        commands: dict[str, list[str | Path]] = {
            "wheelfit": [program, "explain", "-r", "in.txt", "--python", python],
            "uv": [program, "pip", "compile", "-q", "in.txt", "--no-deps", "--python", python],
            "pip": [
                program, "--python", python, "install", "-q", "--dry-run", "--no-deps",
                "--disable-pip-version-check", "-r", "in.txt",
            ],
        }  # fmt: skip
        command = [*commands[tool], "--index-url", url, "--cache-dir", cache]
        if tool not in filled:
            filled.add(tool)
            processor_seconds(command, folder)
        return processor_seconds(command, folder)

    return run


# --- index pages -----------------------------------------------------------------------


def generate(bench: Bench, size: int) -> Callable[[str], float]:
    """Prepare the first `index generate` over variant wheels of releases of 50 labels."""
    folder = bench.fresh("wheels")
    labels = [f"v{number}" for number in range(min(size, 50))]
    document = release_document(
        {label: {"test": {"number": [label]}} for label in labels},
        static={"test": {"number": labels}},
    )
    for number in range(size):
        release, label = divmod(number, len(labels))
        build_wheel(folder, "small", f"{release}.0", label=labels[label], document=document)

    def run(tool: str) -> float:
        shutil.rmtree(folder / "simple", ignore_errors=True)
        for path in folder.glob("*.metadata"):
            path.unlink()
        program = bench.programs(tool) / tool
        words = {
            "wheelfit": ("index", "generate", "-q"),
            "variantlib": ("generate-index-json", "-d"),
        }
        return processor_seconds([program, *words[tool], folder], folder)

    return run


def serve(
    bench: Bench,
    stack: ExitStack,
    tools: tuple[str, ...],
    *,
    projects: int,
    files: int,
    clients: int,
) -> Callable[[str], float]:
    """Prepare servers of an index, and ask each for pages for three seconds."""
    folder = bench.fresh("index")
    folder.mkdir()
    wheels = servers.make_wheels(folder / "wheels", projects, files)
    servers.fill(folder / "index", wheels)
    ours = stack.enter_context(servers.wheelfit(folder / "index"))
    running = {"wheelfit": ours}
    for tool in tools:
        if tool != "wheelfit":
            start = servers.STARTS[tool](bench.programs(tool), folder, f"{ours.origin}/simple/")
            running[tool] = stack.enter_context(start)
    load = argparse.Namespace(projects=projects, files=files, seconds=3, clients=clients)
    for tool, server in running.items():
        servers.warm(server, load, every=tool in ("wheelfit", "devpi-server"))

    def run(tool: str) -> float:
        measured = servers.measure(running[tool], load, 0)
        if measured.errors:
            sys.exit(f"{tool} gave {measured.errors} errors")
        return measured.processor / 1000

    return run


SUBJECTS: dict[str, Subject] = {
    "sync-packages": Subject(
        "sync, new environment", "packages", TENS, ("wheelfit", "uv", "pip"),
        lambda bench, _, size: sync(bench, packages=size, files=1, again=False),
    ),
    "sync-equal": Subject(
        "sync, nothing to do", "packages", TENS, ("wheelfit", "uv", "pip"),
        lambda bench, _, size: sync(bench, packages=size, files=1, again=True),
    ),
    "sync-files": Subject(
        "sync of one package", "files", (*TENS, 100_000), ("wheelfit", "uv", "pip"),
        lambda bench, _, size: sync(bench, packages=1, files=size, again=False),
    ),
    "explain-packages": Subject(
        "explain, fresh pages", "packages", TENS, ("wheelfit", "uv", "pip"),
        lambda bench, stack, size: explain(bench, stack, projects=size, releases=1),
    ),
    "explain-files": Subject(
        "explain of one project", "files on its page", (40, 400, 4_000, 40_000),
        ("wheelfit", "uv", "pip"),
        lambda bench, stack, size: explain(bench, stack, projects=1, releases=size // 4),
    ),
    "generate": Subject(
        "index generate", "wheels", TENS, ("wheelfit", "variantlib"),
        lambda bench, _, size: generate(bench, size),
    ),
    "serve-files": Subject(
        "one page from a server", "files on it", (10, 100, 1_000, 10_000),
        ("wheelfit", "devpi-server", "simple-repository-server"),
        lambda bench, stack, size: serve(
            bench, stack, SUBJECTS["serve-files"].tools, projects=1, files=size, clients=4
        ),
    ),
    "serve-clients": Subject(
        "one page from a server", "clients", (1, 4, 16, 64),
        ("wheelfit", "devpi-server", "simple-repository-server"),
        lambda bench, stack, size: serve(
            bench, stack, SUBJECTS["serve-clients"].tools, projects=20, files=50, clients=size
        ),
    ),
}  # fmt: skip


def measure(subject: Subject, bench: Bench, arguments: argparse.Namespace) -> Curve:
    """Measure a subject at every size, the tools in turn."""
    active_tools = [tool for tool in subject.tools if tool in (arguments.tool or subject.tools)]
    curve = Curve(subject, {tool: {} for tool in active_tools})
    for size in subject.sizes:
        if size > arguments.largest or not active_tools:
            break
        with ExitStack() as stack:
            run = subject.prepare(bench, stack, size)
            times: dict[str, list[float]] = {tool: [] for tool in active_tools}
            for number in range(arguments.runs):
                for tool in in_turn(active_tools, number):
                    times[tool].append(run(tool))
        for tool, seconds in times.items():
            curve.seconds[tool][size] = statistics.median(seconds)
            print(f"{subject.title}, {size:,} {subject.unit}, {tool}: {seconds}", flush=True)
        active_tools = [
            tool for tool in active_tools if curve.seconds[tool][size] < arguments.limit
        ]
    return curve


def table(curves: dict[str, Curve]) -> str:
    """Write the medians as a table."""
    lines = []
    for curve in curves.values():
        sizes = sorted({size for points in curve.seconds.values() for size in points})
        lines += [
            f"\n| {curve.subject.title}: {curve.subject.unit} "
            + "".join(f"| {size:,} " for size in sizes)
            + "| steepness |",
            f"|---|{'--:|' * (len(sizes) + 1)}",
        ]
        for tool, points in curve.seconds.items():
            cells = [shown(points[size]) if size in points else "" for size in sizes]
            lines.append(f"| {tool} | {' | '.join(cells)} | {curve.steepness(tool):.2f} |")
    return "\n".join(lines)


def shown(seconds: float) -> str:
    """Write a time."""
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def plot(curves: dict[str, Curve], path: Path) -> None:
    """Draw a plot for each curve."""
    rows = math.ceil(len(curves) / 2)
    figure, places = pyplot(font=8).subplots(rows, 2, figsize=(7, 2.5 * rows), squeeze=False)
    for place in places.flat[len(curves) :]:
        place.remove()
    for place, curve in zip(places.flat, curves.values(), strict=False):
        for tool, points in curve.seconds.items():
            if points:
                sizes, seconds = zip(*points.items(), strict=True)
                line = {"color": COLOURS[tool], "marker": "o", "markersize": 3, "label": tool}
                place.plot(sizes, seconds, **line)
        place.set(xscale="log", yscale="log", title=curve.subject.title)
        place.set(xlabel=curve.subject.unit, ylabel="processor seconds")
        place.minorticks_off()
        place.grid(visible=True, which="major", linewidth=0.3)
        place.legend(frameon=False, fontsize=7)
    save(figure, path)


def main() -> None:
    """Measure, print, and plot if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("subjects", nargs="*", metavar="CURVE", help=", ".join(SUBJECTS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--largest", type=int, default=1_000_000, help="no larger sizes")
    parser.add_argument("--limit", type=float, default=30, help="processor seconds of one run")
    parser.add_argument("--tool", action="append", help="these tools only")
    parser.add_argument("--docs", action="store_true", help="write the table and plots there")
    parser.add_argument(
        "--environments", type=Path, default=Path(tempfile.gettempdir()) / "wheelfit-servers"
    )
    arguments = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("this needs wrk: apt-get install wrk")
    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores")
    curves: dict[str, Curve] = {}
    for name in arguments.subjects or SUBJECTS:
        with tempfile.TemporaryDirectory(prefix="growth-") as folder:
            bench = Bench(Path(folder), arguments.environments, iter(range(1_000_000)))
            curves[name] = measure(SUBJECTS[name], bench, arguments)
    text = f"Medians of {arguments.runs}, {machine()}.\n{table(curves)}"
    print(text)
    if arguments.docs:
        DOCS.write_text(marked(DOCS.read_text(), text, START, STOP))
        plot(curves, DOCS.with_name("growth.svg"))


if __name__ == "__main__":
    main()
