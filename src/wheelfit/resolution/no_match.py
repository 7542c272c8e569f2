"""Explanations of failed searches: the reasons why no version matches, with hints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from wheelfit.core.versions import admits_python
from wheelfit.errors import NoSolution, SourceBuildNotAllowed
from wheelfit.resolution.bridges import bridge_options
from wheelfit.resolution.listing import NO_SOURCES, WRONG_HASH, Release
from wheelfit.resolution.proof import Step, StepKind, Term
from wheelfit_runtime.errors import HashMismatch, NoCompatibleWheel, NoFit, ProjectNotFound
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.catalogue import Catalogue
    from wheelfit.resolution.problem import Dependency
    from wheelfit.resolution.version_set import VersionSet

_MAX_RELEASES = 3
"""Releases of one project whose wheels a message explains."""
_HOW_TO_BUILD = (
    "`wheelfit build {} -o wheels` builds a wheel, which runs code of its publisher; "
    "`--find-links wheels` finds it"
)
"""The hint for commands that use wheels only, as for a lock."""
_MAX_VERSIONS = 8
"""Versions of one project that a message lists."""
_MAX_LINES = 12
"""Reasons or hashes of one project that a message lists."""


def unknown_project(name: NormalizedName, candidates: Candidates) -> ProjectNotFound:
    """Return the error for a requested project that no source has."""
    return ProjectNotFound(
        f"{name} was not found in any index",
        where=candidates.repository.name,
        hint=bridge_options(candidates, name) or "check the spelling and the index",
    )


class MatchExplanations:
    """The reasons why releases do not match: the ``Explanations`` of a proof.

    It records the releases that its clauses mention, for the details and the hint of the error.
    """

    def __init__(
        self, catalogue: Catalogue, *, prereleases: bool, constraints: Iterable[Dependency] = ()
    ) -> None:
        self._candidates = catalogue.candidates
        self._constraints = tuple(constraints)
        self._catalogue = catalogue
        self._prereleases = prereleases
        self._python = catalogue.candidates.target.python_full_version
        self._unusable: dict[tuple[NormalizedName, Version], None] = {}
        self._pythons: dict[NormalizedName, SpecifierSet] = {}
        self._only_prereleases: dict[NormalizedName, None] = {}

    def no_version(self, name: NormalizedName, versions: VersionSet) -> str:
        """Return the reason why none of some versions can be chosen, and record it for the hint."""
        if versions.is_empty:
            return f"{name} is required by a URL, which only your own requirements may have"
        listing = self._candidates.listing(name)
        if listing is None:
            return f"{name} was not found in any index"
        members = versions.members(listing.releases)
        if not members:
            specifiers = versions.specifiers()
            if specifiers is None:
                return f"no other version of {name} exists ({listing.newest})"
            return f"no version of {name} matches {name}{specifiers} ({listing.newest})"
        releases = [listing.releases[version] for version in members]
        possible = [release for release in releases if release.has_possible_wheel]
        remark = ""
        if possible and all(release.is_yanked for release in possible):
            if len(possible) == len(releases):
                verb = "was" if len(releases) == 1 else "were"
                return f"{self._text_of(name, releases)} {verb} yanked"
            remark = " (the others were yanked)"
            releases = [release for release in releases if not release.has_possible_wheel]
        offered = [release for release in possible if not release.is_yanked]
        finals = [release for release in offered if not release.version.is_prerelease]
        were_examined = all(
            self._catalogue.was_examined(name, release.version) for release in offered
        )
        if not (finals or self._prereleases or were_examined):
            self._only_prereleases[name] = None
            verb = "is a pre-release" if len(offered) == 1 else "are pre-releases"
            return f"{self._text_of(name, offered)} {verb}"
        pythons = required_pythons(releases, self._python)
        if pythons:
            self._pythons[name] = python = pythons[0]
            if len(pythons) > 1 and len(releases) > 1:
                return (
                    f"{self._text_of(name, releases, remark)} need other Pythons than "
                    f"{self._python}, the newest {python}"
                )
            verb = "needs" if len(releases) == 1 else "need"
            return (
                f"{self._text_of(name, releases, remark)} {verb} Python {python}, "
                f"not {self._python}"
            )
        for release in (finals or offered or releases)[:_MAX_RELEASES]:
            self._unusable[name, release.version] = None
        verb = "has" if len(releases) == 1 else "have"
        return f"{self._text_of(name, releases, remark)} {verb} no wheel that fits"

    def no_build(self, name: NormalizedName, version: Version, *, others: bool) -> str:
        """Return a clause about a release without a usable build."""
        self._unusable[name, version] = None
        return f"{name} {version} has no {'other ' if others else ''}build that fits"

    def record_installed_conflict(self, name: NormalizedName, version: Version | None) -> None:
        """Add a release to the details if installed packages exclude builds of it (P-56)."""
        if version is not None and any(self._conflicting(name, version)):
            self._unusable[name, version] = None

    def _conflicting(self, name: NormalizedName, version: Version) -> Iterator[str]:
        """Yield the installed packages that conflict with builds of a release."""
        choice = self._candidates.choice(name, version)
        for verdict in choice.selection.verdicts:
            if choice.support is not None and verdict.properties is not None:
                yield from choice.support.conflicting_installed(verdict.properties)

    def details(self) -> Iterator[str]:
        """Yield lines with the rejections of the wheels of mentioned releases."""
        versions_by_lines: dict[tuple[NormalizedName, tuple[str, ...]], list[str]] = {}
        for name, version in self._unusable:
            lines = tuple(self.rejections(name, version))
            versions_by_lines.setdefault((name, lines), []).append(str(version))
        for (name, lines), versions in versions_by_lines.items():
            yield f"{name} {', '.join(versions)}:"
            for line in lines:
                yield f"  {line}"

    def rejections(self, name: NormalizedName, version: Version) -> Iterator[str]:
        """Yield the reasons no wheel of a release fits, equal ones together (F-92)."""
        choice = self._candidates.usable_choice(name, version)
        lines = choice.refusals()
        yield from lines[:_MAX_LINES]
        if len(lines) > _MAX_LINES:
            yield f"and {count_of(len(lines) - _MAX_LINES, 'more reason')}"
        if not lines:
            yield _without_wheels(choice.release)
        elif choice.release.sources:
            yield f"source distribution: {NO_SOURCES}"

    def hint(self, facts: Iterable[Step] = ()) -> str | None:
        """Return a hint; None without one."""
        facts = list(facts)
        for fact in facts:
            for term in fact.terms:
                self._note_prereleases(term, facts)
        if self._pythons:
            return self._python_hint()
        if self._only_prereleases:
            names = ", ".join(self._only_prereleases)
            return f"--pre allows pre-releases of {names}"
        return self._bridge_hint() or self._upgrade_hint() or self._build_hint()

    def _yanked_hint(self, name: NormalizedName, versions: VersionSet) -> str | None:
        """Return the hint that selects the newest yanked release; None without one."""
        listing = self._candidates.listing(name)
        releases = {} if listing is None else listing.releases
        for version in versions.members(releases):
            if releases[version].is_yanked:
                return f"{name}=={version} selects it"
        return None

    def _bridge_hint(self) -> str | None:
        """Return the hint about bridged families; None without one."""
        families = [self._candidates.bridge(name) for name, _ in self._unusable]
        hints = [family.no_fit for family in families if family is not None]
        hints += [bridge_options(self._candidates, name) for name, _ in self._unusable]
        return "; ".join(filter(None, dict.fromkeys(hints))) or None

    def _build_hint(self) -> str | None:
        """Return the hint about buildable source distributions (F-92); None without one."""
        names = list(dict.fromkeys(name for name, _ in self._unusable))
        if sources := [source for name in names for source in self._sources(name)]:
            return _HOW_TO_BUILD.format(sources[0])
        options = [f"--allow-source {name}" for name in names if self.has_excluded_sources(name)]
        if not options:
            return None
        return f"add {' '.join(options)} to build from source, which runs code"

    def _python_hint(self) -> str:
        pythons = {_fitting_python(needed, self._python) for needed in self._pythons.values()}
        if None in pythons or len(pythons) > 1:
            return f"use another Python version than {self._python.major}.{self._python.minor}"
        (python,) = pythons
        return (
            f"Python {python} matches: `wheelfit venv --python {python}` creates an environment "
            f"with it, `wheelfit lock --python-version {python}` locks for it"
        )

    def has_excluded_sources(self, name: NormalizedName) -> bool:
        """Return whether mentioned releases have source distributions that settings exclude."""
        listing = self._candidates.listing(name)
        return listing is not None and any(
            listing.releases[version].excluded_sources
            for project, version in self._unusable
            if project == name and version in listing.releases
        )

    def _upgrade_hint(self) -> str | None:
        """Return the hint to upgrade packages that exclude builds (P-56); None without one."""
        names: dict[str, None] = {}
        for release in self._unusable:
            names |= dict.fromkeys(self._conflicting(*release))
        if not names:
            return None
        options = " ".join(f"--upgrade-package {name}" for name in names)
        verb = "is installed and kept" if len(names) == 1 else "are installed and kept"
        return f"{', '.join(names)} {verb}; {options} allows other versions"

    def _note_prereleases(self, term: Term, facts: Sequence[Step]) -> None:
        """Record a project of a term if its newest matching releases are pre-releases."""
        name = term.package.name
        listing = self._candidates.listing(name) if term.admitted_versions else None
        if listing is None or self._prereleases:
            return
        requested = _required_versions(facts, name, StepKind.REQUESTED)
        requested += [
            constraint.versions
            for constraint in self._constraints
            if constraint.package.name == name
        ]
        needed = _required_versions(facts, name, StepKind.NEEDS)
        for version in listing.releases.possible_versions:
            if version <= term.admitted_versions[0]:
                return
            if (
                version.is_prerelease
                and all(version in versions for versions in requested)
                and (not needed or any(version in versions for versions in needed))
            ):
                self._only_prereleases[name] = None

    def unusable_project_error(
        self,
        name: NormalizedName,
        versions: VersionSet,
        others: Iterable[tuple[NormalizedName, VersionSet]] = (),
    ) -> NoSolution | NoCompatibleWheel | SourceBuildNotAllowed:
        """Return the error for a project without a usable release in some versions.

        :param others: further unusable projects with their requested versions.
        """
        clause = self.no_version(name, versions)
        if name in self._pythons:
            target = self._candidates.target.name
            return NoCompatibleWheel(clause, where=target, hint=self._python_hint())
        if not self._unusable:
            listing = self._candidates.listing(name)
            releases = {} if listing is None else listing.releases
            listed = [version for version, release in releases.items() if not release.is_yanked]
            newest = ", ".join(map(str, listed[:_MAX_VERSIONS]))
            hidden = len(listed) - _MAX_VERSIONS
            more = f" and {count_of(hidden, 'older version')}" if hidden > 0 else ""
            note = f"available: {newest}{more}" if newest else None
            source = None if listing is None else listing.source or None
            return NoSolution(
                clause,
                where=source,
                note=note,
                hint=self.hint() or self._yanked_hint(name, versions),
            )
        for other_name, other_versions in others:
            self.no_version(other_name, other_versions)  # which records it for the details
        if sources := self._sources(name):
            return SourceBuildNotAllowed(
                f"{clause} {self._candidates.target.name}, and building from source is off",
                note="\n".join(self.details()),
                hint=_HOW_TO_BUILD.format(sources[0]),
            )
        hints = (self._bridge_hint() or self._upgrade_hint(), self._build_hint())
        return NoCompatibleWheel(
            f"{clause} {self._candidates.target.name}",
            note="\n".join(self.details()),
            hint="; ".join(filter(None, hints)) or None,
        )

    def _sources(self, name: NormalizedName) -> tuple[str, ...]:
        """Return the source distributions of the mentioned releases, newest first."""
        listing = self._candidates.listing(name)
        mentioned = [version for project, version in self._unusable if project == name]
        return tuple(
            source
            for version in mentioned
            if listing is not None and version in listing.releases
            for source in listing.releases[version].sources
        )

    def unknown_label(self, name: NormalizedName, versions: VersionSet) -> NoFit | None:
        """Return the error for a requested label that no allowed release has."""
        label = self._candidates.policy.preferences.labels.get(name)
        listing = self._candidates.listing(name)
        if label is None or listing is None:
            return None
        labels = {
            wheel.filename.label
            for version in versions.members(listing.releases)
            for wheel in listing.releases[version].wheels
        }
        if not labels or label in labels:
            return None
        offered = ", ".join(sorted(filter(None, labels)))
        return NoFit(
            f"{name}{versions} has no variant with the label {label}",
            code="unknown-label",
            note=f"its labels are {offered}" if offered else "it has plain wheels only",
        )

    def wrong_hashes(self, name: NormalizedName, versions: VersionSet) -> HashMismatch | None:
        """Return the error for releases whose wheels are compatible but have other hashes (F-94).

        Either the hashes are those of other files, or the files are not the intended ones.
        """
        listing = self._candidates.listing(name)
        allowed = self._candidates.policy.hashes.get(name)
        if listing is None or not allowed:
            return None
        wheels = [
            wheel
            for version in versions.members(listing.releases)
            for wheel in listing.releases[version].wheels
            if wheel.rejection in (None, WRONG_HASH)
        ]
        if not wheels or any(wheel.rejection is None for wheel in wheels):
            return None
        algorithm = min(dict(allowed).keys() & wheels[0].file.hashes.keys())
        offered = [
            f"{wheel.file.hashes[algorithm]} ({wheel.file.filename})"
            for wheel in wheels
            if algorithm in wheel.file.hashes
        ]
        more = [f"and {len(offered) - _MAX_LINES} more"] if len(offered) > _MAX_LINES else []
        error = HashMismatch(
            algorithm=algorithm,
            expected=sorted(
                digest for allowed_algorithm, digest in allowed if allowed_algorithm == algorithm
            ),
            actual="\n         ".join([*offered[:_MAX_LINES], *more]),
            where=f"{name}{versions} at {listing.source}",
        )
        error.hint = (
            "nothing was installed; if the file is the intended one, allow its hash, "
            "else ask the operator of the index why it has another one"
        )
        return error

    @staticmethod
    def _text_of(name: NormalizedName, releases: Sequence[Release], remark: str = "") -> str:
        if len(releases) == 1:
            return f"{name} {releases[0].version}{remark}"
        first, last = releases[-1].version, releases[0].version
        return f"{name} {first} to {last}{remark}"


def _without_wheels(release: Release) -> str:
    reasons = dict.fromkeys(reason for _, reason in release.ignored_sources)
    return f"no wheels; {'; '.join(reasons)}" if reasons else "no wheels"


def _required_versions(
    facts: Iterable[Step], name: NormalizedName, kind: StepKind
) -> list[VersionSet]:
    """Return the versions that facts of a kind require of a project."""
    terms = [fact.terms[-1] for fact in facts if fact.kind is kind and fact.terms]
    return [term.versions for term in terms if term.package.name == name]


def required_pythons(releases: Sequence[Release], python: Version) -> list[SpecifierSet]:
    """Return the Pythons that releases require, each once; none unless all exclude a Python.

    :param releases: the releases, newest first.
    """
    texts = [wheel.file.requires_python for release in releases for wheel in release.wheels]
    try:
        specifiers = [SpecifierSet(text) for text in texts if text is not None]
    except InvalidSpecifier:
        return []
    if len(specifiers) < len(texts) or any(admits_python(item, python) for item in specifiers):
        return []
    return list(dict.fromkeys(specifiers))


_NEWEST_MINOR = 20
"""An upper bound of the minor versions of Python."""


def _fitting_python(specifiers: SpecifierSet, python: Version) -> str | None:
    """Return the closest Python that matches, such as ``3.12``; None if there is none."""
    minors = [*range(python.minor + 1, _NEWEST_MINOR), *range(python.minor - 1, 0, -1)]
    versions = (f"{python.major}.{minor}" for minor in minors)
    return next((version for version in versions if f"{version}.99" in specifiers), None)
