"""Explanations of a choice: the verdict on every wheel of a release, with the reason."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from msgspec import structs

from wheelfit.core.properties import EMPTY, PropertySet
from wheelfit.core.unusable_metadata import MAX_SHOWN, Degradation
from wheelfit.errors import NoSolution
from wheelfit.resolution.catalogue import Catalogue, dependencies_of
from wheelfit.resolution.no_match import MatchExplanations, unknown_project
from wheelfit.resolution.prefetch import Prefetch
from wheelfit.resolution.release_choice import ReleaseChoice, notes_on_passed_over
from wheelfit.resolution.request import ResolutionRequest
from wheelfit.resolution.version_policy import VersionPolicy
from wheelfit_runtime.errors import NetworkError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.abi_dependency import KnownVersion
    from wheelfit.core.filename import WheelFilename
    from wheelfit.core.requirements import Requirement
    from wheelfit.core.selection import Verdict
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.listing import Listing
    from wheelfit_runtime.platforms.features import Detection


@dataclass(frozen=True, slots=True)
class Explanation:
    """The verdicts on the wheels of one release of a project."""

    name: NormalizedName
    version: Version | None
    """The explained release; None if no release of the project is allowed."""
    chosen: WheelFilename | None
    """The wheel that would be installed; None if no wheel is compatible."""
    properties: PropertySet = EMPTY
    """All properties of its label."""
    candidates: tuple[Verdict, ...] = ()
    """The verdicts on all wheels of the release, best first."""
    warnings: tuple[str, ...] = ()
    """The notes of a short explanation."""
    notes: tuple[str, ...] = ()
    source: str = ""
    """The source that supplies the project, without credentials (F-126)."""
    detections: tuple[Detection, ...] = ()
    """The detections of the namespaces, with their sources (P-21)."""
    built_for: tuple[tuple[str, str, KnownVersion | None], ...] = ()
    """The packages that the chosen wheel was built for: project, value of the property, and its
    version; None if the package is not chosen yet (P-51)."""
    degradations: tuple[Degradation, ...] = ()
    """The degradations by faulty metadata, for programs (F-136)."""
    sources: tuple[tuple[str, str], ...] = ()
    """Ignored source distributions: file name and reason (F-92)."""
    unbuilt: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The sources of wheels that are not built yet, by the provisional file name."""

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
                        "how": "is chosen together with it" if known is None else known.state,
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
    """Explain the choice among the wheels of one listed release."""
    notes: list[str] = []
    choice = _usable_choice(candidates, name, version, notes)
    explanation = explain_choice(candidates, choice)
    return replace(explanation, notes=(*notes, *explanation.notes))


def explain_choice(candidates: Candidates, choice: ReleaseChoice) -> Explanation:
    """Explain a choice among the wheels of one release, made alone or in a resolution."""
    listing = candidates.listing(choice.release.name)
    release = f"{choice.release.name} {choice.release.version}"
    # If there are degradations, the first note summarises the first ones, and becomes a warning.
    # Here the others are listed too.
    summary = choice.notes[:1] if choice.degradations else ()
    hidden = (f"{release}: {degradation}" for degradation in choice.degradations[MAX_SHOWN:])
    notes = (*choice.metadata.notes, *hidden, *choice.notes, *choice.remarks)
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
        (*summary, *candidates.warnings_about([choice])),
        tuple(note for note in notes if note not in summary),
        source,
        tuple(choice.support.detections.values()) if choice.support else (),
        tuple(choice.support.built_for(choice.properties)) if choice.support else (),
        choice.degradations,
        choice.release.ignored_sources,
        {
            wheel.filename.text: wheel.file.display_name
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
    """Explain the choice for one requirement, without other requirements and installed packages.

    The explained release is the newest that matches the requirement and has a compatible wheel; if
    there is none, the newest that matches the requirement.

    :param requirement: the requirement; its marker and extras are ignored.
    :raises ProjectNotFound: no source has the project.
    :raises NoSolution: no release matches the requirement.
    :raises NoFit: ``unknown-label``; no release that matches has the requested label (F-91).
    """
    name = requirement.name
    listing = candidates.listing(name)
    if listing is None:
        raise unknown_project(name, candidates)
    limits = [constraint.specifier for constraint in constraints if constraint.name == name]
    specifier = reduce(and_, limits, requirement.specifier)
    dependency = dependencies_of(structs.replace(requirement, specifier=specifier))[0]
    catalogue = Catalogue(
        ResolutionRequest(), candidates, Prefetch(candidates, threads=0), [dependency]
    )
    policy = VersionPolicy(catalogue, prereleases=prereleases)
    policy.add_dependency(dependency)
    rejected_choices: list[ReleaseChoice] = []
    notes: list[str] = []
    versions = policy.choices(name, dependency.versions)
    tried_first = catalogue.preferred_version(name)  # the solver tries it first
    for version in sorted(versions, key=lambda version: version != tried_first):
        unread_notes: list[str] = []
        if _is_usable(catalogue, name, version, unread_notes):
            is_older_for_build = version == tried_first and version < versions[0]
            if is_older_for_build and listing.bridge is None:  # a bridge has a note of its own
                notes.append(
                    f"{name} {versions[0]} is newer and has no build for the accelerator of this "
                    f"machine; {name}=={versions[0]} selects it"
                )
            newer = [
                choice
                for choice in rejected_choices
                if not listing.is_same_release(choice.release.version, version)
            ]
            explanation = explain_choice(candidates, candidates.choice(name, version))
            return _with_notes(
                explanation, (*notes_on_passed_over(newer), *notes, *unread_notes), listing
            )
        rejected_choices.append(candidates.choice(name, version))
    no_match = MatchExplanations(catalogue, prereleases=prereleases)
    if (error := no_match.unknown_label(name, dependency.versions)) is not None:
        raise error
    members = dependency.versions.members(listing.releases)
    if not members:
        raise NoSolution(f"no version of {name} matches {name}{specifier}", note=listing.newest)
    # A yanked release is admitted only by a pin.
    yanked = catalogue.yanked(name).difference(versions)
    members = [member for member in members if member not in yanked]
    if not members:
        raise NoSolution(no_match.no_version(name, dependency.versions), note=listing.newest)
    explained_version = next((member for member in members if not member.is_prerelease), members[0])
    explanation = explain_release(candidates, name, explained_version)
    return _with_notes(explanation, tuple(notes_on_passed_over(rejected_choices)), listing)


def _is_usable(
    catalogue: Catalogue, name: NormalizedName, version: Version, notes: list[str]
) -> bool:
    """Return whether a release has a compatible wheel.

    METADATA is read only if the page does not list the Python that the wheel requires.

    :param notes: a list that a note is added to if METADATA cannot be read.
    """
    choice = catalogue.candidates.choice(name, version)
    if _has_listed_python(choice):
        return True
    try:
        return catalogue.is_usable(name, version)
    except NetworkError as error:
        notes.append(_unread_metadata(choice, error))
        return choice.chosen is not None


def _usable_choice(
    candidates: Candidates, name: NormalizedName, version: Version, notes: list[str]
) -> ReleaseChoice:
    """Return the choice among the wheels of a release; METADATA is read as by `_is_usable`."""
    choice = candidates.choice(name, version)
    if _has_listed_python(choice):
        return choice
    try:
        return candidates.usable_choice(name, version)
    except NetworkError as error:
        notes.append(_unread_metadata(choice, error))
        return choice


def _has_listed_python(choice: ReleaseChoice) -> bool:
    wheel = choice.chosen
    if wheel is None or choice.release.is_direct:
        return False
    return wheel.file.origin is None and wheel.file.requires_python is not None


def _unread_metadata(choice: ReleaseChoice, error: NetworkError) -> str:
    name = "" if choice.chosen is None else choice.chosen.filename.text
    return (
        f"the METADATA of {name} cannot be read, so it is not known whether the wheel is for this "
        f"Python: {error.message}"
    )


def _with_notes(explanation: Explanation, before: Sequence[str], listing: Listing) -> Explanation:
    ignored = (f"ignored: {why}" for why in listing.ignored)
    notes = (*before, *explanation.notes, *listing.notes, *ignored)
    return replace(explanation, notes=tuple(dict.fromkeys(notes)))
