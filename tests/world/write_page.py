"""Write the page of what each machine gets, with pip and uv beside.

``PYTHONPATH=tests python -m world.write_page``; pip and uv really look at the same registries, on
loopback, and uv is installed for that. What comes before the first section stays.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from programs import run_program
from world.internet import World
from world.table import MACHINES, Cell, fill, packages

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "packages-on-machines.md"
UV = "uv==0.13.8"
_PLATFORMS = {
    "rtx5090-windows": ("x86_64-pc-windows-msvc", "win_amd64"),
    "mac-m3": ("aarch64-apple-darwin", "macosx_14_0_arm64"),
}
_LINUX = "x86_64-manylinux_2_28"
_DETECTED = {
    "h100-580": {"UV_CUDA_DRIVER_VERSION": "580.65.06"},
    "v100-535": {"UV_CUDA_DRIVER_VERSION": "535.104.05"},
    "rtx5090-windows": {"UV_CUDA_DRIVER_VERSION": "580.88"},
    "mi300x-rocm7": {"UV_AMD_GPU_ARCHITECTURE": "gfx942"},
    "mac-m3": {"MACOSX_DEPLOYMENT_TARGET": "14.0"},
}
"""What uv would find on the machines."""


def answer(cell: Cell) -> str:
    """Return what the page says of a cell."""
    how = f" with `{' '.join(cell.options)}`" if cell.options else ""
    if cell.refused:
        return f"refused{how}: {cell.refused}"
    warning = f"; *{cell.warns}*" if cell.warns else ""
    return f"{', '.join(cell.install)}{how}{warning}"


def _peers(cell: Cell, world: World, uv: Path) -> tuple[str, str]:
    """Return what pip and uv would install for a cell."""
    target = str(world.folder / "target")
    long, short = _PLATFORMS.get(cell.machine, (_LINUX, ""))
    elsewhere = ["--no-deps", "--platform", short] if short else []
    result = _run(
        world,
        [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"],
        ["--only-binary", ":all:", "--target", target, "--report", "-", *elsewhere, *cell.ask],
    )
    found = json.loads(result)["install"] if result else []
    by_pip = [f"{one['metadata']['name']} {one['metadata']['version']}" for one in found]
    result = _run(
        world,
        [
            str(uv),
            "pip",
            "install",
            "--dry-run",
            "--torch-backend=auto",
            "--no-build",
            "--no-cache",
        ],
        ["--python", sys.executable, "--target", target, "--python-platform", long, *cell.ask],
        cell.machine,
    )
    lines = [line.strip() for line in result.splitlines()]
    by_uv = [line[2:].replace("==", " ") for line in lines if line.startswith("+ ")]
    otherwise = "builds" if any(map(world.registry.has_source, cell.ask)) else "–"
    return ", ".join(sorted(by_pip)) or otherwise, ", ".join(sorted(by_uv)) or otherwise


def _run(world: World, words: Sequence[str], more: Sequence[str], machine: str = "") -> str:
    """Return what a program says; empty if it fails."""
    environ = {**world.environ(), **_DETECTED.get(machine, {})}
    completed = run_program(*words, *more, code=None, env=environ, cwd=world.folder)
    return (
        completed.stdout + completed.stderr * ("pip" in words[1:2])
        if completed.returncode == 0
        else ""
    )


def lines(peers: Mapping[Cell, tuple[str, str]]) -> Iterator[str]:
    """Yield the lines of the page.

    :param peers: what pip and uv would install, by cell.
    """
    yield PAGE.read_text(encoding="utf-8").partition("\n## ")[0].rstrip() + "\n"
    for package in packages():
        yield f"## `{' '.join(package.ask)}`\n"
        yield "| machine | wheelfit | pip | uv |"
        yield "|---|---|---|---|"
        for cell in package.cells:
            yield f"{row(cell)} {' | '.join(peers[cell])} |"
        yield ""


def row(cell: Cell) -> str:
    """Return the begin of a row: the machine, and what wheelfit does."""
    return f"| {MACHINES[cell.machine]} | {answer(cell)} |"


def main() -> None:
    """Write the page."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv = folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        pip = [sys.executable, "-m", "pip", "--python", str(venv), "install", "--quiet", UV]
        subprocess.run(pip, check=True)
        uv = venv / ("Scripts" if os.name == "nt" else "bin") / "uv"
        world = World(folder / "world")
        fill(world)
        cells = [cell for package in packages() for cell in package.cells]
        with world.net, ThreadPoolExecutor(4) as pool:
            found = pool.map(lambda cell: _peers(cell, world, uv), cells)
            text = "\n".join(lines(dict(zip(cells, found, strict=True))))
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
