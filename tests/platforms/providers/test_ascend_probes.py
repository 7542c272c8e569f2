"""What files and Huawei's tool say of NPUs, their driver and CANN."""

from __future__ import annotations

from pathlib import Path

import pytest
from platforms.detecting import FakeProcesses, add_device, touch, view_of, write_files

from wheelfit_runtime.platforms.child_processes import Answer, Ending
from wheelfit_runtime.platforms.probes.pci_devices import PciDevice
from wheelfit_runtime.platforms.providers.ascend import probes
from wheelfit_runtime.platforms.providers.ascend.probes import (
    AscendCard,
    AscendFiles,
    AscendSigns,
    NpuTable,
)
from wheelfit_runtime.platforms.system_view import SystemView


def test_npus_are_processing_accelerators_of_huawei(tmp_path: Path) -> None:
    """P-143: its network cards and disks are not, nor are other makers' accelerators."""
    for address, vendor, kind, device in (
        ("0000_c1_00.0", "0x19e5", "0x120000", "0xd802"),
        ("0000_02_00.0", "0x19e5", "0x120000", "0xd500"),
        ("0000_03_00.0", "0x19e5", "0x020000", "0x0222"),
        ("0000_04_00.0", "0x1002", "0x120000", "0x74a1"),
    ):
        add_device(tmp_path, address, vendor=vendor, kind=kind, device=device)
    nodes = ("davinci10", "davinci2", "vdavinci100", "davinci_manager", "davinci", "null")
    touch(tmp_path / "dev", *nodes)
    files = probes.parse_files(probes.read_files(view_of(tmp_path)))
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
    files = probes.parse_files(AscendSigns((), (), text))
    assert files.driver_version == version
    assert files.evidence[0].source == "/usr/local/Ascend/driver/version.info"


def test_nothing_there(tmp_path: Path) -> None:
    """P-74: no error."""
    signs = probes.read_files(view_of(tmp_path))
    assert probes.parse_files(signs) == AscendFiles()


def test_devices_are_told_with_their_numbers() -> None:
    """P-75: enough to look them up elsewhere."""
    device = PciDevice("0000:c1:00.0", 0x120000, 0x19E5, 0xD802)
    (seen,) = probes.parse_files(AscendSigns((device,), (), None)).evidence
    assert (seen.source, seen.value) == ("/sys/bus/pci/devices/0000:c1:00.0", "NPU 19e5:d802")


# --- p-142, P-143: which CANN toolkit is installed ------------------------------------------------


LATEST = "/usr/local/Ascend/ascend-toolkit/latest"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("package_name=Ascend-cann-toolkit\nversion=8.2.RC1\ninnerversion=V100R001", "8.2.RC1"),
        ("innerversion=V100R001C22\nversion=8.5.0\r\narch=aarch64", "8.5.0"),
        ("# version: 1.0\nopp_running_version=[7.0.0]\ntoolkit_running_version=[7.5.0:8.0.RC3]",
         "8.0.RC3"),
        ("toolkit_running_version=[8.0.RC3]", "8.0.RC3"),
        ("toolkit_running_version=[]", None),
        ("innerversion=V100", None),
        ("", None),
    ],
)  # fmt: skip
def test_both_kinds_of_file(text: str, version: str | None) -> None:
    """P-142, P-143: the toolkit's version, and none of its parts'."""
    assert probes.parse_cann(text) == version


def test_the_places_in_their_order(tmp_path: Path) -> None:
    """P-142, P-143: where the variable says, then the usual places; by architecture first."""
    places = [
        "/srv/cann/version.cfg",
        f"{LATEST}/x86_64-linux/ascend_toolkit_install.info",
        f"{LATEST}/version.cfg",
        "/usr/local/Ascend/cann/x86_64-linux/ascend_toolkit_install.info",
    ]
    elsewhere = f"{LATEST}/aarch64-linux/ascend_toolkit_install.info"
    write_files(tmp_path, {name: name for name in (*places, elsewhere)})
    seen = view_of(tmp_path, {"ASCEND_TOOLKIT_HOME": "/srv/cann/"})
    assert [file[0] for file in probes.read_cann(seen)] == places


def test_nothing_is_installed(tmp_path: Path) -> None:
    """P-74: nothing there is no error."""
    assert probes.read_cann(SystemView(str(tmp_path), {"ASCEND_TOOLKIT_HOME": "/gone"})) == ()


# --- p-140: what Huawei's tool says of NPUs, in the tables of several of its versions -------------


NARROW = """+------------------------------------------------------------------------------+
| npu-smi 23.0.rc3                                 Version: 23.0.rc3           |
+--------------+-------------+-------------------------------------------------+
| NPU   Name   | Health      | Power(W)  Temp(C)           Hugepages-Usage(page|
| Chip  Device | Bus-Id      | AICore(%) Memory-Usage(MB)                      |
+============================+===========+====================================+
| 0     310P3  | OK          | NA        51                996   / 996         |
| 0     0      | 0000:01:00.0| 0         3841 / 21527                          |
+==============+=============+=================================================+
| 64    310P3  | Alarm       | NA        48                0     / 0           |
| 0     1      | 0000:06:00.0| 0         1764 / 21527                          |
+==============+=================+=============================================+
"""

WIDE = """
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.0.3                 Version: 24.1.0.3                                             |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 0     910B3               | OK            | 94.7        54                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3396 / 65536         |
+===========================+===============+====================================================+
| 1     910B4-1             | Warning       | 94.9        52                0    / 0             |
| 0                         | 0000:01:00.0  | 0           0    / 0          3394 / 65536         |
+===========================+===============+====================================================+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       910               | 777           | python                   | 26322                   |
| No running processes found in NPU 1                                                            |
+===========================+===============+====================================================+
"""

TWO_CHIPS = """
| npu-smi 26.0.rc2                            Version: 26.0.rc2                                |
| NPU   Name                | Health        | Power(W)             Temp(C)                     |
| Chip  Phy-ID              | Bus-Id        | AICore(%)            Memory-Usage(MB)            |
| 0     Ascend910           | OK            | 162.6                34                          |
| 0     0                   | 0000:9D:00.0  | 0                    0    / 0                    |
| 0     Ascend910           | OK            | -                    34                          |
| 1     128                 | 0000:9F:00.0  | 0                    0    / 0                    |
| 1     Ascend910           | Critical      | 186.3                36                          |
| 0     130                 | NA            | 0                    0    / 0                    |
"""


def _answer(text: str, ending: Ending = Ending.EXITED, code: int = 0) -> Answer:
    return Answer(ending, code, text.encode())


@pytest.mark.parametrize(
    ("text", "table"),
    [
        (NARROW, NpuTable((AscendCard(0, "310p3"), AscendCard(64, "310p3")), "23.0.rc3")),
        (WIDE, NpuTable((AscendCard(0, "910b3"), AscendCard(1, "910b4-1")), "24.1.0.3")),
        ("| 0     910_9392    | OK | 1 |", NpuTable((AscendCard(0, "910_9392"),), None)),
        ("| 0     Ascend 950PR | OK | 1 |", NpuTable((AscendCard(0, "950pr"),), None)),
        ("| 3     310         | OK | 1 |\r\n", NpuTable((AscendCard(3, "310"),), None)),
        ("DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n", NpuTable((), None)),
        ("", NpuTable((), None)),
    ],
)
def test_cards_and_version(text: str, table: NpuTable) -> None:
    """P-140, P-142: rows of cards are told from those of chips, headings and processes."""
    assert probes.parse_npu_smi(_answer(text)) == table


def test_a_card_with_two_chips_is_one_card() -> None:
    """P-140, P-141: the number of a chip is not taken for its name."""
    table = probes.parse_npu_smi(_answer(TWO_CHIPS))
    assert table.driver_version == "26.0.rc2"
    assert table.cards == (AscendCard(0, "910"), AscendCard(1, "910"))


@pytest.mark.parametrize(
    "answer", [_answer(WIDE, code=1), _answer(WIDE, Ending.LATE), _answer("", Ending.NOT_STARTED)]
)
def test_a_tool_that_failed_says_nothing(answer: Answer) -> None:
    """P-74, P-143: what it printed before is not to be trusted."""
    assert probes.parse_npu_smi(answer) == NpuTable((), None)


def test_the_tool_is_asked_once_without_masks(tmp_path: Path) -> None:
    """P-37, P-143: with a deadline, and about the machine."""
    touch(tmp_path, "usr/local/bin/npu-smi")
    tool = FakeProcesses(_answer(WIDE))
    environ = {"PATH": "/bin:/usr/local/bin", "ASCEND_RT_VISIBLE_DEVICES": "0", "HOME": "/"}
    seen = view_of(tmp_path, environ, processes=tool, deadline=2.0)
    assert probes.ask_npu_smi(seen) == _answer(WIDE)
    (question,) = tool.questions
    assert question.name == "npu-smi info"
    assert question.arguments == (str(tmp_path / "usr/local/bin/npu-smi"), "info")
    assert (set(question.environ), question.deadline) == ({"PATH", "HOME"}, 2.0)


def test_without_the_tool_nobody_is_asked(tmp_path: Path) -> None:
    """P-143: it is found on the PATH, or not at all."""
    tool = FakeProcesses(_answer(WIDE))
    assert probes.ask_npu_smi(view_of(tmp_path, {"PATH": "/usr/bin"}, processes=tool)) is None
    assert tool.asked == []
