"""Libraries that a running process has loaded: real processes, compiled libraries."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from wheelfit.checking.findings import Severity
from wheelfit.doctor.process import ExaminedProcess, examine_process, process_findings
from wheelfit.testing.drivers import find_compiler
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.platforms.system_view import SystemView

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is loaded")

Load = Callable[..., int]
LOADER = """
import ctypes, sys
for path in sys.argv[1:]:
    ctypes.CDLL(path)
print("loaded", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], bytes]:
    """Return a function that compiles a library and returns its bytes."""
    compiler = find_compiler()
    if compiler is None:
        pytest.skip("needs a C compiler (cc, gcc or clang)")
    folder = tmp_path_factory.mktemp("libraries")
    made: dict[tuple[str, str], bytes] = {}

    def compiled(soname: str, content: str = "0") -> bytes:
        if (soname, content) not in made:
            out = folder / f"{soname}-{content}"
            source = f"int wheelfit_fake(void) {{ return {content}; }}"
            command = [
                compiler,
                "-shared",
                "-fPIC",
                f"-Wl,-soname,{soname}",
                "-xc",
                "-",
                "-o",
                str(out),
            ]
            subprocess.run(command, input=source.encode(), check=True)
            made[soname, content] = out.read_bytes()
        return made[soname, content]

    return compiled


@pytest.fixture
def load() -> Iterator[Load]:
    """Return a function that starts a process that loads libraries, and returns its number."""
    started: list[subprocess.Popen[str]] = []

    def start(*paths: Path, **environ: str) -> int:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", LOADER, *map(str, paths)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environ},
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "loaded\n"
        return process.pid

    yield start
    for process in started:
        process.communicate()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return the folder of packages of an environment that is not ours."""
    folder = tmp_path / "env/lib/python3.12/site-packages"
    folder.mkdir(parents=True)
    return folder


def install(site: Path, name: str, version: str, path: str, content: bytes) -> Path:
    """Put a package with one library into an environment."""
    wheel = build_wheel(site.parent / "wheels", name, version, files={path: content})
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site / path


def codes(process: ExaminedProcess) -> list[str]:
    """Return severity and code of what is found."""
    return sorted(f"{one.severity} {one.code}" for one in process_findings(process))


def test_one_of_each(site: Path, load: Load, library: Callable[..., bytes]) -> None:
    """Name, version and owner of a library come from the environment it was loaded from."""
    path = install(
        site,
        "nvidia-cuda-runtime-cu12",
        "12.9.79",
        "nvidia/cuda_runtime/lib/libcudart.so.12",
        library("libcudart.so.12"),
    )
    process = examine_process(load(path))
    (found,) = process.libraries
    assert found.soname == "libcudart.so.12"
    assert found.owner == "nvidia-cuda-runtime-cu12 12.9.79"
    assert (found.version, found.cuda_major, found.path) == ("12.9.79", 12, str(path))
    assert process.mapped.program.startswith("python")
    assert codes(process) == []


def test_two_majors(site: Path, load: Load, library: Callable[..., bytes]) -> None:
    """P-92: libraries of two CUDA majors with names of their own are a warning."""
    one = install(
        site, "nvidia-cuda-runtime-cu12", "12.9.79", "a/libcudart.so.12", library("libcudart.so.12")
    )
    other = install(
        site,
        "nvidia-cuda-runtime",
        "13.0.96",
        "nvidia/cu13/libcudart.so.13",
        library("libcudart.so.13"),
    )
    process = examine_process(load(one, other))
    (finding,) = process_findings(process)
    assert (finding.code, finding.severity) == ("several-majors", Severity.WARNING)
    assert finding.message == (
        "CUDA 12: libcudart.so.12 of nvidia-cuda-runtime-cu12 12.9.79; "
        "CUDA 13: libcudart.so.13 of nvidia-cuda-runtime 13.0.96"
    )


def test_one_name_two_contents(site: Path, load: Load, library: Callable[..., bytes]) -> None:
    """Two libraries of one SONAME with different content are an error, equal ones a note."""
    one = install(site, "nvidia-nccl-cu12", "2.27.3", "a/libnccl.so.2", library("libnccl.so.2"))
    other = install(
        site, "nvidia-nccl-cu13", "2.27.3", "b/libnccl.so.2", library("libnccl.so.2", "13")
    )
    process = examine_process(load(one, other))
    assert {found.cuda_major for found in process.libraries} == {12, 13}  # by their packages
    assert codes(process) == ["error same-soname", "warning several-majors"]
    (finding,) = (one for one in process_findings(process) if one.code == "same-soname")
    assert f"{one} (nvidia-nccl-cu12 2.27.3)" in finding.message
    assert f"{other} (nvidia-nccl-cu13 2.27.3)" in finding.message
    copy = site / "copied/libnccl.so.2"
    copy.parent.mkdir()
    copy.write_bytes(one.read_bytes())
    assert codes(examine_process(load(one, copy))) == ["note second-copy"]


def test_another_file_name(site: Path, load: Load, library: Callable[..., bytes]) -> None:
    """The name a library calls itself counts, not that of its file."""
    one = install(site, "a", "1", "a/libnccl.so.2", library("libnccl.so.2"))
    other = install(site, "b", "1", "b/libnccl.so.2.27.7", library("libnccl.so.2", "7"))
    process = examine_process(load(one, other))
    assert [found.soname for found in process.libraries] == ["libnccl.so.2"] * 2
    assert [found.version for found in process.libraries] == ["", "2.27.7"]
    assert codes(process) == ["error same-soname"]


def test_version_of_a_copy(site: Path, load: Load, library: Callable[..., bytes]) -> None:
    """A library has the version of the package that is it, not of one that brings it along."""
    name = "libcudart.so.11.0"
    one = install(site, "nvidia-cuda-runtime-cu11", "11.8.89", f"nvidia/{name}", library(name))
    name = "libopenblas.so.0"
    other = install(site, "numpy", "2.3.4", f"numpy.libs/{name}", library(name))
    process = examine_process(load(one, other))
    assert [found.version for found in process.libraries] == ["", "11.8.89"]


def test_replaced_while_running(site: Path, load: Load, library: Callable[..., bytes]) -> None:
    """A library that was upgraded under a running process is found, and is not the new one."""
    path = install(site, "a", "1", "a/libcudart.so.12", library("libcudart.so.12"))
    pid = load(path)
    path.unlink()
    path.write_bytes(library("libcudart.so.12", "9"))
    process = examine_process(pid)
    assert [found.file.deleted for found in process.libraries] == [True]
    assert process.libraries[0].soname == "libcudart.so.12"
    assert codes(process) == ["warning deleted-library"]


def test_from_elsewhere(
    site: Path, load: Load, library: Callable[..., bytes], tmp_path: Path
) -> None:
    """A library from elsewhere is found where an installed package has it too."""
    stranger = tmp_path / "opt/libcudart.so.12"
    stranger.parent.mkdir()
    stranger.write_bytes(library("libcudart.so.12"))
    process = examine_process(load(stranger))
    assert process.libraries[0].owner == "unknown"
    assert codes(process) == []
    install(site, "runtime", "12.9", "a/libcudart.so.12", library("libcudart.so.12", "9"))
    extension = install(site, "other", "1", "b/libcublas.so.12", library("libcublas.so.12"))
    process = examine_process(load(stranger, extension))
    assert codes(process) == ["warning foreign-library"]
    (finding,) = process_findings(process)
    assert "and not from runtime 12.9, which is installed" in finding.message


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("/usr/lib/x86_64-linux-gnu/libgomp.so.1", "the system"),
        ("/lib64/libgomp.so.1", "the system"),
        ("/libraries/libgomp.so.1", "unknown"),
    ],
)
def test_libraries_of_the_system(path: str, owner: str, tmp_path: Path) -> None:
    """The folders of the system are known by their whole names."""
    maps = tmp_path / "proc/7/maps"
    maps.parent.mkdir(parents=True)
    maps.write_text(f"7f00-7f01 r-xp 00000000 08:01 42 {path}\n")
    process = examine_process(7, SystemView(system="Linux", root=tmp_path))
    assert [library.owner for library in process.libraries] == [owner]


def test_stubs_and_old_drivers(load: Load, library: Callable[..., bytes], tmp_path: Path) -> None:
    """P-92: stubs are an error, and so is a runtime that is too new for the loaded driver."""
    stub, driver = tmp_path / "stubs/libcuda.so", tmp_path / "lib/libcuda.so.550.54.15"
    runtime = tmp_path / "lib/libcudart.so.13"
    for path, soname in (
        (stub, "libcuda.so.1"),
        (driver, "libcuda.so.2"),
        (runtime, "libcudart.so.13"),
    ):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(library(soname))
    process = examine_process(load(stub))
    assert process.libraries[0].owner == "nvidia driver"
    assert codes(process) == ["error stub-loaded"]
    process = examine_process(load(driver, runtime))
    assert codes(process) == ["error runtime-too-new"]
    newer = driver.with_name("libcuda.so.580.65.06")
    driver.rename(newer)
    assert codes(examine_process(load(newer, runtime))) == []


def test_openmp(load: Load, library: Callable[..., bytes], tmp_path: Path) -> None:
    """P-160: Intel's and LLVM's runtime in one process are a warning."""
    paths = [tmp_path / "libiomp5.so", tmp_path / "libomp.so"]
    for path in paths:
        path.write_bytes(library(path.name))
    assert codes(examine_process(load(*paths))) == ["warning several-openmp"]


def test_conda(load: Load, library: Callable[..., bytes], tmp_path: Path) -> None:
    """In a conda environment the package is read out of its records."""
    path = tmp_path / "conda/lib/libcudart.so.12"
    path.parent.mkdir(parents=True)
    path.write_bytes(library("libcudart.so.12"))
    meta = tmp_path / "conda/conda-meta"
    meta.mkdir()
    (meta / "other-1.0-0.json").write_text('{"files": ["lib/libother.so"]}')
    (meta / "cuda-cudart-12.9.79-h5888daf_0.json").write_text('{"files": ["lib/libcudart.so.12"]}')
    process = examine_process(load(path))
    assert process.libraries[0].owner == "conda package cuda-cudart-12.9.79-h5888daf_0"


def test_variables_of_the_process(load: Load) -> None:
    """The variables are those that the process was started with, not ours."""
    process = examine_process(load(CUDA_VISIBLE_DEVICES="3"))
    assert dict(process.mapped.environ)["CUDA_VISIBLE_DEVICES"] == "3"


def test_itself(library: Callable[..., bytes], tmp_path: Path) -> None:
    """A program may ask about itself, and sees what it loaded."""
    path = tmp_path / "libcufft.so.11"
    path.write_bytes(library("libcufft.so.11"))
    assert str(path) not in {one.path for one in examine_process(None).libraries}
    ctypes.CDLL(str(path))
    process = examine_process(None)
    (found,) = (one for one in process.libraries if one.path == str(path))
    assert (process.mapped.pid, found.cuda_major) == (os.getpid(), 12)


def test_no_such_process() -> None:
    """A process that is not there, or cannot be told of, is a finding and no exception."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    gone = examine_process(process.pid)
    assert codes(gone) == ["error process-unreadable"]
    assert gone.mapped.problem == f"there is no process {process.pid}"
    elsewhere = examine_process(None, SystemView(system="Darwin"))
    assert elsewhere.mapped.problem == "Darwin does not list the files of a process"
    assert codes(elsewhere) == ["error process-unreadable"]


@pytest.mark.network
def test_a_real_runtime(load: Load, pip: Path, tmp_path: Path) -> None:
    """NVIDIA's own runtime is known by name, version and owner."""
    site = tmp_path / "env/site-packages"
    wanted = ["nvidia-cuda-runtime-cu12==12.9.79", "--only-binary=:all:", "--no-deps"]
    completed = subprocess.run(
        [pip, "install", "--quiet", "--target", site, *wanted],
        capture_output=True,
        text=True,
        check=False,
    )
    if completed.returncode:
        pytest.skip(f"the wheel cannot be had: {completed.stderr}")
    (path,) = site.rglob("libcudart.so.12")
    process = examine_process(load(path))
    (found,) = process.libraries
    assert (found.soname, found.cuda_major) == ("libcudart.so.12", 12)
    assert found.owner == "nvidia-cuda-runtime-cu12 12.9.79"
    assert codes(process) == []
