"""A folder with an index of wheels, a lock and an environment, and commands that use them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from cli.running import CommandResult, Runner
from projects.writing import write_project, write_sdist

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

POISONED = "\nraise SystemExit('the backend was run')\n"
"""Code of a backend that must not run."""


class Workplace:
    """A folder with an index of wheels, a lock and an environment, and commands that use them.

    :param folder: the folder; the wheels of the index, the lock and the environment are in it.
    :param index: the index; None: packages come from the folder of wheels.
    :param options: further options of commands that request packages.
    """

    def __init__(
        self, run: Runner, folder: Path, index: RecordingIndex | None = None, *options: str
    ) -> None:
        self.run = run
        self.folder = folder
        self.wheels = folder / "wheels"
        self.target = folder / "target"
        self.path = folder / "pylock.toml"
        self._index = index
        places = ("--no-index", "-f", self.wheels) if index is None else ("-i", index.url)
        self.sources: tuple[str | Path, ...] = (*places, *options)

    @property
    def index(self) -> RecordingIndex:
        """The index."""
        assert self._index is not None
        return self._index

    def add(self, name: str, version: str = "1.0", **arguments: Any) -> Path:
        """Add a wheel to the index."""
        return build_wheel(self.wheels, name, version, **arguments)

    def sdist(self, name: str, version: str = "1.0", **arguments: Any) -> Path:
        """Add a source distribution to the index."""
        folder = self.folder / "projects" / f"{name}-{version}"
        project = write_project(folder, name, version, **arguments)
        return write_sdist(self.wheels, project, name, version)

    def install(self, *words: str | Path, code: int = 0, command: str = "install") -> CommandResult:
        """Install, or run another command with the same options."""
        return self.run(command, *self.sources, "--target", self.target, *words, code=code)

    def lock(self, *words: str | Path, code: int = 0) -> CommandResult:
        """Lock for Linux with this Python."""
        place = ("-o", self.path, "--platform", "linux-x86_64")
        return self.run("lock", *self.sources, *place, *words, code=code)

    def sync(self, *words: str | Path, code: int = 0) -> CommandResult:
        """Install from the lock."""
        return self.install(self.path, *words, code=code, command="sync")

    def packages(self) -> dict[str, dict[str, Any]]:
        """Return the installed packages by name."""
        return self.run.installed("--target", self.target)

    def installed(self) -> dict[str, tuple[str, str | None]]:
        """Return version and label of the installed packages."""
        packages = self.packages().items()
        return {name: (package["version"], package["label"]) for name, package in packages}

    def versions(self) -> dict[str, str]:
        """Return the versions of the installed packages."""
        return {name: version for name, (version, _) in self.installed().items()}

    def direct_url(self, name: str) -> Any:
        """Return the recorded origin of an installed package."""
        (path,) = self.target.glob(f"{name}-*.dist-info/direct_url.json")
        return json.loads(path.read_text())

    def entry(self, name: str) -> dict[str, Any]:
        """Return the only entry of a package in the lock."""
        packages = tomllib.loads(self.path.read_text())["packages"]
        (entry,) = (package for package in packages if package["name"] == name)
        return dict(entry)
