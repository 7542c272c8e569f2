"""Results that are older than the newest allowed release, with the reasons.

They are reported, so that users notice an old release at once, unless the user's requirements
exclude the newer releases. Constraints of a configuration file are reported, because that file may
be another person's.
"""

from __future__ import annotations

from functools import cached_property, partial, reduce
from operator import and_
from typing import TYPE_CHECKING

from wheelfit.core.versions import without_build
from wheelfit.resolution.listing import NO_TAG, ONLY_BINARY, Release, missing_python
from wheelfit.resolution.problem import Dependency, Package
from wheelfit.resolution.resolution import HeldBack
from wheelfit.resolution.solver import Exhausted, Solved, Unsolvable, solve
from wheelfit.resolution.version_set import VersionSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.resolution.catalogue import Catalogue
    from wheelfit.resolution.proof import Step, Term

_MAX_ROUNDS = 2_000
"""Rounds of the solver after which the search for the reason ends."""


class HeldBackSearch:
    """The search for releases held back in a solution.

    :param configured_constraints: those of the constraints that the configuration names.
    :param preferred: the version of each project in an older lock.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        roots: Sequence[Dependency],
        constraints: Sequence[Dependency],
        configured_constraints: Sequence[Dependency],
        solved: Solved,
        *,
        prereleases: bool,
        preferred: Mapping[NormalizedName, Version],
    ) -> None:
        self._preferred = preferred
        self._catalogue = catalogue
        self._roots = roots
        self._constraints = constraints
        self._configured_constraints = configured_constraints
        self._solved = solved
        self._prereleases = prereleases

    def search(self, names: Iterable[NormalizedName]) -> Iterator[HeldBack]:
        """Yield the releases that are held back.

        Of projects that the user did not name, only releases held back by an option about binaries
        are included.
        """
        named = {dependency.package.name for dependency in self._roots}
        for name in names:
            version = self._solved.versions[Package(name)]
            latest = self._latest(name, self._roots_by_name.get(name, ()), self._constraints)
            if name in named and latest is not None and latest > version:
                reason = self.reason(name, latest)
            elif name in named and (excluded := self._excluded_by_configuration(name)):
                latest, reason = excluded
            else:  # only an option may hold it back, within the requirements of all packages
                dependencies = self._dependencies_by_name.get(name, ())
                latest = self._latest(name, dependencies, self._constraints)
                reason = "" if latest is None else self._option_reason(name, latest)
            if reason and latest is not None and latest > version:
                yield HeldBack(name, version, self._release(name, latest), reason)

    @cached_property
    def _roots_by_name(self) -> Mapping[NormalizedName, Sequence[Dependency]]:
        return _by_name(self._roots)

    @cached_property
    def _dependencies_by_name(self) -> Mapping[NormalizedName, Sequence[Dependency]]:
        """The requirements of the user and of the packages in the solution, by project."""
        versions = self._solved.versions.items()
        dependencies = (
            dependency
            for package, version in versions
            for dependency in self._dependencies_of(package, version)
        )
        return _by_name((*self._roots, *dependencies))

    def _dependencies_of(self, package: Package, version: Version) -> Sequence[Dependency]:
        if package.name in self._solved.builds:
            return ()  # it stands for a build, which limits other packages but requires none
        return self._catalogue.dependencies(package, version)

    def _excluded_by_configuration(self, name: NormalizedName) -> tuple[Version, str] | None:
        """Return the newest release if only the configuration excludes it, and a clause on that."""
        configured = [
            constraint
            for constraint in self._configured_constraints
            if constraint.package.name == name
        ]
        if not configured:
            return None
        others = [constraint for constraint in self._constraints if constraint not in configured]
        latest = self._latest(name, self._roots_by_name.get(name, ()), others)
        for constraint in configured:
            if latest is not None and latest not in constraint.versions:
                return latest, f"is excluded by the constraint {constraint.text}"
        return None

    def _latest(
        self,
        name: NormalizedName,
        dependencies: Iterable[Dependency],
        constraints: Iterable[Dependency],
    ) -> Version | None:
        """Return the newest release that dependencies on it alone admit, available or not."""
        listing = self._catalogue.candidates.listing(name)
        if listing is None:
            return None
        admitted = [dependency.versions for dependency in dependencies]
        admitted += [
            constraint.versions for constraint in constraints if constraint.package.name == name
        ]
        versions = reduce(and_, admitted, VersionSet.full())
        chosen = self._solved.versions[Package(name)]
        members = versions.members(listing.releases)
        if listing.bridge is not None:  # builds of a release have an order of their own
            members = sorted(members, key=lambda member: listing.ranks.get(member, 0))
            # Favoured releases have builds for the accelerator, and precede newer ones without.
            if self._catalogue.is_favoured(name, chosen):
                favoured = filter(partial(self._catalogue.is_favoured, name), members)
                best = next(favoured, chosen)
                if not listing.is_same_release(best, chosen):
                    return best
        for version in members:
            if listing.is_same_release(version, chosen):
                return None
            release = listing.releases[version]
            is_allowed = (
                self._prereleases
                or chosen.is_prerelease
                or version in versions.without_unrequested_prereleases([version])
            )
            # Sources of bridged projects are ignored because these publish wheels.
            has_files = release.wheels or (release.ignored_sources and listing.bridge is None)
            if is_allowed and has_files and not _is_yanked(release):
                return version
        return None

    def _release(self, name: NormalizedName, version: Version) -> Version:
        """Return a version without the local part, if a bridge has added it for a build."""
        family = self._catalogue.candidates.bridge(name)
        return without_build(version) if family is not None and family.is_of_indexes else version

    def _option_reason(self, name: NormalizedName, version: Version) -> str:
        """Return a clause on the option about binaries that excludes a release; else empty."""
        listing = self._catalogue.candidates.listing(name)
        if listing is None:
            return ""
        release = listing.releases[version]
        if not release.has_possible_wheel and any(
            why is ONLY_BINARY for _, why in release.ignored_sources
        ):
            python = self._catalogue.candidates.target.python_full_version
            return (
                _wrong_python(release, python)
                or "has no wheel that fits, and --only-binary excludes its source"
            )
        if version in self._catalogue.without_wheels(name):
            if listing.bridge is None:
                return "has no wheel that fits, and --prefer-binary prefers older wheels"
            return "has no wheel that fits"
        catalogue, chosen = self._catalogue, self._solved.versions[Package(name)]
        if catalogue.is_favoured(name, chosen) and not catalogue.is_favoured(name, version):
            request = f"{name}=={self._release(name, version)} selects it"
            if catalogue.candidates.is_for_one_machine:
                return f"has no build for the accelerator of this machine; {request}"
            if catalogue.kinds(name, version):
                return f"has builds for fewer kinds of accelerators; {request}"
            return f"has no build for an accelerator; {request}"
        return ""

    def reason(self, name: NormalizedName, latest: Version) -> str:
        """Return the reason why a release was not chosen, as a clause; empty: there is none."""
        catalogue = self._catalogue
        listing = catalogue.candidates.listing(name)
        if listing is None:
            return ""
        if by_option := self._option_reason(name, latest):
            return by_option
        release = listing.releases[latest]
        if not release.has_possible_wheel:
            return _reason_in_listing(release)
        if not catalogue.is_usable(name, latest):
            return f"has no wheel that fits: {catalogue.candidates.choice(name, latest).reason}"
        roots = [dependency.restricted_to(name, latest) for dependency in self._roots]
        try:
            alternative = solve(
                catalogue,
                roots,
                self._constraints,
                prereleases=self._prereleases,
                rounds=_MAX_ROUNDS,
            )
        except Unsolvable as error:
            return self._conflict_reason(error.step, name)
        except Exhausted:
            return "conflicts with the other packages"
        return self._project_that_would_be_older(name, alternative.versions)

    def _conflict_reason(self, proof: Step, name: NormalizedName) -> str:
        """Return the reason why the newest release cannot be used, as a clause.

        Empty if the user's own requirement on another project is part of the reason.
        """
        from wheelfit.resolution.no_match import MatchExplanations
        from wheelfit.resolution.proof import StepKind, clause_of

        facts = list(proof.facts())
        user_facts = [
            fact for fact in facts if fact.kind in (StepKind.REQUESTED, StepKind.CONSTRAINED)
        ]
        if any(
            term.package.name != name and term.versions != VersionSet.full()
            for fact in user_facts
            for term in fact.terms
        ):
            return ""
        others = [
            fact
            for fact in facts
            if fact not in user_facts and any(term.package.name != name for term in fact.terms)
        ]
        explanations = MatchExplanations(self._catalogue, prereleases=self._prereleases)
        own_requirement = next(
            (
                fact
                for fact in others
                if fact.kind is StepKind.NEEDS and fact.terms[0].package.name == name
            ),
            None,
        )
        if own_requirement is None:
            # Of the facts about each release of another project, that about the chosen one.
            chosen = (fact for fact in others if self._is_about_chosen(fact.terms[0]))
            cause = next(chosen, others[0] if others else None)
            return "" if cause is None else f"is unavailable: {clause_of(cause, explanations)}"
        needs = f"needs {own_requirement.text}"
        others.remove(own_requirement)
        # `clause_of` records the releases it mentions, for `has_excluded_sources`.
        clauses = {fact: clause_of(fact, explanations) for fact in others}
        buildable = [
            fact for fact in others if explanations.has_excluded_sources(fact.terms[0].package.name)
        ]
        if len(others) != 1 and not buildable:
            return f"{needs}, which conflicts with the other packages"
        obstacle = (buildable or others)[0]
        other = obstacle.terms[0].package.name
        if obstacle.kind is StepKind.UNAVAILABLE and self._is_locked(other):
            return f"{needs}, and {other} {self._preferred[other]} is locked"
        remedy = f" (--allow-source {other} builds it)" if buildable else ""
        return f"{needs}, and {clauses[obstacle]}{remedy}"

    def _is_about_chosen(self, term: Term) -> bool:
        """Return whether a term is about the chosen version of its project."""
        return self._solved.versions.get(term.package) in term.versions

    def _is_locked(self, name: NormalizedName) -> bool:
        """Return whether only the locked version was listed."""
        listing = self._catalogue.candidates.listing(name)
        return listing is not None and [*listing.releases] == [self._preferred.get(name)]

    def _project_that_would_be_older(
        self, name: NormalizedName, versions: Mapping[Package, Version]
    ) -> str:
        """Return a clause on a requested package that would be older with the newest release."""
        for dependency in self._roots:
            package = Package(dependency.package.name)
            chosen, other = self._solved.versions[package], versions.get(package)
            if package.name != name and other is not None and other < chosen:
                return f"would need {package.name} {other} in place of {chosen}"
        return ""


def _by_name(dependencies: Iterable[Dependency]) -> Mapping[NormalizedName, Sequence[Dependency]]:
    by_name: dict[NormalizedName, list[Dependency]] = {}
    for dependency in dependencies:
        by_name.setdefault(dependency.package.name, []).append(dependency)
    return by_name


def _wrong_python(release: Release, python: Version) -> str:
    """Return a clause on the Python that all wheels of a release need; empty if one fits."""
    specifiers = {wheel.file.requires_python or "" for wheel in release.wheels}
    clauses = [missing_python(text, python) for text in sorted(specifiers)]
    return clauses[0] if clauses and all(clauses) else ""


def _reason_in_listing(release: Release) -> str:
    """Return the reason why a release has no usable file, from its listing."""
    reasons = [wheel.rejection for wheel in release.wheels if wheel.rejection not in (None, NO_TAG)]
    more = f": {str(reasons[0]).partition(', this is')[0]}" if reasons else ""
    return f"has no wheel that fits{more}"


def _is_yanked(release: Release) -> bool:
    return bool(release.wheels) and all(wheel.is_yanked for wheel in release.wheels)
