"""P-140: what Huawei's tool says of NPUs, in the tables of several of its versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wheelfit_runtime.platforms.child_processes import Answer, Ending
from wheelfit_runtime.platforms.providers.ascend import probes
from wheelfit_runtime.platforms.providers.ascend.probes import AscendCard, NpuTable
from wheelfit_runtime.platforms.system_view import SystemView

if TYPE_CHECKING:
    from pathlib import Path

    from wheelfit_runtime.platforms.child_processes import Question

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


class _Tool:
    """Keep what was asked."""

    def __init__(self) -> None:
        self.asked: list[Question] = []

    def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        return _answer(WIDE)


def test_the_tool_is_asked_once_without_masks(tmp_path: Path) -> None:
    """P-37, P-143: with a deadline, and about the machine."""
    (tmp_path / "usr/local/bin").mkdir(parents=True)
    (tmp_path / "usr/local/bin/npu-smi").touch()
    tool = _Tool()
    environ = {"PATH": "/bin:/usr/local/bin", "ASCEND_RT_VISIBLE_DEVICES": "0", "HOME": "/"}
    seen = SystemView(str(tmp_path), environ, system="Linux", processes=tool, deadline=2.0)
    assert probes.ask_npu_smi(seen) == _answer(WIDE)
    (question,) = tool.asked
    assert question.name == "npu-smi info"
    assert question.arguments == (str(tmp_path / "usr/local/bin/npu-smi"), "info")
    assert (set(question.environ), question.deadline) == ({"PATH", "HOME"}, 2.0)


def test_without_the_tool_nobody_is_asked(tmp_path: Path) -> None:
    """P-143: it is found on the PATH, or not at all."""
    tool = _Tool()
    seen = SystemView(str(tmp_path), {"PATH": "/usr/bin"}, system="Linux", processes=tool)
    assert probes.ask_npu_smi(seen) is None
    assert tool.asked == []
