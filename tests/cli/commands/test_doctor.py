"""``wheelfit doctor``."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli.contract import check_object
from cli.running import Runner, tree
from programs import run_program
from sampled_cases import sampled

from wheelfit.cli.output import Output
from wheelfit.cli.render.diagnosis import show_diagnosis
from wheelfit.operations.context import Context
from wheelfit.operations.doctor import DoctorRequest, diagnose
from wheelfit.operations.machine import ChosenMachine, choose_machine
from wheelfit.operations.probe import open_record
from wheelfit.testing.drivers import FakeDriver
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit_runtime.platforms.providers.nvidia.tables import DRIVER_FLOOR

SetDriver = Callable[..., None]
Replay = Callable[[str | Path], None]
MACHINES = Path(__file__).parents[2] / "machines"
LEVELS = release_document(
    {"v4": {"x86_64": {"level": ["v4"]}}},
    providers={"x86_64": {"requires": ["provider-variant-x86-64>=0.0.1,<1"]}},
)


def findings(value: dict[str, Any]) -> list[str]:
    """Return area, severity and code of the findings."""
    return [
        f"{finding['area']} {finding['severity']} {finding['code']}"
        for finding in value["findings"]
    ]


@pytest.fixture(autouse=True)
def clean_environ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the variables that the doctor examines."""
    for name in ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONHOME", "CUDA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_PATH", "KMP_DUPLICATE_LIB_OK"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch) -> Replay:
    """Return a function that makes a captured machine the one of this process."""

    def change(machine: str | Path) -> None:
        def choose(*words: Any, **options: Any) -> ChosenMachine:
            return open_record(str(MACHINES / machine), choose_machine(*words, **options))[0]

        monkeypatch.setattr("wheelfit.operations.machine.choose_machine", choose)

    return change


@pytest.fixture
def target(run: Runner, tmp_path: Path) -> Path:
    """Install a variant for x86-64-v4 with a matching host."""
    folder = tmp_path / "target"
    build_wheel(tmp_path, "fast", "2.0", label="v4", document=LEVELS)
    host = tmp_path / "v4.toml"
    host.write_text(
        '[metadata]\nversion = "0.1"\n\n[[provider]]\nnamespace = "x86_64"\n'
        '[provider.properties]\nlevel = ["v4", "v3", "v2", "v1"]\n'
    )
    words: list[str | Path] = ["--no-index", "-f", tmp_path, "--target", folder, "--for", host]
    run("install", *words, "fast")
    return folder


def test_no_findings(empty_venv: Path, run: Runner, replay: Replay) -> None:
    """Without findings the report fits one screen, with every namespace and its time."""
    replay("linux-x86-v3-zen3")
    result = run("doctor", "--python", empty_venv)
    lines = result.out.splitlines()
    assert lines[-1] == "nothing is wrong"
    assert re.match(r"wheelfit \S+, \S+/linux-x86-v3-zen3: \w+ [0-9.]+", lines[0])
    assert len(lines) < 24
    assert max(map(len, lines[1 : lines.index("Sources")])) <= 120
    (row,) = (line for line in lines if line.startswith("  x86_64"))
    assert " supported " in row
    assert " ms  level v3, " in row
    assert f"  {empty_venv} (a virtual environment)" in lines
    assert result.err == ""


def test_unsupported_variant(target: Path, run: Runner, replay: Replay) -> None:
    """F-96, P-21: A variant that the machine no longer supports is an error with a remedy."""
    words = ("doctor", "--target", target, "--json")
    replay("linux-x86-v4-zen5")
    assert findings(run(*words).object) == []
    replay("linux-x86-v3-zen3")
    value = run(*words, code=13).object
    assert findings(value) == ["packages error unsupported-here"]
    (finding,) = value["findings"]
    assert finding["rule"] == "F-96"
    assert "fast 2.0 (v4)" in finding["message"]
    assert "level" in finding["message"]
    assert finding["message"].endswith("; it was chosen for v4.toml")  # P-73
    command = f"`wheelfit install --target {target} --refit`; "
    assert finding["remedy"].startswith(command)
    assert [variant["label"] for variant in value["environment"]["variants"]] == ["v4"]


def test_driver_of_a_captured_machine(run: Runner, tmp_path: Path, replay: Replay) -> None:
    """P-92: a driver too old for a package is an error that names the release to update to."""
    record = tmp_path / "machine"
    shutil.copytree(MACHINES / "linux-x86-mig-a100", record)
    answers = record / "answers.json"
    answers.write_text(
        answers.read_text().replace('cuda_version\\": 12080', 'cuda_version\\": 11080')
    )
    build_wheel(tmp_path, "cupy-cuda12x", "13.6.0")
    run("install", "--no-index", "-f", tmp_path, "--target", tmp_path / "site", "cupy-cuda12x")
    replay(record)
    value = run("doctor", "--target", tmp_path / "site", "--json", code=13).object
    (finding,) = (one for one in value["findings"] if one["code"] == "driver-too-old")
    assert f"update NVIDIA's driver to release {DRIVER_FLOOR[12][0]} or newer" in finding["remedy"]


def test_wheels_of_another_python(empty_venv: Path, run: Runner, tmp_path: Path) -> None:
    """An environment cannot have wheels of another machine's Python, but a folder can."""
    another = sys.version_info.minor + 1
    for minor in (sys.version_info.minor, another):
        build_wheel(tmp_path, "fast", "2.0", tag=f"cp3{minor}-cp3{minor}-manylinux_2_17_x86_64")
    venv = shutil.copytree(empty_venv, tmp_path / "venv", symlinks=True)
    run("install", "--no-index", "-f", tmp_path, "--python", venv, "fast")
    host = tmp_path / "host.toml"
    host.write_text(
        f'[metadata]\nversion = "0.1"\n[interpreter]\nversion = "3.{another}"\n'
        '[platform]\nmachine = "x86_64"\nglibc = "2.34"\n'
    )
    words = ("doctor", "--python", venv, "--for", host, "--json")
    (finding,) = run(*words, code=13).object["findings"]
    assert finding["code"] == "wrong-platform"
    command = f"wheelfit install --target DIR --for {host} --force-reinstall fast==2.0"
    assert finding["remedy"] == command
    place = str(tmp_path / "folder")
    advised = command.removeprefix("wheelfit ").replace("DIR", place).split()
    run(*advised, "--no-index", "-f", tmp_path)


def test_other_machine(target: Path, run: Runner, tmp_path: Path) -> None:
    """``--for`` examines a described machine, without the settings of this one."""
    host = tmp_path / "host.toml"
    host.write_text(
        '[metadata]\nversion = "0.1"\n\n[[provider]]\nnamespace = "x86_64"\n'
        '[provider.properties]\nlevel = ["v2", "v1"]\n'
    )
    words = ("doctor", "--target", target, "--for", host)
    value = run(*words, "--json", code=13).object
    assert findings(value) == ["packages error unsupported-here"]
    command = f"`wheelfit install --target {target} --for {host} --refit`; "
    assert value["findings"][0]["remedy"].startswith(command)
    assert value["settings"] is None
    assert value["machine"] == str(host)
    assert list(value["namespaces"]) == ["x86_64"]
    assert "Variables" not in run(*words, code=13).out


def test_exit_codes(
    target: Path, run: Runner, replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first area with an error decides; warnings count with ``--strict``, notes never."""
    words = ("doctor", "--target", target)
    fits = ("--ignore", "unsupported-here")
    replay("linux-x86-bad-overrides")
    run(*words, *fits, code=11)
    replay("linux-x86-v3-zen3")
    run(*words, code=13)
    run(*words, *fits)
    replay("linux-x86-container-masked-device")
    assert "warning mask-hides-all" in run(*words, *fits).out
    assert "warning mask-hides-all" in run(*words, *fits, "--strict", code=12).out
    monkeypatch.undo()
    monkeypatch.setenv("LD_LIBRARY_PATH", "/gone")
    here = (*words, *fits)
    assert run(*here, "--json").object["summary"]["notes"] == 1
    assert "1 note (shown with -v)" in run(*here).out
    assert "LD_LIBRARY_PATH: /gone does not exist" in run(*here, "-v").out


def test_unmet_and_mixed_requirements(run: Runner, tmp_path: Path) -> None:
    """Unmet requirements and mixed variants are warnings, and errors with --strict."""
    blas = release_document(
        {
            "mkl": {"blas_lapack": {"provider": ["mkl"]}},
            "open": {"blas_lapack": {"provider": ["openblas"]}},
        },
        static={"blas_lapack": {"provider": ["mkl", "openblas"]}},
    )
    build_wheel(tmp_path, "one", "1.0", label="mkl", document=blas, requires=["torch"])
    build_wheel(tmp_path, "two", "1.0", label="open", document=blas)
    target = ("--target", tmp_path / "target", "--for", "cpu-x86_64-v3")
    words = ("--no-index", "-f", tmp_path, "--no-deps", "--allow-mixed", "blas")
    run("install", *target, *words, "one", "two")
    value = run("doctor", *target, "--json").object
    assert findings(value) == [
        "packages warning mixed-variants",
        "packages warning unmet-requirement",
    ]
    assert value["findings"][0]["message"] == "BLAS mkl: one; BLAS openblas: two"
    run("doctor", *target, "--strict", code=13)


def test_verbose(run: Runner, tmp_path: Path, replay: Replay) -> None:
    """P-75: ``-v`` shows every piece of evidence and every child process."""
    replay("linux-x86-amd-rocminfo")
    words = ("doctor", "--target", tmp_path)
    value = run(*words, "--json").object
    asked = {process["name"]: process for process in value["processes"]}
    assert "rocminfo" in " ".join(asked)
    assert all(one["seconds"] >= 0 for one in asked.values())
    amd = value["namespaces"]["amd"]
    assert amd["status"] == "supported"
    assert amd["evidence"]
    out = run(*words, "-v").out
    for one in asked.values():
        assert f"  ran {one['name']}: " in out
    for evidence in amd["evidence"]:
        assert f"      {evidence['source']}: {evidence['value'].splitlines()[0]}" in out
    assert f"data of {amd['provider_version']}" in out
    short = run(*words).out
    assert "      " + amd["evidence"][0]["source"] not in short


@pytest.mark.parametrize(
    "machine", sampled(sorted(path.name for path in MACHINES.iterdir()), fast=range(0, 1000, 8))
)
def test_captured_machines(
    machine: str, tmp_path: Path, replay: Replay, capsys: pytest.CaptureFixture[str]
) -> None:
    """P-17: every captured machine gives a report that follows the schema."""
    replay(machine)
    report = diagnose(DoctorRequest(target=str(tmp_path)), Context())
    show_diagnosis(report, Output())
    assert machine in capsys.readouterr().out.splitlines()[0]
    value = json.loads(json.dumps(report.to_json()))
    check_object("doctor", value)
    errors = [finding for finding in value["findings"] if finding["severity"] == "error"]
    assert report.faulty_areas(strict=False) == ({"machine"} if errors else set())
    assert all(finding["remedy"] for finding in value["findings"])


def test_control_characters_are_escaped(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value with line breaks or control characters cannot imitate a finding."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0\n  error   made-up\u202e")
    out = run("doctor", "--target", tmp_path).out
    assert "  CUDA_VISIBLE_DEVICES=0\\n  error   made-up\\u202e  (programs see no" in out


def test_missing_active_environment(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing active environment is a finding; the other checks still run."""
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "gone"))
    value = run("doctor", "--json", code=12).object
    (finding,) = (one for one in value["findings"] if one["code"] == "environment-unusable")
    assert (finding["area"], finding["severity"]) == ("settings", "error")
    assert "does not exist" in finding["message"]
    assert value["environment"]["packages"] > 0
    run("doctor", "--python", tmp_path / "gone", code=1)


def test_disabled_provider(run: Runner, tmp_path: Path, replay: Replay) -> None:
    """P-10: A disabled provider is not run and causes no finding."""
    words = ("doctor", "--target", tmp_path)
    assert run(*words, "--disable-provider", "amd", "--json").object["overrides"] == [
        "--disable-provider amd"
    ]
    replay("linux-x86-amd-hanging-tool")
    run(*words, code=11)
    value = run(*words, "--disable-provider", "amd", "--json").object
    assert value["namespaces"]["amd"]["status"] == "disabled"
    assert value["processes"] == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other variables")
def test_conda_variables(empty_venv: Path, run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """P-73: Conda's variables for hardware and system are findings, and so are misspelt ones."""
    monkeypatch.setenv("CONDA_OVERRIDE_CUDA", "")
    monkeypatch.setenv("CONDA_OVERRIDE_GLIBC", "2.17")
    monkeypatch.setenv("CONDA_OVERRIDE_ARCHSPEC", "pentium")
    value = run("doctor", "--json", "--python", empty_venv, code=11).object
    found = {
        finding["code"]: finding for finding in value["findings"] if "override" in finding["code"]
    }
    assert "CONDA_OVERRIDE_ARCHSPEC='pentium'" in found["override-unreadable"]["message"]
    texts = [
        finding["message"]
        for finding in value["findings"]
        if finding["code"] == "override-in-effect"
    ]
    assert texts == [
        "CONDA_OVERRIDE_CUDA= replaces what is detected",
        "CONDA_OVERRIDE_GLIBC=2.17 replaces what is detected",
    ]
    assert value["overrides"] == ["CONDA_OVERRIDE_CUDA=", "CONDA_OVERRIDE_GLIBC=2.17"]


def test_usage_errors(run: Runner) -> None:
    """Wrong options are usage errors with a hint."""
    said = run("doctor", "--ignore", "mixed-cudas", "--json", code=2).error
    assert said["hint"] == "did you mean 'mixed-cuda'?"
    said = run("doctor", "--ignore", "nothing-such", "--json", code=2).error
    assert said["hint"] == "`wheelfit doctor -v` prints the code of each finding"
    run("doctor", "--runtime", "-3", code=2)
    run("doctor", "--runtime", "me", code=2)
    run("doctor", "--runtime", "self", "--for", "macos-arm64", code=2)


def test_no_personal_data(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report has no user name, home, host name or credentials."""
    home = tmp_path / "homes" / "wilhelmine"
    (home / "env").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USER", "wilhelmine")
    monkeypatch.setenv("HOSTNAME", "secretbox")
    monkeypatch.setenv("LD_PRELOAD", f"{home}/libmine.so")
    monkeypatch.setenv("PIP_FIND_LINKS", "https://secretbox/wheels")
    monkeypatch.setenv("PIP_INDEX_URL", "https://wilhelmine:hunter2@index.example/simple")
    words = ("doctor", "--target", home / "env", "-v")
    for said in (run(*words).out, run(*words, "--json").out):
        for secret in ("wilhelmine", "secretbox", "hunter2", str(home)):
            assert secret not in said
        assert "/home/user/env" in said


def test_no_side_effects(target: Path, tmp_path: Path) -> None:
    """No file is written, no address contacted and no installed package imported."""
    (target / "evil.pth").write_text("import fast.broken\n")
    before = tree(tmp_path)
    watch = (
        "import sys\n"
        "def hook(event, arguments):\n"
        "    if event in ('socket.connect', 'socket.getaddrinfo', 'subprocess.Popen'):\n"
        "        sys.exit(f'{event} {arguments}')\n"
        "sys.addaudithook(hook)\n"
        "from wheelfit.cli.main import main\n"
        "code = main(sys.argv[1:])\n"
        "assert 'fast' not in sys.modules\n"
        "sys.exit(code)\n"
    )
    words = ["doctor", "--target", str(target), "--for", "cpu-x86_64-v4"]
    completed = run_program(sys.executable, "-c", watch, *words, code=None)
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.endswith("nothing is wrong\n")
    assert tree(tmp_path) == before


@pytest.mark.skipif(sys.platform != "linux", reason="the fake driver is found as on Linux")
class TestDriver:
    """A driver that is queried through its libraries, in child processes."""

    @pytest.fixture
    def driver(self, fake_driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> SetDriver:
        """Return a function that changes the driver and the GPUs of this machine."""

        def change(*, cuda: str, devices: list[str], **settings: Any) -> None:
            environ = fake_driver.environ(cuda=cuda, devices=devices, **settings)
            for name, value in {**environ, "LD_LIBRARY_PATH": str(fake_driver.folder)}.items():
                monkeypatch.setenv(name, value)
            monkeypatch.setenv("PATH", str(Path(sys.executable).parent))  # no tool of a vendor

        return change

    def test_downgraded_driver(self, driver: SetDriver, run: Runner, tmp_path: Path) -> None:
        """F-96: A variant of a newer driver is an error on an older one, in a real environment."""
        cuda = release_document(
            {"cu129": {"nvidia": {"cuda_version_lower_bound": ["12.9"], "sm_arch": ["90_real"]}}},
            providers={
                "nvidia": {
                    "requires": ["nvidia-variant-provider>=0.0.1,<1"],
                    "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
                }
            },
        )
        build_wheel(tmp_path, "torch", "2.8.0", label="cu129", document=cuda)
        target = tmp_path / "target"
        driver(cuda="12.9", devices=["9.0 NVIDIA H100"])
        run("install", "--no-index", "-f", tmp_path, "--target", target, "torch")
        words = ("doctor", "--target", target, "--json")
        value = run(*words).object
        assert findings(value) == []
        (asked,) = value["processes"]
        assert (asked["name"], asked["ending"], asked["code"]) == ("nvidia libraries", "exited", 0)
        assert 0 < asked["seconds"] <= value["namespaces"]["nvidia"]["seconds"]
        driver(cuda="12.4", devices=["9.0 NVIDIA H100"])
        assert findings(run(*words, code=13).object) == ["packages error unsupported-here"]
        driver(cuda="12.9", devices=["8.6 NVIDIA A10"])
        assert findings(run(*words, code=13).object) == ["packages error unsupported-here"]

    def test_crashing_driver(self, driver: SetDriver, run: Runner, tmp_path: Path) -> None:
        """P-71: A crash is an error of the machine that names the failing call."""
        driver(cuda="12.9", devices=[], abort="nvmlInitWithFlags")
        value = run("doctor", "--target", tmp_path, "--json", code=11).object
        assert findings(value) == ["machine error detection-failed"]
        assert "crashed with SIGABRT" in value["findings"][0]["message"]
        assert value["processes"][0]["ending"] == "killed"
        driver(cuda="12.9", devices=[], abort="", nvml_init=18, cuda_init=803)
        value = run("doctor", "--target", tmp_path, "--json", code=11).object
        assert "restart the machine" in value["findings"][0]["message"]


class TestRuntime:
    """``--runtime``, which examines a process."""

    pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")

    def test_own_process(self, run: Runner) -> None:
        """``self`` is the current process."""
        value = run("doctor", "--runtime", "self", "--json").object
        assert value["runtime"]["pid"] == os.getpid()
        assert value["environment"] is None
        assert value["namespaces"] == {}

    def test_other_process(self, run: Runner) -> None:
        """A process is shown with the variables it was started with."""
        command = [sys.executable, "-c", "print('up', flush=True); input()"]
        environ = {**os.environ, "CUDA_VISIBLE_DEVICES": "3"}
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            result = run("doctor", "--runtime", str(process.pid))
            value = run("doctor", "--runtime", str(process.pid), "--json").object
            process.communicate(b"\n")
        assert f"  process {process.pid} (python" in result.out
        assert "  CUDA_VISIBLE_DEVICES=3  (programs see NVIDIA GPUs 3 only)" in result.out
        assert result.out.endswith("nothing is wrong\n")
        assert value["runtime"]["problem"] is None

    def test_ended_process(self, run: Runner) -> None:
        """A process that has ended is an error, with exit code 14."""
        process = subprocess.Popen([sys.executable, "-c", ""])
        process.wait()
        value = run("doctor", "--runtime", str(process.pid), "--json", code=14).object
        assert findings(value) == ["process error process-unreadable"]
        assert value["runtime"]["problem"] == f"there is no process {process.pid}"
