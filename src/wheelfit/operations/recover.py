"""Recovery of an environment whose change was interrupted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.operations.environments import note_default_environment, open_environment_of
from wheelfit.operations.plain_data import plain_report
from wheelfit.operations.requests import EnvironmentOptions

if TYPE_CHECKING:
    from wheelfit.installation.interruption import Interruption
    from wheelfit.installation.recovery import Recovery
    from wheelfit.operations.context import Context


class RecoverRequest(EnvironmentOptions):
    """The environment to recover."""

    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class RecoverReport:
    """The interrupted change that was undone or finished, or would be."""

    environment: str
    """The name of the environment."""
    change: Interruption | Recovery | None
    """The change; None: none was interrupted."""
    dry_run: bool
    """Whether nothing was done."""
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(
            self,
            "dry_run environment notes",
            outcome=None if self.change is None else self.change.outcome.value,
            changes=[] if self.change is None else list(self.change.changes),
        )


def recover(request: RecoverRequest, context: Context) -> RecoverReport:
    """Recover an environment from an interrupted change, by undoing or finishing it."""
    from wheelfit.installation.interruption import find_interruption, recover_environment
    from wheelfit.operations.temporary_folders import clear_abandoned

    environment = open_environment_of(request, context.environ, tags=False)
    note_default_environment(request, environment, context)
    if request.dry_run:
        interruption = find_interruption(environment)
        if interruption is not None and interruption.refusal:
            raise interruption.refusal
        return RecoverReport(environment.name, interruption, dry_run=True)
    recovery = recover_environment(environment, allow_unlocked=True)
    clear_abandoned()
    notes = () if recovery is None else tuple(recovery.notes)
    return RecoverReport(environment.name, recovery, dry_run=False, notes=notes)
