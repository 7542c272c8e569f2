"""What ``wheelfit lock`` says of packages that are older than the newest release."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from cli.running import CommandResult, Runner
from jsonschema import validate

from wheelfit.testing.wheels import build_wheel

SCHEMA = Path(__file__).parents[3] / "docs" / "reference" / "schemas" / "lock.json"
THIS_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
LINUX, WINDOWS = "linux-x86_64", "windows-x86_64"


class Desk:
    """Lock from a folder with wheels."""

    def __init__(self, run: Runner, folder: Path) -> None:
        self._run = run
        self.wheels = folder / "wheels"
        self.wheels.mkdir()

    def add(self, name: str, version: str, *requires: str, **more: str) -> None:
        """Add a wheel."""
        build_wheel(self.wheels, name, version, requires=requires, **more)  # type: ignore[arg-type]

    def lock(
        self, *words: str, platforms: Sequence[str] = (LINUX,), python: str = "3.12"
    ) -> CommandResult:
        """Lock with what is locked already."""
        sources = ("--no-index", "--find-links", self.wheels)
        where = [word for platform in platforms for word in ("--platform", platform)]
        pythons = [word for one in python.split() for word in ("--python-version", one)]
        return self._run("lock", *sources, *where, *pythons, *words)

    def told(self, *words: str, platforms: Sequence[str] = (LINUX,), python: str = "3.12") -> str:
        """Return the lines about older releases."""
        result = self.lock(*words, platforms=platforms, python=python)
        return "".join(line for line in result.err.splitlines() if "(latest " in line)


@pytest.fixture
def desk(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Give a folder with wheels and an empty one to lock in."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return Desk(run, tmp_path)


class TestReasons:
    """One line for each package says which release is the newest, and why it is not locked."""

    def test_what_it_needs_does_not_go_with_the_rest(self, desk: Desk) -> None:
        """The reason is a need of the newest release; JSON has the same, for all environments."""
        desk.add("lib", "2")
        desk.add("app", "1")
        desk.add("app", "2", "lib<2")
        both = (LINUX, WINDOWS)
        assert desk.told("lib", "app", platforms=both) == (
            "note: app 1 (latest 2 needs lib<2, and no version of lib matches lib<2 (latest: 2))"
        )
        answer = desk.lock("lib", "app", "-U", "--json", platforms=both).object
        validate(answer, json.loads(SCHEMA.read_text()))
        assert answer["locks"][0]["held_back"] == [
            {
                "name": "app",
                "version": "1",
                "latest": "2",
                "reason": "needs lib<2, and no version of lib matches lib<2 (latest: 2)",
                "for": [f"{LINUX}, Python 3.12", f"{WINDOWS}, Python 3.12"],
            }
        ]

    def test_the_users_own_requirement_is_no_surprise(self, desk: Desk) -> None:
        """Nothing is told where a requirement of the user excludes the newest release."""
        desk.add("lib", "1")
        desk.add("lib", "2")
        desk.add("app", "1")
        desk.add("app", "2", "lib>=2")
        assert desk.told("lib<2", "app") == ""

    def test_no_wheel_for_one_platform(self, desk: Desk) -> None:
        """Environments are named where they differ."""
        desk.add("tool", "1")
        desk.add("tool", "2", tag="py3-none-manylinux_2_17_x86_64")
        assert desk.told("tool", platforms=(LINUX, WINDOWS)) == (
            f"note: tool 1 for {WINDOWS}, Python 3.12 (latest 2 has no wheel that fits)"
        )

    def test_pythons_that_are_asked_for(self, desk: Desk) -> None:
        """An older release for an older Python is as asked for; for all Pythons it is told."""
        desk.add("tool", "1")
        desk.add("tool", "2", requires_python=">=3.12")
        assert desk.told("tool", python="3.12 3.11") == ""
        assert desk.told("tool", "-U", python="3.11") == (
            "note: tool 1 (latest 2 has no wheel that fits: plain wheel: "
            "needs Python >=3.12, this is 3.11.18)"
        )

    def test_builds_for_accelerators_go_first(self, desk: Desk) -> None:
        """A lock for every machine says what takes the newest release, and the other way round."""
        desk.add("onnxruntime", "1.31.1")
        desk.add("onnxruntime", "1.32.0")
        desk.add("onnxruntime-gpu", "1.31.1")
        assert desk.told("onnxruntime") == (
            "note: onnxruntime 1.31.1 (latest 1.32.0 has no build for an accelerator; "
            "onnxruntime==1.32.0 selects it)"
        )
        other = desk.lock("onnxruntime==1.32.0")
        assert (
            "onnxruntime 1.32.0 uses no accelerator; onnxruntime 1.31.1 has a build for CUDA 13 "
            "(onnxruntime==1.31.1 selects it)"
        ) in other.err


class TestPreferences:
    """What stays because it is locked has that reason, which is known."""

    def test_a_lock_that_is_there(self, desk: Desk) -> None:
        """Nothing is told of what stays as it was locked; ``-U`` tells it."""
        desk.add("lib", "2")
        desk.add("app", "1")
        desk.lock("lib", "app")
        desk.add("app", "2", "lib<2")
        desk.add("more", "1")
        assert desk.told("lib", "app") == ""
        assert desk.told("lib", "app", "more") == ""
        assert desk.told("lib", "app", "more", "-U").startswith("note: app 1 (latest 2 needs lib<2")

    def test_new_beside_what_is_locked(self, desk: Desk) -> None:
        """What is held back by a locked version is told with that version."""
        desk.add("lib", "1")
        desk.lock("lib")
        desk.add("lib", "2")
        desk.add("app", "1")
        desk.add("app", "2", "lib>=2")
        assert desk.told("lib", "app") == "note: app 1 (latest 2 needs lib>=2, and lib 1 is locked)"


class TestElsewhere:
    """The line comes with every command that locks."""

    def test_named_machines(self, desk: Desk, run: Runner) -> None:
        """A lock for named machines tells it, too."""
        desk.add("lib", "2")
        desk.add("app", "1")
        desk.add("app", "2", "lib<2")
        sources = ("--no-index", "--find-links", desk.wheels)
        result = run("lock", *sources, "--for", "cpu-x86_64-v3", "lib", "app")
        assert "note: app 1 (latest 2 needs lib<2" in result.err

    def test_adding_and_removing(self, desk: Desk, run: Runner) -> None:
        """``add`` tells it in its text and in the lock of its JSON."""
        desk.add("lib", "2")
        desk.add("app", "1")
        desk.add("app", "2", "lib<2")
        Path("pyproject.toml").write_text(
            '[project]\nname = "demo"\nversion = "1"\nrequires-python = ">=3.11"\n'
            'dependencies = ["lib"]\n'
            f'[tool.wheelfit]\nplatform = ["{LINUX}"]\npython-version = ["{THIS_PYTHON}"]\n'
        )
        sources = ("--no-index", "--find-links", desk.wheels, "--no-sync")
        result = run("add", *sources, "app", "--dry-run", "--json")
        (old,) = result.object["lock"]["locks"][0]["held_back"]
        assert (old["name"], old["version"], old["latest"]) == ("app", "1", "2")
        assert "note: app 1 (latest 2 needs lib<2" in run("add", *sources, "app").err
        assert "(latest" not in run("remove", *sources, "lib").err
