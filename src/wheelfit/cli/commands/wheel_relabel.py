"""Call variant wheels by another label; their properties stay.

A document of an old layout is written as the current one has it. The old wheel stays, unless it has
the same name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.wheels import RELABEL, RESULTS, WHEELS
from wheelfit.cli.options.table.workers import WORKERS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (WHEELS, RELABEL, RESULTS, WORKERS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Write the wheels; 9 if some could not be written and --keep-going was given."""
    from wheelfit.build.wheel_jobs import Relabel
    from wheelfit.cli.wheel_work import carry_out, find_wheels
    from wheelfit.core.labels import parse_label

    act = Relabel(None if arguments.label is None else parse_label(arguments.label))
    work = [(wheel, act) for wheel in find_wheels(arguments.wheels)]
    return carry_out(work, arguments, output, environ)
