"""Versions in the names of symbols."""

from __future__ import annotations

import pytest

from wheelfit.building.abi.release_comparison import namespace_notes


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        ("_ZN4absl12lts_202407223NowEv", "absl::lts_20240722 (1 symbol) is in releases 20240722.*"),
        ("_ZN6icu_7413UnicodeStringC1Ev", "icu_74 (1 symbol) is in releases 74.* of ICU"),
        ("u_charType_74", "icu_74 (1 symbol) is in releases 74.* of ICU"),
        ("_ZN3fmt3v116detail10error_codeE", "fmt::v11 (1 symbol) is in releases 11.* of fmt"),
        ("_ZN3fmt2v87vformatB5cxx11ENS", "fmt::v8 (1 symbol) is in releases 8.* of fmt"),
        (
            "_ZN8nlohmann16json_abi_v3_11_36detail9exceptionE",
            "nlohmann::json_abi_v3_11_3 (1 symbol) is in releases 3.11.3 of nlohmann/json",
        ),
    ],
)
def test_namespaces(symbol: str, expected: str) -> None:
    """B-61: a namespace with a version bounds the library, even if no release is at hand."""
    (note,) = namespace_notes([symbol, "malloc@GLIBC_2.2.5"])
    assert note.startswith(expected)


def test_others() -> None:
    """B-61: no version is read into names that have none."""
    names = ["_ZN2at6TensorC1Ev", "uv_loop_init", "u_free", "usb_open_2", "_ZN5arrow6StatusC1Ev"]
    assert not list(namespace_notes(names))
