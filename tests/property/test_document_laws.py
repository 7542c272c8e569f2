"""Documents: reading undoes writing, bad input never crashes, combining has no order."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from itertools import combinations, permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from property.strategies import written_documents

from wheelfit.core.document import VariantDocument
from wheelfit.core.index_metadata import combine
from wheelfit.core.labels import Label
from wheelfit.core.metadata import check_document, read_document, to_mapping, write_document
from wheelfit.core.properties import EMPTY
from wheelfit.core.providers import BrokenProvider, BuiltinProvider
from wheelfit.core.strict_json import JsonLimits, check_limits, load
from wheelfit.core.variant_json_layouts.schema import PEP_825, PEP_850
from wheelfit.errors import InconsistentDocuments
from wheelfit_runtime.errors import InvalidDocument


@given(written_documents())
def test_reading_undoes_writing(document: VariantDocument) -> None:
    """F-29, F-41: a written document is valid, and is read as the same model."""
    data = write_document(document)
    assert check_document(data) == ()
    read = read_document(data, where="x")
    assert read.priorities == document.priorities
    assert read.providers == document.providers
    assert read.variants == document.variants
    assert write_document(read) == data
    assert to_mapping(read) == json.loads(data)
    without = write_document(document, "825")
    assert check_document(without) == ()
    assert read_document(without, where="x").variants == document.variants


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["a", "null", "nvidia", "A", "1"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)
SCHEMAS = st.sampled_from(
    [
        "peps/850/v0.2.0.json",
        "v0.2.0.json",
        "peps/825/v0.1.1.json",
        "peps/825/v0.1.0.json",
        "peps/826/v0.2.0.json",
        "v0.0.3.json",
        "v0.0.2.json",
        "",
    ]
)
KEYS = [
    "requires",
    "plugin-api",
    "optional",
    "enable-if",
    "plugin-use",
    "install-time",
    "static-properties",
    "feature-order",
    "builtin",
    "namespace",
    "feature",
    "property",
    "abi_dependency",
]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every container of a document with each of its keys."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        found += [(value, key) for key in value]
        for inner in value.values():
            found += places(inner)
    elif isinstance(value, list):
        found += [(value, index) for index in range(len(value))]
        for inner in value:
            found += places(inner)
    return found


@settings(max_examples=200)
@given(written_documents(), SCHEMAS, st.data())
def test_damage_never_crashes(document: VariantDocument, schema: str, data: st.DataObject) -> None:
    """F-32, F-130, F-131: whatever is wrong, it is a fault with a path or a note."""
    damaged: Any = to_mapping(document)
    damaged["$schema"] = f"https://variants-schema.wheelnext.dev/{schema}"
    for _ in range(data.draw(st.integers(1, 4))):
        container, key = data.draw(st.sampled_from(places(damaged)))
        if isinstance(container, dict) and data.draw(st.booleans()):
            key = data.draw(st.sampled_from(KEYS))
        container[key] = data.draw(JSON)
    raw = json.dumps(damaged).encode()
    faults = check_document(raw)
    with suppress(InvalidDocument):
        read = read_document(raw, where="x")
        assert read == read_document(damaged, where="x")
        broken = [item for item in read.providers.values() if isinstance(item, BrokenProvider)]
        if not faults:
            assert not broken
            assert not read.unusable
        assert not (set(read.unusable) & set(read.variants))
        assert bool(read.notes) or not (broken or read.unusable)
        for properties in read.variants.values():
            assert set(properties.namespaces) <= set(read.priorities)


def has_duplicates(text: str) -> bool:
    """Say whether any object has a key twice, the slow way."""
    found = False

    def look(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal found
        found = found or len(dict(pairs)) != len(pairs)
        return dict(pairs)

    json.loads(text, object_pairs_hook=look)
    return found


TEXTS = st.text('[]{},:"\\ \n1ae.-tu', max_size=30)
WIDE = JsonLimits(depth=100)


@settings(max_examples=500)
@given(st.one_of(TEXTS, TEXTS.map(lambda text: f"{{{text}}}"), JSON.map(json.dumps)))
def test_strict_json_agrees_with_the_standard_library(text: str) -> None:
    """F-30: what is accepted means the same; of valid objects only duplicates are refused."""
    try:
        expected = json.loads(text)
    except ValueError:
        expected = None
    try:
        found = load(text.encode(), WIDE)
    except InvalidDocument:
        assert not isinstance(expected, dict) or has_duplicates(text)
    else:
        assert found == expected


def measure(value: Any) -> tuple[int, int]:
    """Return depth and number of list elements, the slow way."""
    if isinstance(value, dict | list):
        inner = [measure(item) for item in (value if isinstance(value, list) else value.values())]
        elements = sum(count for _, count in inner)
        if isinstance(value, list):
            elements += len(value)
        return 1 + max((depth for depth, _ in inner), default=0), elements
    return 0, 0


@given(st.dictionaries(st.text(max_size=3), JSON), st.sampled_from([None, 1]))
def test_limits_are_exact(document: dict[str, Any], indent: int | None) -> None:
    """F-30: depth and values are counted exactly, in bytes and in plain data."""
    depth, values = measure(document)
    data = json.dumps(document, indent=indent, ensure_ascii=False).encode()
    exact = JsonLimits(depth=depth, values=values)
    assert load(data, exact) == document
    check_limits(document, exact)
    tight = [JsonLimits(depth=depth - 1)] + ([JsonLimits(values=values - 1)] if values else [])
    for limits in tight:
        with pytest.raises(InvalidDocument):
            load(data, limits)
        with pytest.raises(InvalidDocument):
            check_limits(document, limits)


@settings(max_examples=60)
@given(written_documents(), st.data())
def test_combining_has_no_order(release: VariantDocument, data: st.DataObject) -> None:
    """F-60, F-61, F-63: the wheels of a release combine to it, in any order and grouping."""
    labels = list(release.variants) or [Label("null")]
    wheels: list[tuple[str, VariantDocument]] = []
    for number, label in enumerate(data.draw(st.permutations(labels))[:4]):
        properties = release.variants.get(label, EMPTY)
        needed = max((release.priorities.index(name) for name in properties.namespaces), default=0)
        length = data.draw(st.integers(needed + 1, len(release.priorities)))
        namespaces = release.priorities[:length]
        providers = {name: release.providers[name] for name in namespaces}
        document = VariantDocument(namespaces, providers, {label: properties})
        wheels.append((f"{number}.whl", document))
    expected = combine(wheels)
    for order in permutations(wheels):
        assert combine(order) == expected
    split = data.draw(st.integers(1, len(wheels)))
    parts = [("first", combine(wheels[:split]))]
    if wheels[split:]:
        parts.append(("second", combine(wheels[split:])))
    assert combine(parts) == expected
    assert expected.variants == {
        label: release.variants.get(label, EMPTY) for _, wheel in wheels for label in wheel.variants
    }


MISTAKES = ["label", "provider", "order", "L5", "other"]


@st.composite
def parts_of_a_release(draw: st.DrawFn) -> list[tuple[str, VariantDocument]]:
    """Draw what the wheels of a release say, some of which something is wrong with."""
    release = replace(draw(written_documents()), schema=PEP_850)
    other = replace(draw(written_documents()), schema=PEP_850)
    found = []
    for number in range(draw(st.integers(2, 3))):
        variants = (
            {
                label: release.variants[label]
                for label in draw(st.sets(st.sampled_from(sorted(release.variants))))
            }
            if release.variants
            else {}
        )
        document = replace(release, variants=variants)
        match draw(
            st.sampled_from(["sound", "sound", "label", "provider", "order", "L5", "other"])
        ):
            case "label" if release.variants:
                label = draw(st.sampled_from(sorted(release.variants)))
                document = replace(document, variants={**variants, label: EMPTY})
            case "provider":
                name = draw(st.sampled_from(release.priorities))
                document = replace(
                    document, providers={**release.providers, name: BuiltinProvider("another")}
                )
            case "order":
                document = replace(document, priorities=tuple(reversed(release.priorities)))
            case "L5":
                document = replace(document, providers={}, layout="L5", schema=PEP_825)
            case "other":
                document = other
            case _:
                pass
        found.append((f"{number}.whl", document))
    return found


def outcome(documents: Iterable[tuple[str, VariantDocument]]) -> object:
    """Return what combining gives, an error included."""
    try:
        return combine(documents)
    except InconsistentDocuments as error:
        return (error.message, error.note, error.hint)


@settings(max_examples=150)
@given(parts_of_a_release())
def test_combining_has_no_order_whatever_is_wrong(
    documents: list[tuple[str, VariantDocument]],
) -> None:
    """F-63, F-65: contradictions too are the same whatever comes first, words included."""
    expected = outcome(documents)
    for order in permutations(documents):
        assert outcome(order) == expected
    if isinstance(expected, VariantDocument):
        # What is consistent as a whole is consistent in every part, and parts combine to it.
        for count in range(1, len(documents)):
            parts = [("left", documents[:count]), ("right", documents[count:])]
            assert outcome([(name, combine(some)) for name, some in parts]) == expected
    else:
        # A contradiction is there already between two of them.
        pairs = [outcome(pair) for pair in combinations(documents, 2)]
        assert not all(isinstance(pair, VariantDocument) for pair in pairs)


@settings(max_examples=150)
@given(written_documents())
def test_combining_with_itself_changes_nothing(document: VariantDocument) -> None:
    """F-61, F-62: what two files say alike is what each of them says."""
    combined = combine([("a.whl", document), ("b.whl", document)])
    assert combined.variants == document.variants
    assert combined.providers == document.providers
    assert combined.priorities == document.priorities
