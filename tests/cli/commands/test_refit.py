"""What belongs together is exchanged together, and what only the old builds needed goes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import CommandResult, Runner, tree
from sampled_cases import sampled

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit.testing.worlds import NVIDIA

GPU, NEWER_DRIVER, OLDER_DRIVER, OLDER_GPU, LOST_GPU = (
    "cuda-12.8-sm90",
    "cuda-13.0-sm90",
    "cuda-12.6-sm90",
    "cuda-13.0-sm70",
    "cpu-x86_64-v3",
)
CUBLAS = {"cuda12.6": "12.6.4.1", "cuda12.8": "12.8.4.1", "cuda13.0": "13.0.2.14"}
PROVIDERS = {"nvidia": NVIDIA, "abi_dependency": {"builtin": "abi_dependency"}}


class World:
    """The packages of a framework on an index, and one environment."""

    def __init__(self, run: Runner, folder: Path, index: RecordingIndex) -> None:
        self._run = run
        self._index = index
        self.folder = folder

    def install(self, host: str, *words: str | Path, code: int = 0) -> CommandResult:
        """Install for a host."""
        places = ("-i", self._index.url, "--target", self.folder, "--for", host)
        return self._run("install", *places, *words, code=code)

    def installed(self) -> dict[str, str]:
        """Return what is there, each with its label or else its version."""
        packages = self._run("list", "--target", self.folder, "--json").object["packages"]
        return {entry["name"]: entry["label"] or entry["version"] for entry in packages}

    def is_requested(self, name: str) -> bool:
        """Return whether a distribution is marked as asked for by the user."""
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
    """Return properties of a build for CUDA."""
    properties = {"cuda_version_lower_bound": [version]}
    if architectures:
        properties["sm_arch"] = list(architectures)
    return properties


def add_framework(folder: Path) -> None:
    """Add torch, what it needs, and torchvision, which is built for torch."""
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
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheels, and where the first test installs them."""
    folder = tmp_path_factory.mktemp("kept")
    add_framework(folder / "wheels")
    return folder


@pytest.fixture
def world(run: Runner, tmp_path: Path, kept: Path) -> Iterator[World]:
    """Offer an environment in which a GPU of CUDA 12.8 is used."""
    shutil.copytree(kept / "wheels", tmp_path / "wheels")
    with RecordingIndex(tmp_path / "wheels") as index:
        if not (kept / "place").exists():
            first = World(run, kept / "place", index)
            first.install(GPU, "torch", "torchvision", "typing-extensions==4.0")
        shutil.copytree(kept / "place", tmp_path / "place")
        yield World(run, tmp_path / "place", index)


def test_a_lost_gpu(world: World) -> None:
    """The builds become those without properties, and the libraries of the vendor go."""
    dry = world.install(LOST_GPU, "--refit", "--dry-run")
    before = tree(world.folder)
    result = world.install(LOST_GPU, "--refit")
    assert before != tree(world.folder)
    because = "only torch 2.9.0 (cuda12.8) needed it"
    for line in (f"nvidia-cublas 12.8.4.1 (cu12): {because}", f"nvidia-nccl-cu12 2.27: {because}"):
        assert f"removed {line}\n" in result.out
    assert dry.out.count(because) == 2
    expected = {"torch": "null", "torchvision": "null", "typing-extensions": "4.0"}
    assert world.installed() == expected
    assert all(world.is_requested(name) for name in expected)
    assert "nothing to do: " in world.install(LOST_GPU, "--refit").out


def test_as_json(world: World) -> None:
    """What goes without a successor has its reason there."""
    planned = world.install(LOST_GPU, "--refit", "--dry-run", "--json").object
    reasons = {entry["name"]: entry["reason"] for entry in planned["remove"]}
    because = "only torch 2.9.0 (cuda12.8) needed it"
    gone = {"nvidia-cublas": because, "nvidia-nccl-cu12": because}
    assert reasons == {"torch": None, "torchvision": None, **gone}


def test_a_library_that_was_asked_for(world: World) -> None:
    """Nobody removes what the user named; where it has no build that fits, nothing is done."""
    world.install(GPU, "--force-reinstall", "nvidia-nccl-cu12")
    world.install(LOST_GPU, "--refit")
    assert "nvidia-nccl-cu12" in world.installed()


def test_a_variant_that_was_asked_for(world: World) -> None:
    """A misfit that the user named must have a build that fits."""
    world.install(GPU, "--force-reinstall", "nvidia-cublas<13")
    before = tree(world.folder)
    for words in (("--dry-run",), ()):
        result = world.install(LOST_GPU, "--refit", *words, code=3)
        assert "nvidia-cublas" in result.err
    assert tree(world.folder) == before


def test_a_library_that_others_need(world: World, tmp_path: Path) -> None:
    """What stays keeps what it needs, also by an extra."""
    build_wheel(tmp_path / "wheels", "solver", "1.0", requires=["nvidia-nccl-cu12"])
    world.install(GPU, "solver")
    result = world.install(LOST_GPU, "--refit")
    assert "removed nvidia-cublas" in result.out
    assert "nvidia-nccl-cu12" in world.installed()


def test_a_library_of_another_installer(world: World) -> None:
    """Who writes no REQUESTED may have been asked for anything."""
    (info,) = world.folder.glob("nvidia_nccl_cu12-*.dist-info")
    (info / "INSTALLER").write_text("conda\n")
    world.install(LOST_GPU, "--refit")
    assert "nvidia-nccl-cu12" in world.installed()


def test_without_dependencies(world: World) -> None:
    """What the new builds need is not looked at then, so nothing goes."""
    result = world.install(LOST_GPU, "--refit", "--no-deps")
    assert "removed" not in result.out
    assert {"nvidia-nccl-cu12", "nvidia-cublas"} <= world.installed().keys()


def test_an_older_driver(world: World) -> None:
    """Libraries follow their build to an older version; those that do stay."""
    result = world.install(OLDER_DRIVER, "--refit")
    assert "installed nvidia-cublas 12.6.4.1 (cu12), replacing the newer 12.8.4.1" in result.out
    assert "removed" not in result.out
    assert world.installed()["torch"] == world.installed()["torchvision"] == "cuda12.6"


@pytest.mark.parametrize(
    "words", sampled(["-U torch", "-U torch torchvision", "-P torch torchvision"], fast={2})
)
def test_a_newer_driver(world: World, words: str) -> None:
    """The consent to a change of builds counts for what they belong to."""
    assert "nothing to do" in world.install(NEWER_DRIVER, "--refit").out
    assert "--allow-variant-change" in world.install(NEWER_DRIVER, "-U", "torch").err
    dry = world.install(
        NEWER_DRIVER, *words.split(), "--allow-variant-change", "--dry-run", "--json"
    )
    result = world.install(NEWER_DRIVER, *words.split(), "--allow-variant-change")
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
    assert world.installed() == {
        "nvidia-cublas": "cu13",
        "nvidia-nccl-cu13": "2.27",
        "torch": "cuda13.0",
        "torchvision": "cuda13.0",
        "typing-extensions": "4.0",
    }
    assert world.is_requested("torchvision")
    assert not world.is_requested("nvidia-cublas")


def test_a_label_counts_for_the_libraries(world: World) -> None:
    """Whoever asks for a build has asked for its libraries, and not for other builds."""
    words = ("-U", "torch", "--label", "torch=cuda13.0")
    result = world.install(NEWER_DRIVER, *words, code=7)
    assert "error: torchvision would be replaced by another" in result.err
    world.install(NEWER_DRIVER, *words, "--label", "torchvision=cuda13.0")
    assert world.installed()["nvidia-cublas"] == "cu13"
    assert "nvidia-nccl-cu12" not in world.installed()


def test_a_companion_that_would_fit(world: World) -> None:
    """What fits alone is exchanged where its companion has no other build that goes with it."""
    world.install(NEWER_DRIVER, "-U", "torch", "--allow-variant-change")
    result = world.install(OLDER_GPU, "--refit")
    assert "installed torchvision 0.24.0 (cuda12.8), replacing 0.24.0 (cuda13.0)" in result.out
    assert world.installed()["torch"] == "cuda12.6"
    assert "nvidia-nccl-cu13" not in world.installed()


def test_from_a_lock(world: World, run: Runner, tmp_path: Path) -> None:
    """``sync --refit`` does the same with the builds of the lock."""
    lock = tmp_path / "pylock.toml"
    source = ("--no-index", "-f", tmp_path / "wheels", "--for", GPU, "--for", LOST_GPU)
    run("lock", "torch", "torchvision", *source, "-o", lock)
    place = (lock, "--target", world.folder)
    run("sync", *place, "--for", GPU)
    dry = run("sync", *place, "--for", LOST_GPU, "--refit", "--dry-run")
    result = run("sync", *place, "--for", LOST_GPU, "--refit")
    assert "removed nvidia-cublas 12.8.4.1 (cu12): only torch" in result.out
    assert dry.out.count("only torch 2.9.0 (cuda12.8) needed it") == 2
    assert world.installed().keys() == {"torch", "torchvision", "typing-extensions"}
    assert world.installed()["torch"] == "null"
