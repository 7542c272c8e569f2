"""Take back that files of a live index were yanked."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from wheelfit.cli.index_places import open_administration, tell_files
from wheelfit.cli.options.table.indexes import FILES_OF_INDEX, PLACE, STORE

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (FILES_OF_INDEX, PLACE, STORE)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Take it back."""
    with closing(open_administration(arguments, environ)) as acts:
        tell_files(acts.yank(arguments.what, None), output)
    return 0
