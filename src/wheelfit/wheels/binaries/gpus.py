"""The GPUs that run some code, or accept a wheel for a value of ``sm_arch`` (P-83, P-90)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from wheelfit.wheels.binaries.facts import CodeKind, DeviceCode
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.platforms.providers.nvidia import tables
from wheelfit_runtime.platforms.providers.nvidia.cuda_values import (
    appended_sm_values,
    reference_sm_values,
)
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability

if TYPE_CHECKING:
    from collections.abc import Iterable


_VALUE = pattern(r"(\d{2,3})([af]?)_(real|virtual)")
_RUNTIME = pattern(
    r"lib(?:cudart|nvrtc|cublas|cublasLt|nvJitLink)\.so\.(\d{2})(?:\.\d+)*"
    r"|(?:cudart|nvrtc|cublas|cublasLt|nvJitLink)(?:32|64)_(\d{2})\d?(?:_\d+)?\.dll"
)


@lru_cache(maxsize=256)
def _supported(capability: Capability) -> frozenset[str]:
    return frozenset((*reference_sm_values(capability), *appended_sm_values(capability)))


def runs_on(code: DeviceCode, capability: Capability) -> bool:
    """Return whether a GPU can run some code, with a driver that is new enough (P-90, P-91).

    Code that does not state ``a`` or ``f`` is assumed to run.
    """
    # GPUs of boards (Tegra) and other ones do not run each other's machine code.
    is_for_board, is_board = code.capability in tables.TEGRA, capability in tables.TEGRA
    if code.kind is CodeKind.MACHINE and is_for_board != is_board:
        return False
    return not _supported(capability).isdisjoint(code.values)


def accepting_gpus(value: str) -> tuple[frozenset[Capability], CodeKind] | None:
    """Return the GPUs that accept a wheel for a value, and the kind of code they expect.

    For PTX only the oldest GPU is returned; any newer one runs the same.

    >>> accepting_gpus("120f_real")[0] == {Capability(12, 0), Capability(12, 1)}
    True

    :return: None for an unknown value.
    """
    match = _VALUE.fullmatch(value)
    if match is None:
        return None
    number, suffix = int(match[1]), match[2]
    named = Capability(number // 10, number % 10)
    if match[3] == "virtual":
        return frozenset([named]), CodeKind.PTX
    if suffix == "a":
        return frozenset([named]), CodeKind.MACHINE
    if suffix == "f":
        return tables.SM_FAMILIES.get(named, frozenset([named])), CodeKind.MACHINE
    newer_gpus = {
        capability
        for capability in tables.CAPABILITIES
        if capability.major == named.major
        and capability.minor > named.minor
        and (capability in tables.TEGRA) == (named in tables.TEGRA)
    }
    return frozenset({named, *newer_gpus}), CodeKind.MACHINE


def gpus_without_code(value: str, code: Iterable[DeviceCode]) -> tuple[Capability, ...] | None:
    """Return the GPUs that accept a wheel for a value without finding such code in it.

    :return: the oldest first; None for an unknown value.
    """
    accepted = accepting_gpus(value)
    if accepted is None:
        return None
    capabilities, kind = accepted
    images = [image for image in code if image.kind is kind]
    return tuple(
        capability
        for capability in sorted(capabilities)
        if not any(runs_on(image, capability) for image in images)
    )


def has_code_for_value(value: str, code: Iterable[DeviceCode]) -> bool:
    """Return whether every GPU that accepts a wheel for a value finds such code in it.

    :return: False for an unknown value.
    """
    return gpus_without_code(value, code) == ()


def cuda_of_ptx(version: tuple[int, int]) -> Capability | None:
    """Return the first CUDA version whose drivers compile a PTX version; None: unknown (P-91)."""
    toolkits = [cuda for cuda, ptx in tables.PTX_OF_TOOLKIT.items() if tuple(ptx) >= version]
    return min(toolkits, default=None)


def cuda_majors(needed: Iterable[str]) -> frozenset[int]:
    """Return the CUDA majors that libraries belong to (P-92).

    >>> sorted(cuda_majors(["libcudart.so.12", "libcufft.so.11", "cudart64_110.dll"]))
    [11, 12]

    :param needed: names of libraries; those whose number is not the CUDA major are ignored.
    """
    matches = (_RUNTIME.fullmatch(name) for name in needed)
    return frozenset(int(match[1] or match[2]) for match in matches if match is not None)
