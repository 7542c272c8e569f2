"""Lock an index and sync environments, through the real command line."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from cli.running import CommandResult, Runner
from packaging.utils import canonicalize_name


class Locks:
    """The locks of one folder."""

    def __init__(
        self, run: Runner, index: str, folder: Path, environment: Callable[[], Path]
    ) -> None:
        self._run = run
        self._index = index
        self.folder = folder
        self._environment = environment
        self._numbers = itertools.count()

    def lock(self, *words: str | Path, code: int = 0) -> CommandResult:
        """Write ``pylock.toml``, or one lock for each machine."""
        output = self.folder / "pylock.toml"
        return self._run("lock", "-i", self._index, "-o", output, *words, code=code)

    def files(self) -> dict[str, bytes]:
        """Return the lock files."""
        return {path.name: path.read_bytes() for path in sorted(self.folder.glob("pylock*.toml"))}

    def synced(self, host: str, lock: str = "pylock.toml") -> dict[str, str]:
        """Sync a new environment to a lock for a machine; return its contents."""
        python = self._environment()
        self._run("sync", "--python", python, "--for", host, self.folder / lock)
        return self._listed("--python", python)

    def unpacked(self, host: str, lock: str = "pylock.toml") -> tuple[Path, dict[str, str]]:
        """Install a lock for a machine into a new folder; return both."""
        place = self.folder / f"unpacked-{next(self._numbers)}"
        self._run("sync", "-t", place, "--for", host, self.folder / lock)
        return place, self._listed("-t", place)

    def _listed(self, *where: str | Path) -> dict[str, str]:
        return {
            canonicalize_name(name): " ".join(filter(None, (package["version"], package["label"])))
            for name, package in self._run.installed(*where).items()
        }
