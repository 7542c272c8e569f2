"""Choose one version for every package that is needed: the adapter to ``nab_resolver``.

This is the only module that knows the solver library. What it solves is given
through `problem.Releases`, and what comes out is a ``Solved``, or an ``Unsolvable``
whose ``Step``s are the proof.

Three things keep PubGrub quick on long histories: a decision stands for the
whole gap around its release (``widen_decision``), what a set of versions holds is
remembered, and proofs speak of listed versions only (``narrow_for_display``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nab_resolver.errors import ResolutionError, ResolutionTerminatedError
from nab_resolver.resolver import BaseProvider, Resolver
from nab_resolver.root import ROOT
from nab_resolver.types import IncompatibilityCause, RootRequirement

from wheelfit.resolve.admission import Admission
from wheelfit.resolve.problem import Need, Package
from wheelfit.resolve.proof import Kind, Step, Term
from wheelfit.resolve.version_set import VersionSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nab_resolver.types import Incompatibility, RangeProtocol
    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.resolve.problem import Releases

__all__ = ["Exhausted", "Solved", "Unsolvable", "solve"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True, slots=True)
class Solved:
    """Hold a set of versions in which every need is met."""

    versions: Mapping[Package, Version]
    """Every package that is needed, extras too."""
    edges: tuple[tuple[Package, Package], ...]
    """Who needs whom, in the order of a walk from the roots."""


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
    """More versions of a package count than it was told before; begin anew."""


def solve(
    releases: Releases,
    roots: Sequence[Need],
    constraints: Sequence[Need] = (),
    *,
    prereleases: bool = False,
) -> Solved:
    """Return versions that meet every need, newer ones first where there is a choice.

    :param releases: what exists.
    :param roots: what is asked for; several needs may speak of one package.
    :param constraints: what must hold of a project if anything needs it.
    :param prereleases: whether pre-releases count like final releases.
    :raises Unsolvable: there are none.
    :raises Exhausted: the search took too many steps.
    """
    limits = _Limits(constraints)
    admission = Admission(releases, prereleases=prereleases)
    for need in [*constraints, *limits.joined(roots)]:
        admission.see(need)
    releases.announce(roots)
    provider = _Provider(releases, admission)
    while True:
        resolver: Resolver[Package, Version] = Resolver(
            provider,
            range_type=VersionSet,
            root_version="1",
            format_range=lambda _: "",  # the library's own report is not used
        )
        try:
            solution = resolver.solve(
                [RootRequirement(need.package, need.versions, need) for need in roots], limits
            )
        except _Grown:
            # What was learned may be wrong now. Every round admits more versions
            # of a finite number, so this ends; listings and choices are kept.
            provider = _Provider(releases, admission)
            continue
        except ResolutionTerminatedError as error:
            raise Exhausted(str(error)) from error
        except ResolutionError as error:
            if error.incompatibility is None:
                raise Exhausted(str(error)) from error
            raise Unsolvable(_Translation(provider, limits).step(error.incompatibility)) from None
        return Solved(solution.pins, solution.edges)


class _Limits(dict[Package, VersionSet]):
    """Answer for every extra of a project what its constraints allow."""

    def __init__(self, constraints: Sequence[Need]) -> None:
        super().__init__()
        self.texts: dict[NormalizedName, list[str]] = {}
        for need in constraints:
            base = Package(need.package.name)
            self[base] = dict.get(self, base, VersionSet.full()) & need.versions
            self.texts.setdefault(base.name, []).append(need.text)

    def get(self, package: Package, default: Any = None) -> Any:
        """Return the limit of a project also for its extras."""
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
    """Translate the solver's questions."""

    def __init__(self, releases: Releases, admission: Admission) -> None:
        self._releases = releases
        self._admission = admission
        self._needs: dict[tuple[Package, Version], dict[Package, VersionSet]] = {}
        self._gaps: dict[tuple[NormalizedName, Version], VersionSet | None] = {}
        self._neighbours: dict[
            NormalizedName, dict[Version, tuple[Version | None, Version | None]]
        ] = {}
        self._shown: dict[tuple[NormalizedName, VersionSet], VersionSet] = {}
        self._ranges: Mapping[Package, Any] = {}
        self.reasons: dict[tuple[Package, Package, VersionSet], Need] = {}

    # --- choosing ------------------------------------------------------------

    def receive_partial_solution_hint(
        self, positive_ranges: Mapping[Package, Any], decisions: Mapping[Package, Any]
    ) -> None:
        del decisions
        self._ranges = positive_ranges

    def choose_version(self, package: Package, version_range: Any) -> Version | None:
        if package.extra is not None:
            # An extra goes with its project: what is decided there is tried
            # first. The answer None must follow from the range alone, though.
            base = self._ranges.get(Package(package.name))
            if base is not None:
                chosen = self._first_usable(package.name, version_range & base)
                if chosen is not None:
                    return chosen
        return self._first_usable(package.name, version_range)

    def has_satisfying_version(self, package: Package, version_range: Any) -> bool:
        return self._first_usable(package.name, version_range) is not None

    def _first_usable(self, name: NormalizedName, versions: VersionSet) -> Version | None:
        kept = self._releases.kept(name)
        if kept is not None and kept in versions:
            return kept
        for version in self._admission.choices(name, versions):
            if self._releases.is_usable(name, version):
                return version
        return None

    # --- the order of decisions ----------------------------------------------

    def prioritize(
        self,
        package: Package,
        version_range: Any,
        conflict_counts: Mapping[Package, int],
        culprit_counts: Mapping[Package, int] | None = None,
    ) -> tuple[int, int, int]:
        """Rank troublemakers first, then what has the fewest choices left."""
        kept = self._releases.kept(package.name)
        if kept is not None and kept in version_range:
            count = 1
        else:
            count = len(self._admission.choices(package.name, version_range))
        if conflict_counts.get(package, 0) >= _OFTEN:
            tier = 0
        elif count <= 1:
            tier = 1
        elif culprit_counts is not None and culprit_counts.get(package, 0) >= _OFTEN:
            tier = 3
        else:
            tier = 2
        # An extra before its project: the project then has one choice left.
        return tier, count, 0 if package.extra else 1

    # --- dependencies ---------------------------------------------------------

    def get_dependencies(self, package: Package, version: Version) -> Mapping[Package, Any]:
        key = (package, version)
        known = self._needs.get(key)
        if known is not None:
            return known
        needs = self._releases.needs(package, version)
        together: dict[Package, VersionSet] = {}
        if package.extra is not None:
            base = Package(package.name)
            together[base] = self._gap(package.name, version) or VersionSet.singleton(version)
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

    def known(self, name: NormalizedName) -> tuple[Version, ...]:
        """Return the versions that count, newest first; none if nobody looked."""
        return self._admission.counted(name) if self._admission.is_listed(name) else ()

    # --- long histories ---------------------------------------------------------

    def widen_decision(self, package: Package, version: Version) -> VersionSet | None:
        """Return the gap between the releases below and above that count.

        No other version can be chosen inside it before everything begins anew, so
        what holds of this version holds of the gap; adjacent gaps merge seamlessly.
        """
        return self._gap(package.name, version)

    def _gap(self, name: NormalizedName, version: Version) -> VersionSet | None:
        key = (name, version)
        if key not in self._gaps:
            neighbours = self._neighbours.get(name)
            if neighbours is None:
                listed = self.known(name)
                if not listed:
                    return None  # a kept version, whose listing nobody has asked for
                neighbours = {
                    here: (below, above)
                    for above, here, below in zip(
                        (None, *listed), listed, (*listed[1:], None), strict=False
                    )
                }
                self._neighbours[name] = neighbours
            place = neighbours.get(version)
            self._gaps[key] = None if place is None or version.local else VersionSet.between(*place)
        return self._gaps[key]

    def narrow_for_display(self, package: Any, constraint: Any) -> Any:
        """Return the listed versions of a set, run by run."""
        listed = self.known(package.name) if isinstance(package, Package) else ()
        if not listed:
            return constraint
        key = (package.name, constraint)
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


class _Translation:
    """Turn the library's derivation into steps of ours."""

    def __init__(self, provider: _Provider, limits: _Limits) -> None:
        self._provider = provider
        self._limits = limits

    def step(self, root: Incompatibility[Any, Any]) -> Step:
        """Return the step for a derivation; shared parts stay shared."""
        done: dict[int, Step] = {}
        pending = [root]
        while pending:
            node = pending[-1]
            causes = [cause for cause in (node.cause_left, node.cause_right) if cause is not None]
            missing = [cause for cause in causes if id(cause) not in done]
            if missing and id(node) not in done:
                pending.extend(missing)
                continue
            pending.pop()
            if id(node) not in done:
                done[id(node)] = self._one(node, tuple(done[id(cause)] for cause in causes))
        return done[id(root)]

    def _one(self, node: Incompatibility[Any, Any], causes: tuple[Step, ...]) -> Step:
        terms = tuple(
            Term(
                term.package,
                self._shown(node, term),
                term.is_positive(),
                self._provider.known(term.package.name),
            )
            for term in node.terms
            if term.package is not ROOT
        )
        text = ""
        if node.cause is IncompatibilityCause.ROOT and isinstance(node.origin, Need):
            text = node.origin.text
        elif node.cause is IncompatibilityCause.DEPENDENCY:
            text = self._requirement(node)
        elif node.cause is IncompatibilityCause.CONSTRAINT:
            (term,) = terms
            text = " and ".join(self._limits.texts.get(term.package.name, []))
        return Step(_KINDS[node.cause], terms, text, causes)

    def _shown(self, node: Incompatibility[Any, Any], term: Any) -> VersionSet:
        # What does not exist keeps the words of whoever asked for it.
        if not term.is_positive() or node.cause is IncompatibilityCause.NO_VERSIONS:
            versions: VersionSet = term.constraint
            return versions
        shown: VersionSet = self._provider.narrow_for_display(term.package, term.constraint)
        return shown

    def _requirement(self, node: Incompatibility[Any, Any]) -> str:
        parent = node.terms[0].package
        needed: RangeProtocol[Any] | None
        if len(node.terms) == 1:
            child, needed = parent, node.dependency_range
        else:
            child, needed = node.terms[1].package, node.terms[1].constraint
        if needed is None or not isinstance(needed, VersionSet):
            return ""
        need = self._provider.reasons.get((parent, child, needed))
        return need.text if need else ""


_KINDS = {
    IncompatibilityCause.ROOT: Kind.ASKED,
    IncompatibilityCause.DEPENDENCY: Kind.NEEDS,
    IncompatibilityCause.NO_VERSIONS: Kind.NOTHING,
    IncompatibilityCause.CONSTRAINT: Kind.CONSTRAINED,
    IncompatibilityCause.DERIVED: Kind.FOLLOWS,
}
