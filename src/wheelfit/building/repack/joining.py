"""Plans that join projects with one build each, as faiss-cpu, as variants of one project (B-43).

This module reads no file and no index: listings and contents come in as values.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import Version

from wheelfit.checking.tool_profiles import MAX_FILE_SIZE
from wheelfit.core.labels import Label, parse_label
from wheelfit.core.sizes import size_in_words
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from packaging.tags import Tag
    from packaging.utils import NormalizedName

    from wheelfit.core.filename import WheelFilename
    from wheelfit.core.properties import PropertySet

_PLAIN_SUFFIXES = frozenset({"", "cpu"})
"""Suffixes of project names that stand for no hardware."""
_LINUX = pattern(r"(many|musl)linux(?:1|2010|2014|_\d+_\d+)_")
_PYTHON = pattern(r"(?:cp|py)3(\d*)t?")
_MACOS = pattern(r"macosx_\d+_\d+_")


@dataclass(frozen=True, slots=True)
class JoinableWheel:
    """A wheel as an index or a folder lists it."""

    filename: WheelFilename
    size: int | None = None
    """Bytes; None if unknown."""

    def targets(self, pythons: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield its Pythons and platforms, the latter without a version of the C library.

        :param pythons: the Pythons to consider, as ``cp312`` or ``cp313t``: a wheel for the stable
            ABI, or for any Python, is for several of them.
        """
        for tag in self.filename.tags:
            for python in pythons:
                if python == python_of(tag) or _includes_later(tag, python):
                    yield python, _unversioned_platform(tag.platform)


def _includes_later(tag: Tag, python: str) -> bool:
    """Return whether a tag is for a Python because it is for its own and all later ones.

    The stable ABI of free-threaded Pythons has the tag ``abi3t`` (PEP 803).
    """
    first, considered = _PYTHON.fullmatch(tag.interpreter), _PYTHON.fullmatch(python)
    if first is None or considered is None or int(first[1] or 0) > int(considered[1] or 0):
        return False
    return tag.abi in ("none", "abi3t" if python.endswith("t") else "abi3")


def python_of(tag: Tag) -> str:
    """Return the Python of a tag, such as ``cp313``, or ``cp313t`` for a free-threaded one."""
    free_threaded = f"{tag.interpreter}t"
    return free_threaded if tag.abi in (free_threaded, "abi3t") else tag.interpreter


def _unversioned_platform(platform: str) -> str:
    """Return a platform without the version of its system.

    >>> _unversioned_platform("manylinux_2_28_x86_64"), _unversioned_platform("macosx_11_0_arm64")
    ('linux_x86_64', 'macos_arm64')
    """
    text = _LINUX.sub(lambda match: "musllinux_" if match[1] == "musl" else "linux_", platform)
    return _MACOS.sub("macos_", text)


@dataclass(frozen=True, slots=True)
class WheelSummary:
    """The metadata and contents of a wheel that are compared within a release."""

    requires: frozenset[str] = frozenset()
    requires_python: str = ""
    extras: frozenset[str] = frozenset()
    commands: frozenset[str] = frozenset()
    """Entry points, such as ``console_scripts:fast``."""
    modules: frozenset[str] = frozenset()
    """Top-level modules and packages."""
    promises: str = ""
    """The exports that its libraries promise to packages that link with them."""


@dataclass(frozen=True, slots=True)
class FamilyProject:
    """A project whose wheels become variants, or the plain wheels, of the joined project."""

    name: NormalizedName
    label: Label | None
    """The label of its wheels in the joined release; None: they are the plain wheels."""
    properties: PropertySet | None
    """The properties of the label; None if unknown."""
    releases: Mapping[Version, tuple[JoinableWheel, ...]]


@dataclass(frozen=True, slots=True)
class WheelDifference:
    """A difference between wheels of a joined release."""

    aspect: str
    """The differing part of the metadata or contents, such as ``dependencies``."""
    message: str
    rule: str = ""
    """The rule behind it, such as ``F-95``; empty for none."""
    is_obstacle: bool = False
    """Whether wheels that differ so cannot be builds of one package."""


@dataclass(frozen=True, slots=True)
class JoinedRelease:
    """A release of the joined project."""

    version: Version
    """Its version; with a local version if the versions of the projects differ."""
    parts: tuple[tuple[FamilyProject, Version], ...]
    """The projects that have the release, and their versions of it."""
    absent: tuple[NormalizedName, ...]
    """The projects that do not have it."""
    differences: tuple[WheelDifference, ...] = ()
    """The differences between its wheels; only of examined releases."""

    @property
    def obstacles(self) -> tuple[str, ...]:
        """The reasons why it cannot be joined; empty if it can."""
        reasons = [difference.message for difference in self.differences if difference.is_obstacle]
        if len(self.parts) == 1:
            reasons.append(f"only {self.parts[0][0].name} has it")
        by_label: dict[str, list[str]] = defaultdict(list)
        for project, _ in self.parts:
            by_label[project.label or "plain"].append(project.name)
        reasons += [
            f"{listed(names)} would all become {label}"
            for label, names in by_label.items()
            if len(names) > 1
        ]
        return tuple(reasons)

    def targets(self) -> dict[tuple[str, str], tuple[NormalizedName, ...]]:
        """Return the projects with wheels for each Python and platform."""
        projects: dict[tuple[str, str], list[NormalizedName]] = defaultdict(list)
        wheels = {project.name: project.releases[version] for project, version in self.parts}
        pythons = {
            python_of(tag)
            for listing in wheels.values()
            for wheel in listing
            for tag in wheel.filename.tags
        }
        for name, listing in wheels.items():
            for target in {target for wheel in listing for target in wheel.targets(pythons)}:
                projects[target].append(name)
        return {target: tuple(names) for target, names in sorted(projects.items())}

    def notes(self) -> Iterator[str]:
        """Yield notes on the joined release for its users."""
        if any(version != self.version for _, version in self.parts):
            parts = listed([f"{project.name} {version}" for project, version in self.parts])
            yield f"it is joined from {parts}, so it gets a local version"
        plain_projects = {project.name for project, _ in self.parts if project.label is None}
        if not plain_projects:
            yield "it has no plain wheel, so installers without variants get nothing"
        else:
            variants_only = [
                " ".join(target)
                for target, names in self.targets().items()
                if plain_projects.isdisjoint(names)
            ]
            if variants_only:
                yield f"it has no plain wheel for {listed(variants_only)}"
        if self.absent:
            yield f"machines for {listed(self.absent)} get another wheel of it, or none"
        for project, version in self.parts:
            largest = max((wheel.size or 0 for wheel in project.releases[version]), default=0)
            if largest > MAX_FILE_SIZE:
                yield (
                    f"wheels of {project.name} have up to {size_in_words(largest)}; without a "
                    f"higher limit the public registry accepts {size_in_words(MAX_FILE_SIZE)}"
                )


def joined_name(names: Sequence[str]) -> str:
    """Return the common beginning of names of projects; empty for none.

    >>> joined_name(["cupy-cuda12x", "cupy-cuda13x"])
    'cupy'
    """
    common: list[str] = []
    for words in zip(*(name.split("-") for name in names), strict=False):
        if len(set(words)) > 1:
            break
        common.append(words[0])
    return "-".join(common)


def label_of(name: str, joined: str) -> Label | None:
    """Return the label for the ending of a project's name; None for a plain one, such as ``-cpu``.

    >>> label_of("faiss-gpu-cu12", "faiss"), label_of("faiss-cpu", "faiss")
    ('gpu_cu12', None)
    """
    ending = name.removeprefix(joined).strip("-").replace("-", "_")
    return None if ending in _PLAIN_SUFFIXES else parse_label(ending)


def join_releases(projects: Sequence[FamilyProject]) -> list[JoinedRelease]:
    """Return the releases of the joined project, the newest first.

    Versions that differ only in their post-release or local version are one release. If every
    project has one version, these are one release. Pre-releases are used if a project has no other
    wheels of that release.
    """
    if all(len(project.releases) == 1 for project in projects):  # the user may have named them
        only_versions = {project.name: next(iter(project.releases)) for project in projects}
        return [_joined(only_versions, projects)]
    groups: dict[Version, dict[NormalizedName, Version]] = defaultdict(dict)
    for project in projects:
        # The last one stays: the newest, and a pre-release only where there is no other.
        for version in sorted(
            project.releases, key=lambda release: (not release.is_prerelease, release)
        ):
            groups[Version(version.base_version)][project.name] = version
    return [_joined(groups[base], projects) for base in sorted(groups, reverse=True)]


def _joined(
    versions: Mapping[NormalizedName, Version], projects: Sequence[FamilyProject]
) -> JoinedRelease:
    parts = tuple(
        (project, versions[project.name]) for project in projects if project.name in versions
    )
    newest = max(versions.values())
    if len({str(version) for version in versions.values()}) > 1:
        public = {version.public for version in versions.values()}
        newest = Version(newest.public if len(public) == 1 else f"{newest.public}+joined")
    absent = tuple(project.name for project in projects if project.name not in versions)
    return JoinedRelease(newest, parts, absent)


def wheel_differences(
    summaries: Mapping[NormalizedName, WheelSummary],
) -> Iterator[WheelDifference]:
    """Yield the differences between wheels of one joined release.

    :param summaries: one wheel of each project, the first to compare the others with.
    """
    if len(summaries) < 2:
        return
    (first, base), *others = summaries.items()
    for name, summary in others:
        pair = f"{first} and {name}"
        if base.modules and summary.modules and base.modules.isdisjoint(summary.modules):
            yield WheelDifference(
                "modules",
                f"{pair} have no module in common ({_some_names(base.modules)}; "
                f"{_some_names(summary.modules)}): "
                "a small package can choose between them",
                is_obstacle=True,
            )
            continue
        for aspect, before, after in (
            ("modules", base.modules, summary.modules),
            ("dependencies", base.requires, summary.requires),
            ("extras", base.extras, summary.extras),
            ("entry points", base.commands, summary.commands),
        ):
            if before != after:
                rule = "F-95" if aspect in ("dependencies", "extras") else ""
                yield WheelDifference(
                    aspect, f"{aspect} differ: {_exclusive_names(first, before, name, after)}", rule
                )
        if base.requires_python != summary.requires_python:
            own, other = base.requires_python or "any", summary.requires_python or "any"
            message = f"Requires-Python differs: {first} {own}, {name} {other}"
            yield WheelDifference("Requires-Python", message, "F-94")
        if base.promises != summary.promises:
            own, other = base.promises or "nothing", summary.promises or "nothing"
            message = f"ABI promises differ: {first} {own}, {name} {other}"
            yield WheelDifference("ABI promises", message, "B-61")


def _some_names(names: Iterable[str]) -> str:
    return listed(sorted(names), most=7)


def _exclusive_names(first: str, before: frozenset[str], second: str, after: frozenset[str]) -> str:
    parts = [
        f"only {name} has {_some_names(own)}"
        for name, own in ((first, before - after), (second, after - before))
        if own
    ]
    return "; ".join(parts)


def repack_file(name: str, release: JoinedRelease) -> str:
    """Return the configuration with which ``wheel repack --config`` joins a release (B-44)."""
    lines = ["[metadata.joined]", f"name = {json.dumps(name)}"]
    if any(str(version) != str(release.version) for _, version in release.parts):
        lines.append(f"version = {json.dumps(str(release.version))}")
    rules = []
    for project, version in release.parts:
        label = None if project.label is None else json.dumps(str(project.label))
        choice = 'metadata = "joined"' if label is None else f"variant = {label}"
        texts = [wheel.filename.text for wheel in project.releases[version]]
        # Wheels of one release may spell its name in several ways.
        for stem in sorted({"-".join(text.split("-", 2)[:2]) for text in texts}):
            rules += ["", "[[wheels]]", f"match = {json.dumps(f'{stem}-*')}", choice]
        if label is None:
            continue
        lines += ["", f"[variants.{label}]"]
        if project.properties is None:
            lines.append('# properties = ["…"]  # `wheelfit wheel inspect` proposes them')
        else:
            items = ", ".join(json.dumps(str(item)) for item in project.properties)
            lines.append(f"properties = [{items}]")
        lines.append('metadata = "joined"')
    return "\n".join((*lines, *rules)) + "\n"
