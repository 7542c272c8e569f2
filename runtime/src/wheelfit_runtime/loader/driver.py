"""The NVIDIA driver this process would use, detected without initialising it.

``cuDriverGetVersion`` needs no ``cuInit``, so the call is safe before a fork. No device is touched.
"""

# Imported at every start of a program with shared libraries, so it imports as little as possible.
# ruff: noqa: PTH110, PTH118, PTH123, PTH208
from __future__ import annotations

import os

from wheelfit_runtime.platforms.providers.nvidia import kernel as nvidia_kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from wheelfit_runtime.platforms.providers.nvidia.kernel import KernelGpu

MASK = "CUDA_VISIBLE_DEVICES"
"""The variable with the GPUs that a process may use."""

_LIBRARIES = (nvidia_kernel.LIBRARY, f"{nvidia_kernel.WSL_FOLDER}/{nvidia_kernel.LIBRARY}")


class Driver:
    """The facts about a driver.

    :param cuda: its CUDA version; None: there is no driver, or it is unknown.
    :param kernel: release of the kernel module, such as ``560.35.03``.
    :param gpus: GPUs listed by the kernel module; empty: none, or unknown.
    """

    def __init__(
        self, cuda: tuple[int, int] | None, kernel: str = "", gpus: tuple[KernelGpu, ...] = ()
    ) -> None:
        self.cuda = cuda
        self.kernel = kernel
        self.gpus = gpus

    @property
    def version(self) -> str:
        """The CUDA version as text, or ``none``."""
        return "none" if self.cuda is None else f"{self.cuda[0]}.{self.cuda[1]}"

    @property
    def fingerprint(self) -> str:
        """A text that changes with the driver and with the kinds of GPUs."""
        kinds = sorted({gpu.kind for gpu in self.gpus})
        return "|".join((self.version, self.kernel, *kinds))


def read_driver(root: str = "/", libraries: Iterable[str] = _LIBRARIES) -> Driver:
    """Return the facts about the driver.

    :param libraries: names of the user-mode driver, tried in order.
    """

    def path_of(name: str) -> str:
        return os.path.join(root, name[1:])

    def text(name: str) -> str:
        try:
            with open(path_of(name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def children(folder: str) -> list[str]:
        try:
            return os.listdir(path_of(folder))
        except OSError:
            return []

    def exists(name: str) -> bool:
        return os.path.exists(path_of(name))

    kernel = nvidia_kernel.release(text) or ""
    return Driver(
        driver_cuda_version(libraries), kernel, nvidia_kernel.gpus(text, children, exists)
    )


def driver_cuda_version(libraries: Iterable[str]) -> tuple[int, int] | None:
    """Return the CUDA version of the user-mode driver; None: it cannot be queried."""
    import ctypes  # takes 3 ms

    for name in libraries:
        try:
            get_version = ctypes.CDLL(name).cuDriverGetVersion
        except (OSError, AttributeError):
            continue
        number = ctypes.c_int()
        if get_version(ctypes.byref(number)) == 0 and number.value >= 1000:
            return number.value // 1000, number.value % 1000 // 10
    return None


def hides_all(mask: str) -> bool:
    """Return whether a mask hides all GPUs: it ends at the first entry that is no GPU."""
    return not mask.strip().startswith(("GPU-", "MIG-", *"0123456789"))
