"""Synchronisation: an environment made equal to a lock, each package in the build that fits."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace
from packaging.utils import canonicalize_name

from wheelfit.core.markers import VariantContext
from wheelfit.installation.builds.deferred import DeferredBuilding
from wheelfit.installation.installed import by_name
from wheelfit.operations.changes import (
    ChangeRequest,
    InstalledState,
    decided,
    prepare_environment,
    report_accelerator_use,
    retry_on_concurrent_change,
)
from wheelfit.operations.lock_files import FromLock, open_lock
from wheelfit.operations.locked_builds import LockedBuilds
from wheelfit.operations.requests import BuildOptions
from wheelfit.operations.requirements import RequestedRequirements
from wheelfit.operations.source_builds import consent_of, open_building
from wheelfit_runtime.errors import WheelfitError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.core.labels import Label
    from wheelfit.core.properties import PropertySet
    from wheelfit.installation.environment import Environment
    from wheelfit.installation.installed import Installed
    from wheelfit.installation.plan import Plan
    from wheelfit.installation.variant_change import VariantChange
    from wheelfit.locking.selection import LockCandidates
    from wheelfit.operations.change_reports import ChangeReport
    from wheelfit.operations.changes import ChangeDecision
    from wheelfit.operations.context import Context, Reporter
    from wheelfit.operations.lock_files import OpenedLock
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.resolution import Pin, Resolution
    from wheelfit.sources.cooldown import Cooldown
    from wheelfit.sources.memoized import MemoizedRepository


class SyncRequest(FromLock, BuildOptions, ChangeRequest):
    """The lock, the environment, and the permitted changes."""

    inexact: bool = False


def sync(request: SyncRequest, context: Context) -> ChangeReport:
    """Choose from a lock, download, check, install and remove.

    If anything fails, the environment is unchanged.

    :param request: the lock, and the environment.
    :param context: the environment variables and the reporter.
    :raises WheelfitError: a package is not available, or a change is not permitted.
    """
    return sync_without(request, context, None)


def sync_without(
    request: SyncRequest, context: Context, leaving: Collection[NormalizedName] | None
) -> ChangeReport:
    """Synchronise, and remove only some of the packages that the lock does not name.

    :param leaving: the packages to remove; None: all or none, as the request has it.
    """
    from wheelfit.operations.pip_rules import read_rules

    opened = open_lock(request, context, may_be_own=False)
    with opened.repository:
        rules = read_rules(context.environ, opened.environment.interpreter.prefix)
        prepare_environment(request, opened.environment, rules, context)
        machine = opened.machine(request.host)
        with closing(_open_building(request, opened, machine)) as building:
            return _sync(request, opened, machine, building, leaving)


_LEFT_OUT = "`uv export --no-emit-project` leaves the project itself out of its lock"


def _open_building(
    request: SyncRequest, opened: OpenedLock, machine: ChosenMachine
) -> DeferredBuilding:
    """Return the builder; build requirements come from the configured indexes."""
    from wheelfit.operations.preferences import choice_policy

    return DeferredBuilding(
        opened.repository,
        lambda: open_building(
            request,
            opened.context,
            opened.repository,
            opened.settings,
            opened.environment,
            machine,
            choice_policy(request, machine.policy),
            RequestedRequirements((), (), (), {}, ()),
        ),
    )


def _sync(
    request: SyncRequest,
    opened: OpenedLock,
    machine: ChosenMachine,
    building: DeferredBuilding,
    leaving: Collection[NormalizedName] | None,
) -> ChangeReport:
    from wheelfit.operations.change_reports import report_change
    from wheelfit.operations.dry_run import carry_out_or_rehearse
    from wheelfit.operations.result_limits import check_bounds
    from wheelfit.operations.step_durations import StepDurations

    reporter = opened.context.reporter
    builds = LockedBuilds(building, consent_of(request), opened.path.absolute().parent)
    choosing = opened.candidates(machine, builds.wheel, builds.files)
    environment = opened.environment.to_be_taken_to(machine.target)
    leave_out = _LEFT_OUT if opened.lock.created_by == "uv" else ""
    ground = _SyncContext(
        environment, machine, choosing.candidates, opened.repository, builds, leave_out
    )

    def decide_once() -> ChangeDecision:
        decision = _decide(request, ground, choosing, leaving, reporter)
        _check_uploads(decision.planned.install, opened.settings.cooldown)
        check_bounds(request, decision, choosing.candidates, reporter)
        return decision

    decide = retry_on_concurrent_change(decide_once)
    durations = StepDurations()
    with durations.measure("resolve"):
        decision = decide()
    if request.refit:
        _tell_unlisted(decision, choosing, reporter)
    accelerators = report_accelerator_use(decision, ground, reporter, lock="wheelfit lock")
    decision, sizes = carry_out_or_rehearse(
        decision, decide, request, opened.context, ground, durations
    )
    no_change_reason = "the environment matches the lock"
    if request.refit:
        no_change_reason = "every installed variant of the lock that could be judged fits"
    return report_change(
        decision,
        ground,
        sizes,
        no_change_reason=no_change_reason,
        seconds=durations.to_json(),
        accelerators=accelerators,
    )


def _check_uploads(pins: Iterable[Pin], cooldown: Cooldown | None) -> None:
    """Raise on files that were uploaded too recently.

    :raises PolicyRefusal: ``too-new``; there is such a file, or one without upload time.
    """
    if cooldown is None:
        return
    refused = [
        pin for pin in pins if not pin.file.is_local and cooldown.refuses(pin.name, pin.file)
    ]
    if not refused:
        return
    from wheelfit.sources.page import time_of_upload
    from wheelfit_runtime.errors import PolicyRefusal

    times = {pin.filename.text: time_of_upload(pin.file) for pin in refused}
    raise PolicyRefusal(
        "files of the lock were uploaded after --uploaded-prior-to, or have no upload time",
        code="too-new",
        note="\n".join(
            f"{name}: {'the lock does not tell' if when is None else when.isoformat()}"
            for name, when in times.items()
        ),
        hint="`wheelfit lock --upgrade` with the same option takes older releases; "
        f"--uploaded-prior-to-package {refused[0].name}=false takes this one anyway",
    )


class _SyncContext(NamedTuple):
    """The environment, machine and lock of a change."""

    environment: Environment
    machine: ChosenMachine
    candidates: Candidates
    repository: MemoizedRepository
    building: LockedBuilds
    leave_out: str
    """Instructions to lock without the project itself, for hints; empty: impossible."""


def _decide(
    request: SyncRequest,
    ground: _SyncContext,
    choosing: LockCandidates,
    leaving: Collection[NormalizedName] | None,
    reporter: Reporter,
) -> ChangeDecision:
    """Choose from the lock, and verify that the result may be installed here."""
    from wheelfit.installation.plan import plan_sync
    from wheelfit.installation.related_distributions import Companions
    from wheelfit.operations.source_builds import with_consent

    present = InstalledState.of(ground)
    held = _held(request, present)
    staying = None
    if not (request.refit or request.inexact):
        staying = spared(present.installed, ground.environment.interpreter.environment)
        if leaving is not None:
            staying |= {one.name for one in present.installed if one.name not in leaving}
    start = present.misfits if request.refit else ()
    companions = Companions.of(start, present.installed, choosing.candidates.target.environment)
    only = None
    if request.refit:
        # Packages that only they need are chosen with them, or removed.
        only = (present.misfits.keys() & choosing.packages) - companions.followers

    def takes_part(name: NormalizedName) -> bool:
        # Kept builds, and packages that stay beside the lock, take part in agreements.
        if only is not None:
            return name not in only | companions.followers
        if name in choosing.packages:
            return name in held
        return staying is None or name in staying

    there = by_name(present.installed)
    taking_part = {name: one.present() for name, one in there.items() if takes_part(name)}

    def chosen() -> Resolution:
        selection = choosing.select(installed=taking_part, only=only, preferred_builds=held)
        resolution = selection.resolution()
        return replace(resolution, leaving=companions.unneeded(resolution))

    def planned_for(resolution: Resolution) -> Plan:
        gone = leaving or frozenset()
        return plan_sync(resolution, present.installed, spared=staying, leaving=gone)

    resolution = with_consent(
        chosen,
        ground.building,
        ground.candidates,
        reporter,
        may_ask=not request.dry_run,
        lacking=lambda found: [
            pin for pin in planned_for(found).install if ground.building.needs_consent(pin.file)
        ],
        has_older=False,
        leave_out=ground.leave_out,
    )
    planned = planned_for(resolution)
    labels = choosing.candidates.policy.preferences.labels
    exchanged = present.misfits.keys() | companions.followers if request.refit else frozenset()

    def agreed(change: VariantChange) -> bool:
        name = change.old.name
        return request.allow_variant_change or name in exchanged or name in labels

    return decided(planned, resolution, present, ground, agreed)


def _held(
    request: SyncRequest, present: InstalledState
) -> Mapping[NormalizedName, tuple[Label, PropertySet]]:
    """Return the installed builds; each stays where the lock lists it and it fits."""
    if request.allow_variant_change:
        return {}
    return {
        name: (entry.label, entry.properties)
        for name, entry in by_name(present.installed).items()
        if entry.label is not None
    }


def _tell_unlisted(decision: ChangeDecision, choosing: LockCandidates, reporter: Reporter) -> None:
    """Warn of variants that do not fit and that the lock cannot exchange."""
    for name in decision.present.misfits:
        if name not in choosing.packages:
            reporter.warn(f"{name} is not in the lock; `wheelfit install --refit` exchanges it")


_INSTALLERS = tuple(map(canonicalize_name, ("pip", "setuptools", "wheel")))
_SELF = canonicalize_name("wheelfit")


def spared(
    installed: Iterable[Installed], environment: Mapping[str, str]
) -> frozenset[NormalizedName]:
    """Return the packages that manage an environment: pip, wheelfit and their dependencies.

    Dependencies of wheelfit are included, or it would remove itself piece by piece.

    :param environment: values of the marker variables.
    """
    there = by_name(installed)
    names = set(_INSTALLERS)
    pending = [_SELF]
    while pending:
        name = pending.pop()
        if name in names or name not in there:
            continue
        names.add(name)
        with suppress(WheelfitError):  # unreadable metadata has no known requirements
            pending += [
                requirement.name
                for requirement in there[name].metadata().requires
                if requirement.applies(environment, "", VariantContext.PLAIN)
            ]
    return frozenset(names)
