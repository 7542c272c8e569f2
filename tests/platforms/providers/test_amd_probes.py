"""What files and AMD's tools say of GPUs and ROCm."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from platforms.detecting import FakeProcesses, touch, view_of, write_files

from wheelfit_runtime.platforms.child_processes import Answer, Ending
from wheelfit_runtime.platforms.providers.amd import probes, tables
from wheelfit_runtime.platforms.providers.amd.probes import (
    AmdGpu,
    KfdFiles,
    KfdTopology,
    ToolAnswer,
)
from wheelfit_runtime.platforms.system_view import SystemView

CPU = "cpu_cores_count 16\nsimd_count 0\ngfx_target_version 0\ndrm_render_minor 0\n"


def _gpu(version: int, minor: int = 128, cores: int = 0) -> str:
    return (
        f"cpu_cores_count {cores}\nsimd_count 80\ngfx_target_version {version}\n"
        f"hive_id 16118294370166583000\ndrm_render_minor {minor}\n"
    )


def _topology(nodes: Mapping[int, str | None], *devices: str) -> KfdTopology:
    return probes.parse_kfd(KfdFiles(nodes, "6.12.12", frozenset(devices)))


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (90000, "gfx900"), (90006, "gfx906"), (90008, "gfx908"), (90010, "gfx90a"),
        (90012, "gfx90c"), (90402, "gfx942"), (90500, "gfx950"), (100306, "gfx1036"),
        (110003, "gfx1103"), (110501, "gfx1151"), (120001, "gfx1201"), (120500, "gfx1250"),
        (0, None), (99, None), (91600, None), (90016, None), (1000000, None), (10**18, None),
    ],
)  # fmt: skip
def test_the_number_of_a_target_is_its_name(version: int, name: str | None) -> None:
    """P-124: major in decimal, minor and stepping in hexadecimal; what cannot be is not a name."""
    assert probes.target_name(version) == name


def test_every_known_name_has_a_number() -> None:
    """P-121, P-124: the table of names and the arithmetic agree on all of them."""
    names = {
        probes.target_name(major * 10000 + minor * 100 + stepping)
        for major in range(9, 13)
        for minor in range(16)
        for stepping in range(16)
    }
    assert {*tables.PUBLISHED_GFX, *tables.APPENDED_GFX, *tables.INTEGRATED_GFX} <= names


def test_nodes_of_processors_are_no_gpus() -> None:
    """P-124: a node without SIMD units is a processor."""
    topology = _topology({0: CPU, 1: CPU})
    assert (topology.is_listed, topology.gpus) == (True, ())


def test_gpus_keep_the_order_of_their_nodes() -> None:
    """P-122, P-124: by number, so that node 10 comes after node 2."""
    nodes = {10: _gpu(90402, 130), 2: _gpu(90010, 129), 0: CPU}
    devices = ("/dev/kfd", "/dev/dri/renderD129", "/dev/dri/renderD130")
    assert _topology(nodes, *devices).gpus == (AmdGpu(2, "gfx90a"), AmdGpu(10, "gfx942"))


@pytest.mark.parametrize(
    ("devices", "text", "words"),
    [
        ((), _gpu(90402), "/dev/kfd does not exist"),
        (("/dev/kfd",), _gpu(90402), "/dev/dri/renderD128 does not exist"),
        (("/dev/kfd", "/dev/dri/renderD128"), _gpu(90402, 129), "renderD129 does not exist"),
        (("/dev/kfd", "/dev/dri/renderD0"), _gpu(90402, 0), "no render node"),
        (("/dev/kfd", "/dev/dri/renderD128"), _gpu(0), "does not list its architecture"),
    ],
)
def test_a_gpu_that_cannot_be_used_says_why(
    devices: tuple[str, ...], text: str, words: str
) -> None:
    """P-124: a container has only the devices that it was given."""
    topology = _topology({1: text}, *devices)
    assert words in topology.gpus[0].problem
    assert topology.evidence[-1].value == f"cannot be used: {topology.gpus[0].problem}"


def test_a_node_that_is_hidden_is_told() -> None:
    """P-74, P-124: the kernel refuses to show a container what it was not given."""
    topology = _topology({0: CPU, 1: None})
    assert (topology.is_listed, topology.gpus) == (True, ())
    assert topology.evidence[-1].value == "cannot be read"


@pytest.mark.parametrize(
    ("text", "integrated"),
    [(_gpu(100306), True), (_gpu(110501), True), (_gpu(110000), False), (_gpu(90402), False),
     (_gpu(130000), False), (_gpu(90000, cores=8), True)],
)  # fmt: skip
def test_integrated_gpus_are_known_by_their_code(text: str, integrated: bool) -> None:  # noqa: FBT001
    """P-122: by name, or because the kernel shows them and the processor as one node."""
    gpu = _topology({1: text}, "/dev/kfd", "/dev/dri/renderD128").gpus[0]
    assert (gpu.integrated, gpu.problem) == (integrated, "")


def test_reading_looks_for_the_devices_of_each_gpu(tmp_path: Path) -> None:
    """P-70, P-124: everything below the root; what is not a number of a node is not a node."""
    nodes = tmp_path / "sys/class/kfd/kfd/topology/nodes"
    texts = {"0": CPU, "1": _gpu(90402), "2": _gpu(90402, 136), "x": ""}
    write_files(nodes, {f"{name}/properties": text for name, text in texts.items()})
    (nodes / "3").mkdir()
    (tmp_path / "sys/module/amdgpu").mkdir(parents=True)
    touch(tmp_path, "dev/kfd", "dev/dri/renderD136", "dev/dri/renderD200")
    files = probes.read_kfd(view_of(tmp_path))
    assert files.properties == {0: CPU.strip(), 1: _gpu(90402).strip(),
                                2: _gpu(90402, 136).strip(), 3: None}  # fmt: skip
    assert files.devices == {"/dev/kfd", "/dev/dri/renderD136"}
    assert files.module == ""


def test_a_machine_without_the_driver(tmp_path: Path) -> None:
    """P-74: nothing there is no error."""
    files = probes.read_kfd(view_of(tmp_path))
    assert files == KfdFiles({}, None, frozenset())
    assert probes.parse_kfd(files) == KfdTopology()


# --- p-124: which ROCm is installed ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("6.4.1-83", (6, 4)), ("7.0.0", (7, 0)), ("5.7.1-98\n", (5, 7)), ("7.10", (7, 10)),
        ("7.1.0~20251101", (7, 1)), ("", None), ("7", None), ("rocm-6.4", None), ("x.y", None),
        ("12345.6", None),
    ],
)  # fmt: skip
def test_major_and_minor_count(text: str, version: tuple[int, int] | None) -> None:
    """P-124: what follows them does not matter; what is not a version is none."""
    assert probes.parse_release(text) == version


def test_the_places_in_their_order(tmp_path: Path) -> None:
    """P-124: where the variable says, at the usual place, then the newest beside it."""
    texts = {"srv/rocm": "5.0.0", "opt/rocm": "6.4.1-83", "opt/rocm-6.10.0": "6.10.0",
             "opt/rocm-6.9.3": "6.9.3-1", "opt/rocm-7.0": "7.0.0",
             "opt/rocm-next": "9.9.9"}  # fmt: skip
    write_files(tmp_path, {f"{folder}/.info/version": text for folder, text in texts.items()})
    (tmp_path / "opt/rocm-8.0.0/lib").mkdir(parents=True)
    files = probes.read_release(view_of(tmp_path, {"ROCM_PATH": "/srv/rocm/"}))
    assert [file[1] for file in files] == ["5.0.0", "6.4.1-83", "7.0.0", "6.10.0", "6.9.3-1"]
    assert files[0][0] == "/srv/rocm/.info/version"


def test_nothing_is_installed(tmp_path: Path) -> None:
    """P-74: nothing there is no error, and a variable that leads nowhere neither."""
    assert probes.read_release(SystemView(str(tmp_path), {"ROCM_PATH": "/gone"})) == ()


# --- p-125: what AMD's tools say of GPUs ----------------------------------------------------------


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


def _surroundings(root: Path, tools: FakeProcesses, system: str = "Linux") -> SystemView:
    touch(root, "opt/rocm/bin/rocm_agent_enumerator", "usr/bin/rocminfo", "C/Tools/clinfo.exe")
    environ = {
        "PATH": r"C:\Tools" if system == "Windows" else "/usr/bin",
        "ROCR_VISIBLE_DEVICES": "",
        "HSA_OVERRIDE_GFX_VERSION": "10.3.0",
        "HSA_OVERRIDE_GFX_VERSION_1": "11.0.0",
        "HOME": "/home/me",
    }
    return view_of(root, environ, system=system, processes=tools, deadline=3.0)


def test_the_second_tool_is_asked_if_the_first_knows_nothing(tmp_path: Path) -> None:
    """P-125: tools lie on the PATH or where ROCm is; what hides GPUs is kept from them."""
    empty, filled = (Answer(Ending.EXITED, 0, text.encode()) for text in ("", ROCMINFO))
    tools = FakeProcesses({"rocm_agent_enumerator": empty, "rocminfo": filled})
    told = probes.ask_tools(_surroundings(tmp_path, tools), ["/opt/rocm"])
    assert [one.name for one in told] == [ENUMERATOR, "rocminfo"]
    first, second = tools.questions
    assert first.arguments[0].endswith("/opt/rocm/bin/rocm_agent_enumerator")
    assert second.arguments[0].endswith("/usr/bin/rocminfo")
    assert set(first.environ) == {"PATH", "HOME"}
    assert first.deadline == 3.0


@pytest.mark.parametrize(
    "answer", [Answer(Ending.EXITED, 0, b"gfx000\ngfx942\n"), Answer(Ending.LATE)]
)
def test_the_second_tool_is_not_asked_in_vain(tmp_path: Path, answer: Answer) -> None:
    """P-37, P-125: after an answer it is not needed, after a hang it would hang too."""
    tools = FakeProcesses({"rocm_agent_enumerator": answer})
    told = probes.ask_tools(_surroundings(tmp_path, tools), ["/opt/rocm"])
    assert told == (ToolAnswer(ENUMERATOR, answer),)


def test_windows_has_another_tool(tmp_path: Path) -> None:
    """P-125: clinfo, wherever the PATH leads."""
    tools = FakeProcesses({"clinfo": Answer(Ending.EXITED, 0, AMD_CLINFO.encode())})
    told = probes.ask_tools(_surroundings(tmp_path, tools, "Windows"), ["/opt/rocm"])
    assert [one.name for one in told] == ["clinfo"]
