"""P-76: on real hardware the answers are those of NVIDIA's own tool."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from platforms.detecting import FakeProcesses, detection_of

from wheelfit_runtime.platforms.cache import CachedProcesses
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.features import Detection, Status
from wheelfit_runtime.platforms.recording import open_recorded, record
from wheelfit_runtime.platforms.system_view import SystemView

pytestmark = pytest.mark.gpu


def _tell(*arguments: str) -> list[str]:
    """Return what ``nvidia-smi`` prints, by line, or skip."""
    program = shutil.which("nvidia-smi")
    if program is None:
        pytest.skip("needs an NVIDIA GPU and nvidia-smi")
    command = [program, *arguments]
    completed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if completed.returncode != 0 or not completed.stdout.strip():
        pytest.skip("needs an NVIDIA GPU")
    return completed.stdout.splitlines()


def _query(*names: str) -> list[list[str]]:
    lines = _tell(f"--query-gpu={','.join(names)}", "--format=csv,noheader")
    return [[part.strip() for part in line.split(",")] for line in lines]


def _detected(machine: Machine) -> Detection:
    detection = detection_of("nvidia", machine)
    assert detection.status is Status.SUPPORTED, detection
    return detection


def test_a_real_gpu_is_detected() -> None:
    """P-97, P-89: driver and devices are found, the mask notwithstanding."""
    rows = _query("compute_cap", "name", "uuid")
    machine = Machine()
    machine.view.environ["CUDA_VISIBLE_DEVICES"] = ""  # type: ignore[index]
    detection = _detected(machine)
    highest = max(tuple(map(int, row[0].split("."))) for row in rows)
    sm_arch = next(feature for feature in detection.features if feature.name == "sm_arch")
    assert sm_arch.values[0] == f"{highest[0]}{highest[1]}_real"
    seen = [one.value for one in detection.evidence if one.source.startswith("NVML device")]
    assert len(seen) == len(rows)
    for (capability, name, uuid), value in zip(rows, seen, strict=True):
        assert value.startswith(f"{capability} {name} {uuid}")


def test_the_versions_are_those_of_nvidia_s_tool() -> None:
    """P-80, P-94: the CUDA version of the user-mode driver, and the release in the kernel."""
    listing = "\n".join(_tell("-q"))
    cuda = re.search(r"^CUDA (?:UMD )?Version\s*:\s*(\S+)", listing, re.MULTILINE)
    release = re.search(r"^Driver Version\s*:\s*(\S+)", listing, re.MULTILINE)
    assert cuda is not None
    assert release is not None
    detection = _detected(Machine())
    assert detection.features[0].values[0] == cuda[1]
    assert any(release[1] in one.value for one in detection.evidence)


def test_a_record_of_a_real_gpu_replays_and_identifies_nobody(tmp_path: Path) -> None:
    """P-75, P-76: the same answer elsewhere, without the identifiers and serial numbers."""
    identifiers = {word for row in _query("uuid", "serial") for word in row}
    machine = Machine()
    live = _detected(machine)
    assert record(tmp_path / "record", machine) == ()
    replayed = _detected(open_recorded(tmp_path / "record"))
    assert (replayed.features, replayed.devices) == (live.features, live.devices)
    texts = [path.read_bytes() for path in (tmp_path / "record").rglob("*") if path.is_file()]
    for identifier in identifiers - {"[N/A]", "0"}:
        assert not [text for text in texts if identifier.encode() in text]


def test_a_real_answer_is_remembered(tmp_path: Path) -> None:
    """P-22: the second process asks no driver."""
    _query("compute_cap")
    first = Machine()
    seen = first.view
    folder = str(tmp_path)
    asked = CachedProcesses(seen.processes, lambda: folder, seen)
    nobody = FakeProcesses({})  # whoever asks has forgotten
    recalled = CachedProcesses(nobody, lambda: folder, seen)
    answers = [
        _detected(Machine(SystemView(processes=processes))).features
        for processes in (asked, recalled)
    ]
    assert answers[0] == answers[1] == _detected(first).features
    assert recalled.cached_names == ["nvidia libraries"]
