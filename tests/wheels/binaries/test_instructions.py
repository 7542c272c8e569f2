"""Which instructions a library has."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from wheelfit.testing.binaries import elf_file, pe_file
from wheelfit.wheels.binaries.facts import Binary
from wheelfit.wheels.binaries.instructions import with_instructions
from wheelfit.wheels.binaries.reading import read_binary

SOURCE = """
float dot(const float *a, const float *b, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}
int bits(unsigned long x) { return __builtin_popcountl(x); }
"""


def counted(data: bytes) -> Binary:
    """Return what is known of a file, instructions too."""
    file = io.BytesIO(data)
    binary = read_binary(file, "some")
    assert binary is not None
    return with_instructions(binary, file)


@pytest.mark.parametrize("level", ["v1", "v2", "v3", "v4"])
def test_as_objdump_says(level: str, tmp_path: Path) -> None:
    """P-102: compiled for a level, a library has instructions of it, as many as objdump finds."""
    compiler = shutil.which("gcc")
    if compiler is None or shutil.which("objdump") is None:
        pytest.skip("needs gcc and objdump")
    machine = subprocess.run([compiler, "-dumpmachine"], capture_output=True, check=True).stdout
    if not machine.startswith(b"x86_64"):
        pytest.skip("needs a compiler for x86-64")
    source, library = tmp_path / "some.c", tmp_path / "some.so"
    source.write_text(SOURCE)
    march = "x86-64" if level == "v1" else f"x86-64-{level}"
    options = ["-O3", "-ffast-math", f"-march={march}", "-mprefer-vector-width=512"]
    options += ["-shared", "-fPIC", "-nostartfiles", "-o", str(library)]
    subprocess.run([compiler, *options, str(source)], check=True)
    listed = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", library], capture_output=True, text=True, check=True
    ).stdout
    instructions = dict(counted(library.read_bytes()).levels.instructions or ())
    assert max(instructions) == level
    assert sum(instructions.values()) == len(re.findall(r"^ +[0-9a-f]+:\t", listed, re.MULTILINE))
    assert ("%zmm" in listed) == ("v4" in instructions)


def test_not_known() -> None:
    """P-102: of another machine nothing is counted, and of no code there is none."""
    assert counted(elf_file(machine=183)).levels.instructions is None
    assert counted(elf_file()).levels.instructions == ()
    assert counted(pe_file()).levels.instructions == ()


def test_sections_that_lie() -> None:
    """P-102: a section behind the end of the file is a fault, not an error."""
    data = bytearray(pe_file(sections={".text": b"\x90" * 64}))
    row = data.index(b".text")
    data[row + 36 : row + 40] = (0x20000000).to_bytes(4, "little")
    assert counted(bytes(data)).levels.instructions == (("v1", 64),)
    data[row + 16 : row + 20] = data[row + 8 : row + 12] = (1 << 30).to_bytes(4, "little")
    found = counted(bytes(data))
    assert found.levels.instructions is None
    assert "past the end of the file" in found.faults[-1]
