"""Delete files of a live index for ever: no file of these names can be uploaded again.

To keep installers from a release, yank it instead; whoever has it in a lock still gets it then.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from wheelfit.cli.index_places import open_administration, tell_files
from wheelfit.cli.options.table.indexes import DELETE, FILES_OF_INDEX, PLACE, STORE

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (FILES_OF_INDEX, DELETE, PLACE, STORE)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Delete."""
    from wheelfit.errors import NoConsent

    if not arguments.yes:
        raise NoConsent(
            "what is deleted is gone, and its names never come back",
            hint="--yes deletes; wheelfit index yank keeps installers from it as well",
        )
    with closing(open_administration(arguments, environ)) as acts:
        tell_files(acts.delete(arguments.what), output)
    return 0
