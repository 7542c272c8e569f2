"""The stable C interface of torch: which release brought which function."""

from __future__ import annotations

import json
from io import BytesIO
from typing import TYPE_CHECKING

import pytest
from building.abi.write_torch_interface import DATA, functions_in, table_of
from packaging.version import Version

from wheelfit.building.abi.torch_api import torch_bounds, torch_interface, torch_notes
from wheelfit.core.abi_exports import AbiExports
from wheelfit.testing.binaries import elf_file
from wheelfit.wheels.binaries.reading import symbols_in

if TYPE_CHECKING:
    from wheelfit.building.abi.bounds import Bounds

HEADER = """
#ifdef __cplusplus
extern "C" {
#endif
// AOTI_TORCH_EXPORT void torch_in_a_comment(void);
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_10_0
AOTI_TORCH_EXPORT AOTITorchError torch_call_dispatcher(
    const char* name, uint64_t extension_build_version);
#endif
AOTI_TORCH_EXPORT int32_t aoti_torch_device_type_cpu();
AOTI_TORCH_EXPORT const char*
torch_exception_get_what(void* exception);
#define AOTI_TORCH_EXPORT __declspec(dllexport)
"""


def found(*symbols: str, versions: str = "2.9.1 2.10.0 2.11.0") -> Bounds | None:
    """Compare symbols with releases of torch."""
    module = elf_file(needed=["libtorch_cpu.so", "libtorch_cuda.so"], imports=symbols)
    releases = [(Version(one), f"torch-{one}.whl") for one in versions.split()]
    return torch_bounds([symbols_in(BytesIO(module))], releases, AbiExports())


def test_reading_headers() -> None:
    """Functions are found whatever stands around them."""
    assert functions_in(HEADER) == {
        "torch_call_dispatcher", "aoti_torch_device_type_cpu", "torch_exception_get_what"
    }  # fmt: skip


def test_making_the_table() -> None:
    """A function counts from the release since which it was always there."""
    functions = {"2.4.0": {"a", "b"}, "2.5.0": {"a", "c"}, "2.6.0": {"a", "b", "c"}, "2.7.0": {"b"}}
    table = table_of({Version(one): names for one, names in functions.items()})
    assert table["since"] == {"2.4.0": ["a"], "2.5.0": ["c"], "2.6.0": ["b"]}
    assert table["until"] == {"2.7.0": ["a", "c"]}
    assert (table["oldest"], table["newest"]) == ("2.4.0", "2.7.0")


def test_the_table() -> None:
    """B-61: functions of well-known releases are where torch's headers have them."""
    table = torch_interface()
    assert table.since["aoti_torch_abi_version"] == Version("2.7.0")
    assert table.since["torch_call_dispatcher"] == Version("2.10.0")
    assert table.since["torch_new_stable_ivalue"] == Version("2.13.0")
    assert len(table.since) == sum(map(len, json.loads(DATA.read_bytes())["since"].values()))


def test_bounds() -> None:
    """B-61: the first release that has all functions fits, and so do later ones."""
    bounds = found("aoti_torch_get_dim", "torch_call_dispatcher", "malloc")
    assert bounds is not None
    assert [release.fits for release in bounds.releases] == [False, True, True]
    assert bounds.releases[0].missing_symbols == ("torch_call_dispatcher",)
    assert bounds.requirement == ">=2.10.0"
    first, *others = bounds.notes
    assert first == (
        "2 symbols of the stable C interface of torch need torch 2.10.0 (torch_call_dispatcher)"
    )
    assert "libtorch_cuda.so" in others[0]


@pytest.mark.parametrize(
    ("symbol", "version", "fits"),
    [
        ("aoti_torch_cpu__qconv2d_pointwise_tensor", "2.7.1", True),
        ("aoti_torch_cpu__qconv2d_pointwise_tensor", "2.8.0", False),
        ("aoti_torch_get_dim", "2.3.1", False),
        ("aoti_torch_get_dim", "3.5.0", True),
    ],
)
def test_the_ends_of_the_table(symbol: str, version: str, *, fits: bool) -> None:
    """B-61: a function that was dropped, and releases that the table does not know."""
    bounds = found(symbol, versions=version)
    assert bounds is not None
    (verdict,) = bounds.releases
    assert verdict.fits is fits
    assert bool(verdict.undecided) is (version == "2.3.1")
    is_newer = any("are assumed to keep" in note for note in bounds.notes)
    assert is_newer is (version == "3.5.0")


def test_older_than_the_table() -> None:
    """B-61: what came after the first release in the table, older ones lack for sure."""
    bounds = found("aoti_torch_get_dim", "torch_call_dispatcher", versions="2.3.1")
    assert bounds is not None
    (verdict,) = bounds.releases
    assert (verdict.missing_symbols, verdict.undecided) == (("torch_call_dispatcher",), "")


@pytest.mark.parametrize(
    ("symbols", "note"),
    [
        (["_ZN3c105ErrorC2Ev"], "outside of its stable interface may change: _ZN3c105ErrorC2Ev"),
        (["THPVariableClass", "aoti_torch_get_dim"], "interface may change: THPVariableClass"),
        (["torch_of_tomorrow"], "has no torch_of_tomorrow"),
        (["malloc"], None),
    ],
)
def test_what_the_table_cannot_decide(symbols: list[str], note: str | None) -> None:
    """B-61: C++, bindings for Python and newer functions are for the releases to tell."""
    assert found(*symbols) is None
    notes = list(torch_notes(symbols))
    assert not notes if note is None else note in notes[-1]
