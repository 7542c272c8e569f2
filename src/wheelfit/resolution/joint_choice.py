"""The search for the best set of builds with the same values of shared properties.

First every build is chosen freely. If builds then differ in a property that all must share, such as
the major version of CUDA, the choice is repeated with each value that occurs, and the resulting
sets are compared. The caller provides the choice of one set, from indexes or from a lock, as a
`Choose`.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum, auto
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from msgspec import Struct, field

from wheelfit.core.agreements import AgreedValue, Agreement, common_values, value_key
from wheelfit.core.properties import EMPTY, PropertySet
from wheelfit.errors import NoConsistentSet
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.labels import Label
    from wheelfit.resolution.release_choice import ReleaseChoice
    from wheelfit.resolution.request import InstalledBuild
    from wheelfit_runtime.errors import WheelfitError


Solution = TypeVar("Solution")
"""The form in which the caller returns a chosen set."""


class Effort(Enum):
    """The versions and builds among which an agreeing set is searched."""

    NOT_OLDER = auto()
    """Versions that are not older than in the free choice."""
    ANY_VERSION = auto()
    """Any version, and of each the best build that is compatible with the other packages."""
    ANY_BUILD = auto()
    """Any version, and a worse build of it if requirements of the better one cannot be met."""


class ChosenBuild(Struct, frozen=True):
    """One build of a set."""

    name: NormalizedName
    version: Version
    label: Label | None
    """None for a plain wheel."""
    properties: PropertySet = EMPTY
    """The properties its label declares."""
    rank: int = 0
    """Its position among the compatible labels of the release, from 0 for the best."""
    offers: tuple[PropertySet, ...] = ()
    """The properties of those labels, best first; empty for an installed build that is kept."""
    compatible_offers: tuple[PropertySet, ...] | None = None
    """The offers that were built for the versions of the other packages in the set; None: all."""
    is_kept: bool = False
    """Whether it is installed and kept."""

    @classmethod
    def of_release(cls, choice: ReleaseChoice, label: Label | None) -> ChosenBuild:
        """Return a build of a release."""
        name, version = choice.release.name, choice.release.version
        if choice.metadata.document is None:
            return cls(name, version, label)
        offered = choice.offered
        rank = offered.index(label) if label in offered else len(offered)
        offers = tuple(choice.declared(other_label) for other_label in offered)
        return cls(name, version, label, choice.declared(label), rank, offers)

    @classmethod
    def of_installed(cls, installed: InstalledBuild) -> ChosenBuild:
        """Return an installed build that is kept."""
        return cls(
            installed.name, installed.version, installed.label, installed.properties, is_kept=True
        )

    @property
    def build(self) -> str:
        """Its name among the builds of its release."""
        return self.label or "plain wheel"

    def __str__(self) -> str:
        return f"{self.name} {self.version}" + (f" ({self.label})" if self.label else "")


class Attempt(Struct, Generic[Solution], frozen=True):
    """A set of builds with some agreed values."""

    agreed: tuple[AgreedValue, ...]
    """The agreed values; empty for the free choice."""
    chosen: Mapping[NormalizedName, ChosenBuild]
    """Everything that would be in the environment."""
    examined_properties: Callable[[], Iterable[PropertySet]]
    """Returns the declared properties of the compatible builds that were examined."""
    solution: Solution
    """The same set in the form of the caller."""
    effort: Effort = Effort.NOT_OLDER


class RefusedAttempt(Struct, frozen=True):
    """A failed attempt: no set of builds has the agreed values."""

    agreed: tuple[AgreedValue, ...]
    make_error: Callable[[], WheelfitError]
    """Returns an error that states the reason."""
    examined_properties: Callable[[], Iterable[PropertySet]]
    """As of an `Attempt`."""


class Concession(Struct, frozen=True):
    """A build that was chosen in place of a better one, so that all agree."""

    replacement: ChosenBuild
    free_choice: ChosenBuild
    """The build that would be chosen without agreements."""

    def __str__(self) -> str:
        replacement, free = self.replacement, self.free_choice
        not_chosen = free.build
        if replacement.version != free.version:
            not_chosen = f"{free.version} {free.build}"
        return f"{replacement.build} of {replacement.name} {replacement.version}, not {not_chosen}"


class ForcedValue(Struct, frozen=True):
    """The reasons for an agreed value, and the builds that were replaced because of it."""

    packages: tuple[NormalizedName, ...] = ()
    """The packages whose builds require the value."""
    reasons: tuple[str, ...] = ()
    """The reasons, as clauses; empty if all builds agreed in the free choice."""
    changes: tuple[Concession, ...] = ()


class AgreementOutcome(Struct, frozen=True):
    """The values of one agreement in an environment, shared by all builds or mixed."""

    agreement: Agreement
    values: tuple[str, ...]
    """The values that every build is compatible with, usually one; empty: they are mixed."""
    packages: Mapping[NormalizedName, tuple[str, ...]]
    """The packages built for a value, each with its values."""
    forced: ForcedValue = ForcedValue()

    @property
    def packages_in_words(self) -> str:
        """The packages by their values, such as ``CUDA 12: flash-attn, vllm; CUDA 13: torch``."""
        return _packages_in_words(self.agreement, self.packages)

    def __str__(self) -> str:
        forced = self.forced
        if not self.values:
            text = f"{self.agreement.title} is mixed ({self.packages_in_words})"
        else:
            text = f"{self.agreement.in_words(self.values)} for all"
        if forced.reasons:
            text += f", because {listed(forced.reasons)}"
        if forced.changes:
            text += f": {'; '.join(map(str, forced.changes))}"
        return text

    def to_mapping(self) -> dict[str, Any]:
        """Return the outcome as plain data, as ``docs/reference/json.md`` describes."""
        return {
            "name": self.agreement.name,
            "values": list(self.values),
            "packages": {name: list(values) for name, values in sorted(self.packages.items())},
            "forced_by": list(self.forced.packages),
            "reasons": list(self.forced.reasons),
            "changes": [
                {
                    "name": change.replacement.name,
                    "version": str(change.replacement.version),
                    "label": change.replacement.label,
                    "instead_of": {
                        "version": str(change.free_choice.version),
                        "label": change.free_choice.label,
                    },
                }
                for change in self.forced.changes
            ],
        }


def outcomes_of(
    chosen: Iterable[ChosenBuild],
    agreements: Iterable[Agreement],
    forced: Mapping[str, ForcedValue] = MappingProxyType({}),
) -> Iterator[AgreementOutcome]:
    """Yield the outcome of each agreement that concerns any build.

    :param forced: the values that were forced, by name of the agreement.
    """
    builds = [build for build in chosen if build.properties]
    for agreement in agreements:
        packages = {build.name: agreement.values(build.properties) for build in builds}
        agreed = common_values(packages.values())
        if agreed is not None:
            yield AgreementOutcome(
                agreement,
                _sorted(agreed),
                MappingProxyType(
                    {name: _sorted(values) for name, values in packages.items() if values}
                ),
                forced.get(agreement.name, ForcedValue()),
            )


Choose: TypeAlias = (
    "Callable[[tuple[AgreedValue, ...], Effort, Solution | None], "
    "Attempt[Solution] | RefusedAttempt]"
)
"""Chooses one set. Its arguments: the agreed values, the effort, and the free choice (None while
that is chosen)."""


class AgreedBuilds(Struct, Generic[Solution], frozen=True):
    """A set of builds that agree, with the values they agree on."""

    solution: Solution
    """The set in the form of the caller."""
    outcomes: tuple[AgreementOutcome, ...]


def choose_agreeing_builds(
    choose: Choose[Solution],
    agreements: Sequence[Agreement],
    binding: Sequence[Agreement],
    *,
    installed: Mapping[NormalizedName, InstalledBuild] = MappingProxyType({}),
    order: Iterable[NormalizedName] = (),
    may_change_value: Collection[NormalizedName] = (),
    companions: Collection[NormalizedName] = (),
    efforts: Sequence[Effort] = tuple(Effort),
) -> AgreedBuilds[Solution]:
    """Choose a set of builds that agree, and record the packages that forced each value.

    The better of two sets, by the same order as in a resolution (P-55), is the one

    1. that replaces fewer installed builds,
    2. in which fewer requested packages are older than in the free choice,
    3. in which fewer packages lose a build for the agreement,
    4. in which fewer other packages are older than in the free choice,
    5. with the newer version, or the better label of the same version, of the first package that
       differs,
    6. with the higher values.

    At first no version may be older than in the free choice. If such a set replaces no build and
    loses none, older releases are not examined.

    :param binding: the agreements that must be met; the others are only reported.
    :param order: the requested packages, the most important first; the others follow by name.
    :param may_change_value: installed packages that may be replaced by a build for another value.
    :param companions: installed packages whose replacement is ignored in the comparison.
    :param efforts: the efforts that the caller supports, the smallest search first.
    :raises NoConsistentSet: no value is possible for all packages.
    :raises WheelfitError: nothing can be chosen for any value.
    """
    # Any version: there is no free choice yet to be older than.
    attempt = _raise_if_refused(choose((), Effort.ANY_VERSION, None))
    search = _AgreementSearch(
        choose, attempt, binding, installed, tuple(order), may_change_value, companions
    )
    forced: dict[str, ForcedValue] = {}
    if search.is_needed:
        best = search.best(efforts)
        forced = {agreed.agreement.name: search.forced(best, agreed) for agreed in best.agreed}
        # Choose again, so that every reason names the packages that require the value.
        explained = (
            _with_packages(agreed, forced[agreed.agreement.name].packages) for agreed in best.agreed
        )
        attempt = _raise_if_refused(choose(tuple(explained), best.effort, attempt.solution))
    outcomes = outcomes_of(attempt.chosen.values(), agreements, forced)
    return AgreedBuilds(attempt.solution, tuple(outcomes))


def _raise_if_refused(attempt: Attempt[Solution] | RefusedAttempt) -> Attempt[Solution]:
    if isinstance(attempt, RefusedAttempt):
        raise attempt.make_error()
    return attempt


_MAX_ATTEMPTS = 40
"""Attempts after which the best set so far is used."""


class _AgreementSearch(Struct, Generic[Solution]):
    """The search for the best set: its attempts with values, and their comparison."""

    _choose: Choose[Solution]
    _free: Attempt[Solution]
    _agreements: Sequence[Agreement]
    _installed: Mapping[NormalizedName, InstalledBuild]
    _order: tuple[NormalizedName, ...]
    _may_change_value: Collection[NormalizedName]
    _companions: Collection[NormalizedName]
    _attempts: int = 0
    _effort: Effort = Effort.NOT_OLDER
    _agreeing: list[Attempt[Solution]] = field(default_factory=list)
    _refused: list[RefusedAttempt] = field(default_factory=list)
    _kept_values: dict[str, frozenset[str]] = field(default_factory=dict)
    _known_values: dict[str, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # If the values of kept builds differ already, a new build must agree with one of them.
        kept = [build.properties for build in self._free.chosen.values() if build.is_kept]
        installed = [build.properties for build in self._installed.values()]
        for agreement in self._agreements:
            values = [agreement.values(properties) for properties in kept]
            is_mixed = common_values(values) == frozenset()  # None: no build has a value
            if is_mixed:
                self._kept_values[agreement.name] = frozenset().union(*values)
            self._known_values[agreement.name] = set().union(*map(agreement.values, installed))

    @property
    def is_needed(self) -> bool:
        return self._first_unmet(self._free) is not None

    def best(self, efforts: Sequence[Effort]) -> Attempt[Solution]:
        reported: list[RefusedAttempt] = []
        for effort in efforts:
            if effort is Effort.ANY_BUILD and self._agreeing:
                break
            self._effort = effort
            self._attempts = 0
            self._refused = []
            self._explore(self._free)
            if effort is not Effort.ANY_BUILD:
                # Attempts with worse builds fail likewise, with longer explanations.
                reported = self._refused
            if any(
                not (self._replaced(attempt) or self._losing_builds(attempt))
                for attempt in self._agreeing
            ):
                break
        if not self._agreeing:
            raise self._error(reported)
        return self._best(self._agreeing)

    def forced(self, best: Attempt[Solution], agreed: AgreedValue) -> ForcedValue:
        return ForcedValue(*self._reasons(best, agreed), self._changes(best, agreed))

    # --- search ---------------------------------------------------------------------

    def _first_unmet(self, attempt: Attempt[Solution]) -> Agreement | None:
        """Return the first agreement that a set does not meet and that has no agreed value."""
        decided = {agreed.agreement.name for agreed in attempt.agreed}
        for agreement in self._agreements:
            if agreement.name not in decided and not self._is_met(attempt, agreement):
                return agreement
        return None

    def _is_met(self, attempt: Attempt[Solution], agreement: Agreement) -> bool:
        kept_values = self._kept_values.get(agreement.name)
        values = {
            build.name: agreement.values(build.properties)
            for build in attempt.chosen.values()
            if build.properties and not (kept_values is not None and build.is_kept)
        }
        agreeing = common_values(values.values())
        if agreeing is None:
            return True
        if not agreeing or (kept_values is not None and agreeing.isdisjoint(kept_values)):
            return False
        # An installed package that the request does not name must not change its value either.
        return not any(
            values.get(name) and before and before.isdisjoint(values[name])
            for name, before in self._installed_values(agreement)
        )

    def _installed_values(
        self, agreement: Agreement
    ) -> Iterator[tuple[NormalizedName, frozenset[str]]]:
        for name, installed in self._installed.items():
            if name not in self._may_change_value and installed.properties:
                yield name, agreement.values(installed.properties)

    def _explore(self, attempt: Attempt[Solution] | RefusedAttempt) -> None:
        """Add the sets that agree to the result, with further values for an unmet agreement."""
        if isinstance(attempt, RefusedAttempt):
            self._refused.append(attempt)
            return
        agreement = self._first_unmet(attempt)
        if agreement is None:
            self._agreeing.append(attempt)
            return
        self._record_values(attempt)
        tried: set[str] = set()
        kept_values = self._kept_values.get(agreement.name)
        # An attempt may reveal further values.
        while untried := self._known_values[agreement.name] - tried:
            value = max(untried, key=value_key)
            tried.add(value)
            if (
                kept_values is not None and value not in kept_values
            ) or self._attempts == _MAX_ATTEMPTS:
                continue
            self._attempts += 1
            agreed = AgreedValue(agreement, value, exempts_installed=kept_values is not None)
            next_attempt = self._choose(
                (*attempt.agreed, agreed), self._effort, self._free.solution
            )
            self._record_values(next_attempt)
            self._explore(next_attempt)

    def _record_values(self, attempt: Attempt[Solution] | RefusedAttempt) -> None:
        for properties in set(attempt.examined_properties()):
            for agreement in self._agreements:
                self._known_values[agreement.name] |= agreement.values(properties)

    # --- comparison -----------------------------------------------------------------

    def _best(self, attempts: Sequence[Attempt[Solution]]) -> Attempt[Solution]:
        others = sorted(name for name in self._free.chosen if name not in self._order)
        order = [*self._order, *others]
        version_ranks: dict[NormalizedName, dict[Version, int]] = {}
        for name in order:
            versions = {
                attempt.chosen[name].version for attempt in attempts if name in attempt.chosen
            }
            newest_first = sorted(versions, reverse=True)
            version_ranks[name] = {version: rank for rank, version in enumerate(newest_first)}

        def key(attempt: Attempt[Solution]) -> tuple[int, int, int, int, list[tuple[int, int]]]:
            ranks_of_builds = [
                (version_ranks[name][attempt.chosen[name].version], attempt.chosen[name].rank)
                if name in attempt.chosen
                else (0, 0)
                for name in order
            ]
            return (
                len(self._replaced(attempt)),
                len(self._older_requested(attempt)),
                len(self._losing_builds(attempt)),
                len(self._older_others(attempt)),
                ranks_of_builds,
            )

        highest_values_first = sorted(
            attempts,
            key=lambda attempt: [value_key(agreed.value) for agreed in attempt.agreed],
            reverse=True,
        )
        return min(highest_values_first, key=key)

    def _replaced(self, attempt: Attempt[Solution]) -> list[NormalizedName]:
        """Return the installed packages that a set would replace by another build."""
        names = []
        for name, installed in self._installed.items():
            build = attempt.chosen.get(name)
            if build is None or build.is_kept or name in self._companions:
                continue
            free_choice = self._free.chosen.get(name)
            would_stay = free_choice is not None and free_choice.is_kept
            if would_stay or self._changes_value(installed, build):
                names.append(name)
        return names

    def _changes_value(self, installed: InstalledBuild, chosen: ChosenBuild) -> bool:
        """Return whether an installed package would change to another value."""
        if installed.name in self._may_change_value:
            return False
        pairs = (
            (agreement.values(installed.properties), agreement.values(chosen.properties))
            for agreement in self._agreements
        )
        return any(before and after and before.isdisjoint(after) for before, after in pairs)

    def _older_requested(self, attempt: Attempt[Solution]) -> list[NormalizedName]:
        """Return the requested packages that are older than in the free choice."""
        return [name for name in self._older(attempt) if name in self._order]

    def _older_others(self, attempt: Attempt[Solution]) -> list[NormalizedName]:
        """Return the other packages that are older than in the free choice."""
        return [name for name in self._older(attempt) if name not in self._order]

    def _older(self, attempt: Attempt[Solution]) -> Iterator[NormalizedName]:
        free_choices = self._free.chosen
        for name, build in attempt.chosen.items():
            if name in free_choices and build.version < free_choices[name].version:
                yield name

    def _losing_builds(self, attempt: Attempt[Solution]) -> list[NormalizedName]:
        """Return the packages that get a build without a value in place of one with a value.

        A package is repeated for each such agreement.
        """
        names = []
        for agreement in self._agreements:
            for name, build in attempt.chosen.items():
                free_choice = self._free.chosen.get(name)
                if free_choice is None or agreement.values(build.properties):
                    continue
                if agreement.values(free_choice.properties):
                    names.append(name)
        return names

    # --- reasons ------------------------------------------------------------------------

    def _reasons(
        self, best: Attempt[Solution], agreed: AgreedValue
    ) -> tuple[tuple[NormalizedName, ...], tuple[str, ...]]:
        """Return the packages that made a value the best, and the reasons in clauses."""
        for get_offers in (attrgetter("offers"), _compatible_offers):
            names, clauses = self._bound_to_value(best, agreed, get_offers)
            if clauses:
                return names, clauses
        names_with_advantage, clause = self._advantage(best, agreed)
        return tuple(names_with_advantage), (clause,)

    def _bound_to_value(
        self,
        best: Attempt[Solution],
        agreed: AgreedValue,
        get_offers: Callable[[ChosenBuild], Iterable[PropertySet]],
    ) -> tuple[tuple[NormalizedName, ...], tuple[str, ...]]:
        """Return the packages with builds for one value only, in clauses.

        :param get_offers: returns the builds of a package to consider.
        """
        agreement, value_text = agreed.agreement, str(agreed)
        rivals = self._rivals(agreed)
        names: list[NormalizedName] = []
        clauses: list[str] = []
        for name, build in sorted(best.chosen.items()):
            free_choice = self._free.chosen.get(name)
            was_replaced = (
                free_choice is not None and agreed.objection(free_choice.properties) is not None
            )
            if was_replaced or agreed.value not in agreement.values(build.properties):
                continue
            if build.is_kept:
                names.append(name)
                clauses.append(f"the installed {build} is built for {value_text}")
            elif all(_is_bound(agreement.values(offer), rivals) for offer in get_offers(build)):
                names.append(name)
                clauses.append(f"{name} {build.version} has only builds for {value_text}")
        return tuple(names), tuple(clauses)

    def _rivals(self, agreed: AgreedValue) -> frozenset[str]:
        free_values = (
            agreed.agreement.values(build.properties) for build in self._free.chosen.values()
        )
        return frozenset().union(*free_values) - {agreed.value}

    def _advantage(
        self, best: Attempt[Solution], agreed: AgreedValue
    ) -> tuple[list[NormalizedName], str]:
        """Return the advantage of the best set over the best set of another value."""
        others = [
            attempt
            for attempt in self._agreeing
            if agreed.value != _required_value(attempt, agreed.agreement)
        ]
        if not others:
            refused = {_required_value(attempt, agreed.agreement) for attempt in self._refused} - {
                agreed.value
            }
            values = agreed.agreement.in_words(value for value in refused if value is not None)
            condition = " in these versions" if self._effort is Effort.NOT_OLDER else ""
            return [], f"{values} is not available for all packages{condition}"
        rival = self._best(others)
        other = agreed.agreement.in_words([_required_value(rival, agreed.agreement) or "others"])
        for disadvantage, clause in (
            (self._replaced, "{value} would replace the installed {names}"),
            (self._older_requested, "{value} would need older versions of {names}"),
            (self._losing_builds, "{value} would leave {names} without a build for it"),
            (self._older_others, "{value} would need older versions of {names}"),
        ):
            losses, rival_losses = disadvantage(best), disadvantage(rival)
            if len(rival_losses) > len(losses):
                names = sorted(Counter(rival_losses) - Counter(losses))
                return names, clause.format(value=other, names=listed(names))
        for name in (*self._order, *sorted(best.chosen)):
            best_build, rival_build = best.chosen.get(name), rival.chosen.get(name)
            if (
                best_build
                and rival_build
                and (best_build.version, -best_build.rank)
                > (rival_build.version, -rival_build.rank)
            ):
                return [name], f"{name} has a better build for {agreed}"
        return [], f"{agreed} is higher than {other}"

    def _changes(self, best: Attempt[Solution], agreed: AgreedValue) -> tuple[Concession, ...]:
        """Return the changes caused by a value; those that no value explains count for each."""
        changes = []
        for name, build in sorted(best.chosen.items()):
            free_choice = self._free.chosen.get(name)
            if free_choice is None or (build.version, build.label) == (
                free_choice.version,
                free_choice.label,
            ):
                continue
            opposed = [other for other in best.agreed if other.objection(free_choice.properties)]
            if agreed in opposed or not opposed:
                changes.append(Concession(build, free_choice))
        return tuple(changes)

    def _obstacle(self, reported: Sequence[RefusedAttempt]) -> Agreement:
        """Return the agreement that cannot be met.

        It is the last one of the longest attempt, or, if the free choice meets that, the first one
        that the free choice does not meet.
        """
        last = max((refused.agreed for refused in reported), key=len)[-1].agreement
        first = self._first_unmet(self._free)
        return last if first is None or not self._is_met(self._free, last) else first

    def _error(self, reported: Sequence[RefusedAttempt]) -> NoConsistentSet:
        agreement = self._obstacle(reported)
        free_builds = [build for build in self._free.chosen.values() if build.properties]
        packages = {
            build.name: _sorted(agreement.values(build.properties)) for build in free_builds
        }
        packages = {name: values for name, values in packages.items() if values}
        lines, sets = [], []
        for refused in reported:
            error = refused.make_error()
            values = listed(map(str, refused.agreed))
            verb = "is" if len(refused.agreed) == 1 else "are"
            concerned = [build for build in free_builds if _declares_value(build, refused.agreed)]
            compatible = sorted(
                build.name for build in concerned if _is_compatible(build, refused.agreed)
            )
            incompatible = sorted({build.name for build in concerned} - set(compatible))
            names = f" ({listed(compatible)})" if compatible else ""
            lines.append(f"{values}{names} {verb} not available for all packages: {error.message}")
            lines += [f"  {line}" for line in (error.note or "").splitlines()]
            sets.append(
                {
                    "values": {agreed.agreement.name: agreed.value for agreed in refused.agreed},
                    "packages": compatible,
                    "lacks": incompatible,
                    "message": error.message,
                    "note": error.note,
                }
            )
        return NoConsistentSet(
            f"packages must agree on {agreement.title}, but these cannot: "
            f"{_packages_in_words(agreement, packages)}",
            details=sets,
            note="\n".join(["the closest sets:", *lines]),
            hint="relax the requirement on one of them; as a last resort, --allow-mixed "
            f"{agreement.name} allows builds that differ",
        )


def _with_packages(agreed: AgreedValue, names: Sequence[NormalizedName]) -> AgreedValue:
    return agreed._replace(because=f"because of {listed(names)}" if names else "")


def _required_value(attempt: Attempt[Any] | RefusedAttempt, agreement: Agreement) -> str | None:
    """Return the value that was required of a set for an agreement."""
    return next((agreed.value for agreed in attempt.agreed if agreed.agreement == agreement), None)


def _compatible_offers(chosen: ChosenBuild) -> Iterable[PropertySet]:
    return chosen.offers if chosen.compatible_offers is None else chosen.compatible_offers


def _is_bound(values: frozenset[str], rivals: frozenset[str]) -> bool:
    """Return whether a build is for a value, and for none of the rival values."""
    return bool(values) and values.isdisjoint(rivals)


def _declares_value(chosen: ChosenBuild, agreed: Sequence[AgreedValue]) -> bool:
    """Return whether a build declares a value for any of the agreements."""
    return any(value.agreement.values(chosen.properties) for value in agreed)


def _is_compatible(chosen: ChosenBuild, agreed: Sequence[AgreedValue]) -> bool:
    """Return whether a package has a build that is compatible with some values."""
    offers = chosen.offers or (chosen.properties,)
    return any(all(value.objection(offer) is None for value in agreed) for offer in offers)


def _packages_in_words(
    agreement: Agreement, packages: Mapping[NormalizedName, Sequence[str]]
) -> str:
    """Format packages by their values, such as ``CUDA 12: flash-attn, vllm; CUDA 13: torch``."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, values in sorted(packages.items()):
        groups.setdefault(tuple(values), []).append(name)
    ordered = sorted(groups.items(), key=lambda item: [value_key(value) for value in item[0]])
    return "; ".join(
        f"{agreement.in_words(values)}: {', '.join(names)}" for values, names in ordered
    )


def _sorted(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(values, key=value_key))
