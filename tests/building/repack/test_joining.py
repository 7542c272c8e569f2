"""The Pythons and platforms that wheels of joined projects are for."""

from __future__ import annotations

import pytest

from wheelfit.building.repack.joining import JoinableWheel
from wheelfit.core.filename import parse_wheel_filename

PYTHONS = ("cp314", "cp314t", "cp315", "cp315t", "cp316", "cp316t")


@pytest.mark.parametrize(
    ("tags", "pythons"),
    [
        ("cp315-cp315", ["cp315"]),
        ("cp315-cp315t", ["cp315t"]),
        ("cp315-abi3", ["cp315", "cp316"]),
        ("cp315-abi3t", ["cp315t", "cp316t"]),
        ("cp315-abi3.abi3t", ["cp315", "cp315t", "cp316", "cp316t"]),
        ("cp315-none", ["cp315", "cp315t", "cp316", "cp316t"]),
        ("py3-none", list(PYTHONS)),
    ],
)
def test_targets(tags: str, pythons: list[str]) -> None:
    """PEP 803: each stable ABI is for later Pythons of its kind, with or without the GIL."""
    wheel = JoinableWheel(parse_wheel_filename(f"fast-1.0-{tags}-manylinux_2_28_x86_64.whl"))
    expected = {(python, "linux_x86_64") for python in pythons}
    assert set(wheel.targets(PYTHONS)) == expected
