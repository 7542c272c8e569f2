"""Folders that ``wheelfit download`` filled from the indexes of owners, installed from."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from world.internet import World
from world.registries import LINUX
from world.test_torch import laid_out

pytestmark = pytest.mark.integration

FOLDER = ("--no-index", "--find-links", "wheels")


@pytest.fixture(scope="module")
def world(new_world: Callable[[], World]) -> World:
    """Return a world with torch and torchvision, and a folder with them for three machines."""
    world = laid_out(new_world())
    machines = ("v100-535", "h100-580", "mi300x-rocm7")
    hosts = [word for machine in machines for word in ("--for", machine)]
    world.run("download", "torch", *hosts, "-d", "wheels")
    return world


@pytest.mark.parametrize(
    ("machine", "installed"),
    [
        ("v100-535", "torch 2.14.1+cu126 (cu126)"),
        ("h100-580", "torch 2.15.0+cu132 (cu132)"),
        ("mi300x-rocm7", "amd-torch-device-gfx942 2.14.0+rocm7.14.0 (null)"),
    ],
)
@pytest.mark.parametrize("option", ["", "--no-bridges"])
def test_installed_from_the_folder(world: World, machine: str, installed: str, option: str) -> None:
    """Each machine gets its build, with what that needs, though the files have no labels."""
    words = ["install", "torch", *FOLDER, "--for", machine, "--target", f"{machine}{option}"]
    words += [option] if option else []
    stdout = world.run(*words).stdout
    assert f"installed {installed}" in stdout
    assert "nothing to do" in world.run(*words).stdout


def test_refused_on_other_machines(world: World) -> None:
    """A machine for which nothing was downloaded is told why each build does not fit."""
    words = ("--for", "cpu-linux", "--target", "refused")
    said = " ".join(world.run("install", "torch", *FOLDER, *words, code=3).stderr.split())
    assert "cu132: needs an NVIDIA GPU driver; none was found" in said
    assert "gfx942: needs an AMD GPU" in said


def test_installed_by_pip(world: World, tmp_path: Path) -> None:
    """Files have the names that they were published with, which pip knows."""
    words = ["install", *FOLDER, "--target", str(tmp_path), "torch==2.14.1+cu126"]
    command = [sys.executable, "-m", "pip", *words]
    where = {"env": world.environ(), "cwd": world.folder}
    completed = subprocess.run(command, **where, capture_output=True, text=True, check=False)  # type: ignore[call-overload]
    assert completed.returncode == 0, completed.stderr
    assert (tmp_path / "torch-2.14.1+cu126.dist-info").is_dir()


def test_another_machine_is_added(world: World) -> None:
    """A wheel that is several builds has the labels of all machines it was downloaded for."""
    for gpu in ("gfx942", "gfx1100"):
        machine = f"rocm-7.0-{gpu}"
        world.run("download", "torch", "--no-deps", "--for", machine, "-d", "more")
    places = ("--no-index", "--find-links", "more", "--no-deps", "--dry-run", "--target", "more-t")
    for gpu in ("gfx942", "gfx1100"):
        stdout = world.run("install", "torch", *places, "--for", f"rocm-7.0-{gpu}").stdout
        assert f"amd :: gfx_arch :: {gpu}" in stdout


@pytest.mark.parametrize("content", ["", "[]", '{"builds": {}}', '{"builds": {"A-B": {}}}'])
def test_labels_that_cannot_be_read(world: World, content: str) -> None:
    """Nothing is installed as if it were for any machine."""
    folder = world.folder / "broken"
    folder.mkdir(exist_ok=True)
    name = f"torch-2.14.1+cu126-{interpreter_tags()}-{LINUX}.whl"
    (folder / name).write_bytes((world.folder / "wheels" / name).read_bytes())
    (folder / f"{name}.labels.json").write_text(content)
    words = ("--no-index", "--find-links", "broken", "--target", "broken-t")
    result = world.run("install", "torch", *words, code=1)
    assert f"the labels of {name} cannot be read" in " ".join(result.stderr.split())


def interpreter_tags() -> str:
    """Return the tags of the running interpreter, as in the name of a wheel."""
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    return f"{tag}-{tag}"
