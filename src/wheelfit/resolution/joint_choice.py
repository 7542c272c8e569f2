"""The search for the best set of builds with the same values of shared properties.

First every build is chosen freely. If builds then differ in a property that all must share, such as
the major version of CUDA, the choice is repeated with each value that occurs, and the resulting
sets are compared. The caller provides the choice of one set, from indexes or from a lock, as a
`Choose`.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from msgspec import Struct, field

from wheelfit.core.properties import EMPTY
from wheelfit.core.shared_requirements import Agreed, common_values, value_key
from wheelfit.errors import NoConsistentSet
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.labels import Label
    from wheelfit.core.properties import PropertySet
    from wheelfit.core.shared_requirements import Agreement
    from wheelfit.resolution.release_choice import ReleaseChoice
    from wheelfit.resolution.request import InstalledBuild
    from wheelfit_runtime.errors import WheelfitError


Found = TypeVar("Found")
"""The caller's own form of a chosen set."""


class Effort(Enum):
    """The effort spent on finding a set that agrees."""

    AS_NEW = "no version older than freely"
    ANY_VERSION = "any version, of each the best build that goes with the others"
    ANY_BUILD = "any version, and a worse build of it if what the better one needs cannot be had"


class ChosenBuild(Struct, frozen=True):
    """One build of a set."""

    name: NormalizedName
    version: Version
    label: Label | None
    """None for a plain wheel."""
    properties: PropertySet = EMPTY
    """The properties its label declares."""
    place: int = 0
    """Its position among the labels that fit, from 0 for the best."""
    offers: tuple[PropertySet, ...] = ()
    """The properties of those labels, best first; empty for an installed build that stays."""
    beside: tuple[PropertySet, ...] | None = None
    """The offers that were built for the versions of the other packages in the set; None: all."""
    stays: bool = False
    """Whether it is installed and stays as it is."""

    @classmethod
    def of_release(cls, choice: ReleaseChoice, label: Label | None) -> ChosenBuild:
        """Return a build of a release.

        :param choice: the verdicts on its wheels.
        :param label: the label of the chosen wheel.
        """
        name, version = choice.release.name, choice.release.version
        if choice.metadata.document is None:
            return cls(name, version, label)
        offered = choice.offered
        place = offered.index(label) if label in offered else len(offered)
        offers = tuple(choice.declared(other_label) for other_label in offered)
        return cls(name, version, label, choice.declared(label), place, offers)

    @classmethod
    def that_stays(cls, present: InstalledBuild) -> ChosenBuild:
        """Return an installed build that stays.

        :param present: the installed distribution.
        """
        return cls(present.name, present.version, present.label, present.properties, stays=True)

    @property
    def build(self) -> str:
        """Its name among the builds of its release."""
        return self.label or "plain wheel"

    def __str__(self) -> str:
        return f"{self.name} {self.version}" + (f" ({self.label})" if self.label else "")


class Attempt(Struct, Generic[Found], frozen=True):
    """A set of builds, chosen while some values were agreed on."""

    agreed: tuple[Agreed, ...]
    chosen: Mapping[NormalizedName, ChosenBuild]
    """Everything that would be in the environment."""
    seen: Callable[[], Iterable[PropertySet]]
    """Returns the declared properties of the compatible builds that were examined."""
    found: Found
    """The same set in the form of the caller."""
    effort: Effort = Effort.AS_NEW
    """The effort that was spent."""


class RefusedAttempt(Struct, frozen=True):
    """An attempt that failed: no set has the values agreed on."""

    agreed: tuple[Agreed, ...]
    why: Callable[[], WheelfitError]
    """Returns the error with the reason."""
    seen: Callable[[], Iterable[PropertySet]]
    """As of an `Attempt`."""


class Concession(Struct, frozen=True):
    """A build that was replaced by another one so that all agree."""

    taken: ChosenBuild
    freely: ChosenBuild
    """The build that would be chosen for it alone."""

    def __str__(self) -> str:
        taken, freely = self.taken, self.freely
        if taken.version == freely.version:
            return f"{taken.build} of {taken.name} {taken.version}, not {freely.build}"
        return f"{taken.build} of {taken.name} {taken.version}, not {freely.version} {freely.build}"


class ForcedValue(Struct, frozen=True):
    """The reason why a value had to be agreed on, and its cost."""

    by: tuple[NormalizedName, ...] = ()
    """The packages whose builds decided."""
    reasons: tuple[str, ...] = ()
    """The reasons, as clauses; empty: nothing was forced."""
    changes: tuple[Concession, ...] = ()
    """The replaced builds."""


class AgreementOutcome(Struct, frozen=True):
    """The values on which an environment agrees, or that it mixes."""

    agreement: Agreement
    values: tuple[str, ...]
    """The values that are compatible with every build, mostly one; empty: they are mixed."""
    packages: Mapping[NormalizedName, tuple[str, ...]]
    """The packages built for a value, each with its values."""
    forced: ForcedValue = ForcedValue()

    @property
    def sides(self) -> str:
        """The packages by their values, as ``CUDA 12: flash-attn, vllm; CUDA 13: torch``."""
        return _sides(self.agreement, self.packages)

    def __str__(self) -> str:
        forced = self.forced
        if not self.values:
            text = f"{self.agreement.title} is mixed ({self.sides})"
        else:
            text = f"{self.agreement.in_words(self.values)} for all"
        if forced.reasons:
            text += f", because {listed(forced.reasons)}"
        if forced.changes:
            text += f": {'; '.join(map(str, forced.changes))}"
        return text

    def to_mapping(self) -> dict[str, Any]:
        """Return it as plain data, as ``docs/reference/json.md`` describes."""
        return {
            "name": self.agreement.name,
            "values": list(self.values),
            "packages": {name: list(values) for name, values in sorted(self.packages.items())},
            "forced_by": list(self.forced.by),
            "reasons": list(self.forced.reasons),
            "changes": [
                {
                    "name": change.taken.name,
                    "version": str(change.taken.version),
                    "label": change.taken.label,
                    "instead_of": {
                        "version": str(change.freely.version),
                        "label": change.freely.label,
                    },
                }
                for change in self.forced.changes
            ],
        }


def held_by(
    chosen: Iterable[ChosenBuild],
    agreements: Iterable[Agreement],
    forced: Mapping[str, ForcedValue] = MappingProxyType({}),
) -> Iterator[AgreementOutcome]:
    """Yield the outcome of each agreement for which a build declares values.

    :param chosen: everything in the environment.
    :param agreements: the agreements to evaluate.
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
                MappingProxyType({n: _sorted(values) for n, values in packages.items() if values}),
                forced.get(agreement.name, ForcedValue()),
            )


Choose: TypeAlias = (
    "Callable[[tuple[Agreed, ...], Effort, Found | None], Attempt[Found] | RefusedAttempt]"
)
"""Chooses one set, from the required values, the effort, and the free choice (None for that)."""


class AgreedBuilds(Struct, Generic[Found], frozen=True):
    """A set of builds that agree, with the values they agree on."""

    found: Found
    """The set in the form of the caller."""
    held: tuple[AgreementOutcome, ...]
    """The values the whole environment agrees on, and the concessions made for them."""


def settle(
    choose: Choose[Found],
    agreements: Sequence[Agreement],
    binding: Sequence[Agreement],
    *,
    installed: Mapping[NormalizedName, InstalledBuild] = MappingProxyType({}),
    order: Iterable[NormalizedName] = (),
    may_turn: Collection[NormalizedName] = (),
    companions: Collection[NormalizedName] = (),
    efforts: Sequence[Effort] = tuple(Effort),
) -> AgreedBuilds[Found]:
    """Choose a set of builds that agree, and record the packages that forced each value.

    The best set replaces the fewest installed builds, then has the fewest named packages at an
    older version than in the free choice, then the fewest packages that lose a feature, then the
    fewest other packages at an older version, like the order of a resolution (P-55). Then package
    by package the newer version and the better label decide, then the higher value.

    First no version may be older than in the free choice. A set found so that replaces nothing and
    loses nothing is the best, and no older release is examined.

    :param choose: chooses one set.
    :param agreements: the possible agreements.
    :param binding: the agreements that must hold.
    :param installed: the installed builds, by name.
    :param order: the packages whose better build counts first; the others follow by name.
    :param may_turn: installed packages that may become a build for another value without consent.
    :param companions: installed packages whose replacement does not count.
    :param efforts: the efforts the caller supports, the least first.
    :raises NoConsistentSet: no value is possible for all.
    :raises WheelfitError: nothing can be chosen for any value.
    """
    chosen = _chosen(choose((), Effort.ANY_VERSION, None))
    search = _AgreementSearch(
        choose, chosen, binding, installed, tuple(order), may_turn, companions
    )
    forced: dict[str, ForcedValue] = {}
    if search.is_needed:
        best = search.best(efforts)
        forced = {agreed.agreement.name: search.forced(best, agreed) for agreed in best.agreed}
        # Choose again, so that every reason names the packages that decided.
        explained = (
            _decided_by(agreed, forced[agreed.agreement.name].by) for agreed in best.agreed
        )
        chosen = _chosen(choose(tuple(explained), best.effort, chosen.found))
    held = held_by(chosen.chosen.values(), agreements, forced)
    return AgreedBuilds(chosen.found, tuple(held))


def _chosen(attempt: Attempt[Found] | RefusedAttempt) -> Attempt[Found]:
    if isinstance(attempt, RefusedAttempt):
        raise attempt.why()
    return attempt


_MAX_ATTEMPTS = 40
"""The number of attempts after which the best set so far is used."""


class _AgreementSearch(Struct, Generic[Found]):
    """The trial of values, and the comparison of the sets."""

    _choose: Choose[Found]
    _free: Attempt[Found]
    _agreements: Sequence[Agreement]
    _installed: Mapping[NormalizedName, InstalledBuild]
    _order: tuple[NormalizedName, ...]
    _may_turn: Collection[NormalizedName]
    _companions: Collection[NormalizedName]
    _attempts: int = 0
    _effort: Effort = Effort.AS_NEW
    _found: list[Attempt[Found]] = field(default_factory=list)
    _refused: list[RefusedAttempt] = field(default_factory=list)
    _sides: dict[str, frozenset[str]] = field(default_factory=dict)
    _seen: dict[str, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # An existing mix stays; a new build must agree with one of the sides.
        staying = [build.properties for build in self._free.chosen.values() if build.stays]
        installed = [present.properties for present in self._installed.values()]
        for agreement in self._agreements:
            values = [agreement.values(properties) for properties in staying]
            if common_values(values) == frozenset():
                self._sides[agreement.name] = frozenset().union(*values)
            self._seen[agreement.name] = set().union(*map(agreement.values, installed))

    @property
    def is_needed(self) -> bool:
        return self._first_unmet(self._free) is not None

    def best(self, efforts: Sequence[Effort]) -> Attempt[Found]:
        reported: list[RefusedAttempt] = []
        for effort in efforts:
            if effort is Effort.ANY_BUILD and self._found:
                break
            self._effort = effort
            self._attempts = 0
            self._refused = []
            self._explore(self._free)
            if effort is not Effort.ANY_BUILD:
                # Without worse builds the proofs are shorter, and conclude the same.
                reported = self._refused
            if any(
                not (self._replaced(attempt) or self._losing_features(attempt))
                for attempt in self._found
            ):
                break
        if not self._found:
            raise self._error(reported)
        return self._best(self._found)

    def forced(self, best: Attempt[Found], agreed: Agreed) -> ForcedValue:
        return ForcedValue(*self._reasons(best, agreed), self._changes(best, agreed))

    # --- trying ---------------------------------------------------------------------

    def _first_unmet(self, attempt: Attempt[Found]) -> Agreement | None:
        """Return the first agreement that does not hold in a set and is not decided yet."""
        decided = {agreed.agreement.name for agreed in attempt.agreed}
        for agreement in self._agreements:
            if agreement.name not in decided and not self._holds(attempt, agreement):
                return agreement
        return None

    def _holds(self, attempt: Attempt[Found], agreement: Agreement) -> bool:
        sides = self._sides.get(agreement.name)
        values = {
            build.name: agreement.values(build.properties)
            for build in attempt.chosen.values()
            if build.properties and not (sides is not None and build.stays)
        }
        agreeing = common_values(values.values())
        if agreeing is None:
            return True
        if not agreeing or (sides is not None and agreeing.isdisjoint(sides)):
            return False
        # An installed package that the request does not name must not change its value either.
        return not any(
            values.get(name) and before and before.isdisjoint(values[name])
            for name, before in self._installed_values(agreement)
        )

    def _installed_values(
        self, agreement: Agreement
    ) -> Iterator[tuple[NormalizedName, frozenset[str]]]:
        for name, present in self._installed.items():
            if name not in self._may_turn and present.properties:
                yield name, agreement.values(present.properties)

    def _explore(self, attempt: Attempt[Found] | RefusedAttempt) -> None:
        """Search from a set that does not agree for sets that do."""
        if isinstance(attempt, RefusedAttempt):
            self._refused.append(attempt)
            return
        agreement = self._first_unmet(attempt)
        if agreement is None:
            self._found.append(attempt)
            return
        self._record_values(attempt)
        tried: set[str] = set()
        sides = self._sides.get(agreement.name)
        # An attempt may reveal further values.
        while untried := self._seen[agreement.name] - tried:
            value = max(untried, key=value_key)
            tried.add(value)
            if (sides is not None and value not in sides) or self._attempts == _MAX_ATTEMPTS:
                continue
            self._attempts += 1
            agreed = Agreed(agreement, value, exempts_installed=sides is not None)
            next_attempt = self._choose((*attempt.agreed, agreed), self._effort, self._free.found)
            self._record_values(next_attempt)
            self._explore(next_attempt)

    def _record_values(self, attempt: Attempt[Found] | RefusedAttempt) -> None:
        for properties in set(attempt.seen()):
            for agreement in self._agreements:
                self._seen[agreement.name] |= agreement.values(properties)

    # --- comparing ------------------------------------------------------------------

    def _best(self, attempts: Sequence[Attempt[Found]]) -> Attempt[Found]:
        others = sorted(name for name in self._free.chosen if name not in self._order)
        order = [*self._order, *others]
        newest: dict[NormalizedName, dict[Version, int]] = {}
        for name in order:
            versions = {
                attempt.chosen[name].version for attempt in attempts if name in attempt.chosen
            }
            newest[name] = {v: place for place, v in enumerate(sorted(versions, reverse=True))}

        def key(attempt: Attempt[Found]) -> tuple[int, int, int, int, list[tuple[int, int]]]:
            each = [
                (newest[name][attempt.chosen[name].version], attempt.chosen[name].place)
                if name in attempt.chosen
                else (0, 0)
                for name in order
            ]
            return (
                len(self._replaced(attempt)),
                len(self._older_named(attempt)),
                len(self._losing_features(attempt)),
                len(self._older_rest(attempt)),
                each,
            )

        higher = sorted(
            attempts, key=lambda attempt: [value_key(a.value) for a in attempt.agreed], reverse=True
        )
        return min(higher, key=key)

    def _replaced(self, attempt: Attempt[Found]) -> list[NormalizedName]:
        """Return the installed packages that a set would replace by another build."""
        names = []
        for name, present in self._installed.items():
            build = attempt.chosen.get(name)
            if build is None or build.stays or name in self._companions:
                continue
            free = self._free.chosen.get(name)
            if (free is not None and free.stays) or self._changes_value(present, build):
                names.append(name)
        return names

    def _changes_value(self, present: InstalledBuild, chosen: ChosenBuild) -> bool:
        """Return whether an installed package would change to another value."""
        if present.name in self._may_turn:
            return False
        pairs = (
            (agreement.values(present.properties), agreement.values(chosen.properties))
            for agreement in self._agreements
        )
        return any(before and after and before.isdisjoint(after) for before, after in pairs)

    def _older_named(self, attempt: Attempt[Found]) -> list[NormalizedName]:
        """Return the named packages at an older version than in the free choice."""
        return [name for name in self._older(attempt) if name in self._order]

    def _older_rest(self, attempt: Attempt[Found]) -> list[NormalizedName]:
        """Return the packages not named at an older version than in the free choice."""
        return [name for name in self._older(attempt) if name not in self._order]

    def _older(self, attempt: Attempt[Found]) -> Iterator[NormalizedName]:
        free = self._free.chosen
        for name, build in attempt.chosen.items():
            if name in free and build.version < free[name].version:
                yield name

    def _losing_features(self, attempt: Attempt[Found]) -> list[NormalizedName]:
        """Return the packages that lose a feature of their free choice."""
        names = []
        for agreement in self._agreements:
            for name, build in attempt.chosen.items():
                free = self._free.chosen.get(name)
                if free is None or agreement.values(build.properties):
                    continue
                if agreement.values(free.properties):
                    names.append(name)
        return names

    # --- reasons ------------------------------------------------------------------------

    def _reasons(
        self, best: Attempt[Found], agreed: Agreed
    ) -> tuple[tuple[NormalizedName, ...], tuple[str, ...]]:
        """Return the packages that made a value the best, and the reasons in clauses."""
        for offers in (attrgetter("offers"), _compatible_offers):
            names, clauses = self._bound_to_value(best, agreed, offers)
            if clauses:
                return names, clauses
        leading, clause = self._advantage(best, agreed)
        return tuple(leading), (clause,)

    def _bound_to_value(
        self,
        best: Attempt[Found],
        agreed: Agreed,
        offers: Callable[[ChosenBuild], Iterable[PropertySet]],
    ) -> tuple[tuple[NormalizedName, ...], tuple[str, ...]]:
        """Return the packages with builds for one value only, in clauses.

        :param offers: the builds to consider of each.
        """
        agreement, value_text = agreed.agreement, str(agreed)
        rivals = self._rivals(agreed)
        names: list[NormalizedName] = []
        clauses: list[str] = []
        for name, build in sorted(best.chosen.items()):
            freely = self._free.chosen.get(name)
            was_replaced = freely is not None and agreed.objection(freely.properties) is not None
            if was_replaced or agreed.value not in agreement.values(build.properties):
                continue
            if build.stays:
                names.append(name)
                clauses.append(f"{build} is installed, which is built for {value_text}")
            elif all(_is_bound(agreement.values(offer), rivals) for offer in offers(build)):
                names.append(name)
                clauses.append(f"{name} {build.version} has only builds for {value_text}")
        return tuple(names), tuple(clauses)

    def _rivals(self, agreed: Agreed) -> frozenset[str]:
        """Return the other values of the builds in the free choice."""
        free = (agreed.agreement.values(build.properties) for build in self._free.chosen.values())
        return frozenset().union(*free) - {agreed.value}

    def _advantage(self, best: Attempt[Found], agreed: Agreed) -> tuple[list[NormalizedName], str]:
        """Return the advantage of the best set over the best set of another value."""
        others = [
            attempt
            for attempt in self._found
            if agreed.value != _required_value(attempt, agreed.agreement)
        ]
        if not others:
            refused = {_required_value(attempt, agreed.agreement) for attempt in self._refused} - {
                agreed.value
            }
            values = agreed.agreement.in_words(value for value in refused if value is not None)
            condition = " in these versions" if self._effort is Effort.AS_NEW else ""
            return [], f"{values} is not available for all packages{condition}"
        rival = self._best(others)
        other = agreed.agreement.in_words([_required_value(rival, agreed.agreement) or "others"])
        for disadvantage, what in (
            (self._replaced, "would replace"),
            (self._older_named, "would need older versions of"),
            (self._losing_features, "would leave without it"),
            (self._older_rest, "would need older versions of"),
        ):
            losses, rival_losses = disadvantage(best), disadvantage(rival)
            if len(rival_losses) > len(losses):
                # A package may lose several features.
                names = sorted(Counter(rival_losses) - Counter(losses))
                return names, f"{other} {what} {listed(names)}"
        for name in (*self._order, *sorted(best.chosen)):
            best_build, rival_build = best.chosen.get(name), rival.chosen.get(name)
            if (
                best_build
                and rival_build
                and (best_build.version, -best_build.place)
                > (rival_build.version, -rival_build.place)
            ):
                return [name], f"{name} has a better build for {agreed}"
        return [], f"{agreed} is higher than {other}"

    def _changes(self, best: Attempt[Found], agreed: Agreed) -> tuple[Concession, ...]:
        """Return the packages changed for a value, or for no particular agreed value."""
        changes = []
        for name, taken in sorted(best.chosen.items()):
            freely = self._free.chosen.get(name)
            if freely is None or (taken.version, taken.label) == (freely.version, freely.label):
                continue
            opposed = [other for other in best.agreed if other.objection(freely.properties)]
            if agreed in opposed or not opposed:
                changes.append(Concession(taken, freely))
        return tuple(changes)

    def _obstacle(self, reported: Sequence[RefusedAttempt]) -> Agreement:
        """Return the agreement that cannot be reached: the last one in the longest attempt."""
        last = max((refused.agreed for refused in reported), key=len)[-1].agreement
        first = self._first_unmet(self._free)
        return last if first is None or not self._holds(self._free, last) else first

    def _error(self, reported: Iterable[RefusedAttempt]) -> NoConsistentSet:
        agreement = self._obstacle(reported := [*reported])
        free = [build for build in self._free.chosen.values() if build.properties]
        packages = {build.name: _sorted(agreement.values(build.properties)) for build in free}
        packages = {name: values for name, values in packages.items() if values}
        lines, sets = [], []
        for refused in reported:
            error = refused.why()
            values = ", ".join(map(str, refused.agreed))
            concerned = [build for build in free if _declares_value(build, refused.agreed)]
            compatible = sorted(
                build.name for build in concerned if _is_compatible(build, refused.agreed)
            )
            incompatible = sorted({build.name for build in concerned} - set(compatible))
            names = f" ({listed(compatible)})" if compatible else ""
            lines.append(f"{values}{names} is not available for all packages: {error.message}")
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
            f"{_sides(agreement, packages)}",
            details=sets,
            note="\n".join(["the closest sets:", *lines]),
            hint="relax the requirement on one of them; as a last resort --allow-mixed "
            f"{agreement.name} installs them side by side",
        )


def _decided_by(agreed: Agreed, names: Sequence[NormalizedName]) -> Agreed:
    return agreed._replace(because=f"because of {listed(names)}" if names else "")


def _required_value(attempt: Attempt[Any] | RefusedAttempt, agreement: Agreement) -> str | None:
    """Return the value that was required of a set for an agreement."""
    return next((a.value for a in attempt.agreed if a.agreement == agreement), None)


def _compatible_offers(chosen: ChosenBuild) -> Iterable[PropertySet]:
    return chosen.offers if chosen.beside is None else chosen.beside


def _is_bound(values: frozenset[str], rivals: frozenset[str]) -> bool:
    """Return whether a build is for a value, and for none of the rival values."""
    return bool(values) and values.isdisjoint(rivals)


def _declares_value(chosen: ChosenBuild, agreed: Sequence[Agreed]) -> bool:
    """Return whether a build declares a value for any of the agreements."""
    return any(each.agreement.values(chosen.properties) for each in agreed)


def _is_compatible(chosen: ChosenBuild, agreed: Sequence[Agreed]) -> bool:
    """Return whether a package has a build that goes with some values."""
    offers = chosen.offers or (chosen.properties,)
    return any(all(each.objection(offer) is None for each in agreed) for offer in offers)


def _sides(agreement: Agreement, packages: Mapping[NormalizedName, Sequence[str]]) -> str:
    """Format packages by their values, as ``CUDA 12: flash-attn, vllm; CUDA 13: torch``."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, values in sorted(packages.items()):
        groups.setdefault(tuple(values), []).append(name)
    ordered = sorted(groups.items(), key=lambda item: [value_key(value) for value in item[0]])
    return "; ".join(
        f"{agreement.in_words(values)}: {', '.join(names)}" for values, names in ordered
    )


def _sorted(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(values, key=value_key))
