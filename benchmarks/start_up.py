"""Print how long commands take over a bare interpreter's start, with pip and uv beside.

    python benchmarks/start_up.py               17 runs of each command
    python benchmarks/start_up.py --runs 41     more, on a busy machine
    python benchmarks/start_up.py --without-tools   no pip, no uv: nothing is fetched for them

Every tool gets an environment of its own without ``.pth`` files (each would tax every start of
Python), and its bytecode is compiled. The index is on loopback and calls its pages fresh for ten
minutes, as PyPI does. Commands are interleaved in rotating order; wall time and processor time
are both given, because other processes disturb the first much more than the second.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from measuring import OWN, in_turn

from wheelfit.server.folder import FolderIndex
from wheelfit.server.loopback import LoopbackServer
from wheelfit.testing.wheels import build_wheel, release_document

if TYPE_CHECKING:
    from wheelfit.server.messages import Request, Response

PIP_VERSION = "26.3"
UV_VERSION = "0.13.8"
GOALS = {
    "wheelfit --version": 40,
    "wheelfit --help": 70,
    "wheelfit install --dry-run, variants and 6 more": 150,
}
"""Milliseconds over a bare interpreter."""
RELEASES = 40
DEPENDENCIES = 6


@dataclass
class Row:
    """Hold one command and how long it took, in milliseconds."""

    name: str
    command: list[str]
    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


def build_world(folder: Path) -> None:
    """Write a project with variants and dependencies, many releases of it, and a plain one."""
    variants = {f"v{level}": {"x86_64": {"level": [f"v{level}"]}} for level in (2, 3)}
    document = release_document(variants, static={"x86_64": {"level": ["v3", "v2"]}})
    needs = [f"needed-{number}>=1" for number in range(DEPENDENCIES)]
    for number in range(RELEASES):
        version = f"2.{number}"
        build_wheel(folder, "varied", version, requires=needs)
        for label in variants:
            build_wheel(folder, "varied", version, label=label, document=document, requires=needs)
        (folder / f"varied-{version}-variants.json").write_text(json.dumps(document))
    for number in range(DEPENDENCIES):
        for minor in range(10):
            build_wheel(folder, f"needed-{number}", f"1.{minor}")
    build_wheel(folder, "plain", "1.0")


class FreshPages:
    """Serve a folder, and call its pages fresh for ten minutes."""

    def __init__(self, folder: Path) -> None:
        self._inner = FolderIndex(folder)

    def __call__(self, request: Request) -> Response:
        """Answer a request."""
        answer = self._inner(request)
        if not request.path.startswith("/simple/") and not request.path.endswith(".json"):
            return answer
        return replace(answer, headers={**answer.headers, "cache-control": "max-age=600"})


def make_environment(folder: Path, *packages: str) -> Path:
    """Make an environment without ``.pth`` files, install into it, and return its scripts."""
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    if packages:
        python = folder / "bin" / "python"
        run([sys.executable, "-m", "pip", "--python", str(python), "install", "-q", *packages])
        for path in folder.glob("lib/python*/site-packages/*.pth"):
            path.unlink()
        run([str(python), "-m", "compileall", "-q", str(folder / "lib")])
    return folder / "bin"


def run(command: list[str]) -> None:
    """Run what must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRON)
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


ENVIRON = {
    name: value
    for name, value in os.environ.items()
    if name not in {"PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV"}
}


def once(command: list[str]) -> tuple[float, float]:
    """Run a command and return its wall and processor time in milliseconds."""
    null = os.open(os.devnull, os.O_RDWR)
    begin = time.perf_counter()
    pid = os.posix_spawn(
        command[0],
        command,
        ENVIRON,
        file_actions=[(os.POSIX_SPAWN_DUP2, null, stream) for stream in range(3)],
    )
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - begin
    os.close(null)
    if status:
        sys.exit(f"{' '.join(command)} ended with {status}")
    return wall * 1000, (usage.ru_utime + usage.ru_stime) * 1000


def commands(folder: Path, index: str, *, tools: bool) -> list[Row]:
    """Return everything that is measured; what needs a warm cache has one."""
    wheelfit = make_environment(folder / "wheelfit", *OWN)
    bare = make_environment(folder / "bare")
    target = make_environment(folder / "target") / "python"
    own, cache = str(wheelfit / "wheelfit"), str(folder / "cache")
    run([own, "install", "-q", "--python", str(target), "--cache-dir", cache, "-i", index, "plain"])
    itself = str(wheelfit / "python")
    dry = [own, "install", "--dry-run", "--cache-dir", cache, "-i", index]
    dry_here = [*dry, "--python", itself]
    rows = [
        Row("python -c pass", [str(bare / "python"), "-c", "pass"]),
        Row("wheelfit --version", [own, "--version"]),
        Row("wheelfit --help", [own, "--help"]),
        Row("wheelfit install --help", [own, "install", "--help"]),
        Row("wheelfit cache dir", [own, "cache", "dir"]),
        Row("wheelfit list", [own, "list", "--python", itself]),
        Row("wheelfit list, of another environment", [own, "list", "--python", str(target)]),
        Row("wheelfit install --dry-run, satisfied", [*dry_here, "packaging"]),
        Row("wheelfit install --dry-run, one plain wheel", [*dry_here, "plain"]),
        Row("wheelfit install --dry-run, variants and 6 more", [*dry_here, "varied"]),
        Row(
            "wheelfit install --dry-run, the same for another environment",
            [*dry, "--python", str(target), "varied"],
        ),
    ]
    if tools:
        pip = str(make_environment(folder / "pip", f"pip=={PIP_VERSION}") / "pip")
        uv = str(make_environment(folder / "uv", f"uv=={UV_VERSION}") / "uv")
        rows += [
            Row("pip --help", [pip, "--help"]),
            Row(
                "pip install --dry-run, 7 plain wheels",
                [pip, "--python", str(target), "install", "-qq", "--dry-run", "--isolated",
                 "--disable-pip-version-check", "--cache-dir", str(folder / "pip-cache"),
                 "-i", index, "varied"],
            ),
            Row("uv --help", [uv, "--help"]),
            Row(
                "uv pip install --dry-run, 7 plain wheels",
                [uv, "pip", "install", "-q", "--dry-run", "--no-config", "--python", str(target),
                 "--cache-dir", str(folder / "uv-cache"), "--default-index", index, "varied"],
            ),
        ]  # fmt: skip
    return rows


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=17, help="counted runs of each (default 17)")
    parser.add_argument("--without-tools", action="store_true", help="leave pip and uv out")
    parser.add_argument("--json", action="store_true", help="print the single times as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wheelfit-bench-") as name:
        folder = Path(name)
        build_world(folder / "wheels")
        with LoopbackServer(FreshPages(folder / "wheels")) as server:
            rows = commands(folder, f"{server.origin}/simple/", tools=not arguments.without_tools)
            for row in rows:
                once(row.command)  # caches and bytecode
            for number in range(arguments.runs):
                for row in in_turn(rows, number):
                    wall, processor = once(row.command)
                    row.wall.append(wall)
                    row.processor.append(processor)
    if arguments.json:
        json.dump({row.name: [row.wall, row.processor] for row in rows}, sys.stdout, indent=2)
        return
    print(f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    print(f"pip {PIP_VERSION}, uv {UV_VERSION}; medians of {arguments.runs} runs in ms\n")
    print("| command | wall | over bare | fastest over bare | processor over bare | goal |")
    print("|---|---|---|---|---|---|")
    bare = rows[0]
    for row in rows:
        wall = statistics.median(row.wall)
        cells = [
            f"{wall:.0f}",
            f"{wall - statistics.median(bare.wall):.0f}",
            f"{min(row.wall) - min(bare.wall):.0f}",
            f"{statistics.median(row.processor) - statistics.median(bare.processor):.0f}",
            str(GOALS.get(row.name, "")),
        ]
        print(f"| {row.name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
