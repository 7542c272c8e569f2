"""Which properties binaries show, and which GPUs depend on PTX."""

from __future__ import annotations

import io

import pytest

from wheelfit.testing.binaries import elf_file, fat_binary
from wheelfit.wheels.binaries.facts import Binaries
from wheelfit.wheels.binaries.properties import ImpliedProperties, properties_of
from wheelfit.wheels.binaries.ptx import refused_ptx
from wheelfit.wheels.binaries.reading import read_binary
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability

CUPY_13 = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100f", "sm_120f", "compute_120 9.2"]
"""What cupy-cuda13x 14.2.0 has, which nvcc of CUDA 13.2 compiled."""
CUPY_12 = ["sm_50", "sm_60", "sm_70", *CUPY_13[:-1], "compute_100 8.8"]


def binaries(*libraries: bytes) -> Binaries:
    """Return what is known of libraries."""
    found = [read_binary(io.BytesIO(one), f"lib{n}.so") for n, one in enumerate(libraries)]
    return Binaries(tuple(one for one in found if one is not None))


def library(*images: str, runtime: int | None = None, machine: int = 62) -> bytes:
    """Return a library that has code for GPUs."""
    needed = [] if runtime is None else [f"libcudart.so.{runtime}"]
    return elf_file(machine=machine, needed=needed, sections={".nv_fatbin": fat_binary(*images)})


def bound_and_values(found: ImpliedProperties) -> tuple[str | None, set[str]]:
    """Return the lower bound of the driver and the values of ``sm_arch``."""
    bounds = [one.value for one in found.properties if one.feature == "cuda_version_lower_bound"]
    values = {one.value for one in found.properties if one.feature == "sm_arch"}
    return bounds[0] if bounds else None, values


@pytest.mark.parametrize(
    ("images", "runtime", "bound", "virtual"),
    [
        (CUPY_13, 13, "13.0", {"120_virtual"}),
        (CUPY_13, None, "13.0", {"120_virtual"}),  # the PTX tells of a static runtime
        (CUPY_12, 12, "12.0", {"100_virtual"}),
        # An old toolkit: all newer GPUs have drivers that understand its PTX.
        (["sm_80", "sm_86", "sm_89", "sm_90", "compute_90 8.4"], 12, "12.0", {"90_virtual"}),
        # There is nothing else for 9.0, and a driver for 12.0 would take the wheel for it.
        (["sm_80", "compute_90 8.4"], 12, "12.0", set()),
        (["sm_80", "compute_90 8.0"], 12, "12.0", {"90_virtual"}),
        (["sm_80", "compute_80 8.4"], 12, "12.0", set()),
        (["sm_80", "sm_90a", "compute_90a 8.7"], 12, "12.0", {"90a_virtual"}),
        # Of machine code there is none, so nobody is excluded in vain.
        (["compute_80 8.4"], 12, "12.4", {"80_virtual"}),
        (["compute_80 9.2"], None, "13.2", {"80_virtual"}),
        (["sm_80"], None, None, set()),
    ],
)
def test_lower_bound(
    images: list[str], runtime: int | None, bound: str | None, virtual: set[str]
) -> None:
    """P-92, P-93: the toolkit's major is the bound, PTX never lifts it above machine code."""
    found = properties_of(binaries(library(*images, runtime=runtime)))
    shown, values = bound_and_values(found)
    assert shown == bound
    assert {one for one in values if one.endswith("_virtual")} == virtual


def test_what_is_left_out_is_told() -> None:
    """P-91: the note names the GPUs and the bound; who claims that bound has the value."""
    fast = binaries(library("sm_80", "compute_90 8.7", runtime=12))
    found = properties_of(fast)
    (note,) = [note for note in found.notes if note.startswith("90_virtual")]
    assert "9.0 would run compute_90 (PTX 8.7) of lib0.so" in note
    assert "cuda_version_lower_bound :: 12.8" in note
    claimed = properties_of(fast, bound=Capability(12, 8))
    assert bound_and_values(claimed) == ("12.8", {"80_real", "90_virtual"})
    assert not [note for note in claimed.notes if "left out" in note]


def test_ptx_of_an_unknown_version() -> None:
    """P-91: PTX that is newer than all known toolkits serves no GPU that is known."""
    newest = binaries(library("sm_80", "compute_80 99.0", runtime=13))
    assert bound_and_values(properties_of(newest)) == ("13.0", {"80_real"})


def test_ptx_of_families() -> None:
    """P-83: no value stands for PTX of a family, and nothing is said of one that is lacking."""
    found = properties_of(binaries(library("sm_120f", "compute_120f 9.2", runtime=13)))
    assert bound_and_values(found) == ("13.0", {"120_real", "120f_real"})
    assert not [note for note in found.notes if "left out" in note]


def test_several_libraries() -> None:
    """B-60: what one of several libraries has nothing else for decides."""
    whole = library("sm_80", "sm_90", "compute_90 8.7", runtime=12)
    part = library("sm_80", "compute_90 8.7", runtime=12)
    assert "90_virtual" in bound_and_values(properties_of(binaries(whole)))[1]
    assert bound_and_values(properties_of(binaries(whole, part))) == ("12.0", {"80_real"})


def test_boards() -> None:
    """P-90: GPUs of boards count in libraries for ARM, as machine code is not exchanged."""
    images = ["sm_80", "sm_90", "compute_80 8.0"]
    (intel,) = binaries(library(*images))
    assert refused_ptx("80_virtual", intel.code, Capability(11, 0)).keys() == {Capability(8, 7)}
    newer = [*images[:2], "compute_80 8.7"]
    values = [
        bound_and_values(properties_of(binaries(library(*newer, runtime=12, machine=machine))))[1]
        for machine in (62, 183)
    ]
    assert ["80_virtual" in one for one in values] == [True, False]
