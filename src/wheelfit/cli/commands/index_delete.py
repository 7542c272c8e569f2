"""Delete files of a live index for ever: no file of these names can be uploaded again.

To keep installers from a release, yank it instead; whoever has it in a lock still gets it then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.indexes import DELETE, FILES_OF_INDEX, PLACE, STORE

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (FILES_OF_INDEX, DELETE, PLACE, STORE)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Delete and show the files."""
    from wheelfit.cli.render.live_index import show_files
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.index_files import DeleteRequest, delete

    show_files(delete(request_of(DeleteRequest, arguments), Context(environ, output)), output)
    return 0
