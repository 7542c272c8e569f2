"""What Linux tells of 64-bit Arm processors."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from platforms.detecting import write_files

from wheelfit_runtime.platforms.facts import Core
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
    data, asked = SystemView().read_bytes(probes.AUXV), probes.ask_library()
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


# --- p-113: identification registers of Arm cores -------------------------------------------------


def test_implementer_and_part_are_taken_out() -> None:
    """P-113, P-115: variant and revision do not matter; what is not a number is left out."""
    texts = ["0x00000000413fd0c1", "0x410fd0c0", "0x00000000610f0320", "", "nonsense"]
    assert probes.parse_midr(texts) == (Core(0x41, 0xD0C), Core(0x61, 0x032))


def test_registers_of_every_processor_are_read(tmp_path: Path) -> None:
    """P-70, P-74: a processor without the file, and folders that are none, do not matter."""
    folder = tmp_path / "sys/devices/system/cpu"
    texts = {"cpu0": "0x410fd4f0\n", "cpu11": "0x410fd460\n", "cpufreq": "x"}
    registers = {f"{cpu}/regs/identification/midr_el1": text for cpu, text in texts.items()}
    write_files(folder, registers)
    (folder / "cpu1").mkdir()
    assert probes.read_midr(SystemView(root=str(tmp_path))) == ("0x410fd4f0", "0x410fd460")
    assert probes.read_midr(SystemView(root=str(tmp_path / "empty"))) == ()
