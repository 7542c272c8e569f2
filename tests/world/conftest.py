"""Registries and vendors' indexes under their real names, and the real command line among them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from world.registries import Registry, StaticIndex

from wheelfit.testing.internet import Host, Internet


@dataclass
class World:
    """The internet as this machine sees it.

    :param folder: for caches, certificates and what is installed.
    """

    folder: Path
    registry: Registry = field(default_factory=Registry)
    pytorch: StaticIndex = field(
        default_factory=lambda: StaticIndex(
            "download.pytorch.org", files_host="download-r2.pytorch.org"
        )
    )
    amd: StaticIndex = field(default_factory=lambda: StaticIndex("repo.amd.com"))

    def __post_init__(self) -> None:
        hosts: dict[str, Host] = {
            "pypi.org": self.registry.pages,
            "files.pythonhosted.org": self.registry.files,
            "download.pytorch.org": self.pytorch,
            "download-r2.pytorch.org": self.pytorch,
            "repo.amd.com": self.amd,
        }
        self.net = Internet(self.folder / "certificates", hosts)

    def environ(self) -> Mapping[str, str]:
        """Return the variables of a user who has configured nothing."""
        own = ("PIP_", "UV_", "WHEELFIT_", "CONDA_", "XDG_")
        kept = {name: text for name, text in os.environ.items() if not name.startswith(own)}
        return {
            **kept,
            **self.net.environ,
            "HOME": str(self.folder),
            "PIP_CONFIG_FILE": os.devnull,
            "WHEELFIT_CACHE_DIR": str(self.folder / "cache"),
        }

    def run(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run wheelfit.

        :param code: the exit code that it must have.
        """
        command = [sys.executable, "-m", "wheelfit", *words]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=self.environ(),
            cwd=self.folder,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def choose(self, machine: str, *words: str, code: int = 0) -> Answer:
        """Return what an install for a machine would do."""
        target = ["--dry-run", "--json", "--for", machine, "--target", str(self.folder / "target")]
        done = self.run("install", *words, *target, code=code)
        return Answer(json.loads(done.stdout), done.stderr)


@dataclass(frozen=True)
class Answer:
    """What wheelfit said."""

    said: dict[str, Any]
    err: str

    @property
    def chosen(self) -> dict[str, str]:
        """Versions and labels by name, such as ``2.15.0+cpu (null)``."""
        return {
            one["name"]: f"{one['version']} ({one['label'] or 'plain'})"
            for one in self.said["install"]
        }

    @property
    def error(self) -> dict[str, Any]:
        """The error."""
        found = self.said["error"]
        assert isinstance(found, dict)
        return found


@pytest.fixture(scope="module")
def new_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], World]]:
    """Return a function that makes a world without anything in it."""
    made: list[World] = []

    def make() -> World:
        made.append(World(tmp_path_factory.mktemp("world")))
        return made[-1]

    yield make
    for world in made:
        world.net.close()
