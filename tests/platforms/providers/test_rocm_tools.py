"""P-125: what AMD's tools say of GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wheelfit_runtime.platforms.child_processes import Answer, Ending
from wheelfit_runtime.platforms.providers.amd import probes
from wheelfit_runtime.platforms.providers.amd.probes import AmdGpu, ToolAnswer
from wheelfit_runtime.platforms.system_view import SystemView

if TYPE_CHECKING:
    from pathlib import Path

    from wheelfit_runtime.platforms.child_processes import Question

ENUMERATOR = "rocm_agent_enumerator -name"

ROCMINFO = """ROCk module is loaded
==========
HSA Agents
==========
*******
Agent 1
*******
  Name:                    AMD Ryzen 9 7950X 16-Core Processor
  Node:                    0
  Device Type:             CPU
*******
Agent 2
*******
  Name:                    gfx1100
  Marketing Name:          AMD Radeon RX 7900 XTX
  Node:                    1
  Device Type:             GPU
  Memory Properties:
  ISA Info:
    ISA 1
      Name:                    amdgcn-amd-amdhsa--gfx1100
    ISA 2
      Name:                    amdgcn-amd-amdhsa--gfx11-generic
*******
Agent 3
*******
  Name:                    gfx942
  Node:                    7
  Device Type:             GPU
  Memory Properties:       APU
*******
Agent 4
*******
  Name:                    aie2
  Device Type:             DSP
*** Done ***
"""

AMD_CLINFO = """Number of platforms:\t\t\t\t 1
  Platform Name:\t\t\t\t AMD Accelerated Parallel Processing
Number of devices:\t\t\t\t 2
  Device Type:\t\t\t\t\t CL_DEVICE_TYPE_GPU
  Board name:\t\t\t\t\t AMD Radeon(TM) Graphics
  Name:\t\t\t\t\t\t gfx1036
  Vendor:\t\t\t\t\t Advanced Micro Devices, Inc.
  Device Type:\t\t\t\t\t CL_DEVICE_TYPE_CPU
  Name:\t\t\t\t\t\t gfx9999
  Device Type:\t\t\t\t\t CL_DEVICE_TYPE_GPU
  Name:\t\t\t\t\t\t gfx1201
"""

OTHER_CLINFO = """Number of platforms                               2
  Platform Name                                   AMD Accelerated Parallel Processing
  Device Name                                     gfx90a:sramecc+:xnack-
  Device Vendor                                   Advanced Micro Devices, Inc.
  Device Type                                     GPU
  Platform Name                                   NVIDIA CUDA
  Device Name                                     NVIDIA GeForce RTX 4090
  Device Type                                     GPU
"""


def _told(name: str, text: str, ending: Ending = Ending.EXITED, code: int = 0) -> ToolAnswer:
    return ToolAnswer(name, Answer(ending, code, text.encode()))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gfx000\ngfx942\ngfx942\n", ["gfx942", "gfx942"]),
        ("gfx950:sramecc+:xnack-\ngfx9-4-generic:sramecc+:xnack-\n", ["gfx950"]),
        ("gfx11-generic\ngfx12-generic\ngfx10-3-generic\n", []),
        ("pid:1582 [topology_sysfs_get_system_props] No WDDM adapters found.\n", []),
        ("amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-\n", ["gfx90a"]),
        ("GFX1100\r\n", ["gfx1100"]),
        ("gfx1250-strict\ngfx", []),
    ],
)
def test_a_list_of_names(text: str, names: list[str]) -> None:
    """P-121, P-125: processors (gfx000) and names of code for many GPUs are left out."""
    assert [gpu.name for gpu in probes.gpus_of_tool(_told(ENUMERATOR, text))] == names


def test_agents() -> None:
    """P-125: the name of a GPU agent is its first one, the ones below are of its code."""
    assert probes.gpus_of_tool(_told("rocminfo", ROCMINFO)) == (
        AmdGpu(1, "gfx1100"),
        AmdGpu(7, "gfx942", integrated=True),
    )


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        (AMD_CLINFO, (AmdGpu(0, "gfx1036", integrated=True), AmdGpu(1, "gfx1201"))),
        (AMD_CLINFO.replace("\n", "\r\n"), (AmdGpu(0, "gfx1036", integrated=True),
                                            AmdGpu(1, "gfx1201"))),
        (OTHER_CLINFO, (AmdGpu(0, "gfx90a"),)),
        ("Number of platforms: 0", ()),
    ],
)  # fmt: skip
def test_devices_of_opencl(text: str, gpus: tuple[AmdGpu, ...]) -> None:
    """P-125: two tools of one name order the lines of a device differently."""
    assert probes.gpus_of_tool(_told("clinfo", text)) == gpus


@pytest.mark.parametrize(
    "told",
    [
        _told(ENUMERATOR, "gfx942", code=1),
        _told(ENUMERATOR, "gfx942", Ending.LATE),
        _told("rocminfo", ROCMINFO, Ending.KILLED, 11),
        _told("rocminfo", "", Ending.NOT_STARTED),
    ],
)
def test_a_tool_that_failed_names_nothing(told: ToolAnswer) -> None:
    """P-74, P-125: what it printed before is not to be trusted."""
    assert probes.gpus_of_tool(told) == ()


class _Tools:
    """Answer as tools would, and keep what was asked."""

    def __init__(self, **answers: Answer) -> None:
        self.answers = answers
        self.asked: list[Question] = []

    def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        return self.answers[question.name.partition(" ")[0]]


def _surroundings(root: Path, tools: _Tools, system: str = "Linux") -> SystemView:
    names = ("opt/rocm/bin/rocm_agent_enumerator", "usr/bin/rocminfo", "C/Tools/clinfo.exe")
    for name in names:
        (root / name).parent.mkdir(parents=True)
        (root / name).touch()
    environ = {
        "PATH": r"C:\Tools" if system == "Windows" else "/usr/bin",
        "ROCR_VISIBLE_DEVICES": "",
        "HSA_OVERRIDE_GFX_VERSION": "10.3.0",
        "HSA_OVERRIDE_GFX_VERSION_1": "11.0.0",
        "HOME": "/home/me",
    }
    return SystemView(str(root), environ, system=system, processes=tools, deadline=3.0)


def test_the_second_tool_is_asked_if_the_first_knows_nothing(tmp_path: Path) -> None:
    """P-125: tools lie on the PATH or where ROCm is; what hides GPUs is kept from them."""
    tools = _Tools(
        rocm_agent_enumerator=Answer(Ending.EXITED, 0, b""),
        rocminfo=Answer(Ending.EXITED, 0, ROCMINFO.encode()),
    )
    told = probes.ask_tools(_surroundings(tmp_path, tools), ["/opt/rocm"])
    assert [one.name for one in told] == [ENUMERATOR, "rocminfo"]
    first, second = tools.asked
    assert first.arguments[0].endswith("/opt/rocm/bin/rocm_agent_enumerator")
    assert second.arguments[0].endswith("/usr/bin/rocminfo")
    assert set(first.environ) == {"PATH", "HOME"}
    assert first.deadline == 3.0


@pytest.mark.parametrize(
    "answer", [Answer(Ending.EXITED, 0, b"gfx000\ngfx942\n"), Answer(Ending.LATE)]
)
def test_the_second_tool_is_not_asked_in_vain(tmp_path: Path, answer: Answer) -> None:
    """P-37, P-125: after an answer it is not needed, after a hang it would hang too."""
    tools = _Tools(rocm_agent_enumerator=answer)
    told = probes.ask_tools(_surroundings(tmp_path, tools), ["/opt/rocm"])
    assert told == (ToolAnswer(ENUMERATOR, answer),)


def test_windows_has_another_tool(tmp_path: Path) -> None:
    """P-125: clinfo, wherever the PATH leads."""
    tools = _Tools(clinfo=Answer(Ending.EXITED, 0, AMD_CLINFO.encode()))
    told = probes.ask_tools(_surroundings(tmp_path, tools, "Windows"), ["/opt/rocm"])
    assert [one.name for one in told] == ["clinfo"]
