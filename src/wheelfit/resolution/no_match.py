"""Explanations why no version matches, with hints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from wheelfit.errors import NoSolution, SourceOff
from wheelfit.resolution.bridges import bridge_options
from wheelfit.resolution.listing import NO_SOURCES, WRONG_HASH
from wheelfit.resolution.proof import StepKind
from wheelfit_runtime.errors import HashMismatch, NoCompatibleWheel, NoFit, ProjectNotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.catalogue import Catalogue
    from wheelfit.resolution.listing import Release
    from wheelfit.resolution.proof import Step, Term
    from wheelfit.resolution.version_set import VersionSet

_RELEASES = 3
"""Releases of one project whose wheels are gone through in a message."""
_BUILD_BEFORE = (
    "`wheelfit build {} -o wheels` builds a wheel, which runs code of its publisher; "
    "`--find-links wheels` finds it"
)
"""The way on where only wheels count, as in a lock."""
_VERSIONS = 8
_LINES = 12


def unknown_project(name: NormalizedName, candidates: Candidates) -> ProjectNotFound:
    """Return the error for a requested project that no source has.

    :param name: the name of the project.
    :param candidates: the candidates, with the sources searched.
    """
    return ProjectNotFound(
        f"{name} was not found in any index",
        where=candidates.repository.name,
        hint=bridge_options(candidates, name) or "check the spelling and the index",
    )


class NoMatch:
    """The reasons why releases do not match: ``Knowledge``, with the releases to explain.

    :param catalogue: the releases offered to the solver.
    :param prereleases: whether pre-releases counted.
    """

    def __init__(self, catalogue: Catalogue, *, prereleases: bool) -> None:
        self._candidates = catalogue.candidates
        self._catalogue = catalogue
        self._prereleases = prereleases
        self._here = catalogue.candidates.target.python_full_version
        self._unfit: dict[tuple[NormalizedName, Version], None] = {}
        self._pythons: dict[NormalizedName, SpecifierSet] = {}
        self._only_prereleases: dict[NormalizedName, None] = {}

    def lack(self, name: NormalizedName, versions: VersionSet) -> str:
        """Return a clause with the reason why none of some versions can be chosen."""
        if versions.is_empty:
            return f"only you, not another package, can choose a URL for {name}"
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
        possible = [release for release in releases if release.is_possible]
        if possible and all(release.is_yanked for release in possible):
            verb = "was" if len(releases) == 1 else "were"
            return f"{self._named(name, releases)} {verb} yanked"
        count = [release for release in possible if not release.is_yanked]
        if count and not self._prereleases and all(one.version.is_prerelease for one in count):
            untried = [one for one in count if not self._catalogue.is_tried(name, one.version)]
            if untried:
                self._only_prereleases[name] = None
                verb = "is a pre-release" if len(count) == 1 else "are pre-releases"
                return f"{self._named(name, count)} {verb}"
        count = [one for one in count if not one.version.is_prerelease] or count
        python = wanted_python(releases, self._here)
        if python is not None:
            self._pythons[name] = python
            verb = "needs" if len(releases) == 1 else "need"
            return f"{self._named(name, releases)} {verb} Python {python}, not {self._here}"
        for release in (count or releases)[:_RELEASES]:
            self._unfit[name, release.version] = None
        verb = "has" if len(releases) == 1 else "have"
        return f"{self._named(name, releases)} {verb} no wheel that fits"

    def no_build(self, name: NormalizedName, version: Version, *, others: bool) -> str:
        """Return a clause about a release without a usable build."""
        self._unfit[name, version] = None
        return f"{name} {version} has no {'other ' if others else ''}build that fits"

    def look_at_build(self, name: NormalizedName, version: Version | None) -> None:
        """Explain a release too, if installed packages leave it fewer builds (P-56)."""
        if version is not None and any(self._against(name, version)):
            self._unfit[name, version] = None

    def _against(self, name: NormalizedName, version: Version) -> Iterator[str]:
        """Yield the installed packages for which builds of a release are not taken."""
        choice = self._candidates.choice(name, version)
        for verdict in choice.selection.verdicts:
            if choice.support is not None and verdict.properties is not None:
                yield from choice.support.conflicting_installed(verdict.properties)

    def details(self) -> Iterator[str]:
        """Yield lines with the faults of the wheels of releases mentioned."""
        alike: dict[tuple[NormalizedName, tuple[str, ...]], list[str]] = {}
        for name, version in self._unfit:
            lines = tuple(self.wheels(name, version))
            alike.setdefault((name, lines), []).append(str(version))
        for (name, lines), versions in alike.items():
            yield f"{name} {', '.join(versions)}:"
            for line in lines:
                yield f"  {line}"

    def wheels(self, name: NormalizedName, version: Version) -> Iterator[str]:
        """Yield the reasons no wheel of a release fits, equal ones together (F-92)."""
        choice = self._candidates.usable(name, version)
        lines = choice.refusals()
        yield from lines[:_LINES]
        if len(lines) > _LINES:
            yield f"and {len(lines) - _LINES} more reasons"
        if not lines:
            yield _without_wheels(choice.release)
        elif choice.release.sources:
            yield f"source distribution: {NO_SOURCES}"

    def hint(self, facts: Iterable[Step] = ()) -> str | None:
        """Return a hint; None without one.

        :param facts: the facts of the proof.
        """
        facts = list(facts)
        for fact in facts:
            for term in fact.terms:
                self._look_for_prereleases(term, facts)
        if self._pythons:
            return self._other_python()
        if self._only_prereleases:
            names = ", ".join(self._only_prereleases)
            return f"--pre takes pre-releases of {names} too"
        return self._bridged() or self._freeing() or self._building()

    def _bridged(self) -> str | None:
        """Return the requirements of the members of bridged families, in words."""
        families = [self._candidates.bridge(name) for name, _ in self._unfit]
        said = [family.no_fit for family in families if family is not None]
        said += [bridge_options(self._candidates, name) for name, _ in self._unfit]
        return "; ".join(filter(None, dict.fromkeys(said))) or None

    def _building(self) -> str | None:
        """Return the hint about projects with source distributions that could be built (F-92)."""
        names = list(dict.fromkeys(one for one, _ in self._unfit))
        if sources := [source for name in names for source in self._sources(name)]:
            return _BUILD_BEFORE.format(sources[0])
        words = " ".join(f"--allow-source {name}" for name in names if self.holds_sources(name))
        return f"`wheelfit install {words}` builds from source, which runs code" if words else None

    def _other_python(self) -> str:
        """Return the hint to use another Python, where the current one is the reason."""
        fitting = [_fitting_python(one, self._here) for one in self._pythons.values()]
        if None in fitting or len(set(fitting)) > 1:
            return f"use another Python than {self._here.major}.{self._here.minor}"
        (python,) = set(fitting)
        return (
            f"Python {python} would do: `wheelfit venv --python {python}` creates an environment "
            f"with it, `wheelfit lock --python-version {python}` locks for it"
        )

    def holds_sources(self, name: NormalizedName) -> bool:
        """Return whether releases mentioned have source distributions that do not count."""
        listing = self._candidates.listing(name)
        return listing is not None and any(
            listing.releases[version].held_sources
            for project, version in self._unfit
            if project == name and version in listing.releases
        )

    def _freeing(self) -> str | None:
        """Return the hint about installed packages that exclude builds (P-56)."""
        names: dict[str, None] = {}
        for release in self._unfit:
            names |= dict.fromkeys(self._against(*release))
        if not names:
            return None
        options = " ".join(f"--upgrade-package {name}" for name in names)
        verb = "is installed and stays" if len(names) == 1 else "are installed and stay"
        return f"{', '.join(names)} {verb}; {options} lets other versions be taken"

    def _look_for_prereleases(self, term: Term, facts: Sequence[Step]) -> None:
        """Remember a project whose newest releases did not count, though they are admitted."""
        name = term.package.name
        listing = self._candidates.listing(name) if term.known else None
        if listing is None or self._prereleases:
            return
        asked = [fact.terms[-1].versions for fact in facts if _wants(fact, name, StepKind.ASKED)]
        needed = [fact.terms[-1].versions for fact in facts if _wants(fact, name, StepKind.NEEDS)]
        for version in listing.possible():
            if version <= term.known[0]:
                return
            if (
                version.is_prerelease
                and all(version in versions for versions in asked)
                and (not needed or any(version in versions for versions in needed))
            ):
                self._only_prereleases[name] = None

    def alone(
        self,
        name: NormalizedName,
        versions: VersionSet,
        others: Iterable[tuple[NormalizedName, VersionSet]] = (),
    ) -> NoSolution | NoCompatibleWheel | SourceOff:
        """Return the error for a project that is unusable in any request.

        :param others: further unusable projects.
        """
        clause = self.lack(name, versions)
        if name in self._pythons:
            target = self._candidates.target.name
            return NoCompatibleWheel(clause, where=target, hint=self._other_python())
        if not self._unfit:
            listing = self._candidates.listing(name)
            known = [] if listing is None else list(listing.releases)
            shown = ", ".join(map(str, known[:_VERSIONS]))
            more = f" and {len(known) - _VERSIONS} older ones" if len(known) > _VERSIONS else ""
            note = f"there are {shown}{more}" if shown else None
            source = None if listing is None else listing.source or None
            return NoSolution(clause, where=source, note=note, hint=self.hint())
        for other in others:
            self.lack(*other)
        if sources := self._sources(name):
            return SourceOff(
                f"{clause} {self._candidates.target.name}, and building from source is off",
                note="\n".join(self.details()),
                hint=_BUILD_BEFORE.format(sources[0]),
            )
        return NoCompatibleWheel(
            f"{clause} {self._candidates.target.name}",
            note="\n".join(self.details()),
            hint="; ".join(filter(None, (self._bridged() or self._freeing(), self._building())))
            or None,
        )

    def _sources(self, name: NormalizedName) -> tuple[str, ...]:
        """Return the source distributions of the releases mentioned, newest first."""
        listing = self._candidates.listing(name)
        mentioned = [version for project, version in self._unfit if project == name]
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
        known = ", ".join(sorted(one for one in labels if one is not None))
        return NoFit(
            f"{name}{versions} has no variant labelled {label}",
            code="unknown-label",
            note=f"its labels are {known}" if known else "it has plain wheels only",
        )

    def wrong_hashes(self, name: NormalizedName, versions: VersionSet) -> HashMismatch | None:
        """Return the error for releases whose wheels would do but for their hashes (F-94).

        This is not a lack of wheels: either the hashes are those of other files, or the files are
        not the intended ones.
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
        algorithm = min({each for each, _ in allowed} & wheels[0].file.hashes.keys())
        offered = [
            f"{wheel.file.hashes[algorithm]} ({wheel.file.filename})"
            for wheel in wheels
            if algorithm in wheel.file.hashes
        ]
        more = [f"and {len(offered) - _LINES} more"] if len(offered) > _LINES else []
        error = HashMismatch(
            algorithm=algorithm,
            expected=sorted(digest for each, digest in allowed if each == algorithm),
            actual="\n         ".join([*offered[:_LINES], *more]),
            where=f"{name}{versions} at {listing.source}",
        )
        error.hint = (
            "nothing was installed; if the file is the one you mean, allow its hash, "
            "else ask who runs the index why it has another one"
        )
        return error

    @staticmethod
    def _named(name: NormalizedName, releases: Sequence[Release]) -> str:
        if len(releases) == 1:
            return f"{name} {releases[0].version}"
        first, last = releases[-1].version, releases[0].version
        return f"{name} {first} to {last}"


def _without_wheels(release: Release) -> str:
    reasons = dict.fromkeys(reason for _, reason in release.others)
    return f"no wheels; {'; '.join(reasons)}" if reasons else "no wheels"


def _wants(fact: Step, name: NormalizedName, kind: StepKind) -> bool:
    """Return whether a fact is a requirement of a project."""
    package = fact.terms[-1].package if fact.terms else None
    return fact.kind is kind and package is not None and package.name == name


def wanted_python(releases: Sequence[Release], here: Version) -> SpecifierSet | None:
    """Return the Python that releases need; None unless every file of all needs another one.

    :param releases: newest first; the newest counts.
    :param here: the Python that is there.
    """
    texts = [wheel.file.requires_python for release in releases for wheel in release.wheels]
    try:
        wanted = [SpecifierSet(text) for text in texts if text is not None]
    except InvalidSpecifier:
        return None
    if not wanted or len(wanted) < len(texts):
        return None
    return None if any(one.contains(here, prereleases=True) for one in wanted) else wanted[0]


_NEWEST_MINOR = 20


def _fitting_python(wanted: SpecifierSet, here: Version) -> str | None:
    """Return the closest version of Python that would do, as ``3.12``; None if none is near.

    :param wanted: a ``requires-python``.
    :param here: the Python that is there.
    """
    minors = [*range(here.minor + 1, _NEWEST_MINOR), *range(here.minor - 1, 0, -1)]
    versions = (f"{here.major}.{minor}" for minor in minors)
    return next((version for version in versions if f"{version}.99" in wanted), None)
