"""Take back that files of a live index were yanked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.indexes import FILES_OF_INDEX, PLACE, STORE

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (FILES_OF_INDEX, PLACE, STORE)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Restore and show the files."""
    from wheelfit.cli.render.live_index import show_files
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.index_files import FilesRequest, unyank

    show_files(unyank(request_of(FilesRequest, arguments), Context(environ, output)), output)
    return 0
