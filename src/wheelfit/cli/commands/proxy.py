"""Serve an index from which any installer takes the variant that fits.

The proxy stands in front of the indexes that are configured. It lists variants under names that
installers understand, each in the build that fits this machine, or the one that the URL names:
/simple/ is for this machine, /for/cuda-12.8-sm90/simple/ for another one. It runs until it is
interrupted.

By default it knows projects with variants only, and is named beside the usual index. Whoever sets
WHEELFIT_PROXY_SECRET has a secret in the path, before everything else.

To listen at another address than one of this machine it needs the extra `server`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.environment import INTERPRETER
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.proxying import PROXIED, PROXY
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.variants import VARIANTS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output
    from wheelfit.operations.proxy import ServedProxy


OPTIONS = (PROXY, PROXIED, INTERPRETER, SOURCES, MACHINE, VARIANTS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Serve until interrupted."""
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.proxy import ProxyRequest, proxy

    proxy(
        request_of(ProxyRequest, arguments),
        Context(environ, output),
        started=lambda served: _show_served(served, output),
    )
    output.say("stopped", "dim")
    return 0


def _show_served(report: ServedProxy, output: Output) -> None:
    """Print the URL of a proxy."""
    output.result_json(report.to_json())
    output.result(report.index_url)
    output.flush()
    output.say(f"for another machine: {report.base}/for/PRESET/simple/", "dim")
