"""pip and uv as they are take the right variants behind `wheelfit run`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from end_to_end.clients import Scene, installed, stock
from server.static_site import StaticSite

from wheelfit.testing.drivers import FakeDriver
from wheelfit.testing.index import RecordingIndex

pytestmark = pytest.mark.network


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordingIndex]:
    """Serve an index with variants."""
    with RecordingIndex(stock(tmp_path_factory.mktemp("index"))) as index:
        yield index


@pytest.fixture
def scene(index: RecordingIndex, tmp_path: Path, fake_driver: FakeDriver) -> Scene:
    """Give the index, a folder, and a driver that can be changed."""
    index.clear_requests()
    return Scene(index, tmp_path, fake_driver)


def pip_install(scene: Scene, pip: Path, *words: str, cuda: str | None, **more: Any) -> str:
    """Let pip install into the environment of the scene."""
    python = scene.venv("env") / "bin" / "python"
    command: tuple[Any, ...] = (pip, "--python", python, "install", *words)
    return scene.run(*command, cuda=cuda, **more)


def uv_install(scene: Scene, uv: Path, *words: str, cuda: str | None, **more: Any) -> str:
    """Let uv install into the environment of the scene."""
    python = scene.venv("env") / "bin" / "python"
    command: tuple[Any, ...] = (uv, "pip", "install", "--python", python, *words)
    return scene.run(*command, cuda=cuda, **more)


INSTALL: dict[str, Callable[..., str]] = {"pip": pip_install, "uv": uv_install}


@pytest.mark.parametrize("tool", ["pip", "uv"])
class TestBoth:
    """What both tools do."""

    @pytest.fixture
    def program(self, tool: str, request: pytest.FixtureRequest) -> Path:
        """Give the program."""
        path: Path = request.getfixturevalue(tool)
        return path

    def test_the_driver_decides_and_a_new_one_anew(
        self, scene: Scene, tool: str, program: Path
    ) -> None:
        """The build follows the driver of the machine, with caches that know the one before.

        Beside the proxy stands the usual index, from which everything else comes.
        """
        for cuda, label in (("12.9", "cu129"), ("13.0", "cu130"), (None, "null")):
            again = ("--force-reinstall",) if tool == "pip" else ("--reinstall",)
            INSTALL[tool](
                scene,
                program,
                "demogpu",
                *again,
                cuda=cuda,
                PIP_INDEX_URL=scene.index.url,
                UV_DEFAULT_INDEX=scene.index.url,
            )
            assert installed(scene.folder / "env") == {"demogpu": label, "small": None}

    def test_what_it_needs_depends_on_the_build(
        self, scene: Scene, tool: str, program: Path
    ) -> None:
        """Variant markers are resolved, and the environment stays sound for the tool.

        The second time the hash of the rewritten wheel is known.
        """
        for cuda, label, needs in (
            ("12.9", "cu129", "cuda_lib"),
            ("12.9", "cu129", "cuda_lib"),
            (None, "null", "cpu_lib"),
        ):
            subprocess.run(["rm", "-rf", scene.folder / "env"], check=True)
            INSTALL[tool](scene, program, "demodep", cuda=cuda, options=("--full",))
            found = installed(scene.folder / "env")
            assert found == {"demodep": label, "small": None, needs: None}
            python = scene.folder / "env" / "bin" / "python"
            check = (
                (program, "--python", python, "check")
                if tool == "pip"
                else (program, "pip", "check", "--python", python)
            )
            scene.run(*check)

    def test_another_machine_can_be_named(self, scene: Scene, tool: str, program: Path) -> None:
        """--for decides in place of this machine."""
        options = ("--full", "--for", "cuda-12.6-sm90")
        INSTALL[tool](scene, program, "demogpu", cuda="13.0", options=options)
        assert installed(scene.folder / "env")["demogpu"] == "cu126"

    def test_a_catalogue_makes_hashes_for_all_machines(
        self, scene: Scene, tool: str, program: Path, uv: Path
    ) -> None:
        """Requirements whose hashes were written once install each machine's own build."""
        (scene.folder / "in.txt").write_text("demogpu\n")
        compile_ = ("pip", "compile", "--generate-hashes", "-o", "locked.txt", "in.txt")
        scene.run(uv, *compile_, options=("--all-variants", "--full"))
        words = ("--require-hashes", "-r", str(scene.folder / "locked.txt"))
        for cuda, label in (("12.6", "cu126"), ("13.0", "cu130"), (None, "null")):
            subprocess.run(["rm", "-rf", scene.folder / "env"], check=True)
            INSTALL[tool](scene, program, *words, cuda=cuda, options=("--full",))
            assert installed(scene.folder / "env")["demogpu"] == label

    def test_its_exit_code_is_ours(self, scene: Scene, tool: str, program: Path) -> None:
        """What the tool ends with, `wheelfit run` ends with."""
        INSTALL[tool](scene, program, "no-such-project", cuda=None, code=1, options=("--full",))


@pytest.fixture(scope="module")
def published(releases: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordingIndex]:
    """Serve published releases; wheels that are asked for are made up."""
    site = StaticSite(releases, stubs=tmp_path_factory.mktemp("stubs"))
    with RecordingIndex(site) as index:
        yield index


@pytest.mark.clients_long
@pytest.mark.parametrize("tool", ["pip", "uv"])
@pytest.mark.parametrize(
    ("machine", "wanted", "label"),
    [
        ("cuda-12.8-sm90", "torch==2.8.0", "cu128"),
        ("cuda-12.6-sm90", "torch==2.8.0", "cu126"),
        ("cuda-13.0-sm100", "torch==2.9.0", "cuda13.0"),
        ("rocm-6.4-gfx942", "torch==2.9.0", "rocm6.4"),
        ("cpu-x86_64-v3", "torch==2.9.0", "null"),
    ],
)
def test_published_variants(
    published: RecordingIndex,
    scene: Scene,
    machine: str,
    wanted: str,
    label: str,
    tool: str,
    request: pytest.FixtureRequest,
) -> None:
    """Of an index as it was published, both tools take what wheelfit takes itself."""
    program: Path = request.getfixturevalue(tool)
    real = Scene(published, scene.folder, scene.driver)
    options = ("--for", machine, "--full")
    INSTALL[tool](real, program, wanted, "--no-deps", cuda=None, options=options)
    (path,) = (scene.folder / "env").rglob("torch-*.dist-info/variant.json")
    assert list(json.loads(path.read_text())["variants"]) == [label]


class TestUv:
    """What concerns uv alone."""

    def test_its_lock_knows_no_proxy(self, scene: Scene, uv: Path) -> None:
        """Commands that write a uv.lock get everything from the usual index."""
        project = scene.folder / "project"
        project.mkdir()
        (project / "pyproject.toml").write_text(
            '[project]\nname = "x"\nversion = "0"\nrequires-python = ">=3.11"\n'
            'dependencies = ["demogpu"]\n'
        )
        scene.run(uv, "sync", folder=project, cuda="12.9", UV_DEFAULT_INDEX=scene.index.url)
        assert "_cu" not in (project / "uv.lock").read_text()
        assert scene.index.url in (project / "uv.lock").read_text()
        assert installed(project / ".venv")["demogpu"] is None
        words = ("pip", "install", "--reinstall-package", "demogpu", "demogpu==2.0")
        command = (uv, *words, "--python", project / ".venv/bin/python")
        scene.run(*command, folder=project, cuda="12.9", UV_DEFAULT_INDEX=scene.index.url)
        assert installed(project / ".venv")["demogpu"] == "cu129"
        scene.run(uv, "sync", folder=project, cuda="12.9", UV_DEFAULT_INDEX=scene.index.url)
        assert installed(project / ".venv")["demogpu"] == "cu129"
