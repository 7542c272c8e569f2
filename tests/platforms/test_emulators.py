"""P-105: under emulation by QEMU's user mode, this very interpreter finds out what it runs on."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from platforms.detecting import detection_of
from programs import run_program

import wheelfit_runtime
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.system_view import SystemView

LEVELS = ("v1", "v2", "v3", "v4")

ASK = f"""
import sys
sys.path.insert(0, {str(Path(wheelfit_runtime.__file__).parents[1])!r})
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.system_view import SystemView
detection = Machine(SystemView(environ={{}})).detect("x86_64")
print(detection.features[0].values[0], *detection.warnings)
"""


@pytest.fixture(scope="module")
def emulator() -> str:
    """Return QEMU's program for x86-64, or skip; 7.2 is the first that has AVX."""
    program = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")
    if program is None or sys.platform != "linux":
        pytest.skip("needs qemu-x86_64 (Debian: qemu-user)")
    if not detection_of("x86_64", Machine(SystemView(environ={}))).features:
        pytest.skip("needs an x86-64 interpreter to emulate")
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    version = re.search(r"version (\d+)\.(\d+)", told.stdout)
    if version is None or (int(version[1]), int(version[2])) < (7, 2):
        pytest.skip("needs QEMU 7.2")
    return program


@pytest.mark.integration
@pytest.mark.parametrize(
    ("model", "level"),
    [("qemu64", "v1"), ("core2duo", "v1"), ("Nehalem", "v2"), ("Haswell", "v3")],
)
def test_the_emulated_processor_counts(emulator: str, model: str, level: str) -> None:
    """P-104, P-105: the file shows the host, the instruction tells of the emulated processor."""
    host = detection_of("x86_64", Machine(SystemView(environ={})))
    words = (emulator, "-cpu", model, sys.executable, "-I", "-c", ASK)
    completed = run_program(*words, timeout=120)
    found, _, warnings = completed.stdout.strip().partition(" ")
    assert found == min(level, host.features[0].values[0], key=LEVELS.index)
    if found != host.features[0].values[0]:
        assert "the processor denies it" in warnings
