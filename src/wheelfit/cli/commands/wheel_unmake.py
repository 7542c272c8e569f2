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
    from wheelfit.cli.render.wheels import show_rewrite
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.wheels import UnmakeRequest, unmake

    report = unmake(request_of(UnmakeRequest, arguments), Context(environ, output))
    return show_rewrite(report, output)
