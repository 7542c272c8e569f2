"""Registries and vendors' indexes under their real names, and the real command line among them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from programs import run_program
from world.registries import Registry, StaticIndex

from wheelfit.testing.internet import FakeHost, Internet


@dataclass
class World:
    """The internet as this machine sees it.

    :param folder: for caches, certificates and what is installed.
    """

    folder: Path
    registry: Registry = field(default_factory=Registry)
    variables: Mapping[str, str] = field(default_factory=dict)
    """Those that a user has set."""

    def __post_init__(self) -> None:
        hosts: dict[str, FakeHost] = {
            "pypi.org": self.registry.pages,
            "files.pythonhosted.org": self.registry.files,
        }
        self.net = Internet(self.folder / "certificates", hosts)
        self.pytorch = self.index("download.pytorch.org", files_host="download-r2.pytorch.org")
        self.amd = self.index("repo.amd.com")

    def index(self, host: str, *, files_host: str = "") -> StaticIndex:
        """Return the index of a vendor, which is there from now on.

        :param host: its name.
        :param files_host: where its files are, if that is elsewhere.
        """
        found = self.net.hosts.get(host)
        if not isinstance(found, StaticIndex):
            found = StaticIndex(host, files_host=files_host)
            self.net.hosts.update(dict.fromkeys(filter(None, (host, files_host)), found))
        return found

    def environ(self) -> Mapping[str, str]:
        """Return the variables of a user who has configured nothing."""
        own = ("PIP_", "UV_", "WHEELFIT_", "CONDA_", "XDG_", "COLUMNS")  # lines as they are
        kept = {name: text for name, text in os.environ.items() if not name.startswith(own)}
        return {
            **kept,
            **self.net.environ,
            "HOME": str(self.folder),
            "PIP_CONFIG_FILE": os.devnull,
            "WHEELFIT_CACHE_DIR": str(self.folder / "cache"),
            **self.variables,
        }

    def run(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run wheelfit.

        :param code: the exit code that it must have.
        """
        command = [sys.executable, "-m", "wheelfit", *words]
        return run_program(*command, code=code, env=self.environ(), cwd=self.folder)

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
    def installed(self) -> list[str]:
        """Names, versions and labels, such as ``torch 2.15.0+cu132 cu132``, sorted.

        The label of a variant without properties is left out.
        """
        found = []
        for one in self.said["install"]:
            label = "" if one["label"] in (None, "null") else f" {one['label']}"
            found.append(f"{one['name']} {one['version']}{label}")
        return sorted(found)

    @property
    def words(self) -> str:
        """Everything that it said, with single spaces."""
        return " ".join(f"{json.dumps(self.said, ensure_ascii=False)} {self.err}".split())

    @property
    def error(self) -> dict[str, Any]:
        """The error."""
        found = self.said["error"]
        assert isinstance(found, dict)
        return found
