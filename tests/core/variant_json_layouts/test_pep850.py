"""Layout L7: everything a document may say, and what each violation costs."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from wheelfit.core.document import VariantDocument
from wheelfit.core.metadata import check_document, read_document, to_mapping
from wheelfit.core.properties import EMPTY, PropertySet
from wheelfit.core.providers import BrokenProvider, BuiltinProvider, PluginProvider, StaticProvider
from wheelfit_runtime.errors import InvalidDocument
from wheelfit_runtime.platforms.features import FeatureConfig

VALID: dict[str, Any] = {
    "$schema": "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",
    "default-priorities": {"namespace": ["nvidia", "x86_64", "blas", "abi"]},
    "providers": {
        "nvidia": {
            "requires": ["nvidia-variant-provider>=0.0.1,<1"],
            "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
        },
        "x86_64": {"requires": ["x86-64-variant-provider<1"], "optional": True},
        "blas": {
            "static-properties": {"library": ["openblas", "mkl"], "threads": ["omp"]},
            "feature-order": ["threads", "library"],
        },
        "abi": {"builtin": "abi_dependency"},
    },
    "variants": {
        "null": {},
        "cu128": {"nvidia": {"sm_arch": ["80_real", "90_real"]}, "blas": {"library": ["mkl"]}},
    },
}


def with_change(*steps: Any) -> dict[str, Any]:
    """Return the valid document with one place changed; the last step is the new value."""
    document = copy.deepcopy(VALID)
    place: Any = document
    *path, last, value = steps
    for step in path:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return document


def read(document: dict[str, Any]) -> VariantDocument:
    """Read a document leniently."""
    return read_document(document, where="index.json")


def rules(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Return path and rule of every fault."""
    return [(fault.path, fault.rule) for fault in check_document(document)]


def test_the_model() -> None:
    """A valid document is read completely and without a note.

    F-20, F-21, F-22, F-23, P-1, P-2, P-3, P-5, P-6, P-7, P-8.
    """
    document = read(VALID)
    assert document.layout == "L7"
    assert document.schema == VALID["$schema"]
    assert document.priorities == ("nvidia", "x86_64", "blas", "abi")
    assert dict(document.providers) == {
        "nvidia": PluginProvider(
            ("nvidia-variant-provider>=0.0.1,<1",),
            "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
        ),
        "x86_64": PluginProvider(("x86-64-variant-provider<1",), optional=True),
        "blas": StaticProvider(
            (FeatureConfig("threads", ("omp",)), FeatureConfig("library", ("openblas", "mkl")))
        ),
        "abi": BuiltinProvider("abi_dependency"),
    }
    assert list(document.providers) == list(document.priorities)
    assert dict(document.variants) == {
        "null": EMPTY,
        "cu128": PropertySet.from_mapping(VALID["variants"]["cu128"]),
    }
    assert not document.unusable
    assert not document.notes
    assert check_document(VALID) == ()


@pytest.mark.parametrize(
    ("steps", "path", "rule"),
    [
        (("default-priorities", ...), "default-priorities", "F-20"),
        (("default-priorities", []), "default-priorities", "F-32"),
        (("default-priorities", {}), "default-priorities.namespace", "F-21"),
        (("default-priorities", "namespace", []), "default-priorities.namespace", "F-21"),
        (("default-priorities", "namespace", {}), "default-priorities.namespace", "F-32"),
        (("default-priorities", "namespace", "nvidia"), "default-priorities.namespace", "F-32"),
        (
            ("default-priorities", "namespace", 0, "NVIDIA"),
            "default-priorities.namespace[0]",
            "F-2",
        ),
        (("default-priorities", "namespace", 1, 7), "default-priorities.namespace[1]", "F-2"),
        (("default-priorities", "namespace", 1, "blas"), "default-priorities.namespace[2]", "F-21"),
        (("variants", ...), "variants", "F-20"),
        (("variants", []), "variants", "F-32"),
    ],
)
def test_what_makes_the_whole_unusable(steps: tuple[Any, ...], path: str, rule: str) -> None:
    """F-20, F-21, F-32, F-130: broken priorities, or no variants at all, refuse the document."""
    document = with_change(*steps)
    with pytest.raises(InvalidDocument) as excinfo:
        read(document)
    assert (excinfo.value.faults[0].path, excinfo.value.faults[0].rule) == (path, rule)
    assert excinfo.value.where == "index.json"
    assert (path, rule) in rules(document)


def test_null_needs_a_namespace() -> None:
    """F-21: a release of null variants only still needs one namespace, which nothing uses."""
    document = {**VALID, "variants": {"null": {}}}
    assert check_document(document) == ()
    bare = {**document, "default-priorities": {"namespace": []}, "providers": {}}
    with pytest.raises(InvalidDocument) as excinfo:
        read(bare)
    assert [fault.rule for fault in excinfo.value.faults] == ["F-21"]


def test_all_refusals_are_reported() -> None:
    """F-131: several broken places of the priorities are named at once."""
    document = with_change("default-priorities", "namespace", ["A", "b", "b", 1])
    with pytest.raises(InvalidDocument) as excinfo:
        read(document)
    assert len(excinfo.value.faults) == 3


@pytest.mark.parametrize(
    ("entry", "rule"),
    [
        ({}, "P-1"),
        ({"optional": True}, "P-1"),
        ({"requires": ["a"], "builtin": "abi_dependency"}, "P-1"),
        ({"requires": ["a"], "static-properties": {"a": ["1"]}}, "P-1"),
        ({"requires": ["a"], "optional": "yes"}, "F-32"),
        ({"requires": ["a"], "optional": 1}, "F-32"),
        ({"requires": []}, "P-6"),
        ({"requires": "a"}, "F-32"),
        ({"requires": [1]}, "F-32"),
        ({"requires": ["not a requirement"]}, "P-6"),
        ({"requires": ["a; variant_label == 'x'"]}, "F-109"),
        ({"requires": ["a"], "plugin-api": "a b"}, "P-7"),
        ({"requires": ["a"], "plugin-api": None}, "F-32"),
        ({"static-properties": {"a": ["1"]}, "plugin-api": "a"}, "P-7"),
        ({"builtin": "abi_dependency", "plugin-api": "a"}, "P-7"),
        ({"requires": ["a"], "feature-order": ["a"]}, "P-4"),
        ({"static-properties": []}, "F-32"),
        ({"static-properties": {"A": ["1"]}}, "F-2"),
        ({"static-properties": {"a": "1"}}, "F-32"),
        ({"static-properties": {"a": [1]}}, "F-2"),
        ({"static-properties": {"a": ["1-2"]}}, "F-2"),
        ({"static-properties": {"a": ["1", "1"]}}, "P-3"),
        ({"static-properties": {"a": ["1"], "b": ["1"]}}, "P-5"),
        ({"static-properties": {"a": ["1"], "b": ["1"]}, "feature-order": ["a"]}, "P-5"),
        ({"static-properties": {"a": ["1"]}, "feature-order": ["a", "a"]}, "P-5"),
        ({"static-properties": {"a": ["1"]}, "feature-order": ["b"]}, "P-5"),
        ({"static-properties": {"a": ["1"]}, "feature-order": []}, "P-5"),
        ({"static-properties": {}, "feature-order": []}, "P-5"),
        ({"static-properties": {"a": ["1"]}, "feature-order": [["a"]]}, "P-5"),
        ({"static-properties": {"a": ["1"]}, "feature-order": "a"}, "F-32"),
        ({"builtin": 1}, "P-8"),
        ({"builtin": ""}, "P-8"),
        ({"requires": ["a"], "enable-if": "os_name == 'nt'"}, "F-130"),
        ({"requires": ["a"], "build-requires": ["a"]}, "P-9"),
        ({"build-requires": ["a"]}, "P-9"),
        ([], "F-32"),
        (None, "F-32"),
    ],
)
def test_a_broken_provider(entry: object, rule: str) -> None:
    """A broken entry costs its namespace and names the rule; the others keep working.

    F-32, F-109, F-130, P-1, P-3, P-4, P-5, P-6, P-7, P-8, P-9.
    """
    document = with_change("providers", "blas", entry)
    found = read(document)
    broken = found.providers["blas"]
    assert isinstance(broken, BrokenProvider)
    assert f"({rule})" in broken.reason
    assert broken.reason.startswith("providers.blas")
    assert isinstance(found.providers["nvidia"], PluginProvider)
    assert list(found.variants) == ["null", "cu128"]
    assert any(note.startswith("blas is unsupported (F-130)") for note in found.notes)
    assert rule in {found_rule for _, found_rule in rules(document)}


@pytest.mark.parametrize(
    ("entry", "provider", "rule"),
    [
        ({"static-properties": {}}, StaticProvider(()), "P-3"),
        ({"static-properties": {"a": []}}, StaticProvider((FeatureConfig("a", ()),)), "P-3"),
        ({"builtin": "other"}, BuiltinProvider("other"), None),
        ({"requires": ["a"], "plugin-api": "a : b"}, PluginProvider(("a",), "a:b"), "P-7"),
        (
            {"requires": ["a; os_name == 'nt'", "b"]},
            PluginProvider(("a; os_name == 'nt'", "b")),
            "P-7",
        ),
        (
            {"requires": ["a; os_name == 'nt'"]},
            PluginProvider(("a; os_name == 'nt'",)),
            "P-6",
        ),
        (
            {"requires": ["a; os_name == 'nt'", "b; os_name != 'nt'"], "plugin-api": "a"},
            PluginProvider(("a; os_name == 'nt'", "b; os_name != 'nt'"), "a"),
            None,
        ),
        (
            {"requires": ["a; os_name == 'nt'", "b; os_name == 'nt'", "a"]},
            PluginProvider(("a; os_name == 'nt'", "b; os_name == 'nt'", "a")),
            None,
        ),
        (
            {"requires": ["a>1; os_name == 'nt'", "A>2"]},
            PluginProvider(("a>1; os_name == 'nt'", "A>2")),
            None,
        ),
        (
            {"static-properties": {"a": ["1"]}, "feature-order": ["a"]},
            StaticProvider((FeatureConfig("a", ("1",)),)),
            None,
        ),
    ],
)
def test_an_odd_provider(entry: object, provider: object, rule: str | None) -> None:
    """P-3, P-6, P-7, P-8: what readers accept although writers may not write it."""
    document = with_change("providers", "blas", entry)
    assert read(document).providers["blas"] == provider
    assert [found for _, found in rules(document)] == ([rule] if rule else [])


def test_an_unknown_builtin() -> None:
    """P-8: an unknown built-in name does not invalidate the document; it is noted."""
    document = read(with_change("providers", "abi", {"builtin": "other"}))
    assert document.notes == ("abi is unsupported (P-8): unknown built-in 'other'",)


@pytest.mark.parametrize(
    ("label", "entry", "path", "rule"),
    [
        ("CU128", {}, "", "F-2"),
        ("", {}, '[""]', "F-2"),
        ("a-b", {"nvidia": {"a": ["1"]}}, "", "F-2"),
        ("one", [], "", "F-32"),
        ("one", None, "", "F-32"),
        ("one", {"nvidia": []}, ".nvidia", "F-32"),
        ("one", {"nvidia": {"a": []}}, ".nvidia.a", "F-23"),
        ("one", {"nvidia": {"a": {}}}, ".nvidia.a", "F-32"),
        ("one", {"nvidia": {"a": "1"}}, ".nvidia.a", "F-32"),
        ("one", {"nvidia": {"a": ["1", "1"]}}, ".nvidia.a", "F-23"),
        ("one", {"nvidia": {"a": ["1", 2]}}, ".nvidia.a[1]", "F-32"),
        ("one", {"nvidia": {"a": [["1"]]}}, ".nvidia.a[0]", "F-32"),
        ("one", {"nvidia": {"a": ["A"]}}, ".nvidia.a[0]", "F-2"),
        ("one", {"nvidia": {"A": ["1"]}}, ".nvidia.A", "F-2"),
        ("one", {"amd": {"a": ["1"]}}, ".amd", "F-21"),
        ("one", {"AMD": {"a": ["1"]}}, ".AMD", "F-2"),
        ("null", {"nvidia": {"a": ["1"]}}, "", "F-6"),
    ],
)
def test_a_broken_label(label: str, entry: object, path: str, rule: str) -> None:
    """F-130: a broken label is unusable with its reason, the others keep working."""
    document = with_change("variants", label, entry)
    found = read(document)
    assert list(found.unusable) == [label]
    assert found.unusable[label].endswith(f"({rule})")
    assert label not in found.variants
    assert found.properties(label) is None
    assert found.properties("cu128") == read(VALID).properties("cu128")
    assert [note for note in found.notes if note.startswith("1 label is unusable")]
    (fault,) = rules(document)
    assert fault[1] == rule
    assert fault[0].startswith("variants")
    assert fault[0].endswith(path)


def test_all_faults_of_a_label() -> None:
    """F-131: a strict reader names every fault of a label, a lenient one the first."""
    document = with_change("variants", "one", {"amd": {"A": ["1", "B"], "b": []}, "nvidia": 1})
    assert rules(document) == [
        ("variants.one.amd", "F-21"),
        ("variants.one.amd.A", "F-2"),
        ("variants.one.amd.A[1]", "F-2"),
        ("variants.one.amd.b", "F-23"),
        ("variants.one.nvidia", "F-32"),
    ]
    assert read(document).unusable["one"].startswith("variants.one.amd:")


def test_many_broken_labels() -> None:
    """F-136: unusable labels give one note; each reason is kept apart."""
    document = with_change("variants", {f"label{n}": 1 for n in range(12)})
    found = read(document)
    assert len(found.unusable) == 12
    (note,) = found.notes
    assert note.startswith("12 labels are unusable (F-130): label0, label1,")
    assert note.endswith("and 7 more")


def test_many_unknown_keys() -> None:
    """F-136: what nobody can read is summarised."""
    found = read({**VALID, **{f"key{n}": 1 for n in range(500)}})
    assert len(found.notes) == 101
    assert found.notes[-1] == "and 400 more notes"
    found = read({**VALID, **{f"key{n}": 1 for n in range(101)}})
    assert found.notes[-1] == "and 1 more note"


def test_null() -> None:
    """F-6, F-26: null needs no entry, and is unusable only when its entry is broken."""
    document = with_change("variants", "null", ...)
    assert read(document).properties("null") == EMPTY
    assert rules(document) == []
    broken = with_change("variants", "null", {"nvidia": {"a": ["1"]}})
    assert read(broken).properties("null") is None
    assert read(broken).properties("other") is None


def test_empty_namespaces() -> None:
    """F-25: an empty namespace object equals an absent one, listed or not; it is not written."""
    document = with_change("variants", "one", {"nvidia": {"a": ["1"]}, "x86_64": {}, "amd": {}})
    assert read(document).properties("one") == PropertySet.from_mapping({"nvidia": {"a": ["1"]}})
    assert rules(document) == [("variants.one.x86_64", "F-25"), ("variants.one.amd", "F-25")]
    assert to_mapping(read(document))["variants"]["one"] == {"nvidia": {"a": ["1"]}}
    null = with_change("variants", "null", {"nvidia": {}})
    assert read(null).properties("null") == EMPTY


def test_a_label_without_properties() -> None:
    """F-7: legal for readers, refused where data enters."""
    document = with_change("variants", "one", {})
    assert read(document).properties("one") == EMPTY
    assert not read(document).notes
    assert rules(document) == [("variants.one", "F-7")]
    assert rules(with_change("variants", "00000000", {})) == []  # F-53


def test_order_of_values() -> None:
    """F-23: readers accept any order, F-131: checkers want it ascending."""
    document = with_change("variants", "one", {"nvidia": {"a": ["2", "1"]}})
    assert read(document).properties("one") == PropertySet.from_mapping(
        {"nvidia": {"a": ["1", "2"]}}
    )
    assert not read(document).notes
    assert rules(document) == [("variants.one.nvidia.a", "F-23")]
    twice = with_change(
        "variants", {"a": document["variants"]["one"], "b": document["variants"]["one"]}
    )
    assert len(rules(twice)) == 2


def test_labels_that_indexes_refuse() -> None:
    """F-4: a device name is a label to readers, a fault to checkers."""
    document = with_change("variants", "con", {"nvidia": {"a": ["1"]}})
    assert read(document).properties("con")
    assert rules(document) == [("variants.con", "F-4")]


def test_unknown_keys() -> None:
    """F-20, F-21: unknown keys outside providers are noted, and are faults when checked."""
    document = with_change("default-priorities", "feature", {})
    document["static-properties"] = {}
    found = read(document)
    assert list(found.variants) == ["null", "cu128"]
    assert [note.split(":")[0] for note in found.notes] == [
        "static-properties",
        "default-priorities.feature",
    ]
    assert rules(document) == [
        ("static-properties", "F-20"),
        ("default-priorities.feature", "F-21"),
    ]


def test_a_namespace_without_provider() -> None:
    """F-22, F-130: a listed namespace without provider is unsupported, with a note."""
    document = with_change("providers", "nvidia", ...)
    found = read(document)
    assert "nvidia" not in found.providers
    assert found.priorities[0] == "nvidia"
    assert "cu128" in found.variants
    assert len(found.notes) == 1
    assert rules(document) == [("providers.nvidia", "F-22")]


def test_a_provider_without_namespace() -> None:
    """F-22, F-130: a provider that is not in the priorities is ignored, with a note."""
    document = with_change("providers", "amd", {"requires": ["a"]})
    found = read(document)
    assert "amd" not in found.providers
    assert len(found.notes) == 1
    assert rules(document) == [("providers.amd", "F-22")]
    misspelt = with_change("providers", "AMD", {"requires": ["a"]})
    assert rules(misspelt) == [("providers.AMD", "F-2")]


@pytest.mark.parametrize("value", [..., [], "x"])
def test_no_providers(value: object) -> None:
    """F-20, F-32: without providers nothing is supported, null stays usable."""
    document = with_change("providers", value)
    found = read(document)
    assert not found.providers
    assert found.properties("null") == EMPTY
    assert len(found.notes) == 5
    assert rules(document)[0][0] == "providers"


def test_no_schema() -> None:
    """F-20, F-45: without the key the shape tells the layout, and checkers complain."""
    document = with_change("$schema", ...)
    assert read(document).layout == "L7"
    assert read(document).schema == ""
    assert rules(document) == [("$schema", "F-20")]


@pytest.mark.parametrize("schema", ["v0.0.2", "v0.0.3", "peps/826/v0.2.0", "peps/825/v0.1.1"])
def test_build_requires_in_any_layout(schema: str) -> None:
    """P-9: what belongs in pyproject.toml is invalid in a document of any layout."""
    entry = {"requires": ["a"], "build-requires": ["b"]}
    document = with_change("providers", {"nvidia": entry})
    document["$schema"] = f"https://variants-schema.wheelnext.dev/{schema}.json"
    document["default-priorities"]["namespace"] = ["nvidia"]
    document["variants"] = {}
    assert isinstance(read(document).providers["nvidia"], BrokenProvider)
    assert ("providers.nvidia.build-requires", "P-9") in rules(document)
