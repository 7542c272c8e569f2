"""Choose one version for every package that is needed: the adapter to ``nab_resolver``.

Only this module and `wheelfit.resolution.solver_proof` use the solver library. Its input is
`problem.Releases`, and its result a ``Solved``, or an ``Unsolvable`` whose ``Step``s are the proof.

Three things keep PubGrub quick on long histories: a decision stands for the whole gap around its
release (``widen_decision``), the members of a set of versions are cached, and proofs name listed
versions only (``narrow_for_display``).

A release with builds for versions of other packages needs a package of its own: the build. Its
versions are the builds, better ones higher, so the solver tries them in order and gives one up like
any version (P-55). The versions a build was made for are a clause that excludes the other versions
and requires none (P-52).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from nab_resolver.errors import ResolutionError, ResolutionTerminatedError
from nab_resolver.resolver import DEFAULT_MAX_ITERATIONS, BaseProvider, Resolver
from nab_resolver.types import (
    Incompatibility,
    IncompatibilityCause,
    RootRequirement,
)
from nab_resolver.types import Term as Literal

from wheelfit.resolution.problem import Need, Package, number_of, place_of
from wheelfit.resolution.version_policy import VersionPolicy
from wheelfit.resolution.version_set import VersionSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.resolution.problem import Build, Releases
    from wheelfit.resolution.proof import Step


class Solved(Struct, frozen=True):
    """A set of versions in which every requirement is met."""

    versions: Mapping[Package, Version]
    """Every package that is needed, extras too."""
    edges: tuple[tuple[Package, Package], ...]
    """The dependencies, in the order of a walk from the roots."""
    builds: Mapping[NormalizedName, int]
    """Which build it is, by project, where the release has several."""


class Unsolvable(Exception):
    """No set of versions meets every need.

    :param step: the last step of the proof.
    """

    def __init__(self, step: Step) -> None:
        super().__init__("unsolvable")
        self.step = step


class Exhausted(Exception):
    """The solver gave up without a proof."""


class _Grown(Exception):
    """Raised to start again when more versions of a package count than before."""


def solve(
    releases: Releases,
    roots: Sequence[Need],
    constraints: Sequence[Need] = (),
    *,
    prereleases: bool = False,
    rounds: int = DEFAULT_MAX_ITERATIONS,
) -> Solved:
    """Return versions that meet every need, newer ones first where there is a choice.

    :param releases: the available releases.
    :param roots: the requested packages; several needs may name one package.
    :param constraints: limits on projects if anything needs them.
    :param prereleases: whether pre-releases count like final releases.
    :param rounds: steps after which the search is given up.
    :raises Unsolvable: there is no solution.
    :raises Exhausted: the search took too many steps.
    """
    search = _Search(releases, roots, constraints, prereleases=prereleases, rounds=rounds)
    try:
        while True:
            solved = search.run()
            idle = search.idle(solved)
            if idle is None:
                return solved
            search.bar(*idle)
    except Unsolvable as error:
        if not search.barred:
            raise
        # A build was given up because nothing needs what it was made for. Before that is
        # the last word, look for a solution in which something does.
        best = search.exhaustive()
        if best is None:
            raise error from None
        return best


class _Search:
    """The search for versions, repeated until there is a result or a proof that there is none."""

    def __init__(
        self,
        releases: Releases,
        roots: Sequence[Need],
        constraints: Sequence[Need],
        *,
        prereleases: bool,
        rounds: int,
    ) -> None:
        self._rounds = rounds
        self._releases = releases
        self._roots = roots
        self._limits = _Limits(constraints)
        self._admission = VersionPolicy(releases, prereleases=prereleases)
        for need in [*constraints, *self._limits.joined(roots)]:
            self._admission.see(need)
        releases.announce(roots)
        self.barred: list[_Clause] = []

    def run(self) -> Solved:
        """Return the solution of the library.

        :raises Unsolvable: it proves that there is no solution.
        :raises Exhausted: it gives up.
        """
        while True:
            provider = _Provider(self._releases, self._admission, self._roots, self.barred)
            resolver: Resolver[Package, Version] = Resolver(
                provider,
                max_iterations=self._rounds,
                range_type=VersionSet,
                root_version="1",
                format_range=lambda _: "",  # the library's own report is not used
            )
            try:
                solution = resolver.solve(
                    [RootRequirement(need.package, need.versions, need) for need in self._roots],
                    self._limits,
                )
            except _Grown:
                # What was learned may be wrong now. Every round admits more versions
                # of a finite number, so this ends; listings and choices are kept.
                continue
            except ResolutionTerminatedError as error:
                raise Exhausted(str(error)) from error
            except ResolutionError as error:
                if error.incompatibility is None:
                    raise Exhausted(str(error)) from error
                from wheelfit.resolution.solver_proof import Translation

                translation = Translation(provider, self._limits.texts)
                raise Unsolvable(translation.step(error.incompatibility)) from None
            return _solved(solution.pins, solution.edges)

    def idle(self, solved: Solved) -> tuple[Package, int] | None:
        """Return a build made for a project that is not there, if there is one (P-54)."""
        there = {package.name for package in solved.versions}
        for name, place in solved.builds.items():
            release = solved.versions[Package(name)]
            build = self._releases.build(name, release, place)
            for limit in () if build is None else build.limits:
                project = limit.package.name
                if project in there:
                    continue
                version = self._releases.there(project)
                if version is None or version not in limit.versions:
                    return Package(name, None, release), place
        return None

    def bar(self, package: Package, place: int) -> None:
        """Take a build out, and the others of its label, which were made for the same.

        Of a release with very many such labels all the rest go at once.
        """
        release, label = _release(package), ""
        is_enough = sum(clause[0].package == package for clause in self.barred) >= _PATIENCE
        while (build := self._releases.build(package.name, release, place)) is not None:
            label = label or build.name
            if build.name != label and not (is_enough and build.limits):
                return
            self.barred.append([Literal(package, _gap_of(self._releases, package, place))])
            place += 1

    def exhaustive(self) -> Solved | None:
        """Return a solution in which every build has the versions it was made for, if any.

        Never a build alone is excluded, but a whole solution: the same build may do in another one.
        """
        self.barred.clear()
        for _ in range(_ATTEMPTS):
            try:
                solved = self.run()
            except (Unsolvable, Exhausted):
                return None
            idle = self.idle(solved)
            if idle is None:
                return solved
            package, place = idle
            everything = {package: number_of(place), **solved.versions}
            for name, chosen in solved.builds.items():
                everything[Package(name, None, solved.versions[Package(name)])] = number_of(chosen)
            self.barred.append(
                [Literal(one, VersionSet.singleton(version)) for one, version in everything.items()]
            )
        return None


_PATIENCE = 50
"""Builds of one release that are barred one label at a time."""
_ATTEMPTS = 200
"""Solutions that are looked at before the search for a better one is given up."""

_Clause = list[Literal[Package, Any]]
"""The literals that cannot hold together."""


def _solved(pins: Mapping[Package, Version], edges: Sequence[tuple[Package, Package]]) -> Solved:
    """Return the solution by project; requirements of builds are those of their projects."""
    versions = {package: version for package, version in pins.items() if package.release is None}
    builds = {
        package.name: place_of(version)
        for package, version in pins.items()
        if package.release is not None and package.extra is None
    }
    named = ((Package(*one[:2]), Package(*other[:2])) for one, other in edges)
    return Solved(
        versions, tuple(dict.fromkeys(edge for edge in named if edge[0] != edge[1])), builds
    )


def _release(package: Package) -> Version:
    if package.release is None:
        raise ValueError(package)
    return package.release


def _gap_of(releases: Releases, package: Package, place: int) -> VersionSet:
    """Return all numbers between the next better and the next worse build."""
    name, release = package.name, _release(package)
    # Whether an installed build has alternatives is not examined before it matters.
    is_kept = place == 0 and releases.kept(name) == release
    is_last = not is_kept and releases.build(name, release, place + 1) is None
    lower = None if is_last else number_of(place + 1)
    gap = VersionSet.between(lower, number_of(place - 1) if place else None)
    return VersionSet.singleton(number_of(place)) if gap is None else gap


class _Limits(dict[Package, VersionSet]):
    """The versions that constraints allow, for every extra of a project."""

    def __init__(self, constraints: Sequence[Need]) -> None:
        super().__init__()
        self.texts: dict[NormalizedName, list[str]] = {}
        for need in constraints:
            base = Package(need.package.name)
            self[base] = dict.get(self, base, VersionSet.full()) & need.versions
            self.texts.setdefault(base.name, []).append(str(need.text))

    def get(self, package: Package, default: Any = None) -> Any:
        """Return the limit of a project also for its extras; builds have other numbers."""
        if not self or package.release is not None:
            return default
        return dict.get(self, Package(package.name), default)

    def joined(self, roots: Sequence[Need]) -> Iterator[Need]:
        """Yield one need per project that holds all roots and constraints on it."""
        joint: dict[NormalizedName, VersionSet] = {}
        pins: set[NormalizedName] = set()
        for need in roots:
            name = need.package.name
            joint[name] = joint.get(name, self.get(need.package, VersionSet.full())) & need.versions
            if need.is_pin:
                pins.add(name)
        for name, versions in joint.items():
            yield Need(Package(name), versions, is_pin=name in pins)


class _Provider(BaseProvider[Package, Any]):
    """The interface of the solver's library to the releases."""

    def __init__(
        self,
        releases: Releases,
        admission: VersionPolicy,
        roots: Sequence[Need],
        clauses: Sequence[_Clause],
    ) -> None:
        self._releases = releases
        self._admission = admission
        self._places: dict[Package, int] = {}
        for need in roots:
            self._places.setdefault(need.package, len(self._places))
        self._clauses = [_forbidding(clause) for clause in clauses]
        self._limited: set[tuple[Package, Version]] = set()
        self._tied: set[tuple[Package, Version]] = set()
        self._needs: dict[tuple[Package, Version], dict[Package, VersionSet]] = {}
        self._gaps: dict[tuple[Package, Version], VersionSet | None] = {}
        self._neighbours: dict[
            NormalizedName, dict[Version, tuple[Version | None, Version | None]]
        ] = {}
        self._shown: dict[tuple[Package, VersionSet], VersionSet] = {}
        self._ranges: Mapping[Package, Any] = {}
        self._decisions: Mapping[Package, Any] = {}
        self._builds: dict[Package, list[Build]] = {}
        for package in dict.fromkeys(clause[0].package for clause in clauses):
            # A build that is barred from the beginning still appears in proofs.
            place = 0
            while self._known_build(package, _release(package), place) is not None:
                place += 1
        self.reasons: dict[tuple[Package, Package, VersionSet], Need] = {}

    # --- choosing ------------------------------------------------------------

    def receive_partial_solution_hint(
        self, positive_ranges: Mapping[Package, Any], decisions: Mapping[Package, Any]
    ) -> None:
        self._ranges, self._decisions = positive_ranges, decisions

    def choose_version(self, package: Package, version_range: Any) -> Version | None:
        chosen = None
        if package.extra is not None:
            # An extra goes with its project: what is decided there is tried first.
            base = self._ranges.get(package.base)
            if base is not None:
                chosen = self._first_usable(package, version_range & base)
            if self._tie(package) and chosen is None:
                return None  # the clause has the reason, for no other version of the extra helps
        # Any other answer None must follow from the range alone.
        if chosen is None:
            chosen = self._first_usable(package, version_range)
        if chosen is not None and package.release is not None and package.extra is None:
            self._limit(package, chosen)
        return chosen

    def _tie(self, extra: Package) -> bool:
        """Tie an extra to the version of its project; return whether that is new.

        The requirements of an extra exclude one version after the other. Without this clause every
        older one would be tried with the same version of the project.
        """
        decided = self._decisions.get(extra.base)
        if decided is None or (extra, decided) in self._tied:
            return False
        self._tied.add((extra, decided))
        gap = self.widen_decision(extra.base, decided) or VersionSet.singleton(decided)
        clause = [Literal(extra, VersionSet.full() - gap), Literal(extra.base, gap)]
        self._clauses.append(_forbidding(clause))
        return True

    def has_satisfying_version(self, package: Package, version_range: Any) -> bool:
        return self._first_usable(package, version_range) is not None

    def _first_usable(self, package: Package, versions: VersionSet) -> Version | None:
        if package.release is not None:
            return self._first_build(package.base, package.release, versions)
        name = package.name
        kept = self._releases.kept(name)
        if kept is not None and kept in versions and self._releases.is_usable(name, kept):
            return kept
        for version in self._admission.choices(name, versions):
            if self._releases.is_usable(name, version):
                return version
        return None

    # --- builds ----------------------------------------------------------------

    def _first_build(
        self, package: Package, release: Version, versions: VersionSet
    ) -> Version | None:
        place = 0
        while self._known_build(package, release, place) is not None:
            number = number_of(place)
            if number in versions and self._releases.is_sound(package.name, release, place):
                return number
            place += 1
        return None

    def _known_build(self, package: Package, release: Version, place: int) -> Build | None:
        """Return a build and remember it for proofs."""
        builds = self._builds.setdefault(package, [])
        if place == len(builds):
            build = self._releases.build(package.name, release, place)
            if build is None:
                return None
            builds.append(build)
        return builds[place]

    def _limit(self, package: Package, number: Version) -> None:
        """Add the constraints of a build before its decision (P-52)."""
        if (package, number) in self._limited:
            return
        self._limited.add((package, number))
        gap = self.widen_decision(package, number) or VersionSet.singleton(number)
        for limit in self._builds[package][place_of(number)].limits:
            others = VersionSet.full() - limit.versions
            self.reasons.setdefault((package, limit.package, others), limit)
            clause = [Literal(package, gap), Literal(limit.package, others)]
            self._clauses.append(_forbidding(clause))

    def consume_pending_clauses(self) -> list[Incompatibility[Package, Any]]:
        clauses, self._clauses = self._clauses, []
        return clauses

    # --- the order of decisions ----------------------------------------------

    def prioritize(
        self,
        package: Package,
        version_range: Any,
        conflict_counts: Mapping[Package, int],
        culprit_counts: Mapping[Package, int] | None = None,
    ) -> tuple[int, int, int]:
        """Rank what the user named first, in this order, then builds (P-55).

        Of the others the packages in most conflicts come first, then those with the fewest choices.
        """
        place = self._places.get(Package(package.name, package.extra))
        if package.release is not None:
            named = len(self._places) if place is None else place
            return 1, named, 1 if package.extra else 0
        if place is not None:
            return 0, place, 0
        kept = self._releases.kept(package.name)
        if kept is not None and kept in version_range:
            count = 1
        else:
            count = len(self._admission.choices(package.name, version_range))
        if conflict_counts.get(package, 0) >= _OFTEN:
            tier = 2
        elif count <= 1:
            tier = 3
        elif culprit_counts is not None and culprit_counts.get(package, 0) >= _OFTEN:
            tier = 5
        else:
            tier = 4
        # An extra before its project: the project then has one choice left.
        return tier, count, 0 if package.extra else 1

    # --- dependencies ---------------------------------------------------------

    def get_dependencies(self, package: Package, version: Version) -> Mapping[Package, Any]:
        key = (package, version)
        known = self._needs.get(key)
        if known is not None:
            return known
        needs: Sequence[Need] = ()
        together: dict[Package, VersionSet] = {}
        if package.extra is not None:
            gap = self.widen_decision(package.base, version)
            together[package.base] = gap or VersionSet.singleton(version)
        if package.release is None and self._releases.is_divided(package.name, version):
            together[package._replace(release=version)] = VersionSet.full()
        else:
            needs = self._releases.needs(package, version)
        grown = False
        for need in needs:
            before = together.get(need.package)
            joint = need.versions if before is None else before & need.versions
            together[need.package] = joint
            earlier = self.reasons.get((package, need.package, before)) if before else None
            text = need.text if earlier is None else f"{earlier.text}, {need.text}"
            self.reasons.setdefault(
                (package, need.package, joint), Need(need.package, joint, text, need.is_pin)
            )
            grown |= self._admission.see(need)
        self._releases.announce(needs)
        self._needs[key] = together
        if grown:
            raise _Grown
        return together

    def known(self, package: Package) -> tuple[Version, ...]:
        """Return the versions that count, newest first; none if the project was not listed."""
        if package.release is not None:
            return tuple(number_of(place) for place in range(len(self.builds(package))))
        name = package.name
        return self._admission.counted(name) if self._admission.is_listed(name) else ()

    def builds(self, package: Package) -> Sequence[Build]:
        """Return the builds of a release that were looked at, best first."""
        return self._builds.get(package.base, ())

    # --- long histories ---------------------------------------------------------

    def widen_decision(self, package: Package, version: Version) -> VersionSet | None:
        """Return the gap between the releases below and above that count.

        No other version inside it can be chosen in this search, so facts about this version hold
        for the gap; adjacent gaps merge seamlessly.
        """
        key = (package.base, version)
        gap = self._gaps.get(key)
        if gap is None:
            gap = self._gaps[key] = self._gap(package, version)
        return gap

    def _gap(self, package: Package, version: Version) -> VersionSet | None:
        if package.release is not None:
            return _gap_of(self._releases, package, place_of(version))
        neighbours = self._neighbours.get(package.name)
        if neighbours is None:
            listed = self.known(package.base)
            if not listed:
                return None  # a kept version, whose listing was not read
            neighbours = {
                here: (below, above)
                for above, here, below in zip(
                    (None, *listed), listed, (*listed[1:], None), strict=False
                )
            }
            self._neighbours[package.name] = neighbours
        place = neighbours.get(version)
        return None if place is None or version.local else VersionSet.between(*place)

    def narrow_for_display(self, package: Any, constraint: Any) -> Any:
        """Return the listed versions of a set, run by run."""
        listed = self.known(package) if isinstance(package, Package) else ()
        if not listed:
            return constraint
        key = (package.base, constraint)
        shown = self._shown.get(key)
        if shown is None:
            inside = set(constraint.members(listed))
            runs: list[tuple[Version, Version]] = []
            previous = None
            for version in reversed(listed):
                if version in inside:
                    first = runs.pop()[0] if previous is not None else version
                    runs.append((first, version))
                    previous = version
                else:
                    previous = None
            shown = self._shown[key] = VersionSet.runs(runs) or constraint
        return shown


_OFTEN = 5
"""Conflicts after which a package is decided earlier, or its decider later."""


def _forbidding(clause: _Clause) -> Incompatibility[Package, Any]:
    # Any cause but this one has a shape of its own for the library.
    return Incompatibility(list(clause), cause=IncompatibilityCause.DEPENDENCY)
