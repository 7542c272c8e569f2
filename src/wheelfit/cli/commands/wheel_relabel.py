"""Call variant wheels by another label; their properties stay.

A document of an old layout is written as the current one has it. The old wheel stays, unless it has
the same name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.typed import given
from wheelfit.cli.wheel_work import add_wheels, add_writing

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_wheels(parser)
    parser.add_argument(
        "--label",
        type=given,
        metavar="LABEL",
        help="the new label (default: derived from the properties of each)",
    )
    add_writing(parser)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Write the wheels; 9 if some could not be written and --keep-going was given."""
    from wheelfit.build.wheel_jobs import Relabel
    from wheelfit.cli.wheel_work import carry_out, find_wheels
    from wheelfit.core.labels import parse_label

    act = Relabel(None if arguments.label is None else parse_label(arguments.label))
    work = [(wheel, act) for wheel in find_wheels(arguments.wheels)]
    return carry_out(work, arguments, output, environ)
