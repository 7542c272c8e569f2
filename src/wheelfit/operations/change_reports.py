"""Reports of changed environments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from wheelfit.installation.broken_requirements import BrokenRequirement, find_broken_requirements
from wheelfit.operations.plain_data import plain_fields, plain_report
from wheelfit.operations.text import plan_with_sizes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packaging.utils import NormalizedName

    from wheelfit.installation.installed import Installed
    from wheelfit.operations.changes import ChangeContext, ChangeDecision
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.resolution.accelerator_use import AcceleratorRemark
    from wheelfit.resolution.resolution import Resolution
    from wheelfit.sources.repository import FileSize


class ChangeReport(Struct, frozen=True):
    """The changes of an environment, done or planned."""

    decision: ChangeDecision
    machine: ChosenMachine
    dry_run: bool
    """Whether nothing was done."""
    no_change_reason: str
    """The reason for an empty plan; it has no meaning for others."""
    broken: tuple[BrokenRequirement, ...] = ()
    """Requirements of installed distributions that are not met any more."""
    notes: tuple[str, ...] = ()
    """Remarks of little weight."""
    warnings: tuple[str, ...] = ()
    sizes: Mapping[NormalizedName, FileSize] = field(default_factory=dict)
    """Sizes of the wheels to install, of a dry run."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """The time that each step took: ``resolve``, ``download`` and ``install``."""
    unused_labels: tuple[str, ...] = ()
    """Warnings about requested labels of projects that are not in the result."""
    accelerators: tuple[AcceleratorRemark, ...] = ()
    """Accelerator builds that cannot be used, and accelerators left idle; reported already."""

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        planned, resolution = self.decision.planned, self.decision.resolution
        return {
            **plain_report(self, "dry_run seconds accelerators", broken_requirements=self.broken),
            **self.machine.to_mapping(),
            **plan_with_sizes(planned.to_mapping(), self.sizes, dry_run=self.dry_run),
            **plain_fields(resolution, "held_back agreements"),
            "keep": [_kept(entry, resolution) for entry in planned.keep],
            "variant_changes": [change.to_mapping() for change in self.decision.changes],
            "incompatible_variants": [
                {**_identity(misfit.variant), "reason": misfit.reason}
                for misfit in self.decision.misfits
            ],
            "plugins": _plugins(resolution),
            "degradations": [
                {"name": pin.name, "version": str(pin.version), **degradation.to_mapping()}
                for pin in resolution.pins
                for degradation in pin.choice.degradations
            ],
        }


def report_change(
    decision: ChangeDecision,
    context: ChangeContext,
    sizes: Mapping[NormalizedName, FileSize] | None,
    *,
    no_change_reason: str,
    seconds: Mapping[str, float],
    accelerators: tuple[AcceleratorRemark, ...],
) -> ChangeReport:
    """Return the report of changes, done or planned.

    :param sizes: of the wheels to install, of a dry run; None: it was done.
    :param no_change_reason: the reason for an empty plan, in case that it is empty.
    """
    planned, resolution = decision.planned, decision.resolution
    environment = context.environment.interpreter.environment
    unmet = find_broken_requirements(planned, decision.state.installed, environment)
    # Kept distributions were resolved together with the new ones, or are locked: their conflicts
    # are intended, and so are unmet requirements that the user overrides.
    broken = [
        broken_requirement
        for broken_requirement in unmet
        if broken_requirement.requirement.name not in resolution.replaced
        and broken_requirement.dependent not in planned.keep
    ]
    intended = [
        f"{broken_requirement}, as was decided"
        for broken_requirement in unmet
        if broken_requirement not in broken
    ]
    preferences = context.candidates.policy.preferences
    names = {pin.name for pin in planned.install} | {entry.name for entry in planned.keep}
    return ChangeReport(
        decision,
        context.machine,
        sizes is not None,
        no_change_reason,
        tuple(broken),
        (*resolution.unmet, *intended),
        resolution.notes,
        sizes or {},
        seconds,
        tuple(
            f"--label {name}={label} has no effect: {name} is not needed"
            for name, label in preferences.labels.items()
            if name not in names
        ),
        accelerators,
    )


def _kept(entry: Installed, resolution: Resolution) -> dict[str, object]:
    pin = resolution.pin(entry.name)
    better = None if pin is None else pin.choice.selection.better
    return {**_identity(entry), "better": None if better is None else better.label}


def _identity(entry: Installed) -> dict[str, object]:
    return plain_fields(entry, "name version label")


def _plugins(resolution: Resolution) -> list[dict[str, object]]:
    """Return the plugins that judged packages of the result, each once (P-21)."""
    plugins = {
        detection.namespace: detection.plugin
        for pin in resolution.pins
        if pin.choice.support is not None
        for detection in pin.choice.support.detections.values()
        if detection.plugin is not None
    }
    return [
        {"namespace": namespace, **plugin.to_mapping()} for namespace, plugin in plugins.items()
    ]
