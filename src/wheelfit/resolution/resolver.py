"""The resolution of a request: a set of wheels that meets it."""

from __future__ import annotations

from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from msgspec import Struct
from msgspec.structs import replace

from wheelfit.core.abi_dependency import INSTALLED, KnownVersion, KnownVersions
from wheelfit.core.accelerators import accelerators_of
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.requirements import Requirement
from wheelfit.core.versions import without_build
from wheelfit.errors import InvalidMarker, InvalidRequirement, NoConsistentSet, NoSolution
from wheelfit.resolution.catalogue import Catalogue, dependencies_of
from wheelfit.resolution.choice_warnings import warnings_about_mixture
from wheelfit.resolution.joint_choice import (
    Attempt,
    ChosenBuild,
    Effort,
    RefusedAttempt,
    choose_agreeing_builds,
)
from wheelfit.resolution.overrides import Replacements
from wheelfit.resolution.prefetch import Prefetch
from wheelfit.resolution.problem import Dependency, Package
from wheelfit.resolution.release_choice import notes_on_passed_over
from wheelfit.resolution.request import DirectWheel, RequestedRequirement, direct_wheel
from wheelfit.resolution.resolution import Edge, HeldBack, Pin, Resolution
from wheelfit.resolution.solver import Exhausted, Solved, Unsolvable, solve
from wheelfit.resolution.version_set import VersionSet
from wheelfit.sources.hash_check import WEAK_HASHES
from wheelfit.sources.page import File, ProjectPage
from wheelfit.sources.urls import last_segment, redact
from wheelfit_runtime.errors import NoCompatibleWheel, NoFit, UserError
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.agreements import AgreedValue
    from wheelfit.core.properties import PropertySet
    from wheelfit.resolution.builds import ReleaseBuild
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.choice_context import ChoiceContext
    from wheelfit.resolution.held_back import HeldBackSearch
    from wheelfit.resolution.joint_choice import AgreementOutcome
    from wheelfit.resolution.request import InstalledBuild, ResolutionRequest


def resolve(request: ResolutionRequest, candidates: Candidates, *, threads: int = 12) -> Resolution:
    """Return wheels that meet a request.

    Resolving again with the same candidates reads only what changed: after `Candidates.reject` the
    next wheel of that release is chosen (F-93). An upgrade chooses an older version than the
    installed one only if the request requires it.

    :param threads: the number of concurrent requests to the sources.
    :raises NoSolution: the requirements contradict each other; the note is the proof.
    :raises NoConsistentSet: no builds agree on the shared requirements of an environment.
    :raises NoCompatibleWheel: a requested project has no compatible wheel.
    :raises ProjectNotFound: no source has a requested project.
    :raises NoFit: ``unknown-label``; no release that meets the request has the requested label.
    :raises HashMismatch: no compatible wheel has an allowed hash (F-94).
    :raises UserError: the request contradicts itself.
    :raises NetworkError: a source cannot be read.
    """
    resolution = _without_downgrades(request, candidates, threads)
    final = candidates.within(resolution.context)
    if not any(final.bridge(pin.name) for pin in resolution.pins):
        return resolution
    from wheelfit.resolution.bridges import with_one_member

    return with_one_member(
        resolution,
        lambda narrowed: _without_downgrades(request, narrowed, threads),
        candidates,
        request.builds_in_environment,
    )


def _without_downgrades(
    request: ResolutionRequest, candidates: Candidates, threads: int
) -> Resolution:
    """Resolve such that an upgrade does not downgrade any package, if that is possible.

    Downgraded packages get their installed version as lower bound. If there is no solution then,
    the requirements require the downgrade.
    """
    resolution = _RequestResolver(request, candidates, threads).resolve()
    lower_bounded: dict[NormalizedName, Pin] = {}
    while downgraded := _avoidable_downgrades(request, candidates, resolution, lower_bounded):
        lower_bounded |= downgraded
        lower_bounds = {name: request.installed[name].version for name in lower_bounded}
        upgraded = _upgraded(request) - lower_bounded.keys()
        try:
            resolution = _RequestResolver(
                replace(request, upgrade=False, upgrade_only=upgraded),
                candidates,
                threads,
                lower_bounds,
            ).resolve()
        except NoFit:
            return _RequestResolver(request, candidates, threads).resolve()
    kept = {build.name: build for build in resolution.kept}
    notes = [
        f"{kept[name]} is kept: it is newer than {pin.name} {pin.version}, the newest available "
        "version that could be chosen"
        for name, pin in lower_bounded.items()
        if name in kept
    ]
    return replace(resolution, notes=(*notes, *resolution.notes)) if notes else resolution


def _avoidable_downgrades(
    request: ResolutionRequest,
    candidates: Candidates,
    resolution: Resolution,
    already_bounded: Container[NormalizedName],
) -> dict[NormalizedName, Pin]:
    """Return the pins that are older than an installed version which the request allows too."""
    downgrades = {}
    candidates = candidates.within(resolution.context)
    environment = candidates.target.environment
    lines = (*request.requirements, *request.constraints, *request.overrides)
    upgraded = _upgraded(request)
    for pin in resolution.pins:
        installed = request.installed.get(pin.name)
        if (
            installed is None
            or pin.is_direct
            or pin.name not in upgraded
            or pin.name in already_bounded
            or not _is_older(pin, installed, candidates)
        ):
            continue
        requirements = [
            line.requirement
            for line in lines
            if line.requirement.name == pin.name and line.requirement.applies(environment)
        ]
        if all(
            requirement.specifier.contains(installed.version, prereleases=True)
            for requirement in requirements
        ):
            downgrades[pin.name] = pin
    return downgrades


def _upgraded(request: ResolutionRequest) -> frozenset[NormalizedName]:
    """Return the projects whose newest release is requested."""
    if not request.upgrade:
        return request.upgrade_only
    return request.upgrade_only | {line.requirement.name for line in request.requirements}


def _is_older(pin: Pin, installed: InstalledBuild, candidates: Candidates) -> bool:
    if candidates.bridge(pin.name) is not None:
        # The local version of a bridged family names the build, not an older or newer one.
        return without_build(pin.version) < without_build(installed.version)
    return pin.version < installed.version


class _Solution(Struct, frozen=True):
    """A solution of the solver, with the releases that it chose among."""

    solved: Solved
    catalogue: Catalogue
    versions: Mapping[NormalizedName, Version]

    def build(self, name: NormalizedName) -> ReleaseBuild | None:
        """Return the chosen build; None if the solver chose among releases only."""
        index = self.solved.builds.get(name)
        if index is None:
            return None
        return self.catalogue.release_build(name, self.versions[name], index)

    def kept_build(self, name: NormalizedName) -> InstalledBuild | None:
        """Return the installed build of a project if it is kept; else None."""
        installed, build = self.catalogue.kept_build(name), self.build(name)
        if installed is None or installed.version != self.versions[name]:
            return None
        return installed if build is None or build.is_installed else None


class _RequestResolver:
    """The resolver of one request.

    :param lower_bounds: the lowest version of each project whose upgrade must not be a downgrade.
    """

    def __init__(
        self,
        request: ResolutionRequest,
        candidates: Candidates,
        threads: int,
        lower_bounds: Mapping[NormalizedName, Version] = MappingProxyType({}),
    ) -> None:
        self._request = request
        self._target = candidates.target
        self._policy = candidates.policy
        self._threads = threads
        self._lower_bounds = lower_bounds
        self._details: list[str] = []
        self._replacements = Replacements(
            request.overrides, request.excluded, self._target.environment
        )
        self._requirements: list[RequestedRequirement] = []
        for requirement in request.requirements:
            if self._applies(requirement):
                self._requirements += self._overrides_of(requirement)
        constraints = list(filter(self._applies, self._request.constraints))
        self._constraints = _constraint_dependencies(constraints)
        self._configured_constraints = _constraint_dependencies(
            constraint for constraint in constraints if constraint.is_configured
        )
        self._wheels = [*request.wheels, *_wheels_from_urls(self._requirements)]
        allowed_wheels = [*self._wheels]
        allowed_wheels += _wheels_from_urls(
            line for line in constraints if line.requirement.name not in request.excluded
        )
        context = candidates.context.with_direct_files(*self._pages_of(allowed_wheels))
        context = replace(context, agreed=(), preferred_builds=request.preferred_builds)
        self._check_wheels(candidates.within(context))
        self._roots = self._root_dependencies()
        self._candidates = candidates.within(
            replace(context, known_versions=self._kept_versions(context))
        )

    def resolve(self) -> Resolution:
        requested = tuple(dict.fromkeys(dependency.package.name for dependency in self._roots))
        self._check_hashes(requested)
        companions = self._request.companions
        may_change = {*requested, *self._request.upgrade_only, *companions}
        try:
            joint_choice = choose_agreeing_builds(
                self._choose,
                self._policy.agreements,
                self._policy.binding,
                installed=self._request.builds_in_environment,
                order=requested,
                may_change_value=may_change,
                companions=companions,
            )
        except NoConsistentSet as error:
            lacking: set[NormalizedName] = set()
            for detail in error.details:
                lacking.update(cast("Sequence[NormalizedName]", detail["lacks"]))
            fixed = sorted(name for name in lacking - may_change if self._has_other_versions(name))
            if fixed:
                options = " ".join(f"-P {name}" for name in fixed)
                error.hint = f"{options} allows other versions of installed packages; {error.hint}"
            raise
        return self._resolution(joint_choice.solution, joint_choice.outcomes)

    # --- choosing one set -------------------------------------------------------------

    def _choose(
        self, agreed: tuple[AgreedValue, ...], effort: Effort, free_choice: _Solution | None
    ) -> Attempt[_Solution] | RefusedAttempt:
        """Return a set of builds with agreed values, as a `Choose` function.

        :param free_choice: the builds without agreed values; None: they are to be chosen now.
        """
        candidates = self._candidates.within(replace(self._candidates.context, agreed=agreed))
        free_versions = {} if free_choice is None else free_choice.versions
        dependencies = [
            *self._roots,
            *self._dependencies_of_replaced_builds(candidates, free_versions),
        ]
        lower_bounds = dict(self._lower_bounds)
        if effort is Effort.NOT_OLDER:
            for name, version in free_versions.items():
                lower_bounds[name] = max(version, lower_bounds.get(name, version))
        prereleases = self._request.prereleases
        with Prefetch(
            candidates,
            threads=self._threads,
            prereleases=prereleases,
            preferred=self._request.preferred,
        ) as prefetch:
            catalogue = Catalogue(
                self._request,
                candidates,
                prefetch,
                self._roots,
                lower_bounds,
                choose_builds_of_all=effort is Effort.ANY_BUILD,
            )
            constraints = self._constraints
            try:
                solved = solve(catalogue, dependencies, constraints, prereleases=prereleases)
            except Unsolvable as error:
                from wheelfit.resolution.no_solution import FailedSearch

                failed = FailedSearch(error.step, catalogue, dependencies, constraints, prereleases)
                return RefusedAttempt(agreed, failed.explain, lambda: _properties_tried(catalogue))
            except Exhausted as error:
                exhausted = NoSolution(
                    "no solution was found within a reasonable number of steps",
                    note=str(error),
                    hint="narrow the request, for instance by pinning a project to a version",
                )
                return RefusedAttempt(agreed, lambda: exhausted, lambda: ())
        versions = {package.name: version for package, version in solved.versions.items()}
        solution = _Solution(solved, catalogue, versions)
        builds = self._chosen_builds(solution)
        return Attempt(agreed, builds, lambda: _properties_tried(catalogue), solution, effort)

    def _chosen_builds(self, solution: _Solution) -> dict[NormalizedName, ChosenBuild]:
        """Return the builds after the change: those of a solution and other installed ones."""
        builds = {
            name: ChosenBuild.of_installed(installed)
            for name, installed in self._request.builds_in_environment.items()
        }
        candidates = solution.catalogue.candidates
        # These offer only the labels that were built for the versions in the solution.
        final_candidates = self._final_candidates(solution)
        for name, version in solution.versions.items():
            kept, build = solution.kept_build(name), solution.build(name)
            if kept is not None:
                builds[name] = ChosenBuild.of_installed(kept)
                continue
            choice = candidates.usable_choice(name, version)
            if build is None:
                builds[name] = ChosenBuild.of_release(choice, choice.chosen_label)
                continue
            final_choice = final_candidates.choice_with_label(name, version, build.label)
            builds[name] = replace(
                ChosenBuild.of_release(choice, build.label),
                compatible_offers=tuple(map(choice.declared, final_choice.offered)),
            )
        return builds

    def _dependencies_of_replaced_builds(
        self, candidates: Candidates, free_versions: Mapping[NormalizedName, Version]
    ) -> Iterator[Dependency]:
        """Yield dependencies on installed packages whose build does not have the agreed values."""
        request = self._request
        requested = {dependency.package.name for dependency in self._roots}
        for name, installed in request.builds_in_environment.items():
            if name in requested or name in request.excluded:
                continue
            if candidates.objection(installed.properties, is_installed=True) is None:
                continue
            # A package outside the request keeps its version. That of a dependency, which the free
            # choice has too, may have to change.
            may_change = name in request.upgrade_only | request.companions or name in free_versions
            versions = VersionSet.full() if may_change else VersionSet.singleton(installed.version)
            reason = f"{installed}, which is installed"
            yield Dependency(Package(name), versions, reason, is_pin=not may_change)

    def _has_other_versions(self, name: NormalizedName) -> bool:
        installed = self._request.builds_in_environment.get(name)
        listing = None if installed is None else self._candidates.listing(name)
        if installed is None or listing is None:
            return False
        return any(version != installed.version for version in listing.releases.possible_versions)

    # --- reading the request ------------------------------------------------------

    def _applies(self, line: RequestedRequirement) -> bool:
        """Return whether the marker of a requirement matches; add a detail if not."""
        if line.requirement.applies(self._target.environment):
            return True
        self._details.append(f"{line}: its marker does not match, so it is ignored")
        return False

    def _overrides_of(self, line: RequestedRequirement) -> list[RequestedRequirement]:
        """Return the overrides of a requested requirement, or else the requirement itself."""
        if not self._replacements.concerns(line.requirement.name):
            return [line]
        overrides = list(self._replacements.apply_to(line))
        self._details.append(f"{line} is replaced by {', '.join(map(str, overrides)) or 'nothing'}")
        return overrides

    def _pages_of(self, wheels: Iterable[DirectWheel]) -> list[ProjectPage]:
        """Return the pages of projects with requested wheels, with only these files (F-125)."""
        files: dict[NormalizedName, dict[str, File]] = {}
        for wheel in wheels:
            if _name(wheel) in self._request.excluded:
                raise UserError(
                    f"{_name(wheel)} is excluded, and {wheel.file.display_name} is given",
                    where=wheel.where or None,
                )
            files.setdefault(_name(wheel), {})[wheel.file.url] = wheel.file
        return [
            ProjectPage(name, tuple(by_url.values()), "the request")
            for name, by_url in files.items()
        ]

    def _check_wheels(self, candidates: Candidates) -> None:
        """Raise an error for requested wheels that are not compatible (F-125)."""
        for name in dict.fromkeys(map(_name, self._wheels)):
            files = candidates.context.direct_files[name].files
            versions = {parse_wheel_filename(file.filename).version for file in files}
            if len(versions) > 1:
                raise UserError(
                    f"wheels of different versions of {name} are given",
                    note="\n".join(file.display_name for file in files),
                )
            (version,) = versions
            choice = candidates.usable_choice(name, version)
            if choice.chosen is None:
                raise NoCompatibleWheel(
                    f"{files[0].display_name} does not fit {self._target.name}",
                    note="\n".join(
                        verdict.reason
                        if len(files) == 1
                        else f"{verdict.filename.text}: {verdict.reason}"
                        for verdict in choice.selection.verdicts
                    ),
                )

    def _root_dependencies(self) -> list[Dependency]:
        """Return the dependencies that the request states."""
        roots: list[Dependency] = []
        for line in self._requirements:
            if line.requirement.url is None:
                roots += dependencies_of(line.requirement, str(line))
        for wheel in self._wheels:
            requirement = Requirement(_name(wheel), wheel.extras)
            roots += dependencies_of(requirement, wheel.file.display_name)
        return roots

    def _check_hashes(self, names: Iterable[NormalizedName]) -> None:
        if not self._request.require_hashes:
            return
        names_with_hashes = {
            _name(wheel) for wheel in self._wheels if wheel.file.hashes.keys() - WEAK_HASHES
        }
        for name in names:
            if name not in self._policy.hashes.keys() | names_with_hashes:
                source = self._request.hashes_required_by
                raise UserError(
                    f"hashes are required{f' by {source}' if source else ''}, and {name} has none",
                    hint="add a --hash option to every requirement",
                )

    # --- versions of other packages that builds are chosen for (P-51) -------------------

    def _kept_versions(self, context: ChoiceContext) -> KnownVersions:
        """Return the versions of installed packages that are kept (P-56).

        Packages whose upgrade is requested or whose version is not allowed are not kept.
        """
        request = self._request
        upgradable = (
            {dependency.package.name for dependency in self._roots} if request.upgrade else set()
        )
        upgradable |= request.upgrade_only
        upgradable |= {
            dependency.package.name
            for dependency in (*self._roots, *self._constraints)
            if dependency.package.name in request.installed
            and request.installed[dependency.package.name].version not in dependency.versions
        }
        known = {
            name: KnownVersion(installed.version)
            for name, installed in request.installed.items()
            if name not in upgradable and name not in context.direct_files
        }
        return KnownVersions({**known, **self._policy.providers.abi_versions}, is_open=True)

    def _final_candidates(self, solution: _Solution) -> Candidates:
        """Return the candidates with the versions of all packages known (F-111)."""
        known = {
            name: KnownVersion(version)
            for name, version in self._request.versions_in_environment.items()
        }
        for name, version in solution.versions.items():
            installed = solution.catalogue.kept_build(name)
            is_kept = installed is not None and installed.version == version
            known[name] = KnownVersion(version, INSTALLED if is_kept else "is chosen")
        candidates = solution.catalogue.candidates
        known |= self._policy.providers.abi_versions
        return candidates.within(replace(candidates.context, known_versions=KnownVersions(known)))

    # --- the result ------------------------------------------------------------------

    def _resolution(
        self, solution: _Solution, agreements: tuple[AgreementOutcome, ...]
    ) -> Resolution:
        candidates = solution.catalogue.candidates
        final = self._final_candidates(solution)
        chosen = solution.versions
        extras: dict[NormalizedName, set[NormalizedName]] = {}
        for package in solution.solved.versions:
            if package.extra is not None:
                extras.setdefault(package.name, set()).add(package.extra)
        edges = dict.fromkeys(
            Edge(needing.name, needed.name)
            for needing, needed in solution.solved.edges
            if needing.name != needed.name
        )
        requested = {dependency.package.name for dependency in self._roots}
        pins: list[Pin] = []
        kept: list[InstalledBuild] = []
        for name in _dependencies_first(chosen, edges):
            installed, build = solution.kept_build(name), solution.build(name)
            if installed is not None:
                kept.append(installed)
                continue
            if build is None:
                choice = candidates.usable_choice(name, chosen[name])
            else:
                choice = final.choice_with_label(name, chosen[name], build.label)
            pin = Pin.of(choice, requested=name in requested)
            family, reason = candidates.bridge(name), choice.reason
            if family is not None and (bridge_note := family.wheel_note(pin.filename)):
                reason = f"{reason}; {bridge_note}"
            core = candidates.core_metadata(pin.choice.wheel(pin.filename.text))
            package_extras = frozenset(extras.get(name, ()))
            pins.append(replace(pin, extras=package_extras, reason=reason, core=core))
        search = self._held_back_search(solution)
        held_back = self._held_back(search, pins)
        reported = {(release.name, release.latest) for release in held_back}
        notes = [*candidates.warnings_about(pin.choice for pin in pins)]
        notes += [*warnings_about_mixture(agreements), *solution.catalogue.notes(chosen)]
        for pin in pins:
            listing = candidates.listing(pin.name)
            notes += [f"{pin.name}: {note}" for note in (listing.notes if listing else ())]
            notes += notes_on_passed_over(
                candidates.choice(pin.name, newer)
                for newer in solution.catalogue.passed_over(pin.name, pin.version)
                if (pin.name, newer) not in reported
            )
            notes += pin.choice.notes
        notes += self._unaccelerated(pins, solution.catalogue, search)
        self._check_hashes(pin.name for pin in pins)
        return Resolution(
            tuple(pins),
            tuple(sorted(kept, key=lambda build: build.name)),
            tuple(edges),
            tuple(dict.fromkeys(notes)),
            tuple(dict.fromkeys(self._details)),
            agreements,
            self._replacements.names,
            held_back,
            tuple(dict.fromkeys(self._unmet(pins, chosen))),
            context=candidates.context,
        )

    def _unaccelerated(
        self, pins: Iterable[Pin], catalogue: Catalogue, search: HeldBackSearch | None
    ) -> Iterator[str]:
        """Yield notes on requested projects of which another release uses an accelerator."""
        for pin in pins:
            accelerated = catalogue.favoured(pin.name) if pin.requested else None
            if accelerated is None or accelerated == pin.release or accelerators_of(pin.properties):
                continue
            # The message continues "has a build for".
            devices = "that of this machine"
            if not catalogue.candidates.is_for_one_machine:
                devices = listed(sorted(catalogue.kinds(pin.name, accelerated)))
                if not devices:
                    continue
            why_not = search.reason(pin.name, accelerated) if search is not None else ""
            yield (
                f"{pin} uses no accelerator; {pin.name} {accelerated} has a build for {devices}"
                f"{f', but {why_not}' if why_not else f' ({pin.name}=={accelerated} selects it)'}"
            )

    def _held_back_search(self, solution: _Solution) -> HeldBackSearch | None:
        """Return the search for packages not at the newest release; None without dependencies."""
        if not self._request.dependencies:
            return None
        from wheelfit.resolution.held_back import HeldBackSearch

        return HeldBackSearch(
            solution.catalogue,
            self._roots,
            self._constraints,
            self._configured_constraints,
            solution.solved,
            prereleases=self._request.prereleases,
            preferred=self._request.preferred,
        )

    def _held_back(
        self, search: HeldBackSearch | None, pins: Iterable[Pin]
    ) -> tuple[HeldBack, ...]:
        """Return packages older than necessary, except preferred ones."""
        preferred = self._request.preferred
        names = [
            pin.name for pin in pins if not pin.is_direct and preferred.get(pin.name) != pin.release
        ]
        return tuple(search.search(names)) if search is not None else ()

    def _unmet(
        self, pins: Iterable[Pin], chosen: Mapping[NormalizedName, Version]
    ) -> Iterator[str]:
        """Yield messages about requirements that the user's overrides leave unmet."""
        environment = self._target.environment
        if not self._request.dependencies:
            return
        for pin in pins:
            for requirement in pin.core.requires if pin.core is not None else ():
                if not self._replacements.concerns(requirement.name):
                    continue
                with suppress(InvalidMarker):
                    if requirement.applies(environment, pin.extras or "", pin.context):
                        yield from self._unmet_messages(pin, requirement, chosen)

    def _unmet_messages(
        self, pin: Pin, requirement: Requirement, chosen: Mapping[NormalizedName, Version]
    ) -> Iterator[str]:
        name, version = requirement.name, chosen.get(requirement.name)
        unmet = redact(str(replace(requirement, marker=None)))
        needs = f"{pin.name} {pin.version} needs {unmet}"
        if name in self._request.excluded:
            yield f"{needs}, which is excluded"
        elif version is None:
            yield f"{needs}, and its override does not apply here"
        elif not requirement.specifier.contains(version, prereleases=True):
            yield f"{needs}, and an override selects {version}"


def _constraint_dependencies(lines: Iterable[RequestedRequirement]) -> list[Dependency]:
    """Return the limits on versions that constraints state."""
    constraints: list[Dependency] = []
    for line in lines:
        requirement = line.requirement
        names_wheel = requirement.url is not None and last_segment(requirement.url).endswith(".whl")
        if requirement.extras or (requirement.url is not None and not names_wheel):
            raise UserError(
                f"{requirement} cannot be a constraint",
                where=line.where or None,
                hint="a constraint is a name without extras, with versions or the URL of a wheel",
            )
        if requirement.url is not None:
            requirement = direct_wheel(requirement.url).requirement()
        constraints += dependencies_of(requirement, str(line))
    return constraints


def _wheels_from_urls(lines: Iterable[RequestedRequirement]) -> Iterable[DirectWheel]:
    """Yield the wheels of requirements with a URL."""
    for line in lines:
        requirement = line.requirement
        if requirement.url is None:
            continue
        wheel = direct_wheel(requirement.url, extras=requirement.extras, where=line.where)
        if _name(wheel) != requirement.name:
            raise InvalidRequirement(
                f"the wheel belongs to {_name(wheel)}, not to {requirement.name}",
                source=str(requirement),
                where=line.where or None,
            )
        yield wheel


def _properties_tried(catalogue: Catalogue) -> Iterator[PropertySet]:
    """Yield the declared properties of the compatible builds the solver examined."""
    for name, version in catalogue.examined_releases:
        choice = catalogue.candidates.choice(name, version)
        if choice.metadata.document is not None:
            yield from map(choice.declared, choice.offered)


def _name(wheel: DirectWheel) -> NormalizedName:
    return parse_wheel_filename(wheel.file.filename).name


def _dependencies_first(
    chosen: Mapping[NormalizedName, Version], edges: Iterable[Edge]
) -> list[NormalizedName]:
    """Return the names, dependencies before their dependents.

    In a cycle the alphabetically first name comes last.
    """
    dependencies: dict[NormalizedName, list[NormalizedName]] = {name: [] for name in sorted(chosen)}
    for edge in edges:
        dependencies[edge.needing].append(edge.needed)
    order: dict[NormalizedName, None] = {}
    visited: set[NormalizedName] = set()
    for start in dependencies:
        pending = [(start, False)]
        while pending:
            name, is_done = pending.pop()
            if is_done:
                order[name] = None
            elif name not in visited:
                visited.add(name)
                pending.append((name, True))
                pending += [
                    (dependency, False) for dependency in sorted(dependencies[name], reverse=True)
                ]
    return list(order)
