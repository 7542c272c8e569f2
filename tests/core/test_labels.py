from __future__ import annotations

import pytest
from error_codes import raises_code

from wheelfit.core.labels import (
    NULL,
    OLD_NULL,
    Label,
    derive_label,
    parse_label,
    writer_faults,
    writer_warnings,
)
from wheelfit.core.properties import EMPTY, PropertySet, parse_property


@pytest.mark.parametrize("text", ["cu128", "126", "cpu.v3", "x8664v3_mkl", "_", "...", "a" * 300])
def test_valid_labels(text: str) -> None:
    """F-2, F-3: lower-case letters, digits, '_' and '.', of any length."""
    assert parse_label(text) == text


@pytest.mark.parametrize(
    "text", ["", "CUDA", "cu-128", "cpu_!", " cu128", "cu128\n", "cu128 ", "é", "٣", "cu/128"]
)
def test_invalid_labels(text: str) -> None:
    """F-2: anything else is refused, a trailing newline and foreign digits too."""
    with raises_code("invalid-label") as excinfo:
        parse_label(text)
    assert repr(text) in str(excinfo.value)
    assert excinfo.value.hint is not None


@pytest.mark.parametrize(
    "text", [".", "...", "con", "nul", "aux", "prn", "com1", "lpt9", "con.x", "com1.2"]
)
def test_labels_refused_by_writers(text: str) -> None:
    """F-4: readers accept labels of dots and device names, writers do not."""
    faults = writer_faults(parse_label(text))
    assert len(faults) == 1
    assert repr(text) in faults[0]


@pytest.mark.parametrize(
    "text", ["null", "cu128", "console", "com", "com12", "xcon", "a.con", ".a"]
)
def test_labels_accepted_by_writers(text: str) -> None:
    """F-4: a label that only contains a device name is valid."""
    assert writer_faults(parse_label(text)) == ()


def test_long_labels() -> None:
    """F-3: nothing limits the length, but writers warn above 32 characters."""
    assert writer_warnings(parse_label("a" * 32)) == ()
    (warning,) = writer_warnings(parse_label("a" * 33))
    assert "33 characters" in warning


def test_names_of_the_null_variant() -> None:
    """F-6, F-53: both labels of variants without properties are recognised."""
    assert parse_label("null") == NULL
    assert parse_label("00000000") == OLD_NULL


# F-141, the table of section 13
_VECTORS = {
    "x86_64 :: level :: v1": "3b930df5",
    "x86_64 :: level :: v2": "40aba78e",
    "x86_64 :: level :: v3": "fa7c1393",
    "x86_64 :: level :: v4": "cfdbe307",
    "x86_64 :: level :: v3, x86_64 :: aes :: on": "7e3cb5eb",
    "aarch64 :: version :: 8a": "ab33065c",
    "aarch64 :: version :: 8.1a": "802e12ea",
    "aarch64 :: version :: 8.2a": "e9a738cd",
    "aarch64 :: version :: 8.3a": "522ebbc7",
    "aarch64 :: version :: 8.4a": "09300f2f",
    "aarch64 :: version :: 8.5a": "c87a4099",
    "nvidia :: cuda :: 12": "3f631cc2",
    "nvidia :: driver :: 12": "aa00cb06",
    "nvidia :: driver :: 11": "73be618d",
    "ascend :: npu_type :: 910b": "38edb458",
    "ascend :: npu_type :: 310p": "aabc2c9e",
    "nvidia :: cuda_version_lower_bound :: 12.8, nvidia :: sm_arch :: 80_real, "
    "nvidia :: sm_arch :: 90_real": "cdd580bb",
}


@pytest.mark.parametrize(("properties", "label"), _VECTORS.items())
def test_derived_labels(properties: str, label: str) -> None:
    """F-141: the hash of the sorted properties equals that of the reference implementation."""
    parsed = [parse_property(item) for item in properties.split(",")]
    assert derive_label(PropertySet(parsed)) == label
    assert derive_label(PropertySet(reversed(parsed))) == label


def test_derived_label_without_properties() -> None:
    """F-142: no properties give null, never a hash."""
    assert derive_label(EMPTY) == Label("null")
