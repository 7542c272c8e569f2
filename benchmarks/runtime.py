"""Print what `wheelfit.runtime` costs a program that imports it.

    python benchmarks/runtime.py               21 processes for each row
    python benchmarks/runtime.py --runs 41     more, on a busy machine

Each run is a fresh interpreter without ``site``, so nothing is imported that the program would have
anyway; bytecode is compiled before. Processor time is given beside wall time, because other
processes disturb it less.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "src"
FOLDER = "wheelfit_implementations"
NEEDS = {
    "cu12": ["nvidia :: cuda_version_lower_bound :: 12.0"],
    "cu11": ["nvidia :: cuda_version_lower_bound :: 11.8"],
    "avx512": ["x86_64 :: level :: v4"],
    "avx2": ["x86_64 :: level :: v2"],
    "generic": [],
}
CALLS = 10_000
PROGRAM = f"""
import sys, time
sys.path[:0] = sys.argv[1:]

def clock():
    return time.perf_counter(), time.process_time()

def step(name, start, calls=1):
    wall, processor = clock()
    print(name, (wall - start[0]) * 1e3 / calls, (processor - start[1]) * 1e3 / calls, sep="|")

start = clock()
import wheelfit.runtime
step("import wheelfit.runtime", start)
start = clock()
import json, re, threading, typing
step("modules of the standard library", start)
start = clock()
import wheelfit.runtime.loading, wheelfit.runtime.process
step("modules of ours", start)
start = clock()
wheelfit.runtime.loading.scan(sys.path)
step("scan, first", start)
start = clock()
for _ in range(100):
    wheelfit.runtime.loading.scan(sys.path)
step("scan, again", start, 100)
import warnings
warnings.simplefilter("ignore")
start = clock()
wheelfit.runtime.load("spam")
step("first load", start)
start = clock()
for _ in range({CALLS}):
    wheelfit.runtime.load("spam")
step("later load", start, {CALLS})
"""


def build_site(folder: Path) -> None:
    """Put five implementations of spam into a folder."""
    (folder / FOLDER).mkdir()
    for name, needs in NEEDS.items():
        told = {"schema": 1, "group": "spam", "implementation": name, "module": f"spam_{name}"}
        text = json.dumps({**told, "properties": needs})
        (folder / FOLDER / f"spam-{name}.json").write_text(text)
        (folder / f"spam_{name}.py").write_text("")
    compileall.compile_dir(str(folder), quiet=1)


def run(folder: Path) -> dict[str, tuple[float, float]]:
    """Return wall and processor time of each step in one process, in milliseconds."""
    command = [sys.executable, "-S", "-c", PROGRAM, str(folder), str(SOURCES)]
    environ = {n: v for n, v in os.environ.items() if not n.startswith(("PYTHON", "WHEELFIT_"))}
    done = subprocess.run(
        command, env=environ, cwd=folder, check=True, capture_output=True, text=True
    )
    rows = (line.split("|") for line in done.stdout.splitlines())
    return {name: (float(wall), float(processor)) for name, wall, processor in rows}


def main() -> None:
    """Run the program often and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=21, help="processes; default: 21")
    runs = parser.parse_args().runs
    compileall.compile_dir(str(SOURCES / "wheelfit"), quiet=1)
    with tempfile.TemporaryDirectory() as folder:
        build_site(Path(folder))
        run(Path(folder))
        found = [run(Path(folder)) for _ in range(runs)]
    print(f"{'':34}{'wall':>12}{'processor':>12}   (ms, medians of {runs})")
    for name in found[0]:
        wall, processor = (
            statistics.median(one[name][number] for one in found) for number in range(2)
        )
        print(f"{name:34}{wall:12.4f}{processor:12.4f}")


if __name__ == "__main__":
    main()
