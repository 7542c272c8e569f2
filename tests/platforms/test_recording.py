"""P-75: what detection looked at can be sent, and says elsewhere what it said here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from platforms.detecting import MACHINES, detection_of, view_of, write_files
from sampled_cases import sampled

from wheelfit.testing.drivers import FakeDriver
from wheelfit_runtime.platforms.child_processes import Answer, Ending, Question
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.recording import (
    RecordedProcesses,
    RecordingProcesses,
    as_expected,
    description,
    open_recorded,
    record,
)
from wheelfit_runtime.platforms.system_view import SystemView


def _question(name: str) -> Question:
    return Question(name, ("program",), {}, 1.0)


# --- answers ---------------------------------------------------------------------------


def test_recorded_answers_are_played_back() -> None:
    """P-71: a question gets the answer it once got; no child is started."""
    answer = Answer(Ending.KILLED, 11, b"out", b"err")
    assert RecordedProcesses({"q": answer}).ask(_question("q")) is answer


def test_a_question_nobody_asked_has_no_answer() -> None:
    """P-71: it is told as a child that could not be started, with the reason."""
    answer = RecordedProcesses({}).ask(_question("new"))
    assert answer.ending is Ending.NOT_STARTED
    assert answer.errors == b"no answer to 'new' was recorded"


def test_recording_passes_questions_on() -> None:
    """P-75: who asks gets the answer, and it is kept under the question's name."""
    answer = Answer(Ending.EXITED, 0, b"\xff")
    recording = RecordingProcesses(RecordedProcesses({"q": answer}))
    assert recording.ask(_question("q")) is answer
    assert recording.answers == {"q": answer}


# --- whole machines -----------------------------------------------------------------------


def test_a_record_of_this_machine_answers_as_this_machine_does(tmp_path: Path) -> None:
    """P-75: what probes read is enough to replay the decision elsewhere."""
    here = Machine(
        SystemView(environ={"WHEELFIT_OVERRIDE_NVIDIA_SM_ARCH": "75_real", "HOME": "/secret"})
    )
    assert record(tmp_path / "machine", here) == ()
    replayed = open_recorded(tmp_path / "machine")
    for namespace in here.namespaces:
        live, replay = (detection_of(namespace, machine) for machine in (here, replayed))
        assert (replay.features, replay.status) == (live.features, live.status)
    assert "HOME" not in (tmp_path / "machine" / "environ.json").read_text()
    expected = json.loads((tmp_path / "machine" / "expected.json").read_text("utf-8"))
    assert as_expected(replayed) == expected


def test_a_record_of_a_machine_with_gpus_says_what_the_driver_said(
    fake_driver: FakeDriver, tmp_path: Path
) -> None:
    """P-75: a driver cannot be copied; what it answered is."""
    shown = fake_driver.environ(devices=["7.5 Tesla T4", "9.0 NVIDIA H100"], cuda="12.4")
    root = MACHINES / "linux-x86-two-unlike-gpus" / "root"
    original = Machine(
        SystemView(root, shown, system="Linux", library_folders=(fake_driver.folder,))
    )
    assert record(tmp_path / "machine", original) == ()
    replayed = open_recorded(tmp_path / "machine")
    live, replay = (detection_of("nvidia", machine) for machine in (original, replayed))
    assert replay.features == live.features
    assert replay.devices == live.devices
    assert "sm_arch" in [feature.name for feature in replay.features]


@pytest.mark.parametrize(
    "folder",
    sampled(sorted(MACHINES.iterdir()), fast=range(0, 1000, 4)),
    ids=lambda folder: folder.name,
)
def test_a_record_of_a_record_is_the_same(folder: Path, tmp_path: Path) -> None:
    """P-75: recording loses nothing that detection looks at."""
    original = open_recorded(folder)
    assert record(tmp_path / "again", original) == ()
    assert as_expected(open_recorded(tmp_path / "again")) == as_expected(original)


@pytest.mark.parametrize("name", ["linux-x86-tpu-v5e", "linux-x86-intel-unknown-gpu"])
def test_options_are_no_part_of_a_record(name: str, tmp_path: Path) -> None:
    """P-75, P-153: a record is of the machine, and what is asked of it makes no difference."""
    seen = open_recorded(MACHINES / name).view
    for asked in (replace(seen, tpu_generation=True), replace(seen, reference=True)):
        assert record(tmp_path / name, Machine(asked)) == ()


# --- what is left out ------------------------------------------------------------------------

_SECRETS = (
    "1320987654321",
    "GPU-5a6b7c8d-1234-5678-9abc-def012345678",
    "5a6b7c8d-1234-5678-9abc-def012345678",
    "secret-box-17",
    "jane.doe",
    "02:42:ac:11:00:02",
    "48213377120991",
    "BOOT_IMAGE",
    "hunter2",
    "/home/jane.doe",
)
"""What no file of a record may contain, in names or in contents."""


def _planted(root: Path) -> dict[str, str]:
    """Plant names and identifiers wherever a probe looks; return the environment."""
    files = {
        "proc/sys/kernel/hostname": "secret-box-17\n",
        "proc/cmdline": "BOOT_IMAGE=/vmlinuz root=UUID=5a6b7c8d-1234-5678-9abc-def012345678\n",
        "proc/cpuinfo": "processor : 0\nflags : fpu sse2 serialize\nSerial\t\t: 1320987654321\n",
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Kernel Module  550.54.15  "
        "builder jane.doe@secret-box-17 02:42:ac:11:00:02\n",
        "proc/driver/nvidia/gpus/0000_01_00.0/information": "Model: \t NVIDIA H100\n"
        "GPU UUID: \t GPU-5a6b7c8d-1234-5678-9abc-def012345678\nSerial Number: 1320987654321\n",
        "sys/module/nvidia/version": "550.54.15\n",
        "dev/nvidiactl": "",
        "home/jane.doe/lib/libcuda.so.1": "",
        "etc/ld.so.cache": "\0/home/jane.doe/secret-box-17/libother.so.1\0/opt/hunter2/lib.so\0",
    }
    write_files(root, files)
    return {
        "HOME": "/home/jane.doe",
        "USER": "jane.doe",
        "HOSTNAME": "secret-box-17.example.org",
        "LD_LIBRARY_PATH": "/home/jane.doe/hunter2:/home/jane.doe/lib",
        "PATH": "/home/jane.doe/bin:/usr/bin",
        "CUDA_VISIBLE_DEVICES": "GPU-5a6b7c8d-1234-5678-9abc-def012345678",
        "NVIDIA_API_KEY": "hunter2",
        "API_TOKEN": "hunter2",
        "SSH_CONNECTION": "hunter2",
    }


def test_nothing_in_a_record_identifies_machine_or_user(tmp_path: Path) -> None:
    """P-75: no serial number, identifier, host, user or home folder leaves the machine."""
    root = tmp_path / "root"
    environ = _planted(root)
    report = {
        "calls": [["NVML device 0", "9.0 NVIDIA H100 GPU-5a6b7c8d-1234-5678-9abc-def012345678"]],
        "nvml": {"loaded": "/home/jane.doe/lib/libnvidia-ml.so.1", "init": 0},
        "cuda": {"loaded": None, "init": None},
        "driver_version": "550.54.15",
        "cuda_version": 12040,
        "devices": [
            {
                "index": 0,
                "name": "NVIDIA H100",
                "uuid": "GPU-5a6b7c8d-1234-5678-9abc-def012345678",
                "capability": [9, 0],
                "serial": "1320987654321",
            }
        ],
    }
    answer = Answer(
        Ending.EXITED,
        0,
        json.dumps(report).encode(),
        b"unique_id 48213377120991\nconnecting from secret-box-17 as jane.doe\n",
    )
    processes = RecordedProcesses({"nvidia libraries": answer})
    replaying = {"interpreter": "python", "processes": processes, "replayed": True}
    machine = Machine(view_of(root, environ, **replaying))
    folder = tmp_path / "record"
    assert record(folder, machine) == ()
    seen = [
        (str(path.relative_to(folder)) + "\n").encode()
        + (path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
    ]
    assert not [(secret, text) for secret in _SECRETS for text in seen if secret.encode() in text]
    # and yet it is a record of that machine
    nvidia = detection_of("nvidia", open_recorded(folder))
    assert nvidia.features[0].values[0] == "12.4"
    assert "550.54.15" in (folder / "root/proc/driver/nvidia/version").read_text()
    assert "serialize" in (folder / "root/proc/cpuinfo").read_text()


@pytest.mark.parametrize("user", ["nvidia", "module", "proc"])
def test_a_user_with_a_common_name_does_not_spoil_the_record(user: str, tmp_path: Path) -> None:
    """P-75: who is called as a folder of the system is hidden in the home folder only."""
    root = tmp_path / "root"
    environ = _planted(root) | {"USER": user, "HOME": f"/home/{user}"}
    write_files(root, {f"home/{user}/libcuda.so.1": ""})
    environ["LD_LIBRARY_PATH"] = f"/home/{user}"
    assert record(tmp_path / "record", Machine(view_of(root, environ))) == ()
    kept = tmp_path / "record/root"
    assert (kept / "sys/module/nvidia/version").is_file()
    assert (kept / "home/user/libcuda.so.1").is_file()
    assert not (kept / "home" / user).exists()


def test_only_variables_that_concern_detection_are_recorded(tmp_path: Path) -> None:
    """P-75: an allow-list; folders in which nothing was found are no concern of detection."""
    root = tmp_path / "root"
    record(tmp_path / "record", Machine(view_of(root, _planted(root))))
    environ = json.loads((tmp_path / "record/environ.json").read_text())
    assert environ == {
        "CUDA_VISIBLE_DEVICES": "GPU-00000000-0000-0000-0000-000000000000",
        "LD_LIBRARY_PATH": "/home/user/lib",
        "PATH": "",
    }


# --- the folder ---------------------------------------------------------------------------------


def _bare(tmp_path: Path) -> Machine:
    return Machine(view_of(tmp_path / "bare", architecture="riscv64"))


def test_an_earlier_record_is_replaced(tmp_path: Path) -> None:
    """P-75: recording again leaves nothing of what was there, and nothing beside it."""
    record(tmp_path / "record", _bare(tmp_path))
    (tmp_path / "record/root/old").write_text("")
    record(tmp_path / "record", _bare(tmp_path), description="anew")
    assert not (tmp_path / "record/root/old").exists()
    assert description(tmp_path / "record")["description"] == "anew"
    assert [path.name for path in tmp_path.iterdir()] == ["record"]


def test_anything_else_is_left_alone(tmp_path: Path) -> None:
    """P-75: a folder that holds more than a record is not written to."""
    record(tmp_path / "record", _bare(tmp_path))
    (tmp_path / "record/thesis.txt").write_text("ten years")
    with pytest.raises(FileExistsError, match="neither empty nor an earlier record"):
        record(tmp_path / "record", _bare(tmp_path))
    assert (tmp_path / "record/thesis.txt").read_text() == "ten years"
