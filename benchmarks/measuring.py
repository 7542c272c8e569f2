"""What several benchmarks need: environments of tools, the order of turns, meters, and plots."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

CHECKOUT = Path(__file__).resolve().parent.parent
OWN = (str(CHECKOUT / "runtime"), str(CHECKOUT))
"""The requirements for the wheelfit of this checkout."""
Item = TypeVar("Item")


def install(folder: Path, *requirements: str) -> Path:
    """Return the programs of an environment with packages, which is made if it is not there."""
    programs = folder / "bin"
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [str(programs / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, *requirements], check=True)
        (folder / "complete").touch()
    return programs


def new_environment(template: Path, place: Path) -> Path:
    """Copy an environment without packages, which is made if it is not there; return the copy."""
    if not template.exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", template], check=True)
    return Path(shutil.copytree(template, place, symlinks=True))


def plain_environ() -> dict[str, str]:
    """Return the environment variables without proxies and without configuration of the user."""
    kept = {name: text for name, text in os.environ.items() if not name.lower().endswith("_proxy")}
    kept.pop("VIRTUAL_ENV", None)
    kept |= {"PIP_CONFIG_FILE": os.devnull, "WHEELFIT_CONFIG_FILE": os.devnull}
    return {**kept, "UV_NO_CONFIG": "1", "NO_COLOR": "1"}


def in_turn(items: Iterable[Item], number: int) -> list[Item]:
    """Return items in the order of a round, of which each begins with another item."""
    everything = list(items)
    first = number % len(everything)
    return everything[first:] + everything[:first]


def processor_time() -> float:
    """Return the seconds of processor time that children took, of those that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def peak_memory(process: int) -> int:
    """Return the bytes of memory that a process had at most; 0 when it is over."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM")), 0)


def pyplot(font: int = 9) -> Any:
    """Return matplotlib's interface for plots; the same figures give the same bytes."""
    import matplotlib as mpl

    mpl.use("svg")
    settings = {"svg.hashsalt": "wheelfit", "svg.fonttype": "none", "path.simplify": True}
    mpl.rcParams.update({**settings, "font.size": font})
    from matplotlib import pyplot as plt

    return plt


def save(figure: Any, path: Path) -> None:
    """Write a plot as SVG."""
    figure.tight_layout()
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
