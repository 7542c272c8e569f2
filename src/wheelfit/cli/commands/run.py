"""Run a command whose pip, uv or pdm gets the right variants.

A proxy is started on this machine, for this command only, in front of the indexes that are
configured; variables tell pip, uv and pdm of it. Projects with variants come from there, each
in the build that fits; all others come from where they always do.

Everything after -- is the command: wheelfit run -- uv pip install torch
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.environment import INTERPRETER
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.proxying import PROXIED, RUN
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.variants import VARIANTS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (RUN, PROXIED, INTERPRETER, SOURCES, MACHINE, VARIANTS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Run the command; its exit code is that of this one."""
    from wheelfit.cli.requests import request_of
    from wheelfit.errors import UsageError
    from wheelfit.operations.context import Context
    from wheelfit.operations.run import RunRequest
    from wheelfit.operations.run import run as run_command

    if arguments.command and output.json:
        raise UsageError("--json cannot be used here: what is printed is the command's")
    return run_command(request_of(RunRequest, arguments), Context(environ, output))
