"""Bundles of code for AMD's GPUs."""

from __future__ import annotations

import io
import os
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from wheelfit.testing.binaries import elf_file, offload_bundle
from wheelfit.wheels.binaries.facts import Binaries, Binary
from wheelfit.wheels.binaries.offload import values_of
from wheelfit.wheels.binaries.properties import properties_of
from wheelfit.wheels.binaries.reading import read_binary


def read(section: bytes, member: str = "lib.so") -> Binary:
    """Return what a library with a section is."""
    binary = read_binary(io.BytesIO(elf_file(sections={".hip_fatbin": section})), member)
    assert binary is not None
    return binary


def compressed(bundle: bytes, version: int = 3, method: int = 0) -> bytes:
    """Return a bundle as clang compresses it."""
    data = zlib.compress(bundle)
    sizes = "<QQ" if version == 3 else "<II"
    length = 16 + struct.calcsize(sizes) + len(data)
    head = b"CCOB" + struct.pack("<HH", version, method) + struct.pack(sizes, length, len(bundle))
    return head + bytes(8) + data


@pytest.mark.parametrize(
    ("section", "targets"),
    [
        (offload_bundle("gfx90a", "gfx1100"), ("gfx1100", "gfx90a")),
        (offload_bundle("gfx90a:xnack-") + offload_bundle("gfx942"), ("gfx90a:xnack-", "gfx942")),
        (offload_bundle(), ()),
        (compressed(offload_bundle("gfx942")), ("gfx942",)),
        (compressed(offload_bundle("gfx942"), version=2), ("gfx942",)),
        (
            compressed(offload_bundle("gfx942")).ljust(4096, b"\0") + offload_bundle("gfx950"),
            ("gfx942", "gfx950"),
        ),
        (bytes(100_000), ()),
    ],
)
def test_targets(section: bytes, targets: tuple[str, ...]) -> None:
    """Each unit of compilation has a bundle of its own, and all of them count."""
    binary = read(section)
    assert (binary.targets, binary.faults) == (targets, ())


@pytest.mark.parametrize(
    ("section", "fault"),
    [
        (b"nothing of that kind, and long enough", "no bundle of code begins"),
        (offload_bundle("gfx942")[:5000], "is longer than its section"),
        (offload_bundle("gfx942")[:24] + b"\xff" * 100, "no table that can be read"),
        (compressed(offload_bundle("gfx942"), method=1), "compressed by zstd"),
        (compressed(offload_bundle("gfx942"), version=9), "the unknown version 9"),
        (compressed(offload_bundle("gfx942"))[:8] + bytes(24), "no table that can be read"),
        (compressed(offload_bundle("gfx942"))[:-40], "longer than its section"),
        (compressed(offload_bundle("gfx942"))[:32] + bytes(90), "is damaged"),
    ],
)
def test_what_does_not_fit(section: bytes, fault: str) -> None:
    """What cannot be followed is a fault of the binary, and what came before is kept."""
    (message,) = read(section).faults
    assert fault in message
    both = read(offload_bundle("gfx90a") + section)
    assert (both.targets, len(both.faults)) == (("gfx90a",), 1)


def test_generic_targets() -> None:
    """A target for many GPUs stands for each of them."""
    assert values_of("gfx9-4-generic:xnack+") == ("gfx942", "gfx950")
    assert "gfx1103" in values_of("gfx11-generic")
    assert values_of("GFX 90a") == values_of("") == ()  # no property could have such a value


def test_properties() -> None:
    """What every library with such code has is claimed; libraries without it do not count."""
    first = read(offload_bundle("gfx90a:xnack-", "gfx12-generic"))
    second = read(offload_bundle("gfx90a", "gfx1201"), "other.so")
    found = properties_of(Binaries((first, second, read(b""))))
    assert [str(one) for one in found.properties] == [
        "amd :: gfx_arch :: gfx1201",
        "amd :: gfx_arch :: gfx90a",
    ]
    assert "gfx1200 is left out, because other.so has no code for it" in found.notes


@pytest.mark.integration
def test_the_compiler_itself(tmp_path: Path) -> None:
    """What hipcc is asked for is what is found (Debian: hipcc)."""
    program = shutil.which("hipcc")
    devices = Path("/usr/lib/x86_64-linux-gnu/amdgcn/bitcode")
    if program is None or not devices.exists():
        pytest.skip("needs hipcc of Debian")
    (tmp_path / "some.hip").write_text(
        "#include <hip/hip_runtime.h>\n__global__ void f(int *a) { a[threadIdx.x]++; }\n"
        "void launch(int *a) { f<<<1, 32>>>(a); }\n"
    )
    options = "--offload-arch=gfx90a:xnack+ --offload-arch=gfx1030"
    subprocess.run(
        [
            program,
            f"--rocm-device-lib-path={devices}",
            "-shared",
            "-fPIC",
            "some.hip",
            "-o",
            "some",
        ],
        cwd=tmp_path,
        env={**os.environ, "HIP_PLATFORM": "amd", "HIPCC_COMPILE_FLAGS_APPEND": options},
        check=True,
        capture_output=True,
    )
    with (tmp_path / "some").open("rb") as file:
        binary = read_binary(file, "some")
    assert binary is not None
    assert (binary.targets, binary.faults) == (("gfx1030", "gfx90a:xnack+"), ())
