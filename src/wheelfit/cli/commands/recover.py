"""Put an environment right whose change was interrupted, as by a power cut.

Every command that changes an environment does so first; this one does nothing else. What was
decided already is finished, anything else is undone. It also runs if packages that wheelfit
depends on are broken or missing, as that change may have broken them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.environment import ENVIRONMENT
from wheelfit.cli.options.table.installing import RECOVER

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output
    from wheelfit.install.mending import Interruption
    from wheelfit.install.recovery import Recovered


OPTIONS = (RECOVER, ENVIRONMENT)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Undo or finish what was interrupted."""
    from wheelfit.install.mending import find_interruption, mend
    from wheelfit.operations.environments import open_environment_of, tell_unnamed_environment
    from wheelfit.operations.scratch import clear_abandoned

    environment = open_environment_of(arguments, environ, tags=False)
    tell_unnamed_environment(arguments, environ, environment, output)
    done = None
    found: Interruption | Recovered | None
    if arguments.dry_run:
        found = interruption = find_interruption(environment)
        if interruption is not None and interruption.refusal and not arguments.trust_journal:
            raise interruption.refusal
    else:
        found = done = mend(environment, alone=True, trusting=arguments.trust_journal)
        clear_abandoned()
    notes = () if done is None else done.notes
    output.result_json(
        {
            "version": 1,
            "dry_run": arguments.dry_run,
            "environment": environment.name,
            "outcome": None if found is None else found.outcome.value,
            "changes": [] if found is None else list(found.changes),
            "notes": list(notes),
        }
    )
    output.result("no change was interrupted" if found is None else str(found))
    for note in notes:
        output.say(f"note: {note}", "dim")
    return 0
