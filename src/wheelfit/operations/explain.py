"""Which wheels are chosen, and why."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from msgspec import structs

from wheelfit.core.filename import WheelFilename, parse_wheel_filename
from wheelfit.errors import NoSolution, UsageError
from wheelfit.operations.accelerator_remarks import report_accelerator_remarks
from wheelfit.operations.environments import warn_of_interruption
from wheelfit.operations.indexes import warn_of_later_indexes, warning_of_later_indexes
from wheelfit.operations.plain_data import plain_report
from wheelfit.operations.selection_session import FromRequirements, SelectionSession, open_session
from wheelfit.resolution.choice_warnings import warnings_about_mixture
from wheelfit.resolution.request import DirectWheel, RequestedRequirement, direct_wheel
from wheelfit.sources.page import ProjectPage
from wheelfit_runtime.errors import WheelfitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wheelfit.core.ordering import Choice
    from wheelfit.core.requirements import Requirement
    from wheelfit.installation.builds.repository import BuildingRepository
    from wheelfit.operations.context import Context, Reporter
    from wheelfit.operations.machine import ChosenMachine
    from wheelfit.resolution.accelerator_use import AcceleratorRemark
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.explain import Explanation
    from wheelfit.resolution.joint_choice import AgreementOutcome
    from wheelfit.resolution.listing import Release
    from wheelfit.resolution.overview import LabelRow, Overview
    from wheelfit.resolution.resolution import Resolution


class ExplainRequest(FromRequirements):
    """The releases to explain, and the machine."""

    with_deps: bool = False
    all: bool = False


@dataclass(frozen=True, slots=True)
class ExplainReport:
    """The verdicts on the wheels of each project, for one machine."""

    machine: ChosenMachine
    explanations: tuple[Explanation, ...]
    agreements: tuple[AgreementOutcome, ...] = ()
    """Values on which the builds that are chosen together agree."""
    warnings: tuple[str, ...] = ()
    """Warnings about all of it."""
    missing_properties: tuple[Choice, ...] = ()
    """Required properties that no variant has."""
    with_deps: bool = False
    """Whether all were resolved together."""
    lacks_accelerator: bool = False
    """Whether an accelerator is required, and a build would use none though others do."""
    accelerators: tuple[AcceleratorRemark, ...] = ()
    """Accelerator builds that cannot be used, and accelerators left idle; reported already."""

    @property
    def refused(self) -> bool:
        """Whether a package has no wheel that fits, or an installation would be refused."""
        fits = all(explanation.chosen is not None for explanation in self.explanations)
        return (
            not fits or self.lacks_accelerator or (self.with_deps and bool(self.missing_properties))
        )

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(
            self,
            "agreements accelerators",
            target=self.machine.name,
            **self.machine.to_mapping(),
            projects=self.explanations,
        )


@dataclass(frozen=True, slots=True)
class OverviewReport:
    """The labels of some releases, and the machines that each fits."""

    overviews: tuple[Overview, ...]

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        machines: dict[str, str] = {}
        for release in self.overviews:
            machines |= release.machines
        return plain_report(self, machines=machines, releases=self.overviews)


def explain(request: ExplainRequest, context: Context) -> ExplainReport:
    """Return the wheels that would be chosen, and the reasons against others.

    :param request: the projects, and the machine.
    :param context: the environment variables and the reporter.
    :raises WheelfitError: there is no solution, or a file cannot be read.
    """
    _check(request)
    with (
        open_session(request, context, changes=False) as session,
        warning_of_later_indexes(session.repository, context.reporter),
    ):
        warn_of_interruption(session.environment, context.reporter)
        agreements: tuple[AgreementOutcome, ...] = ()
        if request.with_deps:
            explanations, candidates, resolution, warnings = _explain_together(
                request, session, context.reporter
            )
            agreements = resolution.agreements
        else:
            explanations, candidates = _explain_separately(session)
            resolution = _direct_dependencies(explanations, candidates, session)
            warnings = list(_mixture_warnings(explanations, session))
        missing_accelerator = None
        if request.require_accelerator:
            missing_accelerator = _missing_accelerator(explanations, candidates, context.reporter)
        given = {wheel.requirement().name for wheel in session.requirement_set.wheels}
        warn_of_later_indexes(
            (
                (explanation.name, explanation.chosen.version, explanation.chosen.is_variant)
                for explanation in explanations
                if explanation.chosen is not None and explanation.name not in given
            ),
            session.repository,
            context.reporter,
        )
        names = [pin.name for pin in resolution.pins]
        names += [edge.needed for edge in resolution.edges]
        accelerators = report_accelerator_remarks(resolution, names, candidates, context.reporter)
        properties = [explanation.properties for explanation in explanations]
        return ExplainReport(
            session.machine,
            tuple(explanations),
            agreements,
            (*warnings, *([missing_accelerator] if missing_accelerator else [])),
            tuple(session.candidates.policy.preferences.unmet_user_requirements(properties)),
            request.with_deps,
            missing_accelerator is not None,
            accelerators,
        )


def overview(request: ExplainRequest, context: Context) -> OverviewReport:
    """Return every label of each release, and the machines that take it."""
    from wheelfit.operations.overview_hosts import overview_hosts
    from wheelfit.resolution.overview import metadata_of
    from wheelfit.resolution.overview import overview as overview_of

    _check(request)
    overviews = []
    with open_session(request, context, changes=False) as session:
        warn_of_interruption(session.environment, context.reporter)
        for candidates, release in _releases(session):
            metadata = metadata_of(candidates, release)
            machines = overview_hosts(
                metadata.document,
                session.environment.target,
                context.environ,
                context.reporter,
                rocm_same_major=request.rocm_compat == "same-major",
            )
            overviews.append(overview_of(candidates, release, metadata, machines))
    return OverviewReport(tuple(overviews))


def tags_in_words(row: LabelRow) -> tuple[Sequence[str], Sequence[str]]:
    """Return the Pythons and the platforms of the wheels of a label, in words."""
    from wheelfit.core.tag_phrases import platforms_in_words, pythons_in_words

    return pythons_in_words(row.tags), platforms_in_words(row.tags)


def _check(request: ExplainRequest) -> None:
    other = "--with-deps" if request.with_deps else "--for"
    if request.all and (request.with_deps or request.host is not None):
        raise UsageError(
            f"--all and {other} exclude each other",
            hint="--all shows releases by themselves, for no machine in particular",
        )


def _explain_separately(session: SelectionSession) -> tuple[list[Explanation], Candidates]:
    """Return an explanation of each project by itself, and the candidates to explain it."""
    from wheelfit.resolution.explain import explain_project, explain_release

    constraints = _constraints(session)
    wheels, requirements = _wheels_and_others(session)
    candidates = session.candidates
    explanations = []
    for candidates, wheel in _with_own_candidates(session, wheels):
        explanations.append(explain_release(candidates, wheel.name, wheel.version))
    for requirement in requirements:
        explanation = explain_project(
            candidates, requirement, constraints=constraints, prereleases=session.prereleases
        )
        explanations.append(_without_consent(explanation, candidates, session.building))
    return explanations, candidates


def _without_consent(
    explanation: Explanation, candidates: Candidates, building: BuildingRepository
) -> Explanation:
    """Return an explanation without its choice if that must be built without consent."""
    if explanation.version is None or explanation.chosen is None:
        return explanation
    wheel = candidates.choice(explanation.name, explanation.version).chosen
    if wheel is None or not building.needs_consent(wheel.file):
        return explanation
    why = f"it must be built from source (--allow-source {explanation.name})"
    if building.why_impossible:
        why = building.why_impossible
    return replace(
        explanation,
        chosen=None,
        candidates=explanation.candidates[1:],
        sources=(*explanation.sources, (wheel.file.display_name, why)),
    )


def _explain_together(
    request: ExplainRequest, session: SelectionSession, reporter: Reporter
) -> tuple[list[Explanation], Candidates, Resolution, list[str]]:
    """Return the explanations, candidates and warnings of a resolution, and itself."""
    from wheelfit.resolution.explain import explain_choice

    resolution_request = structs.replace(
        session.resolution_request(dependencies=not request.no_deps), require_hashes=False
    )
    resolution = session.resolve(resolution_request, reporter)
    candidates = session.candidates.within(resolution.context)
    # Of all together; a caution about one package is in its explanation.
    cautions = warnings_about_mixture(resolution.agreements)
    explanations = [
        explain_choice(candidates, pin.choice)
        for pin in sorted(resolution.pins, key=lambda pin: (not pin.requested, pin.name))
        if pin.requested or any(verdict.filename.label for verdict in pin.choice.selection.verdicts)
    ]
    return explanations, candidates, resolution, list(map(str, cautions))


def _direct_dependencies(
    explanations: Iterable[Explanation], candidates: Candidates, session: SelectionSession
) -> Resolution:
    """Return the explained wheels with their direct dependencies, which are not resolved."""
    from wheelfit.resolution.resolution import Edge, Pin, Resolution

    requirements = [item.requirement for item in _effective_requirements(session)]
    extras = {requirement.name: requirement.extras for requirement in requirements}
    environment = candidates.target.environment
    pins, edges = [], []
    for explanation in explanations:
        if explanation.version is None or explanation.chosen is None:
            continue
        pin = Pin.of(candidates.choice(explanation.name, explanation.version), requested=True)
        wheel = pin.choice.chosen
        with suppress(WheelfitError):  # an installation reports it
            # The properties name the purpose of a variant, so its metadata is not read.
            if wheel is not None and pin.label is None and not pin.is_direct:
                core = candidates.core_metadata(wheel)
                pin = structs.replace(
                    pin,
                    core=core,
                    extras=extras.get(explanation.name, frozenset()) & core.provides_extra,
                )
            edges += [
                Edge(pin.name, need.name)
                for need in (() if pin.core is None else pin.core.requires)
                if need.applies(environment, pin.extras or "", pin.context)
            ]
        pins.append(pin)
    return Resolution(tuple(pins), edges=tuple(edges), context=candidates.context)


def _mixture_warnings(
    explanations: Iterable[Explanation], session: SelectionSession
) -> Iterator[str]:
    """Yield warnings of builds, each the best of its project, that install would not combine."""
    from wheelfit.resolution.joint_choice import ChosenBuild, outcomes_of

    chosen = [
        ChosenBuild(
            explanation.name, explanation.version, explanation.chosen.label, explanation.properties
        )
        for explanation in explanations
        if explanation.version is not None and explanation.chosen is not None
    ]
    for held in outcomes_of(chosen, session.candidates.policy.binding):
        if not held.values:
            yield (
                f"install would not take these builds together ({held.packages_in_words}); "
                "--with-deps shows what it takes"
            )


def _missing_accelerator(
    explanations: Sequence[Explanation], candidates: Candidates, reporter: Reporter
) -> str | None:
    """Return the reason to refuse a build without an accelerator; None if there is none."""
    from wheelfit.operations.result_limits import warn_of_no_accelerators
    from wheelfit.resolution.unaccelerated import acceleration_of, no_accelerator_error

    accelerations = [
        acceleration_of(
            explanation.name,
            explanation.version,
            explanation.chosen.label,
            explanation.properties,
            explanation.candidates,
            candidates,
        )
        for explanation in explanations
        if explanation.version is not None and explanation.chosen is not None
    ]
    concerned = [acceleration for acceleration in accelerations if acceleration is not None]
    if not concerned:
        warn_of_no_accelerators(reporter)
    error = no_accelerator_error(concerned)
    return None if error is None else f"{error.message} ({error.note})"


def _constraints(session: SelectionSession) -> list[Requirement]:
    """Return the constraints that apply to the Python in use."""
    environment = session.candidates.target.environment
    constraints = [item.requirement for item in session.requirement_set.constraints]
    return [constraint for constraint in constraints if constraint.applies(environment)]


def _wheels_and_others(session: SelectionSession) -> tuple[list[DirectWheel], list[Requirement]]:
    """Return the requested wheels by their URL, and the requirements without one."""
    wheels = list(session.wheels())
    others = []
    for requested in _effective_requirements(session):
        if requested.requirement.url is None:
            others.append(requested.requirement)
        else:
            wheels.append(direct_wheel(str(requested.requirement.url), where=requested.where))
    return wheels, others


def _with_own_candidates(
    session: SelectionSession, wheels: Iterable[DirectWheel]
) -> Iterator[tuple[Candidates, WheelFilename]]:
    """Yield named wheels, each with candidates that contain no other wheel of its project."""
    candidates = session.candidates
    for wheel in wheels:
        filename = parse_wheel_filename(wheel.file.filename)
        page = ProjectPage(filename.name, (wheel.file,), "the request")
        candidates = candidates.within(candidates.context.with_direct_files(page))
        yield candidates, filename


def _effective_requirements(session: SelectionSession) -> list[RequestedRequirement]:
    """Return the requirements after overrides and exclusions."""
    from wheelfit.resolution.overrides import Replacements

    requirement_set = session.requirement_set
    replacements = Replacements(
        requirement_set.overrides, requirement_set.excluded, session.candidates.target.environment
    )
    return [
        requirement
        for requested in requirement_set.requirements
        for requirement in replacements.apply_to(requested)
    ]


def _releases(session: SelectionSession) -> Iterator[tuple[Candidates, Release]]:
    from wheelfit.resolution.overview import newest_release

    constraints = _constraints(session)
    wheels, requirements = _wheels_and_others(session)
    candidates = session.candidates
    for candidates, wheel in _with_own_candidates(session, wheels):
        listing = candidates.listing(wheel.name)
        if listing is None or wheel.version not in listing.releases:  # pragma: no cover
            raise NoSolution(f"{wheel.name} {wheel.version} was not found in any index")
        yield candidates, listing.releases[wheel.version]
    for requirement in requirements:
        release = newest_release(
            candidates, requirement, constraints=constraints, prereleases=session.prereleases
        )
        yield candidates, release


class ResolveRequest(FromRequirements):
    """The requirements and the machine; installed distributions are ignored."""


def resolve(request: ResolveRequest, context: Context) -> Resolution:
    """Resolve requirements and choose wheels; nothing is installed.

    :param request: the requirements and options.
    :param context: the environment variables and the reporter.
    :raises NoSolution: the requirements contradict each other.
    :raises NoCompatibleWheel: no wheel of a project fits the machine.
    :raises SourceBuildNotAllowed: a package must be built from source, which is off.
    """
    with open_session(request, context, changes=False) as session:
        return session.resolve(
            session.resolution_request(dependencies=not request.no_deps), context.reporter
        )
