"""The proof that there is no solution, translated from the derivation of ``nab_resolver``.

It is not in `wheelfit.resolution.solver`, because most searches end with a solution.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from nab_resolver.root import ROOT
from nab_resolver.types import Incompatibility, IncompatibilityCause, RangeProtocol

from wheelfit.resolution.problem import Build, Dependency, Package, build_index
from wheelfit.resolution.proof import Step, StepKind, Term
from wheelfit.resolution.version_set import VersionSet

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version


class ExaminedPackages(Protocol):
    """The packages that a search examined."""

    reasons: dict[tuple[Package, Package, VersionSet], Dependency]
    """The dependencies, by requiring package, required package and required versions."""

    def admitted_versions(self, package: Package) -> tuple[Version, ...]:
        """Return the admitted versions, newest first; empty if the project was not listed."""

    def builds(self, package: Package) -> Sequence[Build]:
        """Return the examined builds of a release, best first."""

    def narrow_for_display(self, package: Any, constraint: Any) -> Any:
        """Return a set of versions reduced to listed ones, as intervals."""


class Translation:
    """The translation of the library's derivation into proof steps.

    :param constraint_texts: the constraints as written, by project.
    """

    def __init__(
        self, packages: ExaminedPackages, constraint_texts: Mapping[NormalizedName, Sequence[str]]
    ) -> None:
        self._packages = packages
        self._constraint_texts = constraint_texts

    def step(self, root: Incompatibility[Any, Any]) -> Step:
        """Return the step for a derivation; shared parts stay shared."""
        translated: dict[int, Step] = {}
        pending = [root]
        while pending:
            node = pending[-1]
            causes = [cause for cause in (node.cause_left, node.cause_right) if cause is not None]
            missing = [cause for cause in causes if id(cause) not in translated]
            if missing and id(node) not in translated:
                pending.extend(missing)
                continue
            pending.pop()
            if id(node) not in translated:
                translated[id(node)] = self._translate(
                    node, tuple(translated[id(cause)] for cause in causes)
                )
        return translated[id(root)]

    def _translate(self, node: Incompatibility[Any, Any], causes: tuple[Step, ...]) -> Step:
        equivalent = self._equivalent_cause(node, causes)
        if equivalent is not None:
            return equivalent
        terms = tuple(
            Term(
                term.package,
                self._versions_shown(node, term),
                term.is_positive(),
                self._packages.admitted_versions(term.package),
                tuple(build.name for build in self._packages.builds(term.package))
                if term.package.release is not None
                else (),
            )
            for term in node.terms
            if term.package is not ROOT
        )
        text = ""
        kind = _KINDS[node.cause]
        if node.cause is IncompatibilityCause.ROOT and isinstance(node.origin, Dependency):
            text = str(node.origin.text)
        elif node.cause is IncompatibilityCause.DEPENDENCY:
            kind = _kind_of_dependency(node)
            text = self._requirement(node)
            if kind is StepKind.UNNEEDED:  # such as a build for torch, without torch
                text = self._projects_built_for(terms[0])
        elif node.cause is IncompatibilityCause.CONSTRAINT:
            (term,) = terms
            text = " and ".join(self._constraint_texts.get(term.package.name, []))
        return Step(kind, terms, text, causes)

    @staticmethod
    def _equivalent_cause(node: Incompatibility[Any, Any], causes: tuple[Step, ...]) -> Step | None:
        """Return the cause that means the same to users; None if there is none.

        The other cause states only that a release consists of its builds. Or the cause ties an
        extra to its project, and the other one states that there are no versions between two
        adjacent ones.
        """
        if len(causes) != 2 or any(getattr(term.package, "release", None) for term in node.terms):
            return None
        left, right = causes
        for step, other, cause in ((left, right, node.cause_left), (right, left, node.cause_right)):
            if other.kind is StepKind.HAS_BUILDS:
                return step
            if other.kind is StepKind.UNAVAILABLE and cause is not None and _ties_extra(cause):
                (term,) = other.terms
                if not term.versions.members(term.admitted_versions):
                    return step
        return None

    def _projects_built_for(self, term: Term) -> str:
        """Return the projects that builds were made for, such as ``torch``."""
        builds = self._packages.builds(term.package)
        indexes = [build_index(number) for number in term.versions.members(term.admitted_versions)]
        limits = (limit for index in indexes for limit in builds[index].limits)
        return " and ".join(dict.fromkeys(limit.package.name for limit in limits))

    def _versions_shown(self, node: Incompatibility[Any, Any], term: Any) -> VersionSet:
        # For a missing package the versions are those of its requirement.
        if not term.is_positive() or node.cause is IncompatibilityCause.NO_VERSIONS:
            versions: VersionSet = term.constraint
            return versions
        shown: VersionSet = self._packages.narrow_for_display(term.package, term.constraint)
        return shown

    def _requirement(self, node: Incompatibility[Any, Any]) -> str:
        parent = node.terms[0].package
        needed: RangeProtocol[Any] | None
        if _is_unneeded(node):
            return ""
        if len(node.terms) == 1:
            child, needed = parent, node.dependency_range
        else:
            child, needed = node.terms[1].package, node.terms[1].constraint
        if needed is None or not isinstance(needed, VersionSet):
            return ""
        dependency = self._packages.reasons.get((parent, child, needed))
        if dependency is None:
            return f"{child} of the same version" if _ties_extra(node) else ""
        return str(dependency.text)


def _kind_of_dependency(node: Incompatibility[Any, Any]) -> StepKind:
    if _is_unneeded(node):
        return StepKind.UNNEEDED
    if len(node.terms) == 1:  # a package that depends on itself
        return StepKind.NEEDS
    parent, child = node.terms[:2]
    if child.is_positive():
        return StepKind.NEEDS if _ties_extra(node) else StepKind.BUILD_LIMITS
    is_release_and_its_builds = child.package.release is not None and parent.package.release is None
    return StepKind.HAS_BUILDS if is_release_and_its_builds else StepKind.NEEDS


def _is_unneeded(node: Incompatibility[Any, Any]) -> bool:
    """Return whether a clause excludes builds made for projects that are not installed."""
    return len(node.terms) == 1 and node.dependency_range is None


def _ties_extra(node: Incompatibility[Any, Any]) -> bool:
    """Return whether a clause ties an extra to the version of its project."""
    if len(node.terms) != 2 or node.cause is not IncompatibilityCause.DEPENDENCY:
        return False
    extra, base = node.terms[0].package, node.terms[1].package
    return bool(extra.extra is not None and extra.base == base)


_KINDS = {
    IncompatibilityCause.ROOT: StepKind.REQUESTED,
    IncompatibilityCause.DEPENDENCY: StepKind.NEEDS,
    IncompatibilityCause.NO_VERSIONS: StepKind.UNAVAILABLE,
    IncompatibilityCause.CONSTRAINT: StepKind.CONSTRAINED,
    IncompatibilityCause.DERIVED: StepKind.DERIVED,
}
