"""The shortest markers that match some of the environments of a lock.

In PEP 751 each entry has one marker, and conditions cannot be named. A marker only has to
distinguish the environments of the lock: for any other environment the lock is refused.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, TypeVar

from wheelfit.locking.environments import python_text

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

    from wheelfit.locking.environments import LockEnvironment, MarkerValues, Platform, Python

    First = TypeVar("First", bound=Hashable)
    Second = TypeVar("Second", bound=Hashable)

_PLATFORM_VARIABLES = ("sys_platform", "platform_machine", "implementation_name")


class MarkerWriter:
    """A writer of markers for the environments of one lock."""

    def __init__(self, environments: Iterable[LockEnvironment]) -> None:
        self._all_values = sorted({environment.marker_values for environment in environments})
        self._platforms = sorted({platform for platform, _ in self._all_values})
        self._pythons = sorted({python for _, python in self._all_values})

    def environments(self) -> tuple[str, ...]:
        """Return the ``environments`` of a lock: markers of which one matches each environment.

        They omit the Python version where ``requires-python`` suffices: if a platform has all
        Pythons of the lock, and no minor version is missing between them.
        """
        texts = []
        for platform in self._platforms:
            terms = _equalities(_PLATFORM_VARIABLES, platform)
            pythons = [python for other, python in self._all_values if other == platform]
            if pythons == self._pythons and _is_contiguous(pythons):
                texts.append(_conjunction(terms))
            else:
                texts += [_conjunction([*terms, _python_equality(python)]) for python in pythons]
        return tuple(texts)

    def marker(self, request_markers: Mapping[MarkerValues, frozenset[str]]) -> str | None:
        """Return the marker of an entry; None: it always applies.

        :param request_markers: for each environment in which the entry applies, the markers of the
            extras and groups that need it; one of them must hold. Empty: it always applies there.
        """
        groups: dict[frozenset[str], set[MarkerValues]] = {}
        for values, markers in request_markers.items():
            groups.setdefault(markers, set()).add(values)
        parts = []
        for markers, values_of_group in sorted(groups.items(), key=lambda item: sorted(item[0])):
            environment_marker = self._environment_marker(values_of_group)
            request_marker = _disjunction(sorted(markers))
            if environment_marker is None and not request_marker:
                return None
            parts.append(_conjunction(filter(None, (environment_marker, request_marker))))
        return _disjunction(parts)

    def _environment_marker(self, selected: Collection[MarkerValues]) -> str | None:
        """Return a marker that matches the selected environments and no other ones of the lock."""
        if len(selected) == len(self._all_values):
            return None
        # There are two ways to write the environments: each set of Pythons with all platforms that
        # have exactly these, or each set of platforms with its Pythons. The shorter one is used.
        platforms_by_pythons = _group_by_partners(selected)
        pythons_by_platforms = _group_by_partners(
            (python, platform) for platform, python in selected
        )
        candidates = (
            [
                self._product(platforms, pythons)
                for pythons, platforms in platforms_by_pythons.items()
            ],
            [
                self._product(platforms, pythons)
                for platforms, pythons in pythons_by_platforms.items()
            ],
        )
        shortest = min(candidates, key=lambda parts: (len(parts), sum(map(len, parts))))
        return _disjunction(sorted(shortest))

    def _product(self, platforms: Collection[Platform], pythons: Collection[Python]) -> str:
        """Return a marker that matches each of some platforms with each of some Pythons."""
        parts = (self._platform_marker(platforms), self._python_marker(pythons))
        return _conjunction(filter(None, parts))

    def _platform_marker(self, platforms: Collection[Platform]) -> str | None:
        """Return a marker of platforms, with the fewest variables that exclude the others.

        None if there are no others.
        """
        others = [platform for platform in self._platforms if platform not in platforms]
        if not others:
            return None
        for count in range(1, len(_PLATFORM_VARIABLES) + 1):
            for indexes in combinations(range(len(_PLATFORM_VARIABLES)), count):
                values = {tuple(platform[index] for index in indexes) for platform in platforms}
                other_values = {tuple(platform[index] for index in indexes) for platform in others}
                if not values.isdisjoint(other_values):
                    continue
                names = [_PLATFORM_VARIABLES[index] for index in indexes]
                if count == 1 and len(other_values) < len(values):
                    return _conjunction(
                        _comparison(names[0], "!=", value) for (value,) in sorted(other_values)
                    )
                return _disjunction(
                    _conjunction(_equalities(names, value)) for value in sorted(values)
                )
        raise ValueError(platforms)  # all variables together distinguish all platforms

    def _python_marker(self, pythons: Collection[Python]) -> str | None:
        selected = sorted(pythons)
        if selected == self._pythons:
            return None
        first, last = self._pythons.index(selected[0]), self._pythons.index(selected[-1])
        if len(selected) == 1 and 0 < first < len(self._pythons) - 1:
            return _python_equality(selected[0])
        if last - first + 1 != len(selected):
            return _disjunction(map(_python_equality, selected))
        bounds = []
        if first > 0:
            bounds.append(f"python_version >= '{python_text(selected[0])}'")
        if last < len(self._pythons) - 1:
            bounds.append(f"python_version < '{python_text(self._pythons[last + 1])}'")
        return _conjunction(bounds)


def _group_by_partners(
    pairs: Iterable[tuple[First, Second]],
) -> dict[frozenset[Second], list[First]]:
    """Group the first items of pairs by the set of all second items they are paired with."""
    partners: dict[First, set[Second]] = {}
    for first, second in pairs:
        partners.setdefault(first, set()).add(second)
    groups: dict[frozenset[Second], list[First]] = {}
    for first, seconds in partners.items():
        groups.setdefault(frozenset(seconds), []).append(first)
    return groups


def _is_contiguous(pythons: Sequence[Python]) -> bool:
    """Return whether no minor version is missing between the first and the last."""
    minors = [minor for _, minor in pythons]
    return minors == list(range(minors[0], minors[0] + len(minors)))


def _python_equality(python: Python) -> str:
    return _equality("python_version", python_text(python))


def _equalities(variables: Iterable[str], values: Iterable[str]) -> list[str]:
    return list(map(_equality, variables, values))


def _equality(variable: str, value: str) -> str:
    return _comparison(variable, "==", value)


def _comparison(variable: str, operator: str, value: str) -> str:
    quote = '"' if "'" in value else "'"  # a host file may call a platform anything
    return f"{variable} {operator} {quote}{value}{quote}"


def _conjunction(terms: Iterable[str]) -> str:
    terms = list(terms)
    if len(terms) == 1:
        return terms[0]
    return " and ".join(f"({term})" if " or " in term else term for term in terms)


def _disjunction(terms: Iterable[str]) -> str:
    return " or ".join(terms)
