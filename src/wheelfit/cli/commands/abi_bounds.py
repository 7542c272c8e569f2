"""Derive from symbols which releases of a library something works with.

The symbols that CONSUMER wants are looked for in each release of the library: from the first that
has all of them to the one that drops one, or calls itself otherwise. What comes out are values
of abi_dependency for the [variant] table, and a requirement. With abicompat and debug
information types are compared too; without them changes of types and layouts cannot be seen.

--against names the library: a project of an index, `torch>=2.5`, whose wheels are fetched one by
one; wheels and folders of them; or single libraries with their versions, `1.2=libfast.so`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.building import ABI_BOUNDS
from wheelfit.cli.options.table.sources import SOURCES

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (ABI_BOUNDS, SOURCES)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Derive the bounds; 3 if no release fits."""
    from wheelfit.cli.render.abi_bounds import show_bounds
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.abi_bounds import AbiBoundsRequest, abi_bounds
    from wheelfit.operations.context import Context

    request = request_of(AbiBoundsRequest, arguments)
    show_bounds(abi_bounds(request, Context(environ, output)), output)
    return 0
