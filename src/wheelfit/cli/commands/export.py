"""Write what a machine gets from a lock: as requirements, bill of materials or list of licences.

Each machine has an export of its own; several --for write several files, never one for all. Without
--for it is this machine, and the export says so. FORMAT is `requirements` (with hashes, for pip and
uv), `cyclonedx` (CycloneDX 1.6 in JSON) or `licenses` (a table; with --json as data).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options import (
    add_choice,
    add_environment,
    add_lock,
    add_machine,
    add_sources,
)
from wheelfit.cli.typed import given

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output

FORMATS = ("requirements", "cyclonedx", "licenses")


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_lock(parser)
    parser.add_argument("--format", choices=FORMATS, default="requirements", help="what to write")
    parser.add_argument(
        "-o",
        "--output",
        type=given,
        metavar="PLACE",
        help="write it here: a file, or a folder for one file of each machine",
    )
    parser.add_argument(
        "--wheels",
        type=given,
        metavar="DIR",
        help="with requirements: put copies of variant wheels here that pip and uv can install",
    )
    add_environment(parser)
    add_sources(parser)
    add_machine(parser, several=True)
    add_choice(parser)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Write an export for each machine."""
    from wheelfit.cli.exports import Exporting
    from wheelfit.cli.files import write_atomically

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
