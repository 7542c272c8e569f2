"""P-143: what files say of NPUs and their driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wheelfit_runtime.platforms.probes.pci_devices import PciDevice
from wheelfit_runtime.platforms.providers.ascend import probes as ascend_files
from wheelfit_runtime.platforms.providers.ascend.probes import AscendFiles, AscendSigns
from wheelfit_runtime.platforms.system_view import SystemView

if TYPE_CHECKING:
    from pathlib import Path


def _device(root: Path, address: str, vendor: str, kind: str, device: str) -> None:
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    for name, text in (("vendor", vendor), ("class", kind), ("device", device)):
        (folder / name).write_text(f"{text}\n")


def test_npus_are_processing_accelerators_of_huawei(tmp_path: Path) -> None:
    """P-143: its network cards and disks are not, nor are other makers' accelerators."""
    _device(tmp_path, "0000_c1_00.0", "0x19e5", "0x120000", "0xd802")
    _device(tmp_path, "0000_02_00.0", "0x19e5", "0x120000", "0xd500")
    _device(tmp_path, "0000_03_00.0", "0x19e5", "0x020000", "0x0222")
    _device(tmp_path, "0000_04_00.0", "0x1002", "0x120000", "0x74a1")
    (tmp_path / "dev").mkdir()
    for name in ("davinci10", "davinci2", "vdavinci100", "davinci_manager", "davinci", "null"):
        (tmp_path / "dev" / name).touch()
    files = ascend_files.parse_files(
        ascend_files.read_files(SystemView(str(tmp_path), {}, system="Linux"))
    )
    assert files.devices == (0xD500, 0xD802)
    assert files.nodes == ("/dev/davinci2", "/dev/davinci10", "/dev/vdavinci100")
    assert [e.source for e in files.evidence if e.value == "exists"][-1] == "/dev/davinci_manager"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Version=24.1.rc3\nascendhal_version=7.35.23\npackage_version=24.1.rc3", "24.1.rc3"),
        ("ascendhal_version=7.35.23\r\nVersion=23.0.3\r\n", "23.0.3"),
        ("package_version=24.1.rc3", None),
        ("", None),
    ],
)
def test_the_driver_s_file(text: str, version: str | None) -> None:
    """P-142, P-143: its own version, and none of its parts'."""
    files = ascend_files.parse_files(AscendSigns((), (), text))
    assert files.driver_version == version
    assert files.evidence[0].source == "/usr/local/Ascend/driver/version.info"


def test_nothing_there(tmp_path: Path) -> None:
    """P-74: no error."""
    signs = ascend_files.read_files(SystemView(str(tmp_path), {}, system="Linux"))
    assert ascend_files.parse_files(signs) == AscendFiles()


def test_devices_are_told_with_their_numbers() -> None:
    """P-75: enough to look them up elsewhere."""
    device = PciDevice("0000:c1:00.0", 0x120000, 0x19E5, 0xD802)
    (seen,) = ascend_files.parse_files(AscendSigns((device,), (), None)).evidence
    assert (seen.source, seen.value) == ("/sys/bus/pci/devices/0000:c1:00.0", "NPU 19e5:d802")
