"""Poetry and pdm as they are: locks that are made once, behind the proxy, fit every machine."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from end_to_end.clients import Scene, installed, stock

from wheelfit.testing.drivers import FakeDriver
from wheelfit.testing.index import RecordingIndex

pytestmark = [pytest.mark.network, pytest.mark.clients_long]

PROJECT = """
[project]
name = "x"
version = "0"
requires-python = ">=3.11"
dependencies = ["{needs}"]
"""
POETRY = """
[tool.poetry]
package-mode = false

[[tool.poetry.source]]
name = "wheelfit"
url = "http://127.0.0.1:{port}/full/simple/"
"""
MACHINES = (("12.6", "cu126"), ("12.9", "cu129"), ("13.0", "cu130"), (None, "null"))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordingIndex]:
    """Serve an index with variants."""
    with RecordingIndex(stock(tmp_path_factory.mktemp("index"))) as index:
        yield index


@pytest.fixture
def scene(index: RecordingIndex, tmp_path: Path, fake_driver: FakeDriver) -> Scene:
    """Give the index, a folder, and a driver that can be changed."""
    return Scene(index, tmp_path, fake_driver)


@pytest.fixture(scope="session")
def poetry(environment_with: Callable[..., Path]) -> Path:
    """Give the ``poetry`` program, the newest."""
    return environment_with("poetry").parent / "poetry"


@pytest.fixture(scope="session")
def pdm(environment_with: Callable[..., Path]) -> Path:
    """Give the ``pdm`` program, the newest; with later ones of these libraries it cannot start."""
    return environment_with("pdm", "unearth<0.19", "hishel<2").parent / "pdm"


class Poetry:
    """Say how Poetry is used."""

    lock, install = ("lock",), ("install",)

    def __init__(self, scene: Scene) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self.options = ("--port", str(self._port))
        self.more: dict[str, Any] = {"POETRY_VIRTUALENVS_IN_PROJECT": "1"}
        self.folder = scene.folder / "project"

    def project(self, needs: str) -> None:
        """Write a project."""
        self.folder.mkdir(exist_ok=True)
        text = PROJECT.format(needs=needs) + POETRY.format(port=self._port)
        (self.folder / "pyproject.toml").write_text(text)


class Pdm:
    """Say how pdm is used."""

    lock, install = ("lock",), ("sync", "--no-self")

    def __init__(self, scene: Scene) -> None:
        self.options = ("--full",)
        self.more: dict[str, Any] = {}
        self.folder = scene.folder / "project"

    def project(self, needs: str) -> None:
        """Write a project."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / "pyproject.toml").write_text(PROJECT.format(needs=needs))


@pytest.mark.parametrize(("tool", "kind"), [("poetry", Poetry), ("pdm", Pdm)])
class TestLocks:
    """What both tools do."""

    def test_one_lock_for_all_machines(
        self, scene: Scene, tool: str, kind: type[Poetry | Pdm], request: pytest.FixtureRequest
    ) -> None:
        """A lock from the catalogue has the hashes of all variants; each machine takes its own."""
        program: Path = request.getfixturevalue(tool)
        use = kind(scene)
        use.project("demogpu")
        options = (*use.options, "--all-variants")
        scene.run(program, *use.lock, cuda="12.9", options=options, folder=use.folder, **use.more)
        lock = (use.folder / f"{tool}.lock").read_text()
        assert lock.count("demogpu-2.0-0_") == 4
        for cuda, label in MACHINES:
            shutil.rmtree(use.folder / ".venv", ignore_errors=True)
            options = use.options
            scene.run(
                program, *use.install, cuda=cuda, options=options, folder=use.folder, **use.more
            )
            assert installed(use.folder / ".venv") == {"demogpu": label, "small": None}
        assert (use.folder / f"{tool}.lock").read_text() == lock

    def test_what_it_needs_depends_on_the_build(
        self, scene: Scene, tool: str, kind: type[Poetry | Pdm], request: pytest.FixtureRequest
    ) -> None:
        """Without the catalogue, a lock is one of this machine, with what its build needs."""
        program: Path = request.getfixturevalue(tool)
        use = kind(scene)
        use.project("demodep")
        for words in (use.lock, use.install):
            scene.run(
                program, *words, cuda="12.9", options=use.options, folder=use.folder, **use.more
            )
        assert installed(use.folder / ".venv") == {
            "demodep": "cu129",
            "small": None,
            "cuda_lib": None,
        }
