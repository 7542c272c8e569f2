"""Show what the binaries in wheels are made for.

For each library: machine, GPUs (code in CUDA fat binaries, PTX), the libraries it needs and in
which versions, and the x86-64 level that the loader asks for; and which properties the wheel may
claim by that. What a binary does not say is left out, what cannot be read is called unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.wheels import INSPECT

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (INSPECT,)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Show each wheel."""
    from wheelfit.cli.render.wheel_contents import show_inspected
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.inspection import InspectReport, InspectRequest, inspect

    files = []
    for file in inspect(request_of(InspectRequest, arguments), Context(environ, output)):
        show_inspected(file, output)
        files.append(file)
    output.result_json(InspectReport(tuple(files)).to_json())
    return 0
