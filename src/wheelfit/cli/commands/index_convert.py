"""Write an index of an old layout anew in the current one.

Every -variants.json of SOURCE, whatever published layout it has, is written as the current layout
has it, and new pages list it beside the same files. What lies on this machine is copied along; what
lies elsewhere stays where it is. Wheels are never changed, unless --rewrite-wheels is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.indexes import CONVERT_INDEX
from wheelfit.cli.options.table.sources import SOURCES

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output

LOSSES = 32
"""The exit code when something was lost, with consent (F-56)."""


OPTIONS = (CONVERT_INDEX, SOURCES)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Convert the index; 9 if something was left out, 32 if something was lost with consent."""
    from wheelfit.cli.render.check import FAULTS
    from wheelfit.cli.render.index_convert import show_converted_index
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.convert_index import ConvertIndexRequest, convert_index

    report = convert_index(request_of(ConvertIndexRequest, arguments), Context(environ, output))
    show_converted_index(report, output)
    if report.generated.refused:
        return FAULTS
    return LOSSES if report.lost else 0
