"""P-151: TPUs are found on the bus."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from platforms.detecting import add_device, touch, view_of

from wheelfit_runtime.platforms.probes.pci_devices import PciDevice
from wheelfit_runtime.platforms.providers.tpu import probes as tpu_files
from wheelfit_runtime.platforms.providers.tpu import tables
from wheelfit_runtime.platforms.providers.tpu.probes import TpuFiles


def _look(root: Path) -> TpuFiles:
    return tpu_files.parse(tpu_files.read(view_of(root)))


def test_an_empty_machine_has_none(tmp_path: Path) -> None:
    """P-74, P-151: no bus is not an error."""
    assert _look(tmp_path) == TpuFiles()


@pytest.mark.parametrize(
    ("device", "generation"),
    [
        ("0x0056", ""),
        ("0x005e", "v4"),
        ("0x0062", "v5p"),
        ("0x0063", "v5e"),
        ("0x006f", "v6e"),
        ("0x0076", "7x"),
        ("0x007c", ""),
        ("0x0083", ""),
    ],
)
def test_each_number_is_a_tpu(tmp_path: Path, device: str, generation: str) -> None:
    """P-151, P-153: the number tells the generation, if that has a public name."""
    add_device(tmp_path, "0000:00:05.0", vendor="0x1ae0", device=device, kind="0x120000")
    (chip,) = _look(tmp_path).chips
    assert chip == ("0000:00:05.0", int(device, 16), generation)


@pytest.mark.parametrize(
    ("board", "generation"), [("0x004e", "v2"), ("0x004f", "v3"), ("0x0001", ""), (None, "")]
)
def test_the_board_tells_v2_from_v3(tmp_path: Path, board: str | None, generation: str) -> None:
    """P-151, P-153: both have the number 0x0027."""
    folder = add_device(tmp_path, "0000:00:04.0", vendor="0x1ae0", device="0x0027")
    if board is not None:
        (folder / "subsystem_device").write_text(f"{board}\n")
    (chip,) = _look(tmp_path).chips
    assert chip.generation == generation


def test_other_devices_are_no_tpus(tmp_path: Path) -> None:
    """P-151: Google's network cards have its vendor number, others have the device number."""
    add_device(tmp_path, "0000:00:04.0", vendor="0x1ae0", device="0x0042", kind="0x020000")
    add_device(tmp_path, "0000:00:05.0", vendor="0x10de", device="0x0063")
    assert _look(tmp_path) == TpuFiles()


def test_entries_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    """P-74, P-151: folders without files, files that are folders, bytes that are no number."""
    (tmp_path / "sys/bus/pci/devices/0000_00_01.0").mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices/0000_00_02.0/vendor").mkdir(parents=True)
    folder = add_device(tmp_path, "0000:00:03.0", vendor="0x1ae0", device="0x0063")
    (folder / "device").write_bytes(b"\xff\xfe")
    assert _look(tmp_path) == TpuFiles()
    add_device(tmp_path, "0000:00:05.0", vendor="0x1ae0", device="0x0063")
    assert [chip.address for chip in _look(tmp_path).chips] == ["0000:00:05.0"]


def test_device_nodes_are_evidence(tmp_path: Path) -> None:
    """P-151: the older driver's and VFIO's; looked for only where there is a TPU."""
    touch(tmp_path, "dev/accel0", "dev/vfio/0", "dev/vfio/vfio", "dev/accelerometer")
    assert _look(tmp_path).nodes == ()
    add_device(tmp_path, "0000:00:05.0", vendor="0x1ae0", device="0x0063")
    files = _look(tmp_path)
    assert files.nodes == ("/dev/accel0", "/dev/vfio/0")
    assert [(e.source, e.value) for e in files.evidence] == [
        ("/sys/bus/pci/devices/0000:00:05.0", "vendor 0x1ae0, device 0x0063"),
        ("/dev/accel0", "exists"),
        ("/dev/vfio/0", "exists"),
    ]


@given(device=st.sampled_from(sorted(tables.GENERATION_OF_CHIP)), board=st.text(max_size=8))
def test_no_board_is_an_exception(device: int, board: str) -> None:
    """P-74: whatever a board calls itself, the generation is a known one or none."""
    signs = tpu_files.TpuSigns(((PciDevice("0000:00:05.0", 0, 0x1AE0, device), board),))
    (chip,) = tpu_files.parse(signs).chips
    assert chip.generation in {"", *tables.GENERATIONS}
