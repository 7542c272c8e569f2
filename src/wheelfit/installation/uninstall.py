"""Removal of distributions from an environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from wheelfit.installation.apply import MAX_PLANS, Applied, PlanOutdated, apply
from wheelfit.installation.broken_requirements import find_broken_requirements
from wheelfit.installation.folder_scan import FolderScan
from wheelfit.installation.locking import LOCK_TIMEOUT
from wheelfit.installation.plan import plan_uninstall
from wheelfit.installation.removal import RealPaths, plan_removal
from wheelfit_runtime.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packaging.utils import NormalizedName

    from wheelfit.installation.environment import Environment


def uninstall(
    names: Iterable[NormalizedName],
    environment: Environment,
    *,
    dry_run: bool = False,
    break_system_packages: bool = False,
    lock_timeout: float = LOCK_TIMEOUT,
) -> Applied:
    """Remove distributions; all of them, or none.

    :param dry_run: whether to plan the removal only; raises the same errors.
    :param lock_timeout: seconds to wait for another process that changes the environment.
    :raises UserError: ``not-installed``; one of them is not installed.
    :raises NotRemovable: the files of one of them are unknown.
    :raises PolicyRefusal: ``externally-managed``; PEP 668 forbids it.
    :raises EnvironmentUnavailable: the environment cannot be written, or is busy.
    """
    requested = tuple(names)
    attempts = MAX_PLANS
    while True:
        installed = environment.installed()
        plan, missing = plan_uninstall(requested, installed)
        if missing:
            raise UserError(
                f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed",
                code="not-installed",
                where=environment.name,
                hint="nothing was removed; `wheelfit list` shows what is installed",
            )
        broken_requirements = find_broken_requirements(
            plan, installed, environment.interpreter.environment
        )
        if dry_run:
            environment.check_allowed(break_system_packages=break_system_packages)
            environment.check_writable([entry.location for entry in plan.remove])
            remaining = tuple(entry for entry in installed if entry not in plan.remove)
            real, read_folder = RealPaths(), FolderScan()
            removals = [
                plan_removal(entry, environment, remaining, real, read_folder)
                for entry in plan.remove
            ]
            notes = tuple(note for removal in removals for note in removal.notes)
            return Applied(
                removed=plan.remove, notes=notes, broken_requirements=broken_requirements
            )
        attempts -= 1
        try:
            applied = apply(
                plan,
                environment,
                {},
                break_system_packages=break_system_packages,
                lock_timeout=lock_timeout,
            )
        except PlanOutdated:
            if not attempts:
                raise
        else:
            return replace(applied, broken_requirements=broken_requirements)
