"""Make variant wheels of wheels that exist.

A plain wheel becomes a variant wheel; of a variant wheel label and document are replaced. The
variant is said by --property and --label, by --label alone where the table of a project or a
document lists it, or by --null. What is in the wheel is copied as it is: only variant.json and
RECORD are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.wheels import (
    DOCUMENT,
    FROM_BINARY,
    RESOLVING,
    RESULTS,
    VARIANT,
    WHEELS,
)
from wheelfit.cli.options.table.workers import WORKERS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (WHEELS, VARIANT, FROM_BINARY, DOCUMENT, RESOLVING, RESULTS, WORKERS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Make the wheels; 9 if some could not be made and --keep-going was given."""
    from wheelfit.build.wheel_jobs import Make
    from wheelfit.cli.wheel_asked import asked_variant, open_table
    from wheelfit.cli.wheel_work import carry_out, find_wheels
    from wheelfit.errors import UsageError

    wheels = find_wheels(arguments.wheels)
    if arguments.from_binary:
        from wheelfit.cli.shown_variants import shown_variants

        acts = [
            (
                wheel,
                Make(*asked, layout=arguments.layout, resolve_markers=arguments.resolve_markers),
            )
            for wheel, asked in shown_variants(wheels, arguments, output)
        ]
        return carry_out(acts, arguments, output, environ)
    asked = asked_variant(arguments, open_table(arguments), output)
    if asked is None:
        raise UsageError(
            "no variant is asked for",
            hint="give --property, --label of a table, --null, or --from-binary",
        )
    act = Make(*asked, layout=arguments.layout, resolve_markers=arguments.resolve_markers)
    return carry_out([(wheel, act) for wheel in wheels], arguments, output, environ)
