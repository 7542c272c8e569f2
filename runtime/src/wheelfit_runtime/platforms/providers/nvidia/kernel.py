"""Read the files of NVIDIA's kernel module: its release, and its GPUs.

A GPU's PCI device id, which is in a file, shows which CUDA majors have no code for it (P-95). Its
compute capability would show that too, but querying it initialises the driver.
"""

# Imported at every start of a program with libraries, so it imports as little as possible.
from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


SYS_VERSION = "/sys/module/nvidia/version"
PROC_VERSION = "/proc/driver/nvidia/version"
GPUS = "/proc/driver/nvidia/gpus"
"""The folder with a folder for each GPU of the driver, named by its PCI address."""
LIBRARY = "libcuda.so.1"
"""The name of the user-mode driver that belongs to the kernel module."""
WSL_FOLDER = "/usr/lib/wsl/lib"
"""The folder of that library in WSL."""

DATA_VERSION = "2026-08"
"""The snapshot of the PCI ID Project's list with which the table was last compared."""

FIRST_DEVICE = {12: 0x1340, 13: 0x1E00}
"""By CUDA major, the lowest PCI device id of the GPUs that it compiles for.

The ids of some generations are mixed: Fermi's with Kepler's, Maxwell's with Pascal's. But those of
Fermi and Kepler (up to 3.7) are all below 0x1340, where Maxwell (5.0) begins, and those of Maxwell,
Pascal and Volta (up to 7.0) below 0x1e00, where Turing (7.5) begins; no newer ones are below. CUDA
11 supports some Kepler GPUs, so ids do not show its limit.
"""

_NODE = "/dev/nvidia"
_DEVICE = "/sys/bus/pci/devices"


class KernelGpu:
    """A GPU that this process may open.

    :param index: its index in the order of PCI addresses.
    :param model: as ``Tesla T4``; empty: unknown.
    :param uuid: as ``GPU-…``; empty: unknown.
    :param device: its PCI device id, as 0x1eb8; None: unknown.
    """

    def __init__(self, index: int, model: str, uuid: str, device: int | None) -> None:
        self.index = index
        self.model = model
        self.uuid = uuid
        self.device = device

    def __str__(self) -> str:
        return self.model or f"GPU {self.index}"

    @property
    def kind(self) -> str:
        """The key of a kind of GPU; the model may be unknown while the GPU is unused."""
        return self.model if self.device is None else f"{self.device:04x}"


def release(read_text: Callable[[str], str | None]) -> str | None:
    """Return the release of the kernel module, such as ``550.54.15``; None: unknown."""
    text = (read_text(SYS_VERSION) or "").strip()
    if _is_release(text):
        return text
    _, _, rest = (read_text(PROC_VERSION) or "").partition("Kernel Module")
    return next(filter(_is_release, rest.split("\n")[0].split()), None)


def _is_release(text: str) -> bool:
    parts = text.split(".")
    return len(parts) in (2, 3) and all(part.isascii() and part.isdigit() for part in parts)


def gpus(
    read_text: Callable[[str], str | None],
    children: Callable[[str], Iterable[str]],
    exists: Callable[[str], bool],
) -> tuple[KernelGpu, ...]:
    """Return the GPUs that this process may open, in the order of their addresses.

    A container may see the GPUs of the whole machine here, but has only its own device files, so
    GPUs without a device file are left out, and so are those that the driver excludes. WSL lists
    none.
    """
    kernel_gpus: list[KernelGpu] = []
    for address in sorted(children(GPUS)):
        text = read_text(f"{GPUS}/{address}/information") or ""
        minor = _value(text, "Device Minor:")
        if (minor and not exists(_NODE + minor)) or _value(text, "GPU Excluded:") == "Yes":
            continue
        device_text = read_text(f"{_DEVICE}/{address}/device") or ""
        try:
            device_id = int(device_text, 16)
        except ValueError:
            device_id = None
        model = _value(text, "Model:")
        if model == "Unknown":
            model = ""
        kernel_gpus.append(KernelGpu(len(kernel_gpus), model, _value(text, "GPU UUID:"), device_id))
    return tuple(kernel_gpus)


def _value(text: str, name: str) -> str:
    for line in text.split("\n"):
        if line.startswith(name):
            return line[len(name) :].strip()
    return ""
