"""Yank files of a live index: installers take them only where a version is pinned exactly."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from wheelfit.cli.index_places import open_administration, tell_files
from wheelfit.cli.options.table.indexes import FILES_OF_INDEX, PLACE, STORE, YANK

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (FILES_OF_INDEX, YANK, PLACE, STORE)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Yank."""
    with closing(open_administration(arguments, environ)) as acts:
        tell_files(acts.yank(arguments.what, arguments.reason), output)
    return 0
