"""Detect signs of NVIDIA's hardware and drivers in files, without a child process (P-96)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.features import Evidence
from wheelfit_runtime.platforms.probes import pci_devices
from wheelfit_runtime.platforms.providers.nvidia.facts import NvidiaFiles
from wheelfit_runtime.platforms.providers.nvidia.kernel import (
    GPUS,
    LIBRARY,
    PROC_VERSION,
    SYS_VERSION,
    WSL_FOLDER,
    release,
)
from wheelfit_runtime.platforms.providers.nvidia.record import FAMILY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wheelfit_runtime.platforms.system_view import SystemView

NVML_NAMES = {"Linux": "libnvidia-ml.so.1", "Windows": "nvml.dll"}
"""The names of the management library, by system."""
CUDA_NAMES = {"Linux": LIBRARY, "Windows": "nvcuda.dll"}
"""The names of the user-mode driver, by system."""

_CONTROL = "/dev/nvidiactl"
_DXG = "/dev/dxg"
_TEGRA = "/etc/nv_tegra_release"


def read(view: SystemView) -> dict[str, str]:
    """Return the signs by name: a file's text, a PCI device's driver, or an empty text."""
    texts: dict[str, str] = {}
    for name in (SYS_VERSION, PROC_VERSION, _TEGRA):
        text = view.read_text(name)
        if text is not None:
            texts[name] = text
    for child in view.children(GPUS):
        name = f"{GPUS}/{child}/information"
        texts[name] = view.read_text(name) or ""
    for name in (_CONTROL, _DXG, *_libraries(view)):
        if view.exists(name):
            texts[name] = ""
    if not texts:
        # A graphics device matters only without other signs.
        for device in pci_devices.of(view, FAMILY.pci_vendor):
            if device.base_class == pci_devices.DISPLAY:
                texts[f"{pci_devices.FOLDER}/{device.address}"] = device.driver
    return texts


def parse(texts: Mapping[str, str]) -> NvidiaFiles:
    """Return the facts that the signs show."""
    libraries = tuple(
        name for name in texts if name.endswith((*NVML_NAMES.values(), *CUDA_NAMES.values()))
    )
    return NvidiaFiles(
        kernel_version=release(texts.get),
        control_device=_CONTROL in texts,
        # Every WSL 2 has the device, but only NVIDIA's driver adds the library.
        wsl=_DXG in texts and f"{WSL_FOLDER}/{CUDA_NAMES['Linux']}" in texts,
        jetson=_TEGRA in texts,
        pci_devices={
            name.rpartition("/")[2]: driver
            for name, driver in texts.items()
            if name.startswith(pci_devices.FOLDER)
        },
        libraries=libraries,
        evidence=tuple(Evidence(name, text or "exists") for name, text in texts.items()),
    )


def _libraries(view: SystemView) -> Iterator[str]:
    """Yield the possible paths of driver libraries, in the loader's order."""
    if view.system == "Windows":
        yield from _windows_libraries(view.environ)
        return
    names = (NVML_NAMES["Linux"], CUDA_NAMES["Linux"])
    multiarch = f"/usr/lib/{view.architecture}-linux-gnu"
    folders = [
        *view.environ.get("LD_LIBRARY_PATH", "").split(":"),
        WSL_FOLDER,
        multiarch,
        f"{multiarch}/tegra",  # Jetson
        f"{multiarch}/nvidia",
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/nvidia/lib64",  # containers of cloud services
        "/usr/lib64-nvidia",
        "/run/opengl-driver/lib",  # NixOS
    ]
    for folder in dict.fromkeys(folders):
        if folder.startswith("/"):
            yield from (f"{folder.rstrip('/')}/{name}" for name in names)
    yield from view.loader_cache(names)


def _windows_libraries(environ: Mapping[str, str]) -> Iterator[str]:
    system = environ.get("SYSTEMROOT", "C:\\Windows").replace("\\", "/")
    programs = environ.get("PROGRAMFILES", "C:\\Program Files").replace("\\", "/")
    yield f"{system}/System32/{NVML_NAMES['Windows']}"
    yield f"{programs}/NVIDIA Corporation/NVSMI/{NVML_NAMES['Windows']}"
    yield f"{system}/System32/{CUDA_NAMES['Windows']}"
