"""Layouts L4 and L5: PEP 825, in which providers are not known."""

from __future__ import annotations

from typing import Any

import pytest

from wheelfit.core.metadata import check_document, read_document
from wheelfit.core.properties import Feature, PropertySet
from wheelfit.core.providers import PluginProvider, StaticProvider
from wheelfit_runtime.errors import InvalidDocument
from wheelfit_runtime.platforms.features import FeatureConfig

FIRST = "https://variants-schema.wheelnext.dev/peps/825/v0.1.0.json"
SECOND = "https://variants-schema.wheelnext.dev/peps/825/v0.1.1.json"


def document(schema: str, **more: object) -> dict[str, Any]:
    """Make a small document."""
    return {
        "$schema": schema,
        "default-priorities": {"namespace": ["x", "y"]},
        "variants": {"one": {"x": {"a": ["1"]}}, "null": {}},
        **more,
    }


def test_a_document_without_providers() -> None:
    """F-20: L5 has priorities and variants, and no word about providers."""
    read = read_document(document(SECOND), where="x")
    assert read.layout == "L5"
    assert read.priorities == ("x", "y")
    assert not read.providers
    assert read.properties("one") == PropertySet.from_mapping({"x": {"a": ["1"]}})
    assert not read.notes
    assert check_document(document(SECOND)) == ()


def test_providers_are_used() -> None:
    """F-42: readers use a 'providers' key with a note, checkers report it."""
    providers = {"x": {"static-properties": {"a": ["1"]}}, "y": {"requires": ["y-plugin"]}}
    made = document(SECOND, providers=providers)
    read = read_document(made, where="x")
    assert dict(read.providers) == {
        "x": StaticProvider((FeatureConfig("a", ("1",)),)),
        "y": PluginProvider(("y-plugin",)),
    }
    assert len(read.notes) == 1
    assert "F-42" in read.notes[0]
    assert [(fault.path, fault.rule) for fault in check_document(made)] == [("providers", "F-42")]


def test_unknown_keys() -> None:
    """F-46: unknown keys are ignored with a note; F-131: checkers report them."""
    made = document(SECOND, other=1)
    made["default-priorities"]["feature"] = {"x": ["a"]}
    read = read_document(made, where="x")
    assert len(read.notes) == 2
    assert not read.feature_priorities
    assert [fault.path for fault in check_document(made)] == ["other", "default-priorities.feature"]


def test_prefixes_of_the_first_version() -> None:
    """F-49: L4 may name preferred features and values; they are kept for the plugins."""
    made = document(FIRST)
    made["default-priorities"] |= {
        "feature": {"x": ["b", "a"], "z": ["q"]},
        "property": {"x": {"a": ["2", "1"]}, "y": {}},
    }
    read = read_document(made, where="x")
    assert read.layout == "L4"
    assert dict(read.feature_priorities) == {"x": ("b", "a")}
    assert dict(read.value_priorities) == {Feature("x", "a"): ("2", "1")}
    assert read.notes == ("default-priorities.feature.z: unknown namespace, ignored (F-49)",)
    assert check_document(made) == ()


def test_prefixes_and_providers() -> None:
    """F-42, F-49: a static list that came along is put in the wanted order."""
    made = document(
        FIRST,
        providers={
            "x": {
                "static-properties": {"a": ["1", "2", "3"], "b": ["1"]},
                "feature-order": ["a", "b"],
            },
            "y": {"requires": ["y-plugin"]},
        },
    )
    made["default-priorities"] |= {"feature": {"x": ["b"]}, "property": {"x": {"a": ["3", "9"]}}}
    read = read_document(made, where="x")
    assert read.providers["x"] == StaticProvider(
        (FeatureConfig("b", ("1",)), FeatureConfig("a", ("3", "1", "2")))
    )
    assert not read.feature_priorities
    assert not read.value_priorities


@pytest.mark.parametrize("schema", [FIRST, SECOND])
def test_a_broken_document(schema: str) -> None:
    """F-130: broken priorities make the whole unusable here too."""
    made = document(schema)
    del made["default-priorities"]
    with pytest.raises(InvalidDocument):
        read_document(made, where="x")
