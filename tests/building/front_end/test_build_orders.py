"""What is built alike is built once, and orders go anywhere."""

from __future__ import annotations

import pickle
from pathlib import Path

from wheelfit.building.front_end.build_orders import BuildOrder, BuiltWheel, orders_for
from wheelfit.building.front_end.recipes import Recipe, Recipes
from wheelfit.building.front_end.variants import PLAIN, Choice
from wheelfit.core.labels import NULL, Label
from wheelfit.core.properties import PropertySet, parse_property

V3 = Choice(Label("v3"), PropertySet([parse_property("x86_64 :: level :: v3")]))
V3_MKL = Choice(
    Label("v3_mkl"),
    PropertySet(map(parse_property, ("x86_64 :: level :: v3", "blas :: library :: mkl"))),
)
NOTHING = Choice(NULL)
ALL = (PLAIN, NOTHING, V3, V3_MKL)
ORDER = BuildOrder(Path("project"), (), Recipe())


def sets(recipes: Recipes, more: Recipe = Recipe()) -> list[tuple[Choice, ...]]:
    """Return which wheels are built together."""
    return [order.choices for order in orders_for(ORDER, ALL, recipes, more)]


def test_all_alike() -> None:
    """Without anything that tells them apart, one plain wheel does for all."""
    assert sets(Recipes()) == [ALL]


def test_flags_tell_apart() -> None:
    """Flags are those of the properties; equal ones are built together."""
    assert sets(Recipes(), Recipe(flags=True)) == [(PLAIN, NOTHING), (V3, V3_MKL)]
    assert sets(Recipes(every=Recipe(flags=True)), Recipe(flags=None)) == [
        (PLAIN, NOTHING), (V3, V3_MKL),
    ]  # fmt: skip
    words = Recipes(variants={Label("v3"): Recipe(words=("-O3",))})
    assert sets(words) == [(PLAIN, NOTHING, V3_MKL), (V3,)]


def test_settings_and_variables_tell_apart() -> None:
    """A recipe of its own is a build of its own; the same said twice is not."""
    own = {
        Label("v3"): Recipe({"a": "b"}),
        Label("v3_mkl"): Recipe(environment={"A": "b"}),
        NULL: Recipe({}),
    }
    assert sets(Recipes(variants=own)) == [(PLAIN, NOTHING), (V3,), (V3_MKL,)]
    same = {Label("v3"): Recipe({"a": "b"}), Label("v3_mkl"): Recipe({"a": "b"})}
    assert sets(Recipes(variants=same)) == [(PLAIN, NOTHING), (V3, V3_MKL)]
    assert sets(Recipes(variants=same), Recipe({"a": "c"})) == [ALL]  # the command line counts


def test_what_is_handed_over_tells_apart() -> None:
    """A build system that gets the properties is asked for each set of them."""
    assert sets(Recipes(), Recipe(hand_over=True)) == [(one,) for one in ALL]


def test_orders_are_plain_data() -> None:
    """An order and what becomes of it can be sent to another process."""
    order = BuildOrder(
        Path("p"),
        ALL,
        Recipe({"a": ["b"]}, {"C": "d"}, True, ("-O3",), False),
        providers={"x86_64": "p"},
    )
    assert pickle.loads(pickle.dumps(order)) == order
    wheel = BuiltWheel(
        Path("w"), Label("v3"), V3.properties, "native", "b 1", (), {"x": None}, {}, (), "", "", 0
    )
    assert pickle.loads(pickle.dumps(wheel)) == wheel
