"""The error for the user, from the proof of the solver that there is no solution."""

from __future__ import annotations

from contextlib import suppress
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.errors import NoSolution
from wheelfit.resolution.no_match import MatchExplanations, unknown_project
from wheelfit.resolution.proof import (
    StepKind,
    count_steps,
    is_long,
    main_cause,
    write_proof,
    write_proof_of_newest,
)
from wheelfit.resolution.solver import Exhausted, Unsolvable, solve
from wheelfit.resolution.version_policy import VersionPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.resolution.catalogue import Catalogue
    from wheelfit.resolution.problem import Dependency
    from wheelfit.resolution.proof import Step
    from wheelfit.resolution.version_set import VersionSet
    from wheelfit_runtime.errors import HashMismatch, NoFit

_MAX_CHECKED_RELEASES = 3
"""The number of releases of one project that are checked again."""
_MAX_PROOFS = 3
"""The number of projects for which a proof from the newest release is searched."""


class FailedSearch(Struct, frozen=True):
    """A failed search for versions."""

    step: Step
    """The last step of the proof."""
    catalogue: Catalogue
    roots: Sequence[Dependency]
    constraints: Sequence[Dependency]
    prereleases: bool
    """Whether pre-releases were allowed."""

    def explain(self) -> NoFit | HashMismatch:
        """Return the error with the reason there is no solution."""
        catalogue, facts = self.catalogue, list(self.step.facts())
        explanations = MatchExplanations(
            catalogue, prereleases=self.prereleases, constraints=self.constraints
        )
        unavailable = [fact for fact in facts if fact.kind is StepKind.UNAVAILABLE]
        requested = {dependency.package.name for dependency in self.roots}
        for fact in unavailable:
            name = fact.terms[0].package.name
            if name in requested and catalogue.candidates.listing(name) is None:
                return unknown_project(name, catalogue.candidates)
        for fact in unavailable:
            term = fact.terms[0]
            label_error = explanations.unknown_label(term.package.name, term.versions)
            if label_error is not None:
                return label_error
        for fact in unavailable:
            term = fact.terms[0]
            hash_error = explanations.wrong_hashes(term.package.name, term.versions)
            if hash_error is not None:
                return hash_error
        if len(facts) == 2 and {fact.kind for fact in facts} == {
            StepKind.REQUESTED,
            StepKind.UNAVAILABLE,
        }:
            (fact,) = unavailable
            name = fact.terms[0].package.name
            return explanations.unusable_project_error(
                name, fact.terms[0].versions, self._other_unusable_projects(name)
            )
        for fact in facts:
            if fact.kind is StepKind.BUILD_LIMITS:
                package = fact.terms[0].package
                explanations.record_installed_conflict(package.name, package.release)
        note = self._proof_text(explanations)
        error = NoSolution(
            "the requirements cannot all be met",
            note="\n".join([note, *explanations.details()]),
            hint=explanations.hint(facts),
        )
        error.main_cause = main_cause(self.step, explanations)
        return error

    def _proof_text(self, explanations: MatchExplanations) -> str:
        """Return a proof as text; a long one begins with the newest release of a root."""
        if not is_long(self.step):
            return write_proof(self.step, explanations)
        proofs: list[tuple[Step, NormalizedName, Version]] = []
        for name in dict.fromkeys(dependency.package.name for dependency in self.roots):
            version = self._newest(name)
            if version is None or len(proofs) == _MAX_PROOFS:
                continue
            with suppress(Exhausted):
                try:
                    solve(
                        self.catalogue,
                        [dependency.restricted_to(name, version) for dependency in self.roots],
                        self.constraints,
                        prereleases=self.prereleases,
                    )
                except Unsolvable as error:
                    proofs.append((error.step, name, version))
        if not proofs:
            return write_proof(self.step, explanations)
        newest, name, version = min(proofs, key=lambda proof: count_steps(proof[0]))
        return write_proof_of_newest(newest, self.step, name, version, explanations)

    def _other_unusable_projects(
        self, reported: NormalizedName
    ) -> Iterator[tuple[NormalizedName, VersionSet]]:
        """Yield other requested projects without a usable release, if few releases are to check.

        :param reported: the project that is reported anyway.
        """
        for name in dict.fromkeys(dependency.package.name for dependency in self.roots):
            if name == reported:
                continue
            of_name = [root.versions for root in self.roots if root.package.name == name]
            versions = reduce(and_, of_name)
            listed = versions.members(self.catalogue.versions(name))
            if 0 < len(listed) <= _MAX_CHECKED_RELEASES and not any(
                self.catalogue.is_usable(name, version) for version in listed
            ):
                yield name, versions

    def _newest(self, name: NormalizedName) -> Version | None:
        """Return the newest usable release; None unless the request allows several."""
        dependencies = [
            dependency
            for dependency in (*self.roots, *self.constraints)
            if dependency.package.name == name
        ]
        admission = VersionPolicy(self.catalogue, prereleases=self.prereleases)
        for dependency in dependencies:
            admission.add_dependency(dependency)
        versions = reduce(and_, (dependency.versions for dependency in dependencies))
        choices = admission.choices(name, versions)
        if len(choices) < 2:
            return None
        return next((choice for choice in choices if self.catalogue.is_usable(name, choice)), None)
