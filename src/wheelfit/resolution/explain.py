"""Why this wheel, and why none of the others."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from msgspec import structs

from wheelfit.core.properties import EMPTY
from wheelfit.core.unusable_metadata import TOLD
from wheelfit.errors import NoSolution
from wheelfit.resolution.catalogue import Catalogue, needs_of
from wheelfit.resolution.no_match import NoMatch, unknown_project
from wheelfit.resolution.prefetch import Prefetch
from wheelfit.resolution.release_choice import passed_over
from wheelfit.resolution.request import ResolutionRequest
from wheelfit.resolution.version_policy import VersionPolicy
from wheelfit_runtime.errors import NetworkError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.abi_dependency import KnownVersion
    from wheelfit.core.filename import WheelFilename
    from wheelfit.core.properties import PropertySet
    from wheelfit.core.requirements import Requirement
    from wheelfit.core.selection import Verdict
    from wheelfit.core.unusable_metadata import Degradation
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.listing import Listing
    from wheelfit.resolution.release_choice import ReleaseChoice
    from wheelfit_runtime.platforms.features import Detection


@dataclass(frozen=True, slots=True)
class Explanation:
    """The verdicts on the wheels of one release of a project."""

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
    """The warnings, which even a short explanation shows."""
    notes: tuple[str, ...] = ()
    """Further notes."""
    source: str = ""
    """Which source supplies the project, without credentials (F-126)."""
    detections: tuple[Detection, ...] = ()
    """The detections of the namespaces, with their sources (P-21)."""
    built_for: tuple[tuple[str, str, KnownVersion | None], ...] = ()
    """The packages that the winner was built for: project, value, and the version that
    decided; no version where the package is still to be chosen (P-51)."""
    degradations: tuple[Degradation, ...] = ()
    """The degradations by faulty metadata, for programs (F-136)."""
    sources: tuple[tuple[str, str], ...] = ()
    """Source distributions that do not count: name, and why (F-92)."""
    unbuilt: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The sources of unbuilt wheels, by the provisional file name."""

    def shown(self, filename: WheelFilename) -> str:
        """Return the name of a wheel for users."""
        return self.unbuilt.get(filename.text, filename.text)

    def to_mapping(self) -> dict[str, Any]:
        """Return it as plain data, as ``docs/reference/json.md`` describes."""
        chosen = None
        if self.chosen is not None:
            chosen = {
                "filename": self.shown(self.chosen),
                "label": self.chosen.label,
                "properties": [str(item) for item in self.properties],
                "built_for": [
                    {
                        "name": project,
                        "value": value,
                        "version": None if known is None else str(known.version),
                        "how": "is chosen together with it" if known is None else known.how,
                    }
                    for project, value, known in self.built_for
                ],
            }
        return {
            "name": self.name,
            "version": None if self.chosen is None else str(self.chosen.version),
            "chosen": chosen,
            "candidates": [
                {
                    "filename": self.shown(verdict.filename),
                    "label": verdict.filename.label,
                    "verdict": str(verdict.verdict),
                    "reason": verdict.reason,
                }
                for verdict in self.candidates
            ]
            + [
                {"filename": name, "label": None, "verdict": "rejected", "reason": reason}
                for name, reason in self.sources
            ],
            "warnings": list(self.warnings),
            "notes": list(self.notes),
            "degradations": [degradation.to_mapping() for degradation in self.degradations],
            "providers": [
                {
                    "namespace": detection.namespace,
                    "status": str(detection.status),
                    "step": detection.step or None,
                    "source": detection.source,
                    "warnings": list(detection.warnings),
                    "plugin": None if detection.plugin is None else detection.plugin.to_mapping(),
                }
                for detection in self.detections
            ],
            "source": self.source,
        }


def explain_release(candidates: Candidates, name: NormalizedName, version: Version) -> Explanation:
    """Explain the choice among the wheels of one release.

    :param candidates: the candidates, with the settings for choosing.
    :param name: the project.
    :param version: the release; it must be listed.
    :raises NetworkError: a source cannot be read.
    """
    unread: list[str] = []
    choice = _read(candidates, name, version, unread)
    explanation = explain_choice(candidates, choice)
    return replace(explanation, notes=(*unread, *explanation.notes))


def explain_choice(candidates: Candidates, choice: ReleaseChoice) -> Explanation:
    """Explain a choice that was made, by itself or together with others.

    :param candidates: the candidates.
    :param choice: the choice among the wheels of one release.
    :raises NetworkError: a source cannot be read.
    """
    listing = candidates.listing(choice.release.name)
    release = f"{choice.release.name} {choice.release.version}"
    line = choice.notes[: bool(choice.degradations)]
    untold = (f"{release}: {degradation}" for degradation in choice.degradations[TOLD:])
    notes = (*choice.metadata.notes, *untold, *choice.notes, *choice.remarks)
    if listing is not None and listing.bridge is not None:
        labels = {wheel.filename.label for wheel in choice.release.wheels}
        notes = (*listing.bridge.notes(choice.release.version, labels, listing.name), *notes)
    source = "" if listing is None else listing.source
    if choice.chosen is not None and choice.chosen.file.source:
        source = choice.chosen.file.source
    return Explanation(
        choice.release.name,
        choice.release.version,
        choice.selection.chosen,
        choice.properties,
        tuple(choice.selection.verdicts),
        (*line, *candidates.cautions([choice])),
        tuple(note for note in notes if note not in line),
        source,
        tuple(choice.support.detections.values()) if choice.support else (),
        tuple(choice.support.built_for(choice.properties)) if choice.support else (),
        choice.degradations,
        choice.release.others,
        {
            wheel.filename.text: wheel.file.shown
            for wheel in choice.release.wheels
            if wheel.file.origin is not None
        },
    )


def explain_project(
    candidates: Candidates,
    requirement: Requirement,
    *,
    constraints: Sequence[Requirement] = (),
    prereleases: bool = False,
) -> Explanation:
    """Explain what would be chosen for one requirement taken by itself.

    The newest release that fits the requirement and has a wheel that fits the target is shown; if
    there is none, the newest that fits the requirement. Other requirements and installed packages
    do not count here.

    :param candidates: the candidates, with the settings for choosing.
    :param requirement: its marker and extras do not matter.
    :param constraints: further limits.
    :param prereleases: whether pre-releases count like final releases.
    :raises ProjectNotFound: no source has the project.
    :raises NoSolution: no release fits the requirement.
    :raises NoFit: ``unknown-label``; none of them has the requested label (F-91).
    :raises NetworkError: a source cannot be read.
    """
    name = requirement.name
    listing = candidates.listing(name)
    if listing is None:
        raise unknown_project(name, candidates)
    limits = [constraint.specifier for constraint in constraints if constraint.name == name]
    specifier = reduce(and_, limits, requirement.specifier)
    need = needs_of(structs.replace(requirement, specifier=specifier))[0]
    catalogue = Catalogue(ResolutionRequest(), candidates, Prefetch(candidates, threads=0), [need])
    admission = VersionPolicy(catalogue, prereleases=prereleases)
    admission.see(need)
    passed: list[ReleaseChoice] = []
    newer: list[str] = []
    choices = admission.choices(name, need.versions)
    favoured = catalogue.kept(name)  # as the solver begins with it
    for version in sorted(choices, key=lambda one: one != favoured):
        unread: list[str] = []
        if _is_usable(catalogue, name, version, unread):
            if version == favoured and version < choices[0] and listing.bridge is None:
                newer.append(
                    f"{name} {choices[0]} is newer and has no build for the accelerator of this "
                    f"machine; {name}=={choices[0]} takes it"
                )
            newest = [
                one for one in passed if not listing.is_same_release(one.release.version, version)
            ]
            notes = (*passed_over(newest), *newer, *unread)
            explanation = explain_choice(candidates, candidates.choice(name, version))
            return _with_notes(explanation, notes, listing)
        passed.append(candidates.choice(name, version))
    lack = NoMatch(catalogue, prereleases=prereleases)
    if (unknown := lack.unknown_label(name, need.versions)) is not None:
        raise unknown
    members = need.versions.members(listing.releases)
    if not members:
        raise NoSolution(f"no version of {name} matches {name}{need.versions}", note=listing.newest)
    shown = next((member for member in members if not member.is_prerelease), members[0])
    notes = tuple(passed_over(passed))
    return _with_notes(explain_release(candidates, name, shown), notes, listing)


def _is_usable(
    catalogue: Catalogue, name: NormalizedName, version: Version, unread: list[str]
) -> bool:
    """Return whether a release has a wheel that fits.

    METADATA is read only where the page does not state the Python a wheel requires.

    :param unread: gets a note if it should be read and cannot be.
    """
    choice = catalogue.candidates.choice(name, version)
    if _says_which_python(choice):
        return True
    try:
        return catalogue.is_usable(name, version)
    except NetworkError as error:
        unread.append(_unread(choice, error))
        return choice.chosen is not None


def _read(
    candidates: Candidates, name: NormalizedName, version: Version, unread: list[str]
) -> ReleaseChoice:
    """Return the choice among the wheels of a release, METADATA read as for `_is_usable`."""
    choice = candidates.choice(name, version)
    if _says_which_python(choice):
        return choice
    try:
        return candidates.usable(name, version)
    except NetworkError as error:
        unread.append(_unread(choice, error))
        return choice


def _says_which_python(choice: ReleaseChoice) -> bool:
    wheel = choice.chosen
    if wheel is None or choice.release.is_given:
        return False
    return wheel.file.origin is None and wheel.file.requires_python is not None


def _unread(choice: ReleaseChoice, error: NetworkError) -> str:
    name = "" if choice.chosen is None else choice.chosen.filename.text
    return (
        f"the METADATA of {name} cannot be read, so it is not known whether the wheel is for this "
        f"Python: {error.message}"
    )


def _with_notes(explanation: Explanation, before: Sequence[str], listing: Listing) -> Explanation:
    ignored = (f"ignored: {why}" for why in listing.ignored)
    notes = (*before, *explanation.notes, *listing.notes, *ignored)
    return replace(explanation, notes=tuple(dict.fromkeys(notes)))
