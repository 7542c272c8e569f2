"""What NVIDIA driver this process would use, found out without initialising it.

``cuDriverGetVersion`` needs no ``cuInit``, so asking is safe before a fork. No device is touched.
"""

# A later start of a program comes here: nothing is imported that it could do without.
from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Driver", "read_driver"]


def __dir__() -> list[str]:
    return __all__


_LIBRARIES = ("libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1")


class Driver:
    """Hold what is known of a driver.

    :param cuda: the CUDA version it offers; None: there is no driver, or it cannot say.
    :param kernel: release of the kernel's part, as ``560.35.03``.
    :param gpus: models of the GPUs that the kernel's part lists.
    """

    __slots__ = ("cuda", "gpus", "kernel")

    def __init__(
        self, cuda: tuple[int, int] | None, kernel: str = "", gpus: tuple[str, ...] = ()
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
        """A text that is another one when the driver or a GPU is."""
        return "|".join((self.version, self.kernel, *self.gpus))


def read_driver(root: str = "/", libraries: tuple[str, ...] = _LIBRARIES) -> Driver:
    """Return what the driver says of itself.

    :param root: where the kernel's files are; another folder in tests.
    :param libraries: names of the user-mode driver, tried in order.
    """
    return Driver(_offered(libraries), _kernel(root), tuple(sorted(_gpus(root))))


def _offered(libraries: tuple[str, ...]) -> tuple[int, int] | None:
    import ctypes  # noqa: PLC0415 - 3 ms that only somebody needs who loads libraries

    for name in libraries:
        try:
            ask = ctypes.CDLL(name).cuDriverGetVersion
        except (OSError, AttributeError):
            continue
        number = ctypes.c_int()
        if ask(ctypes.byref(number)) == 0 and number.value >= 1000:
            return number.value // 1000, number.value % 1000 // 10
    return None


def _kernel(root: str) -> str:
    return _text(os.path.join(root, "sys/module/nvidia/version")).strip()  # noqa: PTH118


def _gpus(root: str) -> Iterator[str]:
    folder = os.path.join(root, "proc/driver/nvidia/gpus")  # noqa: PTH118
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except OSError:
        return
    for name in names:
        for line in _text(f"{folder}/{name}/information").split("\n"):
            if line.startswith("Model:"):
                yield line[6:].strip()


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return ""
