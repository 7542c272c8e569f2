"""A project's page, sorted by release, with the reasons to reject files by their listing entries.

Nothing is fetched here. Name, tags, ``requires-python`` and hashes are checked before variants are
examined, so that the wheel of a chosen label cannot be rejected for them afterwards (F-94).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace
from packaging.specifiers import InvalidSpecifier
from packaging.version import Version

from wheelfit.core.filename import NEWER_FORMAT, WheelFilename, parse_wheel_filename
from wheelfit.core.markers import parse_marker
from wheelfit.core.versions import admits_python, parse_specifiers, without_build
from wheelfit.sources.page import File, ProjectPage, WheelOrigin
from wheelfit.sources.release_files import best_source, files_by_release, sort_by_release

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packaging.tags import Tag
    from packaging.utils import NormalizedName

    from wheelfit.core.bridges import BridgeFamily
    from wheelfit.core.target import Target
    from wheelfit.sources.release_files import PageRelease, ReleaseFiles

AllowedHashes = frozenset[tuple[str, str]]
"""Allowed digests: (algorithm, lower-case hexadecimal)."""

LOCAL_FILE = "the local file of this version and label is preferred"
NO_SOURCES = "building from source is off here, so that only wheels can be used"
"""The reason to ignore source distributions in commands that cannot build, such as ``lock``."""
ONLY_BINARY = "--only-binary excludes it"
FAMILY_HAS_WHEELS = "the project publishes wheels; --allow-source with its name allows source"
_EXCLUSIONS = (NO_SOURCES, ONLY_BINARY, FAMILY_HAS_WHEELS)
NO_TAG = "none of its tags fits"
ALL = ":all:"
"""Every project, as in pip."""
WRONG_HASH = "its hash is not among the allowed ones"


class SourcePolicy(Struct, frozen=True):
    """The source distributions that may be chosen besides wheels, each as an unbuilt wheel.

    Consent to build one is checked later, for the result.
    """

    only_binary: frozenset[str] = frozenset()
    """Projects of which only wheels may be chosen; or `ALL`."""
    exceptions: frozenset[str] = frozenset()
    """Projects that `ALL` does not include, because the user allows them by name."""
    prefer_binary: bool = False
    """Whether an older release with a wheel comes before a newer one without."""

    def exclusion(self, name: NormalizedName, *, is_of_family: bool = False) -> str:
        """Return the reason to exclude source distributions of a project; empty: none.

        :param is_of_family: whether the project has builds for machines; it is then compiled only
            if the user requests it.
        """
        if is_of_family and self.exceptions.isdisjoint({name, ALL}):
            return FAMILY_HAS_WHEELS
        is_excluded = name in self.only_binary or (
            ALL in self.only_binary and name not in self.exceptions
        )
        return ONLY_BINARY if is_excluded else ""


class Wheel(Struct, frozen=True):
    """A listed wheel."""

    file: File
    filename: WheelFilename
    rejection: str | None = None
    """The reason to reject it by its listing entry alone; None: there is none."""

    @property
    def is_yanked(self) -> bool:
        """Whether it is yanked (PEP 592)."""
        return self.file.yanked is not None

    @property
    def is_from_source(self) -> bool:
        """Whether it is built on this machine, not published."""
        return self.file.origin is not None

    @property
    def is_named_source(self) -> bool:
        """Whether it is built from a source that the user named."""
        return self.file.origin is not None and self.file.origin.direct_url is not None

    @property
    def is_unbuilt(self) -> bool:
        """Whether it stands for a source distribution, from which it can be built."""
        return self.file.origin is not None and not self.file.origin.is_built


class Release(Struct, frozen=True):
    """The files of one version of a project."""

    name: NormalizedName
    version: Version
    wheels: tuple[Wheel, ...] = ()
    """In the order of the page; the unbuilt wheel of its source distribution comes last."""
    index_files: tuple[File, ...] = ()
    """Its ``-variants.json``; more than one only by mistake (F-78)."""
    ignored_sources: tuple[tuple[str, str], ...] = ()
    """Ignored source distributions: file name and reason."""
    is_direct: bool = False
    """Whether the user named the files, and no index did (F-125)."""

    @property
    def has_possible_wheel(self) -> bool:
        """Whether any wheel is not rejected by its listing entry."""
        return any(wheel.rejection is None for wheel in self.wheels)

    @property
    def sources(self) -> tuple[str, ...]:
        """The source distributions that could be used only by building them (F-92)."""
        return tuple(name for name, reason in self.ignored_sources if reason is NO_SOURCES)

    @property
    def excluded_sources(self) -> tuple[str, ...]:
        """The source distributions that settings exclude (F-92)."""
        return tuple(name for name, reason in self.ignored_sources if reason in _EXCLUSIONS)

    @property
    def is_yanked(self) -> bool:
        """Whether every wheel that is not rejected is yanked (PEP 592)."""
        remaining = [wheel for wheel in self.wheels if wheel.rejection is None]
        return bool(remaining) and all(wheel.is_yanked for wheel in remaining)


class Releases(Mapping[Version, Release]):
    """The releases of a project by version, newest first.

    A `Release` is made on first access, since most are never accessed. A file is *possible* if it
    is not rejected by its listing entry.

    :param listed: the releases as the page lists them, newest first.
    :param exclusion: the reason to ignore source distributions; empty: they may be chosen.
    """

    def __init__(
        self,
        name: NormalizedName,
        listed: Mapping[Version, PageRelease],
        rules: _ListingRules,
        exclusion: str,
        *,
        is_direct: bool,
    ) -> None:
        self._name = name
        self._listed = listed
        self._rules = rules
        self._exclusion = exclusion
        self._is_direct = is_direct
        self._releases: dict[Version, Release] = {}

    def __getitem__(self, version: Version) -> Release:
        release = self._releases.get(version)
        if release is None:
            files = self._listed[version].files()
            wheels = []
            for file, filename in files.wheels:
                checked_file, rejection = self._rules.check(file, filename)
                wheels.append(Wheel(checked_file, filename, rejection))
            ignored: tuple[tuple[str, str], ...] = ()
            if self._exclusion:
                ignored = tuple((file.filename, self._exclusion) for file in files.sources)
            elif files.sources:
                wheels.append(self._unbuilt(files))
            release = self._releases[version] = Release(
                self._name,
                files.version,
                _reject_copies(wheels),
                tuple(files.index_files),
                ignored,
                self._is_direct,
            )
        return release

    def __iter__(self) -> Iterator[Version]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)

    def _unbuilt(self, files: ReleaseFiles) -> Wheel:
        file, rejection = self._rules.source(best_source(files.sources))
        filename = provisional_filename(self._name, files.version)
        unbuilt = replace(file, filename=filename, origin=WheelOrigin(file.filename))
        return Wheel(unbuilt, parse_wheel_filename(filename), rejection)

    @cached_property
    def possible_versions(self) -> tuple[Version, ...]:
        """The versions with a possible file, newest first."""
        return tuple(
            version
            for version, listed in self._listed.items()
            if self._has_wheel(listed) or self._has_source(listed)
        )

    def has_variants(self) -> bool:
        """Return whether any release has variant wheels."""
        return any(listed.has_variants for listed in self._listed.values())

    def with_sources(self) -> tuple[Version, ...]:
        """Return the versions with a possible source distribution."""
        return tuple(
            version for version, listed in self._listed.items() if self._has_source(listed)
        )

    def without_wheels(self) -> frozenset[Version]:
        """Return the versions of which only a source distribution is possible."""
        return frozenset(
            version for version in self.with_sources() if not self._has_wheel(self._listed[version])
        )

    def _has_wheel(self, listed: PageRelease) -> bool:
        if self._rules.allowed:
            wheels = listed.files().wheels
            return any(self._rules.check(file, filename)[1] is None for file, filename in wheels)
        return any(self._rules.rejection(tags, python) is None for tags, python in listed.kinds)

    def _has_source(self, listed: PageRelease) -> bool:
        if self._exclusion:
            return False
        if self._rules.allowed:
            sources = listed.files().sources
            return bool(sources) and self._rules.source(best_source(sources))[1] is None
        return any(self._rules.wrong_python(python) is None for python in listed.source_pythons)

    @cached_property
    def yanked_versions(self) -> tuple[Version, ...]:
        """The versions of which every possible wheel is yanked, newest first."""
        return tuple(
            version
            for version, listed in self._listed.items()
            if listed.is_partly_yanked and self[version].is_yanked
        )


def _reject_copies(wheels: Sequence[Wheel]) -> tuple[Wheel, ...]:
    """Return wheels, those of indexes rejected if a local one has the same label (F-126).

    All files of a lock are of one source, so none of them is rejected for another one.
    """
    local = {
        wheel.filename.label: wheel.file.source
        for wheel in wheels
        if wheel.rejection is None and wheel.file.is_local and wheel.file.origin is None
    }
    if not local:
        return tuple(wheels)
    return tuple(
        wheel
        if wheel.file.is_local
        or wheel.rejection is not None
        or local.get(wheel.filename.label, wheel.file.source) == wheel.file.source
        else replace(wheel, rejection=LOCAL_FILE)
        for wheel in wheels
    )


class Listing(Struct, frozen=True):
    """The files that a source lists of a project."""

    name: NormalizedName
    releases: Releases
    """Newest first."""
    source: str = ""
    """Name of the source, without credentials."""
    notes: tuple[str, ...] = ()
    """Notes of the source about the project, as that it is archived (PEP 792)."""
    ignored: tuple[str, ...] = ()
    """The files that are no wheels of the project, with the reason, one clause each."""
    bridge: BridgeFamily | None = None
    """The family whose members are its variants; None if it is not bridged."""
    ranks: Mapping[Version, int] = field(default_factory=dict)
    """The ranks of versions, if those of one source come before those of another; empty: newer ones
    come first."""

    @property
    def newest(self) -> str:
        """The latest release for messages, or the reason there is none."""
        for version in self.releases:
            return f"latest: {version}"
        return self.ignored[0] if self.ignored else f"{self.name} has no files"

    def is_same_release(self, left: Version, right: Version) -> bool:
        """Return whether two versions differ at most in the build, as ``+cpu`` and ``+cu128``."""
        if left == right:
            return True
        has_local_versions = self.bridge is not None and self.bridge.is_of_indexes
        return has_local_versions and left.public == right.public


def sort_page(
    page: ProjectPage,
    target: Target,
    *,
    allowed: AllowedHashes = frozenset(),
    is_direct: bool = False,
    sources: SourcePolicy | None = None,
) -> Listing:
    """Sort the files of a page by release.

    :param allowed: the allowed digests of files; empty: any.
    :param sources: the source distributions that may be chosen; None: none.
    """
    exclusion = NO_SOURCES
    if sources is not None:
        exclusion = sources.exclusion(page.name, is_of_family=page.bridge is not None)
    absent = _absent_sources(page, target)
    if absent:
        files = (file for file in page.files if file.source not in absent)
        by_release = sort_by_release(page.name, files, joins_builds=page.has_joined_builds)
    else:
        by_release = files_by_release(page)
    listed_by_version, rules = by_release.releases, _ListingRules(target, allowed)
    releases = Releases(page.name, listed_by_version, rules, exclusion, is_direct=is_direct)
    ignored = by_release.ignored
    if page.status.is_quarantined:
        ignored = (f"the project is {page.status}",)  # the reason there are no files
    family = page.bridge
    ranks: Mapping[Version, int] = {}
    if family is not None and family.is_of_indexes and not page.has_joined_builds:
        ranks = _ranks_of_builds(family, listed_by_version)
    elif page.order:
        ranks = {
            version: _rank(listed, page.order) for version, listed in listed_by_version.items()
        }
    return Listing(page.name, releases, page.source, page.notes, ignored, family, ranks)


def _ranks_of_builds(
    family: BridgeFamily, listed_by_version: Mapping[Version, PageRelease]
) -> Mapping[Version, int]:
    """Return the ranks of versions that differ in their build: by the order of the members.

    Local versions are compared as text, so that ``+torch2.9`` is newer than ``+torch2.10``.
    """
    member_ranks = {
        version: family.rank_of(filename for _, filename in listed.files().wheels)
        for version, listed in listed_by_version.items()
    }
    newest = sorted(listed_by_version, key=member_ranks.__getitem__)
    newest.sort(key=without_build, reverse=True)
    return {version: rank for rank, version in enumerate(newest)}


def _absent_sources(page: ProjectPage, target: Target) -> frozenset[str]:
    """Return the sources of a page whose markers all exclude a target."""
    if not page.markers:
        return frozenset()
    matching = {
        source
        for source, text in page.markers
        if text == "" or (text and parse_marker(text).evaluate(target.environment))
    }
    fallbacks = {source for source, text in page.markers if text is None}
    return frozenset(source for source, _ in page.markers) - (matching or fallbacks)


def _rank(listed: PageRelease, order: Sequence[str]) -> int:
    """Return the index of the first source in the order that has a wheel of a release.

    Sources that are not in the order have the same rank as its first one, as in uv.
    """
    sources = (file.source for file, _ in listed.files().wheels)
    return min(
        (order.index(source) if source in order else 0 for source in sources), default=len(order)
    )


class _ListingRules(Struct):
    """The rules that reject wheels by their listing entries alone."""

    target: Target
    allowed: AllowedHashes
    fitting: dict[frozenset[Tag], bool] = field(default_factory=dict)

    def check(self, file: File, filename: WheelFilename) -> tuple[File, str | None]:
        tags = None if filename.is_newer_format else filename.tags
        rejection = self.rejection(tags, file.requires_python)
        if self.allowed and rejection is None:
            return _check_hashes(file, self.allowed)
        return file, rejection

    def source(self, file: File) -> tuple[File, str | None]:
        """Return the verdict on a source distribution, which has no tags."""
        rejection = self.wrong_python(file.requires_python)
        if self.allowed and rejection is None:
            return _check_hashes(file, self.allowed)
        return file, rejection

    def rejection(self, tags: frozenset[Tag] | None, requires_python: str | None) -> str | None:
        """Return the reason to reject a wheel, whatever its hash; None if there is none."""
        if tags is None:
            return NEWER_FORMAT
        fits = self.fitting.get(tags)  # a cache: many files have the same tags
        if fits is None:
            fits = self.fitting[tags] = self.target.tags.best(tags) is not None
        return self.wrong_python(requires_python) if fits else NO_TAG

    def wrong_python(self, requires_python: str | None) -> str | None:
        """Return the reason to reject the target's Python; None if there is none."""
        if requires_python is not None:
            return python_rejection(requires_python, self.target.python_full_version)
        return None


def provisional_filename(name: str, version: Version) -> str:
    """Return the file name of a wheel that is not built yet; no published wheel has such a name."""
    return f"{name.replace('-', '_')}-{version}-0source-py3-none-any.whl"


def _check_hashes(file: File, allowed: AllowedHashes) -> tuple[File, str | None]:
    """Return a file with the digest to verify, or with the reason to reject it (F-94)."""
    digests: dict[str, set[str]] = {}
    for algorithm, digest in allowed:
        digests.setdefault(algorithm, set()).add(digest)
    shared = digests.keys() & file.hashes.keys()
    if shared:
        if any(file.hashes[algorithm] in digests[algorithm] for algorithm in shared):
            return file, None
        return file, WRONG_HASH
    # The index has no digest. If only one is allowed, the download is verified against it.
    single = {
        algorithm: next(iter(values)) for algorithm, values in digests.items() if len(values) == 1
    }
    if not single:
        return file, "the index has no hash to compare with the allowed ones"
    return replace(file, hashes=MappingProxyType({**file.hashes, **single})), None


@lru_cache(maxsize=1024)
def python_rejection(text: str, python: Version) -> str | None:
    """Return the reason a ``requires-python`` excludes a Python; None if it does not."""
    clause = missing_python(text, python)
    return f"{clause}, this is {python}" if clause else None


def missing_python(text: str, python: Version) -> str:
    """Return a clause on the Python that ``requires-python`` needs; empty if this one fits.

    An invalid one is ignored, as in pip.
    """
    try:
        specifiers = parse_specifiers(text)
    except InvalidSpecifier:
        return ""
    if admits_python(specifiers, python):
        return ""
    return f"needs Python {specifiers}"
