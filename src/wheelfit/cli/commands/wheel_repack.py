"""Edit name, version and dependencies of wheels, and make variants of them.

A SOURCE is a wheel, a folder of wheels, or a release of an index: `torch==2.10.0` means all its
wheels, which are fetched. What is edited say options, or a file (--config) of our own shape or of
variant-repack's, whose parts have names. Everything else stays as it is, byte by byte: METADATA is
edited line by line, dependencies are found by their exact names, and top-level packages are never
renamed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.wheels import DOCUMENT, EDITS, REPACK, RESOLVING, RESULTS, VARIANT
from wheelfit.cli.options.table.workers import WORKERS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (REPACK, EDITS, VARIANT, DOCUMENT, RESOLVING, RESULTS, WORKERS, SOURCES)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Write the wheels; 9 if some could not be written and --keep-going was given."""
    from wheelfit.cli.render.wheels import show_rewrite
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.repack import RepackRequest, repack

    report = repack(request_of(RepackRequest, arguments), Context(environ, output))
    return show_rewrite(report, output)
