"""P-124: what the kernel's files say of AMD GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wheelfit_runtime.platforms.providers.amd import probes, tables
from wheelfit_runtime.platforms.providers.amd.probes import AmdGpu, KfdFiles, KfdTopology
from wheelfit_runtime.platforms.system_view import SystemView

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

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
        (("/dev/kfd", "/dev/dri/renderD128"), _gpu(0), "does not say which code it runs"),
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
    for name, text in (("0", CPU), ("1", _gpu(90402)), ("2", _gpu(90402, 136)), ("x", "")):
        (nodes / name).mkdir(parents=True)
        (nodes / name / "properties").write_text(text)
    (nodes / "3").mkdir()
    (tmp_path / "sys/module/amdgpu").mkdir(parents=True)
    (tmp_path / "dev/dri").mkdir(parents=True)
    for name in ("dev/kfd", "dev/dri/renderD136", "dev/dri/renderD200"):
        (tmp_path / name).touch()
    files = probes.read_kfd(SystemView(str(tmp_path), {}, system="Linux"))
    assert files.properties == {0: CPU.strip(), 1: _gpu(90402).strip(),
                                2: _gpu(90402, 136).strip(), 3: None}  # fmt: skip
    assert files.devices == {"/dev/kfd", "/dev/dri/renderD136"}
    assert files.module == ""


def test_a_machine_without_the_driver(tmp_path: Path) -> None:
    """P-74: nothing there is no error."""
    files = probes.read_kfd(SystemView(str(tmp_path), {}, system="Linux"))
    assert files == KfdFiles({}, None, frozenset())
    assert probes.parse_kfd(files) == KfdTopology()
