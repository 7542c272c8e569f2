"""Layouts L1 to L3: the drafts of 2025."""

from __future__ import annotations

from typing import Any

import pytest

from wheelfit.core.document import VariantDocument
from wheelfit.core.metadata import check_document, losses, read_document
from wheelfit.core.metadata import to_mapping as written
from wheelfit.core.properties import EMPTY, Feature, PropertySet
from wheelfit.core.providers import BrokenProvider, BuiltinProvider, PluginProvider, StaticProvider
from wheelfit_runtime.errors import InvalidDocument
from wheelfit_runtime.platforms.features import FeatureConfig

HOST = "https://variants-schema.wheelnext.dev"
L2 = f"{HOST}/v0.0.2.json"
L3 = f"{HOST}/v0.0.3.json"
NVIDIA = {"requires": ["nvidia-variant-provider"], "plugin-api": "a.b:C"}


def document(schema: str | None = L3, /, **more: object) -> dict[str, Any]:
    """Make a small document; keys may be replaced."""
    made: dict[str, Any] = {
        "default-priorities": {"namespace": ["nvidia"]},
        "providers": {"nvidia": NVIDIA},
        "variants": {"cu": {"nvidia": {"sm_arch": ["90_real"]}}},
        **more,
    }
    return made if schema is None else {"$schema": schema, **made}


def read(made: dict[str, Any]) -> VariantDocument:
    """Read a document leniently."""
    return read_document(made, where="index.json")


def provider(entry: object, /, **more: object) -> object:
    """Return what one entry of a document becomes."""
    made = document(providers={"nvidia": entry}, **more)
    return read(made).providers["nvidia"]


@pytest.mark.parametrize("use", [{}, {"install-time": True}, {"plugin-use": "all"}])
def test_plugins_that_are_asked(use: dict[str, object]) -> None:
    """F-47: 'all', true or neither mean that the plugin is queried on installation."""
    assert provider({**NVIDIA, **use}) == PluginProvider(("nvidia-variant-provider",), "a.b:C")


@pytest.mark.parametrize("use", [{"plugin-use": "build"}, {"plugin-use": "none"}])
def test_static_values_in_the_priorities(use: dict[str, object]) -> None:
    """F-47, F-48, F-50: in L2 the values of a static namespace stand in the priorities.

    Of its features the listed ones come first, then those in the order of the document.
    """
    priorities = {
        "namespace": ["nvidia"],
        "property": {"nvidia": {"b": ["2", "1"], "a": ["1"]}},
        "feature": {"nvidia": ["a"]},
    }
    found = read(document(L2, providers={"nvidia": use}, **{"default-priorities": priorities}))
    assert found.layout == "L2"
    assert found.providers["nvidia"] == StaticProvider(
        (FeatureConfig("a", ("1",)), FeatureConfig("b", ("2", "1")))
    )
    assert not found.feature_priorities
    assert not found.value_priorities
    assert any("F-50" in note for note in found.notes)


def test_static_values_on_top() -> None:
    """F-47, F-48, F-49: in L3 they stand apart, and prefixes are applied to them once."""
    priorities = {
        "namespace": ["blas"],
        "property": {"blas": {"library": ["mkl", "unheard_of"]}},
        "feature": {"blas": ["threads", "library", "unheard_of"]},
    }
    found = read(
        document(
            **{
                "providers": {"blas": {"install-time": False, "requires": ["blas-plugin"]}},
                "default-priorities": priorities,
                "static-properties": {"blas": {"library": ["openblas", "mkl"], "threads": ["omp"]}},
                "variants": {"mkl": {"blas": {"library": ["mkl"]}}},
            }
        )
    )
    assert found.layout == "L3"
    assert found.providers["blas"] == StaticProvider(
        (FeatureConfig("threads", ("omp",)), FeatureConfig("library", ("mkl", "openblas")))
    )
    assert not found.notes
    assert losses(found) == ()


def test_no_static_values() -> None:
    """F-48: without values nothing is supported, and that is noted."""
    found = read(document(providers={"nvidia": {"install-time": False}}))
    assert found.providers["nvidia"] == StaticProvider(())
    assert found.notes == ("nvidia: no static values, so nothing is supported (F-48)",)
    entries = {"nvidia": {"install-time": False}, "blas": {"install-time": False}}
    beside = document(providers=entries, **{"static-properties": {"blas": {"library": ["mkl"]}}})
    assert read(beside).providers["nvidia"] == StaticProvider(())


def test_static_values_nobody_declared() -> None:
    """F-48, F-59: values without a provider entry are static, in last place."""
    found = read(document(**{"static-properties": {"blas": {"library": ["mkl"]}}}))
    assert found.priorities == ("nvidia", "blas")
    assert found.providers["blas"] == StaticProvider((FeatureConfig("library", ("mkl",)),))
    assert len(found.notes) == 2
    broken = read(document(**{"static-properties": {"blas": {"library": "mkl"}, "B": {}}}))
    assert isinstance(broken.providers["blas"], BrokenProvider)
    assert broken.priorities == ("nvidia", "blas")


def test_static_values_of_a_plugin() -> None:
    """F-47: a plugin that is asked needs no static values; they are ignored."""
    found = read(document(**{"static-properties": {"nvidia": {"sm_arch": ["90_real"]}}}))
    assert isinstance(found.providers["nvidia"], PluginProvider)
    assert any("static-properties.nvidia" in note for note in found.notes)


def test_overrides_of_a_plugin() -> None:
    """F-49, F-56: preferences for a plugin's values are kept, and lost when converted."""
    priorities = {
        "namespace": ["nvidia"],
        "feature": {"nvidia": ["sm_arch"]},
        "property": {"nvidia": {"sm_arch": ["90_real", "80_real"], "empty": []}},
    }
    found = read(document(None, **{"default-priorities": priorities}))
    assert found.layout == "L1"
    assert dict(found.feature_priorities) == {"nvidia": ("sm_arch",)}
    assert dict(found.value_priorities) == {Feature("nvidia", "sm_arch"): ("90_real", "80_real")}
    assert len(losses(found)) == 2
    with pytest.raises(InvalidDocument) as excinfo:
        written(found)
    assert [fault.rule for fault in excinfo.value.faults] == ["F-56", "F-56"]
    assert written(found, accept_losses=True)["providers"] == {"nvidia": NVIDIA}


@pytest.mark.parametrize("key", ["feature", "property"])
def test_lists_for_priorities(key: str) -> None:
    """F-55: an empty list counts as absent, another makes the document unreadable."""
    found = read(document(**{"default-priorities": {"namespace": ["nvidia"], key: []}}))
    assert not found.feature_priorities
    assert any("F-55" in note for note in found.notes)
    with pytest.raises(InvalidDocument) as excinfo:
        read(document(**{"default-priorities": {"namespace": ["nvidia"], key: ["x"]}}))
    assert excinfo.value.faults[0].rule == "F-55"


@pytest.mark.parametrize(
    "priorities",
    [
        {"feature": "x"},
        {"feature": None},
        {"feature": {"nvidia": "x"}},
        {"feature": {"nvidia": [1]}},
        {"property": {"nvidia": {"a": {}}}},
        {"property": {"nvidia": ["a"]}},
    ],
)
def test_broken_priorities(priorities: dict[str, object]) -> None:
    """F-32, F-130: a wrong type in the priorities makes the whole unusable."""
    with pytest.raises(InvalidDocument):
        read(document(**{"default-priorities": {"namespace": ["nvidia"], **priorities}}))


def test_odd_priorities() -> None:
    """F-49: an item that nobody can support is left out, with a note."""
    priorities = {
        "namespace": ["nvidia"],
        "property": {
            "nvidia": {"sm_arch": ["90-real", "90_real", "90_real"]},
            "property": {"order": ["1"]},  # meant: priority
        },
    }
    found = read(document(**{"default-priorities": priorities}))
    assert dict(found.value_priorities) == {Feature("nvidia", "sm_arch"): ("90_real",)}
    assert len(found.notes) == 3


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"requires": []},
        {"install-time": True},
        {"plugin-use": "all", "plugin-api": "a:b"},
        {"requires": [], "install-time": True},
    ],
)
def test_nothing_is_required(entry: dict[str, object]) -> None:
    """F-52: a provider that is asked but requires nothing cannot be asked."""
    found = provider(entry)
    assert isinstance(found, BrokenProvider)
    assert "F-52" in found.reason


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"plugin-use": "sometimes"}, "F-47"),
        ({"plugin-use": ["all"]}, "F-47"),
        ({"install-time": "no"}, "F-32"),
        ({"optional": "no"}, "F-32"),
        ({"requires": ["a b"]}, "P-6"),
        ({"plugin-api": "a:b:c"}, "P-7"),
        ({"enable-if": "platform_system = 'Linux'"}, "F-51"),
        ({"enable-if": ""}, "F-51"),
        ({"enable-if": True}, "F-32"),
        ({"enable-if": None}, "F-32"),
        ({"enable-if": "variant_label == 'x'"}, "F-109"),
    ],
)
def test_a_broken_provider(change: dict[str, object], rule: str) -> None:
    """F-51, F-130: what cannot be understood costs its namespace, with a note."""
    made = document(providers={"nvidia": {**NVIDIA, **change}})
    found = read(made)
    broken = found.providers["nvidia"]
    assert isinstance(broken, BrokenProvider)
    assert f"({rule})" in broken.reason
    assert any(note.startswith("nvidia is unsupported") for note in found.notes)
    assert "cu" in found.variants


def test_broken_static_values() -> None:
    """F-32, F-130: bad static values cost their namespace."""
    static = {"install-time": False}
    cases: list[object] = [[], {"a": "1"}, {"a": ["B"]}, {"A": ["1"]}, {"a": ["1", "1"]}]
    for values in cases:
        found = provider(static, **{"static-properties": {"nvidia": values}})
        assert isinstance(found, BrokenProvider)
        assert found.reason.startswith("static-properties.nvidia")
    made = document(providers={"nvidia": static}, **{"static-properties": ["nvidia"]})
    assert read(made).providers["nvidia"] == StaticProvider(())
    assert ("static-properties", "F-32") in [
        (fault.path, fault.rule) for fault in check_document(made)
    ]


@pytest.mark.parametrize("providers", [{}, {"nvidia": {"install-time": False}}])
def test_broken_static_values_are_reported(providers: dict[str, object]) -> None:
    """F-130: the loss of a namespace is reported with and without an entry of the provider."""
    static = {"nvidia": {"sm_arch": ["B"]}}
    found = read(document(providers=providers, **{"static-properties": static}))
    assert isinstance(found.providers["nvidia"], BrokenProvider)
    assert any(note.startswith("nvidia is unsupported") for note in found.notes)
    assert any(lost.code == "invalid-provider" for lost in found.degradations)


@pytest.mark.parametrize(
    "entry", [NVIDIA, {"install-time": False}, {"install-time": False, "plugin-use": "none"}]
)
def test_conditions(entry: dict[str, object]) -> None:
    """F-51: the condition on the target is kept as it is, for every kind."""
    condition = "platform_system == 'Linux' or platform_system == 'Windows'"
    found = provider({**entry, "enable-if": condition, "optional": True})
    assert isinstance(found, PluginProvider | StaticProvider)
    assert found.enabled_by == condition
    assert found.optional


@pytest.mark.parametrize(
    ("schema", "entry"),
    [(L2, {"plugin-use": "none"}), (L3, {"install-time": False}), (None, {"plugin-use": "build"})],
)
def test_abi_dependency_that_is_listed(schema: str | None, entry: dict[str, object]) -> None:
    """F-54: listed but never asked, it is the built-in provider at its place."""
    made = document(
        schema,
        providers={"abi_dependency": entry, "nvidia": NVIDIA},
        variants={"one": {"abi_dependency": {"flash-attn": ["2.8.0"]}}},
        **{"default-priorities": {"namespace": ["abi_dependency", "nvidia"]}},
    )
    found = read(made)
    assert found.priorities == ("abi_dependency", "nvidia")
    assert found.providers["abi_dependency"] == BuiltinProvider("abi_dependency")
    assert found.properties("one") == PropertySet.from_mapping(
        {"abi_dependency": {"flash_attn": ["2.8.0"]}}
    )


@pytest.mark.parametrize("schema", [None, L2, L3])
def test_abi_dependency_that_is_not_listed(schema: str | None) -> None:
    """F-54: used but unlisted, it is the built-in provider in last place."""
    found = read(document(schema, variants={"one": {"abi_dependency": {"torch": ["2.8.0"]}}}))
    assert found.priorities == ("nvidia", "abi_dependency")
    assert found.providers["abi_dependency"] == BuiltinProvider("abi_dependency")
    assert "one" in found.variants
    assert any("F-54" in note for note in found.notes)


def test_abi_dependency_below_other_unlisted_namespaces() -> None:
    """F-54, F-59: with a provider that is never asked, but unlisted, it is the lowest of all."""
    entries = {"abi_dependency": {"install-time": False}, "nvidia": NVIDIA, "z": NVIDIA}
    assert read(document(providers=entries)).priorities == ("nvidia", "z", "abi_dependency")


def test_abi_dependency_without_provider() -> None:
    """F-54: ranked and used, but without provider, it is built in at its place."""
    made = document(
        variants={"one": {"abi_dependency": {"torch": ["2.8.0"]}}},
        **{"default-priorities": {"namespace": ["abi_dependency", "nvidia"]}},
    )
    assert read(made).priorities == ("abi_dependency", "nvidia")
    assert read(made).providers["abi_dependency"] == BuiltinProvider("abi_dependency")


def test_abi_dependency_with_two_spellings() -> None:
    """F-54: two spellings of one feature contradict each other."""
    entry = {"abi_dependency": {"flash-attn": ["2"], "flash_attn": ["3"]}}
    found = read(document(variants={"one": entry, "two": {"nvidia": {"a-b": ["1"]}}}))
    assert "F-54" in found.unusable["one"]
    assert "F-2" in found.unusable["two"]  # hyphens are for abi_dependency only


def test_unlisted_namespaces() -> None:
    """F-59: a namespace with a provider but without priority comes last, by name."""
    entries = {"z": NVIDIA, "nvidia": NVIDIA, "a": {"requires": ["x y"]}}
    found = read(document(providers=entries, variants={"one": {"z": {"b": ["1"]}}}))
    assert found.priorities == ("nvidia", "a", "z")
    assert "one" in found.variants
    assert len([note for note in found.notes if "F-59" in note]) == 2


def test_a_namespace_nobody_provides() -> None:
    """F-130: listed without provider it is unsupported, unlisted it breaks the label."""
    variants = {"one": {"x": {"a": ["1"]}}, "two": {"y": {"a": ["1"]}}}
    found = read(
        document(variants=variants, **{"default-priorities": {"namespace": ["nvidia", "x"]}})
    )
    assert "x" not in found.providers
    assert "one" in found.variants
    assert "F-21" in found.unusable["two"]


def test_the_old_null() -> None:
    """F-7, F-53: 00000000 is a variant without properties and keeps its label."""
    made = document(variants={"00000000": {}})
    found = read(made)
    assert dict(found.variants) == {"00000000": EMPTY}
    assert found.properties("null") == EMPTY
    assert check_document(made) == ()
    assert written(found)["variants"] == {"00000000": {}}


def test_unknown_keys() -> None:
    """F-46: unknown keys are ignored with a note, and are no faults."""
    made = document(other=1, providers={"nvidia": {**NVIDIA, "other": 1}})
    made["default-priorities"]["other"] = 1
    found = read(made)
    assert isinstance(found.providers["nvidia"], PluginProvider)
    assert [note.split(":")[0] for note in found.notes] == [
        "other",
        "default-priorities.other",
        "providers.nvidia.other",
    ]
    assert check_document(made) == ()


def test_conversion() -> None:
    """F-56: conditions are dropped, static values ordered, requirements kept as written."""
    made = document(
        providers={
            "nvidia": {**NVIDIA, "enable-if": "os_name == 'posix'"},
            "blas": {"install-time": False, "requires": ["x"], "plugin-api": "x:y"},
        },
        variants={"one": {"blas": {"b": ["2", "1"]}, "nvidia": {}}},
        **{
            "static-properties": {"blas": {"b": ["2", "1"], "a": ["1"]}},
            "default-priorities": {
                "namespace": ["blas", "nvidia"],
                "feature": {"blas": ["a"]},
                "property": {"blas": {"b": ["1"]}},
            },
        },
    )
    assert written(read(made)) == {
        "$schema": f"{HOST}/peps/850/v0.2.0.json",
        "default-priorities": {"namespace": ["blas", "nvidia"]},
        "providers": {
            "blas": {
                "static-properties": {"a": ["1"], "b": ["1", "2"]},
                "feature-order": ["a", "b"],
            },
            "nvidia": NVIDIA,
        },
        "variants": {"one": {"blas": {"b": ["1", "2"]}}},
    }
