"""Installation: packages, each in the build that fits the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace
from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.core.property_support import Support, namespaces_used
from wheelfit.core.requirements import Requirement
from wheelfit.installation.installed import ambiguous_names, by_name
from wheelfit.operations.changes import (
    ChangeRequest,
    InstalledState,
    make_decision,
    prepare_environment,
    report_remarks_on_change,
    resolution_summary,
    retry_on_concurrent_change,
)
from wheelfit.operations.indexes import report_unexpected_sources, warning_of_later_indexes
from wheelfit.operations.projects import check_folder_pins
from wheelfit.operations.selection_session import FromRequirements, SelectionSession, open_session
from wheelfit.operations.source_builds import with_consent
from wheelfit.resolution.request import RequestedRequirement, ResolutionRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wheelfit.core.labels import Label
    from wheelfit.core.properties import PropertySet
    from wheelfit.installation.related_distributions import RelatedDistributions
    from wheelfit.installation.variant_change import VariantChange
    from wheelfit.operations.change_reports import ChangeReport
    from wheelfit.operations.changes import ChangeDecision
    from wheelfit.operations.context import Context, Reporter
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.resolution import Resolution


class InstallRequest(ChangeRequest, FromRequirements):
    """The requirements, the machine, and the permitted changes."""

    upgrade: bool = False
    upgrade_package: tuple[str, ...] = ()
    force_reinstall: bool = False
    no_input: bool = False


def install(request: InstallRequest, context: Context) -> ChangeReport:
    """Resolve, download, check and install.

    If anything fails, the environment is unchanged.

    :param request: the requirements and the environment.
    :param context: the environment variables and the reporter.
    :raises WheelfitError: a package is not available, or a change is not permitted.
    """
    from wheelfit.operations.change_reports import report_change
    from wheelfit.operations.dry_run import apply_or_dry_run
    from wheelfit.operations.result_limits import check_bounds, check_substitutes
    from wheelfit.operations.step_durations import StepDurations

    with open_session(request, context, changes=not request.dry_run, may_be_own=False) as session:
        prepare_environment(request, session.environment, session.rules, context)
        session.restrict_bridges()

        def decide_once() -> ChangeDecision:
            decision = _decide(request, session, context.reporter)
            check_bounds(request, decision, session.candidates, context.reporter)
            check_substitutes(decision.resolution, session.candidates, session.repository)
            return decision

        decide = retry_on_concurrent_change(decide_once)
        durations = StepDurations()
        with (
            durations.measure("resolve"),
            warning_of_later_indexes(session.repository, context.reporter),
        ):
            decision = decide()
        pins = [pin for pin in decision.resolution.pins if not pin.is_direct]
        check_folder_pins((pin.name for pin in pins), request)
        durations.report(resolution_summary(decision), "resolve", context.reporter)
        report_unexpected_sources(decision.resolution.pins, session.repository, context.reporter)
        accelerators = report_remarks_on_change(decision, session, context.reporter)
        decision, sizes = apply_or_dry_run(decision, decide, request, context, session, durations)
        return report_change(
            decision,
            session,
            sizes,
            no_change_reason=_reason_for_no_change(request, session, decision),
            seconds=durations.to_json(),
            accelerators=accelerators,
        )


def _reason_for_no_change(
    request: InstallRequest, session: SelectionSession, decision: ChangeDecision
) -> str:
    if decision.resolution.pins or decision.planned.keep:
        return "the installed packages meet every requirement"
    if request.refit:
        return "all installed variants that could be checked fit"
    if _named_projects(session) or session.requirement_set.sources:
        return "no requirement applies to this environment"
    return "the files have no requirements"


def _decide(
    request: InstallRequest, session: SelectionSession, reporter: Reporter
) -> ChangeDecision:
    """Resolve, and verify that the result meets the request and fits the environment."""
    from wheelfit.installation.plan import plan
    from wheelfit.resolution.resolver import resolve

    state = InstalledState.of(session)
    related = _related_distributions(request, session, state)
    resolution = with_consent(
        lambda: resolve(_resolution_request(request, session, state, related), session.candidates),
        session.building,
        session.candidates,
        reporter,
        may_ask=not (request.dry_run or request.no_input),
    )
    resolution = _with_earlier_requests(request, session, state, resolution)
    if not request.no_deps:
        superseded = {**related.unneeded(resolution), **resolution.superseded}
        resolution = replace(resolution, superseded=superseded)
    planned = plan(resolution, state.installed, reinstall=request.force_reinstall)
    candidates = session.candidates.within(resolution.context)
    is_requested = _consent_check(request, session, candidates, related)
    return make_decision(planned, resolution, state, session, is_requested)


def _related_distributions(
    request: InstallRequest, session: SelectionSession, state: InstalledState
) -> RelatedDistributions:
    """Return the distributions to replace together with builds; none if no build is replaced."""
    from wheelfit.installation.related_distributions import RelatedDistributions

    start = set(map(canonicalize_name, session.candidates.policy.preferences.labels))
    if request.refit:
        start |= state.misfits.keys()
    if request.allow_variant_change:
        start |= _named_projects(session) | _projects_to_upgrade(request)
    return RelatedDistributions.of(start, state.installed, session.candidates.target.environment)


def _resolution_request(
    request: InstallRequest,
    session: SelectionSession,
    state: InstalledState,
    related: RelatedDistributions,
) -> ResolutionRequest:
    installed = by_name(state.installed)
    replaced_names = ambiguous_names(state.installed)
    if request.force_reinstall:
        replaced_names |= installed.keys()
    staying = {name: entry for name, entry in installed.items() if name not in replaced_names}
    upgrade_only = _projects_to_upgrade(request)
    unpinned = upgrade_only | (_named_projects(session) if request.upgrade else frozenset())
    requirements = session.requirement_set.requirements
    dependencies = related.dependencies
    may_replace = request.refit or request.allow_variant_change
    if _is_only_refit(request, session):
        # Their dependencies are resolved with them, or removed.
        replaced = [name for name in state.misfits if name not in dependencies]
        requirements = tuple(RequestedRequirement(Requirement(name)) for name in replaced)
    remaining = {name: entry for name, entry in installed.items() if name not in dependencies}
    return replace(
        session.resolution_request(dependencies=not request.no_deps),
        requirements=requirements,
        # If another build is needed, one of the same version is preferred.
        preferred={
            name: entry.version
            for name, entry in staying.items()
            if entry.label is not None and name not in unpinned
        },
        preferred_builds=_kept_builds(request, session, state),
        installed={name: entry.for_resolver() for name, entry in staying.items()},
        builds_in_environment={name: entry.for_resolver() for name, entry in remaining.items()},
        versions_in_environment={name: entry.version for name, entry in installed.items()},
        companions=related.builds if may_replace else frozenset(),
        upgrade=request.upgrade,
        upgrade_only=upgrade_only,
        hashes_required_by=session.rules.hashes_required_by,
    )


# --- installed variants -------------------------------------------------------------


def _named_projects(session: SelectionSession) -> frozenset[NormalizedName]:
    return frozenset(
        requested.requirement.name for requested in session.requirement_set.requirements
    )


def _projects_to_upgrade(request: InstallRequest) -> frozenset[NormalizedName]:
    """Return the projects to upgrade wherever they are needed."""
    return frozenset(map(canonicalize_name, request.upgrade_package))


def _is_only_refit(request: InstallRequest, session: SelectionSession) -> bool:
    requirement_set = session.requirement_set
    return bool(request.refit) and not (
        requirement_set.requirements or requirement_set.wheels or requirement_set.sources
    )


def _with_earlier_requests(
    request: InstallRequest,
    session: SelectionSession,
    state: InstalledState,
    resolution: Resolution,
) -> Resolution:
    """Mark pins as requested if the user requested them, now or before, and not only a refit."""
    before = {name for name, entry in by_name(state.installed).items() if entry.requested}
    is_new = not _is_only_refit(request, session)
    pins = [
        replace(pin, requested=pin.name in before or (pin.requested and is_new))
        for pin in resolution.pins
    ]
    return replace(resolution, pins=tuple(pins))


def _kept_builds(
    request: InstallRequest, session: SelectionSession, state: InstalledState
) -> Mapping[NormalizedName, tuple[Label, PropertySet]]:
    """Return the installed builds whose label newer releases should have, if it exists and fits.

    Builds for versions of another package are left out: they follow that package.
    """
    from wheelfit.resolution.builds import is_built_for_versions

    if request.allow_variant_change:
        return {}
    free = _named_projects(session) if request.force_reinstall else frozenset()
    return {
        name: (entry.label, entry.properties)
        for name, entry in by_name(state.installed).items()
        if entry.label is not None
        and name not in free
        and not is_built_for_versions(entry.document, entry.properties)
    }


def _consent_check(
    request: InstallRequest,
    session: SelectionSession,
    candidates: Candidates,
    related: RelatedDistributions,
) -> Callable[[VariantChange], bool]:
    """Return a function that decides whether the user requested a change of variant.

    The user may have requested it in general, or for the package, by a preference that the
    installed build does not meet, or for a build that the package accompanies.
    """
    replaced = related.dependencies
    if request.refit:
        replaced |= related.builds
    named = _named_projects(session)
    labels = candidates.policy.preferences.labels

    def is_requested(change: VariantChange) -> bool:
        name = change.old.name
        return (
            request.allow_variant_change
            or change.new.is_direct
            or name in replaced
            or name in labels
            or (
                name in named
                and (request.force_reinstall or _is_excluded_by_preferences(change, candidates))
            )
        )

    return is_requested


def _is_excluded_by_preferences(change: VariantChange, candidates: Candidates) -> bool:
    """Return whether the user's preferences rule out the installed build."""
    old = change.old
    preferences = candidates.policy.preferences
    if old.label is None:
        support = Support()
    elif not preferences.variants:
        return True
    elif old.document is None:
        return False
    else:
        support = candidates.support_of(old.document, namespaces_used([old.properties]))
    applicable = candidates.applicable_preferences(old.name, old.document)
    return applicable.objection(old.properties, support) is not None
