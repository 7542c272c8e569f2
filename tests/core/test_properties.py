from __future__ import annotations

import copy
import pickle
from itertools import product

import pytest
from error_codes import raises_code

from wheelfit.core.properties import (
    EMPTY,
    Feature,
    Property,
    PropertySet,
    parse_feature,
    parse_namespace,
    parse_property,
)

SM = Property("nvidia", "sm_arch", "90_real")


@pytest.mark.parametrize(
    "text",
    [
        "nvidia :: sm_arch :: 90_real",
        "nvidia::sm_arch::90_real",
        "  nvidia ::sm_arch::  90_real\t",
    ],
)
def test_blanks_around_colons(text: str) -> None:
    """F-5: blanks around '::' and at both ends are ignored; output has exactly one."""
    assert parse_property(text) == SM
    assert str(parse_property(text)) == "nvidia :: sm_arch :: 90_real"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nvidia",
        "nvidia :: sm_arch",
        "nvidia :: sm_arch :: 90 :: real",
        "nvidia :: sm_arch :: ",
        "Nvidia :: sm_arch :: 90_real",
        "nvidia :: sm arch :: 90_real",
        "nvidia :: sm.arch :: 90_real",
        "nvidia :: sm_arch :: 90-real",
        "nvidia :: sm_arch :: 90_real\n",
        "nvidia : sm_arch :: 90_real",
    ],
)
def test_what_is_no_property(text: str) -> None:
    """F-2, F-5: wrong part counts, inner blanks, upper case and newlines are errors."""
    with raises_code("invalid-property") as excinfo:
        parse_property(text)
    assert excinfo.value.hint is not None


def test_features_and_namespaces() -> None:
    """F-1: a feature is the first two parts, a namespace the first."""
    assert parse_feature(" x86_64::level ") == Feature("x86_64", "level")
    assert str(Feature("x86_64", "level")) == "x86_64 :: level"
    assert parse_namespace(" x86_64 ") == "x86_64"
    for text in ("", "a.b", "a::b"):
        with raises_code("invalid-property"):
            parse_namespace(text)
    with raises_code("invalid-property"):
        parse_feature("x86_64")


def test_invalid_values_cannot_be_made() -> None:
    """F-2: the types themselves refuse what breaks the character sets."""
    with raises_code("invalid-property"):
        Property("nvidia", "sm_arch", "")
    with raises_code("invalid-property"):
        Feature("nvidia", "sm-arch")
    with raises_code("invalid-property"):
        PropertySet.from_mapping({"nvidia": {"sm_arch": ["90 real"]}})
    with raises_code("invalid-property"):
        PropertySet.from_mapping({"nvidia": {"sm-arch": ["90_real"]}})


def test_a_set_is_canonical() -> None:
    """F-23, F-141: whatever the order of the input, the set is ascending and equal."""
    mapping = {"x86_64": {"level": ["v3"]}, "nvidia": {"sm_arch": ["90_real", "80_real"]}}
    wanted = PropertySet.from_mapping(mapping)
    assert [str(item) for item in wanted] == [
        "nvidia :: sm_arch :: 80_real",
        "nvidia :: sm_arch :: 90_real",
        "x86_64 :: level :: v3",
    ]
    assert wanted == PropertySet.of(reversed(list(wanted)))
    assert wanted == PropertySet.of(*wanted, SM)
    assert hash(wanted) == hash(PropertySet(wanted))
    assert wanted.to_mapping() == {
        "nvidia": {"sm_arch": ["80_real", "90_real"]},
        "x86_64": {"level": ["v3"]},
    }
    assert list(wanted.to_mapping()) == ["nvidia", "x86_64"]


def test_looking_into_a_set() -> None:
    """F-1: a set knows its namespaces, its features with values, and its properties."""
    wanted = PropertySet.from_mapping({"b": {"y": ["2", "1"], "x": ["1"]}, "a": {"z": ["0"]}})
    assert wanted.namespaces == ("a", "b")
    assert list(wanted.features()) == [
        (Feature("a", "z"), ("0",)),
        (Feature("b", "x"), ("1",)),
        (Feature("b", "y"), ("1", "2")),
    ]
    assert len(wanted) == 4
    assert Property("b", "y", "2") in wanted
    assert Property("b", "y", "3") not in wanted
    assert Property("b", "q", "2") not in wanted
    assert "b :: y :: 2" not in wanted
    assert str(PropertySet.of(SM)) == "nvidia :: sm_arch :: 90_real"


def test_the_empty_set() -> None:
    """F-25: empty namespaces and features equal absent ones."""
    assert not EMPTY
    assert PropertySet.from_mapping({"nvidia": {}, "x86_64": {"level": []}}) == EMPTY
    assert EMPTY != ()


def test_a_set_cannot_be_changed() -> None:
    """A set may be shared: it is frozen, and copies are equal."""
    wanted = PropertySet.of(SM)
    with pytest.raises(AttributeError):
        wanted._features = ()
    with pytest.raises(AttributeError):
        del wanted._features
    assert copy.deepcopy(wanted) == wanted
    assert pickle.loads(pickle.dumps(wanted)) == wanted
    assert repr(wanted) == "PropertySet.from_mapping({'nvidia': {'sm_arch': ['90_real']}})"


@pytest.mark.parametrize("namespaces", [1, 3])
@pytest.mark.parametrize("features", [1, 3])
@pytest.mark.parametrize("values", [1, 3])
def test_every_part_is_found(namespaces: int, features: int, values: int) -> None:
    """What is in a set is found by its parts, and nothing beside or between is."""
    steps = [f"{letter}{number}" for letter in "bdf" for number in (1, 3, 5)]
    used = steps[::3][:namespaces], steps[1::3][:features], steps[2::3][:values]
    wanted = PropertySet(Property(*parts) for parts in product(*used))
    for namespace, name, value in product(["", *steps, "z"], repeat=3):
        known = (namespace in used[0], name in used[1], value in used[2])
        assert wanted.uses(namespace) == known[0]
        assert wanted.values(namespace, name) == (
            tuple(used[2]) if known[:2] == (True, True) else ()
        )
        assert wanted.has(namespace, name, value) == all(known)
