"""Pythons that run under QEMU, and the processors that it has for them."""

from __future__ import annotations

import os
import platform
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from wheelfit.core.labels import parse_label
from wheelfit.core.metadata import read_document
from wheelfit.operations.emulation import (
    EMULATORS,
    EmulatedPython,
    Emulator,
    emulate,
    emulated_python,
    native_emulator,
)
from wheelfit_runtime.errors import FileProblem

X86_64, AARCH64 = EMULATORS
DOCUMENT = {
    "default-priorities": {"namespace": ["x86_64", "aarch64"]},
    "providers": {"x86_64": {"requires": ["x"]}, "aarch64": {"requires": ["y"]}},
    "variants": {
        "null": {},
        "v3": {"x86_64": {"level": ["v3"]}},
        "avx": {"x86_64": {"level": ["v3"], "avx2": ["on"]}},
        "arm": {"aarch64": {"version": ["8.2a"]}},
        "later": {"x86_64": {"level": ["v9"]}},
    },
}


@pytest.mark.parametrize(
    ("emulator", "label", "level"),
    [
        (X86_64, None, "v1"),
        (X86_64, "null", "v1"),
        (X86_64, "v3", "v3"),
        (X86_64, "avx", None),
        (X86_64, "arm", None),
        (X86_64, "later", None),
        (AARCH64, None, "8a"),
        (AARCH64, "arm", "8.2a"),
    ],
)
def test_levels(emulator: Emulator, label: str | None, level: str | None) -> None:
    """What a wheel needs is one level, the lowest if it needs nothing, or cannot be emulated."""
    document = read_document(DOCUMENT, where="demo.whl")
    named = None if label is None else parse_label(label)
    assert emulator.level_of(document, named) == level


@pytest.mark.parametrize("emulator", EMULATORS, ids=lambda one: one.architecture)
def test_levels_are_those_of_the_provider(emulator: Emulator) -> None:
    """The levels are those that the provider knows, and each processor has one of them."""
    from wheelfit_runtime.platforms.providers.aarch64 import tables as aarch64
    from wheelfit_runtime.platforms.providers.x86_64 import tables as x86_64

    known = {
        "x86_64": tuple(name for name, _ in x86_64.LEVELS),
        "aarch64": tuple(reversed(aarch64.VERSIONS)),
    }
    assert sorted(emulator.levels) == sorted(known[emulator.architecture])
    assert set(emulator.processors) < set(emulator.levels)
    names = emulator.levels[: emulator.levels.index("v3" if emulator is X86_64 else "8.2a") + 1]
    (described,) = emulator.override(names[-1]).values()
    assert described.split(",") == list(reversed(names))


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("other", b"\x7fELF\x02\x01".ljust(18, b"\0") + struct.pack("<H", 243)),
        ("32-bit", b"\x7fELF\x01\x01".ljust(18, b"\0") + struct.pack("<H", 40)),
        ("script", b"#!/bin/sh\n" * 4),
        ("short", b"\x7fELF"),
    ],
)
def test_what_is_no_emulated_python(tmp_path: Path, name: str, head: bytes) -> None:
    """Scripts, and programs for machines that are not emulated, are left to others."""
    path = tmp_path / name
    path.write_bytes(head)
    assert emulated_python(str(path)) is None
    assert emulated_python(sys.executable) is None
    assert emulated_python("3.12") is None
    assert emulated_python(None) is None


@pytest.mark.skipif(native_emulator() is None, reason="needs a machine that QEMU emulates")
def test_python_of_another_architecture(tmp_path: Path) -> None:
    """It is known by its header, its system by the loader, and QEMU is asked for if it lacks."""
    number = {"x86_64": 183, "aarch64": 62}[platform.machine()]
    path = tmp_path / "system/usr/bin/python3"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\x7fELF\x02\x01".ljust(18, b"\0") + struct.pack("<H", number))
    python = emulated_python(str(path))
    assert python is not None
    assert python.emulator.architecture != platform.machine()
    assert python.root is None
    (tmp_path / "system/lib").mkdir()
    loader = python.emulator.architecture.replace("_", "-")
    (tmp_path / f"system/lib/ld-linux-{loader}.so.1").touch()
    assert python.root == tmp_path / "system"
    with pytest.raises(FileProblem, match="not on PATH"):
        python.create_environment(tmp_path / "env", {"PATH": str(tmp_path)})


ASK = """
import subprocess, sys
from pathlib import Path
words = [sys.executable, "-c", "print(flush=True); input()"]
with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
    child.stdout.readline()  # now it is not the shell any more
    print(sys.prefix, *Path(f"/proc/{child.pid}/cmdline").read_text().split(chr(0)))
    child.communicate(b"end")
"""


@pytest.mark.integration
@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or not X86_64.find(os.environ),
    reason="needs Linux on x86-64, and qemu-x86_64-static on PATH",
)
def test_environment_under_qemu(tmp_path: Path) -> None:
    """The Python of the environment runs under QEMU, and so does what it starts of its kind."""
    real = Path(os.path.realpath(sys.executable))
    qemu = X86_64.find(os.environ)
    assert qemu is not None
    python = EmulatedPython(real, X86_64).create_environment(tmp_path / "env", os.environ)
    native = tmp_path / "native"
    subprocess.run([real, "-m", "venv", "--without-pip", native], check=True)
    emulate(native / "bin/python", (qemu, "-cpu", "Nehalem"))
    for started, processor in ((python, "qemu64"), (native / "bin/python3", "Nehalem")):
        completed = subprocess.run([started, "-c", ASK], capture_output=True, text=True, check=True)
        prefix, *child = completed.stdout.split()
        assert prefix == str(started.parent.parent)
        assert child[:3] == [qemu, "-cpu", processor]
