"""The newest torch that works, by compute capability and driver: what has code in each build."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cli.running import Runner
from world.internet import Answer

pytestmark = pytest.mark.integration

OLD, CU118 = "torch 2.14.1+cu126 cu126", "torch 2.7.1+cu118 cu118"
NEW, CU128 = "torch 2.15.0+cu132 cu132", "torch 2.11.0+cu128 cu128"
NEWEST = {
    # compute capability: with drivers from 450 on, from 525 on, from 580 on
    "50": (CU118, OLD, OLD),
    "52": (CU118, OLD, OLD),
    "60": (CU118, OLD, OLD),
    "61": (CU118, OLD, OLD),
    "70": (CU118, OLD, OLD),
    "75": (CU118, OLD, NEW),
    "80": (CU118, OLD, NEW),
    "86": (CU118, OLD, NEW),
    "89": (CU118, OLD, NEW),
    "90": (CU118, OLD, NEW),
    "100": (None, CU128, NEW),
    "103": (None, CU128, NEW),
    "120": (None, CU128, NEW),
}
DRIVERS = {
    "450": ("11.0", "11.8"),
    "525": ("12.0", "12.9"),
    "580": ("13.0", "13.2"),
}
"""Versions of CUDA that drivers of a branch and of later ones know, up to the next branch."""
LAST = dict.fromkeys(("50", "52", "60", "61", "70"), "13.0")
"""The last of them with the GPU."""
FIRST = {"86": "11.1", "89": "11.8", "90": "11.8", "100": "12.8", "103": "12.9", "120": "12.8"}
"""The first of them with the GPU; all others are older than these drivers."""


def _key(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


CELLS = [
    (f"cuda-{cuda}-sm{capability}", expected)
    for capability, row in NEWEST.items()
    for expected, versions in zip(row, DRIVERS.values(), strict=True)
    for cuda in versions
    if expected is not None
    and _key(FIRST.get(capability, "11.0")) <= _key(cuda) <= _key(LAST.get(capability, "13.2"))
]


@pytest.mark.parametrize("platform", ["linux-x86_64", "windows-x86_64"])
@pytest.mark.parametrize(("machine", "expected"), CELLS)
def test_newest_that_works(
    choose: Callable[..., Answer], machine: str, platform: str, expected: str
) -> None:
    """Version and build fit both the driver and the GPU."""
    assert expected in choose(f"{machine}+{platform}", "torch").installed


@pytest.mark.parametrize("cuda", ["11.0", "11.4"])
def test_a_k80(choose: Callable[..., Answer], run: Runner, tmp_path: Path, cuda: str) -> None:
    """Of what no preset has there is a host file; 470 is the last driver of a K80."""
    file = tmp_path / "k80.toml"
    run("host", "new", "-o", file, f"cuda-{cuda}-sm50")
    text = file.read_text("utf-8")
    file.write_text(text.replace('"50_real", "50_virtual"', '"37_real", "37_virtual"'), "utf-8")
    assert choose(str(file), "torch").installed == [CU118]
