"""P-76: on real hardware the answers are those of NVIDIA's own tool."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from wheelfit.platforms.discovery import Machine
from wheelfit.platforms.features import Status

pytestmark = pytest.mark.gpu


@pytest.fixture
def capabilities() -> list[str]:
    """Return the capabilities that ``nvidia-smi`` tells, or skip."""
    program = shutil.which("nvidia-smi")
    if program is None:
        pytest.skip("needs an NVIDIA GPU and nvidia-smi")
    query = [program, "--query-gpu=compute_cap", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0 or not done.stdout.strip():
        pytest.skip("needs an NVIDIA GPU")
    return done.stdout.split()


def test_a_real_gpu_is_detected(capabilities: list[str]) -> None:
    """P-97, P-89: driver and devices are found, the mask notwithstanding."""
    machine = Machine()
    machine.surroundings.environ["CUDA_VISIBLE_DEVICES"] = ""  # type: ignore[index]
    detection = machine.detect("nvidia")
    assert detection is not None
    assert detection.status is Status.SUPPORTED, detection
    highest = max(tuple(map(int, text.split("."))) for text in capabilities)
    sm_arch = next(feature for feature in detection.features if feature.name == "sm_arch")
    assert sm_arch.values[0] == f"{highest[0]}{highest[1]}_real"
