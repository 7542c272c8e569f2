"""Fake GPU drivers: small C libraries that report the machine that environment variables describe.

The variables are documented at the top of ``fake_driver.h`` for NVIDIA's libraries, and at the top
of ``level_zero.c`` for Intel's Level Zero.
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
    """A compiled fake driver of NVIDIA."""

    folder: Path
    """The folder of the libraries, for ``SystemView(library_folders=…)``."""

    def environ(
        self,
        *,
        devices: Iterable[str] = (),
        cuda: str = "12.4",
        driver: str = "550.54.15",
        **settings: str | int | Path,
    ) -> dict[str, str]:
        """Return the environment variables that make the driver report a machine.

        :param devices: compute capability and name of each GPU, such as ``9.0 NVIDIA H100``.
        :param cuda: the CUDA version that the driver supports.
        :param settings: other variables of ``fake_driver.h``, without their prefix
            and in lower case, such as ``nvml_init=18``.
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
    """A compiled fake Level Zero loader."""

    folder: Path
    """The folder of the library, for ``SystemView(library_folders=…)``."""

    def environ(self, *drivers: Iterable[str], **settings: str | int) -> dict[str, str]:
        """Return the environment variables that make the loader report a machine.

        :param drivers: the devices of each driver: PCI ids, IP version, kind and name of each, as
            ``8086:56a0 12.55.8 discrete Intel Arc A770``.
        :param settings: other variables of ``level_zero.c``, without their prefix and
            in lower case, such as ``ze_lost=1``.
        """
        return {
            "WHEELFIT_FAKE_ZE_DEVICES": "|".join(";".join(devices) for devices in drivers),
            **{f"WHEELFIT_FAKE_{name.upper()}": str(value) for name, value in settings.items()},
        }


def add_nvidia_gpu(
    root: Path, number: int, model: str, device: int | None, *, excluded: bool = False
) -> Path:
    """Write the files by which NVIDIA's driver lists a GPU, and return the root.

    :param root: the root folder of a captured machine.
    :param number: the number of the GPU, from 0.
    :param model: as ``Tesla T4``.
    :param device: its PCI device id, as 0x1eb8; None leaves out that file.
    :param excluded: whether the administrator has excluded it.
    """
    address = f"0000_{number + 1:02x}_00.0"  # captured machines have "_" for ":"
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
    """Return the path of a C compiler; None if there is none."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def require_compiler() -> str:
    """Return the path of a C compiler.

    :raises FileNotFoundError: there is none.
    """
    compiler = find_compiler()
    if compiler is None:
        raise FileNotFoundError("no C compiler: cc, gcc or clang")
    return compiler


def compile_fake_driver(
    folder: Path, *, libraries: Iterable[str] = tuple(_LIBRARIES), without_v2: bool = False
) -> FakeDriver:
    """Compile the libraries of NVIDIA's driver into a folder.

    :param folder: the folder of the libraries; created if missing.
    :param libraries: any of ``libnvidia-ml.so.1`` and ``libcuda.so.1``.
    :param without_v2: whether to leave out the functions that old drivers lack.
    :raises FileNotFoundError: there is no C compiler; see `find_compiler`.
    :raises subprocess.CalledProcessError: the compiler fails.
    """
    extra = ["-DWITHOUT_V2"] if without_v2 else []
    for library in libraries:
        _compile(_LIBRARIES[library], folder / library, extra)
    return FakeDriver(folder)


def compile_fake_level_zero(folder: Path, *, without_init_drivers: bool = False) -> FakeLevelZero:
    """Compile the Level Zero loader into a folder.

    :param folder: the folder of the library; created if missing.
    :param without_init_drivers: whether to leave out the function that old loaders lack.
    """
    extra = ["-DWITHOUT_INIT_DRIVERS"] if without_init_drivers else []
    _compile("level_zero.c", folder / "libze_loader.so.1", extra)
    return FakeLevelZero(folder)


def fake_machine(
    needed: Iterable[Property], folder: Path, environ: Mapping[str, str]
) -> dict[str, str] | None:
    """Compile a fake driver whose machine supports some properties.

    :param needed: the properties; values of one feature are alternatives.
    :param folder: the folder for the libraries.
    :param environ: the environment that is extended.
    :return: the environment variables of the machine; None if there is no compiler, or no fake
        driver for these properties.
    """
    values: dict[str, list[str]] = {}
    for prop in needed:
        if prop.namespace == "nvidia":
            values.setdefault(prop.feature, []).append(prop.value)
    if not values or find_compiler() is None:
        return None
    bounds = values.get("cuda_version_lower_bound") or values.get("cuda_version_upper_bound")
    settings: dict[str, str] = {"cuda": bounds[0]} if bounds else {}
    # The last digit is the minor version: 90 is 9.0, and 120 is 12.0.
    match = re.match(r"(\d+)(\d)", values.get("sm_arch", ["75"])[0])
    device = "{}.{} fake GPU".format(*match.groups()) if match else "7.5 fake GPU"
    driver = compile_fake_driver(folder)
    folders = os.pathsep.join(filter(None, (str(folder), environ.get("LD_LIBRARY_PATH"))))
    return {**driver.environ(devices=[device], **settings), "LD_LIBRARY_PATH": folders}


def _compile(source: str, library: Path, extra: Iterable[str]) -> None:
    compiler = require_compiler()
    library.parent.mkdir(parents=True, exist_ok=True)
    options = ["-shared", "-fPIC", "-O1", "-w", f"-Wl,-soname,{library.name}", *extra]
    command = [compiler, *options, "-o", str(library), str(_SOURCES / source)]
    subprocess.run(command, check=True)
