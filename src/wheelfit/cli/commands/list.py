"""Show what is installed in an environment, with the label of each variant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.environment import ENVIRONMENT
from wheelfit.cli.options.table.installing import LIST

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (LIST, ENVIRONMENT)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """List what is installed."""
    from wheelfit.cli.render.installed import show_installed
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.installed import ListRequest, list_installed

    request = request_of(ListRequest, arguments)
    show_installed(list_installed(request, Context(environ, output)), output)
    return 0
