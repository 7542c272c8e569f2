"""The page of a project for a machine: plain wheels unchanged, and one variant of a release."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

from msgspec import structs

from wheelfit.core.abi_dependency import KnownVersions
from wheelfit.core.core_metadata import edited, read_metadata, without_variant_markers
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.markers import VariantContext
from wheelfit.core.ordering import order_labels
from wheelfit.core.property_support import namespaces_used
from wheelfit.errors import InvalidFilename
from wheelfit.resolution.bridges import favoured
from wheelfit.server.proxy.choosing import (
    OfferedRelease,
    fingerprint,
    highest_build,
    merged_requirements,
    offer,
    platforms_of_tags,
    proxied_name,
    taken,
)
from wheelfit.sources.concurrency import at_once
from wheelfit.sources.file_readers import OnePage
from wheelfit.sources.memoized import Memo
from wheelfit.sources.page import VARIANTS_SUFFIX, ProjectPage
from wheelfit_runtime.errors import (
    IntegrityError,
    NetworkError,
    UnexpectedStatus,
    UserError,
    WheelfitError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from packaging.version import Version

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.labels import Label
    from wheelfit.core.property_support import Support
    from wheelfit.core.target import Target
    from wheelfit.resolution.listing import Release, Wheel
    from wheelfit.server.proxy.choosing import MarkerPlatform
    from wheelfit.server.proxy.profiles import Profile
    from wheelfit.sources.page import File
    from wheelfit.sources.repository import Files


_AT_ONCE = 16
_FAILING = 500
"""The first status of a failing server, which is unrelated to the file."""
_Needs: TypeAlias = "dict[MarkerPlatform | None, tuple[str, ...]]"


@dataclass(frozen=True, slots=True)
class WrittenPage:
    """A page that was written for one client."""

    page: ProjectPage
    metadata: Mapping[str, bytes] = field(default_factory=dict, hash=False)
    """Every METADATA that replaces another, by its SHA-256."""
    notes: tuple[str, ...] = ()
    """Files that were left out with the reasons, one sentence each."""
    is_complete: bool = True
    """Whether all inputs could be read; otherwise the page must not be cached."""
    preferred: Version | None = None
    """The newest with a build for the machine, if newer releases are held back for it."""


def list_project(
    page: ProjectPage,
    files: Files,
    profile: Profile,
    *,
    all_variants: bool = False,
    client: Target | None = None,
    learnt: Callable[[File, str], str | None] = lambda _file, _digest: None,
    is_served: Callable[[File], bool] = lambda _file: False,
) -> WrittenPage:
    """Return the page of a project for a machine.

    :param client: the target of the client; None: too little is known.
    :param learnt: returns the hash of a wheel with another METADATA, if known.
    :param is_served: returns whether clients cannot fetch a file themselves.
    :raises NetworkError: a document that affects the choice cannot be read.
    """
    known = None if all_variants else client
    lister = _PageWriter(page, files, profile, all_variants, known, learnt, is_served)
    releases = lister.releases()
    return lister.listed(at_once(releases, lister.release, most=_AT_ONCE) if releases else ())


@dataclass(slots=True)
class _ReleaseEntries:
    """The entries of one release, which are collected here."""

    entries: list[File] = field(default_factory=list)
    """Wheels under other names, or with another METADATA."""
    replaced: set[str] = field(default_factory=set)
    """Plain wheels that are not listed unchanged."""
    metadata: dict[str, bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def keep(self, text: bytes) -> str:
        digest = hashlib.sha256(text).hexdigest()
        self.metadata[digest] = text
        return digest

    def add(self, wheel: Wheel, entry: File | None) -> None:
        self.hide(wheel)
        if entry is not None:
            self.entries.append(entry)

    def hide(self, wheel: Wheel) -> None:
        if not wheel.filename.is_variant:
            self.replaced.add(wheel.filename.text)


@dataclass
class _PageWriter:
    """The page of a project in the making."""

    page: ProjectPage
    files: Files
    profile: Profile
    all_variants: bool
    client: Target | None
    learnt: Callable[[File, str], str | None]
    is_served: Callable[[File], bool]
    is_complete: bool = True
    preferred: Version | None = None

    def __post_init__(self) -> None:
        repository = OnePage(self.page, self.files)
        self._candidates = self.profile.candidates(repository, self.client or self.profile.target)
        self._read: Memo[object, bytes | None] = Memo()
        self._favoured: Memo[None, Version | None] = Memo()

    def releases(self) -> list[Release]:
        """Return the releases with variants, without wheels of newer formats (PEP 777)."""
        listing = self._candidates.listing(self.page.name)
        if listing is None or not self.profile.policy.preferences.variants:
            return []
        releases = [
            structs.replace(
                release,
                wheels=tuple(
                    wheel for wheel in release.wheels if not wheel.filename.is_newer_format
                ),
            )
            for release in listing.releases.values()
        ]
        return [
            release
            for release in releases
            if any(wheel.filename.is_variant for wheel in release.wheels)
        ]

    def listed(self, results: Sequence[_ReleaseEntries]) -> WrittenPage:
        """Return the page with the results of its releases."""
        # Those first: pdm ignores build tags, and takes the first of equal wheels.
        entries = [self._held_back(file) for result in results for file in result.entries]
        replaced = {name for result in results for name in result.replaced}
        left_out = self._variants() | replaced
        for file in self.page.files:
            if file.filename.endswith(VARIANTS_SUFFIX) or file.filename in left_out:
                continue
            entry = self._own(file) if self.is_served(file) else file
            entries.append(self._held_back(entry))
        metadata = {digest: body for result in results for digest, body in result.metadata.items()}
        notes = tuple(note for result in results for note in result.notes)
        if self.all_variants and len(notes) > 1:
            notes = (notes[0], f"{self.page.name}: so it is with {len(notes) - 1} other releases")
        page = structs.replace(self.page, files=tuple(entries))
        return WrittenPage(page, metadata, notes, self.is_complete, self.preferred)

    def _held_back(self, file: File) -> File:
        """Return a file of a bridged family as yanked, if it would cost the accelerator.

        Installers take the newest release, which may have no build for this machine.
        """
        if self.page.bridge is None or self.all_variants or file.yanked is not None:
            return file
        favoured = self._favoured.get(None, self._look_for_favoured)
        try:
            newer = favoured is not None and parse_wheel_filename(file.filename).version > favoured
        except InvalidFilename:
            return file
        if not newer:
            return file
        self.preferred = favoured
        return structs.replace(
            file, yanked=f"{favoured} is the newest with a build for this machine, by a bridge"
        )

    def _look_for_favoured(self) -> Version | None:
        with self.profile.asking:
            best = favoured(self._candidates, self.page.name, {}, prereleases=False)
        return next(iter(best), None)

    def _variants(self) -> frozenset[str]:
        listing = self._candidates.listing(self.page.name)
        return frozenset(
            wheel.filename.text
            for release in (listing.releases.values() if listing else ())
            for wheel in release.wheels
            if wheel.filename.is_variant
        )

    # --- one release ------------------------------------------------------------------

    def release(self, release: Release) -> _ReleaseEntries:
        """Choose among the wheels of a release."""
        document = self._candidates.document_of(release.name, release.version)
        if document is None:
            self._refuse_outage(release)
            return _ReleaseEntries()
        ranks, support = self._ranks(release, document)
        if self.all_variants:
            offered = _everything(release, ranks)
        else:
            offered = offer(release.wheels, ranks, self.client.tags if self.client else None)
        number = highest_build(wheel.filename for wheel in release.wheels)
        contents = {wheel.filename.text: self._metadata(wheel) for wheel in _wheels(offered)}
        if self.all_variants and _differ(contents):
            # A lock gets one list of requirements for all machines.
            return self._only_plain(release, offered, contents)
        if not any(_has_markers(body) for body in contents.values()):
            hidden = {w.filename.text for w in release.wheels if not w.filename.is_variant}
            hidden -= {wheel.filename.text for wheel in offered.plain}
            entries = (self._renamed(wheel, number) for wheel in offered.variants)
            return _ReleaseEntries(list(filter(None, entries)), hidden)
        return self._with_one_metadata(release, offered, ranks, support, contents, number)

    def _refuse_outage(self, release: Release) -> None:
        """Raise an error if a server fails: plain wheels are not offered instead.

        Documents that the index names and does not have are ignored (F-130).
        """
        for file in release.index_files:
            try:
                self.files.read(file)
            except UnexpectedStatus as error:
                if error.status >= _FAILING:
                    raise
            except NetworkError:
                raise
            except WheelfitError:
                continue

    def _ranks(
        self, release: Release, document: VariantDocument
    ) -> tuple[Mapping[Label, int], Support | None]:
        if self.all_variants:
            return {label: place for place, label in enumerate(document.variants)}, None
        preferences = self._candidates.applying(release.name, document)
        # Installed packages are unknown, so no build for a certain version of one is used (P-51).
        known = KnownVersions(self.profile.policy.providers.abi_versions)
        namespaces = namespaces_used(document.variants.values())
        with self.profile.asking:
            support = self._candidates.support_of(document, namespaces, known)
        ranked = order_labels(document, support, preferences)
        pinned = preferences.labels.get(release.name)
        labels = [choice.label for choice in ranked if pinned is None or choice.label == pinned]
        return {label: place for place, label in enumerate(labels)}, support

    def _renamed(self, wheel: Wheel, number: int, digest: str | None = None) -> File | None:
        """Return the entry of a variant under its other name; the digest is of another METADATA."""
        filename = wheel.filename
        name = proxied_name(filename, number) if filename.is_variant else filename.text
        if name is None:
            return None
        return self._own(wheel.file, name, digest)

    def _own(self, file: File, name: str | None = None, digest: str | None = None) -> File:
        """Return the entry of a file that the proxy serves."""
        name = name or file.filename
        key = fingerprint(file) if digest is None else f"{fingerprint(file)}-{digest}"
        url = f"../../files/{quote(self.page.name, safe='')}/{key}/{quote(name, safe='')}"
        if digest is None:
            # Attestations speak of the file by its name.
            provenance = file.provenance if name == file.filename else None
            return structs.replace(file, filename=name, url=url, provenance=provenance)
        known = self.learnt(file, digest)
        return structs.replace(
            file,
            filename=name,
            url=url,
            hashes={} if known is None else {"sha256": known},
            size=None,
            metadata_hashes={"sha256": digest},
            provenance=None,
        )

    # --- METADATA ---------------------------------------------------------------------

    def _metadata(self, wheel: Wheel) -> bytes | None:
        """Return METADATA of a wheel; None if it is not sound.

        Wheels with one promised hash have one METADATA, unless a bridge declares them. Where
        nothing is promised, one wheel of a build stands for all, for each costs requests.
        """
        hashes = wheel.file.metadata_hashes if wheel.file.declared is None else None
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
                # Installing it will report the error; the rest of the page is right.
                self.is_complete = False
                return None
            return body

        return self._read.get(key, read)

    def _only_plain(
        self, release: Release, offered: OfferedRelease, contents: Mapping[str, bytes | None]
    ) -> _ReleaseEntries:
        """List no variant, and plain wheels without variant markers."""
        note = (
            f"{release.name} {release.version}: what it needs depends on the variant, which no "
            "lock of another tool can say; its plain wheels are listed alone"
        )
        texts = {
            wheel.filename.text: _resolved(body, VariantContext.PLAIN, wheel)
            for wheel in offered.plain
            if (body := contents[wheel.filename.text]) is not None
        }
        made = _ReleaseEntries(notes=[note])
        for wheel in offered.plain:
            text = texts.get(wheel.filename.text)
            if text is not None and text != contents[wheel.filename.text]:
                made.add(wheel, self._renamed(wheel, 0, made.keep(text)))
        return made

    def _with_one_metadata(
        self,
        release: Release,
        offered: OfferedRelease,
        ranks: Mapping[Label, int],
        support: Support | None,
        contents: Mapping[str, bytes | None],
        number: int,
    ) -> _ReleaseEntries:
        """List the builds of each platform, all with the same METADATA."""
        notes = [
            f"{wheel.filename.text} is left out: its metadata is not sound"
            for wheel in _wheels(offered)
            if contents[wheel.filename.text] is None
        ]
        sound = replace(
            offered,
            variants=tuple(w for w in offered.variants if contents[w.filename.text] is not None),
            plain=tuple(w for w in offered.plain if contents[w.filename.text] is not None),
        )
        here = _client_platforms(self.client or self.profile.target)
        builds = taken(sound, ranks, here)
        text = self._one_metadata(release, builds, here, support, contents)

        made = _ReleaseEntries(notes=notes)
        for wheel in _wheels(offered):
            own = contents[wheel.filename.text]
            places = platforms_of_tags(wheel.filename.tags)
            if own is None or not any(
                builds[place].filename.label == wheel.filename.label
                for place in places & builds.keys()
            ):
                made.hide(wheel)
            elif text != own:
                made.add(wheel, self._renamed(wheel, number, made.keep(text)))
            elif wheel.filename.is_variant:
                made.add(wheel, self._renamed(wheel, number))
        for wheel in release.wheels:
            if not wheel.filename.is_variant and wheel not in offered.plain:
                made.hide(wheel)
        return made

    def _one_metadata(
        self,
        release: Release,
        builds: Mapping[MarkerPlatform | None, Wheel],
        here: frozenset[MarkerPlatform | None],
        support: Support | None,
        contents: Mapping[str, bytes | None],
    ) -> bytes:
        """Return METADATA with the requirements of the build of each platform."""
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
            resolved[label] = _resolved(contents[wheel.filename.text] or b"", context, wheel)
        needs: _Needs = {
            platform: read_metadata(
                resolved[wheel.filename.label], wheel.filename.text
            ).requires_texts
            for platform, wheel in builds.items()
        }
        first = min(builds.items(), key=lambda item: (item[0] not in here, str(item[0])))[1]
        text = resolved[first.filename.label]
        if len(set(needs.values())) > 1:
            text = edited(text, changed=lambda _text: None, added=merged_requirements(needs))
        return text


def _wheels(offered: OfferedRelease) -> tuple[Wheel, ...]:
    return (*offered.variants, *offered.plain)


def _everything(release: Release, ranks: Mapping[Label, int]) -> OfferedRelease:
    variants = {
        (wheel.filename.label, wheel.filename.tags): wheel  # the last of several builds
        for wheel in release.wheels
        if wheel.filename.label in ranks
    }
    return OfferedRelease(
        tuple(variants.values()),
        tuple(wheel for wheel in release.wheels if not wheel.filename.is_variant),
    )


def _has_markers(body: bytes | None) -> bool:
    return body is not None and without_variant_markers(body, VariantContext.PLAIN) != body


def _differ(contents: Mapping[str, bytes | None]) -> bool:
    """Return whether the wheels have different requirements, by markers or by themselves."""
    if any(map(_has_markers, contents.values())):
        return True
    needs = {
        frozenset(read_metadata(body, filename).requires_texts)
        for filename, body in contents.items()
        if body is not None
    }
    return len(needs) > 1


def _resolved(body: bytes, context: VariantContext, wheel: Wheel) -> bytes:
    return without_variant_markers(body, context, where=wheel.filename.text)


def _client_platforms(target: Target) -> frozenset[MarkerPlatform | None]:
    return platforms_of_tags(tag for tag in target.tags if tag.platform != "any")
