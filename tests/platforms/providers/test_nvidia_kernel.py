"""What NVIDIA's part of the kernel tells of GPUs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from platforms.detecting import view_of, write_files

from wheelfit.testing.drivers import add_nvidia_gpu
from wheelfit_runtime.loader.driver import read_driver
from wheelfit_runtime.platforms.providers.nvidia import kernel as nvidia_kernel
from wheelfit_runtime.platforms.providers.nvidia import tables as nvidia
from wheelfit_runtime.platforms.providers.nvidia.kernel import FIRST_DEVICE

V100 = "Tesla V100-SXM2-16GB"


def _gpus(root: Path) -> list[tuple[int, str, str, int | None]]:
    """Return what is found, once as a provider looks and once as a program that starts."""
    here = view_of(root)
    found = nvidia_kernel.gpus(here.read_text, here.children, here.exists)
    again = read_driver(str(root), ()).gpus
    told = [(one.index, one.model, one.uuid, one.device) for one in found]
    assert told == [(one.index, one.model, one.uuid, one.device) for one in again]
    return told


def test_gpus(tmp_path: Path) -> None:
    """P-96: model and identifier come from the driver, the id from the bus."""
    add_nvidia_gpu(tmp_path, 0, V100, 0x1DB1)
    add_nvidia_gpu(tmp_path, 1, "Tesla T4", 0x1EB8)
    assert _gpus(tmp_path) == [
        (0, V100, "GPU-00000000", 0x1DB1),
        (1, "Tesla T4", "GPU-00000001", 0x1EB8),
    ]


def test_gpus_of_others(tmp_path: Path) -> None:
    """A GPU without a device file belongs to another container, an excluded one to nobody."""
    (add_nvidia_gpu(tmp_path, 0, V100, 0x1DB1) / "dev/nvidia0").unlink()
    add_nvidia_gpu(tmp_path, 1, V100, 0x1DB1, excluded=True)
    add_nvidia_gpu(tmp_path, 2, "Tesla T4", 0x1EB8)
    assert _gpus(tmp_path) == [(0, "Tesla T4", "GPU-00000002", 0x1EB8)]


def test_nothing_is_told(tmp_path: Path) -> None:
    """P-74: without files there is no GPU, and without an id or a model there is none of these."""
    assert _gpus(tmp_path) == []
    add_nvidia_gpu(tmp_path, 0, "Unknown", None)
    assert _gpus(tmp_path) == [(0, "", "GPU-00000000", None)]


def test_the_release(tmp_path: Path) -> None:
    """The module's own file counts, else what the driver says of itself."""
    text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27\n"
    write_files(tmp_path, {"proc/driver/nvidia/version": text})
    assert read_driver(str(tmp_path), ()).kernel == "580.65.06"
    write_files(tmp_path, {"sys/module/nvidia/version": "580.82.07\n"})
    assert read_driver(str(tmp_path), ()).kernel == "580.82.07"


def test_the_fingerprint(tmp_path: Path) -> None:
    """Another kind of GPU is another machine; one more of a kind is none."""
    add_nvidia_gpu(tmp_path / "a", 0, V100, 0x1DB1)
    one = read_driver(str(tmp_path / "a"), ()).fingerprint
    add_nvidia_gpu(tmp_path / "a", 1, V100, 0x1DB1)
    assert read_driver(str(tmp_path / "a"), ()).fingerprint == one
    add_nvidia_gpu(tmp_path / "b", 0, "Tesla T4", 0x1EB8)
    assert read_driver(str(tmp_path / "b"), ()).fingerprint != one


# --- p-95: which GPUs a CUDA major has no code for, told by their ids -----------------------------


LIST = Path("/usr/share/misc/pci.ids")
"""Where Debian's package ``pci.ids`` puts the list of the PCI ID Project."""
_NEWEST = {"GF": 2.1, "GK": 3.7, "GM": 5.3, "GP": 6.2, "GV": 7.0}
"""The newest capability of the chips that are older than Turing, by how their names begin."""
_CHIP = re.compile(r"\t([0-9a-f]{4})  (GF|GK|GM|GP|GV|TU|GA|AD|GH|GB)[0-9B]")
_NO_GPU = re.compile(r"Audio|USB|UCSI|Root|Switch|Bridge|Controller")


@pytest.mark.parametrize(
    ("device", "capability"),
    [
        (0x102D, (3, 7)),  # Tesla K80
        (0x1140, (2, 1)),  # GeForce 610M
        (0x130B, (3, 5)),  # the highest of Kepler
        (0x1340, (5, 0)),  # GeForce 830M, the lowest of Maxwell
        (0x13F2, (5, 2)),  # Tesla M60
        (0x15F8, (6, 0)),  # Tesla P100
        (0x174D, (5, 0)),  # GeForce MX130, higher than a P100 and older
        (0x1B80, (6, 1)),  # GeForce GTX 1080
        (0x1DB1, (7, 0)),  # Tesla V100
        (0x1DF6, (7, 0)),  # Tesla V100S, the highest of Volta
        (0x1E02, (7, 5)),  # Titan RTX, the lowest of Turing
        (0x1EB8, (7, 5)),  # Tesla T4
        (0x2182, (7, 5)),  # GeForce GTX 1660 Ti
        (0x20B0, (8, 0)),  # A100
        (0x2330, (9, 0)),  # H100
        (0x2B85, (12, 0)),  # GeForce RTX 5090
    ],
)
def test_known_devices(device: int, capability: tuple[int, int]) -> None:
    """An id is too low exactly where the capability is."""
    for major, first in FIRST_DEVICE.items():
        assert (device < first) is (capability < nvidia.CUDA_CODE_FLOOR[major])


@pytest.mark.corpora
@pytest.mark.skipif(not LIST.exists(), reason="needs the list of the PCI ID Project")
def test_every_device() -> None:
    """The list of the PCI ID Project has no GPU that the table is wrong about."""
    _, _, rest = LIST.read_text("utf-8", "replace").partition("\n10de  ")
    lines = re.split(r"\n(?=[0-9a-f]{4}  )", rest)[0].split("\n")
    chips = [match for line in lines if not _NO_GPU.search(line) if (match := _CHIP.match(line))]
    assert len(chips) > 500
    for match in chips:
        newest = _NEWEST.get(match[2], 99.0)
        for major, first in FIRST_DEVICE.items():
            floor = float(str(nvidia.CUDA_CODE_FLOOR[major]))
            assert (int(match[1], 16) < first) is (newest < floor), match.string
