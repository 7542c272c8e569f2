"""Yank files of a live index: installers take them only where a version is pinned exactly."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from wheelfit.cli.index_places import add_place, add_what, open_administration, tell_files

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_what(parser)
    parser.add_argument("--reason", default="", metavar="TEXT", help="why, which installers show")
    add_place(parser)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Yank."""
    with closing(open_administration(arguments, environ)) as acts:
        tell_files(acts.yank(arguments.what, arguments.reason), output)
    return 0
