"""P-133: files alone say whether Level Zero is worth asking."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from platforms.detecting import add_device, add_intel_gpu, touch, view_of, write_files

from wheelfit_runtime.platforms.providers.intel import files as intel_files
from wheelfit_runtime.platforms.providers.intel.files import IntelFiles
from wheelfit_runtime.platforms.system_view import SystemView


def _look(root: Path, **more: Any) -> IntelFiles:
    here = view_of(root, **more)
    return intel_files.parse(intel_files.read(here), here.system)


def test_an_empty_machine_is_not_worth_asking(tmp_path: Path) -> None:
    """P-74, P-133: nothing there is no error and no reason to ask."""
    assert _look(tmp_path) == IntelFiles()
    assert not IntelFiles().has_signs


@pytest.mark.parametrize("driver", ["i915", "xe"])
def test_a_graphics_device_with_its_driver_is_worth_asking(tmp_path: Path, driver: str) -> None:
    """P-133: class 03, vendor 0x8086, and one of the two drivers."""
    add_intel_gpu(tmp_path, driver=driver)
    files = _look(tmp_path)
    assert files.bound == ("0000:03:00.0",)
    assert files.has_signs
    assert f"driver {driver}" in files.evidence[0].value


@pytest.mark.parametrize(
    ("vendor", "kind", "driver"),
    [
        ("0x8086", "0x120000", "intel_vpu"),
        ("0x8086", "0x020000", "ice"),
        ("0x10de", "0x030000", "nvidia"),
    ],
)
def test_other_devices_do_not_count(tmp_path: Path, vendor: str, kind: str, driver: str) -> None:
    """P-133: neither Intel's NPUs and network cards nor other makers' GPUs."""
    add_device(tmp_path, "0000:00:0b.0", vendor=vendor, device="0x0001", kind=kind, driver=driver)
    assert _look(tmp_path) == IntelFiles()


@pytest.mark.parametrize("driver", ["", "vfio-pci"])
def test_a_gpu_that_no_driver_has_is_told_about(tmp_path: Path, driver: str) -> None:
    """P-133: passed on to a virtual machine, or without any driver."""
    add_device(tmp_path, "0000:00:02.0", vendor="0x8086", device="0x56a0", driver=driver)
    files = _look(tmp_path)
    assert not files.has_signs
    assert "0000:00:02.0" in intel_files.no_driver_reason(files)
    assert "neither the i915 nor the xe" in intel_files.no_driver_reason(files)


@pytest.mark.parametrize("driver", ["", "i915"])
@pytest.mark.parametrize("device", ["0x3e9b", "0x46a6", "0x9a49", "0x9bc5", "0xa780"])
def test_of_older_graphics_nothing_is_missing(tmp_path: Path, device: str, driver: str) -> None:
    """P-133: no build is made for them, so there is nothing to install; they are seen still."""
    add_device(tmp_path, "0000:00:02.0", vendor="0x8086", device=device, driver=driver)
    files = _look(tmp_path)
    assert intel_files.no_driver_reason(files) == ""
    assert [one.value for one in files.evidence] == [
        f"vendor 0x8086, device {device}, driver {driver or 'none'}",
        "older than Arc, which builds are made for",
    ]


@pytest.mark.parametrize("device", ["0x0000", "0x56a0", "0x7d55", "0xb080", "0xe20b", "0xf123"])
def test_what_may_be_newer_is_not_older(tmp_path: Path, device: str) -> None:
    """P-132: Arc and later ones, one newer than the table, and one without a number."""
    add_device(tmp_path, "0000:00:02.0", vendor="0x8086", device=device, driver="xe")
    add_device(tmp_path, "0000:00:03.0", vendor="0x8086", device="0x9bc5", driver="i915")
    assert "no Level Zero loader" in intel_files.no_driver_reason(_look(tmp_path))


def test_a_container_without_the_device_node_is_told_about(tmp_path: Path) -> None:
    """P-74, P-133: the bus is seen in every container, the device only where it was given."""
    add_intel_gpu(tmp_path)
    (tmp_path / "dev/dri/renderD128").unlink()
    files = _look(tmp_path)
    assert files.hidden_nodes == ("/dev/dri/renderD128",)
    assert not files.has_signs
    assert "a container needs /dev/dri" in intel_files.no_driver_reason(files)


def test_one_of_two_device_nodes_is_enough(tmp_path: Path) -> None:
    """P-133: a container may be given one GPU of several."""
    add_intel_gpu(tmp_path)
    add_intel_gpu(tmp_path, "0000:04:00.0", node="renderD129")
    (tmp_path / "dev/dri/renderD128").unlink()
    assert _look(tmp_path).has_signs


def test_another_gpu_s_device_node_does_not_count(tmp_path: Path) -> None:
    """P-133: the node of an AMD card beside it says nothing of Intel's."""
    add_intel_gpu(tmp_path)
    (tmp_path / "dev/dri/renderD128").unlink()
    touch(tmp_path, "dev/dri/renderD129")
    assert _look(tmp_path).hidden_nodes == ("/dev/dri/renderD128",)


def test_without_the_loader_nobody_can_be_asked(tmp_path: Path) -> None:
    """P-133: the reason says what to install."""
    add_intel_gpu(tmp_path)
    here, files = view_of(tmp_path), _look(tmp_path)
    assert intel_files.candidates(here, files) == ()
    assert "install Intel's compute runtime" in intel_files.no_driver_reason(files)


def test_the_loader_is_found_where_the_system_looks(tmp_path: Path) -> None:
    """P-133: LD_LIBRARY_PATH first, the usual folders, the loader's cache; each once."""
    add_intel_gpu(tmp_path)
    folders = ("/opt/intel/lib", "/usr/lib/x86_64-linux-gnu", "/odd/place")
    libraries = tuple(f"{folder}/libze_loader.so.1" for folder in folders)
    touch(tmp_path, *libraries)
    cache = (
        b"glibc-ld.so.cache1.1\0libze_loader.so.1\0/odd/place/libze_loader.so.1\0"
        b"/usr/lib/x86_64-linux-gnu/libze_loader.so.1\0/gone/libze_loader.so.1\0"
    )
    write_files(tmp_path, {"etc/ld.so.cache": cache})
    environ = {"LD_LIBRARY_PATH": ":relative:/opt/intel/lib/"}
    assert _look(tmp_path, environ=environ).libraries == libraries


def test_a_captured_machine_is_never_shown_the_real_loader(tmp_path: Path) -> None:
    """P-70: names for the system's loader are candidates on the real machine only."""
    files = IntelFiles(libraries=("/usr/lib64/libze_loader.so.1",))
    captured = intel_files.candidates(view_of(tmp_path), files)
    assert captured == (f"{tmp_path}/usr/lib64/libze_loader.so.1",)
    real = intel_files.candidates(SystemView(system="Linux", environ={}), files)
    assert real == ("libze_loader.so.1", "/usr/lib64/libze_loader.so.1")
    assert intel_files.candidates(SystemView(system="Darwin", environ={}), files) == ()


def test_windows_linux_is_asked_where_it_has_the_loader(tmp_path: Path) -> None:
    """P-133: there /dev/dxg stands for the GPU of whichever maker, and no bus lists it."""
    touch(tmp_path, "dev/dxg")
    files = _look(tmp_path)
    assert files.unlisted
    assert (files.libraries, intel_files.no_driver_reason(files)) == ((), "")
    touch(tmp_path, "usr/lib64/libze_loader.so.1")
    assert _look(tmp_path).libraries == ("/usr/lib64/libze_loader.so.1",)


def test_windows_has_the_loader_in_its_system_folder(tmp_path: Path) -> None:
    """P-133: ze_loader.dll comes with Intel's driver, and is the sign of it."""
    assert _look(tmp_path, system="Windows").libraries == ()
    touch(tmp_path, "D/Windows/System32/ze_loader.dll")
    files = _look(tmp_path, system="Windows", environ={"SYSTEMROOT": "D:\\Windows"})
    assert files.libraries == ("D:/Windows/System32/ze_loader.dll",)
    assert files.has_signs
