"""Removal of packages; their dependencies stay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packaging.utils import InvalidName, NormalizedName, canonicalize_name

from wheelfit.errors import InvalidRequirement
from wheelfit.installation.plan import plan_uninstall
from wheelfit.installation.uninstall import uninstall as remove
from wheelfit.operations.environments import (
    note_default_environment,
    open_environment_of,
    recover_first,
    warn_of_interruption,
)
from wheelfit.operations.pip_rules import check_changes, read_rules
from wheelfit.operations.plain_data import plain_fields, plain_report
from wheelfit.operations.requests import EnvironmentOptions
from wheelfit.operations.self_change import (
    affects_wheelfit,
    check_own_requirements,
    preload_modules,
)
from wheelfit.operations.step_durations import StepDurations
from wheelfit_runtime.errors import WheelfitError
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.installation.apply import Applied
    from wheelfit.operations.context import Context


class UninstallRequest(EnvironmentOptions):
    """The packages to remove, and the environment."""

    names: tuple[str, ...] = ()
    dry_run: bool = False
    break_system_packages: bool = False


@dataclass(frozen=True, slots=True)
class UninstallReport:
    """The packages that were removed, or would be."""

    uninstalled: Applied
    dry_run: bool
    """Whether nothing was removed."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """The time that ``uninstall`` took."""

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        removed = [plain_fields(entry, "name version label") for entry in self.uninstalled.removed]
        return plain_report(
            self,
            "dry_run seconds",
            removed=removed,
            broken_requirements=self.uninstalled.broken_requirements,
        )


def uninstall(request: UninstallRequest, context: Context) -> UninstallReport:
    """Remove packages from an environment.

    :param request: the packages and the environment.
    :param context: the environment variables and the reporter.
    :raises WheelfitError: a package is not installed, or must not be removed.
    """
    environment = open_environment_of(request, context.environ)
    check_changes(
        read_rules(context.environ, environment.interpreter.prefix, "uninstall"), environment
    )
    if request.dry_run:
        warn_of_interruption(environment, context.reporter)
    else:
        recover_first(environment, context.reporter)
    note_default_environment(request, environment, context)
    names = list(map(_parse_name, request.names))
    plan, _ = plan_uninstall(names, environment.installed())
    check_own_requirements(plan, environment)
    allow_imports = None  # a function, once imports are refused
    if not request.dry_run and affects_wheelfit(environment, (), plan.remove):
        allow_imports = preload_modules(environment)
    durations = StepDurations()
    try:
        with durations.measure("uninstall"):
            uninstalled = remove(
                names,
                environment,
                dry_run=request.dry_run,
                break_system_packages=request.break_system_packages,
            )
    except WheelfitError:
        if allow_imports is not None:
            allow_imports()
        raise
    if request.dry_run:
        return UninstallReport(uninstalled, request.dry_run)
    words = f"Uninstalled {count_of(len(uninstalled.removed), 'package')}"
    durations.report(words, "uninstall", context.reporter)
    return UninstallReport(uninstalled, request.dry_run, durations.to_json())


def _parse_name(text: str) -> NormalizedName:
    try:
        return canonicalize_name(text, validate=True)
    except InvalidName:
        raise InvalidRequirement(
            "this is not a valid package name", source=text, hint="write only the name"
        ) from None
