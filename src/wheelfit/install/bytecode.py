"""Compile staged modules, without any code of the environment running."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from wheelfit.install.conflicts import scheme_folders

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wheelfit.install.environment import Environment

__all__ = ["compile_modules"]


def __dir__() -> list[str]:
    return __all__


def compile_modules(environment: Environment, stages: Mapping[str, Path], name: str) -> None:
    """Write bytecode beside the modules of a stage; modules that do not compile are skipped.

    The interpreter of the environment does it, since bytecode belongs to one version. It
    runs without the environment's ``site-packages`` (``-S``), where start-up files may lie.

    :param stages: staged folder by scheme.
    :param name: name of the distribution.
    """
    finals = scheme_folders(environment.runtime.folders(), name)
    for scheme in ("purelib", "platlib"):
        if scheme not in stages:
            continue
        subprocess.run(
            [
                str(environment.interpreter.executable),
                *("-I", "-S", "-m", "compileall", "-q"),
                # Tracebacks shall name the final place.
                *("-s", str(stages[scheme]), "-p", str(finals[scheme])),
                str(stages[scheme]),
            ],
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
