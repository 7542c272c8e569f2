"""Libraries for every system, as they say what they are."""

from __future__ import annotations

import io
import random
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.testing.binaries import elf_file, fat_binary, macho_file, pe_file, universal_file
from wheelfit.testing.wheels import build_wheel
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.binaries.bounded_reader import ReadLimits, Unreadable, Window
from wheelfit.wheels.binaries.facts import Binary, Format, IsaLevels, MinimumSystem, SymbolVersion
from wheelfit.wheels.binaries.reading import binaries_of, read_binary, symbols_in
from wheelfit_runtime.errors import FileProblem, InvalidWheel

ARM, INTEL = 0x0100000C, 0x01000007
FULL_ELF = elf_file(
    soname="libfast.so.1",
    needed=["libc.so.6", "libm.so.6"],
    runpath="$ORIGIN:/opt/lib",
    versions={"libc.so.6": ["GLIBC_2.17", "GLIBC_2.2.5"], "libm.so.6": ["GLIBC_2.29"]},
    levels_needed=0b111,
    exports=["fast_new", "fast_free"],
    imports=["malloc"],
    sections={".nv_fatbin": fat_binary("sm_80", "compute_90 8.7")},
)
FULL_MACHO = universal_file(
    (ARM, macho_file(name="@rpath/libfast.dylib", needed=["libSystem"], minimum=(11, 0))),
    (INTEL, macho_file(machine=INTEL, needed=["libSystem", "libold"], minimum=(10, 15))),
)
FULL_PE = pe_file(
    needed=["KERNEL32.dll", "cudart64_12.dll"], sections={".nv_fatb": fat_binary("sm_80")}
)


def read(data: bytes, name: str = "some") -> Binary | None:
    """Return what a file is."""
    return read_binary(io.BytesIO(data), name)


def binary(data: bytes, name: str = "some") -> Binary:
    """Return what a binary is."""
    found = read(data, name)
    assert found is not None
    return found


class TestFormats:
    """What is read of each kind of file."""

    def test_elf(self) -> None:
        """B-60, P-102: an ELF file says machine, names, libraries, versions, levels and code."""
        found = binary(FULL_ELF)
        assert (found.format, found.machines, found.soname) == (
            Format.ELF,
            ("x86_64",),
            "libfast.so.1",
        )
        assert found.needed == ("libc.so.6", "libm.so.6")
        assert found.rpath == ("$ORIGIN", "/opt/lib")
        assert found.versions == (
            SymbolVersion("libc.so.6", "GLIBC_2.17"),
            SymbolVersion("libc.so.6", "GLIBC_2.2.5"),
            SymbolVersion("libm.so.6", "GLIBC_2.29"),
        )
        assert found.levels == IsaLevels("v3")
        assert [str(one) for one in found.code] == ["sm_80", "compute_90 (PTX 8.7)"]
        assert found.faults == ()

    @pytest.mark.parametrize(
        ("number", "name"), [(183, "aarch64"), (62, "x86_64"), (22, "s390x"), (21, "ppc64le")]
    )
    def test_machines(self, number: int, name: str) -> None:
        """F-15: machines are called as platform tags call them."""
        found = binary(elf_file(machine=number))
        assert found.machines == (name,)

    def test_unknown_machine(self) -> None:
        """F-15: an unknown machine keeps its number, and is no fault."""
        found = binary(elf_file(machine=0x7777))
        assert found.machines == (str(0x7777),)

    def test_large_hash_table(self) -> None:
        """B-60: a library with a million symbols has a large table of hashes, and is sound."""
        data = elf_file(
            soname="libtensorflow_cc.so.2",
            needed=["libc.so.6"],
            versions={"libc.so.6": ["GLIBC_2.27"]},
            hash_buckets=300_000,
        )
        found = binary(data)
        assert found.faults == ()
        assert (found.soname, found.needed) == ("libtensorflow_cc.so.2", ("libc.so.6",))
        assert symbols_in(io.BytesIO(data)).soname == "libtensorflow_cc.so.2"

    def test_long_list_of_folders(self) -> None:
        """B-60: TensorFlow has a list of folders of more than 4 KiB, behind a large table."""
        folders = ":".join(f"$ORIGIN/../nvidia/part{number}/lib" for number in range(300))
        needed = [f"lib{'x' * 50}{number}.so" for number in range(1_000)]
        data = elf_file(soname="libframework.so.2", needed=needed, runpath=folders)
        found = binary(data)
        assert (found.soname, found.faults) == ("libframework.so.2", ())

    def test_some_symbols(self) -> None:
        """B-61: of a million symbols those are read that count."""
        data = elf_file(soname="liba.so", exports=["f", "g"], imports=["f", "h"])
        found = symbols_in(io.BytesIO(data), frozenset({"f", "x"}))
        assert found.soname == "liba.so"
        assert found.exported == found.imported == {"f"}

    def test_unknown_level(self) -> None:
        """P-102: a level that is not known yet is not guessed."""
        found = binary(elf_file(levels_needed=0b11111))
        assert found.levels == IsaLevels()

    def test_pe(self) -> None:
        """B-60: a PE file says machine, libraries and code."""
        found = binary(FULL_PE)
        assert (found.format, found.machines) == (Format.PE, ("x86_64",))
        assert found.needed == ("KERNEL32.dll", "cudart64_12.dll")
        assert [str(one) for one in found.code] == ["sm_80"]
        assert found.faults == ()

    def test_macho(self) -> None:
        """F-15: a universal file has several machines, each with its oldest system."""
        found = binary(FULL_MACHO)
        assert (found.format, found.machines) == (Format.MACHO, ("aarch64", "x86_64"))
        assert found.soname == "@rpath/libfast.dylib"
        assert found.needed == ("libSystem", "libold")
        assert found.minimum_systems == (
            MinimumSystem("aarch64", "macos", (11, 0)),
            MinimumSystem("x86_64", "macos", (10, 15)),
        )
        assert found.faults == ()

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"#!/bin/sh\n",
            b"MZ is how this text begins, which is longer than the head of a program for DOS",
            b"\xca\xfe\xba\xbe\0\0\0\x41 a class of Java",
        ],
        ids=["empty", "script", "text", "java"],
    )
    def test_no_binary(self, data: bytes) -> None:
        """B-60: what only begins like a binary is none."""
        assert read(data) is None
        if data.startswith(b"MZ"):
            broken = read(data, "some.DLL")  # which should be one
            assert broken is not None
            assert broken.faults

    def test_names_can_be_shown(self) -> None:
        """B-60: names can neither end the line nor colour it."""
        found = binary(elf_file(soname="lib\x1b[31m\n.so", needed=["\u202egnp.so"]))
        assert found.soname == "lib\\x1b[31m\\n.so"
        assert found.needed == ("\\u202egnp.so",)


class TestWheels:
    """Binaries of a wheel."""

    def test_members(self, tmp_path: Path) -> None:
        """B-60: every binary is found by its content, in the order of the archive."""
        files = {
            "fast/_native.so": FULL_ELF,
            "fast/lib/noname": FULL_ELF,
            "fast/lib.dylib": FULL_MACHO,
            "fast/kernels.fatbin": fat_binary("sm_90"),
            "fast/kernels.ptx": b"// text\n.version 8.7\n.target sm_90a\n",
            "fast/data.bin": bytes(1000),
            "fast/elf.py": FULL_ELF,  # a text by its name, which nobody loads
        }
        wheel = build_wheel(tmp_path, "fast", "1.0", files=files)
        with WheelArchive(wheel) as archive:
            found = binaries_of(archive)
        assert {one.member: one.format for one in found} == {
            "fast/_native.so": Format.ELF,
            "fast/lib/noname": Format.ELF,
            "fast/lib.dylib": Format.MACHO,
            "fast/kernels.fatbin": Format.FATBIN,
            "fast/kernels.ptx": Format.PTX,
        }
        assert found.needed == ("libSystem", "libc.so.6", "libm.so.6", "libold")
        assert len(found.with_code) == 4

    def test_own_libraries(self, tmp_path: Path) -> None:
        """B-60: libraries that the wheel brings are not needed from elsewhere."""
        files = {
            "fast/a.so": elf_file(needed=["libfast.so.1", "libb.so", "libc.so.6"]),
            "fast/x.so": FULL_ELF,
            "fast/libb.so": elf_file(),
        }
        wheel = build_wheel(tmp_path, "fast", "1.0", files=files)
        with WheelArchive(wheel) as archive:
            assert binaries_of(archive).needed == ("libc.so.6", "libm.so.6")

    def test_damaged(self, tmp_path: Path) -> None:
        """B-38: a member that is damaged in the archive is an error of the wheel."""
        large = elf_file(sections={".data": random.Random(7).randbytes(1 << 20)})
        wheel = build_wheel(tmp_path, "fast", "1.0", files={"fast/a.so": large})
        data = bytearray(wheel.read_bytes())
        data[len(data) // 2] ^= 0xFF
        name = parse_wheel_filename(wheel.name)
        with (
            WheelArchive(io.BytesIO(bytes(data)), name) as archive,
            pytest.raises(InvalidWheel, match="damaged"),
        ):
            binaries_of(archive)


def test_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B-60: where nothing can be unpacked, that is said, with what to do."""
    large = elf_file(sections={".data": bytes(33 << 20)})
    wheel = build_wheel(tmp_path, "fast", "1.0", files={"fast/a.so": large})
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with WheelArchive(wheel) as archive, pytest.raises(FileProblem, match="be unpacked") as excinfo:
        binaries_of(archive)
    assert excinfo.value.where == str(wheel)
    assert "TMPDIR" in str(excinfo.value.hint)


# --- hostile files ------------------------------------------------------------------------------


class Counting(io.BytesIO):
    """Count what is read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.reads = 0
        self.largest = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Count, and read."""
        self.reads += 1
        self.largest = max(self.largest, size or 0)
        return super().read(size)


@pytest.mark.parametrize("whole", [FULL_ELF, FULL_PE, FULL_MACHO], ids=["elf", "pe", "macho"])
class TestHostile:
    """Files that lie."""

    def test_cut_off(self, whole: bytes) -> None:
        """B-60: a file that ends anywhere is read as far as it goes, and called faulty."""
        for length in range(4, len(whole) - 8, 5):
            found = binary(whole[:length], "some.dll")
            assert found.faults, length

    @pytest.mark.integration
    def test_numbers(self, whole: bytes) -> None:
        """B-60: whatever number stands anywhere, reading ends, and takes few looks."""
        for value in (b"\xff" * 8, b"\xff" * 4, b"\0" * 8, b"\xff\xff\xff\x7f", b"\1\0\0\0"):
            for place in range(4, len(whole) - 8, 11):
                file = Counting(whole[:place] + value + whole[place + len(value) :])
                read_binary(file, "some")
                assert file.reads < 25_000
                assert file.largest <= 1 << 20

    def test_symbols(self, whole: bytes) -> None:
        """B-61: the same holds for symbols: they are read, or it is said that they cannot be."""
        if not whole.startswith(b"\x7fELF"):
            with pytest.raises(Unreadable):
                symbols_in(io.BytesIO(whole))
            return
        for place in range(4, len(whole) - 8, 9):
            file = Counting(whole[:place] + b"\xff" * 8 + whole[place + 8 :])
            try:
                symbols_in(file)
            except Unreadable:
                continue
            finally:
                assert file.reads < 25_000


def test_a_list_that_never_ends() -> None:
    """B-60: neither a count of four billion nor a list of tiny steps is followed to its end."""
    data = bytearray(elf_file(versions={"libc.so.6": ["GLIBC_2.17"]}))
    rows = struct.unpack_from("<Q", data, 40)[0]
    (row,) = (
        row
        for row in range(rows, len(data), 64)
        if struct.unpack_from("<I", data, row + 4)[0] == 0x6FFFFFFE
    )
    struct.pack_into("<I", data, row + 44, 0xFFFFFFFF)  # so many libraries
    counted = binary(bytes(data))
    assert counted.faults == ()
    assert [str(version.name) for version in counted.versions] == ["GLIBC_2.17"]
    steps = struct.pack("<HHIII", 1, 1, 0, 16, 0) + struct.pack("<IHHII", 0, 0, 0, 0, 16) * 20_000
    struct.pack_into("<QQ", data, row + 24, len(data), len(steps))
    followed = binary(bytes(data) + steps)
    assert followed.faults == ("it needs more than 10000 symbol versions",)


def test_names_nowhere() -> None:
    """B-60: a table of names that lies further away than a file can be long is a fault."""
    data = bytearray(elf_file(needed=["libc.so.6"]))
    (rows,) = struct.unpack_from("<Q", data, 40)
    (number,) = struct.unpack_from("<H", data, 62)
    struct.pack_into("<Q", data, rows + 64 * number + 24, (1 << 64) - 1)
    found = binary(bytes(data))
    assert len(found.faults) == 1
    assert found.needed == ("libc.so.6",)


def test_window() -> None:
    """B-60: no look is larger than is allowed, and all together are bounded."""
    file: BinaryIO = io.BytesIO(bytes(1 << 16))
    window = Window(file, ReadLimits(reads=10, total=100, read_size=60))
    assert len(window.read(0, 60)) == 60
    with pytest.raises(Unreadable, match="more steps or bytes than for any valid file"):
        window.read(0, 61)
    with pytest.raises(Unreadable, match="past the end of the file"):
        window.read(1 << 16, 1)
    with pytest.raises(Unreadable, match="more steps or bytes than for any valid file"):
        window.read(0, 41)
    reads = Window(file, ReadLimits(reads=3, total=1000, read_size=10))
    for _ in range(3):
        reads.read(0, 1)
    with pytest.raises(Unreadable):
        reads.read(0, 1)


# --- what others read -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a library that a compiler made, or skip."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or shutil.which("readelf") is None:
        pytest.skip("needs a C compiler and readelf")
    folder = tmp_path_factory.mktemp("compiled")
    source = folder / "some.c"
    source.write_text(
        "#include <math.h>\n#include <stdlib.h>\n"
        'double some(double x) { return pow(x, atof(getenv("A"))); }\n'
    )
    library = folder / "libsome.so.2"
    options = ["-shared", "-fPIC", "-Wl,-soname,libsome.so.2", "-Wl,-rpath,$ORIGIN/x"]
    machine = subprocess.run(
        [compiler, "-dumpmachine"], capture_output=True, text=True, check=True
    ).stdout
    if machine.startswith("x86_64"):
        options += ["-Wl,-z,x86-64-v3"]
    subprocess.run([compiler, *options, "-o", library, source, "-lm"], check=True)
    return library


def test_as_readelf_says(compiled: Path) -> None:
    """B-60, P-102: readelf finds the same libraries, versions, names and levels."""
    stdout = subprocess.run(
        ["readelf", "-W", "-d", "-V", "-n", "--dyn-syms", compiled],
        capture_output=True,
        text=True,
        check=True,
        env={"LC_ALL": "C"},
    ).stdout
    with compiled.open("rb") as file:
        binary = read_binary(file, "some")
        symbols = symbols_in(file)
    assert binary is not None
    assert list(binary.needed) == re.findall(r"Shared library: \[(.*)\]", stdout)
    assert [binary.soname] == re.findall(r"Library soname: \[(.*)\]", stdout)
    assert list(binary.rpath) == re.findall(r"Library r\w+path: \[(.*)\]", stdout)
    needs = stdout.partition("Version needs")[2]
    assert {version.name for version in binary.versions} == set(re.findall(r"Name: (\S+)", needs))
    level = re.findall(r"x86 ISA needed: .*?(v\d)$", stdout, re.MULTILINE)
    assert ([binary.levels.needed] if binary.levels.needed else []) == level
    table = re.findall(
        r"^ +\d+: \w+ +\d+ \w+ +(?:GLOBAL|WEAK) +\w+ +(\w+) (\S+)", stdout, re.MULTILINE
    )
    imported = {name.replace("@@", "@") for index, name in table if index == "UND"}
    assert symbols.imported == imported
    assert symbols.exported == {name for index, name in table if index != "UND"}


@pytest.mark.binaries_long
@pytest.mark.parametrize("requirement", ["tensorflow-cpu==2.21.0"])
def test_published_libraries_are_sound(
    requirement: str, environment_with: Callable[..., Path]
) -> None:
    """B-60: libraries of hundreds of megabytes that many people load have no faults."""
    python = environment_with(requirement, "--no-deps")
    libraries = [path for path in (python.parents[1] / "lib").rglob("*.so*") if path.is_file()]
    assert libraries
    for path in libraries:
        with path.open("rb") as file:
            binary = read_binary(file, path.name)
        assert binary is None or binary.faults == (), path.name
