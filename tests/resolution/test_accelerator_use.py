"""What results have to do with accelerators of captured machines, and should not."""

from __future__ import annotations

from pathlib import Path

import pytest

from wheelfit.operations.accelerator_remarks import report_accelerator_remarks
from wheelfit.operations.context import Reporter
from wheelfit.testing.detectors import FixedDetector
from wheelfit.testing.resolution_setup import ResolutionSetup
from wheelfit_runtime.platforms import recording
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.system_view import SystemView

MACHINES = Path(__file__).parents[1] / "machines"
NOTHING = "no NVIDIA GPU"


class _Listener(Reporter):
    """A receiver of warnings."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def warn(self, text: str) -> None:
        """Keep a warning."""
        self.said.append(text)


def told(machine: str, wanted: str) -> str:
    """Return what is told of a result for a captured machine; empty: nothing."""
    captured = SystemView(**recording.view_arguments(MACHINES / machine))
    world = ResolutionSetup(machine=Machine(captured))
    world.add("torch 2.15.0", requires=["cuda-toolkit==13.2.2", "nvidia-cudnn-cu13"])
    world.add("old 1.0", requires=["nvidia-cudnn-cu12"])
    world.add("cuda-toolkit 13.2.2", requires=["nvidia-cufft"])
    world.add("nvidia-cufft 12.2", "nvidia-cudnn-cu13 9.26", "nvidia-cudnn-cu12 9.10")
    world.add("jax 0.12.0", requires=["jax-cuda12-plugin; extra == 'cuda12'"], extras=["cuda12"])
    world.add("jax-cuda12-plugin 0.12.0")
    candidates, listener = world.candidates(), _Listener()
    resolution = world.resolve(wanted, candidates=candidates)
    names = [pin.name for pin in resolution.pins]
    uses = report_accelerator_remarks(resolution, names, candidates, listener)
    assert [use.message for use in uses] == listener.said
    return "\n".join(listener.said)


@pytest.mark.parametrize(
    ("machine", "why", "remedy"),
    [
        ("linux-x86-v3-haswell", NOTHING, "a build without them (cpu)"),
        (
            "linux-x86-nouveau",
            "an NVIDIA GPU is there (PCI 0000:01:00.0), but not NVIDIA's driver",
            "a build without them (cpu)",
        ),
        ("linux-x86-stray-nvidia-smi", NOTHING, "a build without them (cpu)"),
        ("linux-x86-amd-mi300x", NOTHING, "a build for it (ROCm)"),
        (
            "linux-x86-old-driver",
            "the NVIDIA driver's CUDA version 10.2 is too old; 11.0 is the oldest",
            "a build without them (cpu)",
        ),
        (
            "linux-x86-v100-new-driver",
            "CUDA 13 needs a GPU of compute capability >= 7.5; this machine has 7.0",
            "a build for it (CUDA 12)",
        ),
        (
            "linux-x86-mig-a100",
            "CUDA 13 needs CUDA driver >= 13.0, this machine has 12.8",
            "a build for it (CUDA 12)",
        ),
        (
            "wsl-x86",
            "CUDA 13 needs CUDA driver >= 13.0, this machine has 12.7",
            "a build for it (CUDA 12)",
        ),
    ],
)
def test_libraries_in_vain(machine: str, why: str, remedy: str) -> None:
    """What comes along for another machine is told with the reason and what helps."""
    start = f"CUDA libraries are included that this machine cannot use ({why}); "
    assert told(machine, "torch").startswith(f"{start}--bridge pytorch takes {remedy}")


@pytest.mark.parametrize("machine", ["linux-x86-v100-new-driver", "wsl-x86", "linux-x86-mig-a100"])
def test_an_older_major(machine: str) -> None:
    """Libraries that the machine can use are not told, and what is idle gets the same ones."""
    assert told(machine, "old") == ""
    idle = "jax leaves the NVIDIA GPU of this machine idle; jax[cuda12] uses it"
    assert told(machine, "jax") == idle


@pytest.mark.parametrize("wanted", ["torch", "old", "jax"])
@pytest.mark.parametrize("machine", ["linux-x86-driver-hangs", "linux-x86-driver-crashes"])
def test_what_nobody_knows(machine: str, wanted: str) -> None:
    """Of a driver that does not answer nothing is said."""
    assert told(machine, wanted) == ""


def test_a_machine_that_uses_all() -> None:
    """Nothing is told where everything can be used, or where there is nothing to use."""
    assert told("linux-aarch64-gb200", "torch") == told("linux-x86-v3-haswell", "jax") == ""


def test_sources_that_fail() -> None:
    """What is only looked at for advice fails nothing."""
    world = ResolutionSetup(
        machine=FixedDetector({"nvidia": {"cuda_version_lower_bound": ["12.4", "12.1", "12.0"]}})
    )
    world.add("faiss 1.14.1")
    world.repository.add_wheel("faiss_gpu_cu12-1.14.1-py3-none-any.whl")
    world.add("jax 0.12.0", requires=["jax-cuda12-plugin; extra == 'cuda12'"], extras=["cuda12"])
    plugin = world.repository.add_wheel("jax_cuda12_plugin-0.12.0-py3-none-any.whl")
    world.repository.break_file(plugin)
    candidates, listener = world.candidates(), _Listener()
    resolution = world.resolve("faiss", "jax", candidates=candidates)
    names = [pin.name for pin in resolution.pins]
    report_accelerator_remarks(resolution, names, candidates, listener)
    (line,) = listener.said
    assert line == (
        "faiss leaves the NVIDIA GPU of this machine idle; "
        "--bridge faiss takes a build that uses it (faiss-gpu-cu12)"
    )
