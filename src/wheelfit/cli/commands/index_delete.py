"""Delete files of a live index for ever: no file of these names can be uploaded again.

To keep installers from a release, yank it instead; whoever has it in a lock still gets it then.
"""

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
    parser.add_argument("--yes", action="store_true", help="delete without being asked again")
    add_place(parser)


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
