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
from wheelfit.resolution.problem import Need, Package, build_index
from wheelfit.resolution.request import RequestedRequirement
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
    from wheelfit.resolution.problem import Build
    from wheelfit.resolution.request import InstalledBuild, ResolutionRequest


def needs_of(requirement: Requirement, text: object = "") -> list[Need]:
    """Return a requirement as needs: of the project, and of each extra.

    :param requirement: the requirement; its marker is ignored.
    :param text: its text in proofs; default: the requirement without its marker.
    """
    versions = VersionSet.of(requirement.specifier)
    pin = is_pin(requirement.specifier)
    cited = text or _Cited(requirement)
    extras: list[NormalizedName | None] = [None, *sorted(requirement.extras)]
    return [Need(Package(requirement.name, extra), versions, cited, pin) for extra in extras]


class _Cited(Struct, frozen=True):
    """A requirement without its marker, formatted only when it is read."""

    requirement: Requirement
    label: str = ""
    """The label whose variant markers make it apply; empty: none."""

    def __str__(self) -> str:
        cited = _cited(self.requirement)
        return f"{cited} (as {self.label})" if self.label else cited


def _cited(requirement: Requirement) -> str:
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    if requirement.url is not None:
        return f"{requirement.name}{extras} @ {redact(requirement.url)}"
    return f"{requirement.name}{extras}{VersionSet.of(requirement.specifier)}"


_TRIES_BEFORE_PREFETCH = 3
"""The number of tried releases of a project from which on older ones are prefetched."""
_MAX_PREFETCHED = 16


class Catalogue:
    """The releases that the candidates offer the solver: ``Releases``.

    :param request: decides which builds are kept and how far to search.
    :param candidates: the releases of the sources.
    :param lookahead: fetches the files that will be needed soon.
    :param roots: the requested projects, given wheels included.
    :param floors: lower bounds of versions, applied to the listing.
    :param is_any_divided: whether any release may be replaced by another of its builds for its
        needs.
    """

    def __init__(
        self,
        request: ResolutionRequest,
        candidates: Candidates,
        lookahead: Prefetch,
        roots: Iterable[Need],
        floors: Mapping[NormalizedName, Version] = MappingProxyType({}),
        *,
        is_any_divided: bool = False,
    ) -> None:
        self.candidates = candidates
        """The releases of the sources."""
        self._floors = floors
        self._is_any_divided = is_any_divided
        self._request = request
        self._lookahead = lookahead
        self._kept: dict[NormalizedName, InstalledBuild | None] = {}
        self._apart: dict[NormalizedName, Version] = {}
        self._installed_core: dict[NormalizedName, CoreMetadata] = {}
        self._versions: dict[NormalizedName, tuple[Version, ...]] = {}
        self._preferred: dict[NormalizedName, Version | None] = {}
        self._yanked: dict[NormalizedName, frozenset[Version]] = {}
        self._favoured: dict[NormalizedName, tuple[Version, ...]] = {}
        self._tries: dict[NormalizedName, int] = {}
        self._tried: dict[NormalizedName, dict[Version, bool]] = {}
        self._builds: dict[tuple[NormalizedName, Version], list[ReleaseBuild]] = {}
        self._more: dict[tuple[NormalizedName, Version], Iterator[ReleaseBuild]] = {}
        self._sound: dict[tuple[NormalizedName, Version, int], bool] = {}
        self._needs: Memo[
            tuple[CoreMetadata, NormalizedName | None, VariantContext], tuple[list[Need], list[str]]
        ] = Memo()
        self._roots = {need.package.name for need in roots}
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
            versions = () if listing is None else listing.releases.possible()
            present = self.present(name)
            if present is not None and present.version not in versions:
                versions = tuple(sorted((*versions, present.version), reverse=True))
            floor = self._floors.get(name)
            if floor is not None:
                versions = tuple(takewhile(floor.__le__, versions))
            self._versions[name] = versions
        return versions

    def yanked(self, name: NormalizedName) -> frozenset[Version]:
        """Return the versions of which every possible wheel was yanked."""
        yanked = self._yanked.get(name)
        if yanked is None:
            listing, kept = self.candidates.listing(name), self.kept(name)
            yanked = self._yanked[name] = frozenset(
                version
                for version in (() if listing is None else listing.releases.yanked())
                if version != kept
            )
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
        return without.union(others) - {self.kept(name)}

    def without_wheels(self, name: NormalizedName) -> frozenset[Version]:
        """Return the versions without a wheel, if versions with wheels are preferred.

        They are preferred for bridged families, whose builds for GPUs take hours to compile.
        """
        sources, listing = self.candidates.policy.sources, self.candidates.listing(name)
        if sources is None or listing is None:
            return frozenset()
        if listing.bridge is not None:
            sources_of = listing.releases.with_sources()
            return frozenset(one for one in sources_of if self._is_source_only(name, one))
        if not sources.prefer_binary:
            return frozenset()
        return listing.releases.without_wheels() - {self.kept(name)}

    def ranks(self, name: NormalizedName) -> Mapping[Version, int]:
        """Return the ranks of versions, if an earlier source counts more than a newer version."""
        listing = self.candidates.listing(name)
        return {} if listing is None else listing.ranks

    def kept(self, name: NormalizedName) -> Version | None:
        """Return the installed version if it can be kept, else the preferred one."""
        present = self.present(name)
        if present is not None:
            return present.version
        # A build that conflicts with others is replaced by one of the same version.
        apart = self._apart.get(name)
        if apart is not None and apart in self.versions(name):
            return apart
        if name not in self._preferred:  # needed for each decision of the solver
            preferred = self._request.preferred.get(name)
            is_listed = preferred is not None and preferred in self.versions(name)
            self._preferred[name] = preferred if is_listed else self.favoured(name)
        return self._preferred[name]

    def favoured(self, name: NormalizedName) -> Version | None:
        """Return the release to try first because it uses the machine's hardware; None: the newest.

        Only for bridged families and for projects the user named.
        """
        return next(iter(self._all_favoured(name)), None)

    def is_favoured(self, name: NormalizedName, version: Version) -> bool:
        """Return whether a release uses the machine's hardware, unlike others."""
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
                from wheelfit.resolution.accelerator_kinds import (
                    kinds_by_release,
                    with_most_kinds,
                )

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
        present = self.present(name)
        if present is not None and version == present.version:
            return True
        self._prefetch_older(name, version)
        if self.is_divided(name, version):
            self._tried_of(name)[version] = True  # its builds are examined one by one
            return True
        while True:
            choice = self.candidates.usable_choice(name, version)
            wheel = choice.chosen
            if wheel is None or not (
                self._reject_foreign_url(wheel, choice.context())
                or self._reject_unbuilt_escape(wheel)
            ):
                break
        self._tried_of(name)[version] = wheel is not None
        return wheel is not None

    def _tried_of(self, name: NormalizedName) -> dict[Version, bool]:
        return self._tried.setdefault(name, {})

    def _reject_unbuilt_escape(self, wheel: Wheel) -> bool:
        """Reject an unbuilt release that seems to fit only because its requirements are unknown.

        That is the case if a newer release was tried before and conflicted.
        """
        name, version = wheel.filename.name, wheel.filename.version
        if not wheel.is_unbuilt or self.is_tried(name, version):
            return False
        tried = self._tried_of(name).items()
        went_back = any(newer > version and usable for newer, usable in tried)
        if not went_back or self.candidates.knows_needs(wheel.file):
            return False
        self.candidates.reject(
            wheel.filename, f"its requirements are unknown without a build (--allow-source {name})"
        )
        return True

    def is_divided(self, name: NormalizedName, version: Version) -> bool:
        """Return whether the solver chooses the build of a release.

        It does if labels were built for versions of other packages (P-53).
        """
        present = self.present(name)
        if present is not None and present.version == version:
            is_open = self._is_any_divided and present.document is not None
            return is_open or is_built_for_versions(present.document, present.properties)
        choice = self.candidates.choice(name, version)
        if self._is_any_divided and len(choice.labels) > 1:
            return True
        document = choice.metadata.document
        return document is not None and any(
            is_built_for_versions(document, choice.declared(label)) for label in choice.labels
        )

    def build(self, name: NormalizedName, version: Version, index: int) -> Build | None:
        """Return one build of a release: the installed one, then the best labels first."""
        build = self.release_build(name, version, index)
        return None if build is None else build.build()

    def is_sound(self, name: NormalizedName, version: Version, index: int) -> bool:
        """Return whether a build has a wheel that fits and whose core metadata can be read."""
        key = (name, version, index)
        sound = self._sound.get(key)
        if sound is None:
            sound = self._sound[key] = self._find_wheel(name, version, index)
        return sound

    def _find_wheel(self, name: NormalizedName, version: Version, index: int) -> bool:
        build = self.release_build(name, version, index)
        if build is None or build.is_installed:
            return build is not None
        while True:
            wheel = self.candidates.wheel_with_label(name, version, build.label)
            if wheel is None or not self._reject_foreign_url(wheel, build.context):
                return wheel is not None

    def present_version(self, name: NormalizedName) -> Version | None:
        """Return the version that is installed, or that the user declares (P-57)."""
        known = self.candidates.known.versions.get(name)
        return self._request.there.get(name) if known is None else known.version

    def needs(self, package: Package, version: Version) -> Sequence[Need]:
        """Return the requirements of the chosen wheel of a release (F-95, F-101)."""
        if not self._request.dependencies:
            return []
        if package.release is None:
            core, context, label = self._core(package.name, version)
        else:
            core, context, label = self._core_of_build(
                package.name, package.release, build_index(version)
            )
            version = package.release
        if package.extra is not None and package.extra not in core.provides_extra:
            text = f"{package.name} {version} has no extra named {package.extra}"
            self.note(text, (package.name, version))
        needs, ignored = self._needs_in(core, package.extra, context, label)
        for reason in ignored:
            self.note(f"{package.name} {version}: {reason}", (package.name, version))
        return needs

    def announce(self, needs: Sequence[Need]) -> None:
        """Prefetch the projects that are not kept."""
        for need in needs:
            present = self.present(need.package.name)
            if present is None or present.version not in need.versions:
                self._lookahead.announce(need, self._following)

    # --- progress ------------------------------------------------------------------------

    @property
    def tried(self) -> Iterable[tuple[NormalizedName, Version]]:
        """The releases the solver tried, project by project."""
        return ((name, version) for name, tried in self._tried.items() for version in tried)

    def is_tried(self, name: NormalizedName, version: Version) -> bool:
        """Return whether the solver tried a release."""
        return version in self._tried.get(name, ())

    def passed_over(self, name: NormalizedName, version: Version) -> Iterator[Version]:
        """Yield the newer releases that were tried but have no wheel that fits (F-92)."""
        listing = self.candidates.listing(name)
        tried = self._tried_of(name)
        usable = [version, *(each for each, fits in tried.items() if fits)]
        for newer, fits in tried.items():
            if fits or newer <= version:
                continue
            if listing is None or not any(listing.is_same_release(newer, each) for each in usable):
                yield newer

    def _is_source_only(self, name: NormalizedName, version: Version) -> bool:
        """Return whether only the source distribution of a release fits."""
        chosen = self.candidates.choice(name, version).chosen
        return chosen is not None and chosen.is_unbuilt

    # --- parts --------------------------------------------------------------------------

    def present(self, name: NormalizedName) -> InstalledBuild | None:
        """Return the installed distribution that stays if it meets the request (F-96)."""
        if name not in self._kept:
            self._kept[name] = self._find_kept(name)
        return self._kept[name]

    def release_build(
        self, name: NormalizedName, version: Version, index: int
    ) -> ReleaseBuild | None:
        """Return one build of a divided release; None if it has fewer.

        :param index: from 0 for the best.
        """
        key = (name, version)
        builds = self._builds.setdefault(key, [])
        more = self._more.get(key)
        if more is None:
            more = self._more[key] = self._each_build(name, version)
        while len(builds) <= index:
            following = next(more, None)
            if following is None:
                return None
            builds.append(following)
        return builds[index]

    def _each_build(self, name: NormalizedName, version: Version) -> Iterator[ReleaseBuild]:
        preferences, known = self.candidates.policy.preferences, self.candidates.known
        present = self.present(name)
        installed: Label | None = None
        if present is not None and present.version == version:
            support = self._support(present)
            if present.label and present.document is not None and support is not None:
                installed = present.label
                yield from builds_of_label(
                    installed,
                    present.properties,
                    present.document,
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
            if installed is None or build.label != installed:
                yield build

    def _following(self, package: Package, version: Version) -> Iterator[Need]:
        """Yield the probable requirements of a release, without notes; safe in other threads."""
        if not self._request.dependencies:
            return
        core, context, label = self._core_of(package.name, version)
        for need in self._needs_in(core, package.extra, context, label)[0]:
            if need.package.name not in self._request.installed:
                yield need

    def _needs_in(
        self, core: CoreMetadata, extra: NormalizedName | None, context: VariantContext, label: str
    ) -> tuple[list[Need], list[str]]:
        """Return the requirements in metadata, and notes on ignored ones; cached."""
        return self._needs.get(
            (core, extra, context), lambda: self._read_needs(core, extra, context, label)
        )

    def _read_needs(
        self, core: CoreMetadata, extra: NormalizedName | None, context: VariantContext, label: str
    ) -> tuple[list[Need], list[str]]:
        environment = self.candidates.target.environment
        needs: list[Need] = []
        ignored: list[str] = []
        for requirement in core.requires:
            try:
                without = requirement.applies(environment, "", context)
                applies = without or (
                    extra is not None
                    and requirement.applies(environment, frozenset([extra]), context)
                )
            except InvalidMarker as error:
                ignored.append(f"{requirement} is ignored: {error.message}")
                continue
            # An extra adds to the requirements of its project.
            if applies and without == (extra is None):
                needs += self._needs_with_overrides(requirement, label)
        return needs, ignored

    def note(self, text: str, release: tuple[NormalizedName, Version] | None = None) -> None:
        """Store a note for the user.

        :param text: the note.
        :param release: show the note only if this release is chosen; None: always.
        """
        self._notes[text] = release

    def notes(self, chosen: Mapping[NormalizedName, Version]) -> Iterator[str]:
        """Yield the notes that concern a result, in order.

        :param chosen: the versions of the result.
        """
        for text, release in self._notes.items():
            if release is None or chosen.get(release[0]) == release[1]:
                yield text

    def _find_kept(self, name: NormalizedName) -> InstalledBuild | None:
        present = self._request.installed.get(name)
        request = self._request
        if present is None or name in self.candidates.context.given:
            return None
        if (request.upgrade and name in self._roots) or name in request.upgrade_only:
            if self.candidates.listing(name) is not None:
                return None
            self.note(f"the installed {present} stays: {name} was not found in any index")
        reason = self._reason_against(present)
        if reason is None:
            reason = self.candidates.objection(present.properties, is_installed=True)
            if reason is not None:
                self._apart[name] = present.version
        if reason is not None:
            self.note(f"the installed {present} is not kept: {reason}")
            return None
        try:
            self._installed_core[name] = present.read()
            _ = self._installed_core[name].requires
        except WheelfitError as error:
            self.note(f"the installed {present} is not kept: {error.message}")
            return None
        return present

    def _reason_against(self, present: InstalledBuild) -> str | None:
        """Return the reason an installed variant is no longer usable (F-96)."""
        preferences = self.candidates.policy.preferences
        pinned = preferences.labels.get(present.name)
        if pinned is not None and pinned != present.label:
            return f"{pinned} is asked for"
        if present.label is None:
            # Most installed packages have no builds; consent concerns only the named ones.
            if not preferences.require or present.name not in self._roots:
                return None
            return self.candidates.applicable_preferences(present.name, None).objection(
                EMPTY, Support()
            )
        if not preferences.variants:
            return "plain wheels are asked for"
        support = self._support(present)
        if support is None:
            return None
        preferences = self.candidates.applicable_preferences(present.name, present.document)
        return support.refusal(present.properties) or preferences.objection(
            present.properties, support
        )

    def _support(self, present: InstalledBuild) -> Support | None:
        if present.document is None:
            return None
        used = namespaces_used([present.properties])
        return self.candidates.support_of(present.document, used)

    def _core(
        self, name: NormalizedName, version: Version
    ) -> tuple[CoreMetadata, VariantContext, str]:
        present = self.present(name)
        if present is not None and present.version == version:
            support = self._support(present)
            properties = support.filter(present.properties) if support else present.properties
            context = VariantContext(present.label or "", properties)  # F-102, F-103
            return self._installed_core[name], context, context.label
        return self._core_of(name, version)

    def _core_of(
        self, name: NormalizedName, version: Version
    ) -> tuple[CoreMetadata, VariantContext, str]:
        choice = self.candidates.usable_choice(name, version)
        wheel = choice.chosen
        if wheel is None:
            raise ValueError(name, version)  # the solver requests usable releases only
        context = choice.context()
        return self.candidates.core_metadata(wheel), context, context.label

    def _core_of_build(
        self, name: NormalizedName, release: Version, index: int
    ) -> tuple[CoreMetadata, VariantContext, str]:
        build = self.release_build(name, release, index)
        if build is None:
            raise ValueError(name, release, index)  # the solver requests only builds it was given
        if build.is_installed:
            return self._installed_core[name], build.context, build.context.label
        wheel = self.candidates.wheel_with_label(name, release, build.label)
        if wheel is None:
            raise ValueError(name, release, index)  # the solver requests sound builds only
        return self.candidates.core_metadata(wheel), build.context, build.context.label

    def _needs_with_overrides(self, requirement: Requirement, label: str) -> Iterator[Need]:
        """Yield the needs of a requirement, or of the user's overrides of it."""
        if not self._replacements.concerns(requirement.name):
            yield from self._needs_of_requirement(requirement, label)
            return
        for override in self._replacements.apply_to(RequestedRequirement(requirement)):
            one = override.requirement
            yield from needs_of(one, f"{_cited(one)} ({override.where})")

    def _needs_of_requirement(self, requirement: Requirement, label: str) -> Iterable[Need]:
        if requirement.url is not None and not self._is_given(requirement):
            # Of an extra only; a release that needs one anyway is not usable at all.
            return [Need(Package(requirement.name), VersionSet.empty(), _cited(requirement))]
        marker = requirement.marker
        matters = label and marker is not None and marker.uses_variants
        return needs_of(requirement, _Cited(requirement, label if matters else ""))

    def _prefetch_older(self, name: NormalizedName, version: Version) -> None:
        """Prefetch older releases once the solver has tried several releases of a project."""
        if self.is_tried(name, version):
            return
        tries = self._tries[name] = self._tries.get(name, 0) + 1
        if tries < _TRIES_BEFORE_PREFETCH:
            return
        versions = self.versions(name)
        start = versions.index(version) + 1
        for older in versions[start : start + min(tries, _MAX_PREFETCHED)]:
            self._lookahead.announce_release(name, older)

    def _reject_foreign_url(self, wheel: Wheel, context: VariantContext) -> bool:
        """Reject a wheel with a requirement that names a URL.

        Only the user may request a URL, or a wheel could replace any other project.
        """
        foreign = self._url_requirement(wheel, context)
        if foreign is not None:
            self.candidates.reject(
                wheel.filename, f"it needs {_cited(foreign)}, but only you may request a URL"
            )
        return foreign is not None

    def _url_requirement(self, wheel: Wheel, context: VariantContext) -> Requirement | None:
        if not self._request.dependencies:
            return None
        environment = self.candidates.target.environment
        core = self.candidates.core_metadata(wheel)
        if not any("@" in text for text in core.requires_texts):
            return None  # as of nearly all: none of them names a URL
        for requirement in core.requires:
            if requirement.url is None or self._is_given(requirement):
                continue
            if self._replacements.concerns(requirement.name):
                continue
            with suppress(InvalidMarker):
                if requirement.applies(environment, "", context):
                    return requirement
        return None

    def _is_given(self, requirement: Requirement) -> bool:
        listing = self.candidates.listing(requirement.name)
        if listing is None or requirement.name not in self.candidates.context.given:
            return False
        wanted = (requirement.url or "").partition("#")[0]
        return any(
            wheel.file.url == wanted
            for release in listing.releases.values()
            for wheel in release.wheels
        )
