"""Reports of changed environments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from wheelfit.installation.breakage import breakages
from wheelfit.operations.text import sized

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packaging.utils import NormalizedName

    from wheelfit.checking.installed import FitVerdict
    from wheelfit.installation.breakage import Breakage
    from wheelfit.installation.installed import Installed
    from wheelfit.operations.changes import ChangeContext, ChangeDecision
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.resolution.accelerator_use import AcceleratorUse
    from wheelfit.resolution.resolution import Resolution
    from wheelfit.sources.repository import FileSize


class ChangeReport(Struct, frozen=True):
    """The changes of an environment, done or planned."""

    decided: ChangeDecision
    machine: ChosenMachine
    dry_run: bool
    """Whether nothing was done."""
    otherwise: str
    """The reason why there was nothing to do, for the case that there was nothing."""
    broken: tuple[Breakage, ...] = ()
    """Requirements of installed distributions that are not met any more."""
    notes: tuple[str, ...] = ()
    """Remarks of little weight."""
    warnings: tuple[str, ...] = ()
    sizes: Mapping[NormalizedName, FileSize] = field(default_factory=dict)
    """Sizes of the wheels to install, of a dry run."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """The time that each step took: ``resolve``, ``download`` and ``install``."""
    idle_labels: tuple[str, ...] = ()
    """Requested labels of projects that are not in the result."""
    accelerators: tuple[AcceleratorUse, ...] = ()
    """Accelerator builds that cannot be used, and accelerators left idle; reported already."""

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        planned, resolution = self.decided.planned, self.decided.resolution
        return {
            "version": 1,
            "dry_run": self.dry_run,
            "seconds": dict(self.seconds),
            **self.machine.to_mapping(),
            **sized(planned.to_mapping(), self.sizes, dry_run=self.dry_run),
            "keep": [_kept(entry, resolution) for entry in planned.keep],
            "variant_changes": [change.to_mapping() for change in self.decided.changes],
            "incompatible_variants": [_misfit(misfit) for misfit in self.decided.misfits],
            "held_back": [one.to_mapping() for one in resolution.held_back],
            "agreements": [one.to_mapping() for one in resolution.held],
            "broken_requirements": [one.to_mapping() for one in self.broken],
            "accelerators": [accelerator.to_mapping() for accelerator in self.accelerators],
            "plugins": _plugins(resolution),
            "degradations": [
                {"name": pin.name, "version": str(pin.version), **one.to_mapping()}
                for pin in resolution.pins
                for one in pin.choice.degradations
            ],
        }


def report_change(
    decided: ChangeDecision,
    ground: ChangeContext,
    sizes: Mapping[NormalizedName, FileSize] | None,
    *,
    otherwise: str,
    seconds: Mapping[str, float],
    accelerators: tuple[AcceleratorUse, ...],
) -> ChangeReport:
    """Return the report of changes, done or planned.

    :param sizes: of the wheels to install, of a dry run; None: it was done.
    :param otherwise: the reason why there was nothing to do, for the case that there was nothing.
    :param accelerators: accelerator builds that cannot be used, and accelerators left idle.
    """
    planned, resolution = decided.planned, decided.resolution
    environment = ground.environment.interpreter.environment
    unmet = breakages(planned, decided.present.installed, environment)
    # Distributions of the result were resolved with it, or locked, so their conflicts are intended.
    broken = [
        one
        for one in unmet
        if one.requirement.name not in resolution.replaced and one.needing not in planned.keep
    ]
    meant = [f"{one}, as was decided" for one in unmet if one not in broken]
    preferences = ground.candidates.policy.preferences
    there = {pin.name for pin in planned.install} | {entry.name for entry in planned.keep}
    return ChangeReport(
        decided,
        ground.machine,
        sizes is not None,
        otherwise,
        tuple(broken),
        (*resolution.unmet, *meant),
        resolution.notes,
        sizes or {},
        seconds,
        tuple(
            f"--label {name}={label} changes nothing: {name} is not needed"
            for name, label in preferences.labels.items()
            if name not in there
        ),
        accelerators,
    )


def _kept(entry: Installed, resolution: Resolution) -> dict[str, object]:
    pin = resolution.pin(entry.name)
    better = None if pin is None else pin.choice.selection.better
    return {
        "name": entry.name,
        "version": str(entry.version),
        "label": entry.label,
        "better": None if better is None else better.label,
    }


def _misfit(verdict: FitVerdict) -> dict[str, object]:
    variant = verdict.variant
    return {
        "name": variant.name,
        "version": str(variant.version),
        "label": variant.label,
        "reason": verdict.reason,
    }


def _plugins(resolution: Resolution) -> list[dict[str, object]]:
    """Return the plugins that judged packages of the result, each once (P-21)."""
    asked = {
        detection.namespace: detection.plugin
        for pin in resolution.pins
        if pin.choice.support is not None
        for detection in pin.choice.support.detections.values()
        if detection.plugin is not None
    }
    return [{"namespace": namespace, **plugin.to_mapping()} for namespace, plugin in asked.items()]
