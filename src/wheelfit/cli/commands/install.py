"""Install packages, each in the build that fits the machine.

What is installed already and will do is kept. Everything is checked before the environment is
touched; if anything fails, it is as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.environment import ATTESTATIONS, BOUNDS, CONSENT, ENVIRONMENT
from wheelfit.cli.options.table.installing import INSTALLATION, PIP_HABITS
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.requirements import DEPENDENCY_GROUPS, REQUIREMENTS, SOURCE_BUILDS
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.variants import VARIANTS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (
    REQUIREMENTS,
    DEPENDENCY_GROUPS,
    INSTALLATION,
    BOUNDS,
    SOURCE_BUILDS,
    CONSENT,
    ATTESTATIONS,
    ENVIRONMENT,
    SOURCES,
    MACHINE,
    VARIANTS,
    PIP_HABITS,
)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Install and show what changed."""
    from wheelfit.cli.render.changes import show_change
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.install import InstallRequest, install

    show_change(install(request_of(InstallRequest, arguments), Context(environ, output)), output)
    return 0
