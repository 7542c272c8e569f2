"""P-71, P-133: whatever Level Zero does is data with evidence."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from platforms.detecting import add_intel_gpu, detect, write_files
from sampled_cases import sampled

from wheelfit.testing.drivers import FakeLevelZero
from wheelfit_runtime.platforms.child_processes import Answer, Ending
from wheelfit_runtime.platforms.features import Detection, Status
from wheelfit_runtime.platforms.isolated import library_child
from wheelfit_runtime.platforms.providers.intel import level_zero, level_zero_child
from wheelfit_runtime.platforms.providers.intel.files import IntelFiles
from wheelfit_runtime.platforms.providers.intel.tables import DeviceIp

A770 = "8086:56a0 12.55.8 discrete Intel(R) Arc(TM) A770 Graphics"
LUNAR_LAKE = "8086:64a0 20.4.4 integrated Intel(R) Arc(TM) Graphics"
NOT_INTEL = "10de:2330 12.55.8 discrete Somebody else's"
NPU = "8086:643e 12.55.8 npu Intel(R) AI Boost"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a machine with a GPU and its driver in the kernel."""
    add_intel_gpu(tmp_path)
    return tmp_path


def _detect(
    root: Path, loader: FakeLevelZero, environ: Mapping[str, str], **more: Any
) -> Detection:
    settings = {"deadline": 20, "library_folders": (loader.folder,), **more}
    return detect("intel", root, environ, **settings)


def _values(detection: Detection) -> tuple[str, ...]:
    return tuple(value for feature in detection.features for value in feature.values)


def test_the_loader_tells_every_device(root: Path, fake_level_zero: FakeLevelZero) -> None:
    """P-131, P-133: devices in the drivers' order, each with what it is derived from."""
    environ = fake_level_zero.environ([A770], [LUNAR_LAKE])
    detection = _detect(root, fake_level_zero, environ)
    assert _values(detection) == ("12.55.8", "20.4.4", "20.1.0")
    assert ("zeInitDrivers", "2") in {(e.source, e.value) for e in detection.evidence}


def test_an_older_loader_is_asked_in_the_older_way(
    root: Path, fake_old_level_zero: FakeLevelZero
) -> None:
    """P-133: zeInit and zeDriverGet where zeInitDrivers is missing."""
    environ = fake_old_level_zero.environ([A770], [LUNAR_LAKE])
    detection = _detect(root, fake_old_level_zero, environ)
    assert _values(detection) == ("12.55.8", "20.4.4", "20.1.0")
    calls = {(e.source, e.value) for e in detection.evidence}
    assert {("zeInitDrivers", "no such function"), ("zeDriverGet", "2")} <= calls


def test_the_older_way_is_tried_where_the_newer_fails(
    root: Path, fake_level_zero: FakeLevelZero
) -> None:
    """P-133: some loaders have the function and refuse drivers that lack it."""
    environ = fake_level_zero.environ([A770], ze_init_drivers="0x78000003")
    assert _values(_detect(root, fake_level_zero, environ)) == ("12.55.8",)


def test_only_gpus_of_intel_s_count(root: Path, fake_level_zero: FakeLevelZero) -> None:
    """P-133: other vendors' devices and NPUs are passed over; that leaves evidence."""
    environ = fake_level_zero.environ([NOT_INTEL, NPU, LUNAR_LAKE])
    detection = _detect(root, fake_level_zero, environ)
    assert _values(detection) == ("20.4.4", "20.1.0")
    assert detection.warnings == ()
    assert any("vendor 0x10de" in e.value for e in detection.evidence)
    alone = _detect(root, fake_level_zero, fake_level_zero.environ([NOT_INTEL]))
    assert (alone.status, alone.features) == (Status.NOTHING, ())
    assert "lists no Intel GPU" in alone.warnings[0]


def test_the_mask_of_the_process_is_taken_away(root: Path, fake_level_zero: FakeLevelZero) -> None:
    """P-89: the machine is described, whatever ZE_AFFINITY_MASK shows this process."""
    environ = fake_level_zero.environ([A770, LUNAR_LAKE]) | {"ZE_AFFINITY_MASK": "0"}
    assert len(_detect(root, fake_level_zero, environ).devices) == 2


def test_a_lost_device_is_left_out_with_a_warning(
    root: Path, fake_level_zero: FakeLevelZero
) -> None:
    """P-74: one broken device does not hide the others."""
    environ = fake_level_zero.environ([A770, LUNAR_LAKE], ze_lost=0)
    detection = _detect(root, fake_level_zero, environ)
    assert _values(detection) == ("20.4.4", "20.1.0")
    assert (
        "GPU 0 is left out: zeDeviceGetProperties failed: the device is lost"
        in (detection.warnings[0])
    )


def test_a_driver_that_tells_no_version_is_too_old(
    root: Path, fake_level_zero: FakeLevelZero
) -> None:
    """P-133: the extension stays untouched, and 0.0.0 is not a version."""
    environ = fake_level_zero.environ([A770], ze_no_version=1)
    detection = _detect(root, fake_level_zero, environ)
    assert (detection.status, detection.features) == (Status.NOTHING, ())
    assert "does not report its IP version" in detection.warnings[0]


def _failing(code: str) -> dict[str, str]:
    return {"ze_init_drivers": code, "ze_init": code}


@pytest.mark.parametrize(
    ("settings", "status", "words"),
    [
        (_failing("0x78000001"), Status.NOTHING, "install Intel's compute runtime"),
        (_failing("0x70010000"), Status.NOTHING, "may not use the GPU"),
        (
            _failing("0x70020000"),
            Status.FAILED,
            "a library that the driver needs is missing (0x70020000)",
        ),
        ({"abort": "zeInitDrivers"}, Status.FAILED, "crashed with SIGABRT (in zeInitDrivers)"),
        ({"abort": "zeDeviceGet"}, Status.FAILED, "crashed with SIGABRT (in zeDeviceGet)"),
    ],
)
def test_a_driver_that_does_not_start_is_told_about(
    root: Path, fake_level_zero: FakeLevelZero, settings: dict[str, Any], status: Status, words: str
) -> None:
    """P-71, P-74: error codes and crashes are data; the reason is in the warning."""
    environ = fake_level_zero.environ([A770], **settings)
    detection = _detect(root, fake_level_zero, environ)
    assert (detection.status, detection.features) == (status, ())
    assert words in detection.warnings[0]
    assert detection.evidence


@pytest.mark.parametrize("function", sampled(["zeInitDrivers", "zeDeviceGetProperties"], fast={1}))
def test_a_hanging_driver_costs_the_deadline_and_no_more(
    root: Path, fake_level_zero: FakeLevelZero, function: str
) -> None:
    """P-37, P-71: the last call is named."""
    environ = fake_level_zero.environ([A770], hang=function)
    detection = _detect(root, fake_level_zero, environ, deadline=1)
    assert detection.status is Status.FAILED
    assert f"did not answer within 1 s (in {function})" in detection.warnings[0]


def test_a_loader_without_the_functions_is_told_about(
    root: Path, fake_driver: Any, tmp_path: Path
) -> None:
    """P-71: a missing symbol is an outcome."""
    folder = tmp_path / "libraries"
    folder.mkdir()
    (folder / "libze_loader.so.1").symlink_to(fake_driver.folder / "libcuda.so.1")
    detection = _detect(root, FakeLevelZero(folder), {})
    assert detection.status is Status.FAILED
    assert "lacks the required functions" in detection.warnings[0]


def test_a_loader_that_cannot_be_loaded_is_told_about(root: Path, tmp_path: Path) -> None:
    """P-71: a file that is not a library is an outcome."""
    write_files(tmp_path, {"libraries/libze_loader.so.1": "no library"})
    detection = _detect(root, FakeLevelZero(tmp_path / "libraries"), {})
    assert detection.status is Status.FAILED
    assert "cannot be loaded" in detection.warnings[0]
    assert any(e.source.endswith("libze_loader.so.1") for e in detection.evidence)


@pytest.mark.parametrize("interpreter", ["/no/such/python", None])
def test_without_an_interpreter_nobody_is_asked(
    root: Path, fake_level_zero: FakeLevelZero, interpreter: str | None
) -> None:
    """P-71, P-72: a frozen application never starts Level Zero in its own process."""
    environ = fake_level_zero.environ([A770])
    detection = _detect(root, fake_level_zero, environ, interpreter=interpreter)
    assert detection.status is Status.FAILED
    assert "no child process" in detection.warnings[0]


def _run_child(
    loader: FakeLevelZero, environ: Mapping[str, str]
) -> subprocess.CompletedProcess[bytes]:
    """Run the script that asks the loader, isolated and without site packages."""
    scripts = (library_child.__file__, level_zero_child.__file__)
    command = [sys.executable, "-I", "-S", *scripts, str(loader.folder / "libze_loader.so.1")]
    return subprocess.run(command, env=environ, capture_output=True, check=False)


def test_the_script_runs_alone(fake_level_zero: FakeLevelZero) -> None:
    """P-36, P-71: isolated, without site packages; one line on standard output."""
    environ = fake_level_zero.environ([A770], noise=1)
    completed = _run_child(fake_level_zero, environ)
    assert completed.returncode == 0
    assert completed.stdout.count(b"\n") == 1
    (device,) = json.loads(completed.stdout)["devices"]
    assert (device["vendor"], device["ip"]) == (0x8086, 0x030DC008)
    assert b"a driver that prints" in completed.stderr


def test_an_answer_without_devices_is_not_for_keeping(fake_level_zero: FakeLevelZero) -> None:
    """P-22: what may be otherwise in a minute ends with a status of its own."""
    completed = _run_child(fake_level_zero, fake_level_zero.environ())
    assert completed.returncode == library_child.NOT_LASTING
    assert json.loads(completed.stdout)["devices"] == []


# --- understanding the answer ---------------------------------------------------------------

LISTED = IntelFiles(bound=("0000:03:00.0",), libraries=("/usr/lib64/libze_loader.so.1",))
UNLISTED = IntelFiles(unlisted=True, libraries=LISTED.libraries)
GOOD: dict[str, Any] = {
    "calls": [["zeInitDrivers", "1"]],
    "loaded": "libze_loader.so.1",
    "init": 0,
    "devices": [
        {
            "index": 0,
            "name": "Intel(R) Arc(TM) A770 Graphics",
            "type": 1,
            "vendor": 0x8086,
            "device": 0x56A0,
            "flags": 0,
            "ip": 0x030DC008,
        }
    ],
}


def test_a_good_line_is_understood() -> None:
    """P-71: the shape of the answer."""
    driver = level_zero.parse(Answer(Ending.EXITED, 0, json.dumps(GOOD).encode()), LISTED)
    assert [str(gpu) for gpu in driver.gpus] == ["GPU 0 (Intel(R) Arc(TM) A770 Graphics, 12.55.8)"]
    assert (driver.problem, driver.broken) == ("", False)


@pytest.mark.parametrize(
    ("version", "value"),
    [
        (0x030F0007, "12.60.7"),
        (0x05004000, "20.1.0"),
        (0x05010004, "20.4.4"),
        (0x12341234, "72.208.52"),
    ],
)
def test_a_version_is_taken_apart(version: int, value: str) -> None:
    """P-133: revision in bits 0 to 5, release in 14 to 21, architecture from 22 on."""
    assert str(level_zero.decode(version)) == value


@given(st.integers(0, 1023), st.integers(0, 255), st.integers(0, 63), st.integers(0, 255))
def test_what_lies_between_the_numbers_does_not_count(
    architecture: int, release: int, revision: int, reserved: int
) -> None:
    """P-133: the eight reserved bits are not looked at."""
    version = architecture << 22 | release << 14 | reserved << 6 | revision
    assert level_zero.decode(version) == DeviceIp(architecture, release, revision)


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"Segmentation fault",
        b"[]",
        b"null",
        b'{"calls": []}',
        b"\xff\xfe",
        json.dumps(GOOD | {"devices": [{"index": 0}]}).encode(),
        json.dumps(GOOD | {"devices": {"index": 0}}).encode(),
        json.dumps(GOOD | {"devices": [GOOD["devices"][0] | {"ip": "x"}]}).encode(),
        json.dumps(GOOD | {"calls": [1]}).encode(),
        json.dumps(GOOD | {"init": []}).encode(),
        b'{"calls": [], "loaded": 1, "init": Infinity, "devices": []}',
        b"[" * 100_000,
    ],
)
def test_garbage_is_data(output: bytes) -> None:
    """P-71: an answer of another shape is a failure with evidence, no exception."""
    driver = level_zero.parse(Answer(Ending.EXITED, 0, output, b"noise"), LISTED)
    assert (driver.broken, driver.gpus) == (True, ())
    assert driver.evidence[-1].value == "noise"


@pytest.mark.parametrize("told", [{"init": 0x78000001, "devices": []}, {"devices": []}])
def test_no_gpu_is_a_problem_only_where_there_is_one(told: dict[str, Any]) -> None:
    """P-74, P-133: on Windows, and in its Linux, the loader alone is no sign of a GPU."""
    answer = Answer(Ending.EXITED, 3, json.dumps(GOOD | told).encode())
    listed, unlisted = level_zero.parse(answer, LISTED), level_zero.parse(answer, UNLISTED)
    assert listed.problem
    assert not unlisted.problem
    assert not listed.broken
    assert not unlisted.broken


def test_a_flood_is_data() -> None:
    """P-37: who writes without end was not listened to."""
    driver = level_zero.parse(Answer(Ending.FLOODED, 0, b"x" * 100), LISTED)
    assert driver.broken
    assert "wrote too much" in driver.problem


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
_DEVICES = st.fixed_dictionaries(
    {},
    optional={
        name: _SCALARS | st.sampled_from([0, 1, 0x8086, 0x030DC008])
        for name in ("index", "name", "type", "vendor", "device", "flags", "ip", "call", "code")
    },
)
_ANSWERS = st.fixed_dictionaries(
    {},
    optional={
        "calls": st.lists(st.lists(_SCALARS, max_size=3) | _SCALARS, max_size=3) | _SCALARS,
        "loaded": _SCALARS,
        "init": _SCALARS | st.sampled_from([0, 0x78000001]),
        "devices": st.lists(_DEVICES | _SCALARS, max_size=3) | _SCALARS,
    },
)


@given(
    output=_ANSWERS.map(lambda told: json.dumps(told).encode()) | st.binary(max_size=64),
    ending=st.sampled_from(Ending),
    code=st.integers(-1, 300),
    errors=st.binary(max_size=64),
    files=st.sampled_from([LISTED, UNLISTED]),
)
def test_no_answer_is_an_exception(
    output: bytes, ending: Ending, code: int, errors: bytes, files: IntelFiles
) -> None:
    """P-71, P-74: whatever a child leaves behind is judged; without a GPU with a reason."""
    driver = level_zero.parse(Answer(ending, code, output, errors), files)
    assert driver.gpus or driver.problem or driver.warnings or files.unlisted
    assert driver.evidence or not driver.broken
    assert all(gpu.ip <= DeviceIp(1023, 255, 63) for gpu in driver.gpus)
