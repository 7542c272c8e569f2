"""The page of a project for one machine: its plain wheels, and the best variant of each release."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

from msgspec import structs

from wheelfit.core.abi_dependency import KnownVersions
from wheelfit.core.core_metadata import edit_metadata, read_metadata, without_variant_markers
from wheelfit.core.filename import release_of
from wheelfit.core.markers import VariantContext
from wheelfit.core.ordering import order_labels
from wheelfit.core.property_support import Support, namespaces_used
from wheelfit.resolution.bridges import accelerated_releases
from wheelfit.server.proxy.choosing import (
    OfferedRelease,
    builds_by_platform,
    fingerprint,
    highest_build,
    marker_platforms,
    merged_requirements,
    proxied_name,
    select_wheels,
)
from wheelfit.sources.concurrency import map_concurrently
from wheelfit.sources.file_readers import SinglePageRepository
from wheelfit.sources.memoized import Memo
from wheelfit.sources.page import VARIANTS_SUFFIX, File, ProjectPage
from wheelfit_runtime.errors import (
    IntegrityError,
    NetworkError,
    UnexpectedStatus,
    UserError,
    WheelfitError,
)
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from packaging.version import Version

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.labels import Label
    from wheelfit.core.target import Target
    from wheelfit.resolution.listing import Release, Wheel
    from wheelfit.server.proxy.choosing import Platform
    from wheelfit.server.proxy.profiles import Profile
    from wheelfit.sources.repository import Files


_CONCURRENT_RELEASES = 16
_SERVER_ERROR = 500
"""The lowest HTTP status of a failing server, which is unrelated to the file."""
_Requirements: TypeAlias = "dict[Platform, tuple[str, ...]]"


@dataclass(frozen=True, slots=True)
class WrittenPage:
    """A page that was written for one client."""

    page: ProjectPage
    metadata: Mapping[str, bytes] = field(default_factory=dict, hash=False)
    """Every METADATA that replaces that of a wheel, by its SHA-256."""
    notes: tuple[str, ...] = ()
    """The files that were left out with the reasons, one sentence each."""
    is_complete: bool = True
    """Whether all inputs could be read; otherwise the page must not be cached."""
    preferred: Version | None = None
    """The newest release with a build for the machine, if the page shows newer ones as yanked."""


def list_project(
    page: ProjectPage,
    files: Files,
    profile: Profile,
    *,
    all_variants: bool = False,
    client: Target | None = None,
    known_hash: Callable[[File, str], str | None] = lambda _file, _digest: None,
    needs_proxy: Callable[[File], bool] = lambda _file: False,
) -> WrittenPage:
    """Return the page of a project for a machine.

    :param all_variants: whether to list every variant, for tools that lock.
    :param client: the target of the client; None if too little is known of it.
    :param known_hash: returns the SHA-256 of a wheel after its METADATA was replaced by one with
        the given digest; None if it is not known yet.
    :param needs_proxy: returns whether the proxy must serve a file because clients cannot fetch it.
    :raises NetworkError: a document that affects the choice cannot be read.
    """
    client = None if all_variants else client
    writer = _PageWriter(page, files, profile, all_variants, client, known_hash, needs_proxy)
    releases = writer.releases_with_variants()
    if not releases:
        return writer.write(())
    return writer.write(map_concurrently(releases, writer.release, most=_CONCURRENT_RELEASES))


@dataclass(slots=True)
class _ReleaseEntries:
    """The entries of one release on the written page."""

    entries: list[File] = field(default_factory=list)
    """Wheels under other names, or with another METADATA."""
    hidden: set[str] = field(default_factory=set)
    """Names of plain wheels that are not listed as they are."""
    metadata: dict[str, bytes] = field(default_factory=dict)
    """Every METADATA that replaces that of a wheel, by its SHA-256."""
    notes: list[str] = field(default_factory=list)

    def add_metadata(self, body: bytes) -> str:
        digest = hashlib.sha256(body).hexdigest()
        self.metadata[digest] = body
        return digest

    def replace(self, wheel: Wheel, entry: File | None) -> None:
        self.hide(wheel)
        if entry is not None:
            self.entries.append(entry)

    def hide(self, wheel: Wheel) -> None:
        if not wheel.filename.is_variant:  # a variant is never listed as it is
            self.hidden.add(wheel.filename.text)


@dataclass
class _PageWriter:
    """A writer of the page of a project."""

    page: ProjectPage
    files: Files
    profile: Profile
    all_variants: bool
    client: Target | None
    known_hash: Callable[[File, str], str | None]
    needs_proxy: Callable[[File], bool]
    is_complete: bool = True
    preferred: Version | None = None

    def __post_init__(self) -> None:
        repository = SinglePageRepository(self.page, self.files)
        self._candidates = self.profile.candidates(repository, self.client or self.profile.target)
        self._metadata_cache: Memo[object, bytes | None] = Memo()
        self._accelerated: Memo[None, Version | None] = Memo()

    def releases_with_variants(self) -> list[Release]:
        """Return the releases with variants, without wheels of newer formats (PEP 777)."""
        listing = self._candidates.listing(self.page.name)
        if listing is None or not self.profile.policy.preferences.variants:
            return []
        releases = []
        for release in listing.releases.values():
            wheels = tuple(wheel for wheel in release.wheels if not wheel.filename.is_newer_format)
            if any(wheel.filename.is_variant for wheel in wheels):
                releases.append(structs.replace(release, wheels=wheels))
        return releases

    def write(self, releases: Sequence[_ReleaseEntries]) -> WrittenPage:
        """Return the page with the entries of its releases, and all other files."""
        # Entries with variants first: pdm ignores build tags, and takes the first of equal wheels.
        entries = [file for release in releases for file in release.entries]
        hidden = self._variant_filenames().union(*(release.hidden for release in releases))
        for file in self.page.files:
            if file.filename.endswith(VARIANTS_SUFFIX) or file.filename in hidden:
                continue
            entries.append(self._served_entry(file) if self.needs_proxy(file) else file)
        files = tuple(map(self._yanked_if_newer, entries))
        metadata: dict[str, bytes] = {}
        for release in releases:
            metadata |= release.metadata
        notes = tuple(note for release in releases for note in release.notes)
        if self.all_variants and len(notes) > 1:
            others = count_of(len(notes) - 1, "other release")
            notes = (notes[0], f"{self.page.name}: the same holds for {others}")
        page = structs.replace(self.page, files=files)
        return WrittenPage(page, metadata, notes, self.is_complete, self.preferred)

    def _yanked_if_newer(self, file: File) -> File:
        """Return a file of a bridged project, as yanked if newer than all accelerated releases.

        Otherwise installers would take the newest release, even without a build for the machine.
        """
        if self.page.bridge is None or self.all_variants or file.yanked is not None:
            return file
        newest, release = (
            self._accelerated.get(None, self._newest_accelerated),
            release_of(file.filename),
        )
        if newest is None or release is None or release[1] <= newest:
            return file
        self.preferred = newest
        return structs.replace(
            file,
            yanked=f"the bridge has builds for this machine up to {newest} only",
        )

    def _newest_accelerated(self) -> Version | None:
        with self.profile.detection_lock:
            versions = accelerated_releases(self._candidates, self.page.name, {}, prereleases=False)
        return next(iter(versions), None)

    def _variant_filenames(self) -> frozenset[str]:
        listing = self._candidates.listing(self.page.name)
        return frozenset(
            wheel.filename.text
            for release in (listing.releases.values() if listing else ())
            for wheel in release.wheels
            if wheel.filename.is_variant
        )

    # --- one release ------------------------------------------------------------------

    def release(self, release: Release) -> _ReleaseEntries:
        """Return the entries of a release, with the wheels that are chosen for the machine."""
        document = self._candidates.document_of(release.name, release.version)
        if document is None:
            self._raise_if_unavailable(release)
            return _ReleaseEntries()
        ranks, support = self._ranks(release, document)
        if self.all_variants:
            offered = _all_wheels(release, ranks)
        else:
            tags = self.client.tags if self.client else None
            offered = select_wheels(release.wheels, ranks, tags)
        # Build tags of variants start with it, so that installers prefer them.
        build_number = highest_build(wheel.filename for wheel in release.wheels)
        metadata = {wheel.filename.text: self._metadata(wheel) for wheel in _wheels(offered)}
        if self.all_variants and _requirements_differ(metadata):
            # A lock has one list of requirements for all machines.
            return self._only_plain(release, offered, metadata)
        if not any(_has_variant_markers(body) for body in metadata.values()):
            result = _ReleaseEntries()
            for wheel in offered.variants:
                result.replace(wheel, self._entry(wheel, build_number))
            self._hide_others(release, offered, result)
            return result
        return self._with_one_metadata(release, offered, ranks, support, metadata, build_number)

    def _hide_others(
        self, release: Release, offered: OfferedRelease, result: _ReleaseEntries
    ) -> None:
        """Hide the plain wheels that are not offered."""
        plain = {wheel.filename.text for wheel in offered.plain}
        for wheel in release.wheels:
            if not wheel.filename.is_variant and wheel.filename.text not in plain:
                result.hide(wheel)

    def _raise_if_unavailable(self, release: Release) -> None:
        """Raise an error if an index file cannot be read, so that no plain wheel is taken instead.

        Index files that the index lists and does not have are ignored (F-130).
        """
        for file in release.index_files:
            try:
                self.files.read(file)
            except UnexpectedStatus as error:
                if error.status >= _SERVER_ERROR:
                    raise
            except NetworkError:
                raise
            except WheelfitError:
                continue

    def _ranks(
        self, release: Release, document: VariantDocument
    ) -> tuple[Mapping[Label, int], Support | None]:
        """Return the ranks of the compatible labels, 0 for the best, and the support found."""
        if self.all_variants:
            return {label: rank for rank, label in enumerate(document.variants)}, None
        preferences = self._candidates.applicable_preferences(release.name, document)
        # Installed packages are unknown, so builds against a version of one are not used (P-51).
        known_versions = KnownVersions(self.profile.policy.providers.abi_versions)
        namespaces = namespaces_used(document.variants.values())
        with self.profile.detection_lock:
            support = self._candidates.support_of(document, namespaces, known_versions)
        ranked = order_labels(document, support, preferences)
        pinned = preferences.labels.get(release.name)
        labels = [choice.label for choice in ranked if pinned is None or choice.label == pinned]
        return {label: rank for rank, label in enumerate(labels)}, support

    def _entry(self, wheel: Wheel, build_number: int, digest: str | None = None) -> File | None:
        """Return the entry of a wheel, a variant under a name without its label.

        :param digest: the SHA-256 of the METADATA that replaces that of the wheel; None: no other.
        :return: None if the name of the variant cannot be changed.
        """
        filename = wheel.filename
        name = proxied_name(filename, build_number) if filename.is_variant else filename.text
        if name is None:
            return None
        return self._served_entry(wheel.file, name, digest)

    def _served_entry(self, file: File, name: str | None = None, digest: str | None = None) -> File:
        """Return the entry of a file that the proxy itself serves."""
        name = name or file.filename
        key = fingerprint(file) if digest is None else f"{fingerprint(file)}-{digest}"
        url = f"../../files/{quote(self.page.name, safe='')}/{key}/{quote(name, safe='')}"
        if digest is None:
            # An attestation contains the name of the file.
            provenance = file.provenance if name == file.filename else None
            return structs.replace(file, filename=name, url=url, provenance=provenance)
        sha256 = self.known_hash(file, digest)
        return structs.replace(
            file,
            filename=name,
            url=url,
            hashes={} if sha256 is None else {"sha256": sha256},
            size=None,
            metadata_hashes={"sha256": digest},
            provenance=None,
        )

    # --- METADATA ---------------------------------------------------------------------

    def _metadata(self, wheel: Wheel) -> bytes | None:
        """Return METADATA of a wheel; None if it is not valid.

        Wheels with the same listed hash of METADATA share one read. Wheels without such a hash, and
        those of bridges, share one by version and label, since every read costs requests.
        """
        hashes = wheel.file.metadata_hashes if wheel.file.declared_document is None else None
        filename = wheel.filename
        key: object = (hashes or {}).get("sha256") or (filename.version, filename.label)

        def read() -> bytes | None:
            try:
                body = self.files.metadata(wheel.file)
                without_variant_markers(body, VariantContext.PLAIN)
                read_metadata(body, filename.text)
            except (IntegrityError, UserError):
                return None
            except NetworkError:
                # The rest of the page is valid, and installing this wheel reports the error.
                self.is_complete = False
                return None
            return body

        return self._metadata_cache.get(key, read)

    def _only_plain(
        self, release: Release, offered: OfferedRelease, metadata: Mapping[str, bytes | None]
    ) -> _ReleaseEntries:
        """Return the entries of the plain wheels alone, without variant markers."""
        note = (
            f"{release.name} {release.version}: its requirements depend on the variant, which the "
            "locks of other tools cannot express; only the plain wheels are listed"
        )
        result = _ReleaseEntries(notes=[note])
        for wheel in offered.plain:
            body = metadata[wheel.filename.text]
            if body is not None and _has_variant_markers(body):
                resolved = _without_markers(body, VariantContext.PLAIN, wheel)
                result.replace(wheel, self._entry(wheel, 0, result.add_metadata(resolved)))
        return result

    def _with_one_metadata(
        self,
        release: Release,
        offered: OfferedRelease,
        ranks: Mapping[Label, int],
        support: Support | None,
        metadata: Mapping[str, bytes | None],
        build_number: int,
    ) -> _ReleaseEntries:
        """Return the entries of the best build for each platform, all with the same METADATA."""
        result = _ReleaseEntries()
        result.notes += [
            f"{wheel.filename.text} is left out: its metadata is not valid"
            for wheel in _wheels(offered)
            if metadata[wheel.filename.text] is None
        ]
        valid = replace(
            offered,
            variants=tuple(
                wheel for wheel in offered.variants if metadata[wheel.filename.text] is not None
            ),
            plain=tuple(
                wheel for wheel in offered.plain if metadata[wheel.filename.text] is not None
            ),
        )
        client_platforms = marker_platforms((self.client or self.profile.target).platforms)
        builds = builds_by_platform(valid, ranks, client_platforms)
        merged = self._merged_metadata(release, builds, client_platforms, support, metadata)

        for wheel in _wheels(offered):
            body = metadata[wheel.filename.text]
            platforms = (
                marker_platforms(tag.platform for tag in wheel.filename.tags) & builds.keys()
            )
            # A wheel is listed if it is the best build of one of its platforms.
            labels = {builds[platform].filename.label for platform in platforms}
            if body is None or wheel.filename.label not in labels:
                result.hide(wheel)
            elif merged != body:
                digest = result.add_metadata(merged)
                result.replace(wheel, self._entry(wheel, build_number, digest))
            elif wheel.filename.is_variant:
                result.replace(wheel, self._entry(wheel, build_number))
        self._hide_others(release, offered, result)
        return result

    def _merged_metadata(
        self,
        release: Release,
        builds: Mapping[Platform, Wheel],
        client_platforms: frozenset[Platform],
        support: Support | None,
        metadata: Mapping[str, bytes | None],
    ) -> bytes:
        """Return METADATA with the requirements of the build for each platform."""
        document = self._candidates.document_of(release.name, release.version)
        resolved: dict[Label | None, bytes] = {}
        for wheel in builds.values():
            label = wheel.filename.label
            if label in resolved:
                continue
            context = VariantContext.PLAIN
            properties = document.properties(label) if document and label is not None else None
            if label is not None and properties is not None and support is not None:
                context = VariantContext(label, support.filter(properties))
            resolved[label] = _without_markers(metadata[wheel.filename.text] or b"", context, wheel)
        requirements: _Requirements = {}
        for platform, wheel in builds.items():
            body = resolved[wheel.filename.label]
            requirements[platform] = read_metadata(body, wheel.filename.text).requires_texts
        # All other fields are those of the client's build, if there is one.
        first = min(builds, key=lambda platform: (platform not in client_platforms, str(platform)))
        body = resolved[builds[first].filename.label]
        if len(set(requirements.values())) > 1:
            merged = merged_requirements(requirements)
            body = edit_metadata(body, changed=lambda _text: None, added=merged)
        return body


def _wheels(offered: OfferedRelease) -> tuple[Wheel, ...]:
    return (*offered.variants, *offered.plain)


def _all_wheels(release: Release, ranks: Mapping[Label, int]) -> OfferedRelease:
    variants = {
        (wheel.filename.label, wheel.filename.tags): wheel  # the last one for equal labels and tags
        for wheel in release.wheels
        if wheel.filename.label in ranks
    }
    return OfferedRelease(
        tuple(variants.values()),
        tuple(wheel for wheel in release.wheels if not wheel.filename.is_variant),
    )


def _has_variant_markers(body: bytes | None) -> bool:
    return body is not None and without_variant_markers(body, VariantContext.PLAIN) != body


def _requirements_differ(metadata: Mapping[str, bytes | None]) -> bool:
    """Return whether the requirements depend on the wheel, or on variant markers."""
    if any(map(_has_variant_markers, metadata.values())):
        return True
    requirements = {
        frozenset(read_metadata(body, filename).requires_texts)
        for filename, body in metadata.items()
        if body is not None
    }
    return len(requirements) > 1


def _without_markers(body: bytes, context: VariantContext, wheel: Wheel) -> bytes:
    return without_variant_markers(body, context, where=wheel.filename.text)
