"""Markers hold in just the environments that they are made for, and are short."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from wheelfit.core.markers import parse_marker
from wheelfit.core.requirements import parse_requirement
from wheelfit.errors import UsageError
from wheelfit.locking.environments import (
    LockEnvironment,
    MarkerValues,
    describe_environments,
    environments_for,
    known_pythons,
    requires_python,
)
from wheelfit.locking.marker_writer import MarkerWriter
from wheelfit.locking.request import Root

ROWS = ("linux-x86_64", "linux-aarch64", "macos-arm64", "macos-x86_64", "windows-x86_64")
PYTHONS = ((3, 11), (3, 12), (3, 13), (3, 14))
ALL = environments_for(ROWS, PYTHONS)
KINDS = ("'a' in extras", "'b' in dependency_groups")


def place(one: LockEnvironment) -> MarkerValues:
    """Return what markers see of an environment."""
    return one.platform, one.python


def holds(marker: str | None, one: LockEnvironment, asked: frozenset[str]) -> bool:
    """Evaluate a marker as a lock is read."""
    environment: dict[str, str | frozenset[str]] = {
        **one.target.environment,
        "extras": frozenset(["a"] if KINDS[0] in asked else []),
        "dependency_groups": frozenset(["b"] if KINDS[1] in asked else []),
    }
    return marker is None or parse_marker(marker).evaluate(environment)


@given(
    st.lists(st.sampled_from(ALL), min_size=1, unique=True).flatmap(
        lambda chosen: st.tuples(
            st.just(chosen),
            st.dictionaries(
                st.sampled_from(chosen).map(place),
                st.frozensets(st.sampled_from(KINDS)),
                min_size=1,
            ),
        )
    )
)
def test_it_holds_just_where_it_should(
    drawn: tuple[list[LockEnvironment], Mapping[MarkerValues, frozenset[str]]],
) -> None:
    """In each environment of a lock, for whatever is asked for."""
    environments, kinds = drawn
    marker = MarkerWriter(environments).marker(kinds)
    for environment in environments:
        wanted = kinds.get(place(environment))
        for asked in (frozenset[str](), frozenset(KINDS[:1]), frozenset(KINDS[1:])):
            expected = wanted is not None and (not wanted or not wanted.isdisjoint(asked))
            assert holds(marker, environment, asked) == expected, marker


@given(st.lists(st.sampled_from(ALL), min_size=1, unique=True))
def test_a_lock_is_for_its_environments_only(environments: list[LockEnvironment]) -> None:
    """``environments`` and ``requires-python`` together admit them and no other that we know."""
    texts = MarkerWriter(environments).environments()
    pythons = SpecifierSet(requires_python([environment.python for environment in environments]))
    for one in ALL:
        admitted = pythons.contains(one.target.python_full_version) and any(
            holds(text, one, frozenset()) for text in texts
        )
        assert admitted == (one in environments), texts


@pytest.mark.parametrize(
    ("rows", "pythons", "expected"),
    [
        (ROWS, PYTHONS, None),
        (ROWS[:2], PYTHONS, "sys_platform == 'linux'"),
        (ROWS[:4], PYTHONS, "sys_platform != 'win32'"),
        (ROWS[1:2], PYTHONS, "platform_machine == 'aarch64'"),
        (ROWS[:1], PYTHONS, "sys_platform == 'linux' and platform_machine == 'x86_64'"),
        (ROWS, PYTHONS[:2], "python_version < '3.13'"),
        (ROWS, PYTHONS[2:], "python_version >= '3.13'"),
        (ROWS, PYTHONS[1:2], "python_version == '3.12'"),
        (ROWS, PYTHONS[1:3], "python_version >= '3.12' and python_version < '3.14'"),
        (ROWS[4:], PYTHONS[:1], "sys_platform == 'win32' and python_version < '3.12'"),
    ],
)
def test_it_is_short(
    rows: tuple[str, ...], pythons: tuple[tuple[int, int], ...], expected: str | None
) -> None:
    """As people would write it."""
    wanted = {place(one): frozenset[str]() for one in environments_for(rows, pythons)}
    assert MarkerWriter(ALL).marker(wanted) == expected


def test_strange_names() -> None:
    """A host file may call a platform anything."""
    (one, other) = environments_for(["linux-x86_64"], PYTHONS[:2])
    odd = dict(one.target.environment) | {"sys_platform": "plan's 9"}
    strange = LockEnvironment("odd", type(one.target).of("odd", odd, one.target.tags))
    marker = MarkerWriter([strange, other]).marker({place(strange): frozenset()})
    assert marker is not None
    assert parse_marker(marker).evaluate(odd)
    assert not parse_marker(marker).evaluate(other.target.environment)
    linux, macos = environments_for(["linux-x86_64", "macos-arm64"], PYTHONS[:1])
    writer = MarkerWriter([linux, macos, strange])
    marker = writer.marker({place(one): frozenset[str]() for one in (linux, macos)})
    assert marker is not None
    assert marker.startswith('sys_platform != "plan\'s 9"')
    assert not parse_marker(marker).evaluate(odd)


@pytest.mark.parametrize(
    ("pythons", "wanted", "expected"),
    [
        ([(3, 12)], None, ">=3.12,<3.13"),
        ([(3, 11), (3, 12)], ">=3.11.4", ">=3.11.4,<3.13"),
        ([(3, 12)], ">=3.10,<4", ">=3.12,<3.13"),
        ([(3, 12), (3, 14)], "", ">=3.12,<3.15"),
    ],
)
def test_which_pythons(pythons: list[tuple[int, int]], wanted: str | None, expected: str) -> None:
    """What a project says is narrowed to what was locked."""
    specifiers = None if wanted is None else SpecifierSet(wanted)
    assert requires_python(pythons, specifiers) == expected


def test_known_pythons() -> None:
    """Those that a project admits; none is an error that says what to do."""
    assert known_pythons(SpecifierSet(">=3.12,<3.14")) == ((3, 12), (3, 13))
    with pytest.raises(UsageError) as excinfo:
        known_pythons(SpecifierSet("<3"))
    assert "--python-version" in str(excinfo.value.hint)


@pytest.mark.parametrize(
    ("wanted", "python", "full"),
    [
        (">=3.12", (3, 12), "3.12.16"),
        ("==3.12.5", (3, 12), "3.12.5"),
        (">=3.12.4,<3.12.10", (3, 12), "3.12.9"),
        (">=3.9,<=3.12", (3, 12), "3.12.0"),
        (">=3.8.1", (3, 8), "3.8.1"),
    ],
)
def test_micro_versions(wanted: str, python: tuple[int, int], full: str) -> None:
    """Markers see the newest micro version that the project is for."""
    specifiers = SpecifierSet(wanted)
    (one,) = environments_for(["linux-x86_64"], [python], specifiers)
    assert one.target.environment["python_full_version"] == full
    assert python < (3, 9) or python in known_pythons(specifiers)


def test_in_words() -> None:
    """Platforms with the same Pythons together; machines by their names."""
    some = (*environments_for(ROWS[:2], PYTHONS[:2]), *environments_for(ROWS[4:], PYTHONS[:1]))
    assert describe_environments(some) == (
        "linux-x86_64 and linux-aarch64, Python 3.11 and 3.12; windows-x86_64, Python 3.11"
    )
    machines = [LockEnvironment(name, some[0].target) for name in ("a", "b", "c")]
    assert describe_environments(machines) == "a, b and c"


@pytest.mark.parametrize(
    ("text", "extra", "expected"),
    [
        ("rich>=2", None, "rich>=2"),
        ("rich; os_name == 'nt'", "more", 'rich; os_name == "nt" and "more" in extras'),
        ("a; os_name == 'nt' or os_name == 'x'", "m",
         'a; (os_name == "nt" or os_name == "x") and "m" in extras'),
        ("a @ https://me:pw@x/a-1-py3-none-any.whl", "m",
         'a @ https://x/a-1-py3-none-any.whl ; "m" in extras'),
    ],
)  # fmt: skip
def test_roots(text: str, extra: str | None, expected: str) -> None:
    """A root says when it counts, and holds no login; it reads back."""
    root = Root(parse_requirement(text, allow_variant_markers=False), "", extra)  # type: ignore[arg-type]
    assert str(root) == expected
    assert str(parse_requirement(expected, allow_variant_markers=False)) == expected
