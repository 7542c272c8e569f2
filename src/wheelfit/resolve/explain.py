"""Why this wheel, and why none of the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wheelfit.core.phrases import PACKAGE_LIST
from wheelfit.core.properties import EMPTY
from wheelfit.core.requirements import Requirement
from wheelfit.errors import NoSolution, ProjectNotFound
from wheelfit.platforms.features import Status
from wheelfit.resolve.admission import Admission
from wheelfit.resolve.catalogue import Catalogue, needs_of
from wheelfit.resolve.lookahead import Lookahead
from wheelfit.resolve.request import Asked, Request

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.filename import WheelFilename
    from wheelfit.core.properties import PropertySet
    from wheelfit.core.selection import Verdict
    from wheelfit.core.support import Support
    from wheelfit.resolve.candidates import Candidates, ReleaseChoice

__all__ = ["ACCELERATORS", "Explanation", "explain_project", "explain_release", "warnings_about"]


def __dir__() -> list[str]:
    return __all__


ACCELERATORS = frozenset({"amd", "ascend", "intel", "nvidia", "tpu"})
"""Namespaces of hardware that people buy for speed (November 2026)."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Hold the verdicts on the wheels of one release of a project."""

    name: NormalizedName
    version: Version | None
    """The release that is shown; None when the project has none in question."""
    chosen: WheelFilename | None
    """The wheel that would be installed; None when none fits."""
    properties: PropertySet = EMPTY
    """All properties of its label."""
    candidates: tuple[Verdict, ...] = ()
    """Every wheel of the release, best first."""
    warnings: tuple[str, ...] = ()
    """What somebody who only glances should still see."""
    notes: tuple[str, ...] = ()
    """What else is worth knowing, degradations among it (F-136)."""

    def to_mapping(self) -> dict[str, Any]:
        """Return it as plain data, as ``docs/reference/json.md`` describes."""
        chosen = None
        if self.chosen is not None:
            chosen = {
                "filename": self.chosen.text,
                "label": self.chosen.label,
                "properties": [str(item) for item in self.properties],
            }
        return {
            "name": self.name,
            "version": None if self.version is None or chosen is None else str(self.version),
            "chosen": chosen,
            "candidates": [
                {
                    "filename": verdict.filename.text,
                    "label": verdict.filename.label,
                    "verdict": str(verdict.verdict),
                    "reason": verdict.reason,
                }
                for verdict in self.candidates
            ],
            "warnings": list(self.warnings),
            "notes": list(self.notes),
        }


def explain_release(candidates: Candidates, name: NormalizedName, version: Version) -> Explanation:
    """Explain the choice among the wheels of one release.

    :param candidates: what there is, and how to choose.
    :param name: the project.
    :param version: the release; it must be listed.
    :raises NetworkError: a source cannot be read.
    """
    choice = candidates.usable(name, version)
    return Explanation(
        name,
        version,
        choice.selection.chosen,
        choice.properties,
        tuple(choice.selection.verdicts),
        tuple(warnings_about(choice)),
        choice.notes,
    )


def explain_project(
    candidates: Candidates,
    requirement: Requirement,
    *,
    constraints: Sequence[Requirement] = (),
    prereleases: bool = False,
) -> Explanation:
    """Explain what would be chosen for one requirement taken by itself.

    The newest release that fits the requirement and has a wheel that fits the
    target is shown; if there is none, the newest that fits the requirement. What
    else is needed or installed does not count here.

    :param candidates: what there is, and how to choose.
    :param requirement: its marker and extras do not matter.
    :param constraints: limits that hold besides.
    :param prereleases: whether pre-releases count like final releases.
    :raises ProjectNotFound: no source knows the project.
    :raises NoSolution: no release fits the requirement.
    :raises NetworkError: a source cannot be read.
    """
    name = requirement.name
    listing = candidates.listing(name)
    if listing is None:
        raise ProjectNotFound(
            f"no source knows a project named {name}",
            where=candidates.repository.name,
            hint="check the spelling and the index",
        )
    limits = [requirement, *(one for one in constraints if one.name == name)]
    limited = Requirement(name, specifier=_joint(limits))
    (need,) = needs_of(limited)
    request = Request((Asked(limited),), prereleases=prereleases)
    with Lookahead(candidates, threads=0) as nobody:
        admission = Admission(
            Catalogue(request, candidates, nobody, [need]), prereleases=prereleases
        )
    admission.see(need)
    passed: list[str] = []
    for version in admission.choices(name, need.versions):
        explanation = explain_release(candidates, name, version)
        if explanation.chosen is not None:
            return _with_notes(explanation, passed, listing.notes)
        reason = candidates.choice(name, version).reason
        passed.append(f"{name} {version} is passed over, no wheel of it fits: {reason}")
    members = need.versions.members(listing.releases)
    if not members:
        newest = next(iter(listing.releases), None)
        raise NoSolution(
            f"there is no {name}{need.versions}",
            note=f"the newest is {newest}" if newest else f"{name} has no files",
        )
    shown = next((one for one in members if not one.is_prerelease), members[0])
    return _with_notes(explain_release(candidates, name, shown), passed, listing.notes)


def warnings_about(choice: ReleaseChoice) -> Iterator[str]:
    """Yield what a user should not overlook about a choice.

    :param choice: with or without a chosen wheel.
    """
    support = choice.support
    if support is None:
        return
    used = set(choice.properties.namespaces)
    chosen = choice.selection.chosen
    for namespace in used:
        # P-20: the standard says to believe the package; the user should know.
        if namespace in ACCELERATORS and support.holders.get(namespace) == PACKAGE_LIST:
            yield (
                f"the package itself says that {namespace} is supported; this machine was not asked"
            )
    missed = [
        namespace for namespace in sorted(ACCELERATORS - used) if _is_there(support, namespace)
    ]
    if chosen is not None and missed and not used & ACCELERATORS:
        kind = "plain" if chosen.label is None else chosen.label
        for namespace in missed:
            reason = _why_not(choice, namespace)
            if reason is not None:
                yield (
                    f"{namespace} hardware is present, but the chosen build "
                    f"({kind}) does not use it: {reason}"
                )
    for namespace, detection in support.detections.items():
        if detection.status is Status.FAILED:
            what = "; ".join(f"{one.source}: {one.value}" for one in detection.evidence)
            yield f"detection of {namespace} failed, so its builds count as unsupported: {what}"


def _is_there(support: Support, namespace: str) -> bool:
    detection = support.detections.get(namespace)
    return (
        detection is not None
        and detection.status is Status.SUPPORTED
        and support.holders.get(namespace) != PACKAGE_LIST
    )


def _why_not(choice: ReleaseChoice, namespace: str) -> str | None:
    """Return why the best build that uses some hardware was not chosen."""
    for verdict in choice.selection.verdicts:
        properties = verdict.properties
        if properties is not None and namespace in properties.namespaces:
            return f"{verdict.filename.label}: {verdict.reason}"
    return None


def _joint(requirements: Sequence[Requirement]) -> Any:
    joint = requirements[0].specifier
    for requirement in requirements[1:]:
        joint &= requirement.specifier
    return joint


def _with_notes(
    explanation: Explanation, passed: Sequence[str], listed: Sequence[str]
) -> Explanation:
    notes = dict.fromkeys((*passed, *explanation.notes, *listed))
    return Explanation(
        explanation.name,
        explanation.version,
        explanation.chosen,
        explanation.properties,
        explanation.candidates,
        explanation.warnings,
        tuple(notes),
    )
