"""See it all work, without touching anything of yours.

Takes a real wheel from the package registry (numpy), makes a variant of it for every level of this
kind of processor, serves them from a small index on this machine, explains the choice for this
machine and three simulated ones, installs into a throw-away environment, imports the result, and
cleans up. Without a network it uses a wheel it builds itself, and says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.sources import SOURCES

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output

OPTIONS = (SOURCES,)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Demonstrate."""
    from wheelfit.cli.render.demo import show_step
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.demo import DemoReport, DemoRequest, demonstrate

    for one in demonstrate(request_of(DemoRequest, arguments), Context(environ, output)):
        if isinstance(one, DemoReport):
            output.result_json(one.to_json())
        elif not output.json:
            show_step(one, output)
    return 0
