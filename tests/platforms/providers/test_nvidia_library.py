"""P-71, P-97, P-98: whatever a driver does is data with evidence."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from platforms.detecting import (
    FakeProcesses,
    detect,
    touch,
    values_of,
    view_of,
    write_files,
    write_program,
)
from python_runs import printed_by
from sampled_cases import sampled

from wheelfit.testing.drivers import FakeDriver
from wheelfit_runtime.platforms.child_processes import Answer, Ending
from wheelfit_runtime.platforms.features import Detection, Status
from wheelfit_runtime.platforms.isolated import library_child
from wheelfit_runtime.platforms.providers.nvidia import child as nvidia_child
from wheelfit_runtime.platforms.providers.nvidia import library
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability, NvidiaFiles
from wheelfit_runtime.platforms.system_view import SystemView

H100 = "9.0 NVIDIA H100"
LIBRARIES = {"nvml": "libnvidia-ml.so.1", "cuda": "libcuda.so.1"}
T4 = "7.5 Tesla T4"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a machine whose kernel has a driver."""
    touch(tmp_path, "dev/nvidiactl")
    return tmp_path


def _detect(
    root: Path, driver: FakeDriver, environ: Mapping[str, str], deadline: float = 20
) -> Detection:
    folders = (driver.folder,)
    return detect("nvidia", root, environ, deadline=deadline, library_folders=folders)


def _first_values(detection: Detection) -> dict[str, str]:
    return {name: values[0] for name, values in values_of(detection).items()}


def _run_child(environ: Mapping[str, str], *libraries: str) -> subprocess.CompletedProcess[bytes]:
    """Run the script that asks the driver, isolated and without site packages."""
    scripts = (library_child.__file__, nvidia_child.__file__)
    command = [sys.executable, "-I", "-S", *scripts, *libraries]
    return subprocess.run(command, env=environ, capture_output=True, check=False)


def test_nvml_tells_versions_and_devices(root: Path, fake_driver: FakeDriver) -> None:
    """P-97: the CUDA version of the driver, and every device by its capability."""
    detection = _detect(root, fake_driver, fake_driver.environ(devices=[H100], cuda="12.8"))
    assert _first_values(detection) == {
        "cuda_version_lower_bound": "12.8",
        "cuda_version_upper_bound": "15.20",
        "sm_arch": "90_real",
    }


def test_an_old_driver_is_asked_with_the_older_functions(
    root: Path, fake_old_driver: FakeDriver
) -> None:
    """P-97: nvmlInit_v2 and the function without _v2 are the fallback."""
    environ = fake_old_driver.environ(devices=[T4], cuda="11.0")
    detection = _detect(root, fake_old_driver, environ)
    assert _first_values(detection)["sm_arch"] == "75_real"
    told = {e.source: e.value for e in detection.evidence}
    assert told["nvmlInitWithFlags"] == "no such function"
    assert told["nvmlInit_v2"] == "0"
    assert told["nvmlSystemGetCudaDriverVersion"] == "11000"
    assert "cuDriverGetVersion" not in told


def test_nvml_is_left_as_it_was_found(root: Path, fake_driver: FakeDriver) -> None:
    """P-97: the last call is nvmlShutdown, as a driver shows that dies in it."""
    environ = fake_driver.environ(devices=[H100], abort="nvmlShutdown")
    assert "SIGABRT (in nvmlShutdown)" in _detect(root, fake_driver, environ).warnings[0]


def test_libcuda_is_asked_where_nvml_is_missing(root: Path, fake_libcuda: FakeDriver) -> None:
    """P-98, P-89: devices come from cuInit, and the mask is taken away before it."""
    environ = fake_libcuda.environ(devices=[H100, T4], cuda="12.4")
    environ["CUDA_VISIBLE_DEVICES"] = ""
    detection = _detect(root, fake_libcuda, environ)
    assert _first_values(detection)["cuda_version_lower_bound"] == "12.4"
    assert len(detection.devices) == 2


def test_a_machine_with_a_driver_and_no_device_has_bounds_only(
    root: Path, fake_driver: FakeDriver, fake_libcuda: FakeDriver
) -> None:
    """P-74, P-99: zero devices is no exception, and sm_arch is absent."""
    for driver in (fake_driver, fake_libcuda):
        detection = _detect(root, driver, driver.environ())
        assert set(_first_values(detection)) == {
            "cuda_version_lower_bound",
            "cuda_version_upper_bound",
        }


def test_libcuda_without_any_driver_supports_nothing(
    tmp_path: Path, fake_libcuda: FakeDriver
) -> None:
    """P-99: images carry a libcuda of their own; without a device it proves nothing."""
    detection = _detect(tmp_path, fake_libcuda, fake_libcuda.environ())
    assert (detection.status, detection.features) == (Status.NOTHING, ())


@pytest.mark.parametrize(
    ("settings", "code", "warnings"),
    [
        pytest.param({"no_permission": "0"}, "75_real", [], id="hidden from a container"),
        pytest.param({"lost": "1"}, "90_real", ["GPU 1 is left out"], id="lost"),
        pytest.param({"nvml_init": 18}, "90_real", [], id="libcuda works where NVML fails"),
        pytest.param({"noise": 1}, "90_real", [], id="it prints"),
    ],
)
def test_what_is_left_of_a_driver_counts(
    root: Path, fake_driver: FakeDriver, settings: dict[str, Any], code: str, warnings: list[str]
) -> None:
    """P-36, P-74, P-94, P-97, P-98: one broken part does not hide others; hiding is no fault."""
    detection = _detect(root, fake_driver, fake_driver.environ(devices=[H100, T4], **settings))
    assert _first_values(detection)["sm_arch"] == code
    assert [words.partition(":")[0] for words in detection.warnings] == warnings


@pytest.mark.parametrize(
    ("settings", "status", "words"),
    [
        ({"nvml_init": 9}, Status.NOTHING, "no NVIDIA driver is loaded"),
        ({"nvml_init": 18, "cuda_init": 803}, Status.FAILED, "restart the machine"),
        ({"nvml_init": 999, "cuda_init": 804}, Status.FAILED, "cuInit 804"),
        ({"nvml_init": 999, "cuda_init": 999}, Status.FAILED, "cuInit 999"),
        ({"abort": "nvmlInitWithFlags"}, Status.FAILED, "SIGABRT (in nvmlInitWithFlags)"),
    ],
)
def test_a_driver_that_does_not_start_is_told_about(
    root: Path,
    fake_driver: FakeDriver,
    settings: dict[str, Any],
    status: Status,
    words: str,
) -> None:
    """P-71, P-98: error codes and crashes are data; the reason is in the warning."""
    environ = fake_driver.environ(devices=[H100], **settings)
    detection = _detect(root, fake_driver, environ)
    assert (detection.status, detection.features) == (status, ())
    assert words in detection.warnings[0]
    assert detection.evidence


@pytest.mark.parametrize(
    "function", sampled(["nvmlInitWithFlags", "nvmlDeviceGetCount_v2"], fast={1})
)
def test_a_hanging_driver_costs_the_deadline_and_no_more(
    root: Path, fake_driver: FakeDriver, function: str
) -> None:
    """P-37, P-71: the last call is named."""
    environ = fake_driver.environ(devices=[H100], hang=function)
    detection = _detect(root, fake_driver, environ, deadline=1)
    assert detection.status is Status.FAILED
    assert f"did not answer within 1 s (in {function})" in detection.warnings[0]


def test_libraries_that_cannot_be_loaded_are_told_about(root: Path, tmp_path: Path) -> None:
    """P-71: a file that is not a library is an outcome."""
    write_files(tmp_path, {"libraries/libcuda.so.1": "no library"})
    detection = _detect(root, FakeDriver(tmp_path / "libraries"), {})
    assert detection.status is Status.NOTHING
    assert any(e.source.endswith("libcuda.so.1") for e in detection.evidence)


def test_an_interpreter_that_cannot_be_started_is_told_about(
    root: Path, fake_driver: FakeDriver
) -> None:
    """P-71: no child process, no exception."""
    folders = (fake_driver.folder,)
    detection = detect("nvidia", root, interpreter="/no/such/python", library_folders=folders)
    assert detection.status is Status.FAILED
    assert "no child process" in detection.warnings[0]


def test_without_an_interpreter_a_thread_asks_and_never_initialises(
    root: Path, fake_driver: FakeDriver, fake_libcuda: FakeDriver
) -> None:
    """P-71, P-72: in a frozen application NVML tells all, libcuda the version only."""
    program = (
        "import sys\nfrom wheelfit_runtime.platforms.discovery import Machine\n"
        "from wheelfit_runtime.platforms.system_view import SystemView\n"
        "machine = Machine(SystemView(sys.argv[1], system='Linux', architecture='x86_64',\n"
        "    interpreter=None, library_folders=(sys.argv[2],), deadline=float(sys.argv[3])))\n"
        "found = machine.detect('nvidia')\n"
        "print(found.status, *(f.values[0] for f in found.features))\n"
    )

    def ask(driver: FakeDriver, environ: dict[str, str], deadline: str = "20") -> str:
        return printed_by("-c", program, root, driver.folder, deadline, environ=environ).strip()

    environ = fake_driver.environ(devices=[H100], cuda="12.8", hang="cuInit")
    assert ask(fake_driver, environ) == "supported 12.8 15.20 90_real"
    assert ask(fake_libcuda, environ) == "supported 12.8 15.20"
    hanging = fake_driver.environ(devices=[H100], hang="nvmlInitWithFlags")
    assert ask(fake_driver, hanging, "0.5") == "failed"


GOOD: dict[str, Any] = {
    "calls": [["nvmlInitWithFlags", "0"]],
    "nvml": {"loaded": "libnvidia-ml.so.1", "init": 0},
    "cuda": {"loaded": None, "init": None},
    "driver_version": "550.54.15",
    "cuda_version": 12040,
    "devices": [{"index": 0, "name": "H100", "uuid": "GPU-1", "capability": [9, 0]}],
}


def test_a_good_line_is_understood() -> None:
    """P-71: the shape of the answer."""
    answer = Answer(Ending.EXITED, 0, json.dumps(GOOD).encode())
    driver = library.parse(answer, NvidiaFiles())
    assert str(driver.cuda_version) == "12.4"
    assert [str(gpu) for gpu in driver.gpus] == ["GPU 0 (H100, 9.0)"]


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"Segmentation fault",
        b"[]",
        b"null",
        b'{"calls": []}',
        b"\xff\xfe",
        json.dumps(GOOD | {"cuda_version": "12.4"}).encode(),
        json.dumps(GOOD | {"devices": [{"index": 0, "name": "", "capability": 9}]}).encode(),
        json.dumps(GOOD | {"calls": [1]}).encode(),
        json.dumps(GOOD | {"nvml": None}).encode(),
        b"[" * 100_000,
    ],
)
def test_garbage_is_data(output: bytes) -> None:
    """P-71: an answer of another shape is a failure with evidence, no exception."""
    driver = library.parse(Answer(Ending.EXITED, 0, output, b"noise"), NvidiaFiles())
    assert driver.broken
    assert driver.cuda_version is None
    assert driver.evidence[-1].value == "noise"


def test_the_script_runs_alone(fake_driver: FakeDriver) -> None:
    """P-71: isolated, without site packages; one line on standard output, nothing else."""
    environ = fake_driver.environ(devices=[H100], noise=1)
    completed = _run_child(environ, f"nvml={fake_driver.folder}/libnvidia-ml.so.1")
    assert completed.returncode == 0
    assert completed.stdout.count(b"\n") == 1
    assert json.loads(completed.stdout)["cuda_version"] == 12040
    assert b"a driver that prints" in completed.stderr


def test_a_captured_machine_is_never_shown_the_real_libraries(root: Path) -> None:
    """P-70: names for the loader are candidates on the real machine only."""
    files = NvidiaFiles(libraries=("/usr/lib64/libcuda.so.1",))
    found = library.candidates(view_of(root), files)
    assert (found.nvml, found.cuda) == ((), (f"{root}/usr/lib64/libcuda.so.1",))
    real = library.candidates(SystemView(system="Linux", environ={}), files)
    assert real.cuda == ("libcuda.so.1", "/usr/lib64/libcuda.so.1")
    assert not library.candidates(SystemView(system="Darwin", environ={}), files)


# --- what the driver says of devices and of itself ----------------------------------------------


def test_an_instance_of_a_split_gpu_has_the_capability_of_the_whole(
    root: Path, fake_driver: FakeDriver
) -> None:
    """P-97: MIG changes nothing but what is said of the device."""
    environ = fake_driver.environ(devices=["8.0 NVIDIA A100", T4], mig="0")
    detection = _detect(root, fake_driver, environ)
    assert _first_values(detection)["sm_arch"] == "80_real"
    assert [device.device for device in detection.devices] == [
        "GPU 0 (NVIDIA A100, 8.0, MIG)",
        "GPU 1 (Tesla T4, 7.5)",
    ]


def test_the_mask_of_a_process_is_said_to_be_ignored(root: Path, fake_driver: FakeDriver) -> None:
    """P-89: the machine is described; whoever set the variable is told what became of it."""
    environ = fake_driver.environ(devices=[H100]) | {"CUDA_VISIBLE_DEVICES": "-1"}
    detection = _detect(root, fake_driver, environ)
    assert _first_values(detection)["sm_arch"] == "90_real"
    seen = {one.source: one.value for one in detection.evidence}
    assert seen["CUDA_VISIBLE_DEVICES"].startswith("'-1' is ignored")


KERNEL = "sys/module/nvidia/version"


@pytest.mark.parametrize(
    ("cuda", "is_forward"), [("12.2", False), ("12.0", False), ("12.3", True), ("13.0", True)]
)
def test_a_compatibility_package_is_told_and_decides(
    cuda: str, root: Path, fake_driver: FakeDriver, *, is_forward: bool
) -> None:
    """P-94: both versions are reported where the user-mode driver is newer; it counts."""
    write_files(root, {KERNEL: "535.183.01\n"})
    environ = fake_driver.environ(devices=[H100], cuda=cuda, driver="535.183.01")
    detection = _detect(root, fake_driver, environ)
    assert _first_values(detection)["cuda_version_lower_bound"] == cuda
    told = [one.value for one in detection.evidence if one.source == "forward compatibility"]
    assert bool(told) is is_forward
    assert all("535.183.01" in value and f"CUDA {cuda}" in value for value in told)


@pytest.mark.parametrize(
    ("code", "words"), [(804, "does not work with a compatibility package"), (803, "do not match")]
)
def test_a_compatibility_package_that_does_not_work_is_found_out(
    code: int, words: str, root: Path, fake_driver: FakeDriver
) -> None:
    """P-94, P-98: NVML does not know; cuInit, in a child of its own, does."""
    write_files(root, {KERNEL: "535.183.01\n"})
    environ = fake_driver.environ(devices=[H100], cuda="12.8", cuda_init=code)
    detection = _detect(root, fake_driver, environ)
    assert (detection.status, detection.features) == (Status.FAILED, ())
    assert words in detection.warnings[-1]
    assert f"cuInit {code}" in detection.warnings[-1]


def test_an_unknown_branch_of_drivers_says_nothing_of_compatibility(
    root: Path, fake_driver: FakeDriver
) -> None:
    """P-94: what is not in the table is not guessed, and no second child is made."""
    write_files(root, {KERNEL: "999.1\n"})
    environ = fake_driver.environ(devices=[H100], cuda="15.0", cuda_init=804)
    detection = _detect(root, fake_driver, environ)
    assert _first_values(detection)["cuda_version_lower_bound"] == "15.0"


def test_code_for_a_jetson_comes_with_a_warning(root: Path, fake_libcuda: FakeDriver) -> None:
    """P-90: machine code of boards and of other GPUs is not exchanged, and no value says so."""
    write_files(root, {"etc/nv_tegra_release": "# R36"})
    detection = _detect(root, fake_libcuda, fake_libcuda.environ(devices=["8.7 Orin"]))
    assert _first_values(detection)["sm_arch"] == "87_real"
    assert "machine code made for other GPUs may not run" in detection.warnings[-1]


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({}, 0),
        ({"no_permission": "1"}, 0),
        ({"lost": "1"}, library_child.NOT_LASTING),
        ({"nvml_init": 9}, library_child.NOT_LASTING),
        ({"nvml_init": 18, "cuda_init": 999}, library_child.NOT_LASTING),
        ({"no_libcuda": 1, "cuda_init": 999}, 0),
    ],
    ids=str,
)
def test_what_may_pass_is_not_remembered(
    settings: dict[str, Any], code: int, fake_driver: FakeDriver
) -> None:
    """P-22: the script ends with another status where its answer may be another one soon."""
    environ = fake_driver.environ(devices=[H100, T4], **settings)
    libraries = [f"{kind}={fake_driver.folder}/{name}" for kind, name in LIBRARIES.items()]
    completed = _run_child(environ, *libraries)
    assert completed.returncode == code, completed.stdout


def test_a_driver_that_prints_without_end_is_stopped(root: Path, fake_driver: FakeDriver) -> None:
    """P-36, P-37: it costs a bounded amount of memory, and the deadline is not waited for."""
    environ = fake_driver.environ(devices=[H100], flood=1)
    detection = _detect(root, fake_driver, environ, deadline=120)
    assert detection.status is Status.FAILED
    assert "the NVIDIA driver wrote too much" in detection.warnings[-1]
    assert sum(len(one.value) for one in detection.evidence) < 10_000


# --- nvidia-smi -----------------------------------------------------------------------------------


SILENT: dict[str, Any] = {
    **GOOD,
    "calls": [],
    "nvml": {"loaded": None, "init": None},
    "driver_version": None,
    "cuda_version": None,
    "devices": [],
}
"""What the child says where no library can be loaded."""


def _asked(tmp_path: Path, *files: str, system: str = "Linux") -> tuple[list[str], Detection]:
    touch(tmp_path, "usr/bin/nvidia-smi", "usr/bin/nvidia-smi.exe", *files)
    version = Answer(Ending.EXITED, 0, b"CUDA Version : 12.4\n")
    silent = Answer(Ending.EXITED, 0, json.dumps(SILENT).encode())
    processes = FakeProcesses({"nvidia-smi": version, "nvidia": silent})
    environ = {"PATH": "/usr/bin", "SYSTEMROOT": "/Windows"}
    more = {"system": system, "processes": processes, "replayed": True}
    detection = detect("nvidia", tmp_path, environ, **more)
    return processes.asked, detection


@pytest.mark.parametrize(
    ("files", "asked"),
    [
        pytest.param((), [], id="a stray tool"),
        pytest.param(
            ("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",), ["nvidia libraries"], id="an image"
        ),
    ],
)
def test_a_tool_without_a_driver_in_the_kernel_is_not_asked(
    tmp_path: Path, files: tuple[str, ...], asked: list[str]
) -> None:
    """P-96, P-98: neither nvidia-smi on PATH nor libraries alone are a sign of a driver."""
    names, detection = _asked(tmp_path, *files)
    assert names == asked
    assert detection.status is Status.NOTHING


def test_with_a_driver_in_the_kernel_the_tool_is_the_last_resort(tmp_path: Path) -> None:
    """P-98: libraries that cannot be loaded leave nvidia-smi, which finds its own."""
    names, detection = _asked(tmp_path, "dev/nvidiactl")
    assert names[0] == "nvidia libraries"
    assert names[1].startswith("nvidia-smi")
    assert _first_values(detection)["cuda_version_lower_bound"] == "12.4"


def test_on_windows_no_file_tells_of_the_kernel_s_driver(tmp_path: Path) -> None:
    """P-98: there the tool is asked wherever a library is."""
    names, _ = _asked(tmp_path, "Windows/System32/nvml.dll", system="Windows")
    assert names[1].startswith("nvidia-smi")


@pytest.mark.parametrize(("value", "counts"), [("void", 1), ("none", 1), ("", 1), ("all", 0)])
def test_who_keeps_the_gpus_out_of_a_container_is_named(
    value: str, counts: int, tmp_path: Path
) -> None:
    """P-99: a driver in the kernel and no library; the reason says who took it away."""
    write_files(tmp_path, {KERNEL: "570.86.10\n"})
    found = detect("nvidia", tmp_path, {"NVIDIA_VISIBLE_DEVICES": value})
    assert found.status is Status.NOTHING
    (warning,) = found.warnings
    assert warning.count("NVIDIA_VISIBLE_DEVICES hides the GPUs from this container") == counts


# --- p-98: the command-line tool is the last resort -----------------------------------------------


LISTING = """
==============NVSMI LOG==============

Timestamp                                 : Tue Nov  3 10:00:00 2026
Driver Version                            : 566.36
CUDA Version                              : 12.7

Attached GPUs                             : 1
"""
TABLE = "0, 8.9, GPU-1234, NVIDIA GeForce RTX 4090\n"


@pytest.mark.parametrize("words", ["CUDA Version", "CUDA UMD Version"])
def test_version_and_gpus_are_read(words: str) -> None:
    """P-98: both spellings of the version are known."""
    driver = library.parse_smi(LISTING.replace("CUDA Version", words), TABLE)
    assert driver is not None
    assert driver.cuda_version == Capability(12, 7)
    assert driver.driver_version == "566.36"
    assert [str(gpu) for gpu in driver.gpus] == ["GPU 0 (NVIDIA GeForce RTX 4090, 8.9)"]


def test_a_tool_too_old_for_the_query_gives_the_version_only() -> None:
    """P-98: an error text in place of the table is not a device."""
    driver = library.parse_smi(LISTING, 'Field "compute_cap" is not a valid field to query.\n')
    assert driver is not None
    assert driver.gpus == ()


@pytest.mark.parametrize("listing", ["", "NVIDIA-SMI has failed because it couldn't communicate"])
def test_no_version_is_no_answer(listing: str) -> None:
    """P-74: nothing usable is no exception."""
    assert library.parse_smi(listing, "") is None


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_the_tool_is_asked_where_no_library_is_found(tmp_path: Path) -> None:
    """P-98, P-89: found on the machine's PATH, run without the mask."""
    script = (
        '[ -z "${CUDA_VISIBLE_DEVICES+set}" ] || exit 1\n'
        f"if [ \"$1\" = -q ]; then cat <<'END'\n{LISTING}END\n"
        f"else cat <<'END'\n{TABLE}END\nfi\n"
    )
    write_program(tmp_path, "opt/bin/nvidia-smi", script)
    touch(tmp_path, "dev/nvidiactl")
    environ = {"PATH": "/usr/bin:/opt/bin", "CUDA_VISIBLE_DEVICES": "0"}
    detection = detect("nvidia", tmp_path, environ)
    assert detection.features[0].values[0] == "12.7"
    assert detection.features[2].values[0] == "89_real"
