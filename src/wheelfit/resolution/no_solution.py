"""The error for the user, from the proof of the solver that there is no solution."""

from __future__ import annotations

from contextlib import suppress
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.errors import NoSolution
from wheelfit.resolution.no_match import NoMatch, unknown_project
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
    from wheelfit.resolution.problem import Need
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
    """The releases offered to the solver."""
    roots: Sequence[Need]
    """The requested needs."""
    constraints: Sequence[Need]
    """The user's constraints."""
    prereleases: bool
    """Whether pre-releases were allowed."""

    def explain(self) -> NoFit | HashMismatch:
        """Return the error with the reason there is no solution."""
        catalogue, facts = self.catalogue, list(self.step.facts())
        lack = NoMatch(catalogue, prereleases=self.prereleases)
        nothing = [fact for fact in facts if fact.kind is StepKind.UNAVAILABLE]
        asked = {need.package.name for need in self.roots}
        for fact in nothing:
            name = fact.terms[0].package.name
            if name in asked and catalogue.candidates.listing(name) is None:
                return unknown_project(name, catalogue.candidates)
        for fact in nothing:
            unknown = lack.unknown_label(fact.terms[0].package.name, fact.terms[0].versions)
            if unknown is not None:
                return unknown
        for fact in nothing:
            wrong = lack.wrong_hashes(fact.terms[0].package.name, fact.terms[0].versions)
            if wrong is not None:
                return wrong
        if len(facts) == 2 and {fact.kind for fact in facts} == {
            StepKind.REQUESTED,
            StepKind.UNAVAILABLE,
        }:
            (fact,) = nothing
            name = fact.terms[0].package.name
            return lack.error_of_project(
                name, fact.terms[0].versions, self._other_unusable_projects(name)
            )
        for fact in facts:
            if fact.kind is StepKind.LIMITS:
                package = fact.terms[0].package
                lack.explain_fixed_build(package.name, package.release)
        note = self._proof_in_words(lack)
        error = NoSolution(
            "the requirements cannot all be met",
            note="\n".join([note, *lack.details()]),
            hint=lack.hint(facts),
        )
        error.essence = main_cause(self.step, lack)
        return error

    def _proof_in_words(self, lack: NoMatch) -> str:
        """Return a proof in words; a long one begins with the newest release of a root."""
        if not is_long(self.step):
            return write_proof(self.step, lack)
        proofs: list[tuple[Step, NormalizedName, Version]] = []
        for name in dict.fromkeys(need.package.name for need in self.roots):
            version = self._newest(name)
            if version is None or len(proofs) == _MAX_PROOFS:
                continue
            with suppress(Exhausted):
                try:
                    solve(
                        self.catalogue,
                        [need.only(name, version) for need in self.roots],
                        self.constraints,
                        prereleases=self.prereleases,
                    )
                except Unsolvable as error:
                    proofs.append((error.step, name, version))
        if not proofs:
            return write_proof(self.step, lack)
        newest, name, version = min(proofs, key=lambda proof: count_steps(proof[0]))
        return write_proof_of_newest(newest, self.step, name, version, lack)

    def _other_unusable_projects(
        self, known: NormalizedName
    ) -> Iterator[tuple[NormalizedName, VersionSet]]:
        """Yield other requested projects without a usable release, if few releases need a check."""
        for name in dict.fromkeys(need.package.name for need in self.roots):
            if name == known:
                continue
            versions = reduce(
                and_, (need.versions for need in self.roots if need.package.name == name)
            )
            listed = versions.members(self.catalogue.versions(name))
            if 0 < len(listed) <= _MAX_CHECKED_RELEASES and not any(
                self.catalogue.is_usable(name, version) for version in listed
            ):
                yield name, versions

    def _newest(self, name: NormalizedName) -> Version | None:
        """Return the newest usable release; None unless the request allows several."""
        needs = [need for need in (*self.roots, *self.constraints) if need.package.name == name]
        admission = VersionPolicy(self.catalogue, prereleases=self.prereleases)
        for need in needs:
            admission.add_need(need)
        versions = reduce(and_, (need.versions for need in needs))
        choices = admission.choices(name, versions)
        if len(choices) < 2:
            return None
        return next((choice for choice in choices if self.catalogue.is_usable(name, choice)), None)
