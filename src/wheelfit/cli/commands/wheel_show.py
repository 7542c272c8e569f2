"""Show what wheels say of themselves: label, properties, providers, sizes and markers.

A WHEEL is a file, a folder of them, or a URL, of which a few ranges of bytes are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.wheels import SHOW

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (SHOW, SOURCES)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Show the wheels."""
    from wheelfit.cli.render.wheel_contents import (
        show_dependencies,
        show_metadata,
        show_wheels,
    )
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.show import ShowRequest, show

    report = show(request_of(ShowRequest, arguments), Context(environ, output))
    if arguments.metadata:
        show_metadata(report, output)
    elif arguments.dependencies:
        show_dependencies(report, output)
    else:
        show_wheels(report, output)
    return 0
