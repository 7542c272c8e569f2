"""Markers that hold in some of the environments of a lock, as short as can be.

PEP 751 has one marker for each entry, and nothing to give a condition a name. A marker only has to
distinguish the environments of the lock: where it is read for another one, the lock is refused
before.
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
        """Return the ``environments`` of a lock: whole markers, one holds in each.

        The Python is left to ``requires-python`` where every platform has every one of a row.
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
        for place, asked in kinds.items():
            groups.setdefault(asked, set()).add(place)
        parts = []
        for asked, places in sorted(groups.items(), key=lambda item: sorted(item[0])):
            where = self._where(places)
            who = _any(sorted(asked))
            if where is None and not who:
                return None
            parts.append(_all([part for part in (where, who) if part]))
        return _any(parts)

    def _where(self, places: Collection[Place]) -> str | None:
        """Return a marker that holds in some places and no other of the lock."""
        if len(places) == len(self._places):
            return None
        by_platform = _grouped((platform, python) for platform, python in places)
        by_python = _grouped((python, platform) for platform, python in places)
        one = [self._product(platforms, versions) for versions, platforms in by_platform.items()]
        other = [self._product(platforms, versions) for platforms, versions in by_python.items()]
        shorter = min(one, other, key=lambda parts: (len(parts), sum(map(len, parts))))
        return _any(sorted(shorter))

    def _product(
        self, platforms: Collection[tuple[str, str, str]], pythons: Collection[Python]
    ) -> str:
        return _all([part for part in (self._platform(platforms), self._python(pythons)) if part])

    def _platform(self, platforms: Collection[tuple[str, str, str]]) -> str | None:
        """Return a marker of platforms, with as few variables as distinguish them from others."""
        wanted = set(platforms)
        others = [one for one in self._platforms if one not in wanted]
        if not others:
            return None
        for count in range(1, len(_VARIABLES) + 1):
            for places in combinations(range(len(_VARIABLES)), count):

                def seen(
                    platform: tuple[str, ...], places: tuple[int, ...] = places
                ) -> tuple[str, ...]:
                    return tuple(platform[place] for place in places)

                values, apart = set(map(seen, wanted)), set(map(seen, others))
                if not values.isdisjoint(apart):
                    continue
                names = [_VARIABLES[place] for place in places]
                if count == 1 and len(apart) < len(values):
                    return _all([f"{names[0]} != '{value}'" for (value,) in sorted(apart)])
                return _any(
                    _all([_is(*pair) for pair in zip(names, value, strict=True)])
                    for value in sorted(values)
                )
        raise ValueError(platforms)  # all variables together distinguish all platforms

    def _python(self, pythons: Collection[Python]) -> str | None:
        wanted = sorted(pythons)
        if wanted == self._pythons:
            return None
        first, last = self._pythons.index(wanted[0]), self._pythons.index(wanted[-1])
        if len(wanted) == 1 and 0 < first < len(self._pythons) - 1:
            return _is("python_version", _version(wanted[0]))
        if last - first + 1 != len(wanted):
            return _any([_is("python_version", _version(one)) for one in wanted])
        bounds = []
        if first > 0:
            bounds.append(f"python_version >= '{_version(wanted[0])}'")
        if last < len(self._pythons) - 1:
            bounds.append(f"python_version < '{_version(self._pythons[last + 1])}'")
        return _all(bounds)


def _grouped(pairs: Iterable[tuple[Left, Right]]) -> dict[frozenset[Right], list[Left]]:
    """Put the left sides together that have the same right sides."""
    rights_of: dict[Left, set[Right]] = {}
    for left, right in pairs:
        rights_of.setdefault(left, set()).add(right)
    groups: dict[frozenset[Right], list[Left]] = {}
    for left, rights in rights_of.items():
        groups.setdefault(frozenset(rights), []).append(left)
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
