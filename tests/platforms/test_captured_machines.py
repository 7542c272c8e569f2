"""P-76: captured machines are replayed; to add one, add a folder to ``tests/machines``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from platforms.detecting import MACHINES, detect_captured, names_of, values_of

from wheelfit_runtime.platforms.features import Status
from wheelfit_runtime.platforms.recording import as_expected, open_recorded


@pytest.mark.parametrize("folder", sorted(MACHINES.iterdir()), ids=lambda folder: folder.name)
def test_a_captured_machine_is_described_as_expected(folder: Path) -> None:
    """P-70, P-75, P-76: the same files and environment always give the same answer."""
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    assert as_expected(open_recorded(folder)) == expected


class TestMachinesThatPeopleHave:
    """The right answer for each, by hand: a build for CUDA or ROCm is chosen by nothing else."""

    @pytest.mark.parametrize(
        ("machine", "cuda", "code", "foreign"),
        [
            ("linux-x86-h100-580", "13.0", "90_real", "100_real"),
            ("linux-x86-v100-535", "12.2", "70_real", "75_real"),
            ("linux-x86-v100-new-driver", "13.0", "70_real", "75_real"),
            ("windows-x86-rtx5090", "13.0", "120_real", "90_real"),
            ("wsl-x86-rtx5090", "13.0", "120_real", "90_real"),
            ("linux-aarch64-jetson-orin", "12.6", "87_real", "89_real"),
            ("linux-aarch64-grace", "13.0", "90_real", "100_real"),
            ("linux-aarch64-gb200", "13.0", "100_real", "90_real"),
            ("linux-x86-laptop-igpu-beside-nvidia", "13.0", "89_real", "90_real"),
            ("linux-x86-mig-h100", "13.0", "90_real", "100_real"),
            ("linux-x86-mig-a100", "12.8", "80_real", "86_real"),
        ],
    )
    def test_nvidia(self, machine: str, cuda: str, code: str, foreign: str) -> None:
        """P-80, P-82, P-90: the driver's CUDA, the GPU's own code, and none of another kind."""
        detection = detect_captured("nvidia", machine)
        found = values_of(detection)
        assert found["cuda_version_lower_bound"][0] == cuda
        assert found["sm_arch"][0] == code
        assert foreign not in found["sm_arch"]
        assert detection.devices == ()

    def test_a_wheel_must_run_on_both_of_two_unlike_gpus(self) -> None:
        """P-88: builds for CUDA 13 leave the V100 out, the last ones for CUDA 12 do not."""
        found = detect_captured("nvidia", "linux-x86-v100-beside-h100")
        assert [device.device for device in found.devices] == [
            "GPU 1 (NVIDIA H100 PCIe, 9.0)",
            "GPU 0 (Tesla V100-PCIE-32GB, 7.0)",
        ]
        cu132 = {"75_real", "80_real", "86_real", "90_real", "100_real", "120_real"}
        cu126 = {"50_real", "60_real", "70_real", "75_real", "80_real", "86_real", "90_real"}
        assert [bool(device.values & cu132) for device in found.devices] == [True, False]
        assert [bool(device.values & cu126) for device in found.devices] == [True, True]

    @pytest.mark.parametrize(
        ("machine", "warning"),
        [
            ("linux-x86-container-void", "NVIDIA_VISIBLE_DEVICES hides the GPUs"),
            ("linux-x86-libraries-without-driver", "no NVIDIA driver is loaded"),
            ("linux-x86-amd-mi300x-rocm7", ""),
            ("macos-m3", ""),
        ],
    )
    def test_without_a_driver(self, machine: str, warning: str) -> None:
        """P-99: nothing is supported; what is in the way is said where there are signs of it."""
        found = detect_captured("nvidia", machine)
        assert (found.status, found.features) == (Status.NOTHING, ())
        assert len(found.warnings) == bool(warning)
        assert warning in "".join(found.warnings)

    def test_a_driver_without_a_gpu(self) -> None:
        """P-99: it has its bounds and runs no code, so no build fits that names some."""
        assert names_of(detect_captured("nvidia", "linux-x86-driver-without-gpu")) == [
            "cuda_version_lower_bound",
            "cuda_version_upper_bound",
        ]

    def test_amd(self) -> None:
        """P-120, P-123: the GPU's name, and the ROCm that is installed, if one is."""
        assert values_of(detect_captured("amd", "linux-x86-amd-mi300x-rocm7")) == {
            "gfx_arch": ("gfx942",),
            "rocm_version": ("7.2",),
        }
        assert values_of(detect_captured("amd", "linux-x86-amd-radeon-780m")) == {
            "gfx_arch": ("gfx1103",)
        }

    def test_older_graphics_of_intel_s_are_no_accelerator(self) -> None:
        """P-133: they are seen, nothing is supported, and nobody is told to install anything."""
        found = detect_captured("intel", "linux-x86-laptop-igpu-beside-nvidia")
        assert (found.status, found.features, found.warnings) == (Status.NOTHING, (), ())
        assert "device 0x46a6" in found.evidence[0].value

    def test_apple(self) -> None:
        """P-113: the version of the chip."""
        assert values_of(detect_captured("aarch64", "macos-m3"))["version"][0] == "8.5a"
