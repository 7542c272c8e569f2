"""Find out what is wrong here, and what to do about it.

Looks at the machine with all its probes, at environment variables and tools, and at everything
that is installed: whether it fits the machine, and whether it goes together. --runtime looks at a
running process instead. Nothing that is installed is imported, and without --repair nothing is
changed and no network is used. The report is made to be sent: host names, serial numbers and
credentials are left out.

It reports packages that wheelfit itself depends on and that are missing, damaged or of an
unsuitable version; --repair installs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.checking import DOCTOR
from wheelfit.cli.options.table.environment import ENVIRONMENT
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.variants import AGREEMENT_SETTINGS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output

EXIT_CODES = {"machine": 11, "settings": 12, "packages": 13, "process": 14}
"""The exit code of a fault in each area; with several, the first one counts."""


OPTIONS = (DOCTOR, ENVIRONMENT, MACHINE, AGREEMENT_SETTINGS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Examine, show the findings, and return the exit code of the first area with a fault."""
    from wheelfit.cli.render.diagnosis import show_diagnosis
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.doctor import DoctorRequest, diagnose

    found = diagnose(request_of(DoctorRequest, arguments), Context(environ, output))
    show_diagnosis(found, output)
    areas = found.faulty_areas(strict=arguments.strict)
    return min((EXIT_CODES[area] for area in areas), default=0)
