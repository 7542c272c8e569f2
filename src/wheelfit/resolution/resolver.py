"""From a request to a resolution."""

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
from wheelfit.resolution.catalogue import Catalogue, needs_of
from wheelfit.resolution.choice_warnings import about_mixture
from wheelfit.resolution.joint_choice import Attempt, ChosenBuild, Effort, RefusedAttempt, settle
from wheelfit.resolution.overrides import Replacements
from wheelfit.resolution.prefetch import Prefetch
from wheelfit.resolution.problem import Need, Package
from wheelfit.resolution.release_choice import passed_over
from wheelfit.resolution.request import GivenWheel, RequestedRequirement, given_wheel
from wheelfit.resolution.resolution import Edge, HeldBack, Pin, Resolution
from wheelfit.resolution.solver import Exhausted, Unsolvable, solve
from wheelfit.resolution.version_set import VersionSet
from wheelfit.sources.hash_check import WEAK_HASHES
from wheelfit.sources.page import ProjectPage
from wheelfit.sources.urls import redact
from wheelfit_runtime.errors import NoCompatibleWheel, NoFit, UserError
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.properties import PropertySet
    from wheelfit.core.shared_requirements import Agreed
    from wheelfit.resolution.builds import ReleaseBuild
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.choice_context import ChoiceContext
    from wheelfit.resolution.held_back import HeldBackSearch
    from wheelfit.resolution.joint_choice import AgreementOutcome
    from wheelfit.resolution.request import InstalledBuild, ResolutionRequest
    from wheelfit.resolution.solver import Solved
    from wheelfit.sources.page import File


def resolve(request: ResolutionRequest, candidates: Candidates, *, threads: int = 12) -> Resolution:
    """Return wheels that meet a request.

    Resolving again reads only what changed: after `Candidates.reject` the next wheel of that
    release is taken (F-93).

    An upgrade never chooses an older version than the installed one, unless the request demands
    it.

    :param request: the request.
    :param candidates: the candidates, with the settings for choosing.
    :param threads: the number of concurrent requests to the sources.
    :raises NoSolution: the needs contradict each other; the note is the proof.
    :raises NoConsistentSet: no builds agree on the shared requirements of an environment.
    :raises NoCompatibleWheel: a requested project has no compatible wheel.
    :raises ProjectNotFound: no source has a requested project.
    :raises NoFit: ``unknown-label``; no release that meets the request has the requested label.
    :raises HashMismatch: no compatible wheel has an allowed hash (F-94).
    :raises UserError: the request contradicts itself.
    :raises NetworkError: a source cannot be read.
    """
    resolution = _not_back(request, candidates, threads)
    chosen_by = candidates.within(resolution.context)
    if not any(chosen_by.bridge(pin.name) for pin in resolution.pins):
        return resolution
    from wheelfit.resolution.bridges import alone

    return alone(
        resolution,
        lambda narrowed: _not_back(request, narrowed, threads),
        candidates,
        request.around,
    )


def _not_back(request: ResolutionRequest, candidates: Candidates, threads: int) -> Resolution:
    """Resolve such that an upgrade does not downgrade any package, if that is possible.

    A package that would be downgraded keeps its installed version as lower bound; if the
    requirements cannot be met then, they demand the older release.
    """
    resolution = _Resolving(request, candidates, threads).resolve()
    held: dict[NormalizedName, Pin] = {}
    while lower := _gone_back(request, candidates, resolution, held):
        held |= lower
        floors = {name: request.installed[name].version for name in held}
        upgraded = _upgraded(request) - held.keys()
        try:
            resolution = _Resolving(
                replace(request, upgrade=False, upgrade_only=upgraded),
                candidates,
                threads,
                floors,
            ).resolve()
        except NoFit:
            return _Resolving(request, candidates, threads).resolve()
    stays = {present.name: present for present in resolution.kept}
    notes = [
        f"{stays[name]} stays: it is newer than {pin.name} {pin.version}, the newest on offer that "
        "could be taken"
        for name, pin in held.items()
        if name in stays
    ]
    return replace(resolution, notes=(*notes, *resolution.notes)) if notes else resolution


def _gone_back(
    request: ResolutionRequest,
    candidates: Candidates,
    resolution: Resolution,
    held: Container[NormalizedName],
) -> dict[NormalizedName, Pin]:
    """Return the pins below their installed version, which the request admits too."""
    pins = {}
    candidates = candidates.within(resolution.context)
    said = (*request.requirements, *request.constraints, *request.overrides)
    upgraded = _upgraded(request)
    for pin in resolution.pins:
        present = request.installed.get(pin.name)
        if present is None or pin.is_given or pin.name not in upgraded or pin.name in held:
            continue
        if not _is_older(pin, present, candidates):
            continue
        if all(
            asked.requirement.specifier.contains(present.version, prereleases=True)
            for asked in said
            if asked.requirement.name == pin.name
            and asked.requirement.applies(candidates.target.environment)
        ):
            pins[pin.name] = pin
    return pins


def _upgraded(request: ResolutionRequest) -> frozenset[NormalizedName]:
    """Return the projects of which the newest release is requested."""
    if not request.upgrade:
        return request.upgrade_only
    return request.upgrade_only | {asked.requirement.name for asked in request.requirements}


def _is_older(pin: Pin, present: InstalledBuild, candidates: Candidates) -> bool:
    if candidates.bridge(pin.name) is not None:
        # The local version of a bridged family names the build; which one is another question.
        return without_build(pin.version) < without_build(present.version)
    return pin.version < present.version


class _Found(Struct, frozen=True):
    """A solution of the solver, with the catalogue it came from."""

    solved: Solved
    catalogue: Catalogue
    versions: Mapping[NormalizedName, Version]

    def build(self, name: NormalizedName) -> ReleaseBuild | None:
        """Return the build that was taken; None of a release that is not divided into builds."""
        place = self.solved.builds.get(name)
        if place is None:
            return None
        return self.catalogue.release_build(name, self.versions[name], place)

    def kept(self, name: NormalizedName) -> InstalledBuild | None:
        """Return the installed build of a project if it stays unchanged."""
        present, build = self.catalogue.present(name), self.build(name)
        if present is None or present.version != self.versions[name]:
            return None
        return present if build is None or build.is_installed else None


class _Resolving:
    """The resolution of one request.

    :param request: the request.
    :param candidates: the candidates, with the settings for choosing.
    :param threads: the number of concurrent requests to the sources.
    :param floors: lower bounds of versions, applied to the listing.
    """

    def __init__(
        self,
        request: ResolutionRequest,
        candidates: Candidates,
        threads: int,
        floors: Mapping[NormalizedName, Version] = MappingProxyType({}),
    ) -> None:
        self._request = request
        self._target = candidates.target
        self._policy = candidates.policy
        self._threads = threads
        self._lowest = floors
        self._details: list[str] = []
        self._replacements = Replacements(
            request.overrides, request.excluded, self._target.environment
        )
        self._asked = [
            one
            for asked in request.requirements
            if self._applies(asked)
            for one in self._instead(asked)
        ]
        self._limits = [asked for asked in request.constraints if self._applies(asked)]
        self._wheels = [*request.wheels, *_from_urls(self._asked)]
        self._check_constraints()
        context = candidates.context.with_given(*self._given())
        context = replace(context, agreed=(), preferred_builds=request.preferred_builds)
        self._check_given(candidates.within(context))
        self._roots = self._needed()
        self._candidates = candidates.within(replace(context, known=self._fixed(context)))

    def resolve(self) -> Resolution:
        named = tuple(dict.fromkeys(need.package.name for need in self._roots))
        self._check_hashes(named)
        companions = self._request.companions
        may_turn = {*named, *self._request.upgrade_only, *companions}
        try:
            settled = settle(
                self._choose,
                self._policy.agreements,
                self._policy.binding,
                installed=self._request.around,
                order=named,
                may_turn=may_turn,
                companions=companions,
            )
        except NoConsistentSet as error:
            lacking = {
                name
                for detail in error.details
                for name in cast("Sequence[NormalizedName]", detail["lacks"])
            }
            stuck = sorted(name for name in lacking - may_turn if self._has_others(name))
            if stuck:
                options = " ".join(f"-P {name}" for name in stuck)
                error.hint = f"{options} looks at other versions of what is installed; {error.hint}"
            raise
        return self._resolution(settled.found, settled.held)

    # --- choosing one set -------------------------------------------------------------

    def _choose(
        self, agreed: tuple[Agreed, ...], effort: Effort, free: _Found | None
    ) -> Attempt[_Found] | RefusedAttempt:
        """Implement `Choose`: solve, and add the installed builds that stay to the set."""
        candidates = self._candidates.within(replace(self._candidates.context, agreed=agreed))
        freely = {} if free is None else free.versions
        needs = [*self._roots, *self._exchanged(candidates, freely)]
        floors = dict(self._lowest)
        if effort is Effort.AS_NEW:
            for name, version in freely.items():
                floors[name] = max(version, floors.get(name, version))
        prereleases = self._request.prereleases
        with Prefetch(
            candidates,
            threads=self._threads,
            prereleases=prereleases,
            preferred=self._request.preferred,
        ) as lookahead:
            catalogue = Catalogue(
                self._request,
                candidates,
                lookahead,
                self._roots,
                floors,
                is_any_divided=effort is Effort.ANY_BUILD,
            )
            constraints = self._constraints()
            try:
                solved = solve(catalogue, needs, constraints, prereleases=prereleases)
            except Unsolvable as error:
                from wheelfit.resolution.no_solution import FailedSearch

                failed = FailedSearch(error.step, catalogue, needs, constraints, prereleases)
                return RefusedAttempt(agreed, failed.explain, lambda: _seen(catalogue))
            except Exhausted as error:
                exhausted = NoSolution(
                    "no solution was found within a reasonable number of steps",
                    note=str(error),
                    hint="narrow the request, for instance by pinning a project to a version",
                )
                return RefusedAttempt(agreed, lambda: exhausted, tuple)
        versions = {package.name: version for package, version in solved.versions.items()}
        solution = _Found(solved, catalogue, versions)
        return Attempt(agreed, self._set(solution), lambda: _seen(catalogue), solution, effort)

    def _set(self, solution: _Found) -> dict[NormalizedName, ChosenBuild]:
        """Return a solution as a set of builds, including the other installed builds."""
        chosen = {
            name: ChosenBuild.that_stays(present) for name, present in self._request.around.items()
        }
        candidates, final = solution.catalogue.candidates, self._final(solution)
        for name, version in solution.versions.items():
            present, build = solution.kept(name), solution.build(name)
            if present is not None:
                chosen[name] = ChosenBuild.that_stays(present)
                continue
            choice = candidates.usable(name, version)
            if build is None:
                chosen[name] = ChosenBuild.of_release(choice, choice.taken)
                continue
            beside = final.settled(name, version, build.label).offered
            one = ChosenBuild.of_release(choice, build.label)
            chosen[name] = replace(one, beside=tuple(map(choice.declared, beside)))
        return chosen

    def _exchanged(
        self, candidates: Candidates, freely: Mapping[NormalizedName, Version]
    ) -> Iterator[Need]:
        """Yield needs of installed packages that must become another build of their version."""
        asked = {need.package.name for need in self._roots}
        for name, present in self._request.around.items():
            if name in asked or name in self._request.excluded:
                continue
            if candidates.objection(present.properties, is_installed=True) is None:
                continue
            # Packages outside the request keep their version; dependencies may have to change.
            request = self._request
            free = name in request.upgrade_only | request.companions or name in freely
            versions = VersionSet.full() if free else VersionSet.singleton(present.version)
            yield Need(Package(name), versions, f"{present}, which is installed", is_pin=not free)

    def _has_others(self, name: NormalizedName) -> bool:
        """Return whether an installed project has other versions to take."""
        present = self._request.around.get(name)
        listing = None if present is None else self._candidates.listing(name)
        if present is None or listing is None:
            return False
        return any(version != present.version for version in listing.possible())

    # --- reading the request ------------------------------------------------------

    def _applies(self, asked: RequestedRequirement) -> bool:
        if asked.requirement.applies(self._target.environment):
            return True
        self._details.append(f"{asked}: its marker does not match, so it is left out")
        return False

    def _instead(self, asked: RequestedRequirement) -> list[RequestedRequirement]:
        """Return the overrides of a requested requirement, or the requirement itself."""
        if not self._replacements.concern(asked.requirement.name):
            return [asked]
        replacing = list(self._replacements.instead(asked))
        instead = ", ".join(map(str, replacing)) or "nothing"
        self._details.append(f"{asked} is replaced by {instead}")
        return replacing

    def _check_constraints(self) -> None:
        for asked in self._limits:
            requirement = asked.requirement
            if requirement.extras or requirement.url is not None:
                raise UserError(
                    f"{requirement} cannot be a constraint",
                    where=asked.where or None,
                    hint="a constraint is a name with versions, without extras and URL",
                )

    def _given(self) -> list[ProjectPage]:
        """Return the given wheels as the pages that stand for their projects (F-125)."""
        files: dict[NormalizedName, dict[str, File]] = {}
        for wheel in self._wheels:
            if _name(wheel) in self._request.excluded:
                raise UserError(
                    f"{_name(wheel)} is excluded, and {wheel.file.shown} is given",
                    where=wheel.where or None,
                )
            files.setdefault(_name(wheel), {})[wheel.file.url] = wheel.file
        return [ProjectPage(name, (*own.values(),), "the request") for name, own in files.items()]

    def _check_given(self, candidates: Candidates) -> None:
        """Refuse given wheels that do not fit (F-125)."""
        for name in dict.fromkeys(map(_name, self._wheels)):
            files = candidates.context.given[name].files
            versions = {parse_wheel_filename(file.filename).version for file in files}
            if len(versions) > 1:
                raise UserError(
                    f"wheels of different versions of {name} are given",
                    note="\n".join(file.shown for file in files),
                )
            (version,) = versions
            choice = candidates.usable(name, version)
            if choice.chosen is None:
                raise NoCompatibleWheel(
                    f"{files[0].shown} does not fit {self._target.name}",
                    note="\n".join(
                        verdict.reason
                        if len(files) == 1
                        else f"{verdict.filename.text}: {verdict.reason}"
                        for verdict in choice.selection.verdicts
                    ),
                )

    def _needed(self) -> list[Need]:
        roots: list[Need] = []
        for asked in self._asked:
            if asked.requirement.url is None:
                roots += needs_of(asked.requirement, str(asked))
        for wheel in self._wheels:
            requirement = Requirement(_name(wheel), wheel.extras)
            roots += needs_of(requirement, wheel.file.shown)
        return roots

    def _constraints(self) -> list[Need]:
        return [need for asked in self._limits for need in needs_of(asked.requirement, str(asked))]

    def _check_hashes(self, names: Iterable[NormalizedName]) -> None:
        if not self._request.require_hashes:
            return
        promised = {
            _name(wheel) for wheel in self._wheels if wheel.file.hashes.keys() - WEAK_HASHES
        }
        for name in names:
            if name not in self._policy.hashes.keys() | promised:
                by = self._request.hashes_required_by
                raise UserError(
                    f"hashes are required{f' by {by}' if by else ''}, and {name} has none",
                    hint="give every requirement a --hash option",
                )

    # --- what builds for other packages go by (P-51) -----------------------------------

    def _fixed(self, context: ChoiceContext) -> KnownVersions:
        """Return the fixed versions: installed packages stay (P-56).

        Unless their upgrade is requested, or the request excludes them.
        """
        request = self._request
        free = {need.package.name for need in self._roots} if request.upgrade else set()
        free |= request.upgrade_only
        free |= {
            need.package.name
            for need in (*self._roots, *self._constraints())
            if need.package.name in request.installed
            and request.installed[need.package.name].version not in need.versions
        }
        known = {
            name: KnownVersion(present.version)
            for name, present in request.installed.items()
            if name not in free and name not in context.given
        }
        return KnownVersions({**known, **self._declared()}, is_open=True)

    def _declared(self) -> Mapping[NormalizedName, KnownVersion]:
        return self._policy.providers.abi_versions

    def _final(self, solution: _Found) -> Candidates:
        """Return the candidates as they are once the version of everything is known (F-111)."""
        known = {name: KnownVersion(version) for name, version in self._request.there.items()}
        for name, version in solution.versions.items():
            present = solution.catalogue.present(name)
            is_kept = present is not None and present.version == version
            known[name] = KnownVersion(version, INSTALLED if is_kept else "is chosen")
        candidates = solution.catalogue.candidates
        known |= self._declared()
        return candidates.within(replace(candidates.context, known=KnownVersions(known)))

    # --- the result ------------------------------------------------------------------

    def _resolution(self, solution: _Found, held: tuple[AgreementOutcome, ...]) -> Resolution:
        candidates, final = solution.catalogue.candidates, self._final(solution)
        chosen = solution.versions
        extras: dict[NormalizedName, set[NormalizedName]] = {}
        for package in solution.solved.versions:
            if package.extra is not None:
                extras.setdefault(package.name, set()).add(package.extra)
        edges = dict.fromkeys(
            Edge(one.name, other.name)
            for one, other in solution.solved.edges
            if one.name != other.name
        )
        requested = {need.package.name for need in self._roots}
        pins: list[Pin] = []
        kept: list[InstalledBuild] = []
        for name in _needed_first(chosen, edges):
            present, build = solution.kept(name), solution.build(name)
            if present is not None:
                kept.append(present)
                continue
            if build is None:
                choice = candidates.usable(name, chosen[name])
            else:
                choice = final.settled(name, chosen[name], build.label)
            pin = Pin.of(choice, requested=name in requested)
            family, reason = candidates.bridge(name), choice.reason
            if family is not None and (bridge := family.build(pin.filename)):
                reason = f"{reason}; {bridge}"
            core = candidates.core_metadata(pin.choice.wheel(pin.filename.text))
            own = frozenset(extras.get(name, ()))
            pins.append(replace(pin, extras=own, reason=reason, core=core))
        search = self._search(solution)
        held_back = self._held_back(search, pins)
        told = {(one.name, one.latest) for one in held_back}
        notes = [*candidates.cautions(pin.choice for pin in pins)]
        notes += [*about_mixture(held), *solution.catalogue.notes(chosen)]
        for pin in pins:
            listing = candidates.listing(pin.name)
            notes += [f"{pin.name}: {note}" for note in (listing.notes if listing else ())]
            notes += passed_over(
                candidates.choice(pin.name, newer)
                for newer in solution.catalogue.passed_over(pin.name, pin.version)
                if (pin.name, newer) not in told
            )
            notes += pin.choice.notes
        notes += self._unaccelerated(pins, solution.catalogue, search)
        self._check_hashes(pin.name for pin in pins)
        return Resolution(
            tuple(pins),
            tuple(sorted(kept, key=lambda present: present.name)),
            tuple(edges),
            tuple(dict.fromkeys(notes)),
            tuple(dict.fromkeys(self._details)),
            held,
            self._replacements.names,
            held_back,
            tuple(dict.fromkeys(self._unmet(pins, chosen))),
            context=candidates.context,
        )

    def _unaccelerated(
        self, pins: Iterable[Pin], catalogue: Catalogue, search: HeldBackSearch | None
    ) -> Iterator[str]:
        """Yield requested projects whose release lacks an accelerator that another one uses."""
        for pin in pins:
            other = catalogue.favoured(pin.name) if pin.requested else None
            if other is None or other == pin.release or accelerators_of(pin.properties):
                continue
            whose = "that of this machine"
            if not catalogue.candidates.is_for_one_machine:
                whose = listed(sorted(catalogue.kinds(pin.name, other)))
                if not whose:
                    continue
            why_not = search.reason(pin.name, other) if search is not None else ""
            yield (
                f"{pin} uses no accelerator; {pin.name} {other} has a build for {whose}"
                f"{f', but {why_not}' if why_not else f' ({pin.name}=={other} takes it)'}"
            )

    def _search(self, solution: _Found) -> HeldBackSearch | None:
        """Return the search for packages not at the newest release; None without dependencies."""
        if not self._request.dependencies:
            return None
        from wheelfit.resolution.held_back import HeldBackSearch

        return HeldBackSearch(
            solution.catalogue,
            self._roots,
            self._constraints(),
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
            pin.name for pin in pins if not pin.is_given and preferred.get(pin.name) != pin.release
        ]
        return tuple(search.each(names)) if search is not None else ()

    def _unmet(
        self, pins: Iterable[Pin], chosen: Mapping[NormalizedName, Version]
    ) -> Iterator[str]:
        """Yield the requirements that the user's overrides leave unmet."""
        environment = self._target.environment
        if not self._request.dependencies:
            return
        for pin in pins:
            for requirement in pin.core.requires if pin.core is not None else ():
                if not self._replacements.concern(requirement.name):
                    continue
                with suppress(InvalidMarker):
                    if requirement.applies(environment, pin.extras or "", pin.context):
                        yield from self._missed(pin, requirement, chosen)

    def _missed(
        self, pin: Pin, requirement: Requirement, chosen: Mapping[NormalizedName, Version]
    ) -> Iterator[str]:
        name, version = requirement.name, chosen.get(requirement.name)
        needs = f"{pin.name} {pin.version} needs {redact(str(replace(requirement, marker=None)))}"
        if name in self._request.excluded:
            yield f"{needs}, which is excluded"
        elif version is None:
            yield f"{needs}, and its override asks for nothing here"
        elif not requirement.specifier.contains(version, prereleases=True):
            yield f"{needs}, and gets {version} by an override"


def _from_urls(asked: Iterable[RequestedRequirement]) -> Iterable[GivenWheel]:
    for one in asked:
        requirement = one.requirement
        if requirement.url is None:
            continue
        wheel = given_wheel(requirement.url, extras=requirement.extras, where=one.where)
        if _name(wheel) != requirement.name:
            raise InvalidRequirement(
                f"the wheel belongs to {_name(wheel)}, not to {requirement.name}",
                source=str(requirement),
                where=one.where or None,
            )
        yield wheel


def _seen(catalogue: Catalogue) -> Iterator[PropertySet]:
    """Yield the declared properties of the compatible builds the solver examined."""
    for name, version in catalogue.tried:
        choice = catalogue.candidates.choice(name, version)
        if choice.metadata.document is not None:
            yield from map(choice.declared, choice.offered)


def _name(wheel: GivenWheel) -> NormalizedName:
    return parse_wheel_filename(wheel.file.filename).name


def _needed_first(
    chosen: Mapping[NormalizedName, Version], edges: Iterable[Edge]
) -> list[NormalizedName]:
    """Return the names, dependencies before their dependents.

    In a cycle the alphabetically first name comes last.
    """
    needed: dict[NormalizedName, list[NormalizedName]] = {name: [] for name in sorted(chosen)}
    for edge in edges:
        needed[edge.needing].append(edge.needed)
    order: dict[NormalizedName, None] = {}
    entered: set[NormalizedName] = set()
    for start in needed:
        pending = [(start, False)]
        while pending:
            name, done = pending.pop()
            if done:
                order[name] = None
            elif name not in entered:
                entered.add(name)
                pending.append((name, True))
                pending += [(other, False) for other in sorted(needed[name], reverse=True)]
    return list(order)
