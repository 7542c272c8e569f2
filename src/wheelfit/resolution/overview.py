"""An overview of all labels of a release: their wheels and conditions, for any machine.

It may include the choices of described machines as examples.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from packaging.specifiers import SpecifierSet

from wheelfit.core.abi_dependency import KnownVersions
from wheelfit.core.filename import NEWER_FORMAT
from wheelfit.core.labels import NULL, Label
from wheelfit.core.phrases import describe_condition
from wheelfit.core.property_support import namespaces_used, support_for
from wheelfit.core.selection import select
from wheelfit.core.sizes import size_in_words
from wheelfit.core.target import TagPreference, Target
from wheelfit.errors import NoSolution
from wheelfit.resolution.listing import NO_TAG, Release, Wheel, sort_page
from wheelfit.resolution.no_match import unknown_project
from wheelfit.resolution.release_metadata import ReleaseMetadata, read_release_metadata
from wheelfit.resolution.version_set import is_pin
from wheelfit.sources.page import ProjectPage
from wheelfit_runtime.platforms.words import natural_sort_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from packaging.tags import Tag
    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.properties import PropertySet
    from wheelfit.core.provider_lookup import Detector
    from wheelfit.core.requirements import Requirement
    from wheelfit.core.unusable_metadata import Degradation
    from wheelfit.resolution.candidates import Candidates


@dataclass(frozen=True, slots=True)
class OverviewHost:
    """A described machine whose choice is included."""

    name: str
    """As for ``--for``."""
    description: str
    """Empty if the name is enough."""
    target: Target
    detector: Detector
    any_python: bool
    """Whether the description leaves the Python open, so that wheels for any Python fit."""


@dataclass(frozen=True, slots=True)
class LabelRow:
    """The wheels of one label, or the plain ones."""

    label: Label | None
    properties: PropertySet | None
    """The declared properties; None for plain wheels and unusable labels."""
    condition: str
    """The properties that a machine must support, in words; for an unusable label the reason."""
    wheels: tuple[Wheel, ...]
    """In the order of their file names."""
    selected_by: tuple[str, ...] = ()
    """The names of the machines that would choose one of them."""

    @property
    def tags(self) -> set[Tag]:
        """The tags of all its wheels."""
        return {tag for wheel in self.wheels for tag in wheel.filename.tags}

    @property
    def sizes(self) -> str:
        """The sizes of the smallest and the largest wheel, in words; empty: unknown."""
        sizes = [wheel.file.size for wheel in self.wheels if wheel.file.size is not None]
        if not sizes:
            return ""
        smallest, largest = size_in_words(min(sizes)), size_in_words(max(sizes))
        return largest if smallest == largest else f"{smallest} to {largest}"


@dataclass(frozen=True, slots=True)
class Overview:
    """All labels of one release."""

    name: NormalizedName
    version: Version
    rows: tuple[LabelRow, ...]
    """In the order of their labels; ``null`` and the plain wheels come last."""
    unmatched_machines: tuple[str, ...] = ()
    """The names of the machines without a compatible wheel."""
    notes: tuple[str, ...] = ()
    """Notes for the user, one sentence each."""
    source: str = ""
    """The source that supplies the project, without credentials (F-126)."""
    degradations: tuple[Degradation, ...] = ()
    """The degradations by faulty metadata (F-136)."""
    machines: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The descriptions of the machines, by name."""

    def to_mapping(self) -> dict[str, Any]:
        """Return it as plain data, as ``docs/reference/json.md`` describes."""
        return {
            "name": self.name,
            "version": str(self.version),
            "source": self.source,
            "labels": [
                {
                    "label": row.label,
                    "properties": None
                    if row.properties is None
                    else [str(item) for item in row.properties],
                    "condition": row.condition,
                    "wheels": [
                        {
                            "filename": wheel.filename.text,
                            "size": wheel.file.size,
                            "requires_python": wheel.file.requires_python,
                            "yanked": wheel.file.yanked,
                            "tags": sorted(map(str, wheel.filename.tags)),
                        }
                        for wheel in row.wheels
                    ],
                    "selected_by": list(row.selected_by),
                }
                for row in self.rows
            ],
            "unmatched_machines": list(self.unmatched_machines),
            "notes": list(self.notes),
            "degradations": [degradation.to_mapping() for degradation in self.degradations],
        }


def newest_release(
    candidates: Candidates,
    requirement: Requirement,
    *,
    constraints: Sequence[Requirement] = (),
    prereleases: bool = False,
) -> Release:
    """Return the newest release with wheels that a requirement allows, for any machine.

    :param requirement: the requirement; its marker and extras are ignored.
    :raises ProjectNotFound: no source has the project.
    :raises NoSolution: no release with wheels matches the requirement.
    """
    name = requirement.name
    listing = candidates.listing(name)
    if listing is None:
        raise unknown_project(name, candidates)
    requirements = [item for item in (requirement, *constraints) if item.name == name]
    specifier = reduce(and_, (item.specifier for item in requirements), SpecifierSet())
    with_wheels = [version for version, release in listing.releases.items() if release.wheels]
    allowed = list(specifier.filter(with_wheels, prereleases=True if prereleases else None))
    not_yanked = [
        version
        for version in allowed
        if not all(wheel.is_yanked for wheel in listing.releases[version].wheels)
    ]
    versions = not_yanked or (allowed if is_pin(specifier) else [])
    if not versions:
        message = f"no version of {name} with wheels matches {name}{specifier}"
        raise NoSolution(message, note=listing.newest)
    return listing.releases[max(versions)]


def overview(
    candidates: Candidates,
    release: Release,
    metadata: ReleaseMetadata | None = None,
    overview_hosts: Iterable[OverviewHost] = (),
) -> Overview:
    """Return the overview of all labels of a release.

    :param metadata: the metadata of all its variant wheels; None reads it.
    """
    if metadata is None:
        metadata = metadata_of(candidates, release)
    choices = _HostChoices(candidates, release, metadata)
    machines_by_label: dict[Label | None, list[str]] = {}
    unmatched: list[str] = []
    machines: dict[str, str] = {}
    for host in overview_hosts:
        machines[host.name] = host.description
        wheel = choices.of(host)
        if wheel is None:
            unmatched.append(host.name)
        else:
            machines_by_label.setdefault(wheel.filename.label, []).append(host.name)
    by_label: dict[Label | None, list[Wheel]] = {}
    for wheel in sorted(release.wheels, key=lambda wheel: wheel.filename.text):
        by_label.setdefault(wheel.filename.label, []).append(wheel)
    rows = tuple(
        _row(metadata, label, by_label[label], machines_by_label.get(label, ()))
        for label in sorted(by_label, key=_label_sort_key)
    )
    listing = candidates.listing(release.name)
    return Overview(
        release.name,
        release.version,
        rows,
        tuple(unmatched),
        metadata.notes,
        "" if listing is None else listing.source,
        metadata.degradations,
        MappingProxyType(machines),
    )


def metadata_of(candidates: Candidates, release: Release) -> ReleaseMetadata:
    """Return the metadata of all variant wheels of a release, with any tags."""
    variants = [wheel for wheel in release.wheels if wheel.filename.is_variant]
    if not variants:
        return ReleaseMetadata()
    return read_release_metadata(
        release, variants, candidates.repository, candidates.policy.metadata
    )


def _row(
    metadata: ReleaseMetadata,
    label: Label | None,
    wheels: Sequence[Wheel],
    selected_by: Sequence[str],
) -> LabelRow:
    document = metadata.document
    properties = None
    if label is None:
        condition = "fits every machine with its tags; compatible variants are preferred"
    elif document is None:
        condition = "never chosen: there is no usable variant metadata"
    elif label in document.unusable:
        condition = f"never chosen: {document.unusable[label]}"
    else:
        properties = document.properties(label)
        condition = "never chosen: its label is not in the variant metadata"
        if properties is not None:
            condition = describe_condition(properties, document.providers)
    return LabelRow(label, properties, condition, tuple(wheels), tuple(selected_by))


class _HostChoices:
    """The choices of described machines among the wheels of one release."""

    def __init__(self, candidates: Candidates, release: Release, metadata: ReleaseMetadata) -> None:
        self._policy = candidates.policy
        self._release = release
        self._metadata = metadata
        self._filenames = [wheel.filename for wheel in release.wheels]
        self._wheels = {wheel.filename.text: wheel for wheel in release.wheels}
        tags = {tag for filename in self._filenames for tag in filename.tags}
        self._tags = sorted(tags, key=str)
        document = metadata.document
        variants = () if document is None else document.variants.values()
        self._namespaces = namespaces_used(variants)

    def of(self, host: OverviewHost) -> Wheel | None:
        """Return the wheel that a machine would choose; None if no wheel is compatible."""
        document, support = self._metadata.document, None
        if document is not None:
            support = support_for(
                document,
                None,
                environment=host.target.environment,
                host_detector=host.detector,
                policy=self._policy.providers,
                namespaces=self._namespaces,
                known=KnownVersions(is_open=True),
            )
        selection = select(
            self._filenames,
            document=document,
            support=support,
            tags=self._tag_preference(host),
            preferences=self._policy.preferences,
            extra_rejections={**self._metadata.rejections, **dict(self._listing_rejections(host))},
        )
        return None if selection.chosen is None else self._wheels[selection.chosen.text]

    def _tag_preference(self, host: OverviewHost) -> TagPreference:
        tags = host.target.tags
        if not host.any_python:
            return tags
        ranks = {platform: rank for rank, platform in enumerate(_platforms(tags))}
        compatible = [tag for tag in self._tags if tag.platform in ranks]
        return TagPreference(tuple(sorted(compatible, key=lambda tag: ranks[tag.platform])))

    def _listing_rejections(self, host: OverviewHost) -> Iterator[tuple[str, str]]:
        """Yield the file names of wheels that the listing rules out, with the reason."""
        all_yanked = all(wheel.is_yanked for wheel in self._release.wheels)
        for wheel in self._release.wheels:
            if wheel.filename.is_newer_format:
                yield wheel.filename.text, NEWER_FORMAT
            elif wheel.is_yanked and not all_yanked:
                yield wheel.filename.text, "yanked"
        if host.any_python:
            return
        files = tuple(wheel.file for wheel in self._release.wheels)
        page = ProjectPage(self._release.name, files, "")
        for release in sort_page(page, host.target).releases.values():
            for wheel in release.wheels:
                if wheel.rejection is not None and wheel.rejection is not NO_TAG:
                    yield wheel.filename.text, wheel.rejection


def _platforms(tags: Iterable[Tag]) -> dict[str, None]:
    """Return the platforms of a machine, best first, and ``any`` last."""
    platforms = dict.fromkeys(tag.platform for tag in tags if tag.platform != "any")
    return {**platforms, "any": None}


def _label_sort_key(label: Label | None) -> tuple[object, ...]:
    """Return a sort key of labels; the null variant and the plain wheel come last."""
    return label is None, label == NULL, natural_sort_key(label or "")
