"""Real wheels of separate CUDA and ROCm projects, as variants of one project."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cli.running import Runner
from end_to_end.locks import Locks

from wheelfit.building.index_file import write_index_files
from wheelfit.building.variant_wheel import repack_wheel
from wheelfit.core.labels import Label
from wheelfit.core.metadata import read_document
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.resolution_setup import NVIDIA
from wheelfit.testing.wheels import build_wheel, release_document

pytestmark = [pytest.mark.network, pytest.mark.usefixtures("registry", "bare_environment")]

AMD = {
    "requires": ["amd-variant-provider>=0.0.2,<1"],
    "plugin-api": "amd_variant_provider.plugin:AMDVariantPlugin",
}
X86_64 = {
    "requires": ["provider-variant-x86-64>=0.0.1,<1"],
    "plugin-api": "provider_variant_x86_64.plugin:X8664Plugin",
}
CUDA = "cuda_version_lower_bound"


@dataclass(frozen=True)
class Build:
    """A label with its real wheel and its target."""

    package: str
    properties: dict[str, dict[str, list[str]]]


FAMILY = {
    "cu11": Build("nvidia-nvtx-cu11==11.8.86", {"nvidia": {CUDA: ["11.8"]}}),
    "cu12": Build("nvidia-nvtx-cu12==12.9.79", {"nvidia": {CUDA: ["12.0"]}}),
    "cu13": Build("nvidia-nvtx==13.0.85", {"nvidia": {CUDA: ["13.0"]}}),
    "rocm64": Build("amdsmi==6.4.3", {"amd": {"rocm_version": ["6.4"]}}),
    "v4": Build("markupsafe==3.0.3", {"x86_64": {"level": ["v4"]}}),
    "v3": Build("markupsafe==3.0.2", {"x86_64": {"level": ["v3"]}}),
    "null": Build("six==1.17.0", {}),
}
HOSTS = {
    "cuda-11.8-sm80": "cu11",
    "cuda-12.4-sm75": "cu12",
    "cuda-12.8-sm90+cpu-x86_64-v4": "cu12",
    "cuda-13.0-sm100": "cu13",
    "rocm-6.4-gfx942": "rocm64",
    "cpu-x86_64-v4": "v4",
    "cpu-x86_64-v3": "v3",
    "cpu-x86_64-v1": "null",
}


@pytest.fixture(scope="module")
def real_wheels(pip: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Download the wheel of each label."""
    found = {}
    for label, build in FAMILY.items():
        folder = tmp_path_factory.mktemp(label)
        words = ["download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        words += ["--dest", str(folder), "--python-version", "3.11"]
        for platform in ("manylinux_2_28", "manylinux2014", "manylinux1"):
            words += ["--platform", f"{platform}_x86_64"]
        subprocess.run([str(pip), *words, build.package], check=True)
        (found[label],) = folder.glob("*.whl")
    return found


def content_of(wheel: Path) -> dict[str, bytes]:
    """Return the files of a wheel other than metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: archive.read(name)
            for name in archive.namelist()
            if ".dist-info/" not in name and not name.endswith("/")
        }


@pytest.fixture(scope="module")
def index(
    real_wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RecordingIndex]:
    """Serve the family as one project, and a dependent."""
    folder, plain = tmp_path_factory.mktemp("index"), tmp_path_factory.mktemp("plain")
    document = release_document(
        {label: build.properties for label, build in FAMILY.items()},
        providers={"nvidia": NVIDIA, "amd": AMD, "x86_64": X86_64},
    )
    for label, wheel in real_wheels.items():
        source = build_wheel(
            plain / label,
            "arrays",
            "14.1",
            files=content_of(wheel),
            tag="py3-none-manylinux_2_28_x86_64",
            requires=['arrays-cuda-tools; "nvidia" in variant_namespaces'],
        )
        repack_wheel(
            source, folder, label=Label(label), document=read_document(document, where="family")
        )
    write_index_files(folder)
    build_wheel(folder, "arrays-cuda-tools", "1.0")
    build_wheel(folder, "frames", "2.0", requires=["arrays>=14"])
    build_wheel(folder, "learning", "3.0", requires=["frames", "arrays<15"])
    with RecordingIndex(folder) as server:
        yield server


def test_one_lock_for_eight_machines(
    real_wheels: dict[str, Path],
    index: RecordingIndex,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    environment: Callable[[], Path],
) -> None:
    """F-121: each machine gets the contents of its real wheel, and the variant's dependencies."""
    locks = Locks(Runner(capsys), index.url, tmp_path, environment)
    locks.lock("--platform", "linux-x86_64", "learning")
    asked = len(index.requests)
    for host, label in HOSTS.items():
        place, listed = locks.unpacked(host)
        expected = {"learning": "3.0", "frames": "2.0", "arrays": f"14.1 {label}"}
        if label.startswith("cu"):
            expected["arrays-cuda-tools"] = "1.0"
        assert listed == expected, host
        for name, content in content_of(real_wheels[label]).items():
            digest = hashlib.sha256((place / name).read_bytes()).hexdigest()
            assert digest == hashlib.sha256(content).hexdigest(), (host, name)
    pages = [
        request.path for request in index.requests[asked:] if not request.path.endswith(".whl")
    ]
    assert pages == []  # from a lock no page is read, and no metadata
