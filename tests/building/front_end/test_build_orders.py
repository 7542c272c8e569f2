"""What is built alike is built once, and orders go anywhere."""

from __future__ import annotations

import pickle
from pathlib import Path

from wheelfit.building.front_end.build_orders import (
    BuildOrder,
    BuiltWheel,
    compiles_alike,
    orders_for,
)
from wheelfit.building.front_end.recipes import Recipe, Recipes
from wheelfit.building.front_end.variants import PLAIN, WheelToBuild
from wheelfit.core.labels import NULL, Label
from wheelfit.core.properties import PropertySet, parse_property
from wheelfit.core.providers import PluginProvider

V3 = WheelToBuild(Label("v3"), PropertySet([parse_property("x86_64 :: level :: v3")]))
V3_GNU = WheelToBuild(
    Label("v3_gnu"),
    PropertySet(map(parse_property, ("x86_64 :: level :: v3", "openmp :: provider :: gnu"))),
)
NO_EDITS = WheelToBuild(NULL)
ALL = (PLAIN, NO_EDITS, V3, V3_GNU)
ORDER = BuildOrder(Path("project"), (), Recipe())


def sets(recipes: Recipes, more: Recipe = Recipe()) -> list[tuple[WheelToBuild, ...]]:
    """Return which wheels are built together."""
    return [order.choices for order in orders_for(ORDER, ALL, recipes, more)]


def test_all_alike() -> None:
    """Without anything that tells them apart, one plain wheel does for all."""
    assert sets(Recipes()) == [ALL]


def test_flags_tell_apart() -> None:
    """Flags are those of the properties; equal ones are built together."""
    assert sets(Recipes(), Recipe(flags=True)) == [(PLAIN, NO_EDITS), (V3, V3_GNU)]
    assert sets(Recipes(every=Recipe(flags=True)), Recipe(flags=None)) == [
        (PLAIN, NO_EDITS), (V3, V3_GNU),
    ]  # fmt: skip
    words = Recipes(variants={Label("v3"): Recipe(further_flags=("-O3",))})
    assert sets(words) == [(PLAIN, NO_EDITS, V3_GNU), (V3,)]


def test_other_libraries_tell_apart() -> None:
    """A variant that is linked with another library is a build of its own."""
    mkl = WheelToBuild(Label("mkl"), PropertySet([parse_property("blas :: library :: mkl")]))
    orders = orders_for(ORDER, (PLAIN, mkl), Recipes(), Recipe(flags=True))
    assert [order.choices for order in orders] == [(PLAIN,), (mkl,)]
    assert compiles_alike(*orders)  # so the code for processors need not be compared


def test_settings_and_variables_tell_apart() -> None:
    """A recipe of its own is a build of its own; the same said twice is not."""
    own = {
        Label("v3"): Recipe({"a": "b"}),
        Label("v3_gnu"): Recipe(environment={"A": "b"}),
        NULL: Recipe({}),
    }
    assert sets(Recipes(variants=own)) == [(PLAIN, NO_EDITS), (V3,), (V3_GNU,)]
    same = {Label("v3"): Recipe({"a": "b"}), Label("v3_gnu"): Recipe({"a": "b"})}
    assert sets(Recipes(variants=same)) == [(PLAIN, NO_EDITS), (V3, V3_GNU)]
    assert sets(Recipes(variants=same), Recipe({"a": "c"})) == [ALL]  # the command line counts


def test_what_is_handed_over_tells_apart() -> None:
    """A build system that gets the properties is asked for each set of them."""
    assert sets(Recipes(), Recipe(pass_properties=True)) == [(one,) for one in ALL]


def test_orders_are_plain_data() -> None:
    """An order and what becomes of it can be sent to another process."""
    order = BuildOrder(
        Path("p"),
        ALL,
        Recipe({"a": ["b"]}, {"C": "d"}, True, ("-O3",), False),
        providers={"x86_64": PluginProvider(("p",))},
    )
    assert pickle.loads(pickle.dumps(order)) == order
    wheel = BuiltWheel(
        Path("w"), Label("v3"), V3.properties, "b 1", (), {"x": None}, {}, (), "", "", 0
    )
    assert pickle.loads(pickle.dumps(wheel)) == wheel
