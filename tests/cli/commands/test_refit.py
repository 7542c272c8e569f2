"""Replacement of related packages together, and removal of unneeded dependencies."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import CommandResult, Runner, tree
from sampled_cases import sampled

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.resolution_setup import NVIDIA
from wheelfit.testing.wheels import build_wheel, release_document

GPU, NEWER_DRIVER, OLDER_DRIVER, OLDER_GPU, LOST_GPU = (
    "cuda-12.8-sm90",
    "cuda-13.0-sm90",
    "cuda-12.6-sm90",
    "cuda-13.0-sm70",
    "cpu-x86_64-v3",
)
CUBLAS = {"cuda12.6": "12.6.4.1", "cuda12.8": "12.8.4.1", "cuda13.0": "13.0.2.14"}
PROVIDERS = {"nvidia": NVIDIA, "abi_dependency": {"builtin": "abi_dependency"}}


class Framework:
    """The packages of a framework in an index, and one environment."""

    def __init__(self, run: Runner, folder: Path, index: RecordingIndex) -> None:
        self._run = run
        self._index = index
        self.folder = folder

    def install(self, host: str, *words: str | Path, code: int = 0) -> CommandResult:
        """Install for a host."""
        places = ("-i", self._index.url, "--target", self.folder, "--for", host)
        return self._run("install", *places, *words, code=code)

    def installed(self) -> dict[str, str]:
        """Return the label, or else the version, of the installed packages."""
        packages = self._run.installed("--target", self.folder).items()
        return {name: package["label"] or package["version"] for name, package in packages}

    def is_requested(self, name: str) -> bool:
        """Return whether a distribution is marked as requested by the user."""
        (info,) = self.folder.glob(f"{name.replace('-', '_')}-*.dist-info")
        return (info / "REQUESTED").exists()


def add(folder: Path, name: str, version: str, variants: dict[str, object], *needs: str) -> None:
    """Add a release with a build for each label."""
    document = release_document(variants, providers=PROVIDERS)  # type: ignore[arg-type]
    for label in variants:
        build_wheel(folder, name, version, label=label, document=document, requires=needs)
    stem = f"{name.replace('-', '_')}-{version}"
    (folder / f"{stem}-variants.json").write_text(json.dumps(document))


def cuda(version: str, *architectures: str) -> dict[str, list[str]]:
    """Return the properties of a CUDA build."""
    properties = {"cuda_version_lower_bound": [version]}
    if architectures:
        properties["sm_arch"] = list(architectures)
    return properties


def add_framework(folder: Path) -> None:
    """Add torch, its dependencies, and torchvision, which is built for torch."""
    for version in CUBLAS.values():
        major = version.split(".")[0]
        add(folder, "nvidia-cublas", version, {f"cu{major}": {"nvidia": cuda(f"{major}.0")}})
    for major in ("12", "13"):
        build_wheel(folder, f"nvidia-nccl-cu{major}", "2.27")
    build_wheel(folder, "typing-extensions", "4.0")
    is_12 = 'variant_label == "cuda12.6" or variant_label == "cuda12.8"'
    add(
        folder,
        "torch",
        "2.9.0",
        {
            "cuda12.6": {"nvidia": cuda("12.6", "70_real", "90_real")},
            "cuda12.8": {"nvidia": cuda("12.8", "90_real")},
            "cuda13.0": {"nvidia": cuda("13.0", "90_real")},
            "null": {},
        },
        "typing-extensions",
        *(f'nvidia-cublas=={CUBLAS[label]}; variant_label == "{label}"' for label in CUBLAS),
        f"nvidia-nccl-cu12==2.27; {is_12}",
        'nvidia-nccl-cu13==2.27; variant_label == "cuda13.0"',
    )
    built = {"abi_dependency": {"torch": ["2.9.0"]}}
    variants = {label: {"nvidia": cuda(label[-4:])} | built for label in CUBLAS}
    add(folder, "torchvision", "0.24.0", {**variants, "null": {}}, "torch==2.9.0")
    for version in ("4.1", "4.2"):
        build_wheel(folder, "typing-extensions", version)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheels and an environment that the tests of this module copy."""
    folder = tmp_path_factory.mktemp("kept")
    add_framework(folder / "wheels")
    return folder


@pytest.fixture
def framework(run: Runner, tmp_path: Path, shared: Path) -> Iterator[Framework]:
    """Yield an environment that was installed for a GPU with CUDA 12.8."""
    shutil.copytree(shared / "wheels", tmp_path / "wheels")
    with RecordingIndex(tmp_path / "wheels") as index:
        if not (shared / "place").exists():
            first = Framework(run, shared / "place", index)
            first.install(GPU, "torch", "torchvision", "typing-extensions==4.0")
        shutil.copytree(shared / "place", tmp_path / "place")
        yield Framework(run, tmp_path / "place", index)


def test_removed_gpu(framework: Framework) -> None:
    """The builds are replaced by CPU builds, and the vendor's libraries are removed."""
    dry = framework.install(LOST_GPU, "--refit", "--dry-run")
    before = tree(framework.folder)
    result = framework.install(LOST_GPU, "--refit")
    assert before != tree(framework.folder)
    because = "only torch 2.9.0 (cuda12.8) needed it"
    for line in (f"nvidia-cublas 12.8.4.1 (cu12): {because}", f"nvidia-nccl-cu12 2.27: {because}"):
        assert f"removed {line}\n" in result.out
    assert dry.out.count(because) == 2
    expected = {"torch": "null", "torchvision": "null", "typing-extensions": "4.0"}
    assert framework.installed() == expected
    assert all(framework.is_requested(name) for name in expected)
    assert "nothing to do: " in framework.install(LOST_GPU, "--refit").out


def test_json_report(framework: Framework) -> None:
    """The JSON object has the reason of each removal."""
    planned = framework.install(LOST_GPU, "--refit", "--dry-run", "--json").object
    reasons = {entry["name"]: entry["reason"] for entry in planned["remove"]}
    because = "only torch 2.9.0 (cuda12.8) needed it"
    gone = {"nvidia-cublas": because, "nvidia-nccl-cu12": because}
    assert reasons == {"torch": None, "torchvision": None, **gone}


def test_requested_library(framework: Framework) -> None:
    """A library that the user requested is not removed."""
    framework.install(GPU, "--force-reinstall", "nvidia-nccl-cu12")
    framework.install(LOST_GPU, "--refit")
    assert "nvidia-nccl-cu12" in framework.installed()


def test_requested_variant(framework: Framework) -> None:
    """A requested package without a build that fits is an error."""
    framework.install(GPU, "--force-reinstall", "nvidia-cublas<13")
    before = tree(framework.folder)
    for words in (("--dry-run",), ()):
        result = framework.install(LOST_GPU, "--refit", *words, code=3)
        assert "nvidia-cublas" in result.err
    assert tree(framework.folder) == before


def test_library_with_other_dependents(framework: Framework, tmp_path: Path) -> None:
    """A library that another package requires is not removed."""
    build_wheel(tmp_path / "wheels", "solver", "1.0", requires=["nvidia-nccl-cu12"])
    framework.install(GPU, "solver")
    result = framework.install(LOST_GPU, "--refit")
    assert "removed nvidia-cublas" in result.out
    assert "nvidia-nccl-cu12" in framework.installed()


def test_library_of_another_installer(framework: Framework) -> None:
    """A library of an installer that writes no REQUESTED is not removed."""
    (info,) = framework.folder.glob("nvidia_nccl_cu12-*.dist-info")
    (info / "INSTALLER").write_text("conda\n")
    framework.install(LOST_GPU, "--refit")
    assert "nvidia-nccl-cu12" in framework.installed()


def test_no_deps(framework: Framework) -> None:
    """With --no-deps nothing is removed."""
    result = framework.install(LOST_GPU, "--refit", "--no-deps")
    assert "removed" not in result.out
    assert {"nvidia-nccl-cu12", "nvidia-cublas"} <= framework.installed().keys()


def test_older_driver(framework: Framework) -> None:
    """Libraries are downgraded with their build."""
    result = framework.install(OLDER_DRIVER, "--refit")
    assert "installed nvidia-cublas 12.6.4.1 (cu12), replacing the newer 12.8.4.1" in result.out
    assert "removed" not in result.out
    assert framework.installed()["torch"] == framework.installed()["torchvision"] == "cuda12.6"


@pytest.mark.parametrize(
    "words", sampled(["-U torch", "-U torch torchvision", "-P torch torchvision"], fast={2})
)
def test_newer_driver(framework: Framework, words: str) -> None:
    """--allow-variant-change applies to related packages too."""
    assert "nothing to do" in framework.install(NEWER_DRIVER, "--refit").out
    assert "--allow-variant-change" in framework.install(NEWER_DRIVER, "-U", "torch").err
    dry = framework.install(
        NEWER_DRIVER, *words.split(), "--allow-variant-change", "--dry-run", "--json"
    )
    result = framework.install(NEWER_DRIVER, *words.split(), "--allow-variant-change")
    planned = dry.object
    assert {entry["name"] for entry in planned["install"]} == {
        "nvidia-cublas",
        "nvidia-nccl-cu13",
        "torch",
        "torchvision",
    }
    gone = {entry["name"]: entry["reason"] for entry in planned["remove"]}
    assert gone["nvidia-nccl-cu12"] == "only torch 2.9.0 (cuda12.8) needed it"
    assert "removed nvidia-nccl-cu12 2.27: only torch 2.9.0 (cuda12.8) needed it" in result.out
    assert framework.installed() == {
        "nvidia-cublas": "cu13",
        "nvidia-nccl-cu13": "2.27",
        "torch": "cuda13.0",
        "torchvision": "cuda13.0",
        "typing-extensions": "4.0",
    }
    assert framework.is_requested("torchvision")
    assert not framework.is_requested("nvidia-cublas")


def test_label_and_libraries(framework: Framework) -> None:
    """A label for a package is consent for its libraries, not for other packages."""
    words = ("-U", "torch", "--label", "torch=cuda13.0")
    result = framework.install(NEWER_DRIVER, *words, code=7)
    assert "error: torchvision would be replaced by another" in result.err
    framework.install(NEWER_DRIVER, *words, "--label", "torchvision=cuda13.0")
    assert framework.installed()["nvidia-cublas"] == "cu13"
    assert "nvidia-nccl-cu12" not in framework.installed()


def test_related_package(framework: Framework) -> None:
    """A fitting build is replaced if no build of a related package matches it."""
    framework.install(NEWER_DRIVER, "-U", "torch", "--allow-variant-change")
    result = framework.install(OLDER_GPU, "--refit")
    assert "installed torchvision 0.24.0 (cuda12.8), replacing 0.24.0 (cuda13.0)" in result.out
    assert framework.installed()["torch"] == "cuda12.6"
    assert "nvidia-nccl-cu13" not in framework.installed()


def test_sync_refit(framework: Framework, run: Runner, tmp_path: Path) -> None:
    """``sync --refit`` replaces the same packages from a lock."""
    lock = tmp_path / "pylock.toml"
    source = ("--no-index", "-f", tmp_path / "wheels", "--for", GPU, "--for", LOST_GPU)
    run("lock", "torch", "torchvision", *source, "-o", lock)
    place = (lock, "--target", framework.folder)
    run("sync", *place, "--for", GPU)
    dry = run("sync", *place, "--for", LOST_GPU, "--refit", "--dry-run")
    result = run("sync", *place, "--for", LOST_GPU, "--refit")
    assert "removed nvidia-cublas 12.8.4.1 (cu12): only torch" in result.out
    assert dry.out.count("only torch 2.9.0 (cuda12.8) needed it") == 2
    assert framework.installed().keys() == {"torch", "torchvision", "typing-extensions"}
    assert framework.installed()["torch"] == "null"
