"""Numbers that packages depend on, read out of detections."""

from __future__ import annotations

from pathlib import Path

import pytest
from doctor.patient import Patient

from wheelfit.doctor.environment import examine_environment
from wheelfit.doctor.machine import Hardware
from wheelfit.doctor.packages import hardware_findings
from wheelfit.testing.detectors import supported
from wheelfit_runtime.platforms.features import Detection, Status
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability
from wheelfit_runtime.platforms.recording import open_recorded

MACHINES = Path(__file__).parents[1] / "machines"


def test_unlike_gpus() -> None:
    """P-88: the capability of each device counts, not all that its code runs on."""
    machine = open_recorded(MACHINES / "linux-x86-two-unlike-gpus")
    found = [machine.detect(namespace) for namespace in machine.namespaces]
    hardware = Hardware.of([one for one in found if one is not None])
    assert "nvidia" in hardware.present
    assert hardware.capabilities == (Capability(9, 0), Capability(7, 5))
    assert hardware.cuda is not None


@pytest.mark.parametrize("status", [Status.FAILED, Status.UNKNOWN, Status.DISABLED])
def test_not_looked(status: Status) -> None:
    """P-17: where detection failed, nothing is known, which is not the same as nothing there."""
    hardware = Hardware.of([Detection("nvidia", status=status)])
    assert hardware == Hardware()


def test_family_code_is_no_device() -> None:
    """P-90: values with ``a`` and ``f``, and PTX, do not speak of the device's own number."""
    values = ["90_real", "90_virtual", "90a_real", "121f_real", "120_virtual"]
    hardware = Hardware.of([supported("nvidia", {"sm_arch": values})])
    assert hardware.capabilities == (Capability(9, 0),)
    assert hardware.cuda is None


def test_driver_without_device() -> None:
    """P-99: bounds without ``sm_arch`` are a driver, and no GPU."""
    hardware = Hardware.of(
        [supported("nvidia", {"cuda_version_lower_bound": ["12.10", "12.9", "12"]})]
    )
    assert hardware.examined == {"nvidia"}
    assert hardware.present == frozenset()
    assert hardware.cuda == Capability(12, 10)


def test_drivers_of_windows(patient: Patient) -> None:
    """P-92: on Windows the driver releases have other numbers."""
    patient.add("cupy-cuda12x", "13.6.0")
    contents = examine_environment(patient.environment)
    detection = supported("nvidia", {"cuda_version_lower_bound": ["11.8"]})
    remedies = [
        finding.remedy
        for windows in (False, True)
        for finding in hardware_findings(
            contents.builds, Hardware.of([detection], windows=windows), contents.name
        )
    ]
    assert "release 525.60.13 or newer" in remedies[0]
    assert "release 528.33 or newer" in remedies[1]
