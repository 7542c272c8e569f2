"""What NVIDIA's part of the kernel tells of GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.testing.drivers import add_nvidia_gpu
from wheelfit_runtime.loader.driver import read_driver
from wheelfit_runtime.platforms.providers.nvidia import kernel as nvidia_kernel
from wheelfit_runtime.platforms.system_view import SystemView

if TYPE_CHECKING:
    from pathlib import Path

V100 = "Tesla V100-SXM2-16GB"


def _gpus(root: Path) -> list[tuple[int, str, str, int | None]]:
    """Return what is found, once as a provider looks and once as a program that starts."""
    here = SystemView(root=str(root), environ={})
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
    version = tmp_path / "proc/driver/nvidia/version"
    version.parent.mkdir(parents=True)
    version.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27\n")
    assert read_driver(str(tmp_path), ()).kernel == "580.65.06"
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    (tmp_path / "sys/module/nvidia/version").write_text("580.82.07\n")
    assert read_driver(str(tmp_path), ()).kernel == "580.82.07"


def test_the_fingerprint(tmp_path: Path) -> None:
    """Another kind of GPU is another machine; one more of a kind is none."""
    add_nvidia_gpu(tmp_path / "a", 0, V100, 0x1DB1)
    one = read_driver(str(tmp_path / "a"), ()).fingerprint
    add_nvidia_gpu(tmp_path / "a", 1, V100, 0x1DB1)
    assert read_driver(str(tmp_path / "a"), ()).fingerprint == one
    add_nvidia_gpu(tmp_path / "b", 0, "Tesla T4", 0x1EB8)
    assert read_driver(str(tmp_path / "b"), ()).fingerprint != one
