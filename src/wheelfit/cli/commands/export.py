"""Write what a machine gets from a lock: as requirements, bill of materials or list of licences.

Each machine has an export of its own; several --for write several files, never one for all. Without
--for it is this machine, and the export says so. FORMAT is `requirements` (with hashes, for pip and
uv), `cyclonedx` (CycloneDX 1.6 in JSON) or `licenses` (a table; with --json as data).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.environment import ENVIRONMENT
from wheelfit.cli.options.table.locking import EXPORT
from wheelfit.cli.options.table.machine import MACHINES
from wheelfit.cli.options.table.requirements import LOCK_FILE
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.variants import VARIANTS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (LOCK_FILE, EXPORT, ENVIRONMENT, SOURCES, MACHINES, VARIANTS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Write an export for each machine."""
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.export import ExportRequest, export, several_in_one_file

    request = request_of(ExportRequest, arguments)
    if len(request.hosts) > 1 and request.output is None and not output.json:
        raise several_in_one_file(None)
    report = export(request, Context(environ, output))
    for one in report.exports:
        if one.path is not None:
            output.say(f"{one.contents.target.name}: {one.path}")
    output.result_json(report.to_json())
    for one in report.exports:
        if one.path is None:
            for line in one.text.removesuffix("\n").split("\n"):
                output.result(line)
    return 0
