"""The NVIDIA driver this process would use, detected without initialising it.

``cuDriverGetVersion`` needs no ``cuInit``, so the call is safe before a fork. No device is touched.
"""

# A later start of a program comes here: nothing is imported that it could do without.
# ruff: noqa: PTH110, PTH118, PTH123, PTH208
from __future__ import annotations

import os

from wheelfit_runtime.platforms.providers.nvidia import kernel as nvidia_kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from wheelfit_runtime.platforms.providers.nvidia.kernel import KernelGpu

MASK = "CUDA_VISIBLE_DEVICES"
"""The variable that leaves a process some of the GPUs."""

_LIBRARIES = (nvidia_kernel.LIBRARY, f"{nvidia_kernel.WSL_FOLDER}/{nvidia_kernel.LIBRARY}")


class Driver:
    """The facts about a driver.

    :param cuda: the CUDA version it offers; None: there is no driver, or it is unknown.
    :param kernel: release of the kernel's part, as ``560.35.03``.
    :param gpus: GPUs listed by the kernel module; empty: none, or unknown.
    """

    __slots__ = ("cuda", "gpus", "kernel")

    def __init__(
        self, cuda: tuple[int, int] | None, kernel: str = "", gpus: tuple[KernelGpu, ...] = ()
    ) -> None:
        self.cuda = cuda
        self.kernel = kernel
        self.gpus = gpus

    @property
    def version(self) -> str:
        """The CUDA version as text; ``none`` where there is no driver."""
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

    def place(name: str) -> str:
        return os.path.join(root, name[1:])

    def text(name: str) -> str:
        try:
            with open(place(name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def children(folder: str) -> list[str]:
        try:
            return os.listdir(place(folder))
        except OSError:
            return []

    def exists(name: str) -> bool:
        return os.path.exists(place(name))

    kernel = nvidia_kernel.release(text) or ""
    return Driver(offered(libraries), kernel, nvidia_kernel.gpus(text, children, exists))


def offered(libraries: Iterable[str]) -> tuple[int, int] | None:
    """Return the CUDA version that the user-mode driver offers; None: it cannot be queried."""
    import ctypes  # 3 ms, only to load libraries

    for name in libraries:
        try:
            ask = ctypes.CDLL(name).cuDriverGetVersion
        except (OSError, AttributeError):
            continue
        number = ctypes.c_int()
        if ask(ctypes.byref(number)) == 0 and number.value >= 1000:
            return number.value // 1000, number.value % 1000 // 10
    return None


def hides_all(mask: str) -> bool:
    """Return whether a mask leaves a process no GPU: the first entry that names none ends it."""
    return not mask.strip().startswith(("GPU-", "MIG-", *"0123456789"))
