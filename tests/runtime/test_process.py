"""What the machine supports for this process, and what the process has."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from python_runs import printed_by
from sampled_cases import sampled

from wheelfit.testing.drivers import FakeDriver, add_nvidia_gpu
from wheelfit_runtime.loader.process import (
    detect,
    loaded_values,
    process_view,
    query_driver,
    visible_gpus,
)
from wheelfit_runtime.platforms.probes.mapped_libraries import MappedFile
from wheelfit_runtime.platforms.providers.nvidia.facts import Capability, NvidiaGpu
from wheelfit_runtime.platforms.system_view import SystemView, architecture_of_this_process

H100 = NvidiaGpu(0, "H100", Capability(9, 0), "GPU-aaaa")
H100_TOO = NvidiaGpu(1, "H100", Capability(9, 0), "GPU-abbb")
T4 = NvidiaGpu(2, "T4", Capability(7, 5), "GPU-cccc")

_ASK = """
import json, os, sys
from wheelfit_runtime.platforms.system_view import SystemView
from wheelfit_runtime.loader.process import query_driver
found = query_driver(SystemView(root=sys.argv[1]), devices=bool(sys.argv[2:]))
ready, go = os.pipe()
child = os.fork()
if not child:
    os._exit(7)
_, status = os.waitpid(child, 0)
print(json.dumps([os.getpid(), found.cuda_version, len(found.gpus), found.problem, status >> 8]))
"""


def machine_with_driver(root: Path, driver: FakeDriver) -> Path:
    """Make a folder that stands for a machine with a driver in its kernel; return it."""
    (root / "sys/module/nvidia").mkdir(parents=True)
    (root / "sys/module/nvidia/version").write_text("550.54.15\n")
    libraries = root / f"usr/lib/{architecture_of_this_process()}-linux-gnu"
    libraries.mkdir(parents=True)
    for library in driver.folder.iterdir():
        shutil.copy(library, libraries)
    return root


def traced(trace: Path) -> dict[str, str]:
    """Return what makes a driver write down who calls what."""
    return {"WHEELFIT_FAKE_TRACE": str(trace), "WHEELFIT_FAKE_TRACE_PROCESS": "1"}


def ask(root: Path, driver: FakeDriver, *more: str, **environ: str) -> list[object]:
    """Ask in a process of its own; return what it says of itself and the driver."""
    given = {**os.environ, **driver.environ(devices=["9.0 NVIDIA H100"]), **environ}
    found: list[object] = json.loads(printed_by("-c", _ASK, root, *more, environ=given))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="the fake driver is one of Linux")
class TestDriver:
    """The driver is asked for its version, and never initialised here."""

    def test_version_in_process(self, tmp_path: Path, fake_driver: FakeDriver) -> None:
        """P-72: the version is had without cuInit and without a child, and a fork works after."""
        root = machine_with_driver(tmp_path / "root", fake_driver)
        trace = tmp_path / "trace"
        pid, version, gpus, problem, status = ask(root, fake_driver, **traced(trace))
        assert (version, gpus, problem, status) == ([12, 4], 0, "", 7)
        assert trace.read_text().splitlines() == [f"cuDriverGetVersion {pid}"]

    def test_devices_in_a_child(self, tmp_path: Path, fake_driver: FakeDriver) -> None:
        """P-71: devices are asked for in another process."""
        root = machine_with_driver(tmp_path / "root", fake_driver)
        trace = tmp_path / "trace"
        pid, version, gpus, problem, _ = ask(root, fake_driver, "devices", **traced(trace))
        assert (version, gpus, problem) == ([12, 4], 1, "")
        lines = trace.read_text().splitlines()
        assert lines
        assert not [line for line in lines if line.endswith(f" {pid}")]

    @pytest.mark.parametrize("mask", sampled(["", "-1", "-1,0", "none", "GPU"], fast={0, 2}))
    def test_a_mask_that_hides_all(
        self, tmp_path: Path, fake_driver: FakeDriver, mask: str
    ) -> None:
        """What this process may not see counts as absent, and the reason is the mask."""
        root = machine_with_driver(tmp_path / "root", fake_driver)
        _, version, _, problem, _ = ask(root, fake_driver, CUDA_VISIBLE_DEVICES=mask)
        assert version is None
        assert problem == f"CUDA_VISIBLE_DEVICES={mask} hides every GPU from this process"

    def test_a_mask_that_names_none(self, tmp_path: Path, fake_driver: FakeDriver) -> None:
        """A mask that names no GPU of the machine leaves none."""
        root = machine_with_driver(tmp_path / "root", fake_driver)
        _, version, gpus, problem, _ = ask(root, fake_driver, "d", CUDA_VISIBLE_DEVICES="7")
        assert (version, gpus) == (None, 0)
        assert problem == "CUDA_VISIBLE_DEVICES=7 names no GPU of this machine"

    def test_a_library_without_a_driver(self, tmp_path: Path, fake_driver: FakeDriver) -> None:
        """Images bring libcuda to machines that have no GPU; a child finds that out."""
        root = machine_with_driver(tmp_path / "root", fake_driver)
        (root / "sys/module/nvidia/version").unlink()
        trace = tmp_path / "trace"
        settings = {**traced(trace), "WHEELFIT_FAKE_NVML_INIT": "9"}
        pid, version, _, problem, _ = ask(root, fake_driver, **settings)
        assert version is None
        assert "no NVIDIA driver is loaded" in str(problem)
        assert f" {pid}\n" not in trace.read_text()

    def test_a_driver_without_its_library(self, tmp_path: Path) -> None:
        """P-99: a container that was not given the libraries."""
        (tmp_path / "dev").mkdir()
        (tmp_path / "dev/nvidiactl").touch()
        found = query_driver(SystemView(root=str(tmp_path), environ={}))
        assert "NVIDIA Container Toolkit" in found.problem


def test_no_sign(tmp_path: Path) -> None:
    """Where nothing tells of NVIDIA, nothing is asked."""
    found = detect(["nvidia", "acme"], SystemView(root=str(tmp_path), environ={}, system="Linux"))
    assert set(found.detections) == {"nvidia"}
    assert found.detections["nvidia"].warnings == (
        "there is no sign of an NVIDIA GPU or driver here",
    )


def test_overrides_replace_looking(tmp_path: Path) -> None:
    """P-73: the same variables as everywhere replace what would be found."""
    environ = {
        "WHEELFIT_OVERRIDE_NVIDIA_CUDA_VERSION_LOWER_BOUND": "12.4,12.0",
        "WHEELFIT_OVERRIDE_X86_64_LEVEL": "v2,v1",
    }
    found = detect(["nvidia", "x86_64"], SystemView(root=str(tmp_path), environ=environ))
    features = {
        (name, feature.name): feature.values
        for name, detection in found.detections.items()
        for feature in detection.features
    }
    assert features["nvidia", "cuda_version_lower_bound"] == ("12.4", "12.0")
    assert features["x86_64", "level"] == ("v2", "v1")


@pytest.mark.parametrize(
    ("mask", "order", "indices"),
    [
        (None, "", [0, 1, 2]),
        ("0", "PCI_BUS_ID", [0]),
        ("2,0,-1,1", "PCI_BUS_ID", [2, 0]),
        ("0,9,1", "PCI_BUS_ID", [0]),
        ("GPU-c", "", [2]),
        ("GPU-a", "", []),
        ("GPU-aa, GPU-ab", "", [0, 1]),
        ("0", "", [0, 1, 2]),
        ("MIG-1234", "", [0, 1, 2]),
        ("0,0", "PCI_BUS_ID", [0]),
    ],
)
def test_masks(mask: str | None, order: str, indices: list[int]) -> None:
    """A mask ends at its first wrong entry; what it means for unlike GPUs may be uncertain."""
    assert [gpu.index for gpu in visible_gpus([H100, H100_TOO, T4], mask, order)] == indices


@pytest.mark.parametrize(
    ("name", "loaded"),
    [
        ("libcudart.so.12", ("cuda", "12")),
        ("libcufft.so.12.0.0", ("cuda", "13")),
        ("libnccl.so.2", None),
        ("libcuda.so.1", None),
        ("libamdhip64.so.6", ("rocm", "6")),
        ("libmpi.so.40.30.4", ("mpi", "openmpi")),
        ("libmpi.so.12", ("mpi", "mpich")),
        ("libmpi_cxx.so.40", None),
        ("libmkl_rt.so.2", ("blas", "mkl")),
        ("libscipy_openblas64_-99b71e71.so", None),
        ("libopenblas.so.0", ("blas", "openblas")),
        ("libopenblas-r0-f650aae0.3.3.so", None),
        ("libgomp-a34b3233.so.1.0.0", ("openmp", "gnu")),
        ("libc.so.6", None),
    ],
)
def test_what_a_library_settles(name: str, loaded: tuple[str, str] | None) -> None:
    """Libraries settle a major or a family; private copies and shared names settle nothing."""
    found = loaded_values([MappedFile(f"/x/{name}")])
    assert [(one.dimension, one.value) for one in found] == ([loaded] if loaded else [])
    assert all(one.reason == f"/x/{name} is loaded" for one in found)


_FROZEN = """
import json, os, sys
sys.frozen = True
sys.executable = sys.argv[2]
from wheelfit_runtime.platforms.system_view import SystemView
from wheelfit_runtime.loader.process import process_view, query_driver
here = process_view(os.environ)
assert here.interpreter is None
found = query_driver(SystemView(root=sys.argv[1]), devices=True)
print(json.dumps([os.getpid(), found.cuda_version, len(found.gpus), found.problem]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the fake driver is one of Linux")
def test_a_frozen_application(tmp_path: Path, fake_driver: FakeDriver) -> None:
    """P-71: an application that is its own interpreter is not started again, nor CUDA in it."""
    root = machine_with_driver(tmp_path / "root", fake_driver)
    trace, started = tmp_path / "trace", tmp_path / "started"
    app = tmp_path / "app"
    app.write_text(f"#!/bin/sh\ntouch '{started}'\n")
    app.chmod(0o755)
    driver = fake_driver.environ(devices=["9.0 NVIDIA H100"])
    environ = {**os.environ, **driver, **traced(trace)}
    pid, *found = json.loads(printed_by("-c", _FROZEN, root, app, environ=environ))
    assert found == [[12, 4], 1, ""]
    assert not started.exists()
    calls = [line.split() for line in trace.read_text().splitlines()]
    assert {process for _, process in calls} == {str(pid)}
    assert "cuInit" not in {name for name, _ in calls}


_JUDGE = """
import json, sys
from wheelfit_runtime.platforms.system_view import SystemView
from wheelfit_runtime.loader.declarations import Feature, Implementation, Property
from wheelfit_runtime.loader.planning import judge
from wheelfit_runtime.loader.process import detect

def needs(name, bound):
    told = Property(Feature("nvidia", "cuda_version_lower_bound"), (bound,))
    return Implementation("spam", name, f"spam_{name}", (told,))

answer = []
for devices, environ in json.loads(sys.argv[2]):
    here = SystemView(root=sys.argv[1], environ=environ)
    found = detect(["nvidia"], here, devices=devices).detections
    both = [judge(needs(*one), found).reasons for one in (("cu13", "13.0"), ("cu12", "12.0"))]
    answer.append(both)
print(json.dumps(answer))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the fake driver is one of Linux")
class TestGenerations:
    """P-95: what a driver offers, the GPU may have no code for."""

    V100 = "is for CUDA 13.0, which has no code for Tesla V100-SXM2-16GB"

    def judged(
        self, root: Path, driver: FakeDriver, *cases: tuple[bool, dict[str, str]], gpu: str
    ) -> list[str]:
        """Return why a build for CUDA 13 is left out, by case; one for CUDA 12 never is."""
        given = {**os.environ, **driver.environ(devices=[gpu], cuda="13.0", driver="580.65.06")}
        names = given.keys() - os.environ.keys()
        fake = {name: given[name] for name in names}
        told = [(devices, {**fake, **environ}) for devices, environ in cases]
        text = printed_by("-c", _JUDGE, root, json.dumps(told), environ=given)
        answer: list[list[list[str]]] = json.loads(text)
        assert [cu12 for _, cu12 in answer] == [[]] * len(cases)
        return ["; ".join(cu13) for cu13, _ in answer]

    def test_a_v100(self, tmp_path: Path, fake_driver: FakeDriver) -> None:
        """Ids tell it where nobody asks a child; a child tells capabilities; users count more."""
        root = machine_with_driver(tmp_path / "root", fake_driver)
        add_nvidia_gpu(root, 0, "Tesla V100-SXM2-16GB", 0x1DB1)
        force = "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION"
        result = self.judged(
            root,
            fake_driver,
            (False, {}),
            (False, {"CUDA_VISIBLE_DEVICES": "0"}),
            (False, {force: "13.0"}),
            (True, {}),
            gpu="7.0 Tesla V100",
        )
        child = "is for CUDA 13.0, which has no code for GPU 0 (Tesla V100, 7.0)"
        assert result == [self.V100, self.V100, "", child]

    def test_several(self, tmp_path: Path, fake_driver: FakeDriver) -> None:
        """A build is left out where no GPU that a process has can run it."""
        root = machine_with_driver(tmp_path / "root", fake_driver)
        add_nvidia_gpu(root, 0, "Tesla V100-SXM2-16GB", 0x1DB1)
        add_nvidia_gpu(root, 1, "Tesla T4", 0x1EB8)
        by_address = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        result = self.judged(
            root,
            fake_driver,
            (False, {}),
            (False, {"CUDA_VISIBLE_DEVICES": "0"}),
            (False, {"CUDA_VISIBLE_DEVICES": "0", **by_address}),
            (False, {"CUDA_VISIBLE_DEVICES": "1", **by_address}),
            (False, {"CUDA_VISIBLE_DEVICES": "GPU-00000000"}),
            gpu="7.0 Tesla V100",
        )
        assert result == ["", "", self.V100, "", self.V100]

    def test_nothing_is_told(self, tmp_path: Path, fake_driver: FakeDriver) -> None:
        """Without files about GPUs nothing is left out."""
        root = machine_with_driver(tmp_path / "root", fake_driver)
        assert self.judged(root, fake_driver, (False, {}), gpu="7.0 Tesla V100") == [""]


def test_conda_says_nothing_of_a_process() -> None:
    """Its variables are about the machine to install for; a process runs on this one."""
    environ = {"CONDA_OVERRIDE_CUDA": "", "CUDA_VISIBLE_DEVICES": "0", "CONDA_PREFIX": "/opt"}
    assert process_view(environ).environ == {
        "CUDA_VISIBLE_DEVICES": "0",
        "CONDA_PREFIX": "/opt",
    }
