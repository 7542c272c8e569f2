"""Synchronisation: an environment made equal to a lock, each package in the build that fits."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace
from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.core.markers import VariantContext
from wheelfit.installation.builds.repository import BuildingRepository
from wheelfit.installation.installed import Installed, by_name
from wheelfit.installation.plan import Plan, plan_sync
from wheelfit.installation.related_distributions import RelatedDistributions
from wheelfit.locking.stand_ins import stand_in_of
from wheelfit.operations.change_reports import ChangeReport, report_change
from wheelfit.operations.changes import (
    ChangeRequest,
    InstalledState,
    make_decision,
    prepare_environment,
    report_remarks_on_change,
    retry_on_concurrent_change,
)
from wheelfit.operations.dry_run import apply_or_dry_run
from wheelfit.operations.lock_files import LockChoiceRequest, OpenedLock, open_lock
from wheelfit.operations.pip_rules import read_rules
from wheelfit.operations.preferences import choice_policy
from wheelfit.operations.requests import BuildOptions
from wheelfit.operations.requirements import RequestedRequirements
from wheelfit.operations.result_limits import check_bounds
from wheelfit.operations.source_builds import consent_of, open_builder, with_consent
from wheelfit.operations.step_durations import StepDurations
from wheelfit.resolution.request import DirectSource
from wheelfit.sources.page import File, time_of_upload
from wheelfit_runtime.errors import PolicyRefusal, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from wheelfit.core.labels import Label
    from wheelfit.core.properties import PropertySet
    from wheelfit.installation.builds.consent import Consent
    from wheelfit.installation.environment import Environment
    from wheelfit.installation.variant_change import VariantChange
    from wheelfit.locking.document import LockedPackage
    from wheelfit.locking.selection import LockCandidates
    from wheelfit.operations.changes import ChangeDecision
    from wheelfit.operations.context import Context, Reporter
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.resolution import Pin, Resolution
    from wheelfit.sources.cooldown import Cooldown
    from wheelfit.sources.memoized import MemoizedRepository
    from wheelfit.sources.repository import Files


class SyncRequest(LockChoiceRequest, BuildOptions, ChangeRequest):
    """The lock, the environment, and the permitted changes."""

    inexact: bool = False


def sync(request: SyncRequest, context: Context) -> ChangeReport:
    """Choose from a lock, download, check, install and remove.

    If anything fails, the environment is unchanged.

    :param request: the lock, and the environment.
    :param context: the environment variables and the reporter.
    :raises WheelfitError: a package is not available, or a change is not permitted.
    """
    return sync_removing(request, context, None)


def sync_removing(
    request: SyncRequest, context: Context, removable: Collection[NormalizedName] | None
) -> ChangeReport:
    """Synchronise, and remove only some of the packages that are not in the lock.

    :param removable: the packages to remove; None: the request decides for all of them.
    """
    opened_lock = open_lock(request, context, may_be_own=False)
    with opened_lock.repository:
        rules = read_rules(context.environ, opened_lock.environment.interpreter.prefix)
        prepare_environment(request, opened_lock.environment, rules, context)
        machine = opened_lock.machine(request.host)
        with closing(_open_building(request, opened_lock, machine)) as building:
            return _sync(request, opened_lock, machine, building, removable)


_EXCLUDE_HINT = "`uv export --no-emit-project` leaves the project itself out of its lock"


def _open_building(
    request: SyncRequest, opened_lock: OpenedLock, machine: ChosenMachine
) -> BuildingRepository:
    """Return the builder; build requirements come from the configured indexes."""
    return BuildingRepository(
        opened_lock.repository,
        lambda build_requirements: open_builder(
            request,
            opened_lock.context,
            opened_lock.repository,
            build_requirements,
            opened_lock.settings,
            opened_lock.environment,
            machine,
            choice_policy(request, machine.policy),
            RequestedRequirements((), (), (), {}, ()),
        ),
    )


def _sync(
    request: SyncRequest,
    opened_lock: OpenedLock,
    machine: ChosenMachine,
    building: BuildingRepository,
    removable: Collection[NormalizedName] | None,
) -> ChangeReport:
    reporter = opened_lock.context.reporter
    builds = LockedBuilds(building, consent_of(request), opened_lock.path.absolute().parent)
    selector = opened_lock.candidates(machine, builds.wheel, builds.files)
    environment = opened_lock.environment.for_target(machine.target)
    exclude_hint = _EXCLUDE_HINT if opened_lock.lock.created_by == "uv" else ""
    repository = opened_lock.repository
    change_context = _SyncContext(
        environment, machine, selector.candidates, repository, builds, exclude_hint
    )

    def decide_once() -> ChangeDecision:
        decision = _decide(request, change_context, selector, removable, reporter)
        _check_uploads(decision.planned.install, opened_lock.settings.cooldown)
        check_bounds(request, decision, selector.candidates, reporter)
        return decision

    decide = retry_on_concurrent_change(decide_once)
    durations = StepDurations()
    with durations.measure("resolve"):
        decision = decide()
    if request.refit:
        _warn_unlisted(decision, selector, reporter)
    accelerators = report_remarks_on_change(
        decision, change_context, reporter, lock="wheelfit lock"
    )
    decision, sizes = apply_or_dry_run(
        decision, decide, request, opened_lock.context, change_context, durations
    )
    no_change_reason = "the environment matches the lock"
    if request.refit:
        no_change_reason = "all installed variants that could be checked fit"
    return report_change(
        decision,
        change_context,
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
    times = {pin.filename.text: time_of_upload(pin.file) for pin in refused}
    raise PolicyRefusal(
        "files of the lock were uploaded after --uploaded-prior-to, or have no upload time",
        code="too-new",
        note="\n".join(
            f"{name}: {'no upload time' if time is None else time.isoformat()}"
            for name, time in times.items()
        ),
        hint="`wheelfit lock --upgrade` with the same option takes older releases; "
        f"--uploaded-prior-to-package {refused[0].name}=false takes this one anyway",
    )


class _SyncContext(NamedTuple):
    """The environment, the machine and the sources of a change."""

    environment: Environment
    machine: ChosenMachine
    candidates: Candidates
    repository: MemoizedRepository
    building: LockedBuilds
    exclude_hint: str
    """Instructions to lock without the project itself, for hints; empty: impossible."""


def _decide(
    request: SyncRequest,
    change_context: _SyncContext,
    selector: LockCandidates,
    removable: Collection[NormalizedName] | None,
    reporter: Reporter,
) -> ChangeDecision:
    """Choose from the lock, and verify that the result may be installed here."""
    state = InstalledState.of(change_context)
    preferred_builds = _preferred_builds(request, state)
    # The installed packages that stay although the lock lacks them; None: all of these stay.
    staying = None
    if not (request.refit or request.inexact):
        staying = environment_tools(
            state.installed, change_context.environment.interpreter.environment
        )
        if removable is not None:
            staying |= {entry.name for entry in state.installed if entry.name not in removable}
    misfits = state.misfits if request.refit else {}
    related = RelatedDistributions.of(
        misfits, state.installed, selector.candidates.target.environment
    )
    # The packages to choose, with their dependencies; None: all of the lock.
    only = None
    if request.refit:
        # A package that only misfits need is left out here: if the new build of a misfit needs it,
        # it is chosen as a dependency, else it is removed.
        only = (misfits.keys() & selector.packages) - related.dependencies

    def takes_part(name: NormalizedName) -> bool:
        # An installed package takes part in agreements if it is certain to stay.
        if only is not None:
            return name not in only and name not in related.dependencies
        if name in selector.packages:
            return name in preferred_builds
        return staying is None or name in staying

    installed = by_name(state.installed)
    participants = {
        name: entry.for_resolver() for name, entry in installed.items() if takes_part(name)
    }

    def was_requested(name: NormalizedName) -> bool:
        return name in installed and installed[name].requested

    def choose() -> Resolution:
        selection = selector.select(
            installed=participants, only=only, preferred_builds=preferred_builds
        )
        resolution = selection.resolution()
        # As with `install`, a package that the user requested before stays requested.
        pins = tuple(
            replace(pin, requested=pin.requested or was_requested(pin.name))
            for pin in resolution.pins
        )
        return replace(resolution, pins=pins, superseded=related.unneeded(resolution))

    def plan_for(resolution: Resolution) -> Plan:
        return plan_sync(
            resolution, state.installed, staying=staying, editable_removals=removable or ()
        )

    def pins_without_consent(resolution: Resolution) -> list[Pin]:
        needs_consent = change_context.building.needs_consent
        return [pin for pin in plan_for(resolution).install if needs_consent(pin.file)]

    resolution = with_consent(
        choose,
        change_context.building,
        change_context.candidates,
        reporter,
        may_ask=not request.dry_run,
        pins_without_consent=pins_without_consent,
        has_older_releases=False,
        exclude_hint=change_context.exclude_hint,
    )
    labels = selector.candidates.policy.preferences.labels
    exchanged = misfits.keys() | related.dependencies

    def is_permitted(change: VariantChange) -> bool:
        name = change.old.name
        return request.allow_variant_change or name in exchanged or name in labels

    return make_decision(plan_for(resolution), resolution, state, change_context, is_permitted)


def _preferred_builds(
    request: SyncRequest, state: InstalledState
) -> Mapping[NormalizedName, tuple[Label, PropertySet]]:
    """Return the installed builds, which are kept if the lock lists them and they fit."""
    if request.allow_variant_change:
        return {}
    return {
        name: (entry.label, entry.properties)
        for name, entry in by_name(state.installed).items()
        if entry.label is not None
    }


def _warn_unlisted(decision: ChangeDecision, selector: LockCandidates, reporter: Reporter) -> None:
    """Warn of variants that do not fit and are not in the lock."""
    for name in decision.state.misfits:
        if name not in selector.packages:
            reporter.warn(f"{name} is not in the lock; `wheelfit install --refit` exchanges it")


_INSTALLERS = tuple(map(canonicalize_name, ("pip", "setuptools", "wheel")))
_WHEELFIT = canonicalize_name("wheelfit")


def environment_tools(
    installed: Iterable[Installed], environment: Mapping[str, str]
) -> frozenset[NormalizedName]:
    """Return the packages that manage an environment: pip, wheelfit and their dependencies.

    Without the dependencies of wheelfit, it would break itself.

    :param environment: values of the marker variables.
    """
    by_project = by_name(installed)
    names = set(_INSTALLERS)
    pending = [_WHEELFIT]
    while pending:
        name = pending.pop()
        if name in names or name not in by_project:
            continue
        names.add(name)
        with suppress(WheelfitError):  # unreadable metadata has no known requirements
            pending += [
                requirement.name
                for requirement in by_project[name].metadata().requires
                if requirement.applies(environment, "", VariantContext.PLAIN)
            ]
    return frozenset(names)


# --- builds of the sources in a lock --------------------------------------------------------------


class LockedBuilds:
    """The wheels in place of sources in a lock, built only if they are to be installed.

    :param consent: the user's consent to builds; being listed in a lock does not count as consent.
    """

    def __init__(self, building: BuildingRepository, consent: Consent, folder: Path) -> None:
        self.files: Files = building
        """Reads the files that the lock names, and those that are built."""
        self._building = building
        self._consent = consent
        self._stand_in = stand_in_of(folder)
        self._allowed: set[NormalizedName] = set()
        self._packages: dict[tuple[str, str], LockedPackage] = {}
        self._built: dict[NormalizedName, File] = {}

    def wheel(self, package: LockedPackage) -> File:
        """Return the wheel of a source, with a placeholder as its name until it is built.

        :param package: an entry with a source.
        :raises FileProblem: a path in the lock cannot be read, or may not be.
        """
        built = self._built.get(package.name)
        if built is not None:
            return built
        file = self._stand_in(package)
        self._packages[file.url, file.filename] = package
        return file

    @property
    def mode(self) -> str:
        """The consent to build packages that the user has not named."""
        return self._consent.mode

    @property
    def why_impossible(self) -> str:
        """The reason why building is impossible; empty if it is possible."""
        return self._building.why_impossible

    def needs_consent(self, file: File) -> bool:
        """Return whether a wheel must be built, and may not be."""
        if not self.is_unbuilt(file):
            return False
        name = self._packages[file.url, file.filename].name
        is_allowed = name in self._consent.names or name in self._allowed
        return not (is_allowed or self.mode == "always") or bool(self.why_impossible)

    def has_requirements(self, file: File) -> bool:  # noqa: ARG002 - of any file
        """Return True, since the lock has the requirements."""
        return True

    def allow(self, names: Iterable[NormalizedName]) -> None:
        """Permit builds of some packages."""
        self._allowed.update(names)

    def is_unbuilt(self, file: File) -> bool:
        """Return whether a wheel must be built before it can be installed."""
        return self._building.is_unbuilt(file)

    def build(self, file: File) -> File:
        """Build a wheel, and return it as `wheel` returns it from then on.

        :param file: as `wheel` returned it.
        :raises WheelfitError: the source cannot be fetched, or its backend failed.
        """
        package = self._packages[file.url, file.filename]
        building = self._building
        building.allow([package.name])
        if file.origin is not None and file.origin.direct_url is not None:
            file = building.direct_wheel(_given_source(package, file)).file
        built = self._built[package.name] = building.build(file)
        return built


def _given_source(package: LockedPackage, file: File) -> DirectSource:
    """Return the source of a locked package as a user would name it."""
    source = package.source
    hashes = frozenset(file.hashes.items())
    is_editable = source is not None and source.editable
    return DirectSource(
        file.url, package.name, hashes=hashes, editable=is_editable, where="the lock"
    )
