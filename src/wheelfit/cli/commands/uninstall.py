"""Remove packages from an environment; their dependencies stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.environment import ENVIRONMENT
from wheelfit.cli.options.table.installing import UNINSTALL

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (UNINSTALL, ENVIRONMENT)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Remove what was named."""
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.uninstall import UninstallRequest, uninstall

    report = uninstall(request_of(UninstallRequest, arguments), Context(environ, output))
    output.result_json(report.to_json())
    for note in report.uninstalled.notes:
        output.note(f"note: {note}")
    for one in report.uninstalled.breaks:
        output.warn(str(one))
    verb = "would remove" if report.dry_run else "removed"
    for entry in report.uninstalled.removed:
        output.result(f"{verb} {entry}")
    return 0
