"""SONAMEs of shared objects."""

from __future__ import annotations

import io
import shutil
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import run_program

from wheelfit.testing.drivers import find_compiler
from wheelfit.testing.libraries import compile_library
from wheelfit_runtime.platforms.elf import SharedObject, read_shared_object


def elf(*, wide: bool, order: str, soname: bytes = b"libx.so.1") -> bytes:
    """Return a tiny shared object: header, two program headers, dynamic section, names."""
    strings = b"\0" + soname + b"\0"
    head, row, entry = (64, 56, 16) if wide else (52, 32, 8)
    dynamic_at = head + 2 * row
    strings_at = dynamic_at + 4 * entry
    base = 0x1000

    def program_header(kind: int, offset: int, length: int) -> bytes:
        if wide:
            return struct.pack(
                f"{order}IIQQQQQQ", kind, 5, offset, base + offset, 0, length, length, 8
            )
        return struct.pack(f"{order}8I", kind, offset, base + offset, 0, length, length, 5, 4)

    total = strings_at + len(strings)
    number = "Q" if wide else "I"
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1 if order == "<" else 2, 1]) + bytes(9)
    header = ident + struct.pack(
        f"{order}HHI3{number}IHHHHHH", 3, 62, 1, 0, head, 0, 0, head, row, 2, 0, 0, 0
    )
    rows = program_header(1, 0, total) + program_header(2, dynamic_at, 4 * entry)
    pair = f"{order}{'qQ' if wide else 'iI'}"
    dynamic = b"".join(
        struct.pack(pair, tag, value)
        for tag, value in ((14, 1), (5, base + strings_at), (10, len(strings)), (0, 0))
    )
    return header + rows + dynamic + strings + bytes(64)


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_kind(*, wide: bool, order: str) -> None:
    """32 and 64 bits, little and big end first."""
    assert read_shared_object(io.BytesIO(elf(wide=wide, order=order))).soname == "libx.so.1"


needs_linker = pytest.mark.skipif(
    sys.platform != "linux" or find_compiler() is None, reason="needs Linux and a C compiler"
)


@needs_linker
@pytest.mark.parametrize("soname", ["libcudart.so.12", "libnccl.so.2"])
def test_compiled(soname: str, tmp_path: Path) -> None:
    """A real library says what the linker was told, as ``readelf`` says too."""
    path = tmp_path / "any.so"
    path.write_bytes(compile_library(soname, ""))
    with path.open("rb") as stream:
        assert read_shared_object(stream).soname == soname
    if shutil.which("readelf"):
        assert f"[{soname}]" in run_program("readelf", "-d", path).stdout


@needs_linker
def test_names() -> None:
    """A real library says what it needs, in order, and what its linker called the build."""
    needed = ("libtwo.so.2", "libone.so.1")
    options = ["-nostdlib", "-Wl,--build-id=0x00aaff"]
    library = compile_library("liball.so", "", needed=needed, options=options)
    found = read_shared_object(io.BytesIO(library))
    assert found == SharedObject("liball.so", needed, "00aaff")


def test_without() -> None:
    """What has none, or is not an ELF file, has none; a cut file is no exception."""
    whole = elf(wide=True, order="<")
    assert read_shared_object(io.BytesIO(b"")).soname is None
    assert read_shared_object(io.BytesIO(b"\x7fELF")).soname is None
    assert read_shared_object(io.BytesIO(b"MZ" + bytes(100))).soname is None
    for length in range(0, len(whole) - 70, 7):
        assert read_shared_object(io.BytesIO(whole[:length])).soname is None


@given(st.binary(max_size=200), st.integers(0, 200))
def test_garbage(noise: bytes, place: int) -> None:
    """Whatever stands in a file, there is an answer."""
    whole = bytearray(elf(wide=True, order="<"))
    whole[16 + place : 16 + place + len(noise)] = noise
    assert isinstance(read_shared_object(io.BytesIO(bytes(whole))).soname, str | None)
