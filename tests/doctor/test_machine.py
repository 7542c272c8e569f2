"""What detection says of a machine, on captured machines and made-up answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.tags import Tag

from wheelfit.core.target import Target
from wheelfit.doctor.machine import (
    detection_findings,
    interpreter_findings,
    is_translated,
    override_findings,
    read_nvidia_files,
)
from wheelfit.testing.detectors import supported
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.features import Detection, Evidence, Status
from wheelfit_runtime.platforms.providers.nvidia.facts import NvidiaFiles
from wheelfit_runtime.platforms.recording import open_recorded
from wheelfit_runtime.platforms.system_view import SystemView

MACHINES = Path(__file__).parents[1] / "machines"


def judge(machine: Machine) -> dict[str, str]:
    """Return code and message of what is found on a machine."""
    asked = [machine.detect(namespace) for namespace in machine.namespaces]
    seen = machine.view
    findings = [
        *detection_findings(
            [one for one in asked if one is not None],
            read_nvidia_files(seen),
            translated=is_translated(seen),
        ),
        *override_findings(machine.overrides_in_effect(), seen, machine.namespaces),
    ]
    return {f"{finding.severity} {finding.code}": finding.message for finding in findings}


@pytest.mark.parametrize(
    ("machine", "found"),
    [
        ("linux-x86-v3-zen3", {}),
        ("linux-x86-container-without-toolkit", {"warning driver-unreachable"}),
        ("linux-x86-bad-overrides", {"error override-unreadable"}),
        ("linux-x86-amd-hanging-tool", {"error detection-failed"}),
        ("linux-x86-unreadable-cpuinfo", {"warning detection-warning"}),
        ("linux-x86-amd-overrides", {"warning override-in-effect"}),
        ("macos-rosetta", set()),
        ("linux-x86-cuda-compat", {"note forward-compatibility"}),
        ("linux-x86-old-driver", {"warning detection-warning"}),
        ("linux-x86-intel-igpu-without-level-zero", {"note detection-warning"}),
        ("linux-x86-intel-container-without-node", {"warning detection-warning"}),
    ],
)
def test_captured(machine: str, found: set[str]) -> None:
    """P-17, P-73, P-94, P-99: each trouble of a machine has a name of its own."""
    assert set(judge(open_recorded(MACHINES / machine))) == set(found)


def test_gpu_without_driver() -> None:
    """P-96: a GPU on the bus without NVIDIA's driver is told once, as what it is."""
    found = judge(open_recorded(MACHINES / "linux-x86-nouveau"))
    assert "not NVIDIA's driver" in found["warning driver-missing"]
    assert not any("NVIDIA" in text for code, text in found.items() if "missing" not in code)


@pytest.mark.parametrize(
    ("versions", "code"),
    [
        ("kernel module 535.104.05, library 570.86.10", "note forward-compatibility"),
        ("kernel module 580.65.06, library 550.54.15", "warning driver-versions-differ"),
        ("kernel module 550.54.14, library 550.54.15", "note forward-compatibility"),
    ],
)
def test_driver_versions(versions: str, code: str) -> None:
    """P-94: newer libraries are cuda-compat's way, older ones a driver updated without restart."""
    detection = Detection(
        "nvidia", status=Status.SUPPORTED, evidence=(Evidence("driver versions", versions),)
    )
    (finding,) = detection_findings([detection], NvidiaFiles())
    assert f"{finding.severity} {finding.code}" == code
    assert finding.message == versions


def test_old_driver() -> None:
    """P-84: a driver that is too old is no matter of containers: it is to be updated."""
    machine = open_recorded(MACHINES / "linux-x86-old-driver")
    detection = machine.detect("nvidia")
    assert detection is not None
    (finding,) = detection_findings([detection], read_nvidia_files(machine.view))
    assert "10.2 is too old" in finding.message
    assert finding.remedy == "update NVIDIA's driver"


def test_reasons() -> None:
    """P-21: a failure without a warning is told by its evidence."""
    failed = Detection(
        "intel", status=Status.FAILED, evidence=(Evidence("level zero", "crashed with SIGSEGV"),)
    )
    switched_off = Detection("amd", status=Status.DISABLED, source="--disable-provider")
    (finding,) = detection_findings([failed, switched_off], NvidiaFiles())
    assert (finding.code, finding.message) == (
        "detection-failed",
        "level zero: crashed with SIGSEGV",
    )


def test_misspelt_overrides() -> None:
    """P-73: a variable that no provider reads is told by name."""
    view = SystemView(environ={"WHEELFIT_OVERRIDE_NVIDA_SM_ARCH": "90_real"})
    (finding,) = override_findings((), view, ["nvidia", "x86_64"])
    assert (finding.code, finding.where) == (
        "override-without-provider",
        "WHEELFIT_OVERRIDE_NVIDA_SM_ARCH",
    )


def test_declared_versions() -> None:
    """P-57: versions that a variable declares are an override like others."""
    view = SystemView(environ={"VARIANT_ABI_DEPENDENCY": "torch==2.8"})
    (finding,) = override_findings((), view, [])
    assert finding.code == "override-in-effect"
    assert "VARIANT_ABI_DEPENDENCY=torch==2.8" in finding.message


def interpreter(platform: str, machine: str) -> Target:
    """Describe an interpreter by its platform tag and its system's machine."""
    environment = {"python_full_version": "3.12.1", "platform_machine": machine}
    return Target.of("/usr/bin/python", environment, [Tag("cp312", "cp312", platform)])


@pytest.mark.parametrize(
    ("platform", "machine", "found"),
    [
        ("linux_x86_64", "x86_64", []),
        ("linux_i686", "x86_64", ["narrow-interpreter"]),
        ("win32", "AMD64", ["narrow-interpreter"]),
        ("linux_i686", "i686", []),
        ("macosx_14_0_arm64", "arm64", []),
    ],
)
def test_interpreters(platform: str, machine: str, found: list[str]) -> None:
    """P-104: a 32-bit Python on a 64-bit system is told, on a 32-bit system it is normal."""
    target = interpreter(platform, machine)
    view = SystemView(system="Linux")
    assert [one.code for one in interpreter_findings(target, view)] == found


def test_rosetta() -> None:
    """P-106: a translated Python is told, with what to do, and its missing AVX not twice."""
    view = open_recorded(MACHINES / "macos-rosetta").view
    target = interpreter("macosx_14_0_x86_64", "x86_64")
    (finding,) = interpreter_findings(target, view)
    assert finding.code == "translated-interpreter"
    assert "arm64" in finding.remedy
    native = open_recorded(MACHINES / "macos-x86-skylake").view
    assert list(interpreter_findings(target, native)) == []
    x86 = supported("x86_64", {"level": ["v2"]})
    assert list(detection_findings([x86], NvidiaFiles(), translated=True)) == []
