"""Programs of Python in processes of their own, without settings of whoever runs the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from programs import run_program

import wheelfit_runtime

RUNTIME_SOURCE = Path(wheelfit_runtime.__file__).parents[1]
"""The folder from which `wheelfit_runtime` is imported."""


def plain_environ(*further: str) -> dict[str, str]:
    """Return the environment without what decides for Python or for wheelfit.

    :param further: how other variables begin that are left out.
    """
    left_out = ("WHEELFIT_", "PYTHON", *further)
    return {name: text for name, text in os.environ.items() if not name.startswith(left_out)}


def run_python(
    *words: object,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    python: str | Path = sys.executable,
    deadline: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run Python, and return how it ended and what it printed.

    :param environ: the whole environment; None: that of the tests.
    :param deadline: seconds after which it is killed, and the test fails.
    """
    return run_program(python, *words, code=None, env=environ, cwd=cwd, timeout=deadline)


def printed_by(
    *words: object,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    python: str | Path = sys.executable,
    deadline: float = 120,
) -> str:
    """Run Python, which has to end well, and return what it printed."""
    return run_program(python, *words, env=environ, cwd=cwd, timeout=deadline).stdout
