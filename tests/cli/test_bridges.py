"""Families of distributions as variants, with the real command line and wheels."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from cli.running import Runner, tree
from sampled_cases import sampled
from web_servers import served

from wheelfit.sources.bridges.catalogue import SHIPPED
from wheelfit.testing.wheels import build_wheel

CPU, CUDA_11, CUDA_12, CUDA_13 = "cpu-x86_64-v3", "cuda-11.8", "cuda-12.8", "cuda-13.0-sm90"
V100 = "cuda-13.0-sm70"
SM_90 = "cuda-12.8-sm90"
BOUNDED = {"onnxruntime": "1.26.0:cuda12_cudnn9.10", "nvidia-cudnn-cu12": "9.10.2.21"}
"""The cuDNN that has code for old GPUs too, where the GPU is old or not known."""
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
"""Presets take their Python from this interpreter."""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with small wheels of some families, and of their dependents."""
    folder = tmp_path_factory.mktemp("wheels")

    def add(name: str, version: str, module: str, *requires: str, extras: str = "") -> None:
        files = {f"{module}/__init__.py": f"build = {name!r}\nversion = {version!r}\n"}
        build_wheel(
            folder, name, version, files=files, requires=requires, provides_extra=extras.split()
        )

    for major, version in ((11, "13.6.0"), (12, "13.6.0"), (12, "14.2.0"), (13, "14.2.0")):
        needs = () if major == 11 else ("toolkit; extra == 'ctk'",)
        add(f"cupy-cuda{major}x", version, "cupy", *needs, extras="ctk" if needs else "")
    add("nvidia-cudnn-cu12", "9.10.2.21", "cudnn")
    add("nvidia-cudnn-cu12", "9.26.0.51", "cudnn")
    for version in ("1.26.0", "1.32.0"):
        add("onnxruntime", version, "onnxruntime")
    for version in ("1.20.0", "1.26.0", "1.31.1"):
        add("onnxruntime-gpu", version, "onnxruntime")
    add("xgboost", "3.4.1", "xgboost", "nccl")
    add("xgboost", "3.3.0", "xgboost", "nccl")
    add("xgboost-cpu", "3.4.1", "xgboost")
    add("xgboost-cu12", "3.4.1", "xgboost", "nccl")
    add("faiss-cpu", "1.15.1", "faiss")
    add("faiss-gpu-cu12", "1.14.1", "faiss")
    add("toolkit", "1", "toolkit")
    add("nccl", "2", "nccl")
    add("magika", "1", "magika", "onnxruntime>=1.17")
    add("greedy", "1", "greedy", "onnxruntime-gpu")
    add("modest", "1", "modest", "xgboost-cpu")
    add("studio", "1", "studio", "cupy>=13")
    return folder


class BridgeSetup:
    """Installations from the wheels into a folder."""

    def __init__(self, run: Runner, wheels: Path, folder: Path) -> None:
        self.run = run
        self.wheels = wheels
        self.folder = folder

    def sources(self) -> list[str]:
        """Return the options that name the wheels."""
        return ["--no-index", "--find-links", str(self.wheels)]

    def install(self, machine: str, *words: str, code: int = 0) -> dict[str, str]:
        """Return the packages that a machine would get: version and label by name."""
        command = ["install", *words, "--for", machine, "--target", str(self.folder)]
        result = self.run(*command, *self.sources(), "--dry-run", "--json", code=code)
        if code:
            return {"error": result.error["code"], "text": json.dumps(result.error)}
        return {
            pin["name"]: pin["version"] + (f":{pin['label']}" if pin["label"] else "")
            for pin in result.object["install"]
        }


@pytest.fixture
def setup(run: Runner, wheels: Path, tmp_path: Path) -> BridgeSetup:
    """Return a setup with the wheels."""
    return BridgeSetup(run, wheels, tmp_path / "target")


@pytest.mark.parametrize(
    ("machine", "member", "version"),
    [
        (CUDA_13, "cupy-cuda13x", "14.2.0"),
        (V100, "cupy-cuda12x", "14.2.0"),  # for which CUDA 13 has no code
        (CUDA_12, "cupy-cuda12x", "14.2.0"),
        (CUDA_11, "cupy-cuda11x", "13.6.0"),
    ],
)
def test_member_for_each_machine(
    setup: BridgeSetup, machine: str, member: str, version: str
) -> None:
    """The member for the driver is installed in its latest release, with dependencies."""
    label = member.removeprefix("cupy-").removesuffix("x")
    needs = {} if label == "cuda11" else {"toolkit": "1"}
    expected = {member: version, "cupy": f"{version}:{label}", **needs}
    assert setup.install(machine, "cupy") == expected


def test_no_fitting_member(setup: BridgeSetup) -> None:
    """Without a fitting member the error has the requirement of the family."""
    result = setup.install(CPU, "cupy", code=3)
    assert result["error"] == "no-compatible-wheel"
    assert "CuPy needs an NVIDIA GPU with a driver for CUDA 11.2 or newer" in result["text"]
    assert "none was found on preset cpu-x86_64-v3" in result["text"]
    result = setup.install(CPU, "studio", code=3)
    assert result["error"] == "no-solution"
    assert "CuPy needs an NVIDIA GPU with a driver for CUDA 11.2 or newer" in result["text"]


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (CUDA_13, {"onnxruntime-gpu": "1.31.1", "onnxruntime": "1.31.1:cuda13", "magika": "1"}),
        (V100, {**BOUNDED, "onnxruntime-gpu": "1.26.0", "magika": "1"}),
        (CUDA_12, {**BOUNDED, "onnxruntime-gpu": "1.26.0", "magika": "1"}),
        (SM_90, {"onnxruntime-gpu": "1.26.0", "onnxruntime": "1.26.0:cuda12", "magika": "1"}),
        (CUDA_11, {"onnxruntime": "1.32.0", "magika": "1"}),
        (CPU, {"onnxruntime": "1.32.0", "magika": "1"}),
    ],
)
def test_dependents_get_the_member(
    setup: BridgeSetup, machine: str, expected: dict[str, str]
) -> None:
    """Dependents get the member of the machine; a GPU build is preferred to a newer release."""
    assert setup.install(machine, "magika") == expected


def test_specifiers_apply_to_the_member(setup: BridgeSetup) -> None:
    """Version specifiers of the family apply to its members."""
    assert setup.install(CUDA_12, "onnxruntime>=1.30") == {"onnxruntime": "1.32.0"}
    assert setup.install(CUDA_12, "cupy<14") == {
        "cupy-cuda12x": "13.6.0",
        "cupy": "13.6.0:cuda12",
    }


def test_rules_for_releases(setup: BridgeSetup) -> None:
    """A rule of a member applies only to the releases it names."""
    assert setup.install(CUDA_12, "onnxruntime<1.21", code=3)["error"] == "no-solution"
    found = setup.install(CUDA_12, "xgboost==3.3.0", "--bridge", "xgboost")
    assert found == {"nccl": "2", "xgboost": "3.3.0:cuda12"}


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (CUDA_13, {"xgboost": "3.4.1:cuda13", "nccl": "2"}),
        (CUDA_12, {"xgboost": "3.4.1:cuda12", "xgboost-cu12": "3.4.1", "nccl": "2"}),
        (CPU, {"xgboost": "3.4.1:null", "xgboost-cpu": "3.4.1"}),
    ],
)
def test_project_that_is_a_member(
    setup: BridgeSetup, machine: str, expected: dict[str, str]
) -> None:
    """A member with the family's name is represented by its wheels."""
    assert setup.install(machine, "xgboost", "--bridge", "xgboost") == expected


def test_families_are_opt_in(setup: BridgeSetup) -> None:
    """Families that shadow a project need consent; --no-bridges disables all."""
    assert setup.install(CPU, "faiss", code=3)["error"] == "project-not-found"
    assert setup.install(CPU, "xgboost", "--no-bridges") == {"nccl": "2", "xgboost": "3.4.1"}
    assert setup.install(CUDA_13, "onnxruntime", "--no-bridges") == {"onnxruntime": "1.32.0"}
    assert setup.install(CUDA_13, "cupy", "--no-bridges", code=3)["error"] == "project-not-found"


def test_bridges_setting(setup: BridgeSetup, user_settings: Path) -> None:
    """The user's settings can enable families."""
    user_settings.write_text('bridges = ["faiss"]\n', encoding="utf-8")
    assert setup.install(CPU, "faiss") == {"faiss-cpu": "1.15.1", "faiss": "1.15.1:null"}
    assert setup.install(CUDA_12, "faiss") == {
        "faiss-gpu-cu12": "1.14.1",
        "faiss": "1.14.1:cuda12",
    }


def test_extras_are_passed_on(setup: BridgeSetup) -> None:
    """An extra of the family is the extra of the member."""
    assert setup.install(CUDA_13, "cupy[ctk]") == {
        "toolkit": "1",
        "cupy-cuda13x": "14.2.0",
        "cupy": "14.2.0:cuda13",
    }


class TestConflictingMembers:
    """Members with the same files, which are never installed together."""

    def test_member_required_by_name(self, setup: BridgeSetup) -> None:
        """A member that is required by name is used for the family too."""
        found = setup.install(CUDA_13, "greedy", "magika")
        assert found["onnxruntime"] == "1.31.1:cuda13"
        found = setup.install(CUDA_13, "modest", "xgboost", "--bridge", "xgboost")
        assert found == {"modest": "1", "xgboost-cpu": "3.4.1", "xgboost": "3.4.1:null"}

    def test_unfit_member_required_by_name(self, setup: BridgeSetup) -> None:
        """A member that is required by name and does not fit is an error that names both."""
        result = setup.install(CPU, "greedy", "magika", code=3)
        assert result["error"] == "no-solution"
        assert "onnxruntime-gpu and onnxruntime own the same files" in result["text"]

    def test_two_members_by_name(self, setup: BridgeSetup) -> None:
        """Two members on the command line are an error."""
        result = setup.install(
            CUDA_12, "xgboost-cpu", "xgboost-cu12", "xgboost", "--bridge", "xgboost", code=3
        )
        assert "own the same files" in result["text"]

    def test_installed_member(self, setup: BridgeSetup) -> None:
        """An installed member is kept for the family."""
        target = ["--target", str(setup.folder), *setup.sources()]
        setup.run("install", "onnxruntime-gpu==1.26.0", "--no-bridges", "--for", CUDA_12, *target)
        assert setup.install(CUDA_12, "magika") == {
            "magika": "1",
            **BOUNDED,
        }

    @pytest.mark.parametrize(
        ("machine", "there", "expected", "code"),
        [
            (CUDA_13, ["onnxruntime", "--no-bridges"], ["onnxruntime-gpu"], 4),
            (CPU, ["onnxruntime"], ["onnxruntime-gpu"], 4),
            (CPU, ["onnxruntime"], ["greedy"], 4),
            (CPU, ["onnxruntime-gpu"], ["onnxruntime"], 3),
            (CPU, ["onnxruntime-gpu"], ["magika"], 3),
            (CUDA_13, ["onnxruntime"], ["greedy"], 0),
            (CUDA_13, ["cupy"], ["cupy-cuda12x"], 4),
            (CUDA_13, [], ["cupy-cuda12x", "cupy-cuda13x"], 4),
            (CUDA_13, [], ["greedy", "magika", "--no-bridges"], 4),
        ],
    )
    def test_installing_another_member(
        self, setup: BridgeSetup, machine: str, there: list[str], expected: list[str], code: int
    ) -> None:
        """No sequence of installations leaves two members, and a refused one changes nothing."""
        target = ["--for", machine, "--target", str(setup.folder), *setup.sources()]
        if there:
            setup.run("install", *there, *target)
        before = tree(setup.folder)
        setup.run("install", *expected, *target, code=code)
        assert code == 0 or tree(setup.folder) == before
        records = [path.read_text() for path in setup.folder.glob("*.dist-info/RECORD")]
        for module in ("onnxruntime", "cupy"):
            assert sum(f"{module}/__init__.py," in record for record in records) <= 1


def test_install_and_replace(setup: BridgeSetup) -> None:
    """The member is importable, and replaced in one transaction for another driver."""
    target = ["--target", str(setup.folder), *setup.sources()]
    setup.run("install", "cupy", "--for", CUDA_12, *target)
    names = {path.name for path in setup.folder.iterdir()}
    assert names >= {"cupy", "cupy-14.2.0.dist-info", "cupy_cuda12x-14.2.0.dist-info"}
    assert "cupy-cuda12x" in (setup.folder / "cupy/__init__.py").read_text("utf-8")
    setup.run("install", "cupy", "--for", CUDA_13, "--allow-variant-change", "-U", *target)
    names = {path.name for path in setup.folder.iterdir()}
    assert "cupy_cuda12x-14.2.0.dist-info" not in names
    assert "cupy_cuda13x-14.2.0.dist-info" in names
    assert "cupy-cuda13x" in (setup.folder / "cupy/__init__.py").read_text("utf-8")


def test_installed_document(setup: BridgeSetup) -> None:
    """An installed member has a variant.json and its own RECORD rows."""
    target = ["--target", str(setup.folder), *setup.sources()]
    setup.run("install", "xgboost", "--bridge", "xgboost", "--for", CUDA_13, *target)
    info = setup.folder / "xgboost-3.4.1.dist-info"
    document = json.loads((info / "variant.json").read_text("utf-8"))
    assert list(document["variants"]) == ["cuda13"]
    assert "variant.json" in (info / "RECORD").read_text("utf-8")
    assert setup.run.labels("--target", setup.folder) == {"nccl": None, "xgboost": "cuda13"}


def test_explain(setup: BridgeSetup) -> None:
    """``explain`` shows each member with the reason."""
    result = setup.run("explain", "cupy", "--for", CUDA_12, *setup.sources())
    assert "cupy 14.2.0 is bridged: cuda13 is cupy-cuda13x, cuda12 is cupy-cuda12x" in result.err
    assert "needs CUDA driver >= 13.0, preset cuda-12.8 has 12.8" in result.out


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (CUDA_11, {"cupy_cuda11x", "xgboost", "xgboost_cpu"}),
        (CUDA_12, {"cupy_cuda12x", "xgboost", "xgboost_cu12", "nccl"}),
    ],
)
def test_lock_and_sync(
    setup: BridgeSetup, tmp_path: Path, machine: str, expected: set[str]
) -> None:
    """F-120: one lock gives each machine its member, without detection."""
    lock = tmp_path / "pylock.toml"
    options = ["--platform", "linux-x86_64", "--python-version", PYTHON, *setup.sources()]
    setup.run("lock", "xgboost", "cupy<14", "--bridge", "xgboost", "-o", lock, *options)
    target = ["--target", str(setup.folder), "--for", machine]
    setup.run("sync", lock, *target)
    there = {path.name.partition("-")[0] for path in setup.folder.glob("*.dist-info")}
    assert there == {"cupy", *expected}


def test_lock_has_a_release_for_every_machine(setup: BridgeSetup, tmp_path: Path) -> None:
    """F-120: A lock has a release that exists for machines without a GPU too."""
    lock = tmp_path / "pylock.toml"
    options = ["--platform", "linux-x86_64", "--python-version", PYTHON, *setup.sources()]
    setup.run("lock", "magika", "-o", lock, *options)
    for machine, expected in ((CPU, "onnxruntime"), (CUDA_12, "onnxruntime_gpu")):
        folder = tmp_path / machine
        setup.run("sync", lock, "--target", folder, "--for", machine)
        text = (folder / "onnxruntime/__init__.py").read_text("utf-8")
        assert repr(expected.replace("_", "-")) in text
        assert "1.26.0" in text


class TestCommand:
    """``wheelfit bridges``."""

    def test_list(self, run: Runner) -> None:
        """Every shipped family is listed."""
        report = run("bridges", "list", "--json").object
        assert [family["name"] for family in report["families"]] == list(SHIPPED.names())
        assert "always" in run("bridges", "list").out

    def test_show(self, run: Runner) -> None:
        """A family is shown with its rules and source."""
        out = run("bridges", "show", "cupy", "onnxruntime").out
        assert "cupy-cuda12x, releases <14: nvidia :: cuda_version_lower_bound :: 12.0" in out
        assert "onnxruntime-gpu, releases >=1.27: nvidia" in out
        assert "https://docs.cupy.dev/" in out

    @pytest.mark.parametrize(
        ("words", "code", "error", "text"),
        [
            (["show", "cupi"], 1, "user-error", "did you mean cupy"),
            (["show"], 2, "usage", "required: FAMILY"),
            (["list", "cupy"], 2, "usage", "unrecognized arguments: cupy"),
            (["show", "nowhere/x.toml"], 1, "file-problem", "cannot be read"),
        ],
    )
    def test_usage_errors(
        self, run: Runner, words: list[str], code: int, error: str, text: str
    ) -> None:
        """Unknown families and files are errors."""
        result = run("bridges", *words, "--json", code=code)
        assert result.error["code"] == error
        assert text in result.out

    def test_own_family_file(self, setup: BridgeSetup, tmp_path: Path) -> None:
        """A user's family file is checked, shown and used."""
        file = tmp_path / "fastlib.toml"
        file.write_text(
            'name = "fastlib"\nsource = "https://fast.example/"\nchecked = 2026-11-22\n'
            'says = "one of two"\n[[member]]\ndistribution = "xgboost-cu12"\nlabel = "gpu"\n'
            'when.nvidia.cuda_version_lower_bound = ["12.0"]\n'
            '[[member]]\ndistribution = "xgboost-cpu"\nlabel = "null"\n',
            encoding="utf-8",
        )
        assert "xgboost-cu12" in setup.run("bridges", "show", file).out
        found = setup.install(CPU, "fastlib", "--bridge", str(file))
        assert found == {"xgboost-cpu": "3.4.1", "fastlib": "3.4.1:null"}

    def test_invalid_family_file(self, run: Runner, tmp_path: Path) -> None:
        """All errors of a family file are reported before any request."""
        file = tmp_path / "bad.toml"
        file.write_text(
            'name = "Bad Name"\nsource = "ftp://x/"\nwhere = 1\n'
            '[[member]]\ndistribution = "../x"\nlabel = "nul"\nwhen.moon.phase = ["full"]\n',
            encoding="utf-8",
        )
        result = run("install", "bad", "--bridge", file, "--json", "--target", tmp_path, code=1)
        assert result.error["code"] == "invalid-bridge"
        paths = {fault["path"] for fault in result.error["faults"]}
        assert paths >= {
            "where", "name", "source", "says", "checked",
            "member[0].distribution", "member[0].label", "member[0].when.moon",
        }  # fmt: skip


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve an index for each build of two projects, laid out as by their vendors."""
    root = tmp_path_factory.mktemp("whl")
    for build in ("cu118", "cu126", "cu128", "cu130", "cpu"):
        for name, version, needs in (
            ("torch", "2.9.0", ()),
            ("torchvision", "0.24.0", ("torch==2.9.0",)),
        ):
            files = {f"{name}/__init__.py": f"build = {build!r}\n"}
            build_wheel(
                root / build / name, name, f"{version}+{build}", files=files, requires=needs
            )
    for page in root.glob("*/*"):
        links = (
            f'<a href="{quote(file.name)}#sha256={hashlib.sha256(file.read_bytes()).hexdigest()}">'
            f"{file.name}</a>"
            for file in page.glob("*.whl")
        )
        (page / "index.html").write_text(f"<!DOCTYPE html><html><body>{''.join(links)}")
    with served(root) as origin:
        yield origin


class TestIndexes:
    """Families whose builds differ in their index."""

    @pytest.mark.parametrize(
        ("machine", "build"),
        sampled(
            fast={0, 3, 6},
            cases=[
                (CUDA_13, "2.9.0+cu130:cu130"),
                ("cuda-12.9-sm90", "2.9.0+cu128:cu128"),
                ("cuda-12.6-sm90", "2.9.0+cu128:cu128"),
                ("cuda-12.6-sm61", "2.9.0+cu126:cu126"),
                ("cuda-13.0-sm70", "2.9.0+cu128:cu128"),
                ("cuda-11.8-sm70", "2.9.0+cu118:cu118"),
                (CPU, "2.9.0+cpu:null"),
            ],
        ),
    )
    def test_index_for_each_machine(
        self, setup: BridgeSetup, mirror: str, machine: str, build: str
    ) -> None:
        """The wheel comes from the index for the driver, and dependents follow."""
        found = setup.install(machine, "torchvision", "--bridge", f"pytorch@{mirror}")
        local = build.partition("+")[2]
        assert found == {"torch": build, "torchvision": f"0.24.0+{local}"}

    def test_install_from_the_index(self, setup: BridgeSetup, mirror: str) -> None:
        """The wheel of the index is installed with a variant.json."""
        target = ["--target", str(setup.folder), *setup.sources()]
        words = ["install", "torch==2.9.0", "--bridge", f"pytorch@{mirror}", "--for", SM_90]
        setup.run(*words, *target)
        assert "cu128" in (setup.folder / "torch/__init__.py").read_text("utf-8")
        assert (setup.folder / "torch-2.9.0+cu128.dist-info/variant.json").is_file()

    def test_lock_of_indexes(self, setup: BridgeSetup, mirror: str, tmp_path: Path) -> None:
        """A lock has every build, or there is one lock for each machine."""
        words = ["lock", "torch", "--bridge", f"pytorch@{mirror}", *setup.sources()]
        words += ["-o", str(tmp_path / "pylock.toml")]
        setup.run(*words, "--platform", "linux-x86_64", "--python-version", PYTHON)
        for machine, build in ((SM_90, "cu128"), ("cuda-11.8-sm70", "cu118"), (CPU, "cpu")):
            folder = tmp_path / machine
            setup.run("sync", tmp_path / "pylock.toml", "--target", folder, "--for", machine)
            assert f"build = {build!r}" in (folder / "torch/__init__.py").read_text("utf-8")
        result = setup.run(*words, "--upgrade", "--for", SM_90, "--for", CPU)
        assert "is locked;" not in result.err
        builds = {
            tomllib.loads(path.read_text())["packages"][0]["version"]
            for path in tmp_path.glob("pylock.*.toml")
        }
        assert builds == {"2.9.0+cu128", "2.9.0+cpu"}

    def test_family_without_indexes(self, setup: BridgeSetup, mirror: str) -> None:
        """A family of names accepts no index URL."""
        result = setup.install(CPU, "cupy", "--bridge", f"cupy@{mirror}", code=1)
        assert "has no indexes" in result["text"]

    def test_all_known_and_indexes(self, setup: BridgeSetup) -> None:
        """``all-known`` enables no index."""
        words = ["torch", "--bridge", "all-known"]
        assert setup.install(CPU, *words, code=3)["error"] == "project-not-found"


class TestUsesOfALock:
    """Exports and bundles of a lock with selectors."""

    @pytest.fixture
    def lock(self, setup: BridgeSetup, tmp_path: Path) -> Path:
        """Return a lock of a family."""
        lock = tmp_path / "pylock.toml"
        options = ["--platform", "linux-x86_64", "--python-version", PYTHON, *setup.sources()]
        setup.run("lock", "xgboost", "--bridge", "xgboost", "-o", lock, *options)
        return lock

    def test_export(self, setup: BridgeSetup, lock: Path) -> None:
        """Requirements name the members, not the selector."""
        out = setup.run("export", lock, "--for", CUDA_12, "--format", "requirements").out
        lines = [line for line in out.splitlines() if not line.startswith("#")]
        assert [line.partition(" ")[0].partition("==")[0] for line in lines] == [
            "nccl",
            "xgboost-cu12",
        ]

    def test_bundle(self, setup: BridgeSetup, lock: Path, tmp_path: Path) -> None:
        """A bundle has selectors as files, and installs without bridges."""
        bundle = tmp_path / "bundle"
        setup.run("bundle", lock, "--for", CUDA_12, "--for", CPU, "-o", bundle)
        setup.run("sync", bundle / "pylock.toml", "--target", setup.folder, "--for", CPU)
        there = {path.name.partition("-")[0] for path in setup.folder.glob("*.dist-info")}
        assert there == {"xgboost", "xgboost_cpu"}

    def test_selector_with_another_hash(self, setup: BridgeSetup, lock: Path) -> None:
        """A selector with another hash than the lock's is refused."""
        text = lock.read_text("utf-8")
        start = text.index("bridge:xgboost")
        digest = text.index("sha256", start)
        place = text.index('"', digest) + 1
        lock.write_text(text[:place] + "0" * 64 + text[place + 64 :], "utf-8")
        # The lock has it in the order of labels; that for CUDA 12 comes first.
        setup.run("sync", lock, "--target", setup.folder, "--for", CUDA_12, code=4)


@pytest.mark.network
def test_pip_accepts_the_environment(
    run: Runner, wheels: Path, tmp_path: Path, pip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pip check` finds nothing missing, and dependents need no download."""
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    sources = ["--no-index", "--find-links", str(wheels)]
    monkeypatch.setenv("NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION", "12.8")
    run("install", "magika", "cupy", "--python", python, *sources)

    def said(*words: str) -> str:
        command = [str(pip), "--python", str(python), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert "No broken requirements" in said("check")
    assert "Requirement already satisfied: onnxruntime" in said("install", "onnxruntime", *sources)
    frozen = said("freeze").split()
    assert {"onnxruntime==1.26.0", "onnxruntime-gpu==1.26.0", "cupy-cuda12x==14.2.0"} <= {*frozen}
    assert "onnxruntime==1.32.0" not in frozen


def test_lock_for_named_machines(setup: BridgeSetup, tmp_path: Path) -> None:
    """A lock for machines has the release that exists for all of them."""
    lock = tmp_path / "pylock.toml"
    machines = (CUDA_11, CUDA_12)
    hosts = [word for machine in machines for word in ("--for", machine)]
    setup.run("lock", "cupy", "-o", lock, *hosts, *setup.sources())
    for machine in machines:
        folder = tmp_path / machine
        setup.run("sync", lock, "--target", folder, "--for", machine)
        major = machine.removeprefix("cuda-")[:2]
        assert f"cupy-cuda{major}x" in (folder / "cupy/__init__.py").read_text("utf-8")


def test_explain_starts_as_install(setup: BridgeSetup) -> None:
    """``explain`` starts with the same release as install."""
    words = ["--bridge", "faiss", "--for", CUDA_12, *setup.sources()]
    assert "faiss 1.14.1 for cuda-12.8" in setup.run("explain", "faiss", *words).out
    words = ["--bridge", "faiss", "--for", CPU, *setup.sources()]
    assert "faiss 1.15.1 for cpu-x86_64-v3" in setup.run("explain", "faiss", *words).out


def test_bridge_in_the_output(setup: BridgeSetup) -> None:
    """The output names the bridge."""
    words = ["install", "magika", "--for", CUDA_12, "--target", str(setup.folder), "--dry-run"]
    result = setup.run(*words, *setup.sources())
    assert re.search(r"^onnxruntime +1\.26\.0 +cuda12_cudnn9\.10 ", result.out, re.MULTILINE)
    assert "by a bridge it is onnxruntime-gpu" in result.out
    assert "bridge" not in result.err


def test_document_of_the_wheel_takes_precedence(setup: BridgeSetup, tmp_path: Path) -> None:
    """F-93: A wheel's own document overrides the declared variant."""
    folder = tmp_path / "odd"
    document = b'{"variants": {"cuda13": {}}, "default-priorities": {"namespace": []}}'
    build_wheel(folder, "xgboost", "3.4.1", document=document)
    words = ["install", "xgboost", "--bridge", "xgboost", "--for", CUDA_13, "--no-index"]
    target = ["--target", str(setup.folder), "--find-links", str(folder)]
    setup.run(*words, *target)
    there = json.loads((setup.folder / "xgboost-3.4.1.dist-info/wheelfit.json").read_text("utf-8"))
    assert there["label"] is None
