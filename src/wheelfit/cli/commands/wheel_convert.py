"""Write the current layout into variant wheels of old ones.

Wheels that are plain or have the current layout are left alone; with --output they are copied, so
that everything is there. The null variant gets its name of today. Index files are not looked at:
`wheelfit index generate` writes them anew, and `wheelfit index convert` converts a whole index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.wheel_work import add_wheels, add_writing

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping, Sequence

    from wheelfit.build.wheel_jobs import Done
    from wheelfit.cli.output import Output


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_wheels(parser)
    parser.add_argument(
        "--accept-losses",
        action="store_true",
        help="let go what the current layout cannot say",
    )
    add_writing(parser)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Write the wheels; 9 if some could not be written, 32 if something was lost with consent."""
    from wheelfit.build.wheel_jobs import Convert
    from wheelfit.cli.commands.index_convert import LOSSES
    from wheelfit.cli.wheel_work import carry_out, find_wheels

    act = Convert(accept_losses=arguments.accept_losses)
    work = [(wheel, act) for wheel in find_wheels(arguments.wheels)]
    lost: list[str] = []

    def remember(done: Sequence[Done]) -> Mapping[str, object]:
        lost.extend(text for one in done for text in one.lost)
        return {"lost": lost}

    code = carry_out(work, arguments, output, environ, copy_unchanged=True, more=remember)
    return code or (LOSSES if lost else 0)
