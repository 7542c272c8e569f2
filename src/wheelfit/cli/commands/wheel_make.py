"""Make variant wheels of wheels that exist.

A plain wheel becomes a variant wheel; of a variant wheel label and document are replaced. The
variant is said by --property and --label, by --label alone where the table of a project or a
document lists it, or by --null. What is in the wheel is copied as it is: only variant.json and
RECORD are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.wheels import (
    DOCUMENT,
    FROM_BINARY,
    RESOLVING,
    RESULTS,
    VARIANT,
    WHEELS,
)
from wheelfit.cli.options.table.workers import WORKERS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (WHEELS, VARIANT, FROM_BINARY, DOCUMENT, RESOLVING, RESULTS, WORKERS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Make the wheels; 9 if some could not be made and --keep-going was given."""
    from wheelfit.cli.render.wheels import show_rewrite
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.wheels import MakeVariantRequest, make_variant

    report = make_variant(request_of(MakeVariantRequest, arguments), Context(environ, output))
    return show_rewrite(report, output)
