"""Which packages of a result could use an accelerator, and would not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.core.accelerators import ACCELERATORS, accelerators_of
from wheelfit.core.properties import EMPTY
from wheelfit_runtime.errors import NoFit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.labels import Label
    from wheelfit.core.properties import PropertySet
    from wheelfit.core.selection import Verdict
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.release_choice import ReleaseChoice
    from wheelfit.resolution.resolution import Resolution


class Acceleration(Struct, frozen=True):
    """The accelerators that a package could use, and whether its build uses one."""

    name: NormalizedName
    version: Version
    label: Label | None
    """Of the build; None for a plain one."""
    used: tuple[str, ...]
    """Namespaces of the accelerators that the build uses."""
    why_not: Mapping[str, str]
    """Namespaces of the accelerators that builds of the release use, or else of the newest one
    with variants, each with why the best of them is not the one; empty where the build uses an
    accelerator."""
    is_kept: bool = False
    """Whether the build is installed already, and stays."""

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
    """Yield the packages of a result that come in builds that use an accelerator.

    :param resolution: the resolution.
    :param candidates: the candidates it was chosen from.
    :raises NetworkError: a source cannot be read.
    """
    candidates = candidates.within(resolution.context)
    for pin in resolution.pins:
        acceleration = acceleration_of(
            pin.name,
            pin.version,
            pin.label,
            pin.properties,
            pin.choice.selection.verdicts,
            candidates,
        )
        if acceleration is not None:
            yield acceleration
    for kept in resolution.kept:
        listing = None if accelerators_of(kept.properties) else candidates.listing(kept.name)
        is_listed = listing is not None and kept.version in listing.releases
        verdicts: Iterable[Verdict] = ()
        if is_listed:
            verdicts = candidates.choice(kept.name, kept.version).selection.verdicts
        acceleration = acceleration_of(
            kept.name,
            kept.version,
            kept.label,
            kept.properties,
            verdicts,
            candidates,
            is_kept=True,
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
    """Return the use of accelerators by a package; None for most packages.

    :param name: the project.
    :param version: its release.
    :param label: the label of the chosen build.
    :param properties: the properties of the label.
    :param verdicts: the verdicts on the wheels of the release, best first.
    :param candidates: the candidates; wheels for other platforms count too.
    :param is_kept: whether the build is installed already.
    :raises NetworkError: a source cannot be read.
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
    if not why_not:  # a release without such builds is no way round either
        for declared in candidates.offered(name):
            for namespace in accelerators_of(declared):
                why_not[namespace] = "builds of another release use one, none of this release does"
    return Acceleration(name, version, label, (), why_not, is_kept) if why_not else None


def accelerated(
    candidates: Candidates,
    name: NormalizedName,
    versions: Sequence[Version],
    *,
    prereleases: bool,
) -> Version | None:
    """Return the newest release with a build that uses an accelerator of the machine.

    Otherwise a newer release with only incompatible builds of this kind would leave the accelerator
    idle.

    :param candidates: the candidates, with the machine and the user's preferences.
    :param name: the project.
    :param versions: its releases, newest first.
    :param prereleases: whether pre-releases count.
    :return: None where that is the newest compatible release, or none of the newest ones has such a
        build.
    :raises NetworkError: a source cannot be read.
    """
    if not candidates.is_for_one_machine or name in candidates.policy.preferences.labels:
        return None
    listing = candidates.listing(name)
    counting = [
        version
        for version in versions
        if listing is not None
        and version in listing.releases
        and not listing.releases[version].is_yanked
        and (prereleases or not version.is_prerelease)
    ]
    is_any_without = False
    for version in counting[:_LOOKED_AT]:
        choice = candidates.choice(name, version)
        if accelerators_of(choice.properties):
            return version if is_any_without else None
        if choice.chosen is not None:
            if not _is_for_an_accelerator_here(choice):
                return None
            is_any_without = True
    return None


def _is_for_an_accelerator_here(choice: ReleaseChoice) -> bool:
    """Return whether a release has builds for an accelerator that the machine has.

    The accelerators of plain wheels are unknown, and on a machine without accelerators no older
    release has a better build: the documents of others need not be read.
    """
    detections = choice.support.detections if choice.support else {}
    return any(
        namespace in ACCELERATORS and bool(detection.features)
        for namespace, detection in detections.items()
    )


_LOOKED_AT = 8
"""Releases in which a build for an accelerator is looked for."""


def refusal(packages: Iterable[Acceleration]) -> NoFit | None:
    """Return the error that packages would go without an accelerator; None if none does.

    :param packages: the result of `accelerations`.
    """
    without = [one for one in packages if not one.used]
    if not without:
        return None
    names = ", ".join(f"{one.name} {one.version}" for one in without)
    verb, whose = ("uses", "it") if len(without) == 1 else ("use", "them")
    lines = [
        f"{one}: {namespace}: {reason}"
        for one in without
        for namespace, reason in one.why_not.items()
    ]
    hints = ["`wheelfit doctor` says what is wrong with the machine"]
    if any(one.is_kept for one in without):
        hints.append("--force-reinstall replaces what is installed")
    hints.append("without --require-accelerator the builds named are taken")
    return NoFit(
        f"{names} {verb} no accelerator, though other builds of {whose} do",
        code="no-accelerator",
        note="\n".join(lines),
        hint="; ".join(hints),
        details=[one.to_mapping() for one in without],
    )
