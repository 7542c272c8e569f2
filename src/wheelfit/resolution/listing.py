"""A project's page, sorted by release, with the faults of each file known from the listing.

Nothing is fetched here. The data of a listing entry - name, tags, ``requires-python``, hashes - is
applied to each wheel before variants are examined, so that a chosen label cannot fail the version
afterwards (F-94).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace
from packaging.specifiers import InvalidSpecifier
from packaging.version import Version

from wheelfit.core.filename import NEWER_FORMAT, parse_wheel_filename
from wheelfit.core.markers import parse_marker
from wheelfit.core.versions import parse_specifiers, without_build
from wheelfit.sources.page import File, WheelOrigin
from wheelfit.sources.release_files import PageFiles, best_source, sort_by_release

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packaging.tags import Tag
    from packaging.utils import NormalizedName

    from wheelfit.core.bridges import BridgeFamily
    from wheelfit.core.filename import WheelFilename
    from wheelfit.core.target import Target
    from wheelfit.sources.page import ProjectPage
    from wheelfit.sources.release_files import PageRelease, ReleaseFiles

AllowedHashes = frozenset[tuple[str, str]]
"""Digests of which one must be met: (algorithm, lower-case hexadecimal)."""

LOCAL_FILE = "the local file of this version and label is taken"
NO_SOURCES = "building from source is off here, where only wheels count"
"""Why source distributions do not count for commands that cannot build, as ``lock``."""
ONLY_BINARY = "--only-binary leaves it out"
OF_FAMILY = "its builds are wheels; only --allow-source for its name takes source"
_HELD = (NO_SOURCES, ONLY_BINARY, OF_FAMILY)
NO_TAG = "none of its tags fits"
ALL = ":all:"
"""Stands for every project, as in pip."""
WRONG_HASH = "its hash is not among the allowed ones"


class SourcePolicy(Struct, frozen=True):
    """The source distributions that count beside wheels, each as the wheel it would become.

    Whether one may be built is decided later, for the result.
    """

    only_binary: frozenset[str] = frozenset()
    """Projects of which only wheels count; or `ALL`."""
    exceptions: frozenset[str] = frozenset()
    """Projects that `ALL` does not mean, since the user allows them by name."""
    prefer_binary: bool = False
    """Whether an older release with a wheel goes before a newer one without."""

    def exclusion(self, name: NormalizedName, *, is_of_family: bool = False) -> str:
        """Return the reason to exclude source distributions of a project; empty: none.

        :param is_of_family: whether the project has builds for machines; then only the user's
            request is a reason to compile for hours.
        """
        if is_of_family and self.exceptions.isdisjoint({name, ALL}):
            return OF_FAMILY
        is_excluded = name in self.only_binary or (
            ALL in self.only_binary and name not in self.exceptions
        )
        return ONLY_BINARY if is_excluded else ""


class Wheel(Struct, frozen=True):
    """A listed wheel."""

    file: File
    filename: WheelFilename
    rejection: str | None = None
    """Why it is out of the question by its listing entry alone; None: it is not."""

    @property
    def is_yanked(self) -> bool:
        """Return whether its publisher took it back (PEP 592)."""
        return self.file.yanked is not None

    @property
    def is_from_source(self) -> bool:
        """Return whether it is built here, not published."""
        return self.file.origin is not None

    @property
    def is_named_source(self) -> bool:
        """Return whether it is built from a source the user named that no index lists."""
        return self.file.origin is not None and self.file.origin.direct_url is not None

    @property
    def is_unbuilt(self) -> bool:
        """Return whether it stands for a source distribution, from which it can be built."""
        return self.file.origin is not None and not self.file.origin.is_built


class Release(Struct, frozen=True):
    """The files of one version of a project."""

    name: NormalizedName
    version: Version
    wheels: tuple[Wheel, ...] = ()
    """In the order of the page; last what would be built from its source distribution."""
    index_files: tuple[File, ...] = ()
    """Its ``-variants.json``; more than one only by mistake (F-78)."""
    others: tuple[tuple[str, str], ...] = ()
    """Further files: name, and why it does not count."""
    is_given: bool = False
    """Whether the user named the files, and no index did (F-125)."""

    @property
    def is_possible(self) -> bool:
        """Return whether any wheel is left at first sight."""
        return any(wheel.rejection is None for wheel in self.wheels)

    @property
    def sources(self) -> tuple[str, ...]:
        """The source distributions that count only if building them is allowed (F-92)."""
        return tuple(name for name, reason in self.others if reason is NO_SOURCES)

    @property
    def held_sources(self) -> tuple[str, ...]:
        """The source distributions that settings exclude (F-92)."""
        return tuple(name for name, reason in self.others if reason in _HELD)

    @property
    def is_yanked(self) -> bool:
        """Return whether every wheel that is left was taken back (PEP 592)."""
        left = [wheel for wheel in self.wheels if wheel.rejection is None]
        return bool(left) and all(wheel.is_yanked for wheel in left)


class Releases(Mapping[Version, Release]):
    """The releases of a project by version, newest first.

    A release is built on first access, for of most only the version matters.

    :param name: the name of the project.
    :param listed: the releases as the page lists them, newest first.
    :param judge: returns the promised data of a file, and the reason to reject it.
    :param exclusion: why source distributions do not count; empty: they do.
    :param is_given: the files were named by the user.
    """

    def __init__(
        self,
        name: NormalizedName,
        listed: Mapping[Version, PageRelease],
        judge: _Judge,
        exclusion: str,
        *,
        is_given: bool,
    ) -> None:
        self._name = name
        self._listed = listed
        self._judge = judge
        self._exclusion = exclusion
        self._is_given = is_given
        self._made: dict[Version, Release] = {}
        self._possible: tuple[Version, ...] | None = None
        self._yanked: tuple[Version, ...] | None = None

    def __getitem__(self, version: Version) -> Release:
        release = self._made.get(version)
        if release is None:
            files = self._listed[version].files()
            wheels = [(*self._judge(file, filename), filename) for file, filename in files.wheels]
            usable = [Wheel(file, filename, rejection) for file, rejection, filename in wheels]
            others: tuple[tuple[str, str], ...] = ()
            if self._exclusion:
                others = tuple((file.filename, self._exclusion) for file in files.sources)
            elif files.sources:
                usable.append(self._unbuilt(files))
            release = self._made[version] = Release(
                self._name,
                files.version,
                _without_copies(usable),
                tuple(files.index_files),
                others,
                self._is_given,
            )
        return release

    def __iter__(self) -> Iterator[Version]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)

    def _unbuilt(self, files: ReleaseFiles) -> Wheel:
        """Return the unbuilt wheel for the source distribution of a release."""
        file, rejection = self._judge.source(best_source(files.sources))
        made_up = made_up_name(self._name, files.version)
        unbuilt = replace(file, filename=made_up, origin=WheelOrigin(file.filename))
        return Wheel(unbuilt, parse_wheel_filename(made_up), rejection)

    def possible(self) -> tuple[Version, ...]:
        """Return the versions with something that is left at first sight, newest first."""
        if self._possible is None:
            self._possible = tuple(
                version
                for version, listed in self._listed.items()
                if self._has_wheel(listed) or self._has_source(listed)
            )
        return self._possible

    def has_variants(self) -> bool:
        """Return whether any release has variant wheels."""
        return any(listed.has_variants for listed in self._listed.values())

    def with_sources(self) -> tuple[Version, ...]:
        """Return the versions with a source distribution that is left at first sight."""
        return tuple(
            version for version, listed in self._listed.items() if self._has_source(listed)
        )

    def without_wheels(self) -> frozenset[Version]:
        """Return the versions of which only a source distribution is left at first sight."""
        return frozenset(
            version for version in self.with_sources() if not self._has_wheel(self._listed[version])
        )

    def _has_wheel(self, listed: PageRelease) -> bool:
        if self._judge.allowed:
            wheels = listed.files().wheels
            return any(self._judge(file, filename)[1] is None for file, filename in wheels)
        return any(self._judge.rejection(*kind) is None for kind in listed.kinds)

    def _has_source(self, listed: PageRelease) -> bool:
        if self._exclusion:
            return False
        if self._judge.allowed:
            sources = listed.files().sources
            return bool(sources) and self._judge.source(best_source(sources))[1] is None
        return any(self._judge.wrong_python(python) is None for python in listed.source_pythons)

    def yanked(self) -> tuple[Version, ...]:
        """Return the versions of which every wheel that is left was taken back, newest first."""
        if self._yanked is None:
            self._yanked = tuple(
                version
                for version, listed in self._listed.items()
                if listed.is_partly_yanked and self[version].is_yanked
            )
        return self._yanked


def _without_copies(wheels: Sequence[Wheel]) -> tuple[Wheel, ...]:
    """Reject the wheels of indexes where the user has one of the same label (F-126).

    A lock is one source, wherever its files are.
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
    """Files that are none of the project's wheels, and why, one clause each."""
    bridge: BridgeFamily | None = None
    """The family whose members are its variants; None: it is not bridged."""
    ranks: Mapping[Version, int] = field(default_factory=dict)
    """The places of versions where those of one source come before those of another; empty: newer
    ones come first."""

    @property
    def newest(self) -> str:
        """The latest release, for messages; if there is none, why."""
        for version in self.releases:
            return f"latest: {version}"
        return self.ignored[0] if self.ignored else f"{self.name} has no files"

    def is_same_release(self, one: Version, other: Version) -> bool:
        """Return whether two versions differ only in the build, as ``+cpu`` and ``+cu128``."""
        if one == other:
            return True
        is_of_builds = self.bridge is not None and self.bridge.is_of_indexes
        return is_of_builds and one.public == other.public

    def possible(self) -> tuple[Version, ...]:
        """Return the versions with a wheel that is left at first sight, newest first."""
        return self.releases.possible()


def sort_page(
    page: ProjectPage,
    target: Target,
    *,
    allowed: AllowedHashes = frozenset(),
    is_given: bool = False,
    sources: SourcePolicy | None = None,
) -> Listing:
    """Sort the files of a page by release.

    :param page: the page of the source.
    :param target: for tags and ``requires-python``.
    :param allowed: digests of which a file must have one; empty: any file will do.
    :param is_given: the files were named by the user.
    :param sources: the source distributions that count; None: none does.
    """
    exclusion = NO_SOURCES
    if sources is not None:
        exclusion = sources.exclusion(page.name, is_of_family=page.bridge is not None)
    absent = _absent_sources(page, target)
    if isinstance(page.files, PageFiles) and not absent and not page.joins_builds:
        by_release = page.files.by_release
    else:
        files = (file for file in page.files if file.source not in absent)
        by_release = sort_by_release(page.name, files, joins_builds=page.joins_builds)
    listed_by_version, judge = by_release.releases, _Judge(target, allowed)
    releases = Releases(page.name, listed_by_version, judge, exclusion, is_given=is_given)
    ignored = by_release.ignored
    if page.status.is_quarantined:
        ignored = (f"the project is {page.status}",)  # why there is nothing
    family = page.bridge
    ranks: Mapping[Version, int] = {}
    if family is not None and family.is_of_indexes and not page.joins_builds:
        ranks = _ranks_of_builds(family, listed_by_version)
    elif page.order:
        ranks = {
            version: _rank(listed, page.order) for version, listed in listed_by_version.items()
        }
    return Listing(
        page.name,
        releases,
        page.source,
        page.notes,
        ignored,
        page.bridge,
        ranks,
    )


def _ranks_of_builds(
    family: BridgeFamily, listed_by_version: Mapping[Version, PageRelease]
) -> Mapping[Version, int]:
    """Return the places of versions that differ in their build: as the family has its members.

    Local versions are compared as text, so that ``+torch2.9`` is newer than ``+torch2.10``.
    """
    places = {
        version: family.rank_of(filename for _, filename in listed.files().wheels)
        for version, listed in listed_by_version.items()
    }
    newest = sorted(listed_by_version, key=places.__getitem__)
    newest.sort(key=without_build, reverse=True)
    return {version: place for place, version in enumerate(newest)}


def _absent_sources(page: ProjectPage, target: Target) -> frozenset[str]:
    """Return the sources of a page whose markers hold none for a target."""
    if not page.markers:
        return frozenset()
    present = {
        source
        for source, text in page.markers
        if text == "" or (text and parse_marker(text).evaluate(target.environment))
    }
    otherwise = {source for source, text in page.markers if text is None}
    return frozenset(source for source, _ in page.markers) - (present or otherwise)


def _rank(listed: PageRelease, order: Sequence[str]) -> int:
    """Return the place of the first index that has a wheel of a release.

    Sources beside the indexes are in one pool with the first of them, as in uv.
    """
    sources = (file.source for file, _ in listed.files().wheels)
    return min((order.index(one) if one in order else 0 for one in sources), default=len(order))


class _Judge(Struct):
    """The rejections of wheels by their listing entries alone."""

    target: Target
    allowed: AllowedHashes
    fitting: dict[frozenset[Tag], bool] = field(default_factory=dict)

    def __call__(self, file: File, filename: WheelFilename) -> tuple[File, str | None]:
        tags = None if filename.is_newer_format else filename.tags
        rejection = self.rejection(tags, file.requires_python)
        if self.allowed and rejection is None:
            return _promised(file, self.allowed)
        return file, rejection

    def source(self, file: File) -> tuple[File, str | None]:
        """Return the verdict on a source distribution, which has no tags."""
        rejection = self.wrong_python(file.requires_python)
        if self.allowed and rejection is None:
            return _promised(file, self.allowed)
        return file, rejection

    def rejection(self, tags: frozenset[Tag] | None, requires_python: str | None) -> str | None:
        """Return the reason to reject a wheel whatever its hash; None: there is none."""
        if tags is None:
            return NEWER_FORMAT
        fits = self.fitting.get(tags)  # a page has few sets of tags, many files
        if fits is None:
            fits = self.fitting[tags] = self.target.tags.best(tags) is not None
        return self.wrong_python(requires_python) if fits else NO_TAG

    def wrong_python(self, requires_python: str | None) -> str | None:
        """Return the reason a Python is excluded; None: it is not."""
        if requires_python is not None:
            return wrong_python(requires_python, self.target.python_full_version)
        return None


def made_up_name(name: str, version: Version) -> str:
    """Return a file name for a wheel that is not there yet; no published one is called so.

    :param name: the name of the project.
    :param version: the version of the release.
    """
    return f"{name.replace('-', '_')}-{version}-0source-py3-none-any.whl"


def _promised(file: File, allowed: AllowedHashes) -> tuple[File, str | None]:
    """Compare a file with the user's list of hashes (F-94)."""
    digests: dict[str, set[str]] = {}
    for algorithm, digest in allowed:
        digests.setdefault(algorithm, set()).add(digest)
    shared = digests.keys() & file.hashes.keys()
    if shared:
        if any(file.hashes[algorithm] in digests[algorithm] for algorithm in shared):
            return file, None
        return file, WRONG_HASH
    # The index promises nothing. With one digest to choose from, the download
    # is checked against that one.
    single = {
        algorithm: next(iter(values)) for algorithm, values in digests.items() if len(values) == 1
    }
    if not single:
        return file, "the index gives no hash to compare with the allowed ones"
    return replace(file, hashes=MappingProxyType({**file.hashes, **single})), None


@lru_cache(maxsize=1024)
def wrong_python(text: str, here: Version) -> str | None:
    """Return the reason a ``requires-python`` excludes a Python, or None when it does not.

    An unreadable one sets no limit, as in pip.
    """
    try:
        wanted = parse_specifiers(text)
    except InvalidSpecifier:
        return None
    if wanted.contains(here, prereleases=True):
        return None
    return f"needs Python {wanted}, this is {here}"
