"""The auxiliary vector and its ability bits."""

from __future__ import annotations

import struct

import pytest

from wheelfit_runtime.platforms.providers.aarch64 import probes
from wheelfit_runtime.platforms.providers.aarch64.probes import Hwcap
from wheelfit_runtime.platforms.providers.aarch64.tables import APPENDED, FEATURES
from wheelfit_runtime.platforms.system_view import SystemView, architecture_of_this_process


def test_both_words_are_found() -> None:
    """P-112: AT_HWCAP is entry 16, AT_HWCAP2 entry 26."""
    data = struct.pack("<8Q", 6, 4096, 16, 0b11, 26, 1 << 43, 0, 0)
    assert probes.parse_auxv(data) == Hwcap(0b11, 1 << 43)
    assert Hwcap(0b11, 1 << 43).names == {"fp", "asimd", "mops"}


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [
        (1 << 8, 0, "atomics"), (1 << 13, 0, "jscvt"), (1 << 20, 0, "asimddp"),
        (1 << 27, 0, "flagm"), (1 << 29, 0, "sb"), (1 << 31, 0, "pacg"), (0, 1, "dcpodp"),
        (0, 2, "sve2"), (0, 1 << 8, "frint"), (0, 1 << 17, "bti"), (0, 1 << 37, "sme2"),
    ],
)  # fmt: skip
def test_bits_have_the_kernel_s_names(first: int, second: int, name: str) -> None:
    """Section 11: positions of the bits."""
    assert Hwcap(first, second).names == {name}


def test_every_ability_has_a_bit() -> None:
    """P-110, P-111: all of the vocabulary can be found."""
    everything = Hwcap(2**64 - 1, 2**64 - 1).names
    assert set(FEATURES + APPENDED) <= everything


def test_the_library_says_what_the_file_says() -> None:
    """P-112: ``getauxval`` gives the same two words."""
    data, asked = probes.read_auxv(SystemView()), probes.ask_library()
    if data is None or asked is None:
        pytest.skip("needs Linux with /proc and a C library")
    file, library = probes.parse_auxv(data), probes.parse_auxv(asked)
    assert file is not None
    assert library is not None
    assert library.second == file.second
    if architecture_of_this_process() == "aarch64":  # on x86 glibc has its own first word
        assert library.first == file.first


@pytest.mark.parametrize("data", [b"", b"torn", struct.pack("<2Q", 6, 4096)])
def test_a_vector_without_the_word_is_no_answer(data: bytes) -> None:
    """P-74: nothing there is no exception."""
    assert probes.parse_auxv(data) is None
