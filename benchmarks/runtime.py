"""Print what `wheelfit_runtime` costs a program that imports it.

    python benchmarks/runtime.py               21 processes for each row
    python benchmarks/runtime.py --runs 41     more, on a busy machine

First whole processes are compared: one that imports a package split by levels of x86-64, and one
that imports a package with a check written by hand. Then each step is taken apart. Each run is a
fresh interpreter without ``site``, so nothing is imported that the program would have anyway;
bytecode is compiled before. Processor time is given beside wall time, because other processes
disturb it less.
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
import time
from pathlib import Path

from measuring import CHECKOUT, processor_time

SOURCES = CHECKOUT / "runtime" / "src"
FOLDER = "wheelfit_implementations"
NEEDS = {
    "cu12": ["nvidia :: cuda_version_lower_bound :: 12.0"],
    "cu11": ["nvidia :: cuda_version_lower_bound :: 11.8"],
    "avx512": ["x86_64 :: level :: v4"],
    "avx2": ["x86_64 :: level :: v2"],
    "generic": [],
}
LEVELS = {"avx512": ["x86_64 :: level :: v4"], "avx2": ["x86_64 :: level :: v3"], "generic": []}
BY_HAND = """
def _flags():
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("flags"):
                return set(line.split())
    return set()

if "avx2" in _flags():
    from ham_avx2 import *
else:
    from ham_generic import *
"""
WHOLE = {
    "a process that imports nothing": "pass",
    "  a check written by hand": "import by_hand",
    "  a split package": "import ham",
    "  the same, with an override": (
        "import os; os.environ['WHEELFIT_OVERRIDE_X86_64_LEVEL'] = 'v1'; import ham"
    ),
}
CALLS = 10_000
CLOCK = """
import sys, time

def clock():
    return time.perf_counter(), time.process_time()

def step(name, start, calls=1):
    wall, processor = clock()
    print(name, (wall - start[0]) * 1e3 / calls, (processor - start[1]) * 1e3 / calls, sep="|")
"""
PROGRAM = f"""{CLOCK}
sys.path[:0] = sys.argv[1:]
start = clock()
import wheelfit_runtime
step("import wheelfit_runtime", start)
start = clock()
import json, re, threading, typing
step("modules of the standard library", start)
start = clock()
import wheelfit_runtime.loader.loading, wheelfit_runtime.loader.process
import wheelfit_runtime.loader.evidence
from wheelfit_runtime.loader.declarations import scan
step("modules of ours", start)
start = clock()
scan(sys.path)
step("scan, first", start)
start = clock()
for _ in range(100):
    scan(sys.path)
step("scan, again", start, 100)
import warnings
warnings.simplefilter("ignore")
start = clock()
wheelfit_runtime.load("spam")
step("first load", start)
start = clock()
for _ in range({CALLS}):
    wheelfit_runtime.load("spam")
step("later load", start, {CALLS})
"""
LIBRARIES = f"""{CLOCK}
sys.path[:0] = sys.argv[1:2]
if len(sys.argv) > 2:
    start = clock()
    import ctypes
    for path in sys.argv[2:]:
        ctypes.CDLL(path)
    step("ctypes and dlopen alone", start)
    sys.exit()
start = clock()
from wheelfit_runtime import initialize_cuda
cuda = initialize_cuda("12")
step("initialize_cuda, later start", start)
start = clock()
for _ in range({CALLS}):
    initialize_cuda("12")
step("initialize_cuda, later call", start, {CALLS})
print("paths", *cuda.paths.values(), sep="|")
"""


def build_site(folder: Path) -> None:
    """Put five implementations of spam, and three of ham, into a folder."""
    (folder / FOLDER).mkdir()
    for group, all_needs in (("spam", NEEDS), ("ham", LEVELS)):
        for name, needs in all_needs.items():
            title = f"{group}_{name}"
            declaration = {"schema": 1, "group": group, "implementation": name, "module": title}
            text = json.dumps({**declaration, "properties": needs})
            (folder / FOLDER / f"{title}.json").write_text(text)
            (folder / f"{title}.py").write_text("")
    (folder / "by_hand.py").write_text(BY_HAND)
    loaded = "from wheelfit_runtime import load\nload('ham', into=__name__)\n"
    (folder / "ham.py").write_text(loaded)
    compileall.compile_dir(str(folder), quiet=1)


def run(folder: Path) -> dict[str, tuple[float, float]]:
    """Return wall and processor time of each step in one process, in milliseconds."""
    command = [sys.executable, "-S", "-c", PROGRAM, str(folder), str(SOURCES)]
    environ = {n: v for n, v in os.environ.items() if not n.startswith(("PYTHON", "WHEELFIT_"))}
    done = subprocess.run(
        command, env=environ, cwd=folder, check=True, capture_output=True, text=True
    )
    return _times(done.stdout)


def run_whole(folder: Path) -> dict[str, tuple[float, float]]:
    """Return wall and processor time of whole processes, in milliseconds."""
    found = {}
    path = os.pathsep.join([str(folder), str(SOURCES)])
    for name, code in WHOLE.items():
        start, before = time.perf_counter(), processor_time()
        # What `site` imports, any program has.
        command = [sys.executable, "-S", "-c", f"import os, io, codecs; {code}"]
        subprocess.run(command, env={"PYTHONPATH": path}, cwd=folder, check=True)
        wall, used = time.perf_counter() - start, processor_time() - before
        found[name] = (wall * 1e3, used * 1e3)
    return found


def _times(text: str) -> dict[str, tuple[float, float]]:
    rows = (line.split("|") for line in text.splitlines() if not line.startswith("paths|"))
    return {name: (float(wall), float(processor)) for name, wall, processor in rows}


def fill_store(folder: Path) -> dict[str, str]:
    """Bring small CUDA libraries into a store, and return the environment that has it."""
    sys.path.insert(0, str(SOURCES))
    from wheelfit.testing.index import RecordingIndex
    from wheelfit.testing.libraries import build_cuda_wheels
    from wheelfit_runtime.libraries.initializing import prepare

    build_cuda_wheels(folder / "wheels", machine=os.uname().machine)
    store = str(folder / "store")
    with RecordingIndex(folder / "wheels") as index:
        prepare("cuda", "12", store=store, index_url=index.url, transport="http")
    return {"WHEELFIT_LIBRARY_STORE": store, "WHEELFIT_OFFLINE": "1"}


def run_libraries(environ: dict[str, str]) -> dict[str, tuple[float, float]]:
    """Return the times of a program that has its libraries in the store already."""

    def child(*paths: str) -> str:
        command = [sys.executable, "-S", "-c", LIBRARIES, str(SOURCES), *paths]
        return subprocess.run(
            command, env=environ, check=True, capture_output=True, text=True
        ).stdout

    text = child()
    paths = text.splitlines()[-1].split("|")[1:]
    return _times(child(*paths)) | _times(text)


def main() -> None:
    """Run the program often and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=21, help="processes; default: 21")
    runs = parser.parse_args().runs
    compileall.compile_dir(str(SOURCES / "wheelfit_runtime"), quiet=1)
    with tempfile.TemporaryDirectory() as folder:
        build_site(Path(folder))
        run(Path(folder)), run_whole(Path(folder))
        environ = fill_store(Path(folder))
        run_libraries(environ)
        found = [
            run_whole(Path(folder)) | run(Path(folder)) | run_libraries(environ)
            for _ in range(runs)
        ]
    print(f"{'':34}{'wall':>12}{'processor':>12}   (ms, medians of {runs})")
    for name in found[0]:
        wall, processor = (
            statistics.median(one[name][number] for one in found) for number in range(2)
        )
        print(f"{name:34}{wall:12.4f}{processor:12.4f}")


if __name__ == "__main__":
    main()
