"""The facts on the pages of projects and releases, cached until the index changes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from packaging.metadata import RawMetadata, parse_email

from wheelfit.core.filename import release_of
from wheelfit.errors import StorageUnavailable
from wheelfit.resolution.candidates import Candidates, ChoicePolicy
from wheelfit.resolution.explain import Explanation, explain_choice
from wheelfit.resolution.listing import Listing, Release, Wheel, sort_page
from wheelfit.resolution.overview import Overview, metadata_of, overview
from wheelfit.resolution.release_metadata import MetadataPolicy
from wheelfit.server.site.machines import SiteMachine, default_target, overview_hosts
from wheelfit.server.site.readme import render_readme
from wheelfit.sources.file_readers import SinglePageRepository
from wheelfit.sources.memory_cache import MemoryCache
from wheelfit.sources.page import VARIANTS_SUFFIX, ProjectPage, time_of_upload
from wheelfit_runtime.errors import FileProblem, InvalidWheel, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping
    from datetime import datetime

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.labels import Label
    from wheelfit.sources.repository import Files, Index


_POLICY = ChoicePolicy(metadata=MetadataPolicy(read_unlisted=True, max_labels=256))
"""Reading every wheel for its labels costs little, since only local wheels are read."""
_MAX_CACHED_FILES = 200_000
"""The limit on the number of files that cached facts are about."""
_CHARACTERS_PER_FILE = 700
"""Characters of texts that count as one file, since they take about as much memory."""
_MAX_EVALUATED_WHEELS = 2_000
"""Wheels of a release up to which machines are evaluated; more would take too long."""
_MAX_DESCRIPTION_LENGTH = 100_000
_MAX_FIELD_LENGTH = 1_000
_MAX_ITEMS = 40
_MAX_REQUIREMENTS = 200
_Link = tuple[str, str]
"""A text and its URL."""


@dataclass(frozen=True, slots=True)
class WheelDescription:
    """The METADATA of a wheel for people. These texts are untrusted."""

    summary: str = ""
    description: str = ""
    readme: str = ""
    """The description as HTML that is safe to show; empty: it is shown as text."""
    is_truncated: bool = False
    """Whether the description was cut."""
    author: str = ""
    license: str = ""
    links: tuple[_Link, ...] = ()
    """Links that a browser may follow."""
    other_links: tuple[_Link, ...] = ()
    """Those that are not shown as links."""
    requires_python: str = ""
    keywords: tuple[str, ...] = ()
    classifiers: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    """``Requires-Dist``, as written."""
    problem: str = ""
    """The reason why it could not be read; empty if it was."""

    @property
    def size(self) -> int:
        """Characters of its long parts."""
        links = sum(len(text) for pair in (*self.links, *self.other_links) for text in pair)
        texts = (*self.keywords, *self.classifiers, *self.requirements)
        return len(self.description) + len(self.readme) + links + sum(map(len, texts))


@dataclass(frozen=True, slots=True)
class ProjectFacts:
    """The listed files of a project."""

    page: ProjectPage
    listing: Listing
    stamp: Hashable
    """A stamp that changes with the listing."""
    yanked: Mapping[Version, str]
    """The releases whose files are all yanked, with one of the reasons."""
    uploaded: Mapping[Version, datetime]
    """The time of the last upload to each release, where known."""

    @property
    def newest(self) -> Version | None:
        """The release to show first: the newest final release that is not yanked."""
        versions = tuple(self.listing.releases)
        sound = [version for version in versions if version not in self.yanked] or list(versions)
        return next(
            (version for version in sound if not version.is_prerelease), next(iter(sound), None)
        )


@dataclass(frozen=True, slots=True)
class ReleaseFacts:
    """The facts on the page of a release."""

    release: Release
    overview: Overview
    about: WheelDescription
    has_too_many_wheels: bool = False
    """Whether there are too many wheels to evaluate machines."""

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels of its wheels."""
        return tuple(row.label for row in self.overview.rows if row.label is not None)


class SiteFacts:
    """A cache of the facts of an index. Called from several threads at once."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._projects = MemoryCache[ProjectFacts](
            _MAX_CACHED_FILES, lambda project: len(project.page.files) + 1
        )
        self._summaries = MemoryCache[str](_MAX_CACHED_FILES, lambda _text: 1)
        self._releases = MemoryCache[ReleaseFacts](
            _MAX_CACHED_FILES,
            lambda facts: len(facts.release.wheels) + 10 + facts.about.size // _CHARACTERS_PER_FILE,
        )

    def project(self, name: NormalizedName) -> ProjectFacts | None:
        """Return the facts of a project; None if it is unknown."""
        stamp = self._index.stamp(name)
        if stamp is not None:
            cached = self._projects.peek((name, stamp))
            if cached is not None:
                return cached
        page = self._index.project(name)
        if page is None:
            return None
        if stamp is None:
            stamp = _signature(page)
        return self._projects.get(
            (name, stamp),
            lambda: ProjectFacts(
                page, sort_page(page, default_target()), stamp, _yanked(page), _uploaded(page)
            ),
        )

    def release(self, project: ProjectFacts, version: Version) -> ReleaseFacts | None:
        """Return the facts of a release; None if it is not listed."""
        release = project.listing.releases.get(version)
        if release is None:
            return None
        key = (project.page.name, version, project.stamp)
        return self._releases.get(key, lambda: self._read_release(project, release))

    def summary(self, project: ProjectFacts, version: Version) -> str:
        """Return the summary in the METADATA of a release; empty: there is none.

        :raises WheelfitError: it cannot be read.
        """
        key = (project.page.name, version, project.stamp)
        return self._summaries.get(key, lambda: _field(self.metadata(project, version), "summary"))

    def metadata(self, project: ProjectFacts, version: Version) -> RawMetadata:
        """Return the METADATA of a release; empty: it has no wheel.

        :raises WheelfitError: it cannot be read.
        """
        release = project.listing.releases[version]
        if not release.wheels:
            return {}
        return _metadata(
            SinglePageRepository(project.page, self._index), _describing_wheel(release)
        )

    def explanation(
        self, project: ProjectFacts, version: Version, machine: SiteMachine
    ) -> Explanation:
        """Return the choice from a release for a machine, with the reasons against other wheels."""
        files = SinglePageRepository(project.page, self._index)
        candidates = Candidates(
            files, machine.target, None, _POLICY, host_detector=machine.detector
        )
        name = project.page.name
        try:
            choice = candidates.usable_choice(name, version)
        except FileProblem as error:
            explanation = explain_choice(candidates, candidates.choice(name, version))
            note = f"the metadata of the chosen wheel is ignored: {error}"
            return replace(explanation, notes=(note, *explanation.notes))
        return explain_choice(candidates, choice)

    def _read_release(self, project: ProjectFacts, release: Release) -> ReleaseFacts:
        files = SinglePageRepository(project.page, self._index)
        candidates = Candidates(files, default_target(), None, _POLICY)
        metadata = metadata_of(candidates, release)
        has_too_many_wheels = len(release.wheels) > _MAX_EVALUATED_WHEELS
        evaluated_hosts = () if has_too_many_wheels else overview_hosts(metadata.document)
        return ReleaseFacts(
            release,
            overview(candidates, release, metadata, evaluated_hosts),
            _about(files, release),
            has_too_many_wheels=has_too_many_wheels,
        )


def _signature(page: ProjectPage) -> str:
    digest = hashlib.sha256()
    for file in page.files:
        hashes = sorted(file.hashes.items())
        facts = (file.filename, hashes, file.yanked, file.requires_python, file.upload_time)
        digest.update(repr(facts).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def _yanked(page: ProjectPage) -> Mapping[Version, str]:
    """Return the releases whose files are all yanked, with their reasons."""
    yanked: dict[Version, str] = {}
    sound: set[Version] = set()
    for file in page.files:
        release = release_of(file.filename)
        if release is None or file.filename.endswith(VARIANTS_SUFFIX):
            continue
        if file.yanked is None:
            sound.add(release[1])
        else:
            yanked[release[1]] = yanked.get(release[1]) or file.yanked
    return {version: reason for version, reason in yanked.items() if version not in sound}


def _uploaded(page: ProjectPage) -> Mapping[Version, datetime]:
    uploaded: dict[Version, datetime] = {}
    for file in page.files:
        release, time = release_of(file.filename), time_of_upload(file)
        if release is not None and time is not None:
            uploaded[release[1]] = max(time, uploaded.get(release[1], time))
    return uploaded


def _about(files: Files, release: Release) -> WheelDescription:
    """Describe a release by the METADATA of one of its wheels."""
    if not release.wheels:
        return WheelDescription()
    wheel = _describing_wheel(release)
    try:
        raw = _metadata(files, wheel)
    except StorageUnavailable:
        raise  # a returned result would be cached, but this fault may soon be over
    except WheelfitError as error:
        return WheelDescription(problem=f"{wheel.filename.text}: {error.message}")
    description = str(raw.get("description") or "").replace("\r\n", "\n").strip("\n")
    links, others = _links(raw)
    return WheelDescription(
        summary=_field(raw, "summary"),
        description=description[:_MAX_DESCRIPTION_LENGTH],
        readme=render_readme(description, _field(raw, "description_content_type"), is_web_address),
        is_truncated=len(description) > _MAX_DESCRIPTION_LENGTH,
        author=_field(raw, "author") or _field(raw, "maintainer"),
        license=_field(raw, "license_expression") or _field(raw, "license").partition("\n")[0],
        links=links,
        other_links=others,
        requires_python=_field(raw, "requires_python"),
        keywords=_list_field(raw, "keywords"),
        classifiers=_list_field(raw, "classifiers"),
        requirements=tuple(
            str(requirement)[:_MAX_FIELD_LENGTH]
            for requirement in (raw.get("requires_dist") or ())[:_MAX_REQUIREMENTS]
        ),
    )


def _describing_wheel(release: Release) -> Wheel:
    """Return the wheel whose METADATA describes a release, a plain one if there is any."""
    return min(release.wheels, key=lambda wheel: (wheel.filename.is_variant, wheel.filename.text))


def _metadata(files: Files, wheel: Wheel) -> RawMetadata:
    try:
        return parse_email(files.metadata(wheel.file))[0]
    except RecursionError:  # messages within messages, thousands of them
        raise InvalidWheel(
            "METADATA of the wheel cannot be read", where=wheel.filename.text
        ) from None


def _field(raw: Mapping[str, object], name: str) -> str:
    value = raw.get(name)
    return value.strip()[:_MAX_FIELD_LENGTH] if isinstance(value, str) else ""


def _list_field(raw: Mapping[str, object], name: str) -> tuple[str, ...]:
    values = raw.get(name)
    texts = values if isinstance(values, list) else []
    return tuple(str(text).strip()[:_MAX_FIELD_LENGTH] for text in texts[:_MAX_ITEMS] if text)


def _links(raw: Mapping[str, object]) -> tuple[tuple[_Link, ...], tuple[_Link, ...]]:
    """Return the links of the metadata, and the URLs that must not be links."""
    addresses: dict[str, str] = {}
    if home := _field(raw, "home_page"):
        addresses["Homepage"] = home
    urls = raw.get("project_urls")
    if isinstance(urls, dict):
        addresses |= {str(text)[:100]: str(url)[:_MAX_FIELD_LENGTH] for text, url in urls.items()}
    pairs = tuple(addresses.items())[:_MAX_ITEMS]
    followed = tuple(pair for pair in pairs if is_web_address(pair[1]))
    return followed, tuple(pair for pair in pairs if pair not in followed)


def is_web_address(url: str) -> bool:
    """Return whether an untrusted URL can only lead to a web server.

    >>> is_web_address("https://example.org/x"), is_web_address("javascript:alert(1)")
    (True, False)
    """
    if not url.isprintable() or any(sign in url for sign in " \\"):
        return False
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in {"http", "https"} and bool(parts.hostname) and "@" not in parts.netloc
        )
    except ValueError:
        return False
