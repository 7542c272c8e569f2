"""Markers that hold in some of the environments of a lock, as short as possible.

PEP 751 has one marker for each entry, and no way to name a condition. A marker only has to
distinguish the environments of the lock: for any other environment the lock is refused.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

    from wheelfit.locking.environments import LockEnvironment, Python

    Left = TypeVar("Left", bound=Hashable)
    Right = TypeVar("Right", bound=Hashable)

Place = tuple[tuple[str, str, str], tuple[int, int]]
"""Platform and Python: the values by which markers distinguish environments."""
_VARIABLES = ("sys_platform", "platform_machine", "implementation_name")


class Conditions:
    """A writer of markers for the environments of one lock.

    :param environments: all of them.
    """

    def __init__(self, environments: Iterable[LockEnvironment]) -> None:
        places = dict.fromkeys(environment.marker_values for environment in environments)
        self._places = sorted(places)
        self._platforms = sorted({platform for platform, _ in self._places})
        self._pythons = sorted({python for _, python in self._places})

    def environments(self) -> tuple[str, ...]:
        """Return the ``environments`` of a lock: markers of which one holds in each environment.

        They omit the Python where ``requires-python`` suffices: if a platform has all Pythons of
        the lock and no minor version is missing between them.
        """
        pythons = {
            platform: frozenset(python for other, python in self._places if other == platform)
            for platform in self._platforms
        }
        texts = []
        for platform, versions in pythons.items():
            terms = [_is(*pair) for pair in zip(_VARIABLES, platform, strict=True)]
            if versions == frozenset(self._pythons) and _is_row(self._pythons):
                texts.append(_all(terms))
            else:
                texts += [
                    _all([*terms, _is("python_version", _version(python))])
                    for python in sorted(versions)
                ]
        return tuple(texts)

    def marker(self, kinds: Mapping[Place, frozenset[str]]) -> str | None:
        """Return the marker of an entry; None: it always applies.

        :param kinds: the places where it applies; in each, the markers of the extras and groups of
            which one must be requested, or none if it always applies.
        """
        groups: dict[frozenset[str], set[Place]] = {}
        for place, requested in kinds.items():
            groups.setdefault(requested, set()).add(place)
        parts = []
        for requested, places in sorted(groups.items(), key=lambda item: sorted(item[0])):
            environment_marker = self._where(places)
            request_marker = _any(sorted(requested))
            if environment_marker is None and not request_marker:
                return None
            parts.append(_all([part for part in (environment_marker, request_marker) if part]))
        return _any(parts)

    def _where(self, places: Collection[Place]) -> str | None:
        """Return a marker that holds in some places of the lock and in no other one."""
        if len(places) == len(self._places):
            return None
        by_platform = _grouped((platform, python) for platform, python in places)
        by_python = _grouped((python, platform) for platform, python in places)
        platforms_first = [
            self._product(platforms, versions) for versions, platforms in by_platform.items()
        ]
        pythons_first = [
            self._product(platforms, versions) for platforms, versions in by_python.items()
        ]
        shorter = min(
            platforms_first, pythons_first, key=lambda parts: (len(parts), sum(map(len, parts)))
        )
        return _any(sorted(shorter))

    def _product(
        self, platforms: Collection[tuple[str, str, str]], pythons: Collection[Python]
    ) -> str:
        return _all([part for part in (self._platform(platforms), self._python(pythons)) if part])

    def _platform(self, platforms: Collection[tuple[str, str, str]]) -> str | None:
        """Return a marker of platforms, with the fewest variables that exclude the others."""
        selected = set(platforms)
        others = [platform for platform in self._platforms if platform not in selected]
        if not others:
            return None
        for count in range(1, len(_VARIABLES) + 1):
            for indexes in combinations(range(len(_VARIABLES)), count):

                def values_of(
                    platform: tuple[str, ...], indexes: tuple[int, ...] = indexes
                ) -> tuple[str, ...]:
                    return tuple(platform[index] for index in indexes)

                values = set(map(values_of, selected))
                other_values = set(map(values_of, others))
                if not values.isdisjoint(other_values):
                    continue
                names = [_VARIABLES[index] for index in indexes]
                if count == 1 and len(other_values) < len(values):
                    return _all([f"{names[0]} != '{value}'" for (value,) in sorted(other_values)])
                return _any(
                    _all([_is(*pair) for pair in zip(names, value, strict=True)])
                    for value in sorted(values)
                )
        raise ValueError(platforms)  # all variables together distinguish all platforms

    def _python(self, pythons: Collection[Python]) -> str | None:
        selected = sorted(pythons)
        if selected == self._pythons:
            return None
        first, last = self._pythons.index(selected[0]), self._pythons.index(selected[-1])
        if len(selected) == 1 and 0 < first < len(self._pythons) - 1:
            return _is("python_version", _version(selected[0]))
        if last - first + 1 != len(selected):
            return _any([_is("python_version", _version(python)) for python in selected])
        bounds = []
        if first > 0:
            bounds.append(f"python_version >= '{_version(selected[0])}'")
        if last < len(self._pythons) - 1:
            bounds.append(f"python_version < '{_version(self._pythons[last + 1])}'")
        return _all(bounds)


def _grouped(pairs: Iterable[tuple[Left, Right]]) -> dict[frozenset[Right], list[Left]]:
    """Group the left sides by their sets of right sides."""
    rights_of: dict[Left, set[Right]] = {}
    for left_side, right in pairs:
        rights_of.setdefault(left_side, set()).add(right)
    groups: dict[frozenset[Right], list[Left]] = {}
    for left_side, rights in rights_of.items():
        groups.setdefault(frozenset(rights), []).append(left_side)
    return groups


def _is_row(pythons: Sequence[Python]) -> bool:
    """Return whether no minor version is missing between the first and the last."""
    minors = [minor for _, minor in pythons]
    return minors == list(range(minors[0], minors[0] + len(minors)))


def _version(python: Python) -> str:
    return f"{python[0]}.{python[1]}"


def _is(variable: str, value: str) -> str:
    quote = '"' if "'" in value else "'"  # a host file may call a platform anything
    return f"{variable} == {quote}{value}{quote}"


def _all(terms: Sequence[str]) -> str:
    if len(terms) == 1:
        return terms[0]
    return " and ".join(f"({term})" if " or " in term else term for term in terms)


def _any(terms: Iterable[str]) -> str:
    return " or ".join(terms)
