"""GPUs that can run a wheel only by its PTX, and drivers that cannot compile it (P-91, P-93).

A driver compiles PTX up to its own CUDA version. Machine code needs no compiler, so PTX matters
only for GPUs without it. A GPU that is newer than the PTX has a driver that is newer too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.wheels.binaries.facts import Binaries, CodeKind, DeviceCode
from wheelfit.wheels.binaries.gpus import accepting_gpus, cuda_of_ptx, runs_on
from wheelfit_runtime.platforms.providers.nvidia import tables

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wheelfit_runtime.platforms.providers.nvidia.facts import Capability


def has_boards(binaries: Binaries) -> bool:
    """Return whether binaries can run on Jetson and DRIVE boards, whose processors are Arm."""
    machines = {machine for binary in binaries for machine in binary.machines}
    return not machines or "aarch64" in machines


def refused_ptx(
    value: str, code: Iterable[DeviceCode], bound: Capability | None, *, boards: bool = True
) -> dict[Capability, DeviceCode]:
    """Return the GPUs that accept a wheel for a value of PTX, whose driver may be too old for it.

    >>> from wheelfit_runtime.platforms.providers.nvidia.facts import Capability
    >>> from wheelfit.wheels.binaries.facts import CodeKind, DeviceCode
    >>> code = [DeviceCode(CodeKind.MACHINE, 80), DeviceCode(CodeKind.PTX, 80, version=(8, 4))]
    >>> sorted(map(str, refused_ptx("80_virtual", code, Capability(12, 0), boards=False)))
    ['9.0']

    There is no machine code for 10.0 either, but all of its drivers are newer than CUDA 12.4.

    :param value: a value of ``sm_arch``; for machine code nothing is returned.
    :param bound: the oldest CUDA version of drivers that accept the wheel; None: any.
    :param boards: whether GPUs of Jetson and DRIVE boards are included.
    :return: by GPU, the newest PTX for it.
    """
    images = list(code)
    refused: dict[Capability, DeviceCode] = {}
    for capability in _gpus_accepting_ptx(value):
        usable = [image for image in images if runs_on(image, capability)]
        if capability in tables.TEGRA and not boards:
            continue
        if any(image.kind is CodeKind.MACHINE for image in usable):
            continue
        ptx_images = [image for image in usable if image.version is not None]
        if not ptx_images:
            continue
        newest = max(ptx_images, key=lambda image: image.version or (0, 0))
        needed = cuda_of_ptx(newest.version or (0, 0))
        oldest = max(
            tables.FIRST_CUDA.get(capability, tables.FIRST_CUDA_OF_OTHERS), bound or (0, 0)
        )
        if needed is None or oldest < needed:
            refused[capability] = newest
    return refused


def _gpus_accepting_ptx(value: str) -> list[Capability]:
    """Return the known GPUs that accept a wheel for a value of PTX, the oldest first."""
    accepted = accepting_gpus(value)
    if accepted is None or accepted[1] is not CodeKind.PTX:
        return []
    oldest = min(accepted[0])
    if not value.removesuffix("_virtual").isdigit():  # for one GPU only
        return [oldest]
    return sorted(capability for capability in tables.CAPABILITIES if capability >= oldest)
