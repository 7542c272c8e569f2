"""Check wheels beside pydistcheck, check-wheel-contents and twine: what is found, and how fast.

    python benchmarks/check.py FOLDER              the wheels of a folder, 5 rounds
    python benchmarks/check.py FOLDER --rounds 1   does it run?

The wheels are whatever lies there, as `pip download numpy pandas scipy pillow` leaves them. Each
run is a whole command in a new process with all wheels; the tools take turns. Then each is shown
the broken wheels of `tests/checking/broken_wheels.py`, kind by kind: wheelfit finds one if it names
the right check, another tool if it does not end with 0 where it does for a sound wheel.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from install_wheels import kept_folder
from measuring import CHECKOUT, in_turn, install, processor_time

sys.path.insert(0, str(CHECKOUT / "tests"))

from checking.broken_wheels import BROKEN

from wheelfit.testing.wheels import build_wheel

OTHERS = {
    "twine check": ("twine==7.0.0", ["twine", "check"]),
    "check-wheel-contents": ("check-wheel-contents==0.6.3", ["check-wheel-contents"]),
    "pydistcheck": ("pydistcheck==0.11.3", ["pydistcheck"]),
}
OWN = {
    "wheelfit check": ["wheelfit", "check", "-q"],
    "wheelfit check --binaries": ["wheelfit", "check", "-q", "--binaries"],
}


def commands(folder: Path) -> dict[str, list[str]]:
    """Return the tools by what they are called; others live in environments made once."""
    found = {}
    for name, (program, *arguments) in OWN.items():
        found[name] = [str(Path(sys.executable).parent / program), *arguments]
    for name, (requirement, (program, *arguments)) in OTHERS.items():
        programs = install(folder / requirement, requirement)
        found[name] = [str(programs / program), *arguments]
    return found


def run(
    command: list[str], wheels: list[Path]
) -> tuple[float, float, subprocess.CompletedProcess[str]]:
    """Run a tool, and return its seconds, those of the processor, and what it said."""
    begin, used = time.perf_counter(), processor_time()
    done = subprocess.run(
        [*command, *map(str, wheels)], capture_output=True, text=True, check=False
    )
    return time.perf_counter() - begin, processor_time() - used, done


def times(tools: dict[str, list[str]], wheels: list[Path], rounds: int) -> list[str]:
    """Let the tools take turns; return a table of medians and of ratios to the first tool."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in tools}
    for number in range(rounds):
        for name in in_turn(tools, number):
            seconds, cpu, _ = run(tools[name], wheels)
            taken[name].append((seconds, cpu))
            print(f"{name:<28} {seconds:7.2f} s {cpu:7.2f} s", file=sys.stderr)
    lines = ["| tool | seconds | of processor | ratio |", "|---|---:|---:|---:|"]
    first = next(iter(tools))
    for name, runs in taken.items():
        ratio = statistics.median(a[1] / b[1] for a, b in zip(runs, taken[first], strict=True))
        wall, cpu = (statistics.median(column) for column in zip(*runs, strict=True))
        lines.append(f"| {name} | {wall:.2f} | {cpu:.2f} | {ratio:.2f} |")
    return lines


def found(tools: dict[str, list[str]], folder: Path) -> list[str]:
    """Show each kind of broken wheel to each tool; return a table of what they find."""
    sound = build_wheel(folder / "sound", "fast", "1.0")
    usual = {name: run(command, [sound])[2].returncode for name, command in tools.items()}
    lines = [f"| broken | {' | '.join(tools)} |", "|---|" + ":-:|" * len(tools)]
    for number, (kind, (code, spoil)) in enumerate(BROKEN.items()):
        place = folder / str(number)
        place.mkdir()
        spoil(place)
        cells = []
        for name, command in tools.items():
            done = run(command, sorted(place.glob("*.whl")))[2]
            if name in OWN:
                done = run([part for part in command if part != "-q"] + ["--full"], [place])[2]
            hit = code in done.stdout if name in OWN else done.returncode != usual[name]
            cells.append("yes" if hit else "")
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Measure, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    wheels = sorted(arguments.folder.glob("*.whl"))
    tools = commands(kept_folder())
    size = sum(path.stat().st_size for path in wheels)
    print(f"{len(wheels)} wheels with {size / 1e6:.0f} MB\n")
    print("\n".join(times(tools, wheels, arguments.rounds)))
    with tempfile.TemporaryDirectory() as folder:
        print("\n" + "\n".join(found(tools, Path(folder))))


if __name__ == "__main__":
    main()
