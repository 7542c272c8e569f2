"""Say which installed variants do not fit any more, after a driver or a GPU was changed.

Looks at what installed variants need and what the machine supports now, at packages that do not
go together, and at needs that are not met. Drivers are asked anew. Nothing is changed, and no
network is used; wheelfit install --refit exchanges what does not fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.environment import ENVIRONMENT
from wheelfit.cli.options.table.installing import CHECK_ENV
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.variants import AGREEMENT_SETTINGS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output

MISFIT = 13
"""The exit code where something does not fit; `doctor` has the same for packages."""


OPTIONS = (CHECK_ENV, ENVIRONMENT, MACHINE, AGREEMENT_SETTINGS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Judge what is installed, and show what was found."""
    from wheelfit.cli.render.fitness import show_fitness
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.check_environment import check_environment
    from wheelfit.operations.context import Context
    from wheelfit.operations.findings import ExaminationRequest, faults_among

    request = request_of(ExaminationRequest, arguments)
    report = check_environment(request, Context(environ, output))
    show_fitness(report, output)
    return MISFIT if faults_among(report.findings, strict=arguments.strict) else 0
