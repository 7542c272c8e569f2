"""Families of distributions as variants, by the real command line, with real wheels."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import quote

import pytest
from cli.running import Runner, tree
from jsonschema import validate
from sampled_cases import sampled

from wheelfit.sources.bridges.catalogue import SHIPPED
from wheelfit.testing.wheels import build_wheel

SCHEMAS = Path(__file__).parents[2] / "docs" / "reference" / "schemas"
CPU, CUDA_11, CUDA_12, CUDA_13 = "cpu-x86_64-v3", "cuda-11.8", "cuda-12.8", "cuda-13.0-sm90"
V100 = "cuda-13.0-sm70"
SM_90 = "cuda-12.8-sm90"
BOUNDED = {"onnxruntime": "1.26.0:cuda12_cudnn9.10", "nvidia-cudnn-cu12": "9.10.2.21"}
"""The cuDNN that has code for old GPUs too, where the GPU is old or not known."""
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
"""Presets take their Python from this interpreter."""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with small wheels of some families, and of what needs them."""
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


class Bridges:
    """Install from the wheels into a folder.

    :param run: runs the command line.
    :param wheels: the folder with the wheels.
    :param folder: where to install.
    """

    def __init__(self, run: Runner, wheels: Path, folder: Path) -> None:
        self.run = run
        self.wheels = wheels
        self.folder = folder

    def sources(self) -> list[str]:
        """Return the options that name the wheels."""
        return ["--no-index", "--find-links", str(self.wheels)]

    def install(self, machine: str, *words: str, code: int = 0) -> dict[str, str]:
        """Return what a machine would get: names with versions, and labels behind a colon."""
        command = ["install", *words, "--for", machine, "--target", str(self.folder)]
        result = self.run(*command, *self.sources(), "--dry-run", "--json", code=code)
        if code:
            return {"error": result.error["code"], "text": json.dumps(result.error)}
        return {
            pin["name"]: pin["version"] + (f":{pin['label']}" if pin["label"] else "")
            for pin in result.object["install"]
        }


@pytest.fixture
def bridges(run: Runner, wheels: Path, tmp_path: Path) -> Bridges:
    """Return what installs from the wheels."""
    return Bridges(run, wheels, tmp_path / "target")


@pytest.mark.parametrize(
    ("machine", "member", "version"),
    [
        (CUDA_13, "cupy-cuda13x", "14.2.0"),
        (V100, "cupy-cuda12x", "14.2.0"),  # for which CUDA 13 has no code
        (CUDA_12, "cupy-cuda12x", "14.2.0"),
        (CUDA_11, "cupy-cuda11x", "13.6.0"),
    ],
)
def test_each_machine_gets_its_member(
    bridges: Bridges, machine: str, member: str, version: str
) -> None:
    """The member for the driver is installed, in the newest release, with what it needs."""
    label = member.removeprefix("cupy-").removesuffix("x")
    needs = {} if label == "cuda11" else {"toolkit": "1"}
    expected = {member: version, "cupy": f"{version}:{label}", **needs}
    assert bridges.install(machine, "cupy") == expected


def test_no_member_fits(bridges: Bridges) -> None:
    """Where no member fits, the error says in the words of the family what is needed."""
    result = bridges.install(CPU, "cupy", code=3)
    assert result["error"] == "no-compatible-wheel"
    assert "CuPy needs an NVIDIA GPU with a driver for CUDA 11.2 or newer" in result["text"]
    assert "none was found on preset cpu-x86_64-v3" in result["text"]
    result = bridges.install(CPU, "studio", code=3)
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
def test_dependents_follow(bridges: Bridges, machine: str, expected: dict[str, str]) -> None:
    """What needs the name gets the member of the machine; a GPU outweighs a newer release."""
    assert bridges.install(machine, "magika") == expected


def test_specifiers_count_for_the_member(bridges: Bridges) -> None:
    """A release is preferred that has the GPU, and a requirement outweighs that."""
    assert bridges.install(CUDA_12, "onnxruntime>=1.30") == {"onnxruntime": "1.32.0"}
    assert bridges.install(CUDA_12, "cupy<14") == {
        "cupy-cuda12x": "13.6.0",
        "cupy": "13.6.0:cuda12",
    }


def test_rules_of_releases(bridges: Bridges) -> None:
    """A member counts for those releases only that its rule names."""
    assert bridges.install(CUDA_12, "onnxruntime<1.21", code=3)["error"] == "no-solution"
    found = bridges.install(CUDA_12, "xgboost==3.3.0", "--bridge", "xgboost")
    assert found == {"nccl": "2", "xgboost": "3.3.0:cuda12"}


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (CUDA_13, {"xgboost": "3.4.1:cuda13", "nccl": "2"}),
        (CUDA_12, {"xgboost": "3.4.1:cuda12", "xgboost-cu12": "3.4.1", "nccl": "2"}),
        (CPU, {"xgboost": "3.4.1:null", "xgboost-cpu": "3.4.1"}),
    ],
)
def test_the_project_is_a_member_itself(
    bridges: Bridges, machine: str, expected: dict[str, str]
) -> None:
    """A member that has the family's name is presented by its very wheels."""
    assert bridges.install(machine, "xgboost", "--bridge", "xgboost") == expected


def test_a_family_counts_when_somebody_says_so(bridges: Bridges) -> None:
    """Nothing is shadowed that nobody agreed to, and nothing at all with --no-bridges."""
    assert bridges.install(CPU, "faiss", code=3)["error"] == "project-not-found"
    assert bridges.install(CPU, "xgboost", "--no-bridges") == {"nccl": "2", "xgboost": "3.4.1"}
    assert bridges.install(CUDA_13, "onnxruntime", "--no-bridges") == {"onnxruntime": "1.32.0"}
    assert bridges.install(CUDA_13, "cupy", "--no-bridges", code=3)["error"] == "project-not-found"


def test_by_configuration(
    bridges: Bridges, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's file can agree to families, for good."""
    settings = tmp_path / "wheelfit.toml"
    settings.write_text('bridges = ["faiss"]\n', encoding="utf-8")
    monkeypatch.setenv("WHEELFIT_CONFIG_FILE", str(settings))
    assert bridges.install(CPU, "faiss") == {"faiss-cpu": "1.15.1", "faiss": "1.15.1:null"}
    assert bridges.install(CUDA_12, "faiss") == {
        "faiss-gpu-cu12": "1.14.1",
        "faiss": "1.14.1:cuda12",
    }


def test_extras_are_passed_on(bridges: Bridges) -> None:
    """An extra of the family is the extra of the member."""
    assert bridges.install(CUDA_13, "cupy[ctk]") == {
        "toolkit": "1",
        "cupy-cuda13x": "14.2.0",
        "cupy": "14.2.0:cuda13",
    }


class TestOwnTheSameFiles:
    """Two distributions that own the same files are never both installed."""

    def test_what_is_needed_by_name_wins(self, bridges: Bridges) -> None:
        """Where something needs a member by its name, everybody gets that member."""
        found = bridges.install(CUDA_13, "greedy", "magika")
        assert found["onnxruntime"] == "1.31.1:cuda13"
        found = bridges.install(CUDA_13, "modest", "xgboost", "--bridge", "xgboost")
        assert found == {"modest": "1", "xgboost-cpu": "3.4.1", "xgboost": "3.4.1:null"}

    def test_that_does_not_fit(self, bridges: Bridges) -> None:
        """A member that is needed by name and does not fit is an error that names both."""
        result = bridges.install(CPU, "greedy", "magika", code=3)
        assert result["error"] == "no-solution"
        assert "onnxruntime-gpu and onnxruntime own the same files" in result["text"]

    def test_two_by_name(self, bridges: Bridges) -> None:
        """Two members asked for by name are an error."""
        result = bridges.install(
            CUDA_12, "xgboost-cpu", "xgboost-cu12", "xgboost", "--bridge", "xgboost", code=3
        )
        assert "own the same files" in result["text"]

    def test_what_is_installed_counts(self, bridges: Bridges) -> None:
        """A member that is there already is the one that the name gets."""
        target = ["--target", str(bridges.folder), *bridges.sources()]
        bridges.run("install", "onnxruntime-gpu==1.26.0", "--no-bridges", "--for", CUDA_12, *target)
        assert bridges.install(CUDA_12, "magika") == {
            "magika": "1",
            **BOUNDED,
        }

    @pytest.mark.parametrize(
        ("machine", "there", "wanted", "code"),
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
    def test_whatever_is_there_and_however_it_is_named(
        self, bridges: Bridges, machine: str, there: list[str], wanted: list[str], code: int
    ) -> None:
        """One after the other, by dependents, by other names, without bridges: never two of them.

        What is refused changes nothing.
        """
        target = ["--for", machine, "--target", str(bridges.folder), *bridges.sources()]
        if there:
            bridges.run("install", *there, *target)
        before = tree(bridges.folder)
        bridges.run("install", *wanted, *target, code=code)
        assert code == 0 or tree(bridges.folder) == before
        records = [path.read_text() for path in bridges.folder.glob("*.dist-info/RECORD")]
        for module in ("onnxruntime", "cupy"):
            assert sum(f"{module}/__init__.py," in record for record in records) <= 1


def test_really_installed_and_exchanged(bridges: Bridges) -> None:
    """The member is what is imported; with another driver it gives way in one transaction."""
    target = ["--target", str(bridges.folder), *bridges.sources()]
    bridges.run("install", "cupy", "--for", CUDA_12, *target)
    names = {path.name for path in bridges.folder.iterdir()}
    assert names >= {"cupy", "cupy-14.2.0.dist-info", "cupy_cuda12x-14.2.0.dist-info"}
    assert "cupy-cuda12x" in (bridges.folder / "cupy/__init__.py").read_text("utf-8")
    bridges.run("install", "cupy", "--for", CUDA_13, "--allow-variant-change", "-U", *target)
    names = {path.name for path in bridges.folder.iterdir()}
    assert "cupy_cuda12x-14.2.0.dist-info" not in names
    assert "cupy_cuda13x-14.2.0.dist-info" in names
    assert "cupy-cuda13x" in (bridges.folder / "cupy/__init__.py").read_text("utf-8")


def test_a_declared_wheel_says_what_it_is(bridges: Bridges) -> None:
    """A wheel under a label has a variant.json when installed, and keeps its own RECORD rows."""
    target = ["--target", str(bridges.folder), *bridges.sources()]
    bridges.run("install", "xgboost", "--bridge", "xgboost", "--for", CUDA_13, *target)
    info = bridges.folder / "xgboost-3.4.1.dist-info"
    document = json.loads((info / "variant.json").read_text("utf-8"))
    assert list(document["variants"]) == ["cuda13"]
    assert "variant.json" in (info / "RECORD").read_text("utf-8")
    listed = bridges.run("list", "--json", "--target", bridges.folder).object["packages"]
    assert {one["name"]: one["label"] for one in listed} == {"nccl": None, "xgboost": "cuda13"}


def test_explained(bridges: Bridges) -> None:
    """``explain`` shows each member with the reason why it is taken or not."""
    result = bridges.run("explain", "cupy", "--for", CUDA_12, *bridges.sources())
    assert "cupy 14.2.0 is bridged: cuda13 is cupy-cuda13x, cuda12 is cupy-cuda12x" in result.err
    assert "needs CUDA driver >= 13.0, preset cuda-12.8 has 12.8" in result.out


@pytest.mark.parametrize(
    ("machine", "wanted"),
    [
        (CUDA_11, {"cupy_cuda11x", "xgboost", "xgboost_cpu"}),
        (CUDA_12, {"cupy_cuda12x", "xgboost", "xgboost_cu12", "nccl"}),
    ],
)
def test_locked_for_every_machine(
    bridges: Bridges, tmp_path: Path, machine: str, wanted: set[str]
) -> None:
    """F-120: one lock, made without looking at a machine, gives each its own member."""
    lock = tmp_path / "pylock.toml"
    options = ["--platform", "linux-x86_64", "--python-version", PYTHON, *bridges.sources()]
    bridges.run("lock", "xgboost", "cupy<14", "--bridge", "xgboost", "-o", lock, *options)
    target = ["--target", str(bridges.folder), "--for", machine]
    bridges.run("sync", lock, *target)
    there = {path.name.partition("-")[0] for path in bridges.folder.glob("*.dist-info")}
    assert there == {"cupy", *wanted}


def test_a_lock_serves_every_machine(bridges: Bridges, tmp_path: Path) -> None:
    """F-120: a lock has a release that is there for machines without GPU too."""
    lock = tmp_path / "pylock.toml"
    options = ["--platform", "linux-x86_64", "--python-version", PYTHON, *bridges.sources()]
    bridges.run("lock", "magika", "-o", lock, *options)
    for machine, wanted in ((CPU, "onnxruntime"), (CUDA_12, "onnxruntime_gpu")):
        folder = tmp_path / machine
        bridges.run("sync", lock, "--target", folder, "--for", machine)
        text = (folder / "onnxruntime/__init__.py").read_text("utf-8")
        assert repr(wanted.replace("_", "-")) in text
        assert "1.26.0" in text


class TestCommand:
    """``wheelfit bridges`` lists and shows families."""

    def test_list(self, run: Runner) -> None:
        """Every shipped family is listed."""
        report = run("bridges", "list", "--json").object
        assert [family["name"] for family in report["families"]] == list(SHIPPED.names())
        validate(report, json.loads((SCHEMAS / "bridges.json").read_text("utf-8")))
        assert "always" in run("bridges", "list").out

    def test_show(self, run: Runner) -> None:
        """A family is shown with rules and source."""
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
    def test_mistakes(
        self, run: Runner, words: list[str], code: int, error: str, text: str
    ) -> None:
        """What is not there is said clearly."""
        result = run("bridges", *words, "--json", code=code)
        assert result.error["code"] == error
        assert text in result.out

    def test_a_family_of_ones_own(self, bridges: Bridges, tmp_path: Path) -> None:
        """A file of one's own is checked, shown and used."""
        file = tmp_path / "fastlib.toml"
        file.write_text(
            'name = "fastlib"\nsource = "https://fast.example/"\nchecked = 2026-11-22\n'
            'says = "one of two"\n[[member]]\ndistribution = "xgboost-cu12"\nlabel = "gpu"\n'
            'when.nvidia.cuda_version_lower_bound = ["12.0"]\n'
            '[[member]]\ndistribution = "xgboost-cpu"\nlabel = "null"\n',
            encoding="utf-8",
        )
        assert "xgboost-cu12" in bridges.run("bridges", "show", file).out
        found = bridges.install(CPU, "fastlib", "--bridge", str(file))
        assert found == {"xgboost-cpu": "3.4.1", "fastlib": "3.4.1:null"}

    def test_a_hostile_file(self, run: Runner, tmp_path: Path) -> None:
        """A file with errors is refused before anything is asked, and each is named."""
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
    """Serve an index for each build of two projects, as their vendors lay them out."""
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
    handler = partial(_Quiet, directory=str(root))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    """List folders as a static index does, and print nothing."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as inherited
        del format, args


class TestIndexes:
    """Builds that differ in their index are variants as well."""

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
    def test_each_machine_gets_its_index(
        self, bridges: Bridges, mirror: str, machine: str, build: str
    ) -> None:
        """The wheel comes from the index that the driver goes with, and what needs it follows."""
        found = bridges.install(machine, "torchvision", "--bridge", f"pytorch@{mirror}")
        local = build.partition("+")[2]
        assert found == {"torch": build, "torchvision": f"0.24.0+{local}"}

    def test_really_installed(self, bridges: Bridges, mirror: str) -> None:
        """The very wheel of the index is installed, and says what it is."""
        target = ["--target", str(bridges.folder), *bridges.sources()]
        words = ["install", "torch==2.9.0", "--bridge", f"pytorch@{mirror}", "--for", SM_90]
        bridges.run(*words, *target)
        assert "cu128" in (bridges.folder / "torch/__init__.py").read_text("utf-8")
        assert (bridges.folder / "torch-2.9.0+cu128.dist-info/variant.json").is_file()

    def test_locked(self, bridges: Bridges, mirror: str, tmp_path: Path) -> None:
        """A lock for all has every build, of which each machine gets its own; or one for each."""
        words = ["lock", "torch", "--bridge", f"pytorch@{mirror}", *bridges.sources()]
        words += ["-o", str(tmp_path / "pylock.toml")]
        bridges.run(*words, "--platform", "linux-x86_64", "--python-version", PYTHON)
        for machine, build in ((SM_90, "cu128"), ("cuda-11.8-sm70", "cu118"), (CPU, "cpu")):
            folder = tmp_path / machine
            bridges.run("sync", tmp_path / "pylock.toml", "--target", folder, "--for", machine)
            assert f"build = {build!r}" in (folder / "torch/__init__.py").read_text("utf-8")
        result = bridges.run(*words, "--upgrade", "--for", SM_90, "--for", CPU)
        assert "is locked;" not in result.err
        builds = {
            tomllib.loads(path.read_text())["packages"][0]["version"]
            for path in tmp_path.glob("pylock.*.toml")
        }
        assert builds == {"2.9.0+cu128", "2.9.0+cpu"}

    def test_only_indexes_are_elsewhere(self, bridges: Bridges, mirror: str) -> None:
        """A family of names has no indexes that could be elsewhere."""
        result = bridges.install(CPU, "cupy", "--bridge", f"cupy@{mirror}", code=1)
        assert "has no indexes" in result["text"]

    def test_all_known_names_no_index(self, bridges: Bridges) -> None:
        """``all-known`` changes nothing about where projects come from."""
        words = ["torch", "--bridge", "all-known"]
        assert bridges.install(CPU, *words, code=3)["error"] == "project-not-found"


class TestOfALock:
    """What else is made of a lock with selectors."""

    @pytest.fixture
    def lock(self, bridges: Bridges, tmp_path: Path) -> Path:
        """Return a lock of a family."""
        lock = tmp_path / "pylock.toml"
        options = ["--platform", "linux-x86_64", "--python-version", PYTHON, *bridges.sources()]
        bridges.run("lock", "xgboost", "--bridge", "xgboost", "-o", lock, *options)
        return lock

    def test_exported(self, bridges: Bridges, lock: Path) -> None:
        """Requirements name the members; a selector exists nowhere."""
        out = bridges.run("export", lock, "--for", CUDA_12, "--format", "requirements").out
        lines = [line for line in out.splitlines() if not line.startswith("#")]
        assert [line.partition(" ")[0].partition("==")[0] for line in lines] == [
            "nccl",
            "xgboost-cu12",
        ]

    def test_bundled(self, bridges: Bridges, lock: Path, tmp_path: Path) -> None:
        """A bundle has selectors as files, and installs with no bridge."""
        bundle = tmp_path / "bundle"
        bridges.run("bundle", lock, "--for", CUDA_12, "--for", CPU, "-o", bundle)
        bridges.run("sync", bundle / "pylock.toml", "--target", bridges.folder, "--for", CPU)
        there = {path.name.partition("-")[0] for path in bridges.folder.glob("*.dist-info")}
        assert there == {"xgboost", "xgboost_cpu"}

    def test_a_selector_that_is_another_one(self, bridges: Bridges, lock: Path) -> None:
        """A selector that is not what the lock promises is refused."""
        text = lock.read_text("utf-8")
        start = text.index("bridge:xgboost")
        digest = text.index("sha256", start)
        place = text.index('"', digest) + 1
        lock.write_text(text[:place] + "0" * 64 + text[place + 64 :], "utf-8")
        # The lock has it in the order of labels; that for CUDA 12 comes first.
        bridges.run("sync", lock, "--target", bridges.folder, "--for", CUDA_12, code=4)


@pytest.mark.network
def test_pip_is_at_peace(
    run: Runner, wheels: Path, tmp_path: Path, pip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For pip nothing is missing, and what needs the name has it already."""
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


def test_locked_for_machines(bridges: Bridges, tmp_path: Path) -> None:
    """A lock for machines has the release that all of them have."""
    lock = tmp_path / "pylock.toml"
    machines = (CUDA_11, CUDA_12)
    hosts = [word for machine in machines for word in ("--for", machine)]
    bridges.run("lock", "cupy", "-o", lock, *hosts, *bridges.sources())
    for machine in machines:
        folder = tmp_path / machine
        bridges.run("sync", lock, "--target", folder, "--for", machine)
        major = machine.removeprefix("cuda-")[:2]
        assert f"cupy-cuda{major}x" in (folder / "cupy/__init__.py").read_text("utf-8")


def test_explained_as_installed(bridges: Bridges) -> None:
    """``explain`` begins with the release that installing begins with."""
    words = ["--bridge", "faiss", "--for", CUDA_12, *bridges.sources()]
    assert "faiss 1.14.1 for cuda-12.8" in bridges.run("explain", "faiss", *words).out
    words = ["--bridge", "faiss", "--for", CPU, *bridges.sources()]
    assert "faiss 1.15.1 for cpu-x86_64-v3" in bridges.run("explain", "faiss", *words).out


def test_one_line_says_so(bridges: Bridges) -> None:
    """What a bridge had a part in says so where it is reported."""
    words = ["install", "magika", "--for", CUDA_12, "--target", str(bridges.folder), "--dry-run"]
    result = bridges.run(*words, *bridges.sources())
    assert re.search(r"^onnxruntime +1\.26\.0 +cuda12_cudnn9\.10 ", result.out, re.MULTILINE)
    assert "by a bridge it is onnxruntime-gpu" in result.out
    assert "bridge" not in result.err


def test_what_a_wheel_says_of_itself_counts(bridges: Bridges, tmp_path: Path) -> None:
    """F-93: nothing is declared of a wheel in place of what it says."""
    folder = tmp_path / "odd"
    document = b'{"variants": {"cuda13": {}}, "default-priorities": {"namespace": []}}'
    build_wheel(folder, "xgboost", "3.4.1", document=document)
    words = ["install", "xgboost", "--bridge", "xgboost", "--for", CUDA_13, "--no-index"]
    target = ["--target", str(bridges.folder), "--find-links", str(folder)]
    bridges.run(*words, *target)
    there = json.loads(
        (bridges.folder / "xgboost-3.4.1.dist-info/wheelfit.json").read_text("utf-8")
    )
    assert there["label"] is None
