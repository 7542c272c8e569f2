"""The wheels of a resolved release that a lock lists, and the requirements by label.

The resolver chose one wheel of each release. A lock lists the others too, if their requirements
are compatible with the locked versions (F-120); packages that only they require are locked as well.
Labels with incompatible requirements are left out, with a reason.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from wheelfit.core.abi_dependency import KnownVersion, KnownVersions
from wheelfit.core.markers import VariantContext
from wheelfit.errors import InvalidMarker
from wheelfit.locking.request import NO_FORK, Fork, LockNeeds
from wheelfit.resolution.choice_context import ChoiceContext
from wheelfit.resolution.request import RequestedRequirement
from wheelfit.sources.concurrency import map_concurrently
from wheelfit_runtime.errors import HashMismatch, NoFit, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from packaging.specifiers import SpecifierSet
    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.core_metadata import CoreMetadata
    from wheelfit.core.labels import Label
    from wheelfit.core.requirements import Requirement
    from wheelfit.core.target import Target
    from wheelfit.locking.environments import LockEnvironment
    from wheelfit.locking.solving import Solution, Solver
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.listing import Release
    from wheelfit.resolution.resolution import Pin

Needs = tuple[tuple["NormalizedName | None", "Requirement"], ...]
"""Requirements, each with its extra; None: it applies without an extra."""


class ListedProject(Struct, frozen=True):
    """The wheels of one project that a lock lists for one environment."""

    name: NormalizedName
    version: Version
    release: Release
    """All its files in listings."""
    wheels: frozenset[str]
    """File names of the wheels that may be locked."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """File names of the wheels that fit the target but may not be locked, with the reason."""
    needs: Mapping[Label | None, Needs] = field(default_factory=dict)
    """The possible requirements of each label's wheel."""
    pythons: frozenset[SpecifierSet] = frozenset()
    """The ``Requires-Python`` of its wheels."""


class ListedEnvironment(Struct, frozen=True):
    """The wheels that a lock lists for one environment."""

    environment: LockEnvironment
    solution: Solution
    projects: Mapping[NormalizedName, ListedProject]
    fork: Fork = NO_FORK
    """The choice among conflicting extras and groups that it was resolved for."""


def possible_needs(
    core: CoreMetadata,
    context: VariantContext,
    target: Target,
    extras: Collection[NormalizedName],
) -> Iterator[tuple[NormalizedName | None, Requirement]]:
    """Yield the possible requirements of a wheel on a target, with their extras (F-103).

    :param context: its label with all properties that the label declares.
    """
    environment = target.environment
    for requirement in core.requires:
        marker = requirement.marker
        # For any machine, so variant variables may remain.
        remaining = True if marker is None else marker.resolve_variants(context, filtered=False)
        if isinstance(remaining, bool):
            if remaining:
                yield None, requirement
            continue
        if remaining.uses_variants:
            yield None, requirement  # the machine decides
            continue
        try:
            if remaining.evaluate(environment):
                yield None, requirement
                continue
            for extra in extras:
                if remaining.evaluate(environment, extra):
                    yield extra, requirement
        except InvalidMarker:
            continue  # the resolver has reported it


_Release: TypeAlias = tuple["NormalizedName", "Version"]
_Key: TypeAlias = tuple["NormalizedName", "Version", "Label | None"]
_LabelNeeds: TypeAlias = "tuple[frozenset[NormalizedName], Needs]"
"""The possible requirements of a label, with the extras they were read for."""


def _has_label_choice(pin: Pin) -> bool:
    """Return whether a release has variants, of which the user has not named one."""
    release = pin.choice.release
    return not release.is_direct and any(wheel.filename.is_variant for wheel in release.wheels)


class _LabelWithNeeds(NamedTuple):
    """A label of a release, and the possible requirements of its wheel on other projects."""

    key: _Key
    description: str
    """Name, version and label, as the origin of requirements in messages."""
    needs: tuple[Requirement, ...]


class LabelSearch:
    """A search through labels until no label requires anything that is not locked.

    :param solution: the solution of an environment, with the best label of each release.
    """

    def __init__(self, solver: Solver, solution: Solution) -> None:
        self._solver = solver
        self._set_solution(solution)
        self._request: LockNeeds = solver.request
        self._target = solution.environment.target
        self._refused: dict[_Key, str] = {}
        self._needs: dict[_Release, dict[Label | None, _LabelNeeds]] = {}
        self._pythons: dict[_Release, set[SpecifierSet]] = {}

    def listed(self) -> ListedEnvironment:
        """Return every wheel that a machine of the environment could use."""
        candidates = self._read_until_stable()
        projects = {
            pin.name: self._listed_project(pin, self._candidates_for(pin, candidates))
            for pin in self._solution.resolution.pins
        }
        return ListedEnvironment(self._solution.environment, self._solution, projects)

    def _set_solution(self, solution: Solution) -> None:
        self._solution = solution
        self._versions, self._extras = solution.versions, solution.extras
        self._locked = self._solver.locked_candidates(solution)

    def _read_until_stable(self) -> Candidates:
        while True:
            before = self._solution
            known = {  # P-51: the lock has no other version
                name: KnownVersion(version, "is in the lock")
                for name, version in before.versions.items()
            }
            candidates = self._locked.within(ChoiceContext(known_versions=KnownVersions(known)))
            self._fetch_ahead(candidates)
            labels: list[_LabelWithNeeds] = []
            for pin in self._solution.resolution.pins:
                labels += self._read_labels(pin, self._candidates_for(pin, candidates))
            self._lock_needs(labels)
            if self._solution is before:
                return candidates

    def _fetch_ahead(self, candidates: Candidates) -> None:
        """Prefetch the metadata of labels concurrently; failures are raised by the later read."""
        unread = [
            (pin.name, pin.release, label)
            for pin in self._solution.resolution.pins
            if _has_label_choice(pin)
            for label in candidates.choice(pin.name, pin.release).labels
            if label not in self._needs.get((pin.name, pin.release), ())
        ]
        threads = min(self._solver.threads, len(unread))
        if threads < 2:
            return

        def fetch(item: tuple[NormalizedName, Version, Label | None]) -> None:
            with suppress(WheelfitError):
                candidates.wheel_with_label(*item)

        map_concurrently(unread, fetch, most=threads)

    def _candidates_for(self, pin: Pin, restricted: Candidates) -> Candidates:
        """Return the restricted candidates for a release with a choice of labels.

        For any other release, return the candidates of the solution.
        """
        return restricted if _has_label_choice(pin) else self._solution.candidates

    def _read_labels(self, pin: Pin, candidates: Candidates) -> Iterator[_LabelWithNeeds]:
        """Read and yield the labels of a release; nothing if it has only the plain wheel.

        Labels that were read before are yielded again: with new requirements the resolver may have
        chosen another label, and dropped packages that only the old one required.
        """
        choice = candidates.choice(pin.name, pin.release)
        extras = self._extras[pin.name]
        needs_by_label = self._needs.setdefault((pin.name, pin.release), {})
        for label in choice.labels:
            key = (pin.name, pin.release, label)
            if key in self._refused:
                continue
            cached = needs_by_label.get(label)
            if cached is None or cached[0] != extras:
                wheel = candidates.wheel_with_label(pin.name, pin.release, label)
                if wheel is None:
                    continue
                core = candidates.core_metadata(wheel)
                context = VariantContext(label or "", choice.declared(label))
                needs = self._possible_needs(core, context, extras)
                cached = (extras, needs if self._request.dependencies else ())
                needs_by_label[label] = cached
                if core.requires_python is not None:
                    self._pythons.setdefault(key[:2], set()).add(core.requires_python)
            if len(choice.labels) > 1 or label is not None:
                description = f"{pin.name} {pin.release}" + (f" ({label})" if label else "")
                needs_on_others = tuple(
                    requirement for _, requirement in cached[1] if requirement.name != pin.name
                )
                yield _LabelWithNeeds(key, description, needs_on_others)

    def _possible_needs(
        self, core: CoreMetadata, context: VariantContext, extras: frozenset[NormalizedName]
    ) -> Needs:
        """Return the requirements of a wheel, with those of extras of itself that it requires."""
        while True:
            needs = tuple(possible_needs(core, context, self._target, extras))
            own_extras = {
                extra
                for _, requirement in needs
                if requirement.name == core.name
                for extra in requirement.extras
            }
            if own_extras <= extras:
                return needs
            extras |= own_extras

    def _lock_needs(self, labels: Sequence[_LabelWithNeeds]) -> None:
        """Lock the requirements of labels that are not locked yet.

        All are added at once, which mostly succeeds. Otherwise each half of the labels is tried
        alone, the better labels of a release first, until only incompatible ones are left.
        """
        unlocked = dict.fromkeys(
            requirement for label in labels for requirement in self._unlocked_needs(label)
        )
        if not unlocked:
            return
        try:
            solution = self._solver.resolve_again(self._solution, self._locked, tuple(unlocked))
        except (NoFit, HashMismatch) as error:
            if len(labels) > 1:
                middle = len(labels) // 2
                self._lock_needs(labels[:middle])
                self._lock_needs(labels[middle:])
                return
            (label,) = labels
            names = ", ".join(str(requested.requirement) for requested in unlocked)
            self._refused[label.key] = (
                f"it needs {names}, which is incompatible with the locked versions: {error.message}"
            )
        else:
            self._set_solution(solution)

    def _unlocked_needs(self, label: _LabelWithNeeds) -> Sequence[RequestedRequirement]:
        """Return the requirements of a label that are not locked yet.

        A label that contradicts locked versions is refused, and the result is empty.
        """
        unlocked = []
        for requirement in label.needs:
            for needed in self._request.effective_requirements(requirement, self._target):
                unconditional = replace(needed, marker=None)
                if unconditional.url is not None:
                    self._refused[label.key] = f"it needs {unconditional.name} from a URL"
                    return ()
                version = self._versions.get(unconditional.name)
                if version is not None and not unconditional.specifier.contains(
                    version, prereleases=True
                ):
                    reason = f"it needs {unconditional}, but {version} is locked"
                    self._refused[label.key] = reason
                    return ()
                if version is None or not unconditional.extras <= self._extras[unconditional.name]:
                    unlocked.append(RequestedRequirement(unconditional, label.description))
        return unlocked

    def _listed_project(self, pin: Pin, candidates: Candidates) -> ListedProject:
        choice = candidates.choice(pin.name, pin.release)
        refused = {
            verdict.filename.text: verdict.reason
            for verdict in choice.selection.verdicts
            if verdict.verdict == "rejected"
            and verdict.filename.is_variant
            and self._solver.policy.preferences.variants  # else the user excluded them
            and self._target.tags.best(verdict.filename.tags) is not None
        }
        needs_by_label = self._needs.get((pin.name, pin.release), {})
        wheels = set()
        for filename in choice.fitting:
            key = (pin.name, pin.release, filename.label)
            if key in self._refused:
                refused[filename.text] = self._refused[key]
            elif filename.label in needs_by_label:
                wheels.add(filename.text)
        accepted_needs = {
            label: needs
            for label, (_, needs) in needs_by_label.items()
            if (pin.name, pin.release, label) not in self._refused
        }
        pythons = frozenset(self._pythons.get((pin.name, pin.release), ()))
        return ListedProject(
            pin.name,
            pin.release,
            choice.release,
            frozenset(wheels),
            refused,
            accepted_needs,
            pythons,
        )
