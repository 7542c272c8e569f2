"""Write the current layout into variant wheels of old ones.

Wheels that are plain or have the current layout are left alone; with --output they are copied, so
that everything is there. The null variant gets its name of today. Index files are not looked at:
`wheelfit index generate` writes them anew, and `wheelfit index convert` converts a whole index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.wheels import CONVERT, RESULTS, WHEELS
from wheelfit.cli.options.table.workers import WORKERS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence

    from wheelfit.build.wheel_jobs import Done
    from wheelfit.cli.output import Output


OPTIONS = (WHEELS, CONVERT, RESULTS, WORKERS)


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
