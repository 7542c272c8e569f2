"""Installation: packages, each in the build that fits the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from wheelfit.operations.changes import (
    ChangeRequest,
    InstalledState,
    decided,
    prepare_environment,
    report_accelerator_use,
    resolved_in_words,
    retry_on_concurrent_change,
)
from wheelfit.operations.selection_session import FromRequirements, open_for_choice

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from packaging.utils import NormalizedName

    from wheelfit.core.labels import Label
    from wheelfit.core.properties import PropertySet
    from wheelfit.installation.related_distributions import Companions
    from wheelfit.installation.variant_change import VariantChange
    from wheelfit.operations.change_reports import ChangeReport
    from wheelfit.operations.changes import ChangeDecision
    from wheelfit.operations.context import Context, Reporter
    from wheelfit.operations.selection_session import SelectionSession
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.request import ResolutionRequest
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
    from wheelfit.operations.dry_run import carry_out_or_rehearse
    from wheelfit.operations.indexes import report_unexpected_sources, warning_of_later_indexes
    from wheelfit.operations.projects import check_folder_pins
    from wheelfit.operations.result_limits import check_bounds, check_substitutes
    from wheelfit.operations.step_durations import StepDurations

    with open_for_choice(request, context, changes=not request.dry_run, may_be_own=False) as opened:
        prepare_environment(request, opened.environment, opened.rules, context)
        opened.narrow()

        def decide_once() -> ChangeDecision:
            decision = _decide(request, opened, context.reporter)
            check_bounds(request, decision, opened.candidates, context.reporter)
            check_substitutes(decision.resolution, opened.candidates, opened.repository)
            return decision

        decide = retry_on_concurrent_change(decide_once)
        durations = StepDurations()
        with (
            durations.measure("resolve"),
            warning_of_later_indexes(opened.repository.pool, context.reporter),
        ):
            decision = decide()
        pins = [pin for pin in decision.resolution.pins if not pin.is_given]
        check_folder_pins((pin.name for pin in pins), request)
        durations.report(resolved_in_words(decision), "resolve", context.reporter)
        report_unexpected_sources(decision.resolution.pins, opened.repository, context.reporter)
        accelerators = report_accelerator_use(decision, opened, context.reporter)
        decision, sizes = carry_out_or_rehearse(
            decision, decide, request, context, opened, durations
        )
        return report_change(
            decision,
            opened,
            sizes,
            no_change_reason=_reason_for_no_change(request, decision),
            seconds=durations.to_json(),
            accelerators=accelerators,
        )


def _reason_for_no_change(request: InstallRequest, decision: ChangeDecision) -> str:
    if decision.resolution.pins or decision.planned.keep:
        return "what is installed meets every requirement"
    if request.refit:
        return "every installed variant that could be judged fits"
    return "the files have no requirements"


def _decide(
    request: InstallRequest, opened: SelectionSession, reporter: Reporter
) -> ChangeDecision:
    """Resolve, and verify that the result meets the request and fits the environment."""
    from wheelfit.installation.plan import plan
    from wheelfit.operations.source_builds import with_consent
    from wheelfit.resolution.resolver import resolve

    present = InstalledState.of(opened)
    companions = _companions(request, opened, present)
    resolution = with_consent(
        lambda: resolve(
            _resolution_request(request, opened, present, companions), opened.candidates
        ),
        opened.building,
        opened.candidates,
        reporter,
        may_ask=not (request.dry_run or request.no_input),
    )
    resolution = _with_earlier_requests(request, opened, present, resolution)
    if companions is not None and not request.no_deps:
        leaving = {**companions.unneeded(resolution), **resolution.superseded}
        resolution = replace(resolution, superseded=leaving)
    planned = plan(resolution, present.installed, reinstall=request.force_reinstall)
    candidates = opened.candidates.within(resolution.context)
    agreed = _consent_check(request, opened, candidates, companions)
    return decided(planned, resolution, present, opened, agreed)


def _companions(
    request: InstallRequest, opened: SelectionSession, present: InstalledState
) -> Companions | None:
    """Return the distributions to replace together with builds; None if no build is replaced."""
    from packaging.utils import canonicalize_name

    start = set(map(canonicalize_name, opened.candidates.policy.preferences.labels))
    if request.refit:
        start |= present.misfits.keys()
    if request.allow_variant_change:
        start |= _named(opened) | _upgraded(request)
    if not start:
        return None
    from wheelfit.installation.related_distributions import Companions

    return Companions.of(start, present.installed, opened.candidates.target.environment)


def _resolution_request(
    request: InstallRequest,
    opened: SelectionSession,
    present: InstalledState,
    companions: Companions | None,
) -> ResolutionRequest:
    from wheelfit.core.requirements import Requirement
    from wheelfit.installation.installed import by_name
    from wheelfit.resolution.request import RequestedRequirement

    installed = by_name(present.installed)
    staying = {} if request.force_reinstall else installed
    upgrade_only = _upgraded(request)
    free_versions = upgrade_only | (_named(opened) if request.upgrade else frozenset())
    requirements = opened.requirement_set.requirements
    followers: frozenset[NormalizedName] = frozenset()
    builds: frozenset[NormalizedName] = frozenset()
    if companions is not None:
        followers = companions.followers
        if request.refit or request.allow_variant_change:
            builds = companions.builds
    if _is_only_refit(request, opened):
        # Their followers are resolved with them, or removed.
        replaced = [name for name in present.misfits if name not in followers]
        requirements = tuple(RequestedRequirement(Requirement(name)) for name in replaced)
    remaining = {name: entry for name, entry in installed.items() if name not in followers}
    return replace(
        opened.resolution_request(dependencies=not request.no_deps),
        requirements=requirements,
        # If another build is needed, one of the same version is preferred.
        preferred={
            name: entry.version
            for name, entry in staying.items()
            if entry.label is not None and name not in free_versions
        },
        preferred_builds=_kept_builds(request, opened, present),
        installed={name: entry.for_resolver() for name, entry in staying.items()},
        around={name: entry.for_resolver() for name, entry in remaining.items()},
        there={name: entry.version for name, entry in installed.items()},
        companions=builds,
        upgrade=request.upgrade,
        upgrade_only=upgrade_only,
        hashes_required_by=opened.rules.origin_of("require-hashes")
        if opened.rules.require_hashes
        else "",
    )


# --- installed variants -------------------------------------------------------------


def _named(opened: SelectionSession) -> frozenset[NormalizedName]:
    """Return the projects that the user named."""
    return frozenset(asked.requirement.name for asked in opened.requirement_set.requirements)


def _upgraded(request: InstallRequest) -> frozenset[NormalizedName]:
    """Return the projects to upgrade wherever they are needed."""
    from packaging.utils import canonicalize_name

    return frozenset(map(canonicalize_name, request.upgrade_package))


def _is_only_refit(request: InstallRequest, opened: SelectionSession) -> bool:
    requirement_set = opened.requirement_set
    return bool(request.refit) and not (
        requirement_set.requirements or requirement_set.wheels or requirement_set.sources
    )


def _with_earlier_requests(
    request: InstallRequest,
    opened: SelectionSession,
    present: InstalledState,
    resolution: Resolution,
) -> Resolution:
    """Mark pins as requested if the user requested them, now or before, and not only a refit."""
    from wheelfit.installation.installed import by_name

    before = {name for name, entry in by_name(present.installed).items() if entry.requested}
    is_new = not _is_only_refit(request, opened)
    pins = [
        replace(pin, requested=pin.name in before or (pin.requested and is_new))
        for pin in resolution.pins
    ]
    return replace(resolution, pins=tuple(pins))


def _kept_builds(
    request: InstallRequest, opened: SelectionSession, present: InstalledState
) -> Mapping[NormalizedName, tuple[Label, PropertySet]]:
    """Return the installed builds whose label newer releases should have, if it exists and fits.

    Builds for versions of another package are left out: they follow that package.
    """
    from wheelfit.installation.installed import by_name
    from wheelfit.resolution.builds import is_built_for_versions

    if request.allow_variant_change:
        return {}
    free = _named(opened) if request.force_reinstall else frozenset()
    return {
        name: (entry.label, entry.properties)
        for name, entry in by_name(present.installed).items()
        if entry.label is not None
        and name not in free
        and not is_built_for_versions(entry.document, entry.properties)
    }


def _consent_check(
    request: InstallRequest,
    opened: SelectionSession,
    candidates: Candidates,
    companions: Companions | None,
) -> Callable[[VariantChange], bool]:
    """Return a function that decides whether the user requested a change of variant.

    The user may have requested it in general, or for the package, by a preference that the
    installed build does not meet, or for a build that the package accompanies.
    """
    exchanged = frozenset() if companions is None else companions.followers
    if companions is not None and request.refit:
        exchanged |= companions.builds
    named = _named(opened)
    labels = candidates.policy.preferences.labels

    def agreed(change: VariantChange) -> bool:
        name = change.old.name
        return (
            request.allow_variant_change
            or change.new.is_given
            or name in exchanged
            or name in labels
            or (
                name in named
                and (request.force_reinstall or _is_excluded_by_preferences(change, candidates))
            )
        )

    return agreed


def _is_excluded_by_preferences(change: VariantChange, candidates: Candidates) -> bool:
    """Return whether the user's preferences rule out the installed build."""
    from wheelfit.core.property_support import Support, namespaces_used

    old = change.old
    preferences = candidates.policy.preferences
    if old.label is None:
        support = Support()
    elif not preferences.variants or old.document is None:
        return not preferences.variants
    else:
        support = candidates.support_of(old.document, namespaces_used([old.properties]))
    wishes = candidates.applicable_preferences(old.name, old.document)
    return wishes.objection(old.properties, support) is not None
