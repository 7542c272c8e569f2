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
    from wheelfit.cli.render.wheels import show_rewrite
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.wheels import RelabelRequest, relabel

    report = relabel(request_of(RelabelRequest, arguments), Context(environ, output))
    return show_rewrite(report, output)
