"""The proof that there is no solution: the derivation of ``nab_resolver``, as steps of ours.

Apart from `wheelfit.resolution.solver`, because most searches end with a solution.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from nab_resolver.root import ROOT
from nab_resolver.types import Incompatibility, IncompatibilityCause

from wheelfit.resolution.problem import Need, place_of
from wheelfit.resolution.proof import Step, StepKind, Term
from wheelfit.resolution.version_set import VersionSet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nab_resolver.types import RangeProtocol
    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.resolution.problem import Build, Package


class LookedAtPackages(Protocol):
    """The packages that a search has looked at."""

    reasons: dict[tuple[Package, Package, VersionSet], Need]
    """Why one package needs some versions of another."""

    def known(self, package: Package) -> tuple[Version, ...]:
        """Return the versions that count, newest first; none if the project was not listed."""

    def builds(self, package: Package) -> Sequence[Build]:
        """Return the builds of a release that were looked at, best first."""

    def narrow_for_display(self, package: Any, constraint: Any) -> Any:
        """Return the listed versions of a set, run by run."""


class Translation:
    """The translation of the library's derivation into steps of ours.

    :param packages: the packages of the search.
    :param limits: the constraints as written, by project.
    """

    def __init__(
        self, packages: LookedAtPackages, limits: Mapping[NormalizedName, Sequence[str]]
    ) -> None:
        self._packages = packages
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
        folded = self._folded(node, causes)
        if folded is not None:
            return folded
        terms = tuple(
            Term(
                term.package,
                self._shown(node, term),
                term.is_positive(),
                self._packages.known(term.package),
                tuple(build.name for build in self._packages.builds(term.package))
                if term.package.release is not None
                else (),
            )
            for term in node.terms
            if term.package is not ROOT
        )
        text = ""
        kind = _KINDS[node.cause]
        if node.cause is IncompatibilityCause.ROOT and isinstance(node.origin, Need):
            text = str(node.origin.text)
        elif node.cause is IncompatibilityCause.DEPENDENCY:
            kind = _kind_of_dependency(node)
            text = self._requirement(node)
            if kind is StepKind.IDLE:
                text = self._made_for(terms[0])
        elif node.cause is IncompatibilityCause.CONSTRAINT:
            (term,) = terms
            text = " and ".join(self._limits.get(term.package.name, []))
        return Step(kind, terms, text, causes)

    @staticmethod
    def _folded(node: Incompatibility[Any, Any], causes: tuple[Step, ...]) -> Step | None:
        """Return a cause with the same meaning for users, if there is one.

        That a release is one of its builds is obvious.
        """
        if len(causes) != 2 or any(getattr(t.package, "release", None) for t in node.terms):
            return None
        left, right = causes
        if left.kind is StepKind.DIVIDED:
            return right
        return left if right.kind is StepKind.DIVIDED else None

    def _made_for(self, term: Term) -> str:
        """Return the projects that builds were made for, as ``torch``."""
        builds = self._packages.builds(term.package)
        places = [place_of(number) for number in term.versions.members(term.known)]
        limits = (limit for place in places for limit in builds[place].limits)
        return " and ".join(dict.fromkeys(limit.package.name for limit in limits))

    def _shown(self, node: Incompatibility[Any, Any], term: Any) -> VersionSet:
        # A missing package keeps the words of its requirement.
        if not term.is_positive() or node.cause is IncompatibilityCause.NO_VERSIONS:
            versions: VersionSet = term.constraint
            return versions
        shown: VersionSet = self._packages.narrow_for_display(term.package, term.constraint)
        return shown

    def _requirement(self, node: Incompatibility[Any, Any]) -> str:
        parent = node.terms[0].package
        needed: RangeProtocol[Any] | None
        if len(node.terms) == 1 and node.dependency_range is None:
            return ""
        if _is_tie(node):
            return f"{parent.base} of the same version"
        if len(node.terms) == 1:
            child, needed = parent, node.dependency_range
        else:
            child, needed = node.terms[1].package, node.terms[1].constraint
        if needed is None or not isinstance(needed, VersionSet):
            return ""
        need = self._packages.reasons.get((parent, child, needed))
        return str(need.text) if need else ""


def _kind_of_dependency(node: Incompatibility[Any, Any]) -> StepKind:
    if len(node.terms) == 1:
        return StepKind.IDLE if node.dependency_range is None else StepKind.NEEDS
    parent, child = node.terms[:2]
    if child.is_positive():
        return StepKind.NEEDS if _is_tie(node) else StepKind.LIMITS
    is_own = child.package.release is not None and parent.package.release is None
    return StepKind.DIVIDED if is_own else StepKind.NEEDS


def _is_tie(node: Incompatibility[Any, Any]) -> bool:
    """Return whether a clause ties an extra to the version of its project."""
    if len(node.terms) != 2 or not node.terms[1].is_positive():
        return False
    extra, base = node.terms[0].package, node.terms[1].package
    return bool(extra.extra is not None and extra.base == base)


_KINDS = {
    IncompatibilityCause.ROOT: StepKind.ASKED,
    IncompatibilityCause.DEPENDENCY: StepKind.NEEDS,
    IncompatibilityCause.NO_VERSIONS: StepKind.NOTHING,
    IncompatibilityCause.CONSTRAINT: StepKind.CONSTRAINED,
    IncompatibilityCause.DERIVED: StepKind.FOLLOWS,
}
