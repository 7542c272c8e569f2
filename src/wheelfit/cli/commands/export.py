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

FORMATS = ("requirements", "cyclonedx", "licenses")


OPTIONS = (LOCK_FILE, EXPORT, ENVIRONMENT, SOURCES, MACHINES, VARIANTS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Write an export for each machine."""
    from wheelfit.cli.exports import Exporting
    from wheelfit.operations.files import write_atomically

    with Exporting(arguments, environ, output).exports() as exports:
        for export in exports:
            if export.path is not None:
                write_atomically(export.path, export.text.encode())
    for export in exports:
        if export.path is not None:
            output.say(f"{export.contents.target.name}: {export.path}")
    output.result_json(
        {
            "version": 1,
            "lock": arguments.lock,
            "format": arguments.format,
            "targets": [export.to_mapping() for export in exports],
        }
    )
    for export in exports:
        if export.path is None:
            for line in export.text.removesuffix("\n").split("\n"):
                output.result(line)
    return 0
