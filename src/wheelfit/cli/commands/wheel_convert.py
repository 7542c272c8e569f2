"""Write the current layout into variant wheels of old ones.

Wheels that are plain or have the current layout are left alone; with --output they are copied, so
that everything is there. The null variant gets its name of today. Index files are not looked at:
`wheelfit index generate` writes them anew, and `wheelfit index convert` converts a whole index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.wheels import CONVERT, RESULTS, WHEELS
from wheelfit.cli.options.table.workers import WORKERS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (WHEELS, CONVERT, RESULTS, WORKERS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Write the wheels; 9 if some could not be written, 32 if something was lost with consent."""
    from wheelfit.cli.commands.index_convert import LOSSES
    from wheelfit.cli.render.wheels import show_rewrite
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.wheels import ConvertRequest, convert

    report = convert(request_of(ConvertRequest, arguments), Context(environ, output))
    return show_rewrite(report, output) or (LOSSES if report.lost else 0)
