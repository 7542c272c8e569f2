"""Fake drivers: small C libraries that describe any machine one likes.

The variables of NVIDIA's two are documented at the top of ``fake_driver.h``, those of Intel's Level
Zero at the top of ``level_zero.c``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wheelfit.core.properties import Property


_SOURCES = Path(__file__).parent
_LIBRARIES = {"libnvidia-ml.so.1": "nvml.c", "libcuda.so.1": "cuda.c"}


@dataclass(frozen=True, slots=True)
class FakeDriver:
    """A compiled fake driver, and the machines that it describes."""

    folder: Path
    """The folder of the libraries; give it to ``SystemView(library_folders=…)``."""

    def environ(
        self,
        *,
        devices: Iterable[str] = (),
        cuda: str = "12.4",
        driver: str = "550.54.15",
        **settings: str | int | Path,
    ) -> dict[str, str]:
        """Return the environment that makes the driver show a machine.

        :param devices: capability and name of each, as ``9.0 NVIDIA H100``.
        :param settings: other variables of ``fake_driver.h``, without their prefix
            and in lower case, as ``nvml_init=18``.
        """
        major, _, minor = cuda.partition(".")
        return {
            "WHEELFIT_FAKE_CUDA_VERSION": str(1000 * int(major) + 10 * int(minor or 0)),
            "WHEELFIT_FAKE_DRIVER_VERSION": driver,
            "WHEELFIT_FAKE_DEVICES": ";".join(devices),
            **{f"WHEELFIT_FAKE_{name.upper()}": str(value) for name, value in settings.items()},
        }


@dataclass(frozen=True, slots=True)
class FakeLevelZero:
    """A compiled fake Level Zero loader, and the machines that it describes."""

    folder: Path
    """The folder of the library; give it to ``SystemView(library_folders=…)``."""

    def environ(self, *drivers: Iterable[str], **settings: str | int) -> dict[str, str]:
        """Return the environment that makes the loader show a machine.

        :param drivers: the devices of each driver: vendor and device, version, place and
            name of each, as ``8086:56a0 12.55.8 discrete Intel Arc A770``.
        :param settings: other variables of ``level_zero.c``, without their prefix and
            in lower case, as ``ze_lost=1``.
        """
        return {
            "WHEELFIT_FAKE_ZE_DEVICES": "|".join(";".join(devices) for devices in drivers),
            **{f"WHEELFIT_FAKE_{name.upper()}": str(value) for name, value in settings.items()},
        }


def add_nvidia_gpu(
    root: Path, number: int, model: str, device: int | None, *, excluded: bool = False
) -> Path:
    """Create a GPU that NVIDIA's driver serves below the root of a machine, and return the root.

    :param model: as ``Tesla T4``.
    :param device: its PCI device id, as 0x1eb8; None: there is no such file.
    """
    address = f"0000_{number + 1:02x}_00.0"  # as captured machines spell it
    files = {
        f"dev/nvidia{number}": "",
        f"proc/driver/nvidia/gpus/{address}/information": f"Model: \t\t {model}\n"
        f"IRQ:   \t\t 120\nGPU UUID: \t GPU-{number:08}\nDevice Minor: \t {number}\n"
        f"GPU Excluded:\t {'Yes' if excluded else 'No'}\n",
    }
    if device is not None:
        files[f"sys/bus/pci/devices/{address}/device"] = f"0x{device:04x}\n"
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def find_compiler() -> str | None:
    """Return a C compiler, or None where there is none."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def compile_fake_driver(
    folder: Path, *, libraries: Iterable[str] = tuple(_LIBRARIES), without_v2: bool = False
) -> FakeDriver:
    """Compile the libraries into a folder.

    :param folder: their folder; created if missing.
    :param libraries: which of ``libnvidia-ml.so.1`` and ``libcuda.so.1``.
    :param without_v2: leave out the functions that old drivers lack.
    :raises FileNotFoundError: there is no C compiler; call :func:`find_compiler` first.
    :raises subprocess.CalledProcessError: the compiler refuses.
    """
    extra = ["-DWITHOUT_V2"] if without_v2 else []
    for library in libraries:
        _compile(_LIBRARIES[library], folder / library, extra)
    return FakeDriver(folder)


def compile_fake_level_zero(folder: Path, *, without_init_drivers: bool = False) -> FakeLevelZero:
    """Compile the loader into a folder.

    :param folder: its folder; created if missing.
    :param without_init_drivers: leave out the function that old loaders lack.
    """
    extra = ["-DWITHOUT_INIT_DRIVERS"] if without_init_drivers else []
    _compile("level_zero.c", folder / "libze_loader.so.1", extra)
    return FakeLevelZero(folder)


def fake_machine(
    needed: Iterable[Property], folder: Path, environ: Mapping[str, str]
) -> dict[str, str] | None:
    """Compile fake drivers of a machine that supports some properties; return its variables.

    :param needed: the properties; values of one feature are alternatives.
    :return: None if there is no compiler, or no fake driver for these properties.
    """
    values: dict[str, list[str]] = {}
    for one in needed:
        if one.namespace == "nvidia":
            values.setdefault(one.feature, []).append(one.value)
    if not values or find_compiler() is None:
        return None
    bounds = values.get("cuda_version_lower_bound") or values.get("cuda_version_upper_bound")
    settings: dict[str, str] = {"cuda": bounds[0]} if bounds else {}
    capability = re.match(r"(\d+)(\d)", values.get("sm_arch", ["75"])[0])
    device = "{}.{} fake GPU".format(*capability.groups()) if capability else "7.5 fake GPU"
    driver = compile_fake_driver(folder)
    before = environ.get("LD_LIBRARY_PATH")
    folders = os.pathsep.join(filter(None, (str(folder), before)))
    return {**driver.environ(devices=[device], **settings), "LD_LIBRARY_PATH": folders}


def _compile(source: str, library: Path, extra: Iterable[str]) -> None:
    compiler = find_compiler()
    if compiler is None:
        raise FileNotFoundError("no C compiler: cc, gcc or clang")
    library.parent.mkdir(parents=True, exist_ok=True)
    options = ["-shared", "-fPIC", "-O1", "-w", f"-Wl,-soname,{library.name}", *extra]
    command = [compiler, *options, "-o", str(library), str(_SOURCES / source)]
    subprocess.run(command, check=True)
