"""The choice of one of several values by what this machine supports, from a table of cases.

The values may be anything: names of data files, shared libraries, modules of plugins. A condition
is a property, or several of them; several values of one feature are alternatives, several features
must all be met, as in a variant::

    kernels = select(
        {
            "x86_64 :: level :: v4": "kernels-avx512.bin",
            "x86_64 :: level :: v3": "kernels-avx2.bin",
        },
        default="kernels.bin",
    )

If several conditions hold, the one that *specialises* all others is chosen. If none does, all
conditions that no other one specialises must lead to the same value; otherwise the table is
ambiguous, which is an error. A condition specialises another one if both hold, and

- it names every feature of the other;
- for each of these features, its best supported value is equal or better: the provider lists better
  values first (``v4`` before ``v3``);
- it has a further feature, a better value, or fewer alternatives.

In the example, both conditions hold on a machine with level v4; the first one specialises the
second, as v4 is better than v3.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, overload

from wheelfit_runtime.errors import NoFit, UserError
from wheelfit_runtime.loader.declarations import Feature, Property
from wheelfit_runtime.loader.planning import why_unsupported
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wheelfit_runtime.platforms.features import Detection

Value = TypeVar("Value")
Default = TypeVar("Default")

_PROPERTY = pattern(r"\s*([a-z0-9_]+)\s*::\s*([a-z0-9_]+)\s*::\s*([a-z0-9_.]+)\s*")
_SM_ARCH = Feature("nvidia", "sm_arch")
_UNSET: object = object()


class Case(NamedTuple):
    """One row of a table."""

    condition: tuple[Property, ...]
    """The properties that must be supported, one entry for each feature."""
    value: object

    def __str__(self) -> str:
        return " and ".join(map(str, self.condition))


class CaseVerdict(NamedTuple):
    """The verdict of a machine on one row."""

    case: Case
    reason: str
    """The reason it does not hold, one clause; empty: it does."""


class Choice(NamedTuple, Generic[Value]):
    """The chosen value, with the reasons."""

    value: Value
    case: Case | None
    """The row it comes from; None: it is the default."""
    verdicts: tuple[CaseVerdict, ...]
    """The verdict on each row, in the order of the table."""

    def __str__(self) -> str:
        lines = []
        for case, reason in self.verdicts:
            state = "chosen" if case is self.case else "no" if reason else "also"
            lines.append(f"{state}: {case}" + (f" ({reason})" if reason else ""))
        if self.case is None:
            lines.append("chosen: the default")
        return "\n".join(lines)


class Cases(Generic[Value]):
    """A table of conditions and values, for one machine or several; parameters as of `select`.

    :raises UserError: ``invalid-property``; a condition is not valid.
    :raises UserError: ``invalid-cases``; both ``default`` and ``no_match`` are given, a
        condition is empty, or two are the same.
    """

    def __init__(
        self,
        table: Mapping[Any, Value],
        *,
        default: Value | object = _UNSET,
        no_match: str = "",
    ) -> None:
        if default is not _UNSET and no_match:
            raise UserError(
                "a table has a default or no_match, not both",
                code="invalid-cases",
                hint="give a default, or a message for machines on which no condition holds",
            ).with_parts_as_notes()
        self._default = default
        self._no_match = no_match
        cases: dict[tuple[Property, ...], Case] = {}
        for condition, value in table.items():
            case = Case(_condition(condition), value)
            if case.condition in cases:
                raise UserError(f"two cases have the same condition: {case}", code="invalid-cases")
            cases[case.condition] = case
        self.cases = tuple(cases.values())

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that conditions name, in the order of the table."""
        return tuple(dict.fromkeys(property_.feature.namespace for property_ in self._properties()))

    @property
    def needs_devices(self) -> bool:
        """Whether a condition is about single NVIDIA GPUs, not about the driver alone."""
        return any(property_.feature == _SM_ARCH for property_ in self._properties())

    def _properties(self) -> Iterator[Property]:
        return (property_ for case in self.cases for property_ in case.condition)

    def choose(self, detections: Mapping[str, Detection]) -> Choice[Value]:
        """Return the value for a machine, with the verdict on each condition.

        :param detections: the detections, by namespace; conditions on others do not hold.
        :raises UserError: ``ambiguous-cases``; several conditions hold, and none specialises the
            others.
        :raises NoFit: ``no-case-fits``; no condition holds, and there is no default.
        """
        verdicts = tuple(CaseVerdict(case, _why_not(case, detections)) for case in self.cases)
        matching = [verdict.case for verdict in verdicts if not verdict.reason]
        if not matching:
            if self._default is _UNSET:
                raise _no_match_error(verdicts, self._no_match)
            return Choice(self._default, None, verdicts)  # type: ignore[arg-type]
        ranks = {case.condition: _ranks(case, detections) for case in matching}
        best = [
            case
            for case in matching
            if all(case is other or _specialises(case, other, ranks) for other in matching)
        ]
        if not best:
            # Rows that another one specialises need not be distinguished.
            best = [
                case
                for case in matching
                if not any(_specialises(other, case, ranks) for other in matching)
            ]
            if not all(_is_same(case.value, best[0].value) for case in best):
                raise UserError(
                    "several cases hold, and none of them specialises the others",
                    code="ambiguous-cases",
                    note="\n".join(f"{case}: {case.value!r}" for case in best),
                    hint="add a case with all of their properties, or take one of them out",
                ).with_parts_as_notes()
        return Choice(best[0].value, best[0], verdicts)  # type: ignore[arg-type]


@overload
def select(
    table: Mapping[Any, Value],
    *,
    no_match: str = "",
    detections: Mapping[str, Detection] | None = None,
) -> Value: ...
@overload
def select(
    table: Mapping[Any, Value],
    *,
    default: Default,
    detections: Mapping[str, Detection] | None = None,
) -> Value | Default: ...
def select(
    table: Mapping[Any, Value],
    *,
    default: Value | object = _UNSET,
    no_match: str = "",
    detections: Mapping[str, Detection] | None = None,
) -> object:
    """Return the value of the case that fits this machine; see the module for the rules.

    >>> select({"x86_64 :: level :: v9": "fast.bin"}, default="any.bin")
    'any.bin'

    :param table: values by condition; a condition is a property, or a tuple of them.
    :param default: the value where no condition holds.
    :param no_match: instead of a default: the message where no condition holds.
    :param detections: the detections, by namespace; default: those of this machine, made once in a
        process unless its environment variables change.
    :raises UserError: ``ambiguous-cases``; several conditions hold, and none specialises the
        others.
    :raises NoFit: ``no-case-fits``; no condition holds, and there is no default.
    :raises UserError: ``invalid-property``; a condition is not valid.
    """
    cases = Cases(table, default=default, no_match=no_match)
    if detections is None:
        detections = _detections_here(cases.namespaces, devices=cases.needs_devices)
    return cases.choose(detections).value


_CACHE: dict[
    tuple[tuple[str, ...], bool], tuple[frozenset[tuple[str, str]], Mapping[str, Detection]]
] = {}
"""The last detections of this process, with their environment variables."""


def _detections_here(namespaces: tuple[str, ...], *, devices: bool) -> Mapping[str, Detection]:
    environ = frozenset(os.environ.items())
    cached_environ, detections = _CACHE.get((namespaces, devices), (None, {}))
    if cached_environ != environ:
        from wheelfit_runtime.loader.process import detect, process_view

        detections = detect(namespaces, process_view(os.environ), devices=devices).detections
        _CACHE[namespaces, devices] = environ, detections
    return detections


def _is_same(value: object, other: object) -> bool:
    try:
        return value is other or bool(value == other)
    except Exception:  # noqa: BLE001 - a value may be of any type, as an array
        return False


def _condition(condition: object) -> tuple[Property, ...]:
    texts = (condition,) if isinstance(condition, str) else condition
    if not isinstance(texts, tuple | frozenset) or not texts:
        raise UserError(
            f"a condition is a property or a tuple of properties, not {condition!r}",
            code="invalid-cases",
            hint="for all other machines write a default: select(…, default=…)",
        ).with_parts_as_notes()
    values: dict[Feature, set[str]] = {}
    for text in texts:
        match = _PROPERTY.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise UserError(
                f"{text!r} is not a property",
                code="invalid-property",
                hint="write namespace :: feature :: value",
            ).with_parts_as_notes()
        values.setdefault(Feature(match[1], match[2]), set()).add(match[3])
    # Sorted, so that the same condition in another order is equal.
    return tuple(Property(feature, tuple(sorted(values[feature]))) for feature in sorted(values))


def _why_not(case: Case, detections: Mapping[str, Detection]) -> str:
    for property_ in case.condition:
        detection = detections.get(property_.feature.namespace)
        if detection is None:
            return f"no provider detects {property_.feature}"
        if reason := why_unsupported(property_, detection):
            return reason
    return ""


def _ranks(case: Case, detections: Mapping[str, Detection]) -> dict[Feature, int]:
    """Return the index of the best supported value of each feature of a case that holds."""
    ranks = {}
    for property_ in case.condition:
        supported = detections[property_.feature.namespace].values_of(property_.feature.name)
        ranks[property_.feature] = min(
            supported.index(value) for value in property_.values if value in supported
        )
    return ranks


def _specialises(
    case: Case, other: Case, ranks: Mapping[tuple[Property, ...], Mapping[Feature, int]]
) -> bool:
    """Return whether a case specialises another on a machine where both hold."""
    case_ranks, other_ranks = ranks[case.condition], ranks[other.condition]
    if case is other or not _is_at_least_as_good(case_ranks, other_ranks):
        return False
    is_better = not _is_at_least_as_good(other_ranks, case_ranks)
    return is_better or _has_no_further_values(case, other)


def _is_at_least_as_good(ranks: Mapping[Feature, int], other_ranks: Mapping[Feature, int]) -> bool:
    """Return whether a case has all features of another one, with equal or better values."""
    return all(feature in ranks and ranks[feature] <= rank for feature, rank in other_ranks.items())


def _has_no_further_values(case: Case, other: Case) -> bool:
    """Return whether all alternatives of a case are alternatives of another one."""
    alternatives = {property_.feature: set(property_.values) for property_ in other.condition}
    return all(
        set(property_.values) <= alternatives[property_.feature] for property_ in case.condition
    )


def _no_match_error(verdicts: tuple[CaseVerdict, ...], no_match: str) -> NoFit:
    return NoFit(
        no_match or "no case of the table holds on this machine, and it has no default",
        code="no-case-fits",
        note="\n".join(f"{verdict.case}: {verdict.reason}" for verdict in verdicts) or None,
        hint=None if no_match else "add a default to the table, for all other machines",
    ).with_parts_as_notes()
