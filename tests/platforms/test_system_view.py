"""P-70: probes see the machine through one object, below any root."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from wheelfit_runtime.platforms.system_view import SystemView, interpreter_of_this_process


def test_files_are_looked_up_below_the_root(tmp_path: Path) -> None:
    """P-70: the machine's name of a file leads below the folder that stands for ``/``."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/version").write_text("Linux\n")
    seen = SystemView(str(tmp_path), {})
    assert seen.read_text("/proc/version") == "Linux"
    assert seen.read_text("/proc/cpuinfo") is None
    assert seen.children("/proc") == ("version",)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("C:/Windows/System32/nvml.dll", "C/Windows/System32/nvml.dll"),
        ("/sys/bus/pci/devices/0000:01:00.0", "sys/bus/pci/devices/0000_01_00.0"),
    ],
)
def test_any_system_can_hold_the_files_of_any_other(name: str, place: str, tmp_path: Path) -> None:
    """P-70: a captured machine has no file whose name Windows refuses."""
    assert Path(SystemView(str(tmp_path), {}).path(name)) == tmp_path / place
    assert SystemView("/", {}).path(name) == name


def test_a_long_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    """P-74: what is read is bounded, and complete up to there."""
    (tmp_path / "long").write_bytes(b"x" * 200_000)
    seen = SystemView(str(tmp_path), {})
    assert seen.read_bytes("/long") == b"x" * 200_000
    assert seen.read_bytes("/long", 70_000) == b"x" * 70_000


@pytest.mark.skipif(
    not Path("/proc/sys/kernel/random/boot_id").is_file(), reason="needs Linux' /proc/sys"
)
def test_a_kernel_that_refuses_large_reads_is_read() -> None:
    """P-74: Linux allocates what is asked for in /proc/sys, and refuses 16 MiB."""
    text = SystemView(environ={}).read_text("/proc/sys/kernel/random/boot_id")
    assert text == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_a_look_is_kept(tmp_path: Path) -> None:
    """P-22: the second who wants a list gets the first one's."""
    seen = SystemView(str(tmp_path), {})
    first = seen.once("names", lambda view: [*view.children("/")])
    assert seen.once("names", lambda _: []) is first


def test_the_interpreter_is_one_that_can_be_started() -> None:
    """P-71: a program that does not exist, as Nuitka names one, is not an interpreter."""
    found = interpreter_of_this_process()
    assert found == sys.executable


def test_who_may_open_a_device(tmp_path: Path) -> None:
    """P-74: this user is asked about on the real machine; below a root nobody can be."""
    assert SystemView(str(tmp_path), {}).may_open("/dev/kfd")
    real = SystemView("/", {})
    (tmp_path / "device").touch()
    assert real.may_open(str(tmp_path / "device"))
    assert not real.may_open(str(tmp_path / "gone"))
