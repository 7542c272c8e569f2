"""Combining the documents of a release, and comparing wheel and index."""

from __future__ import annotations

from itertools import permutations

import pytest
from msgspec.structs import replace

from wheelfit.core.document import VariantDocument
from wheelfit.core.index_metadata import combine, disagreement, read_wheel_document
from wheelfit.core.labels import Label
from wheelfit.core.metadata import read_document, write_document
from wheelfit.core.properties import EMPTY, Feature, PropertySet
from wheelfit.core.providers import PluginProvider, Provider, StaticProvider
from wheelfit.errors import InconsistentDocuments
from wheelfit_runtime.errors import InvalidDocument, InvalidWheel
from wheelfit_runtime.platforms.features import FeatureConfig

X = PluginProvider(("x-plugin>=1",))
Y = StaticProvider((FeatureConfig("b", ("1", "2")),))


def needs(value: str) -> PropertySet:
    """Return a small property set."""
    return PropertySet.from_mapping({"x": {"a": [value]}})


def document(
    label: str,
    properties: PropertySet = EMPTY,
    namespaces: str = "x",
    providers: dict[str, Provider] | None = None,
) -> VariantDocument:
    """Make the document of one wheel; namespaces are letters."""
    known: dict[str, Provider] = {"x": X, "y": Y}
    return VariantDocument(
        tuple(namespaces),
        {name: known[name] for name in namespaces} if providers is None else providers,
        {Label(label): properties},
        schema="https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",
    )


def conflict(*documents: VariantDocument) -> InconsistentDocuments:
    """Return the error of combining, the same in every order (F-63)."""
    named = [(f"{index}.whl", item) for index, item in enumerate(documents)]
    messages = set()
    for order in permutations(named):
        with pytest.raises(InconsistentDocuments) as excinfo:
            combine(order)
        messages.add((excinfo.value.message, excinfo.value.note))
    assert len(messages) == 1
    return excinfo.value


def test_union() -> None:
    """F-60, F-61, F-62, F-63: the longer priorities, all labels and providers, in any order."""
    documents = [
        ("null.whl", document("null")),
        ("one.whl", document("one", needs("1"), "xy")),
        ("two.whl", document("two", needs("2"))),
        ("one again.whl", document("one", needs("1"), "xy")),
    ]
    results = {write_document(combine(order)) for order in permutations(documents)}
    assert len(results) == 1
    combined = combine(documents)
    assert combined.priorities == ("x", "y")
    assert dict(combined.providers) == {"x": X, "y": Y}
    assert dict(combined.variants) == {"null": EMPTY, "one": needs("1"), "two": needs("2")}
    assert combined.layout == "L7"


def test_one_document() -> None:
    """F-24: a release of one wheel has the document of that wheel."""
    one = document("one", needs("1"))
    assert combine([("one.whl", one)]) == one
    with pytest.raises(ValueError, match="nothing to combine"):
        combine([])


def test_different_priorities() -> None:
    """F-60, F-63, F-65: the shorter list must be a prefix; the error has both and the key."""
    error = conflict(document("one", needs("1"), "xy"), document("two", needs("2"), "y"))
    assert "0.whl and 1.whl" in error.message
    assert "default-priorities.namespace" in error.message
    assert error.note == "0.whl: x, y\n1.whl: y"
    conflict(document("one", namespaces="xy"), document("two", namespaces="yx"), document("three"))


def test_different_labels() -> None:
    """F-8, F-61, F-65: A label means the same in both; two labels may mean the same."""
    error = conflict(document("cu12.8", needs("1")), document("cu12.8", needs("2")))
    assert error.message.startswith("0.whl and 1.whl contradict")
    assert error.message.endswith('variants["cu12.8"]')
    assert error.note == "0.whl: x :: a :: 1\n1.whl: x :: a :: 2"
    conflict(document("null"), document("one", needs("1")), document("one", needs("2")))
    twice = combine(
        [("0.whl", document("one", needs("1"))), ("1.whl", document("two", needs("1")))]
    )
    assert dict(twice.variants) == {"one": needs("1"), "two": needs("1")}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (PluginProvider(("a>=1,<2",)), PluginProvider(("A >=1, <2",))),
        (PluginProvider(("A.b",)), PluginProvider(("a-b",), "a_b")),
        (PluginProvider(("a[x,y]",)), PluginProvider(("a[y,x]",))),
    ],
)
def test_equivalent_providers(first: PluginProvider, second: PluginProvider) -> None:
    """F-62: defaults and spelling of requirements do not matter."""
    one = document("one", needs("1"), providers={"x": first})
    two = document("two", needs("2"), providers={"x": second})
    combined = combine([("a", one), ("b", two)])
    assert write_document(combined) == write_document(combine([("b", one), ("a", two)]))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (X, Y),
        (X, PluginProvider(("x-plugin>=2",))),
        (X, PluginProvider(("no requirement",))),
        (X, PluginProvider(("x-plugin>=1", "other"))),
        (X, PluginProvider(("x-plugin>=1",), "other")),
        (X, replace(X, optional=True)),
        (X, replace(X, enabled_by="os_name == 'nt'")),
        (PluginProvider(("a", "b"), "c"), PluginProvider(("b", "a"), "c")),
        (Y, StaticProvider((FeatureConfig("b", ("2", "1")),))),
    ],
)
def test_different_providers(first: Provider, second: Provider) -> None:
    """F-62, F-65, P-33: other differences are contradictions, as one provider answers."""
    error = conflict(
        document("one", providers={"x": first}), document("two", providers={"x": second})
    )
    assert error.message.endswith("providers.x")


def test_legacy_priorities() -> None:
    """F-49, F-62: preferences of old layouts are combined like providers."""
    one = replace(
        document("one", needs("1")),
        feature_priorities={"x": ("a",)},
        value_priorities={Feature("x", "a"): ("2",)},
        layout="L3",
    )
    two = replace(one, variants={Label("two"): needs("2")})
    combined = combine([("1", one), ("2", two)])
    assert combined.layout == "L3"
    assert dict(combined.feature_priorities) == {"x": ("a",)}
    other = replace(two, value_priorities={Feature("x", "a"): ("1",)})
    assert conflict(one, other).message.endswith("default-priorities.property.x.a")
    another = replace(two, feature_priorities={"x": ("b",)})
    assert conflict(one, another).message.endswith("default-priorities.feature.x")


def test_mixed_layouts() -> None:
    """F-64: different layouts give L7; the others must have the names of an L5."""
    old = replace(document("one", needs("1"), providers={}), layout="L5", schema="old")
    new = document("two", needs("2"), "xy")
    combined = combine([("old", old), ("new", new)])
    assert (combined.layout, combined.schema) == ("L7", new.schema)
    assert set(combined.providers) == {"x", "y"}
    longer = replace(old, priorities=("x", "y", "z"))
    assert conflict(longer, new).message.endswith("providers.z")
    only_old = combine([("a", old), ("b", replace(old, variants={}))])
    assert (only_old.layout, only_old.schema) == ("L5", "old")
    first = combine([("a", old), ("b", replace(old, layout="L4"))])
    assert first.layout == "L5"


def test_missing_provider() -> None:
    """F-22, F-62, F-130: a namespace without a provider stays unsupported, and is not written."""
    one = document("one", needs("1"), "xy", {"x": X})
    combined = combine([("1", one), ("2", document("two", needs("2")))])
    assert set(combined.providers) == {"x"}
    assert combined.priorities == ("x", "y")
    with pytest.raises(InvalidDocument) as excinfo:
        write_document(combined)
    assert [(fault.path, fault.rule) for fault in excinfo.value.faults] == [("providers.y", "F-22")]


def test_one_provider_in_a_document() -> None:
    """P-33: a document that names two providers of one namespace is refused."""
    data = write_document(document("one", needs("1"))).replace(
        b'"providers": {', b'"providers": {"x": {"requires": ["other"]}, '
    )
    with pytest.raises(InvalidDocument) as excinfo:
        read_document(data, where="variant.json")
    assert [fault.path for fault in excinfo.value.faults] == ["providers.x"]


def test_broken_labels() -> None:
    """F-61, F-130: a label invalid in one file and valid in another is a contradiction."""
    broken = replace(document("one"), variants={}, unusable={"one": "why"})
    assert conflict(document("one", needs("1")), broken).message.endswith("variants.one")
    combined = combine([("1", broken), ("2", document("two", needs("2")))])
    assert dict(combined.unusable) == {"one": "why"}
    other = replace(broken, unusable={"one": "because"})
    for order in permutations([("1", broken), ("2", other)]):
        assert dict(combine(order).unusable) == {"one": "because"}


def test_notes() -> None:
    """F-136: notes of every document are kept without duplicates."""
    one = replace(document("one", needs("1")), notes=("b", "a"))
    two = replace(document("two", needs("2")), notes=("b",))
    assert combine([("1", one), ("2", two)]).notes == ("a", "b")


BOTH = PropertySet.from_mapping({"x": {"a": ["1", "2"]}})
INDEX = combine([("1", document("one", needs("1"))), ("2", document("two", needs("2")))])


@pytest.mark.parametrize(
    ("wheel", "label", "message"),
    [
        (document("one", needs("1")), "one", None),
        (document("null"), "null", None),
        (VariantDocument(("x",)), "null", None),
        (document("one", needs("2")), "one", "only the wheel has x :: a :: 2; only the index has"),
        (document("one"), "one", "differ: only the index has x :: a :: 1"),
        (document("one", BOTH), "one", "differ: only the wheel has x :: a :: 2"),
        (document("two", needs("2")), "one", "describes two"),
        (document("three", needs("2")), "three", "the index does not describe the label three"),
        (VariantDocument(("x",)), "one", "the wheel does not describe its label one"),
        (VariantDocument(("x",), unusable={"one": "why"}), "one", "unusable: why"),
        (VariantDocument(("x",), unusable={"two": "why"}), "one", "describes two"),
    ],
)
def test_wheel_and_index(wheel: VariantDocument, label: str, message: str | None) -> None:
    """F-24, F-93: the same label has the same properties; the error describes a difference."""
    found = disagreement(wheel, INDEX, Label(label))
    if message is None:
        assert found is None
    else:
        assert found is not None
        assert message in found


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (write_document(document("one", needs("1"), providers={"x": X})), None),
        (None, "the wheel has no variant.json"),
        (b"{", "variant.json of the wheel cannot be used: the document is not JSON"),
        (write_document(document("two", needs("2"), providers={"x": X})), "describes two"),
    ],
)
def test_reading_a_wheel(data: bytes | None, message: str | None) -> None:
    """F-24, F-27: a wheel without usable properties of its own label is invalid."""
    if message is None:
        found = read_wheel_document(data, Label("one"), where="one.whl")
        assert found.properties("one") == needs("1")
    else:
        with pytest.raises(InvalidWheel, match=message) as excinfo:
            read_wheel_document(data, Label("one"), where="one.whl")
        assert excinfo.value.where == "one.whl"
