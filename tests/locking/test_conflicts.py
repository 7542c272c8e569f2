"""Forks of extras and groups that conflict, and the markers that tell them apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheelfit.core.markers import parse_marker
from wheelfit.errors import UsageError
from wheelfit.locking.conflicts import Conflict, RequestMarkers, forks_of
from wheelfit.locking.request import in_extras

NAMES = "abcde"
LINUX = (("linux", "x86_64", "cpython"), (3, 12))


def conflicts_of(*rows: str) -> list[Conflict]:
    """Return conflicts of extras whose names are letters."""
    return [tuple(map(in_extras, row)) for row in rows]


def allowed(conflicts: Sequence[Conflict]) -> Iterator[frozenset[str]]:
    """Yield all sets of extras of which no two conflict."""
    for count in range(len(NAMES) + 1):
        for names in combinations(NAMES, count):
            asked = set(map(in_extras, names))
            if all(len(asked & {*members}) < 2 for members in conflicts):
                yield frozenset(names)


def holds(text: str, extras: frozenset[str]) -> bool:
    """Return whether a marker holds for some extras."""
    return parse_marker(text).evaluate({"extras": extras, "dependency_groups": frozenset()})


def test_two() -> None:
    """Of two the first holds unless the second is asked for."""
    first, second = forks_of(conflicts_of("ab"))
    assert first.condition == ("'b' not in extras",)
    assert second.condition == ("'b' in extras",)


@given(st.lists(st.sets(st.sampled_from(NAMES), min_size=2, max_size=3).map(sorted), max_size=3))
def test_exactly_one_holds(rows: list[list[str]]) -> None:
    """Whatever may be asked for, exactly one fork holds, and it leaves nothing of it out."""
    conflicts = conflicts_of(*map("".join, rows))
    forks = forks_of(conflicts)
    for extras in allowed(conflicts):
        holding = [
            fork
            for fork in forks
            if not fork.condition or holds(" and ".join(fork.condition), extras)
        ]
        assert len(holding) == 1
        assert holding[0].left_out.isdisjoint(map(in_extras, extras))


def test_what_all_forks_have() -> None:
    """What every fork has for the same reason needs no condition of them."""
    forks = forks_of(conflicts_of("ab"))
    kinds, own = RequestMarkers(forks), RequestMarkers(forks)
    for fork in forks:
        kinds.add(LINUX, fork, frozenset([in_extras("c")]))
    own.add(LINUX, forks[1], frozenset([in_extras("b")]))
    assert kinds.by_environment() == {LINUX: {"'c' in extras"}}
    assert own.by_environment() == {LINUX: {"'b' in extras"}}


def test_what_one_fork_has() -> None:
    """What one fork has always counts where that fork does."""
    forks = forks_of(conflicts_of("ab"))
    kinds = RequestMarkers(forks)
    kinds.add(LINUX, forks[0], frozenset())
    assert kinds.by_environment() == {LINUX: {"'b' not in extras"}}


def test_too_many() -> None:
    """Too many combinations are an error, and no endless work."""
    with pytest.raises(UsageError, match="more than 64"):
        forks_of(conflicts_of("abcde", "abcde", "abcde"))
