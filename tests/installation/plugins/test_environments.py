"""Environments of plugins: built once, checked before each use, private."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sampled_cases import sampled

from wheelfit.installation.interpreter import inspect_interpreter
from wheelfit.installation.plugins.environments import (
    PluginEnvironment,
    PluginEnvironments,
    environments_with,
    fault_of_folder,
)
from wheelfit.resolution.resolution import Pin
from wheelfit.testing.plugins import simple_plugin
from wheelfit.testing.wheels import unpack_wheel
from wheelfit.wheels.record import sha256_of_file
from wheelfit_runtime.errors import EnvironmentUnavailable, HashMismatch, InvalidWheel

PLUGIN = simple_plugin("acme", {"generation": ["2"]})


class Plugin:
    """Hold the wheel of a plugin, and the place where it is installed."""

    def __init__(self, path: Path, pin: Pin, folder: Path) -> None:
        self.path = path
        self.pin = pin
        self.files = {path.name: sha256_of_file(path)}
        self.interpreter = inspect_interpreter(None, os.environ)
        self.environments = PluginEnvironments(folder, os.environ)

    def find(self) -> PluginEnvironment | None:
        """Return its environment, if there is a sound one."""
        return self.environments.find(self.interpreter, self.files)

    def build(self, environments: PluginEnvironments | None = None) -> PluginEnvironment:
        """Build its environment, or return the one that is there."""
        wheels = {self.pin.name: unpack_wheel(self.path)}
        place = environments or self.environments
        return place.build(self.interpreter, [self.pin], wheels, self.files)


@pytest.fixture
def plugin(tmp_path: Path, pin: Callable[..., Pin]) -> Plugin:
    """Build the wheel of a plugin."""
    path = PLUGIN.wheel(tmp_path / "wheels")
    return Plugin(path, pin(path), tmp_path / "cache" / "plugins")


def imported(environment: PluginEnvironment) -> str:
    """Import the plugin in its environment and say from where."""
    words = ["-I", "-B", "-c", "import acme_provider.plugin as p; print(p.__file__)"]
    completed = subprocess.run(
        [environment.python, *words], capture_output=True, text=True, check=True
    )
    return completed.stdout.strip()


def test_built_and_found(plugin: Plugin) -> None:
    """P-38: one exact set of wheels has one environment, which is private and complete."""
    assert plugin.find() is None
    built = plugin.build()
    assert plugin.find() == built
    assert imported(built).startswith(str(built.folder))
    assert stat.S_IMODE(built.folder.stat().st_mode) & 0o077 == 0
    assert plugin.build() == built
    assert list(environments_with(plugin.environments.folder, plugin.files.values())) == [
        built.folder
    ]
    assert list(environments_with(plugin.environments.folder, ["0" * 64])) == []
    left = {path.name for path in plugin.environments.folder.iterdir()}
    assert left == {built.folder.name, f"{built.folder.name}.lock"}


def test_other_wheels_have_another(plugin: Plugin) -> None:
    """P-38: a file with another hash never shares an environment."""
    plugin.build()
    assert plugin.environments.find(plugin.interpreter, {plugin.path.name: "0" * 64}) is None


@pytest.mark.parametrize(
    "damage", sampled(["changed", "added", "gone", "record", "link", "python"], fast={0})
)
def test_a_damaged_one_is_built_anew(plugin: Plugin, damage: str) -> None:
    """P-38: what is not exactly what was written is not run."""
    built = plugin.build()
    module = Path(imported(built))
    match damage:
        case "changed":
            module.write_text(module.read_text() + "\nimport os\n")
        case "added":
            (module.parent.parent / "evil.pth").write_text("import os\n")
        case "gone":
            module.unlink()
        case "record":
            (built.folder / "wheelfit-plugin.json").write_text("{")
        case "link":
            (module.parent / "more").symlink_to("/")
        case _:
            built.python.unlink()
    assert plugin.find() is None
    assert imported(plugin.build()) == str(module)


def test_a_wheel_that_is_another(plugin: Plugin) -> None:
    """P-38: the hash is held against the very file that is installed."""
    plugin.files[plugin.path.name] = "0" * 64
    with pytest.raises(HashMismatch):
        plugin.build()
    assert list(plugin.environments.folder.iterdir()) == []


def test_an_unsound_wheel(plugin: Plugin) -> None:
    """P-38: what wheelfit would not install anywhere it does not install here; nothing is left."""
    data = plugin.path.read_bytes()
    plugin.path.write_bytes(data[: len(data) // 2])
    plugin.files[plugin.path.name] = sha256_of_file(plugin.path)
    with pytest.raises(InvalidWheel):
        plugin.build()
    assert not list(plugin.environments.folder.iterdir())


def test_what_a_killed_process_left_goes(plugin: Plugin) -> None:
    """P-38: a half-built environment is never taken for a whole one, and does not stay."""
    key = plugin.build().folder
    (key / "wheelfit-plugin.json").unlink()
    half = key.with_name(f".{key.name}-abcdefgh")
    half.mkdir()
    assert plugin.build().folder == key
    assert not half.exists()


def test_builders_at_the_same_time(tmp_path: Path, plugin: Plugin) -> None:
    """P-38: of several builders one builds, and all get the same."""
    found: list[PluginEnvironment] = []

    def build() -> None:
        here = PluginEnvironments(tmp_path / "cache" / "plugins", os.environ)
        found.append(plugin.build(here))

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(found) == 4
    assert len({(one.folder, one.folder.stat().st_ino) for one in found}) == 1


def test_an_interpreter_that_makes_none(plugin: Plugin, tmp_path: Path) -> None:
    """P-17: an interpreter without venv is a reason, not a crash."""
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho no module named venv >&2\nexit 1\n")
    fake.chmod(0o755)
    plugin.interpreter = plugin.interpreter._replace(executable=fake)
    with pytest.raises(
        EnvironmentUnavailable, match="cannot create a virtual environment"
    ) as excinfo:
        plugin.build()
    assert "no module named venv" in str(excinfo.value.note)
    assert [path.suffix for path in plugin.environments.folder.iterdir()] == [".lock"]


class TestFolder:
    """Which folders are used."""

    @pytest.mark.parametrize("mode", [0o770, 0o707])
    def test_others_can_write(self, tmp_path: Path, plugin: Plugin, mode: int) -> None:
        """P-38: nothing is run from where others can write; a private folder serves instead."""
        folder = tmp_path / "plugins"
        folder.mkdir()
        folder.chmod(mode)
        notes: list[str] = []
        plugin.environments = PluginEnvironments(folder, os.environ, notes.append)
        assert notes == [f"{folder} is not used for plugins: others can write to it"]
        built = plugin.build()
        assert folder not in built.folder.parents
        assert list(folder.iterdir()) == []

    def test_an_environment_that_others_can_write(self, plugin: Plugin) -> None:
        """P-38: neither is an environment used that was opened to others."""
        built = plugin.build()
        built.folder.chmod(0o777)
        assert plugin.find() is None

    @pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to give a folder away"
    )
    def test_of_somebody_else(self, tmp_path: Path) -> None:
        """P-38: root does not run what lies in the cache of a user."""
        folder = tmp_path / "plugins"
        folder.mkdir(mode=0o700)
        os.chown(folder, 12345, 12345)
        assert fault_of_folder(folder) == "it belongs to another user"
        notes: list[str] = []
        PluginEnvironments(folder / "deeper", os.environ, notes.append)
        assert "belongs to another user" in notes[0]

    def test_a_link(self, tmp_path: Path) -> None:
        """P-38: a link may lead anywhere tomorrow."""
        (tmp_path / "real").mkdir(mode=0o700)
        (tmp_path / "link").symlink_to(tmp_path / "real")
        assert fault_of_folder(tmp_path / "link") == "it is not a folder"

    def test_no_folder(self, plugin: Plugin) -> None:
        """P-38: where nothing is kept, what was built goes with the object."""
        plugin.environments = PluginEnvironments(None, os.environ)
        folder = plugin.build().folder
        assert folder.exists()
        del plugin.environments
        assert not folder.exists()


def test_answers_are_remembered(plugin: Plugin) -> None:
    """P-38: which wheels a question led to is kept; what cannot be read is forgotten."""
    assert plugin.environments.cached_files("q") is None
    plugin.environments.cache_files("q", {"a-1-py3-none-any.whl": "0" * 64})
    assert plugin.environments.cached_files("q") == {"a-1-py3-none-any.whl": "0" * 64}
    assert plugin.environments.cached_files("other") is None
    (kept,) = plugin.environments.folder.glob("*.json")
    for text in ("", "[]", json.dumps({"version": 9, "files": {"a": "b"}})):
        kept.write_text(text)
        assert plugin.environments.cached_files("q") is None
