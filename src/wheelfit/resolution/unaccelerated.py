"""Packages of a result without an accelerator although other builds of them use one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.core.accelerators import ACCELERATORS, accelerators_of
from wheelfit.core.properties import EMPTY, PropertySet
from wheelfit_runtime.errors import NoFit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.labels import Label
    from wheelfit.core.selection import Verdict
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.release_choice import ReleaseChoice
    from wheelfit.resolution.request import InstalledBuild
    from wheelfit.resolution.resolution import Pin, Resolution


class Acceleration(Struct, frozen=True):
    """The accelerators that a package could use, and whether its build uses one."""

    name: NormalizedName
    version: Version
    label: Label | None
    """The label of the build; None for a plain one."""
    used: tuple[str, ...]
    """Namespaces of the accelerators that the build uses."""
    why_not: Mapping[str, str]
    """By namespace of an accelerator, the reason why the best build for it was not chosen.

    The accelerators are those that builds of the release use; if none does, those that builds of
    the newest release with variants use. Empty if the chosen build uses an accelerator.
    """
    is_kept: bool = False
    """Whether the build is installed already and kept."""

    def to_mapping(self) -> dict[str, object]:
        """Return it as plain data, as ``docs/reference/errors.md`` describes."""
        return {
            "name": self.name,
            "version": str(self.version),
            "label": self.label,
            "installed": self.is_kept,
            "why_not": dict(self.why_not),
        }

    def __str__(self) -> str:
        kept = "the installed " if self.is_kept else ""
        return f"{kept}{self.name} {self.version} ({self.label or 'plain'})"


def accelerations(resolution: Resolution, candidates: Candidates) -> Iterator[Acceleration]:
    """Yield the packages of a result that have builds with an accelerator."""
    candidates = candidates.within(resolution.context)
    builds: list[tuple[Pin | InstalledBuild, Iterable[Verdict], bool]] = [
        (pin, pin.choice.selection.verdicts, False) for pin in resolution.pins
    ]
    for kept in resolution.kept:
        listing = None if accelerators_of(kept.properties) else candidates.listing(kept.name)
        is_listed = listing is not None and kept.version in listing.releases
        choice = candidates.choice(kept.name, kept.version) if is_listed else None
        builds.append((kept, () if choice is None else choice.selection.verdicts, True))
    for build, verdicts, is_kept in builds:
        acceleration = acceleration_of(
            build.name,
            build.version,
            build.label,
            build.properties,
            verdicts,
            candidates,
            is_kept=is_kept,
        )
        if acceleration is not None:
            yield acceleration


def acceleration_of(
    name: NormalizedName,
    version: Version,
    label: Label | None,
    properties: PropertySet,
    verdicts: Iterable[Verdict],
    candidates: Candidates,
    *,
    is_kept: bool = False,
) -> Acceleration | None:
    """Return the use of accelerators by a package; None if no build of it uses one.

    :param verdicts: the verdicts on the wheels of the release, best first.
    :param candidates: the candidates; wheels for other platforms are considered too.
    """
    used = accelerators_of(properties)
    if used:
        return Acceleration(name, version, label, used, {}, is_kept)
    verdicts = [verdict for verdict in verdicts if verdict.filename.label is not None]
    document = candidates.document_of(name, version) if verdicts else None
    why_not: dict[str, str] = {}
    for verdict in verdicts:
        declared = document and document.properties(str(verdict.filename.label))
        for namespace in accelerators_of(declared or EMPTY):
            reason = (
                "it fits, but what is installed is kept"
                if is_kept and verdict.verdict != "rejected"
                else verdict.reason
            )
            why_not.setdefault(namespace, f"{verdict.filename.label}: {reason}")
    if not why_not:  # another release may have such builds
        for declared in candidates.offered_variants(name):
            for namespace in accelerators_of(declared):
                why_not[namespace] = "builds of another release use one, none of this release does"
    return Acceleration(name, version, label, (), why_not, is_kept) if why_not else None


def accelerated_release(
    candidates: Candidates,
    name: NormalizedName,
    versions: Sequence[Version],
    *,
    prereleases: bool,
) -> Version | None:
    """Return the newest release with a build for an accelerator of the machine.

    The compatible builds of a newer release may all leave the accelerator unused.

    :return: None if it is the newest compatible release, or if no recent release has such a build.
    """
    if not candidates.is_for_one_machine or name in candidates.policy.preferences.labels:
        return None
    listing = candidates.listing(name)
    admitted = [
        version
        for version in versions
        if listing is not None
        and version in listing.releases
        and not listing.releases[version].is_yanked
        and (prereleases or not version.is_prerelease)
    ]
    has_newer_build = False
    for version in admitted[:_MAX_RELEASES]:
        choice = candidates.choice(name, version)
        if accelerators_of(choice.properties):
            return version if has_newer_build else None
        if choice.chosen is not None:
            if not _has_builds_for_accelerator(choice):
                return None
            has_newer_build = True
    return None


def _has_builds_for_accelerator(choice: ReleaseChoice) -> bool:
    """Return whether a release has builds for an accelerator that the machine has.

    The accelerators that its builds name were looked for. If the machine has none of them, an older
    release is no better, so its document need not be read.
    """
    detections = choice.support.detections if choice.support else {}
    return any(
        namespace in ACCELERATORS and bool(detection.features)
        for namespace, detection in detections.items()
    )


_MAX_RELEASES = 8
"""Releases that are searched for a build for an accelerator."""


def no_accelerator_error(packages: Iterable[Acceleration]) -> NoFit | None:
    """Return the error for packages that use no accelerator; None if all use one."""
    unaccelerated = [package for package in packages if not package.used]
    if not unaccelerated:
        return None
    names = ", ".join(f"{package.name} {package.version}" for package in unaccelerated)
    verb, pronoun = ("uses", "it") if len(unaccelerated) == 1 else ("use", "them")
    lines = [
        f"{package}: {namespace}: {reason}"
        for package in unaccelerated
        for namespace, reason in package.why_not.items()
    ]
    hints = ["`wheelfit doctor` shows faults of the machine"]
    if any(package.is_kept for package in unaccelerated):
        hints.append("--force-reinstall replaces installed builds")
    hints.append("without --require-accelerator these builds are installed")
    return NoFit(
        f"{names} {verb} no accelerator, though other builds of {pronoun} do",
        code="no-accelerator",
        note="\n".join(lines),
        hint="; ".join(hints),
        details=[package.to_mapping() for package in unaccelerated],
    )
