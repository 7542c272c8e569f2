"""Reading, checking and writing documents, whatever their layout."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from wheelfit.core.document import VariantDocument
from wheelfit.core.labels import Label
from wheelfit.core.metadata import (
    WrittenLayout,
    check_document,
    examine_document,
    losses,
    read_document,
    to_mapping,
    write_document,
    writing_faults,
)
from wheelfit.core.properties import EMPTY, Feature, PropertySet
from wheelfit.core.providers import BrokenProvider, BuiltinProvider, PluginProvider, StaticProvider
from wheelfit.core.strict_json import JsonLimits
from wheelfit_runtime.errors import Fault, InvalidDocument
from wheelfit_runtime.platforms.features import FeatureConfig

NVIDIA = PluginProvider(("nvidia-variant-provider>=0.0.1,<1",), "a.b:C")
BLAS = StaticProvider(
    (FeatureConfig("library", ("openblas", "mkl")), FeatureConfig("a", ("2", "1"))),
    optional=True,
)
CU128 = PropertySet.from_mapping({"nvidia": {"sm_arch": ["90_real", "80_real"]}})
DOCUMENT = VariantDocument(
    priorities=("nvidia", "blas", "abi"),
    providers={"nvidia": NVIDIA, "blas": BLAS, "abi": BuiltinProvider("abi_dependency")},
    variants={Label("null"): EMPTY, Label("cu12.8"): CU128},
)

CANONICAL = """\
{
  "$schema": "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",
  "default-priorities": {
    "namespace": [
      "nvidia",
      "blas",
      "abi"
    ]
  },
  "providers": {
    "abi": {
      "builtin": "abi_dependency"
    },
    "blas": {
      "feature-order": [
        "library",
        "a"
      ],
      "optional": true,
      "static-properties": {
        "a": [
          "2",
          "1"
        ],
        "library": [
          "openblas",
          "mkl"
        ]
      }
    },
    "nvidia": {
      "plugin-api": "a.b:C",
      "requires": [
        "nvidia-variant-provider>=0.0.1,<1"
      ]
    }
  },
  "variants": {
    "cu12.8": {
      "nvidia": {
        "sm_arch": [
          "80_real",
          "90_real"
        ]
      }
    },
    "null": {}
  }
}
"""


def test_canonical_output() -> None:
    """F-23, F-29: sorted keys, two blanks, no defaults; sets ascend, ordered lists are as given."""
    assert write_document(DOCUMENT).decode() == CANONICAL
    assert check_document(CANONICAL.encode()) == ()


def test_output_can_be_read() -> None:
    """F-29, F-41: what was written is read as the same model, and written alike."""
    read = read_document(CANONICAL.encode(), where="x")
    assert dict(read.providers) == dict(DOCUMENT.providers)
    assert dict(read.variants) == dict(DOCUMENT.variants)
    assert read.priorities == DOCUMENT.priorities
    assert write_document(read) == CANONICAL.encode()


def test_order_of_the_model_does_not_matter() -> None:
    """F-29: equal input gives equal bytes."""
    other = VariantDocument(
        priorities=DOCUMENT.priorities,
        providers=dict(reversed(list(DOCUMENT.providers.items()))),
        variants=dict(reversed(list(DOCUMENT.variants.items()))),
    )
    assert write_document(other) == write_document(DOCUMENT)


def test_without_providers() -> None:
    """F-39, F-57: by name the layout of PEP 825 is written, without providers."""
    mapping = to_mapping(DOCUMENT, "825")
    assert mapping["$schema"] == "https://variants-schema.wheelnext.dev/peps/825/v0.1.1.json"
    assert sorted(mapping) == ["$schema", "default-priorities", "variants"]
    assert check_document(write_document(DOCUMENT, "825")) == ()
    without = VariantDocument(("x",), {}, {Label("null"): EMPTY})
    assert writing_faults(without, "825") == ()
    assert [fault.rule for fault in writing_faults(without, "850")] == ["F-22"]
    (loss,) = losses(DOCUMENT, "825")
    assert loss.startswith("the providers are dropped")
    assert losses(DOCUMENT, "850") == losses(without, "825") == ()


def test_what_is_written() -> None:
    """F-39: current documents say PEP 850 unless PEP 825 is asked for; there is nothing else."""
    host = "https://variants-schema.wheelnext.dev/peps"
    assert to_mapping(DOCUMENT)["$schema"] == f"{host}/850/v0.2.0.json"
    assert to_mapping(DOCUMENT, "850") == to_mapping(DOCUMENT)
    assert get_args(WrittenLayout) == ("850", "825")
    for layout in get_args(WrittenLayout):
        for old in ("L1", "L2", "L3", "L4", "L5", "L6", "L7"):
            written = to_mapping(replace(DOCUMENT, layout=old, schema="as it was"), layout)
            assert written["$schema"] in (f"{host}/850/v0.2.0.json", f"{host}/825/v0.1.1.json")


PLUGIN = PluginProvider(("a",))


@pytest.mark.parametrize(
    ("document", "rules"),
    [
        (VariantDocument(()), ["F-21"]),
        (VariantDocument(("x", "x"), {"x": PLUGIN}), ["F-21"]),
        (VariantDocument(("X",), {"X": PLUGIN}), ["F-2", "F-2"]),
        (VariantDocument(("x",), {"x": PLUGIN, "y": PLUGIN}), ["F-22"]),
        (VariantDocument(("x",), {"x": BrokenProvider("why")}), ["F-132"]),
        (VariantDocument(("x",), {"x": StaticProvider(())}), ["P-3"]),
        (VariantDocument(("x",), {"x": StaticProvider((FeatureConfig("a", ()),))}), ["P-3"]),
        (VariantDocument(("x",), {"x": StaticProvider((FeatureConfig("A", ("1",)),))}), ["F-2"]),
        (VariantDocument(("x",), {"x": PluginProvider(())}), ["P-6"]),
        (VariantDocument(("x",), {"x": PluginProvider(("a b",))}), ["P-6"]),
        (VariantDocument(("x",), {"x": PluginProvider(("a",), "b c")}), ["P-7"]),
        (VariantDocument(("x",), {"x": BuiltinProvider("")}), ["P-8"]),
        (VariantDocument(("x",), {"x": PLUGIN}, {Label("one"): EMPTY}), ["F-7"]),
        (VariantDocument(("x",), {"x": PLUGIN}, {Label("One"): CU128}), ["F-2", "F-21"]),
        (VariantDocument(("x",), {"x": PLUGIN}, {Label("one"): CU128}), ["F-21"]),
        (VariantDocument(("nvidia",), {"nvidia": PLUGIN}, {Label("con"): CU128}), ["F-4"]),
        (VariantDocument(("nvidia",), {"nvidia": PLUGIN}, {Label("null"): CU128}), ["F-6"]),
        (VariantDocument(("x",), {"x": PLUGIN}, unusable={"a": "why"}), ["F-132"]),
    ],
)
def test_what_may_not_be_written(document: VariantDocument, rules: list[str]) -> None:
    """F-132: a writer refuses every violation, and names all of them."""
    assert [fault.rule for fault in writing_faults(document)] == rules
    with pytest.raises(InvalidDocument) as excinfo:
        write_document(document)
    assert [fault.rule for fault in excinfo.value.faults] == rules


def test_losses() -> None:
    """F-56: preferences about a plugin's answer cannot be written, only given up."""
    document = VariantDocument(
        ("nvidia",),
        {"nvidia": NVIDIA},
        feature_priorities={"nvidia": ("sm_arch",)},
        value_priorities={Feature("nvidia", "sm_arch"): ("90_real", "80_real")},
    )
    assert losses(document) == (
        "the preferred features of nvidia are lost: sm_arch",
        "the preferred values of nvidia :: sm_arch are lost: 90_real, 80_real",
    )
    with pytest.raises(InvalidDocument):
        write_document(document)
    assert write_document(document, accept_losses=True)
    assert losses(DOCUMENT) == ()


def test_bytes_and_plain_data() -> None:
    """F-115: a table of a lock file is read like the file."""
    from_data = read_document(json.loads(CANONICAL), where="pylock.toml")
    assert from_data == read_document(CANONICAL.encode(), where="index.json")


@pytest.mark.parametrize(
    "data",
    [
        CANONICAL.replace("{", "[", 1).encode(),
        CANONICAL.replace('"null": {}', '"null": {}, "null": {}').encode(),
        b"\xef\xbb\xbf" + CANONICAL.encode(),
        CANONICAL.encode() + b"x",
        b"",
    ],
)
def test_syntax(data: bytes) -> None:
    """F-30, F-130: bad syntax makes the whole unusable; the error says where."""
    with pytest.raises(InvalidDocument) as excinfo:
        read_document(data, where="https://example.org/x-1-variants.json")
    assert excinfo.value.where == "https://example.org/x-1-variants.json"
    assert check_document(data) == excinfo.value.faults


def test_limits() -> None:
    """F-30: limits are configurable, for bytes and for plain data."""
    for data in (CANONICAL.encode(), json.loads(CANONICAL)):
        for limits in (JsonLimits(labels=1), JsonLimits(depth=3)):
            with pytest.raises(InvalidDocument) as excinfo:
                read_document(data, where="x", limits=limits)
            assert excinfo.value.faults[0].rule == "F-30"


@pytest.mark.parametrize("value", [None, True, 0, 1.5, "text", [], {}, [[]], {"a": {}}])
@pytest.mark.parametrize(
    "steps",
    [
        (),
        ("$schema",),
        ("default-priorities",),
        ("default-priorities", "namespace"),
        ("providers",),
        ("providers", "blas"),
        ("providers", "blas", "static-properties"),
        ("providers", "blas", "feature-order"),
        ("providers", "nvidia", "requires"),
        ("variants",),
        ("variants", "cu12.8"),
        ("variants", "cu12.8", "nvidia"),
        ("variants", "cu12.8", "nvidia", "sm_arch"),
    ],
)
def test_a_wrong_type_anywhere(steps: tuple[str, ...], value: object) -> None:
    """F-32: a wrong type is a violation with a path, never a crash, in any layout."""
    for schema in ("peps/850/v0.2.0", "peps/825/v0.1.0", "peps/826/v0.2.0", "v0.0.2"):
        document: Any = json.loads(CANONICAL)
        document["$schema"] = f"https://variants-schema.wheelnext.dev/{schema}.json"
        place, last = document, None
        for step in steps:
            place = place if last is None else place[last]
            last = step
        if last is None:
            document = value
        else:
            place[last] = value
        data = json.dumps(document).encode()
        check_document(data)
        with suppress(InvalidDocument):
            read = read_document(data, where="x")
            assert read.priorities[:3] == ("nvidia", "blas", "abi")
        assert examine_document(data, where="x") == both(data)


def both(data: bytes) -> tuple[tuple[Fault, ...], VariantDocument | None]:
    """Check a document and read it, each by itself."""
    with suppress(InvalidDocument):
        return check_document(data), read_document(data, where="x")
    return check_document(data), None


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1, "a": 2}', CANONICAL, CANONICAL[:-9]])
def test_checking_and_reading_at_once(text: str) -> None:
    """F-130, F-131: done together they find and give what they do one after the other."""
    assert examine_document(text.encode(), where="x") == both(text.encode())


def test_checking_and_reading_published_documents_at_once(published_index: Path) -> None:
    """F-130, F-131: the same for published releases, whatever their layout."""
    paths = sorted(published_index.rglob("*.json"))
    assert len(paths) >= 9
    for path in paths:
        data = path.read_bytes()
        assert examine_document(data, where="x") == both(data), path


def test_looking_up_a_label() -> None:
    """F-26: null needs no entry; any other label does."""
    document = VariantDocument(("x",), variants={Label("one"): CU128})
    assert document.properties("one") == CU128
    assert document.properties("null") == EMPTY
    assert document.properties("two") is None


def test_the_model_is_frozen() -> None:
    """The mappings of a document are copies that cannot be changed."""
    variants = {Label("one"): CU128}
    document = VariantDocument(("x",), variants=variants)
    variants.clear()
    assert document.properties("one") == CU128
    with pytest.raises(TypeError):
        document.variants[Label("two")] = CU128  # type: ignore[index]
