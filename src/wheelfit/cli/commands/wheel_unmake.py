"""Make plain wheels of variant wheels.

Label and variant.json go, and variant markers of dependencies are resolved as for any plain wheel:
what they ask about is not declared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.wheels import RESULTS, UNMAKE, WHEELS
from wheelfit.cli.options.table.workers import WORKERS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (WHEELS, UNMAKE, RESULTS, WORKERS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Write the wheels; 9 if some could not be written and --keep-going was given."""
    from wheelfit.build.wheel_jobs import Unmake
    from wheelfit.cli.wheel_work import carry_out, find_wheels

    act = Unmake(if_any=arguments.if_any)
    work = [(wheel, act) for wheel in find_wheels(arguments.wheels)]
    return carry_out(work, arguments, output, environ, copy_unchanged=True)
