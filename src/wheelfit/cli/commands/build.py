"""Build wheels of a project, as variants and plain, with whatever build backend it has.

What the variants are stands in the [variant] table of its pyproject.toml. A backend that knows
variants is asked for them; of any other one a plain wheel is built and converted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.building import BUILD, BUILD_WAYS, BUILT_MATRIX, BUILT_WHEELS
from wheelfit.cli.options.table.environment import INTERPRETER
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.requirements import DEPENDENCY_GROUPS, REQUIREMENTS, SOURCE_BUILDS
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.variants import VARIANTS
from wheelfit.cli.options.table.workers import WORKERS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (
    BUILD,
    BUILT_WHEELS,
    BUILD_WAYS,
    BUILT_MATRIX,
    WORKERS,
    INTERPRETER,
    SOURCES,
    *(
        group.off_command_line()
        for group in (REQUIREMENTS, SOURCE_BUILDS, DEPENDENCY_GROUPS, MACHINE, VARIANTS)
    ),
)
"""The groups off the command line are for settings: a build environment needs few wheels, and those
as they are."""


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Build the wheels; 9 if some jobs of several failed."""
    from wheelfit.cli.render.builds import show_build
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.build import build
    from wheelfit.operations.build_request import BuildRequest
    from wheelfit.operations.context import Context

    return show_build(build(request_of(BuildRequest, arguments), Context(environ, output)), output)
