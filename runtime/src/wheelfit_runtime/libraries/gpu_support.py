"""Warnings about a CUDA version without code for some GPUs, or whose PTX the driver refuses.

They are determined at each start of a program, since GPUs and masks change. So no file is read, and
few modules are imported.
"""

from __future__ import annotations

from wheelfit_runtime.loader.driver import MASK, Driver, hides_all
from wheelfit_runtime.platforms.providers.nvidia.kernel import FIRST_DEVICE, KernelGpu

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wheelfit_runtime.errors import NoCompatibleWheel

_PTX_WRITERS = {"nvrtc": "NVRTC", "nvjitlink": "nvJitLink"}
"""The components that write PTX, with their usual names."""


def gpu_support_warnings(
    version: str,
    components: Sequence[str],
    driver: Driver,
    environ: Mapping[str, str],
    *,
    cap_to_driver: bool,
    is_locked: bool = False,
) -> tuple[str, ...]:
    """Return the warnings about a CUDA version.

    :param version: the requested version, such as ``12`` or ``12.8``; others have no warnings.
    :param environ: environment variables; a mask may hide GPUs.
    :param cap_to_driver: whether to warn of PTX that the driver refuses.
    :param is_locked: whether the version comes from a lock.
    :raises NoCompatibleWheel: the version has no code for any GPU of this machine (P-95).
    """
    numbers = version.split(".")
    if driver.cuda is None or not all(part.isascii() and part.isdigit() for part in numbers):
        return ()
    major = int(numbers[0])
    warnings = []
    if old_gpus := _gpus_without_code(driver.gpus, major):
        mask = environ.get(MASK)
        if len(old_gpus) == len(driver.gpus):
            if mask is None or not hides_all(mask):
                raise _no_code_error(major, old_gpus)
        elif mask is None:  # a user with a mask has chosen the GPUs
            warnings.append(
                f"CUDA {major} has no code for {_names(old_gpus)} (compute capability below "
                f"{_min_capability(major)}), which this machine has beside others; hide it with "
                f"{MASK}, or ask for CUDA {_newest_for(old_gpus, major)}"
            )
    writers = [_PTX_WRITERS[name] for name in components if name in _PTX_WRITERS]
    if (
        cap_to_driver
        and writers
        and len(numbers) > 1
        and _is_newer_ptx(major, int(numbers[1]), driver.cuda)
    ):
        advice = f"take a lock of CUDA {driver.version}" if is_locked else f"ask for CUDA {major}"
        warnings.append(
            f"the driver supports CUDA {driver.version}, and refuses PTX that "
            f"{' or '.join(writers)} of CUDA {version} writes (error 222); compile for the GPU "
            f"itself (-arch=sm_XX), or {advice}"
        )
    return tuple(warnings)


def _gpus_without_code(gpus: Sequence[KernelGpu], major: int) -> list[KernelGpu]:
    """Return the GPUs for which a CUDA major has no code, without unknown ones."""
    first = FIRST_DEVICE.get(major, 0)
    return [gpu for gpu in gpus if gpu.device is not None and gpu.device < first]


def _newest_for(gpus: Sequence[KernelGpu], major: int) -> int:
    """Return the newest older CUDA major that has code for some GPUs."""
    major -= 1
    while _gpus_without_code(gpus, major):
        major -= 1
    return major


def _no_code_error(major: int, old: Sequence[KernelGpu]) -> NoCompatibleWheel:
    from wheelfit_runtime.errors import NoCompatibleWheel

    return NoCompatibleWheel(
        f"CUDA {major} has no code for the GPUs of this machine: {_names(old)}",
        note=f"it needs compute capability {_min_capability(major)} or newer, with any driver",
        hint=f"ask for CUDA {_newest_for(old, major)}",
    )


def _names(gpus: Sequence[KernelGpu]) -> str:
    return ", ".join(dict.fromkeys(map(str, gpus)))


def _min_capability(major: int) -> str:
    from wheelfit_runtime.platforms.providers.nvidia.tables import CUDA_CODE_FLOOR

    return str(CUDA_CODE_FLOOR[major])


def _is_newer_ptx(major: int, minor: int, driver_cuda: tuple[int, int]) -> bool:
    """Return whether a toolkit writes PTX that a driver of the same major refuses (P-91)."""
    if major != driver_cuda[0] or minor <= driver_cuda[1]:
        return False
    from wheelfit_runtime.platforms.providers.nvidia.facts import Capability
    from wheelfit_runtime.platforms.providers.nvidia.tables import PTX_OF_TOOLKIT

    # Some minor versions have no new PTX; that of unknown versions counts as new.
    ptx = PTX_OF_TOOLKIT.get(Capability(major, minor))
    return ptx is None or ptx != PTX_OF_TOOLKIT.get(Capability(*driver_cuda))
