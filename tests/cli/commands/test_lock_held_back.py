"""Notes of ``wheelfit lock`` about packages older than the latest release."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cli.running import CommandResult, Runner

from wheelfit.testing.wheels import build_wheel

THIS_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
LINUX, WINDOWS = "linux-x86_64", "windows-x86_64"


class LockFolder:
    """Locks from a folder of wheels."""

    def __init__(self, run: Runner, folder: Path) -> None:
        self._run = run
        self.wheels = folder / "wheels"
        self.wheels.mkdir()

    def add(self, name: str, version: str, *requires: str, **more: Any) -> None:
        """Add a wheel."""
        build_wheel(self.wheels, name, version, requires=requires, **more)

    def lock(
        self, *words: str, platforms: Sequence[str] = (LINUX,), python: str = "3.12"
    ) -> CommandResult:
        """Lock, starting from the existing lock."""
        sources = ("--no-index", "--find-links", self.wheels)
        where = [word for platform in platforms for word in ("--platform", platform)]
        pythons = [word for one in python.split() for word in ("--python-version", one)]
        return self._run("lock", *sources, *where, *pythons, *words)

    def notes(self, *words: str, platforms: Sequence[str] = (LINUX,), python: str = "3.12") -> str:
        """Return the notes about older releases."""
        result = self.lock(*words, platforms=platforms, python=python)
        return "".join(line for line in result.err.splitlines() if "(latest " in line)


@pytest.fixture
def setup(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LockFolder:
    """Return an empty current folder with a folder of wheels."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return LockFolder(run, tmp_path)


class TestReasons:
    """The latest release, and the reason why it is not locked."""

    def test_requirement_of_the_latest_release(self, setup: LockFolder) -> None:
        """The reason is a requirement of the latest release, in text and JSON."""
        setup.add("lib", "2")
        setup.add("app", "1")
        setup.add("app", "2", "lib<2")
        both = (LINUX, WINDOWS)
        assert setup.notes("lib", "app", platforms=both) == (
            "note: app 1 (latest 2 needs lib<2, and no version of lib matches lib<2 (latest: 2))"
        )
        answer = setup.lock("lib", "app", "-U", "--json", platforms=both).object
        assert answer["locks"][0]["held_back"] == [
            {
                "name": "app",
                "version": "1",
                "latest": "2",
                "reason": "needs lib<2, and no version of lib matches lib<2 (latest: 2)",
                "for": [f"{LINUX}, Python 3.12", f"{WINDOWS}, Python 3.12"],
            }
        ]

    def test_requirement_of_an_extra_of_an_extra(self, setup: LockFolder) -> None:
        """The reason is the requirement on another project, not that of one extra on another."""
        setup.add("lib", "2")
        setup.add("app", "1", provides_extra=("all",))
        setup.add(
            "app", "2", "app[fast]; extra == 'all'", "lib<2; extra == 'fast'",
            provides_extra=("all", "fast"),
        )  # fmt: skip
        assert setup.notes("app[all]") == (
            "note: app 1 (latest 2 needs lib<2, and no version of lib matches lib<2 (latest: 2))"
        )

    def test_requirement_of_the_user(self, setup: LockFolder) -> None:
        """There is no note where the user's requirements exclude the latest release."""
        setup.add("lib", "1")
        setup.add("lib", "2")
        setup.add("app", "1")
        setup.add("app", "2", "lib>=2")
        assert setup.notes("lib<2", "app") == ""

    def test_no_wheel_for_a_platform(self, setup: LockFolder) -> None:
        """The note names the environments if they differ."""
        setup.add("tool", "1")
        setup.add("tool", "2", tag="py3-none-manylinux_2_17_x86_64")
        assert setup.notes("tool", platforms=(LINUX, WINDOWS)) == (
            f"note: tool 1 for {WINDOWS}, Python 3.12 (latest 2 has no wheel that fits)"
        )

    def test_requested_pythons(self, setup: LockFolder) -> None:
        """An older release for only some of the requested Pythons causes no note."""
        setup.add("tool", "1")
        setup.add("tool", "2", requires_python=">=3.12")
        assert setup.notes("tool", python="3.12 3.11") == ""
        assert setup.notes("tool", "-U", python="3.11") == (
            "note: tool 1 (latest 2 has no wheel that fits: plain wheel: "
            "needs Python >=3.12, this is 3.11.18)"
        )

    def test_release_with_accelerator_builds(self, setup: LockFolder) -> None:
        """The note names the requirement for the latest release or for the accelerated build."""
        setup.add("onnxruntime", "1.31.1")
        setup.add("onnxruntime", "1.32.0")
        setup.add("onnxruntime-gpu", "1.31.1")
        assert setup.notes("onnxruntime") == (
            "note: onnxruntime 1.31.1 (latest 1.32.0 has no build for an accelerator; "
            "onnxruntime==1.32.0 selects it)"
        )
        other = setup.lock("onnxruntime==1.32.0")
        assert (
            "onnxruntime 1.32.0 uses no accelerator; onnxruntime 1.31.1 has a build for CUDA 13 "
            "(onnxruntime==1.31.1 selects it)"
        ) in other.err

    def test_platform_without_accelerators(self, setup: LockFolder) -> None:
        """Builds for platforms that are not locked do not count."""
        needs = [f"{name}; extra == '{name}'" for name in ("cuda13", "rocm7-local")]
        setup.add("cuda13", "1")
        setup.add("rocm7-local", "1")
        for version in ("0.12.0", "0.12.0.1"):  # only the older one has a build for ROCm
            setup.add("jax", version, *needs, provides_extra=("cuda13", "rocm7-local"))
        note = "latest 0.12.0.1 has builds for fewer kinds of accelerators"
        assert note in setup.notes("jax", platforms=("macos-arm64", LINUX))
        result = setup.lock("jax", "-U", "--json", platforms=("macos-arm64",))
        (lock,) = result.object["locks"]
        assert [package["version"] for package in lock["packages"]] == ["0.12.0.1"]
        assert lock["held_back"] == []


class TestPreferences:
    """Packages that remain because they are locked."""

    def test_existing_lock(self, setup: LockFolder) -> None:
        """There is no note about locked packages without ``-U``."""
        setup.add("lib", "2")
        setup.add("app", "1")
        setup.lock("lib", "app")
        setup.add("app", "2", "lib<2")
        setup.add("more", "1")
        assert setup.notes("lib", "app") == ""
        assert setup.notes("lib", "app", "more") == ""
        assert setup.notes("lib", "app", "more", "-U").startswith(
            "note: app 1 (latest 2 needs lib<2"
        )

    def test_new_package_held_back_by_a_locked_one(self, setup: LockFolder) -> None:
        """A locked version is raised for a new package; the note names one that is not lowered."""
        setup.add("lib", "2")
        setup.lock("lib")
        setup.add("lib", "1")
        setup.add("lib", "3")
        setup.add("app", "1")
        setup.add("app", "2", "lib<2")
        assert (
            setup.notes("lib", "app") == "note: app 1 (latest 2 needs lib<2, and lib 2 is locked)"
        )
        setup.add("other", "1")
        setup.add("other", "2", "lib>=3")
        assert setup.notes("lib", "other") == ""


class TestOtherCommands:
    """The note in every command that locks."""

    def test_lock_for_named_machines(self, setup: LockFolder, run: Runner) -> None:
        """A lock for named machines has the note."""
        setup.add("lib", "2")
        setup.add("app", "1")
        setup.add("app", "2", "lib<2")
        sources = ("--no-index", "--find-links", setup.wheels)
        result = run("lock", *sources, "--for", "cpu-x86_64-v3", "lib", "app")
        assert "note: app 1 (latest 2 needs lib<2" in result.err

    def test_add_and_remove(self, setup: LockFolder, run: Runner) -> None:
        """``add`` has the note in its text and JSON."""
        setup.add("lib", "2")
        setup.add("app", "1")
        setup.add("app", "2", "lib<2")
        Path("pyproject.toml").write_text(
            '[project]\nname = "demo"\nversion = "1"\nrequires-python = ">=3.11"\n'
            'dependencies = ["lib"]\n'
            f'[tool.wheelfit]\nplatform = ["{LINUX}"]\npython-version = ["{THIS_PYTHON}"]\n'
        )
        sources = ("--no-index", "--find-links", setup.wheels, "--no-sync")
        result = run("add", *sources, "app", "--dry-run", "--json")
        (old,) = result.object["lock"]["locks"][0]["held_back"]
        assert (old["name"], old["version"], old["latest"]) == ("app", "1", "2")
        assert "note: app 1 (latest 2 needs lib<2" in run("add", *sources, "app").err
        assert "(latest" not in run("remove", *sources, "lib").err
