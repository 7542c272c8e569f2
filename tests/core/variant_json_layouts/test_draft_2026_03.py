"""Layout L6: the providers draft of March 2026."""

from __future__ import annotations

from typing import Any

import pytest

from wheelfit.core.metadata import read_document, to_mapping
from wheelfit.core.properties import Feature, PropertySet
from wheelfit.core.providers import BrokenProvider, BuiltinProvider, PluginProvider, StaticProvider
from wheelfit_runtime.platforms.features import FeatureConfig


def document(**more: object) -> dict[str, Any]:
    """Make a small document."""
    return {
        "$schema": "https://variants-schema.wheelnext.dev/peps/9999/v0.2.0.json",
        "default-priorities": {
            "namespace": ["nvidia", "blas"],
            "feature": {"blas": ["threads"], "nvidia": ["sm_arch"]},
            "property": {"nvidia": {"sm_arch": ["90_real"]}, "blas": {"library": ["mkl"]}},
        },
        "providers": {
            "nvidia": {"requires": ["nvidia-variant-provider"], "plugin-api": "a:B"},
            "blas": {
                "static-properties": {"library": ["openblas", "mkl"], "threads": ["omp"]},
                "optional": True,
            },
        },
        "variants": {"one": {"nvidia": {"sm_arch": ["90_real"]}}, "null": {}},
        **more,
    }


def test_a_document() -> None:
    """F-49: order of features and values comes from the priorities."""
    read = read_document(document(), where="x")
    assert read.layout == "L6"
    assert dict(read.providers) == {
        "nvidia": PluginProvider(("nvidia-variant-provider",), "a:B"),
        "blas": StaticProvider(
            (FeatureConfig("threads", ("omp",)), FeatureConfig("library", ("mkl", "openblas"))),
            optional=True,
        ),
    }
    assert dict(read.feature_priorities) == {"nvidia": ("sm_arch",)}
    assert dict(read.value_priorities) == {Feature("nvidia", "sm_arch"): ("90_real",)}
    # F-50: threads is listed, library is not
    assert read.notes == ("blas: no complete order of features, document order is used (F-50)",)


def test_abi_dependency() -> None:
    """F-54: used without being listed, it becomes the built-in provider, in last place."""
    variants = {"one": {"abi_dependency": {"flash-attn": ["2.8"], "torch": ["2.8.0"]}}}
    read = read_document(document(variants=variants), where="x")
    assert read.priorities == ("nvidia", "blas", "abi_dependency")
    assert read.providers["abi_dependency"] == BuiltinProvider("abi_dependency")
    assert read.properties("one") == PropertySet.from_mapping(
        {"abi_dependency": {"flash_attn": ["2.8"], "torch": ["2.8.0"]}}
    )
    written = to_mapping(read, accept_losses=True)
    assert written["providers"]["abi_dependency"] == {"builtin": "abi_dependency"}


@pytest.mark.parametrize(
    ("entry", "rule"),
    [
        ({}, "P-1"),
        ({"builtin": "abi_dependency"}, "P-1"),
        ({"requires": ["a"], "static-properties": {"a": ["1"]}}, "P-1"),
        ({"requires": []}, "F-52"),
        ({"static-properties": {"a": ["B"]}}, "F-2"),
        (7, "F-32"),
    ],
)
def test_a_broken_provider(entry: object, rule: str) -> None:
    """F-130: a broken entry costs its namespace."""
    made = document()
    made["providers"]["blas"] = entry
    read = read_document(made, where="x")
    assert isinstance(read.providers["blas"], BrokenProvider)
    assert rule in read.providers["blas"].reason
    assert "one" in read.variants


def test_unknown_keys() -> None:
    """F-46: unknown keys are ignored with a note, wherever they are."""
    made = document(other=1)
    made["providers"]["nvidia"]["feature-order"] = ["sm_arch"]
    made["default-priorities"]["other"] = 1
    read = read_document(made, where="x")
    assert read.providers["nvidia"] == PluginProvider(("nvidia-variant-provider",), "a:B")
    assert len([note for note in read.notes if "unknown key" in note]) == 3
