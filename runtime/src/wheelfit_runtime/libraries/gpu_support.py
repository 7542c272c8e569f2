"""Reasons against a version of NVIDIA's libraries on this machine that its driver supports.

Evaluated at each start, for GPUs and masks change; so it reads no file and compares a few numbers.
"""

# A later start of a program comes here: nothing is imported that it could do without.
from __future__ import annotations

from wheelfit_runtime.loader.driver import MASK, hides_all
from wheelfit_runtime.platforms.providers.nvidia.kernel import FIRST_DEVICE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wheelfit_runtime.errors import NoCompatibleWheel
    from wheelfit_runtime.loader.driver import Driver
    from wheelfit_runtime.platforms.providers.nvidia.kernel import KernelGpu

_WRITE_PTX = {"nvrtc": "NVRTC", "nvjitlink": "nvJitLink"}


def gpu_support_warnings(
    version: str,
    components: Sequence[str],
    driver: Driver,
    environ: Mapping[str, str],
    *,
    cap: bool,
    locked: bool = False,
) -> tuple[str, ...]:
    """Return the warnings.

    :param version: the requested version, as ``12`` or ``12.8``; any other form has no warnings
        yet.
    :param environ: environment variables; a mask may hide GPUs.
    :raises NoCompatibleWheel: no GPU here can run any of it (P-95).
    """
    numbers = version.split(".")
    if driver.cuda is None or not all(part.isascii() and part.isdigit() for part in numbers):
        return ()
    major = int(numbers[0])
    warnings = []
    if old := _too_old(driver.gpus, major):
        mask = environ.get(MASK)
        if len(old) == len(driver.gpus):
            if mask is None or not hides_all(mask):
                raise _no_code(major, old)
        elif mask is None:  # the GPUs left by a mask are its author's choice
            warnings.append(
                f"CUDA {major} has no code for {_names(old)} (compute capability below "
                f"{_floor(major)}), which this machine has beside others; hide it with {MASK}, "
                f"or ask for CUDA {_lower(major, old)}"
            )
    writers = [_WRITE_PTX[name] for name in components if name in _WRITE_PTX]
    if cap and writers and len(numbers) > 1 and _is_newer_ptx(major, int(numbers[1]), driver.cuda):
        instead = f"take a lock of CUDA {driver.version}" if locked else f"ask for CUDA {major}"
        warnings.append(
            f"the driver offers CUDA {driver.version}, and refuses PTX that {' or '.join(writers)} "
            f"of CUDA {version} writes (error 222); compile for the GPU itself (-arch=sm_XX), or "
            f"{instead}"
        )
    return tuple(warnings)


def _too_old(gpus: Sequence[KernelGpu], major: int) -> list[KernelGpu]:
    """Return the GPUs that a CUDA major has no code for, as far as anything is known of them."""
    first = FIRST_DEVICE.get(major, 0)
    return [gpu for gpu in gpus if gpu.device is not None and gpu.device < first]


def _lower(major: int, gpus: Sequence[KernelGpu]) -> int:
    """Return the newest earlier major that has code for some GPUs."""
    major -= 1
    while _too_old(gpus, major):
        major -= 1
    return major


def _no_code(major: int, old: Sequence[KernelGpu]) -> NoCompatibleWheel:
    from wheelfit_runtime.errors import NoCompatibleWheel

    return NoCompatibleWheel(
        f"CUDA {major} has no code for the GPUs of this machine: {_names(old)}",
        note=f"it is for compute capability {_floor(major)} and newer, whatever the driver offers",
        hint=f"ask for CUDA {_lower(major, old)}",
    )


def _names(gpus: Sequence[KernelGpu]) -> str:
    return ", ".join(dict.fromkeys(map(str, gpus)))


def _floor(major: int) -> str:
    from wheelfit_runtime.platforms.providers.nvidia.tables import CUDA_CODE_FLOOR

    return str(CUDA_CODE_FLOOR[major])


def _is_newer_ptx(major: int, minor: int, offered: tuple[int, int]) -> bool:
    """Return whether a toolkit writes PTX that a driver of its major does not know yet (P-91)."""
    if major != offered[0] or minor <= offered[1]:
        return False
    from wheelfit_runtime.platforms.providers.nvidia.facts import Capability
    from wheelfit_runtime.platforms.providers.nvidia.tables import PTX_OF_TOOLKIT

    # Some minor versions came without a new PTX; what is not known is taken for new.
    written = PTX_OF_TOOLKIT.get(Capability(major, minor))
    return written is None or written != PTX_OF_TOOLKIT.get(Capability(*offered))
