"""Installations by pip and uv from wheelfit's locks (PEP 751), without variants."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest
from cli.running import Runner
from packaging.pylock import Pylock
from programs import run_program
from web_servers import served

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.resolution_setup import NVIDIA
from wheelfit.testing.wheels import build_wheel, release_document

pytestmark = [
    pytest.mark.integration,
    pytest.mark.network,
    pytest.mark.usefixtures("bare_environment"),
]

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
X86_64 = {"requires": ["x86-64-variant-provider<1"]}
VARIANTS = {
    "v3": {"x86_64": {"level": ["v3"]}},
    "cu12": {"nvidia": {"cuda_version_lower_bound": ["12.0"]}},
    "null": {},
}


def add_release(folder: Path, name: str, *labels: str | None, **needs: str) -> None:
    """Add a release with one wheel for each label, which contains the label."""
    document = release_document(
        {label: VARIANTS[label] for label in labels if label},
        providers={"x86_64": X86_64, "nvidia": NVIDIA},
    )
    for label in labels:
        build_wheel(
            folder,
            name,
            "1",
            label=label,
            document=document if label else None,
            requires=needs.get(label or "plain", "").split(),
        )
    if any(labels):
        text = json.dumps(document)
        (folder / f"{name.replace('-', '_')}-1-variants.json").write_text(text)


def add_member(folder: Path, name: str, version: str, module: str, *needs: str) -> None:
    """Add a member of a family, which has a module of the family."""
    files = {f"{module}/__init__.py": f"__variant__ = {name!r}\n"}
    build_wheel(folder, name, version, files=files, requires=needs)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordingIndex]:
    """Serve projects with and without variants, and members of families."""
    folder = tmp_path_factory.mktemp("wheels")
    build_wheel(folder, "small", "1")
    build_wheel(folder, "gpu-lib", "1", requires=["small"])
    build_wheel(folder, "cpu-lib", "1")
    build_wheel(folder, "shell", "1")
    build_wheel(folder, "app", "1", requires=["small", 'nowhere; sys_platform == "nowhere"'])
    add_release(folder, "plain-and-variants", "v3", "cu12", None, cu12="gpu-lib", plain="cpu-lib")
    add_release(folder, "plain-and-null", "cu12", "null", None, cu12="gpu-lib", null="shell")
    add_release(folder, "only-null", "cu12", "null", cu12="gpu-lib", null="cpu-lib")
    add_release(folder, "only-variants", "v3", "cu12")
    build_wheel(folder, "learning", "1", requires=["plain-and-variants", "small"])
    build_wheel(
        folder,
        "with-extras",
        "1",
        requires=['plain-and-variants; extra == "fast"', 'gpu-lib; extra == "gpu"'],
        provides_extra=["fast", "gpu"],
    )
    add_member(folder, "onnxruntime", "1.26.0", "onnxruntime", "small")
    add_member(folder, "onnxruntime-gpu", "1.26.0", "onnxruntime", "gpu-lib")
    build_wheel(folder, "magika", "1", requires=["onnxruntime"])
    add_member(folder, "faiss-cpu", "1.14.1", "faiss")
    add_member(folder, "faiss-gpu-cu12", "1.14.1", "faiss", "gpu-lib")
    for major in ("12", "13"):
        add_member(folder, f"cupy-cuda{major}x", "14.2.0", "cupy")
    with RecordingIndex(folder) as server:
        yield server


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve an index for each build of a project, like its vendor."""
    root = tmp_path_factory.mktemp("whl")
    for build in ("cu128", "cu130", "cpu"):
        files = {"torch/__init__.py": f"__variant__ = {build!r}\n"}
        folder = root / build / "torch"
        wheels = [build_wheel(folder, "torch", f"2.9.0+{build}", files=files)]
        if build == "cpu":  # that for Macs has no local version
            wheels.append(build_wheel(folder, "torch", "2.9.0", tag="py3-none-macosx_14_0_arm64"))
        links = ""
        for wheel in wheels:
            digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
            links += f'<a href="{quote(wheel.name)}#sha256={digest}">{wheel.name}</a>'
        (folder / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")
    with served(root) as origin:
        yield origin


class Installed(NamedTuple):
    """The result of an installation by another tool."""

    code: int
    text: str
    distributions: dict[str, str]
    """Versions by name."""
    builds: dict[str, str]
    """What the modules say of the build that they are from."""


Install = Callable[[Path, Path], Installed]


def run(folder: Path, words: list[str | Path], target: Path) -> Installed:
    """Run a tool without the user's settings and without an index."""
    names = ("PATH", "SYSTEMROOT")
    environ = {name: os.environ[name] for name in names if name in os.environ}
    environ |= {"HOME": str(folder), "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1"}
    completed = run_program(*words, code=None, env=environ, cwd=folder)
    found = [path.stem.rpartition("-") for path in target.glob("*.dist-info")]
    modules = {path.parent.name: path.read_text() for path in target.glob("*/__init__.py")}
    builds = {
        name: text.rpartition("__variant__ = ")[2].strip().strip("'")
        for name, text in modules.items()
    }
    distributions = {name.replace("_", "-"): version for name, _, version in found}
    return Installed(
        completed.returncode, completed.stdout + completed.stderr, distributions, builds
    )


@pytest.fixture(params=["pip install -r", "uv pip sync"])
def install(request: pytest.FixtureRequest) -> Install:
    """Return a function that installs a lock into a folder, without an index."""
    if request.param.startswith("pip"):
        pip: Path = request.getfixturevalue("pip")

        def with_pip(lock: Path, folder: Path) -> Installed:
            words: list[str | Path] = [pip, "install", "--no-index", "-r", lock]
            return run(folder, [*words, "--target", folder / "target"], folder / "target")

        return with_pip
    uv: Path = request.getfixturevalue("uv")

    def with_uv(lock: Path, folder: Path) -> Installed:
        words: list[str | Path] = [uv, "pip", "sync", "--no-config", "--no-cache", "--no-index"]
        words += ["--python", sys.executable, lock, "--target", folder / "target"]
        return run(folder, words, folder / "target")

    return with_uv


class Locking:
    """Lock requirements into ``pylock.toml``.

    :param command: runs the command line.
    :param index: has the projects.
    :param folder: where the lock is written.
    """

    def __init__(self, command: Runner, index: RecordingIndex, folder: Path) -> None:
        self.command = command
        self.path = folder / "pylock.toml"
        self._index = index

    def lock(self, *words: str) -> Path:
        """Lock for this Python on all platforms, and check the file with packaging."""
        python = () if "--for" in words else ("--python-version", PYTHON)
        settings: list[str | Path] = ["-i", self._index.url, "--no-cache-dir", "-o", self.path]
        self.command("lock", *settings, *python, *words)
        Pylock.from_dict(tomllib.loads(self.path.read_text("utf-8")))
        return self.path

    def synced(self, host: str, target: Path) -> dict[str, str]:
        """Return the labels that wheelfit installs from the lock on a machine."""
        result = self.command("sync", self.path, "--for", host, "--target", target, "--json")
        return {one["name"]: one["label"] or "plain" for one in result.object["install"]}


@pytest.fixture
def locking(capsys: pytest.CaptureFixture[str], index: RecordingIndex, tmp_path: Path) -> Locking:
    """Return a function that locks projects of the index."""
    return Locking(Runner(capsys), index, tmp_path)


class TestProjects:
    """Locks for all machines."""

    @pytest.mark.parametrize(
        ("project", "distributions", "builds"),
        [
            ("app", {"app", "small"}, {}),
            ("plain-and-variants", {"plain-and-variants", "cpu-lib"}, {}),
            ("plain-and-null", {"plain-and-null"}, {}),
            ("learning", {"learning", "small", "plain-and-variants", "cpu-lib"}, {}),
            ("with-extras[fast]", {"with-extras", "plain-and-variants", "cpu-lib"}, {}),
            ("with-extras[gpu]", {"with-extras", "gpu-lib", "small"}, {}),
            ("onnxruntime", {"onnxruntime", "small"}, {"onnxruntime": "onnxruntime"}),
            ("magika", {"magika", "onnxruntime", "small"}, {"onnxruntime": "onnxruntime"}),
            ("faiss --bridge faiss", {"faiss-cpu"}, {"faiss": "faiss-cpu"}),
        ],
    )
    def test_plain_wheels(
        self,
        locking: Locking,
        install: Install,
        tmp_path: Path,
        project: str,
        distributions: set[str],
        builds: dict[str, str],
    ) -> None:
        """The plain wheel and its dependencies are installed, without those of variants."""
        done = install(locking.lock(*project.split()), tmp_path)
        assert done.code == 0, done.text
        assert done.distributions.keys() == distributions
        assert {name: done.builds[name] for name in builds} == builds
        assert set(done.builds.values()) - set(builds.values()) <= {"None"}

    def test_family_of_indexes(
        self, locking: Locking, install: Install, tmp_path: Path, builds: str
    ) -> None:
        """From a family of indexes the build for any machine is installed."""
        done = install(locking.lock("torch", "--bridge", f"pytorch@{builds}"), tmp_path)
        assert done.code == 0, done.text
        assert (done.distributions, done.builds) == ({"torch": "2.9.0+cpu"}, {"torch": "cpu"})

    @pytest.mark.parametrize("project", ["only-variants", "cupy"])
    def test_no_build_for_any_machine(
        self, locking: Locking, install: Install, tmp_path: Path, project: str
    ) -> None:
        """If all builds have conditions, each tool names the project and installs nothing."""
        done = install(locking.lock(project, "small"), tmp_path)
        assert done.code != 0
        assert project in done.text
        assert done.distributions == {}


def test_null_variant(locking: Locking, uv: Path, pip: Path, tmp_path: Path) -> None:
    """Without a plain wheel uv installs the null variant; pip cannot read the name in its URL."""
    lock = locking.lock("only-null")
    words: list[str | Path] = ["--python", sys.executable, lock, "--target", tmp_path / "uv"]
    done = run(tmp_path, [uv, "pip", "sync", "--no-config", "--no-cache", *words], tmp_path / "uv")
    assert done.code == 0, done.text
    assert done.distributions.keys() == {"only-null", "cpu-lib"}
    assert done.builds["only_null"] == "null"
    words = ["--no-index", "-r", lock, "--target", tmp_path / "pip"]
    done = run(tmp_path, [pip, "install", *words], tmp_path / "pip")
    assert done.code != 0
    assert "only-null" in done.text
    assert done.distributions == {}


class TestNamedMachines:
    """Locks for machines named with ``--for``."""

    def test_family_member(self, locking: Locking, uv: Path, tmp_path: Path) -> None:
        """Uv installs only the member for the machine, under its own name."""
        lock, target = locking.lock("magika", "--for", "cuda-12.8-sm90"), tmp_path / "target"
        words: list[str | Path] = ["--python", sys.executable, lock, "--target", target]
        done = run(tmp_path, [uv, "pip", "sync", "--no-config", "--no-cache", *words], target)
        assert done.code == 0, done.text
        assert done.distributions.keys() == {"magika", "onnxruntime-gpu", "gpu-lib", "small"}

    def test_family_of_indexes(
        self, locking: Locking, install: Install, tmp_path: Path, builds: str
    ) -> None:
        """The build for the machine is installed, which has an ordinary name."""
        words = ["--bridge", f"pytorch@{builds}", "--for", "cuda-12.8-sm90"]
        done = install(locking.lock("torch", *words), tmp_path)
        assert done.code == 0, done.text
        assert (done.distributions, done.builds) == ({"torch": "2.9.0+cu128"}, {"torch": "cu128"})


@pytest.mark.parametrize(
    ("project", "host", "expected"),
    [
        (
            "plain-and-variants",
            "cuda-12.8-sm90",
            {"plain-and-variants": "cu12", "gpu-lib": "plain", "small": "plain"},
        ),
        (
            "plain-and-variants",
            "cpu-x86_64-v1",
            {"plain-and-variants": "plain", "cpu-lib": "plain"},
        ),
        ("only-variants", "cpu-x86_64-v3", {"only-variants": "v3"}),
        (
            "magika",
            "cuda-12.8-sm90",
            {
                "magika": "plain",
                "onnxruntime": "cuda12",
                "onnxruntime-gpu": "plain",
                "gpu-lib": "plain",
                "small": "plain",
            },
        ),
    ],
)
def test_wheelfit(
    locking: Locking, tmp_path: Path, project: str, host: str, expected: dict[str, str]
) -> None:
    """From the same lock wheelfit installs the builds for each machine."""
    locking.lock(project)
    assert locking.synced(host, tmp_path / "target") == expected
