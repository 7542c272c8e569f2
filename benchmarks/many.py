"""Check and repack thousands of small wheels: here, in several processes, and on a Dask cluster.

    python benchmarks/many.py                     ten thousand wheels, 3 rounds
    python benchmarks/many.py --wheels 200 --rounds 1 check repack

Each run is a whole command in a new process; those who work take turns. The cluster is a scheduler
and two workers on this machine, started once. Times are medians; the results of all are compared.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from dask_cluster import DaskCluster

from wheelfit.testing.wheels import build_wheel

PROGRAM = str(Path(sys.executable).parent / "wheelfit")


def make_wheels(folder: Path, count: int) -> None:
    """Write small wheels, of 30 releases of a project each, with ten modules and a description."""
    chance = random.Random(0)
    words = [f"word{number}" for number in range(2000)]
    for number in range(count):
        files = {
            f"package_{number // 30}/module_{index}.py": " ".join(chance.choices(words, k=300))
            for index in range(10)
        }
        build_wheel(
            folder,
            f"package-{number // 30}",
            f"1.{number % 30}+cu12",
            files=files,
            requires=["torch", "numpy>=1.26"],
            description=" ".join(chance.choices(words, k=200)),
        )


def digest(folder: Path) -> str:
    """Return what stays equal as long as names and contents of files do."""
    whole = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        whole.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


def main() -> None:
    """Run everything, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commands", nargs="*", help="as check; default: all")
    parser.add_argument("--wheels", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        top = stack.enter_context(tempfile.TemporaryDirectory(dir=arguments.folder))
        folder = Path(top)
        make_wheels(folder / "in", arguments.wheels)
        size = sum(path.stat().st_size for path in (folder / "in").iterdir())
        print(f"{arguments.wheels} wheels, {size / 1e6:.0f} MB, {os.cpu_count()} processors")
        cluster = stack.enter_context(DaskCluster(folder / "cluster"))
        cluster.add_workers(2)
        workers = {
            "this process": [],
            "-j 1": ["-j", "1"],
            "-j 2": ["-j", "2"],
            "Dask, 2 workers": ["--executor", cluster.url],
        }
        commands = {
            "check": ["check", "in", "-q", "-o", "report"],
            "check --full": ["check", "in", "-q", "-o", "report", "--full"],
            "repack": [
                *("wheel", "repack", "in", "-q", "-o", "out"),
                *("--strip-local-version", "--remove-dependency", "torch"),
            ],
        }
        commands = {
            name: words
            for name, words in commands.items()
            if name in (arguments.commands or commands)
        }
        times: dict[tuple[str, str], list[float]] = {}
        seen: dict[str, set[str]] = {}
        for _ in range(arguments.rounds):
            for command, words in commands.items():
                for executor, options in workers.items():
                    shutil.rmtree(folder / "out", ignore_errors=True)
                    os.sync()
                    start = time.perf_counter()
                    done = subprocess.run(
                        [PROGRAM, *words, *options],
                        cwd=folder,
                        check=False,
                        stdout=subprocess.DEVNULL,
                    )
                    times.setdefault((command, executor), []).append(time.perf_counter() - start)
                    assert done.returncode in (0, 9), done
                    result = folder / "out"
                    seen.setdefault(command, set()).add(
                        digest(result)
                        if result.exists()
                        else hashlib.sha256((folder / "report").read_bytes()).hexdigest()
                    )
        print(f"| | {' | '.join(workers)} |")
        print(f"|---|{'---|' * len(workers)}")
        for command in commands:
            cells = [f"{statistics.median(times[command, executor]):.1f} s" for executor in workers]
            print(f"| `{command}` | {' | '.join(cells)} |")
        for command, results in seen.items():
            print(f"{command}: {'one result' if len(results) == 1 else 'RESULTS DIFFER'}")


if __name__ == "__main__":
    main()
