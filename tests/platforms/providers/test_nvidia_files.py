"""P-96: files alone say whether it is worth starting a child process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from platforms.detecting import touch, view_of, write_files

from wheelfit_runtime.platforms.providers.nvidia import files as nvidia_files
from wheelfit_runtime.platforms.providers.nvidia.facts import NvidiaFiles


def _look(root: Path, **more: Any) -> NvidiaFiles:
    return nvidia_files.parse(nvidia_files.read(view_of(root, **more)))


def test_an_empty_machine_is_not_worth_asking(tmp_path: Path) -> None:
    """P-96: a machine without accelerator pays for a few look-ups only."""
    assert _look(tmp_path) == NvidiaFiles()
    assert not NvidiaFiles().has_signs


@pytest.mark.parametrize(
    "text",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (d@b)",
    ],
)
def test_the_version_of_the_kernel_module_is_read(tmp_path: Path, text: str) -> None:
    """P-96: both flavours of the module."""
    write_files(tmp_path, {"/proc/driver/nvidia/version": f"{text}\nGCC version: 12.3.0\n"})
    files = _look(tmp_path)
    assert files.kernel_version == "550.54.15"
    assert files.has_driver


@pytest.mark.parametrize(
    "name",
    ["/dev/nvidiactl", "/etc/nv_tegra_release", "/usr/lib64/libcuda.so.1",
     "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "/sys/module/nvidia/version"],
)  # fmt: skip
def test_each_sign_is_reason_enough(tmp_path: Path, name: str) -> None:
    """P-96: any of them makes the child worth starting."""
    write_files(tmp_path, {name: "535.104.05"})
    assert _look(tmp_path).has_signs


def test_the_loader_s_own_places_are_looked_at(tmp_path: Path) -> None:
    """P-96: a library in LD_LIBRARY_PATH or in the loader's cache is found below the root."""
    touch(tmp_path, "/opt/compat/libcuda.so.1", "/odd/place/libnvidia-ml.so.1")
    cache = b"glibc-ld.so.cache1.1\0libnvidia-ml.so.1\0/odd/place/libnvidia-ml.so.1\0\0"
    write_files(tmp_path, {"/etc/ld.so.cache": cache})
    files = _look(tmp_path, environ={"LD_LIBRARY_PATH": ":relative:/opt/compat/"})
    assert files.libraries == ("/opt/compat/libcuda.so.1", "/odd/place/libnvidia-ml.so.1")


def test_wsl_needs_the_driver_of_nvidia(tmp_path: Path) -> None:
    """P-96: /dev/dxg exists on every WSL 2, also without a GPU of NVIDIA's."""
    touch(tmp_path, "/dev/dxg")
    assert not _look(tmp_path).has_driver
    touch(tmp_path, "/usr/lib/wsl/lib/libcuda.so.1")
    assert _look(tmp_path).wsl


def test_libraries_of_windows_are_found(tmp_path: Path) -> None:
    """P-97: System32, then the older place."""
    touch(tmp_path, "D/Windows/System32/nvcuda.dll")
    touch(tmp_path, "C/Program Files/NVIDIA Corporation/NVSMI/nvml.dll")
    files = _look(tmp_path, system="Windows", environ={"SYSTEMROOT": "D:\\Windows"})
    assert files.libraries == (
        "C:/Program Files/NVIDIA Corporation/NVSMI/nvml.dll",
        "D:/Windows/System32/nvcuda.dll",
    )
    touch(tmp_path, "D/Windows/System32/nvml.dll")
    files = _look(tmp_path, system="Windows", environ={"SYSTEMROOT": "D:\\Windows"})
    assert files.libraries[0] == "D:/Windows/System32/nvml.dll"
