"""The choice of a version for every required package, by the library ``nab_resolver`` (PubGrub).

Only this module and `wheelfit.resolution.solver_proof` use the library. The input is
`problem.Releases`, and the result a ``Solved``, or an ``Unsolvable`` with a proof of ``Step``s.

Three measures keep PubGrub quick on long histories: a decision covers all versions between the
neighbours of its release (``widen_decision``), the members of a set of versions are cached, and
proofs name listed versions only (``narrow_for_display``).

The builds of a release for versions of other packages are the "versions" of a package of their own,
better ones higher, so the solver tries them in order and rejects one like any version (P-55). A
build that was made for some versions of a package has a clause that excludes its other versions. It
does not require the package (P-52).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from nab_resolver.errors import ResolutionError, ResolutionTerminatedError
from nab_resolver.resolver import DEFAULT_MAX_ITERATIONS, BaseProvider, Resolver
from nab_resolver.types import Incompatibility, IncompatibilityCause, RootRequirement, Term

from wheelfit.resolution.problem import Dependency, Package, build_index, build_number
from wheelfit.resolution.version_policy import VersionPolicy
from wheelfit.resolution.version_set import VersionSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.resolution.problem import Build, Releases
    from wheelfit.resolution.proof import Step


class Solved(Struct, frozen=True):
    """A set of versions that meets all dependencies."""

    versions: Mapping[Package, Version]
    """The version of each required package, including extras."""
    edges: tuple[tuple[Package, Package], ...]
    """Each package with one that it requires, in the order of a walk from the roots."""
    builds: Mapping[NormalizedName, int]
    """The index of the chosen build by project, if the release has several."""


class Unsolvable(Exception):
    """Raised if no set of versions meets all dependencies."""

    def __init__(self, step: Step) -> None:
        super().__init__("unsolvable")
        self.step = step
        """The last step of the proof."""


class Exhausted(Exception):
    """Raised if the solver ends after too many steps, without a solution and without a proof."""


class _VersionsAdded(Exception):
    """Raised to restart when more versions of a package are admitted than before."""


def solve(
    releases: Releases,
    roots: Sequence[Dependency],
    constraints: Sequence[Dependency] = (),
    *,
    prereleases: bool = False,
    rounds: int = DEFAULT_MAX_ITERATIONS,
) -> Solved:
    """Return versions that meet all dependencies, the newest possible ones.

    :param roots: the requested packages; several dependencies may be on one package.
    :param constraints: limits on projects that are required.
    :param rounds: steps after which the search ends.
    :raises Unsolvable: there is no solution.
    :raises Exhausted: the search took too many steps.
    """
    search = _Search(releases, roots, constraints, prereleases=prereleases, rounds=rounds)
    try:
        while True:
            solved = search.run()
            unneeded = search.unneeded_build(solved)
            if unneeded is None:
                return solved
            search.exclude_build(*unneeded)
    except Unsolvable as error:
        if not search.excluded:
            raise
        # Builds were excluded because nothing requires the packages they were made for. There may
        # be a solution in which something does.
        alternative = search.find_alternative()
        if alternative is None:
            raise error from None
        return alternative


class _Search:
    """The search for versions, repeated until there is a result or a proof that there is none."""

    def __init__(
        self,
        releases: Releases,
        roots: Sequence[Dependency],
        constraints: Sequence[Dependency],
        *,
        prereleases: bool,
        rounds: int,
    ) -> None:
        self._rounds = rounds
        self._releases = releases
        self._roots = roots
        self._constraints = _Constraints(constraints)
        self._policy = VersionPolicy(releases, prereleases=prereleases)
        dependencies = [*self._constraints.dependencies_by_project(roots)]
        self._allowed_versions = {
            **self._constraints,
            **{dependency.package: dependency.versions for dependency in dependencies},
        }
        for dependency in (*constraints, *dependencies):
            self._policy.add_dependency(dependency)
        releases.prefetch(roots)
        self.excluded: list[_Clause] = []

    def run(self) -> Solved:
        """Return the solution of the library.

        :raises Unsolvable: it proves that there is no solution.
        :raises Exhausted: it takes too many steps.
        """
        while True:
            provider = _Provider(
                self._releases, self._policy, self._roots, self.excluded, self._allowed_versions
            )
            resolver: Resolver[Package, Version] = Resolver(
                provider,
                max_iterations=self._rounds,
                range_type=VersionSet,
                root_version="1",
                format_range=lambda _: "",  # the library's report is not used
            )
            try:
                solution = resolver.solve(
                    [
                        RootRequirement(dependency.package, dependency.versions, dependency)
                        for dependency in self._roots
                    ],
                    self._constraints,
                )
            except _VersionsAdded:
                # Learned clauses may be wrong now. Every round admits more of a finite number of
                # versions, so this ends; listings and choices are kept.
                continue
            except ResolutionTerminatedError as error:
                raise Exhausted(str(error)) from error
            except ResolutionError as error:
                if error.incompatibility is None:
                    raise Exhausted(str(error)) from error
                from wheelfit.resolution.solver_proof import Translation

                translation = Translation(provider, self._constraints.texts)
                raise Unsolvable(translation.step(error.incompatibility)) from None
            return _solution(solution.pins, solution.edges)

    def unneeded_build(self, solved: Solved) -> tuple[Package, int] | None:
        """Return a build made for a project that the solution lacks; None without one (P-54)."""
        required = {package.name for package in solved.versions}
        for name, index in solved.builds.items():
            release = solved.versions[Package(name)]
            build = self._releases.build(name, release, index)
            for limit in () if build is None else build.limits:
                project = limit.package.name
                if project in required:
                    continue
                version = self._releases.version_in_environment(project)
                if version is None or version not in limit.versions:
                    return Package(name, None, release), index
        return None

    def exclude_build(self, package: Package, index: int) -> None:
        """Exclude a build and the others of its label, which were made for the same projects.

        If many labels of a release are excluded already, exclude all following builds with limits.
        """
        release, label = _release(package), ""
        excluded_count = sum(clause[0].package == package for clause in self.excluded)
        while (build := self._releases.build(package.name, release, index)) is not None:
            label = label or build.name
            is_excluded_too = excluded_count >= _MAX_EXCLUDED and bool(build.limits)
            if build.name != label and not is_excluded_too:
                return
            self.excluded.append([Term(package, _gap_of_build(self._releases, package, index))])
            index += 1

    def find_alternative(self) -> Solved | None:
        """Return a solution without builds made for absent projects; None if none is found.

        Whole solutions are excluded, since a build may be usable in another one.
        """
        self.excluded.clear()
        for _ in range(_MAX_ATTEMPTS):
            try:
                solved = self.run()
            except (Unsolvable, Exhausted):
                return None
            unneeded = self.unneeded_build(solved)
            if unneeded is None:
                return solved
            package, index = unneeded
            literals = {package: build_number(index), **solved.versions}
            for name, chosen in solved.builds.items():
                literals[Package(name, None, solved.versions[Package(name)])] = build_number(chosen)
            self.excluded.append(
                [
                    Term(chosen_package, VersionSet.singleton(version))
                    for chosen_package, version in literals.items()
                ]
            )
        return None


_MAX_EXCLUDED = 50
"""Builds of one release that are excluded label by label."""
_MAX_ATTEMPTS = 200
"""Solutions that are tried before the search for a better one ends."""

_Clause = list[Term[Package, Any]]
"""Terms that cannot all be true."""


def _solution(pins: Mapping[Package, Version], edges: Sequence[tuple[Package, Package]]) -> Solved:
    """Return the solution by project; the requirements of a build become those of its project."""
    versions = {package: version for package, version in pins.items() if package.release is None}
    builds = {
        package.name: build_index(version)
        for package, version in pins.items()
        if package.release is not None and package.extra is None
    }
    project_edges = (
        (Package(*dependent[:2]), Package(*dependency[:2])) for dependent, dependency in edges
    )
    return Solved(
        versions, tuple(dict.fromkeys(edge for edge in project_edges if edge[0] != edge[1])), builds
    )


def _release(package: Package) -> Version:
    """Return the release of a package that stands for its builds.

    :raises ValueError: it is a project.
    """
    if package.release is None:
        raise ValueError(package)
    return package.release


def _gap_of_build(releases: Releases, package: Package, index: int) -> VersionSet:
    """Return the numbers between those of the next better and the next worse build."""
    name, release = package.name, _release(package)
    # The first build of the preferred version may be an installed one that stays. Then no other
    # needs to be examined, so it is assumed not to be the last.
    may_stay = index == 0 and releases.preferred_version(name) == release
    is_last = not may_stay and releases.build(name, release, index + 1) is None
    lower = None if is_last else build_number(index + 1)
    gap = VersionSet.between(lower, build_number(index - 1) if index else None)
    return VersionSet.singleton(build_number(index)) if gap is None else gap


class _Constraints(dict[Package, VersionSet]):
    """The versions that constraints allow, for every extra of a project."""

    def __init__(self, constraints: Sequence[Dependency]) -> None:
        super().__init__()
        self.texts: dict[NormalizedName, list[str]] = {}
        for dependency in constraints:
            base = Package(dependency.package.name)
            self[base] = dict.get(self, base, VersionSet.full()) & dependency.versions
            self.texts.setdefault(base.name, []).append(str(dependency.text))

    def get(self, package: Package, default: Any = None) -> Any:
        """Return the constraint on a project, also for its extras; builds have none."""
        if not self or package.release is not None:
            return default
        return dict.get(self, Package(package.name), default)

    def dependencies_by_project(self, roots: Sequence[Dependency]) -> Iterator[Dependency]:
        """Yield one dependency per project that combines the roots and constraints on it."""
        joint: dict[NormalizedName, VersionSet] = {}
        pins: set[NormalizedName] = set()
        for dependency in roots:
            name = dependency.package.name
            joint[name] = (
                joint.get(name, self.get(dependency.package, VersionSet.full()))
                & dependency.versions
            )
            if dependency.is_pin:
                pins.add(name)
        for name, versions in joint.items():
            yield Dependency(Package(name), versions, is_pin=name in pins)


class _Provider(BaseProvider[Package, Any]):
    """The library's interface to the releases."""

    def __init__(
        self,
        releases: Releases,
        policy: VersionPolicy,
        roots: Sequence[Dependency],
        clauses: Sequence[_Clause],
        allowed_versions: Mapping[Package, VersionSet],
    ) -> None:
        self._allowed_versions = allowed_versions  # by the user's requirements and constraints
        self._releases = releases
        self._policy = policy
        names = dict.fromkeys(dependency.package.name for dependency in roots)
        order = {name: index for index, name in enumerate(names)}
        self._root_order = {
            dependency.package: order[dependency.package.name] for dependency in roots
        }
        self._clauses = [_incompatibility(clause) for clause in clauses]
        self._with_limits: set[tuple[Package, Version]] = set()
        self._extras_tied: set[tuple[Package, Version]] = set()
        self._dependencies: dict[tuple[Package, Version], dict[Package, VersionSet]] = {}
        self._gaps: dict[tuple[Package, Version], VersionSet | None] = {}
        self._neighbours: dict[
            NormalizedName, dict[Version, tuple[Version | None, Version | None]]
        ] = {}
        self._narrowed: dict[tuple[Package, VersionSet], VersionSet] = {}
        self._ranges: Mapping[Package, Any] = {}
        self._decisions: Mapping[Package, Any] = {}
        self._culprit_counts: Mapping[Package, int] = {}
        self._builds: dict[Package, list[Build]] = {}
        for package in dict.fromkeys(clause[0].package for clause in clauses):
            # Excluded builds still appear in proofs.
            index = 0
            while self._examined_build(package, _release(package), index) is not None:
                index += 1
        self.reasons: dict[tuple[Package, Package, VersionSet], Dependency] = {}

    # --- choosing ------------------------------------------------------------

    def receive_partial_solution_hint(
        self, positive_ranges: Mapping[Package, Any], decisions: Mapping[Package, Any]
    ) -> None:
        self._ranges, self._decisions = positive_ranges, decisions

    def choose_version(self, package: Package, version_range: Any) -> Version | None:
        chosen = None
        if package.extra is not None:
            # An extra has the version of its project, so a decided version is tried first.
            base = self._ranges.get(package.base)
            if base is not None:
                chosen = self._first_usable(package, version_range & base)
            if self._tie(package) and chosen is None:
                return None  # no other version of the extra helps; the clause has the reason
        # Except for the None above, the range alone must decide whether the result is None: the
        # library relies on that.
        if chosen is None:
            chosen = self._first_usable(package, version_range)
        if chosen is not None and package.release is None:
            self._exclude_with_unmet_dependency(package, chosen, version_range)
        elif chosen is not None and package.extra is None:
            self._limit(package, chosen)
        return chosen

    def _exclude_with_unmet_dependency(
        self, package: Package, chosen: Version, versions: VersionSet
    ) -> None:
        """If a dependency cannot be met, add it for all older versions that have it, too.

        One conflict then excludes all of them. Otherwise each would cause its own conflict, which
        costs more than the one before.
        """
        for dependency, needed in self.get_dependencies(package, chosen).items():
            # A clause has at most one term for each package, so a package cannot depend on itself.
            if dependency == package or self._culprit_counts.get(dependency, 0) < _MANY_CONFLICTS:
                continue
            allowed = self._allowed_versions.get(dependency.base, VersionSet.full())
            if self._first_usable(dependency, needed & allowed) is not None:
                continue
            for version in self._policy.choices(package.name, versions):
                if not self._releases.is_usable(package.name, version):
                    continue
                if self.get_dependencies(package, version).get(dependency) != needed:
                    break
                gap = self.widen_decision(package, version) or VersionSet.singleton(version)
                clause = [Term(package, gap), Term(dependency, needed, positive=False)]
                self._clauses.append(_incompatibility(clause))

    def _tie(self, extra: Package) -> bool:
        """Tie an extra to the version of its project; return whether that is new.

        Without this clause, after a conflict with an extra's requirement every older version of the
        extra would be tried with the same version of the project.
        """
        decided = self._decisions.get(extra.base)
        if decided is None or (extra, decided) in self._extras_tied:
            return False
        self._extras_tied.add((extra, decided))
        gap = self.widen_decision(extra.base, decided) or VersionSet.singleton(decided)
        clause = [Term(extra, VersionSet.full() - gap), Term(extra.base, gap)]
        self._clauses.append(_incompatibility(clause))
        return True

    def has_satisfying_version(self, package: Package, version_range: Any) -> bool:
        return self._first_usable(package, version_range) is not None

    def _first_usable(self, package: Package, versions: VersionSet) -> Version | None:
        if package.release is not None:
            return self._first_build(package.base, package.release, versions)
        name = package.name
        preferred = self._releases.preferred_version(name)
        if (
            preferred is not None
            and preferred in versions
            and self._releases.is_usable(name, preferred)
        ):
            return preferred
        for version in self._policy.choices(name, versions):
            if self._releases.is_usable(name, version):
                return version
        return None

    # --- builds ----------------------------------------------------------------

    def _first_build(
        self, package: Package, release: Version, versions: VersionSet
    ) -> Version | None:
        index = 0
        while self._examined_build(package, release, index) is not None:
            number = build_number(index)
            if number in versions and self._releases.is_build_usable(package.name, release, index):
                return number
            index += 1
        return None

    def _examined_build(self, package: Package, release: Version, index: int) -> Build | None:
        """Return a build, recorded for proofs; None if there is none."""
        builds = self._builds.setdefault(package, [])
        if index == len(builds):
            build = self._releases.build(package.name, release, index)
            if build is None:
                return None
            builds.append(build)
        return builds[index]

    def _limit(self, package: Package, number: Version) -> None:
        """Add the limits of a build as clauses before its decision (P-52)."""
        if (package, number) in self._with_limits:
            return
        self._with_limits.add((package, number))
        gap = self.widen_decision(package, number) or VersionSet.singleton(number)
        for limit in self._builds[package][build_index(number)].limits:
            others = VersionSet.full() - limit.versions
            self.reasons.setdefault((package, limit.package, others), limit)
            clause = [Term(package, gap), Term(limit.package, others)]
            self._clauses.append(_incompatibility(clause))

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
        """Rank the user's packages first, in their order, then builds (P-55).

        Of the others, packages in many conflicts come first, then those with the fewest versions.

        An extra comes before its project, which then has one version left.

        Tiers: 0 the user's packages, 1 builds, 2 many conflicts, 3 a single version, 4 others,
        5 a cause of many conflicts.
        """
        if culprit_counts is not None:
            self._culprit_counts = culprit_counts
        index = self._root_order.get(Package(package.name, package.extra))
        if package.release is not None:
            root_index = len(self._root_order) if index is None else index
            return 1, root_index, 1 if package.extra else 0
        if index is not None:
            return 0, index, 0 if package.extra else 1
        preferred = self._releases.preferred_version(package.name)
        if preferred is not None and preferred in version_range:
            count = 1
        else:
            count = len(self._policy.choices(package.name, version_range))
        if conflict_counts.get(package, 0) >= _MANY_CONFLICTS:
            tier = 2
        elif count <= 1:
            tier = 3
        elif culprit_counts is not None and culprit_counts.get(package, 0) >= _MANY_CONFLICTS:
            tier = 5
        else:
            tier = 4
        return tier, count, 0 if package.extra else 1

    # --- dependencies ---------------------------------------------------------

    def get_dependencies(self, package: Package, version: Version) -> Mapping[Package, Any]:
        key = (package, version)
        cached = self._dependencies.get(key)
        if cached is not None:
            return cached
        dependencies: Sequence[Dependency] = ()
        ranges: dict[Package, VersionSet] = {}
        if package.extra is not None:
            base = package.base
            same = self.widen_decision(base, version) or VersionSet.singleton(version)
            ranges[base] = same
            if package.release is None:
                reason = Dependency(base, same, f"{base} of the same version")
                self.reasons[package, base, same] = reason
        if package.release is None and self._releases.has_several_builds(package.name, version):
            ranges[package._replace(release=version)] = VersionSet.full()
        else:
            dependencies = self._releases.dependencies(package, version)
        has_more_versions = False
        for dependency in dependencies:
            before = ranges.get(dependency.package)
            versions = dependency.versions if before is None else before & dependency.versions
            ranges[dependency.package] = versions
            # If there are several dependencies on one package, the reason has the texts of all.
            earlier = self.reasons.get((package, dependency.package, before)) if before else None
            text = dependency.text if earlier is None else f"{earlier.text}, {dependency.text}"
            self.reasons.setdefault(
                (package, dependency.package, versions),
                Dependency(dependency.package, versions, text, dependency.is_pin),
            )
            has_more_versions |= self._policy.add_dependency(dependency)
        self._releases.prefetch(dependencies)
        self._dependencies[key] = ranges
        if has_more_versions:
            raise _VersionsAdded
        return ranges

    def admitted_versions(self, package: Package) -> tuple[Version, ...]:
        """Return the admitted versions, newest first; empty if the project was not listed."""
        if package.release is not None:
            return tuple(build_number(index) for index in range(len(self.builds(package))))
        name = package.name
        return self._policy.admitted_versions(name) if self._policy.is_listed(name) else ()

    def builds(self, package: Package) -> Sequence[Build]:
        """Return the examined builds of a release, best first."""
        return self._builds.get(package.base, ())

    # --- long histories ---------------------------------------------------------

    def widen_decision(self, package: Package, version: Version) -> VersionSet | None:
        """Return the gap between the next lower and the next higher admitted release.

        No other version inside it can be chosen, so facts about this version are true for the gap;
        adjacent gaps can be merged.
        """
        key = (package.base, version)
        gap = self._gaps.get(key)
        if gap is None:
            gap = self._gaps[key] = self._gap(package, version)
        return gap

    def _gap(self, package: Package, version: Version) -> VersionSet | None:
        if package.release is not None:
            return _gap_of_build(self._releases, package, build_index(version))
        neighbours = self._neighbours.get(package.name)
        if neighbours is None:
            listed = self.admitted_versions(package.base)
            if not listed:
                return None  # the project stays as installed; its listing was not read
            neighbours = {
                version: (below, above)
                for above, version, below in zip(
                    (None, *listed), listed, (*listed[1:], None), strict=False
                )
            }
            self._neighbours[package.name] = neighbours
        bounds = neighbours.get(version)
        return None if bounds is None or version.local else VersionSet.between(*bounds)

    def narrow_for_display(self, package: Any, constraint: Any) -> Any:
        """Return a set of versions reduced to listed ones, as intervals."""
        listed = self.admitted_versions(package) if isinstance(package, Package) else ()
        if not listed:
            return constraint
        key = (package.base, constraint)
        shown = self._narrowed.get(key)
        if shown is None:
            inside = set(constraint.members(listed))
            intervals: list[tuple[Version, Version]] = []
            is_open = False
            for version in reversed(listed):
                if version in inside and is_open:
                    intervals[-1] = (intervals[-1][0], version)
                elif version in inside:
                    intervals.append((version, version))
                is_open = version in inside
            shown = self._narrowed[key] = VersionSet.union_of_intervals(intervals) or constraint
        return shown


_MANY_CONFLICTS = 5
"""Conflicts after which a package is decided earlier, or later if it caused them."""


def _incompatibility(clause: _Clause) -> Incompatibility[Package, Any]:
    # The library expects other terms for any other cause.
    return Incompatibility(list(clause), cause=IncompatibilityCause.DEPENDENCY)
