"""Reinstallation of wheelfit's requirements, with an installer that does not depend on it."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from wheelfit.doctor.own_requirements import unmet_requirements
from wheelfit.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wheelfit.doctor.own_requirements import UnmetRequirement

_ROUNDS = 10
"""A package that was missing brings requirements of its own, and these others."""
_SHOWN = 4000
"""Characters shown of the end of an installer's output."""


def install_command(unmet: Sequence[UnmetRequirement], uv: str | None) -> list[str]:
    """Return the command that installs the unmet requirements, and nothing else.

    :param uv: path of the uv to run; None: the command is that of this environment's pip.
    """
    wanted = list(dict.fromkeys(requirement.remedy for requirement in unmet))
    options = ["--no-deps", "--force-reinstall", "--", *wanted]
    if uv is not None:
        return [uv, "pip", "install", "--python", sys.executable, *options]
    # Not -I, which takes the user's own packages away; -P: no pip.py of the current folder.
    return [sys.executable, "-P", "-m", "pip", "install", *options]


def _has_pip() -> bool:
    command = [sys.executable, "-P", "-m", "pip", "--version"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def repair(
    unmet: Sequence[UnmetRequirement], environ: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """Install the unmet requirements, and their own in turn.

    The installer is pip where this environment has it, else uv where ``PATH`` has it, else the pip
    that Python brings along.

    :raises InternalError: ``broken-installation``; it cannot be repaired; the installer's output is
        in the note.
    """
    uv = None
    if not _has_pip():
        uv = shutil.which("uv", path=environ.get("PATH", os.defpath))
        if uv is None:
            say(f"running {sys.executable} -m ensurepip")
            _run([sys.executable, "-P", "-m", "ensurepip"], environ)
    for _ in range(_ROUNDS):
        command = install_command(unmet, uv)
        say(f"running {' '.join(command)}")
        _run(command, environ)
        importlib.invalidate_caches()
        before, unmet = unmet, unmet_requirements(files=True)
        if not unmet:
            return
        if unmet == before:
            break
    raise InternalError(
        f"the installer ran, but the fault remains: {unmet[0]}",
        code="broken-installation",
        hint="reinstall wheelfit into an environment of its own",
    )


def _run(command: list[str], environ: Mapping[str, str]) -> None:
    done = subprocess.run(
        command,
        env=dict(environ),
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    if done.returncode:
        raise InternalError(
            f"the repair failed: {' '.join(command[:6])} ended with status {done.returncode}",
            code="broken-installation",
            note=done.stdout.strip()[-_SHOWN:] or None,
            hint="correct what it says, or reinstall wheelfit into an environment of its own",
        )
