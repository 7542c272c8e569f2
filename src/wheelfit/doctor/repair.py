"""Reinstallation of wheelfit's requirements by pip or uv, which do not depend on them."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from wheelfit.doctor.own_requirements import UnmetRequirement, unmet_requirements
from wheelfit.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


_MAX_ROUNDS = 10
"""Rounds of installation; an installed package may have unmet requirements of its own."""
_MAX_OUTPUT = 4000
"""Characters shown of the end of an installer's output."""


def install_command(unmet: Sequence[UnmetRequirement], uv: str | None) -> list[str]:
    """Return the command that installs the unmet requirements, and nothing else.

    :param uv: the path of uv; None: the command runs pip of this environment.
    """
    requirements = list(dict.fromkeys(requirement.to_install for requirement in unmet))
    options = ["--no-deps", "--force-reinstall", "--", *requirements]
    if uv is not None:
        return [uv, "pip", "install", "--python", sys.executable, *options]
    # -P prevents a pip.py in the current folder; -I would hide packages of the user site as well.
    return [sys.executable, "-P", "-m", "pip", "install", *options]


def _has_pip(environ: Mapping[str, str]) -> bool:
    command = [sys.executable, "-P", "-m", "pip", "--version"]
    done = subprocess.run(command, capture_output=True, check=False, env=dict(environ))
    return done.returncode == 0


def repair(
    unmet: Sequence[UnmetRequirement], environ: Mapping[str, str], report: Callable[[str], None]
) -> None:
    """Install the unmet requirements, and repeat with those that the installed packages reveal.

    The installer is the pip of this environment, else the uv in ``PATH``, else pip as installed by
    `ensurepip`.

    :param report: called with each command before it runs.
    :raises InternalError: ``broken-installation``: the repair failed; the note has the output of
        the installer.
    """
    uv = None
    if not _has_pip(environ):
        uv = shutil.which("uv", path=environ.get("PATH", os.defpath))
        if uv is None:
            report(f"running {sys.executable} -m ensurepip")
            _run([sys.executable, "-P", "-m", "ensurepip"], environ)
    for _ in range(_MAX_ROUNDS):
        command = install_command(unmet, uv)
        report(f"running {' '.join(command)}")
        _run(command, environ)
        importlib.invalidate_caches()
        previous, unmet = unmet, unmet_requirements(files=True)
        if not unmet:
            return
        if unmet == previous:
            break
    raise InternalError(
        f"the installer ran, but the fault remains: {unmet[0]}",
        code="broken-installation",
        hint="reinstall wheelfit into an environment of its own",
    )


def _run(command: list[str], environ: Mapping[str, str]) -> None:
    process = subprocess.run(
        command,
        env=dict(environ),
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    if process.returncode:
        raise InternalError(
            f"the repair failed: {' '.join(command[:6])} ended with status {process.returncode}",
            code="broken-installation",
            note=process.stdout.strip()[-_MAX_OUTPUT:] or None,
            hint="fix the error that the installer reports, or reinstall wheelfit into an "
            "environment of its own",
        )
