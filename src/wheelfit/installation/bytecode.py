"""Compile staged modules, without any code of the environment running."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from wheelfit.installation.environment import Environment


def compile_modules(environment: Environment, stage: Callable[[str], Path]) -> None:
    """Write bytecode beside the modules of a stage; modules that do not compile are skipped.

    The interpreter of the environment does it, since bytecode belongs to one version, in as
    many processes as there are processors. It runs without the environment's
    ``site-packages`` (``-S``), where start-up files may lie.

    :param stage: returns the staged folder of a scheme.
    """
    finals = environment.runtime.folders()
    # By folder: mostly there is one library.
    schemes = {str(stage(scheme)): scheme for scheme in ("platlib", "purelib")}
    for folder, scheme in schemes.items():
        subprocess.run(
            [
                str(environment.interpreter.executable),
                *("-I", "-S", "-m", "compileall", "-q", "-j", "0"),
                # Tracebacks shall name the final place.
                *("-s", folder, "-p", str(finals[scheme])),
                folder,
            ],
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
