"""Put an environment right whose change was interrupted, as by a power cut.

Every command that changes an environment does so first; this one does nothing else. What was
decided already is finished, anything else is undone. It also runs if packages that wheelfit
depends on are broken or missing, as that change may have broken them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.environment import ENVIRONMENT
from wheelfit.cli.options.table.installing import RECOVER

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (RECOVER, ENVIRONMENT)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Undo or finish what was interrupted."""
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.recover import RecoverRequest, recover

    report = recover(request_of(RecoverRequest, arguments), Context(environ, output))
    output.result_json(report.to_json())
    output.result("no change was interrupted" if report.found is None else str(report.found))
    for note in report.notes:
        output.note(f"note: {note}")
    return 0
