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

from wheelfit.installation.interpreter import Interpreter, inspect_interpreter
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


@pytest.fixture
def interpreter() -> Interpreter:
    """Return the running interpreter."""
    return inspect_interpreter(None, os.environ)


class Wheel:
    """Hold one plugin's wheel, ready to be installed."""

    def __init__(self, path: Path, pin: Pin) -> None:
        self.path = path
        self.pin = pin
        self.files = {path.name: sha256_of_file(path)}

    def build(
        self, environments: PluginEnvironments, interpreter: Interpreter
    ) -> PluginEnvironment:
        """Build its environment, or return the one that is there."""
        wheels = {self.pin.name: unpack_wheel(self.path)}
        return environments.build(interpreter, [self.pin], wheels, self.files)


@pytest.fixture
def wheel(tmp_path: Path, pin: Callable[..., Pin]) -> Wheel:
    """Build the wheel of a plugin."""
    path = PLUGIN.wheel(tmp_path / "wheels")
    return Wheel(path, pin(path))


@pytest.fixture
def environments(tmp_path: Path) -> PluginEnvironments:
    """Return where plugins are installed."""
    return PluginEnvironments(tmp_path / "cache" / "plugins", os.environ)


def imported(environment: PluginEnvironment) -> str:
    """Import the plugin in its environment and say from where."""
    words = ["-I", "-B", "-c", "import acme_provider.plugin as p; print(p.__file__)"]
    completed = subprocess.run(
        [environment.python, *words], capture_output=True, text=True, check=True
    )
    return completed.stdout.strip()


def test_built_and_found(
    environments: PluginEnvironments, interpreter: Interpreter, wheel: Wheel
) -> None:
    """P-38: one exact set of wheels has one environment, which is private and complete."""
    assert environments.find(interpreter, wheel.files) is None
    built = wheel.build(environments, interpreter)
    assert environments.find(interpreter, wheel.files) == built
    assert imported(built).startswith(str(built.folder))
    assert stat.S_IMODE(built.folder.stat().st_mode) & 0o077 == 0
    assert wheel.build(environments, interpreter) == built
    assert list(environments_with(environments.folder, wheel.files.values())) == [built.folder]
    assert list(environments_with(environments.folder, ["0" * 64])) == []
    left = {path.name for path in environments.folder.iterdir()}
    assert left == {built.folder.name, f"{built.folder.name}.lock"}


def test_other_wheels_have_another(
    environments: PluginEnvironments, interpreter: Interpreter, wheel: Wheel
) -> None:
    """P-38: a file with another hash never shares an environment."""
    wheel.build(environments, interpreter)
    assert environments.find(interpreter, {wheel.path.name: "0" * 64}) is None


@pytest.mark.parametrize(
    "damage", sampled(["changed", "added", "gone", "record", "link", "python"], fast={0})
)
def test_a_damaged_one_is_built_anew(
    environments: PluginEnvironments, interpreter: Interpreter, wheel: Wheel, damage: str
) -> None:
    """P-38: what is not exactly what was written is not run."""
    built = wheel.build(environments, interpreter)
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
    assert environments.find(interpreter, wheel.files) is None
    assert imported(wheel.build(environments, interpreter)) == str(module)


def test_a_wheel_that_is_another(
    environments: PluginEnvironments, interpreter: Interpreter, wheel: Wheel
) -> None:
    """P-38: the hash is held against the very file that is installed."""
    wheel.files[wheel.path.name] = "0" * 64
    with pytest.raises(HashMismatch):
        wheel.build(environments, interpreter)
    assert list(environments.folder.iterdir()) == []


def test_an_unsound_wheel(
    environments: PluginEnvironments, interpreter: Interpreter, wheel: Wheel
) -> None:
    """P-38: what wheelfit would not install anywhere it does not install here; nothing is left."""
    data = wheel.path.read_bytes()
    wheel.path.write_bytes(data[: len(data) // 2])
    wheel.files[wheel.path.name] = sha256_of_file(wheel.path)
    with pytest.raises(InvalidWheel):
        wheel.build(environments, interpreter)
    assert not list(environments.folder.iterdir())


def test_what_a_killed_process_left_goes(
    environments: PluginEnvironments, interpreter: Interpreter, wheel: Wheel
) -> None:
    """P-38: a half-built environment is never taken for a whole one, and does not stay."""
    key = wheel.build(environments, interpreter).folder
    (key / "wheelfit-plugin.json").unlink()
    half = key.with_name(f".{key.name}-abcdefgh")
    half.mkdir()
    assert wheel.build(environments, interpreter).folder == key
    assert not half.exists()


def test_builders_at_the_same_time(tmp_path: Path, interpreter: Interpreter, wheel: Wheel) -> None:
    """P-38: of several builders one builds, and all get the same."""
    found: list[PluginEnvironment] = []

    def build() -> None:
        here = PluginEnvironments(tmp_path / "cache" / "plugins", os.environ)
        found.append(wheel.build(here, interpreter))

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(found) == 4
    assert len({(one.folder, one.folder.stat().st_ino) for one in found}) == 1


def test_an_interpreter_that_makes_none(
    environments: PluginEnvironments, interpreter: Interpreter, wheel: Wheel, tmp_path: Path
) -> None:
    """P-17: an interpreter without venv is a reason, not a crash."""
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho no module named venv >&2\nexit 1\n")
    fake.chmod(0o755)
    with pytest.raises(
        EnvironmentUnavailable, match="cannot create a virtual environment"
    ) as excinfo:
        wheel.build(environments, interpreter._replace(executable=fake))
    assert "no module named venv" in str(excinfo.value.note)
    assert [path.suffix for path in environments.folder.iterdir()] == [".lock"]


class TestFolder:
    """Which folders are used."""

    @pytest.mark.parametrize("mode", [0o770, 0o707])
    def test_others_can_write(
        self, tmp_path: Path, interpreter: Interpreter, wheel: Wheel, mode: int
    ) -> None:
        """P-38: nothing is run from where others can write; a private folder serves instead."""
        folder = tmp_path / "plugins"
        folder.mkdir()
        folder.chmod(mode)
        notes: list[str] = []
        environments = PluginEnvironments(folder, os.environ, notes.append)
        assert notes == [f"{folder} is not used for plugins: others can write to it"]
        built = wheel.build(environments, interpreter)
        assert folder not in built.folder.parents
        assert list(folder.iterdir()) == []

    def test_an_environment_that_others_can_write(
        self, environments: PluginEnvironments, interpreter: Interpreter, wheel: Wheel
    ) -> None:
        """P-38: neither is an environment used that was opened to others."""
        built = wheel.build(environments, interpreter)
        built.folder.chmod(0o777)
        assert environments.find(interpreter, wheel.files) is None

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

    def test_no_folder(self, interpreter: Interpreter, wheel: Wheel) -> None:
        """P-38: where nothing is kept, what was built goes with the object."""
        environments = PluginEnvironments(None, os.environ)
        folder = wheel.build(environments, interpreter).folder
        assert folder.exists()
        del environments
        assert not folder.exists()


def test_answers_are_remembered(environments: PluginEnvironments) -> None:
    """P-38: which wheels a question led to is kept; what cannot be read is forgotten."""
    assert environments.cached_files("q") is None
    environments.cache_files("q", {"a-1-py3-none-any.whl": "0" * 64})
    assert environments.cached_files("q") == {"a-1-py3-none-any.whl": "0" * 64}
    assert environments.cached_files("other") is None
    (kept,) = environments.folder.glob("*.json")
    for text in ("", "[]", json.dumps({"version": 9, "files": {"a": "b"}})):
        kept.write_text(text)
        assert environments.cached_files("q") is None
