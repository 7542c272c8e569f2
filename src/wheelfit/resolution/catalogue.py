"""The releases offered to the solver: candidates, installed builds and the request."""

from __future__ import annotations

from contextlib import suppress
from itertools import takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.core.markers import VariantContext
from wheelfit.core.properties import EMPTY
from wheelfit.core.property_support import Support, namespaces_used
from wheelfit.errors import InvalidMarker
from wheelfit.resolution.builds import builds_of_label, builds_of_release, is_built_for_versions
from wheelfit.resolution.overrides import Replacements
from wheelfit.resolution.problem import Build, Dependency, Package, build_index
from wheelfit.resolution.request import InstalledBuild, RequestedRequirement, ResolutionRequest
from wheelfit.resolution.version_set import VersionSet, is_pin
from wheelfit.sources.memoized import Memo
from wheelfit.sources.urls import redact
from wheelfit_runtime.errors import WheelfitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.core_metadata import CoreMetadata
    from wheelfit.core.labels import Label
    from wheelfit.core.requirements import Requirement
    from wheelfit.resolution.builds import ReleaseBuild
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.listing import Wheel
    from wheelfit.resolution.prefetch import Prefetch


def dependencies_of(requirement: Requirement, text: object = "") -> list[Dependency]:
    """Return a requirement as dependencies: on the project, and on each extra.

    :param requirement: the requirement; its marker is ignored.
    :param text: its text in proofs; default: the requirement without its marker.
    """
    versions = VersionSet.of(requirement.specifier)
    pin = is_pin(requirement.specifier)
    cited = text or _Cited(requirement)
    extras: list[NormalizedName | None] = [None, *sorted(requirement.extras)]
    return [Dependency(Package(requirement.name, extra), versions, cited, pin) for extra in extras]


class _Cited(Struct, frozen=True):
    """A requirement without its marker, as messages cite it; formatted only on demand."""

    requirement: Requirement
    label: str = ""
    """The label whose variant markers make it apply; empty: none."""

    def __str__(self) -> str:
        requirement = self.requirement
        extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
        if requirement.url is not None:
            versions = f" @ {redact(requirement.url)}"
        else:
            admitted = VersionSet.of(requirement.specifier)
            # If no version meets the specifiers, as of ">2,<1", they are cited as written.
            versions = str(requirement.specifier if admitted.is_empty else admitted)
        as_label = f" (as {self.label})" if self.label else ""
        return f"{requirement.name}{extras}{versions}{as_label}"


_TRIES_BEFORE_PREFETCH = 3
"""Tried releases of a project after which older ones are prefetched."""
_MAX_PREFETCHED = 16
"""Older releases that are prefetched at once."""


class Catalogue:
    """The releases that the candidates offer the solver: ``Releases``.

    :param roots: the requested projects, including those of direct wheels.
    :param choose_builds_of_all: whether the solver also chooses among the builds of a release that
        were not built for versions of other packages.
    """

    def __init__(
        self,
        request: ResolutionRequest,
        candidates: Candidates,
        prefetch: Prefetch,
        roots: Iterable[Dependency],
        lower_bounds: Mapping[NormalizedName, Version] = MappingProxyType({}),
        *,
        choose_builds_of_all: bool = False,
    ) -> None:
        self.candidates = candidates
        self._lower_bounds = lower_bounds
        self._choose_builds_of_all = choose_builds_of_all
        self._request = request
        self._prefetch = prefetch
        self._kept: dict[NormalizedName, InstalledBuild | None] = {}
        self._versions_to_keep: dict[NormalizedName, Version] = {}
        self._installed_core: dict[NormalizedName, CoreMetadata] = {}
        self._versions: dict[NormalizedName, tuple[Version, ...]] = {}
        self._preferred: dict[NormalizedName, Version | None] = {}
        self._yanked: dict[NormalizedName, frozenset[Version]] = {}
        self._favoured: dict[NormalizedName, tuple[Version, ...]] = {}
        self._tries: dict[NormalizedName, int] = {}
        self._examined: dict[NormalizedName, dict[Version, bool]] = {}
        self._builds: dict[tuple[NormalizedName, Version], list[ReleaseBuild]] = {}
        self._further_builds: dict[tuple[NormalizedName, Version], Iterator[ReleaseBuild]] = {}
        self._usable_builds: dict[tuple[NormalizedName, Version, int], bool] = {}
        self._dependencies: Memo[
            tuple[CoreMetadata, NormalizedName | None, VariantContext],
            tuple[list[Dependency], list[str]],
        ] = Memo()
        self._roots = {dependency.package.name for dependency in roots}
        self._replacements = Replacements(
            request.overrides, request.excluded, candidates.target.environment
        )
        self._notes: dict[str, tuple[NormalizedName, Version] | None] = {}

    # --- Releases --------------------------------------------------------------------

    def versions(self, name: NormalizedName) -> Sequence[Version]:
        """Return the versions that may be usable, newest first."""
        versions = self._versions.get(name)
        if versions is None:
            listing = self.candidates.listing(name)
            versions = () if listing is None else listing.releases.possible_versions
            installed = self.kept_build(name)
            if installed is not None and installed.version not in versions:
                versions = tuple(sorted((*versions, installed.version), reverse=True))
            lower_bound = self._lower_bounds.get(name)
            if lower_bound is not None:
                versions = tuple(takewhile(lower_bound.__le__, versions))
            self._versions[name] = versions
        return versions

    def yanked(self, name: NormalizedName) -> frozenset[Version]:
        """Return the versions of which every possible wheel was yanked, except a preferred one."""
        yanked = self._yanked.get(name)
        if yanked is None:
            listing = self.candidates.listing(name)
            all_yanked = () if listing is None else listing.releases.yanked_versions
            yanked = frozenset(all_yanked) - {self.preferred_version(name)}
            self._yanked[name] = yanked
        return yanked

    def postponed(self, name: NormalizedName) -> frozenset[Version]:
        """Return the versions to try after all others.

        They have no wheel, or, for a project of a family, none for the accelerator of the machine
        although others have one.
        """
        candidates, without = self.candidates, self.without_wheels(name)
        if not candidates.is_for_one_machine or candidates.bridge(name) is None:
            return without
        favoured = self._all_favoured(name)
        others = frozenset(self.versions(name)).difference(favoured) if favoured else ()
        return without.union(others) - {self.preferred_version(name)}

    def without_wheels(self, name: NormalizedName) -> frozenset[Version]:
        """Return the versions without a wheel, if versions with wheels are preferred.

        They are always preferred for bridged families, since their builds take hours to compile.
        """
        sources, listing = self.candidates.policy.sources, self.candidates.listing(name)
        if sources is None or listing is None:
            return frozenset()
        if listing.bridge is not None:
            with_sources = listing.releases.with_sources()
            return frozenset(
                version for version in with_sources if self._is_source_only(name, version)
            )
        if not sources.prefer_binary:
            return frozenset()
        return listing.releases.without_wheels() - {self.preferred_version(name)}

    def _is_source_only(self, name: NormalizedName, version: Version) -> bool:
        chosen = self.candidates.choice(name, version).chosen
        return chosen is not None and chosen.is_unbuilt

    def ranks(self, name: NormalizedName) -> Mapping[Version, int]:
        """Return the ranks of versions if they are not tried newest first; else empty."""
        listing = self.candidates.listing(name)
        return {} if listing is None else listing.ranks

    def preferred_version(self, name: NormalizedName) -> Version | None:
        """Return the installed version if it can be kept, else the one that the request prefers."""
        installed = self.kept_build(name)
        if installed is not None:
            return installed.version
        # A build that contradicts agreed values is replaced by one of the same version.
        version_to_keep = self._versions_to_keep.get(name)
        if version_to_keep is not None and version_to_keep in self.versions(name):
            return version_to_keep
        if name not in self._preferred:  # needed for each decision of the solver
            preferred = self._request.preferred.get(name)
            is_listed = preferred is not None and preferred in self.versions(name)
            self._preferred[name] = preferred if is_listed else self.favoured(name)
        return self._preferred[name]

    def favoured(self, name: NormalizedName) -> Version | None:
        """Return the release to try first since it uses an accelerator; None: the newest.

        There is one only for bridged families and for projects the user named.
        """
        return next(iter(self._all_favoured(name)), None)

    def is_favoured(self, name: NormalizedName, version: Version) -> bool:
        """Return whether a release uses the machine's accelerator, unlike others."""
        return version in self._all_favoured(name)

    def _all_favoured(self, name: NormalizedName) -> tuple[Version, ...]:
        if name not in self._favoured:
            self._favoured[name] = self._find_favoured(name)
        return self._favoured[name]

    def _find_favoured(self, name: NormalizedName) -> tuple[Version, ...]:
        request = self._request
        if name in request.favoured:
            return (request.favoured[name],)
        if self.candidates.bridge(name) is not None:
            if not self.candidates.is_for_one_machine:
                from wheelfit.resolution.accelerator_kinds import kinds_by_release, with_most_kinds

                best = with_most_kinds(
                    kinds_by_release(self.candidates, name, prereleases=request.prereleases)
                )
                return () if best is None else (best,)
            from wheelfit.resolution.bridges import accelerated_releases

            return accelerated_releases(
                self.candidates, name, request.installed, prereleases=request.prereleases
            )
        listing = self.candidates.listing(name) if name in self._roots else None
        if listing is None or not listing.releases.has_variants():
            return ()
        from wheelfit.resolution.unaccelerated import accelerated_release

        best = accelerated_release(
            self.candidates, name, self.versions(name), prereleases=request.prereleases
        )
        return () if best is None else (best,)

    def kinds(self, name: NormalizedName, version: Version) -> frozenset[str]:
        """Return the kinds of accelerators that a release of a family has builds for."""
        from wheelfit.resolution.accelerator_kinds import kinds_of

        listing = self.candidates.listing(name)
        if listing is None or listing.bridge is None:
            return frozenset()
        return kinds_of(listing.releases[version], listing.bridge, self.candidates)

    def is_usable(self, name: NormalizedName, version: Version) -> bool:
        """Return whether a release has a wheel that fits and whose core metadata can be read."""
        installed = self.kept_build(name)
        if installed is not None and version == installed.version:
            return True
        self._prefetch_older(name, version)
        if self.has_several_builds(name, version):
            self._examined_of(name)[version] = True  # its builds are examined one by one
            return True
        while True:
            choice = self.candidates.usable_choice(name, version)
            wheel = choice.chosen
            if wheel is None or not (
                self._reject_url_requirement(wheel, choice.context())
                or self._reject_older_unbuilt(wheel)
            ):
                break
        self._examined_of(name)[version] = wheel is not None
        return wheel is not None

    def _examined_of(self, name: NormalizedName) -> dict[Version, bool]:
        """Return the examined releases of a project, with whether each is usable."""
        return self._examined.setdefault(name, {})

    def _reject_older_unbuilt(self, wheel: Wheel) -> bool:
        """Reject an unbuilt wheel whose requirements are unknown if a newer release conflicted.

        The wheel would only seem to have no conflict.
        """
        name, version = wheel.filename.name, wheel.filename.version
        if not wheel.is_unbuilt or self.was_examined(name, version):
            return False
        examined = self._examined_of(name).items()
        # The solver tries this release only because the usable newer ones conflict.
        newer_conflicted = any(newer > version and is_usable for newer, is_usable in examined)
        if not newer_conflicted or self.candidates.has_requirements(wheel.file):
            return False
        self.candidates.reject(
            wheel.filename, f"its requirements are unknown without a build (--allow-source {name})"
        )
        return True

    def has_several_builds(self, name: NormalizedName, version: Version) -> bool:
        """Return whether the solver chooses the build of a release.

        It does if labels were built for versions of other packages (P-53).
        """
        installed = self.kept_build(name)
        if installed is not None and installed.version == version:
            is_open = self._choose_builds_of_all and installed.document is not None
            return is_open or is_built_for_versions(installed.document, installed.properties)
        choice = self.candidates.choice(name, version)
        if self._choose_builds_of_all and len(choice.labels) > 1:
            return True
        document = choice.metadata.document
        return document is not None and any(
            is_built_for_versions(document, choice.declared(label)) for label in choice.labels
        )

    def build(self, name: NormalizedName, version: Version, index: int) -> Build | None:
        """Return one build of a release: the installed one, then the best labels first."""
        build = self.release_build(name, version, index)
        return None if build is None else build.build()

    def is_build_usable(self, name: NormalizedName, version: Version, index: int) -> bool:
        """Return whether a build has a wheel that fits and whose core metadata can be read."""
        key = (name, version, index)
        is_usable = self._usable_builds.get(key)
        if is_usable is None:
            is_usable = self._usable_builds[key] = self._has_usable_wheel(name, version, index)
        return is_usable

    def _has_usable_wheel(self, name: NormalizedName, version: Version, index: int) -> bool:
        build = self.release_build(name, version, index)
        if build is None or build.is_installed:
            return build is not None
        while True:
            wheel = self.candidates.wheel_with_label(name, version, build.label)
            if wheel is None or not self._reject_url_requirement(wheel, build.context):
                return wheel is not None

    def version_in_environment(self, name: NormalizedName) -> Version | None:
        """Return the version that is installed, or that the user declares (P-57)."""
        known = self.candidates.known_versions.versions.get(name)
        if known is not None:
            return known.version
        return self._request.versions_in_environment.get(name)

    def dependencies(self, package: Package, version: Version) -> Sequence[Dependency]:
        """Return the requirements of the chosen wheel of a release (F-95, F-101)."""
        if not self._request.dependencies:
            return []
        if package.release is None:
            core, context = self._core(package.name, version)
        else:
            core, context = self._core_of_build(package.name, package.release, build_index(version))
            version = package.release
        if package.extra is not None and package.extra not in core.provides_extra:
            text = f"{package.name} {version} has no extra named {package.extra}"
            self.note(text, (package.name, version))
        dependencies, ignored = self._dependencies_in(core, package.extra, context)
        for reason in ignored:
            self.note(f"{package.name} {version}: {reason}", (package.name, version))
        return dependencies

    def prefetch(self, dependencies: Sequence[Dependency]) -> None:
        """Start to read the listings of the projects that do not stay as they are installed."""
        for dependency in dependencies:
            installed = self.kept_build(dependency.package.name)
            if installed is None or installed.version not in dependency.versions:
                self._prefetch.prefetch(dependency, self._probable_dependencies)

    # --- progress ------------------------------------------------------------------------

    @property
    def examined_releases(self) -> Iterable[tuple[NormalizedName, Version]]:
        """The releases that the solver examined, project by project."""
        return (
            (name, version) for name, versions in self._examined.items() for version in versions
        )

    def was_examined(self, name: NormalizedName, version: Version) -> bool:
        """Return whether the solver examined a release."""
        return version in self._examined.get(name, ())

    def passed_over(self, name: NormalizedName, version: Version) -> Iterator[Version]:
        """Yield the newer releases that were examined but have no wheel that fits (F-92)."""
        listing = self.candidates.listing(name)
        examined = self._examined_of(name).items()
        usable = [version, *(other for other, is_usable in examined if is_usable)]
        for newer, is_usable in examined:
            if is_usable or newer <= version:
                continue
            if listing is None or not any(
                listing.is_same_release(newer, other) for other in usable
            ):
                yield newer

    # --- installed builds, and the builds of releases ---------------------------------------

    def kept_build(self, name: NormalizedName) -> InstalledBuild | None:
        """Return the installed build of a project that may be kept (F-96); None without one."""
        if name not in self._kept:
            self._kept[name] = self._find_kept(name)
        return self._kept[name]

    def release_build(
        self, name: NormalizedName, version: Version, index: int
    ) -> ReleaseBuild | None:
        """Return one build of a release with several; None if it has fewer.

        :param index: from 0 for the best.
        """
        key = (name, version)
        builds = self._builds.setdefault(key, [])
        further_builds = self._further_builds.get(key)
        if further_builds is None:
            further_builds = self._further_builds[key] = self._find_builds(name, version)
        while len(builds) <= index:
            next_build = next(further_builds, None)
            if next_build is None:
                return None
            builds.append(next_build)
        return builds[index]

    def _find_builds(self, name: NormalizedName, version: Version) -> Iterator[ReleaseBuild]:
        preferences, known = self.candidates.policy.preferences, self.candidates.known_versions
        installed = self.kept_build(name)
        installed_label: Label | None = None
        if installed is not None and installed.version == version:
            support = self._support(installed)
            if installed.label and installed.document is not None and support is not None:
                installed_label = installed.label
                yield from builds_of_label(
                    installed_label,
                    installed.properties,
                    installed.document,
                    support,
                    preferences,
                    known,
                    is_installed=True,
                )
            listing = self.candidates.listing(name)
            if listing is None or version not in listing.releases:
                return
        choice = self.candidates.choice(name, version)
        for build in builds_of_release(choice, preferences, known):
            if installed_label is None or build.label != installed_label:
                yield build

    def _probable_dependencies(self, package: Package, version: Version) -> Iterator[Dependency]:
        """Yield the probable dependencies of a release, without notes; safe in other threads."""
        if not self._request.dependencies:
            return
        core, context = self._core_of_chosen_wheel(package.name, version)
        for dependency in self._dependencies_in(core, package.extra, context)[0]:
            if dependency.package.name not in self._request.installed:
                yield dependency

    def _dependencies_in(
        self, core: CoreMetadata, extra: NormalizedName | None, context: VariantContext
    ) -> tuple[list[Dependency], list[str]]:
        """Return the dependencies in metadata, and notes on ignored requirements; cached."""
        return self._dependencies.get(
            (core, extra, context), lambda: self._read_dependencies(core, extra, context)
        )

    def _read_dependencies(
        self, core: CoreMetadata, extra: NormalizedName | None, context: VariantContext
    ) -> tuple[list[Dependency], list[str]]:
        environment = self.candidates.target.environment
        dependencies: list[Dependency] = []
        ignored: list[str] = []
        for requirement in core.requires:
            try:
                applies_without_extra = requirement.applies(environment, "", context)
                applies = applies_without_extra or (
                    extra is not None
                    and requirement.applies(environment, frozenset([extra]), context)
                )
            except InvalidMarker as error:
                ignored.append(f"{requirement} is ignored: {error.message}")
                continue
            # An extra has only the requirements that it adds to those of its project.
            if applies and applies_without_extra == (extra is None):
                dependencies += self._dependencies_with_overrides(requirement, context.label)
        return dependencies, ignored

    def note(self, text: str, release: tuple[NormalizedName, Version] | None = None) -> None:
        """Store a note for the user.

        :param release: show the note only if this release is chosen; None: always.
        """
        self._notes[text] = release

    def notes(self, chosen: Mapping[NormalizedName, Version]) -> Iterator[str]:
        """Yield the notes that concern a result, in order."""
        for text, release in self._notes.items():
            if release is None or chosen.get(release[0]) == release[1]:
                yield text

    def _find_kept(self, name: NormalizedName) -> InstalledBuild | None:
        installed = self._request.installed.get(name)
        request = self._request
        if installed is None or name in self.candidates.context.direct_files:
            return None
        if (request.upgrade and name in self._roots) or name in request.upgrade_only:
            if self.candidates.listing(name) is not None:
                return None
            self.note(f"the installed {installed} is kept: {name} was not found in any index")
        reason = self._reason_against(installed)
        if reason is None:
            reason = self.candidates.objection(installed.properties, is_installed=True)
            if reason is not None:
                self._versions_to_keep[name] = installed.version
        if reason is not None:
            self.note(f"the installed {installed} is not kept: {reason}")
            return None
        try:
            self._installed_core[name] = installed.read()
            _ = self._installed_core[name].requires
        except WheelfitError as error:
            self.note(f"the installed {installed} is not kept: {error.message}")
            return None
        return installed

    def _reason_against(self, installed: InstalledBuild) -> str | None:
        """Return the reason an installed variant is no longer usable (F-96)."""
        preferences = self.candidates.policy.preferences
        pinned = preferences.labels.get(installed.name)
        if pinned is not None and pinned != installed.label:
            return f"the label {pinned} is requested"
        if installed.label is None:
            # Most installed packages have no variants; only for requested ones one is required.
            if not preferences.require or installed.name not in self._roots:
                return None
            return self.candidates.applicable_preferences(installed.name, None).objection(
                EMPTY, Support()
            )
        if not preferences.variants:
            return "plain wheels are requested"
        support = self._support(installed)
        if support is None:
            return None
        preferences = self.candidates.applicable_preferences(installed.name, installed.document)
        return support.refusal(installed.properties) or preferences.objection(
            installed.properties, support
        )

    def _support(self, installed: InstalledBuild) -> Support | None:
        if installed.document is None:
            return None
        used = namespaces_used([installed.properties])
        return self.candidates.support_of(installed.document, used)

    def _core(self, name: NormalizedName, version: Version) -> tuple[CoreMetadata, VariantContext]:
        """Return the core metadata of the build that is kept or chosen, with its marker context."""
        installed = self.kept_build(name)
        if installed is not None and installed.version == version:
            support = self._support(installed)
            properties = support.filter(installed.properties) if support else installed.properties
            context = VariantContext(installed.label or "", properties)  # F-102, F-103
            return self._installed_core[name], context
        return self._core_of_chosen_wheel(name, version)

    def _core_of_chosen_wheel(
        self, name: NormalizedName, version: Version
    ) -> tuple[CoreMetadata, VariantContext]:
        choice = self.candidates.usable_choice(name, version)
        wheel = choice.chosen
        if wheel is None:
            raise ValueError(name, version)  # the solver chooses usable releases only
        context = choice.context()
        return self.candidates.core_metadata(wheel), context

    def _core_of_build(
        self, name: NormalizedName, release: Version, index: int
    ) -> tuple[CoreMetadata, VariantContext]:
        build = self.release_build(name, release, index)
        if build is None:
            raise ValueError(name, release, index)  # the solver chooses existing builds only
        if build.is_installed:
            return self._installed_core[name], build.context
        wheel = self.candidates.wheel_with_label(name, release, build.label)
        if wheel is None:
            raise ValueError(name, release, index)  # the solver chooses usable builds only
        return self.candidates.core_metadata(wheel), build.context

    def _dependencies_with_overrides(
        self, requirement: Requirement, label: str
    ) -> Iterator[Dependency]:
        """Yield the dependencies of a requirement, or of the user's overrides of it."""
        if not self._replacements.concerns(requirement.name):
            yield from self._dependencies_of_requirement(requirement, label)
            return
        for override in self._replacements.apply_to(RequestedRequirement(requirement)):
            text = f"{_Cited(override.requirement)} ({override.where})"
            yield from dependencies_of(override.requirement, text)

    def _dependencies_of_requirement(
        self, requirement: Requirement, label: str
    ) -> Iterable[Dependency]:
        if requirement.url is not None and not self._is_direct(requirement):
            # It is a requirement of an extra: without extras, its wheel would have been rejected.
            text = f"{_Cited(requirement)} (only you may request a URL)"
            return [Dependency(Package(requirement.name), VersionSet.empty(), text)]
        marker = requirement.marker
        depends_on_label = label and marker is not None and marker.uses_variants
        return dependencies_of(requirement, _Cited(requirement, label if depends_on_label else ""))

    def _prefetch_older(self, name: NormalizedName, version: Version) -> None:
        """Prefetch older releases once the solver has tried several releases of a project."""
        if self.was_examined(name, version):
            return
        tries = self._tries[name] = self._tries.get(name, 0) + 1
        if tries < _TRIES_BEFORE_PREFETCH:
            return
        versions = self.versions(name)
        start = versions.index(version) + 1
        for older in versions[start : start + min(tries, _MAX_PREFETCHED)]:
            self._prefetch.prefetch_release(name, older)

    def _reject_url_requirement(self, wheel: Wheel, context: VariantContext) -> bool:
        """Reject a wheel with a requirement that names a URL; return whether it has one.

        Only the user may request a URL, or a wheel could replace any other project.
        """
        requirement = self._url_requirement(wheel, context)
        if requirement is not None:
            self.candidates.reject(
                wheel.filename, f"it needs {_Cited(requirement)}, but only you may request a URL"
            )
        return requirement is not None

    def _url_requirement(self, wheel: Wheel, context: VariantContext) -> Requirement | None:
        if not self._request.dependencies:
            return None
        environment = self.candidates.target.environment
        core = self.candidates.core_metadata(wheel)
        if not any("@" in text for text in core.requires_texts):
            return None  # none of them names a URL, as of nearly all wheels
        for requirement in core.requires:
            if requirement.url is None or self._is_direct(requirement):
                continue
            if self._replacements.concerns(requirement.name):
                continue
            with suppress(InvalidMarker):
                if requirement.applies(environment, "", context):
                    return requirement
        return None

    def _is_direct(self, requirement: Requirement) -> bool:
        """Return whether the URL of a requirement is that of a wheel that the user named."""
        listing = self.candidates.listing(requirement.name)
        if listing is None or requirement.name not in self.candidates.context.direct_files:
            return False
        requested_url = (requirement.url or "").partition("#")[0]
        return any(
            wheel.file.url == requested_url
            for release in listing.releases.values()
            for wheel in release.wheels
        )
