"""Variables, tools and the loader's path, on machines that are folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from doctor.patient import Patient

from wheelfit.checking.findings import Finding
from wheelfit.doctor.environment import examine_environment
from wheelfit.doctor.settings import read_machine_settings, settings_findings
from wheelfit.testing.detectors import supported
from wheelfit_runtime.platforms.child_processes import Answer, Ending, Question
from wheelfit_runtime.platforms.features import Detection, Status
from wheelfit_runtime.platforms.system_view import SystemView

NO_GPU = Detection("nvidia", status=Status.NOTHING)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the root of a made-up machine."""
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def touch(root: Path, *names: str) -> None:
    """Make files of the machine."""
    for name in names:
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def toolkit(root: Path, folder: str, version: str) -> None:
    """Make a CUDA toolkit."""
    touch(root, f"{folder}/bin/nvcc", f"{folder}/version.json")
    told = {"cuda": {"name": "CUDA SDK", "version": version}}
    (root / folder.lstrip("/") / "version.json").write_text(json.dumps(told))


def judge(
    root: Path, *detections: Detection, patient: Patient | None = None, **environ: str
) -> list[Finding]:
    """Return what is found on a machine."""
    view = SystemView(str(root), environ, system="Linux")
    contents = None if patient is None else examine_environment(patient.environment)
    return list(
        settings_findings(
            read_machine_settings(view),
            detections,
            () if contents is None else contents.libraries,
        )
    )


def codes(found: list[Finding]) -> list[str]:
    """Return severity and code of findings."""
    return [f"{one.severity} {one.code}" for one in found]


def test_nothing_set(root: Path) -> None:
    """A machine without settings has no findings."""
    assert judge(root) == []


def test_masks(root: Path) -> None:
    """P-89: a mask that hides all, or stops early, is found; the number of GPUs counts."""
    assert codes(judge(root, CUDA_VISIBLE_DEVICES="")) == ["warning mask-hides-all"]
    assert codes(judge(root, HIP_VISIBLE_DEVICES="-1")) == ["warning mask-hides-all"]
    assert codes(judge(root, CUDA_VISIBLE_DEVICES="0,5")) == []
    for gpu in ("0000:01:00.0", "0000:02:00.0"):
        touch(root, f"/proc/driver/nvidia/gpus/{gpu}/information")
    (finding,) = judge(root, CUDA_VISIBLE_DEVICES="0,5,1")
    assert finding.code == "mask-stops-early"
    assert "'5' is not a device, so programs see 0 and nothing after it" in finding.message
    assert "there are 2, numbered from 0" in finding.message


def test_stray_tool(root: Path) -> None:
    """P-98: nvidia-smi without a driver is stray; with one, or where that is unknown, it is not."""
    touch(root, "/usr/bin/nvidia-smi")
    (finding,) = judge(root, NO_GPU, PATH="/usr/bin")
    assert (finding.code, finding.where) == ("stray-tool", "/usr/bin/nvidia-smi")
    assert judge(root, supported("nvidia", {"sm_arch": ["90_real"]}), PATH="/usr/bin") == []
    assert judge(root, Detection("nvidia", status=Status.FAILED), PATH="/usr/bin") == []
    assert judge(root, NO_GPU, PATH="/opt") == []


def test_foreign_tool(root: Path) -> None:
    """P-94: nvidia-smi of another release than the driver is found; it alone is started."""
    touch(root, "/usr/bin/nvidia-smi", "/usr/bin/rocminfo", "/usr/bin/nvcc")
    said = b"NVIDIA-SMI version  : 535.104.05\nNVML version        : 580.65\n"
    asked: list[str] = []

    class Told:
        def ask(self, question: Question) -> Answer:
            asked.append(question.name)
            return Answer(Ending.EXITED, 0, said)

    def found() -> list[Finding]:
        machine = SystemView(str(root), {"PATH": "/usr/bin"}, system="Linux", processes=Told())
        return list(settings_findings(read_machine_settings(machine), (), ()))

    assert found() == []
    assert asked == []  # without a driver it is not worth starting
    module = root / "sys/module/nvidia/version"
    module.parent.mkdir(parents=True)
    module.write_text("580.65.06\n")
    (finding,) = found()
    assert (finding.code, asked) == ("foreign-tool", ["nvidia-smi --version"])
    assert finding.message == (
        "nvidia-smi belongs to driver 535.104.05, but driver 580.65.06 is loaded"
    )
    module.write_text("535.104.05\n")
    assert found() == []


def test_stubs(root: Path) -> None:
    """The stub of libcuda on the loader's path is an error."""
    stubs = "/usr/local/cuda/lib64/stubs"
    touch(root, f"{stubs}/libcuda.so")
    assert codes(judge(root, LD_LIBRARY_PATH=f"/usr/lib:{stubs}/")) == [
        "note path-entry-missing",
        "error stub-library",
    ]


def test_library_path(root: Path, patient: Patient) -> None:
    """A library on the loader's path that an installed package brings too is found."""
    patient.add("nvidia-cublas-cu12", "12.8", files={"nvidia/cublas/lib/libcublas.so.12": b""})
    touch(root, "/usr/local/cuda-12.1/lib64/libcublas.so.12", "/opt/lib/libother.so")
    path = "/opt/lib::relative:/usr/local/cuda-12.1/lib64"
    (finding,) = judge(root, patient=patient, LD_LIBRARY_PATH=path)
    assert finding.code == "library-path-hides"
    assert "libcublas.so.12, which nvidia-cublas-cu12 12.8 contains too" in finding.message
    assert judge(root, LD_LIBRARY_PATH=path) == []


def test_toolkits(root: Path) -> None:
    """Toolkits are known by their files; two that differ, and one that is gone, are notes."""
    toolkit(root, "/usr/local/cuda-12.4", "12.4.1")
    toolkit(root, "/usr/local/cuda-13.0", "13.0.2")
    environ = {"PATH": "/usr/local/cuda-13.0/bin", "CUDA_HOME": "/usr/local/cuda-12.4/"}
    settings = read_machine_settings(SystemView(str(root), environ, system="Linux"))
    assert [(one.path, one.version) for one in settings.toolkits] == [
        ("/usr/local/cuda-12.4", "12.4.1"),
        ("/usr/local/cuda-13.0", "13.0.2"),
    ]
    (nvcc,) = settings.tools
    assert (nvcc.path, nvcc.version) == ("/usr/local/cuda-13.0/bin/nvcc", "13.0.2")
    (finding,) = judge(root, PATH=environ["PATH"], CUDA_HOME=environ["CUDA_HOME"])
    assert finding.code == "toolkits-differ"
    assert "CUDA_HOME names CUDA 12.4.1, but nvcc on PATH is 13.0.2" in finding.message
    assert judge(root, PATH=environ["PATH"], CUDA_HOME="/usr/local/cuda-13.0") == []
    assert codes(judge(root, CUDA_PATH="/usr/local/cuda-11")) == ["note path-entry-missing"]


def test_toolkit_of_a_distribution(root: Path) -> None:
    """A toolkit without a file that tells its version is one, and differs from none."""
    touch(root, "/usr/bin/nvcc", "/usr/share/doc")
    toolkit(root, "/usr/local/cuda-13.0", "13.0.2")
    assert judge(root, PATH="/usr/local/cuda-13.0/bin", CUDA_HOME="/usr") == []
    found = judge(root, CUDA_HOME="/usr/share")
    assert codes(found) == ["note path-entry-missing"]


def test_garbage_beside_a_toolkit(root: Path) -> None:
    """P-74: a version file that is none tells no version, and is no exception."""
    toolkit(root, "/usr/local/cuda-12.4", "12.4")
    for text in ("", "[]", '{"cuda": 3}', '{"cuda": {"version": 12}}', "[" * 100_000):
        (root / "usr/local/cuda-12.4/version.json").write_text(text)
        (found,) = read_machine_settings(SystemView(str(root), {}, system="Linux")).toolkits
        assert (found.path, found.version) == ("/usr/local/cuda-12.4", "")


def test_windows(root: Path) -> None:
    """On Windows lists are separated by semicolons, and folders may have a drive."""
    touch(root, "C/lib/libcuda.so")
    environ = {"LD_LIBRARY_PATH": "C:\\lib;C:\\gone"}
    settings = read_machine_settings(SystemView(str(root), environ, system="Windows"))
    assert [(folder.path, folder.exists) for folder in settings.library_folders] == [
        ("C:/lib", True),
        ("C:/gone", False),
    ]
