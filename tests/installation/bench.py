"""An environment, and a folder of wheels to install into it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wheelfit.installation.apply import Applied
from wheelfit.installation.environment import Environment, open_environment
from wheelfit.testing.wheels import build_wheel

Install = Callable[..., Applied]
Pip = Callable[..., subprocess.CompletedProcess[str]]
Tree = Callable[[Path], dict[str, str]]


@dataclass(frozen=True)
class Bench:
    """Hold a fresh environment, and a folder for wheels."""

    environment: Environment
    home: Path
    _install: Install
    _tree: Tree

    @property
    def site(self) -> Path:
        """The folder of its libraries."""
        return self.environment.schemes.purelib

    def opened(self, **options: Any) -> Environment:
        """Return the environment, opened with other options."""
        prefix = str(self.environment.interpreter.prefix)
        return open_environment(prefix, environ=os.environ, **options)

    def wheel(self, name: str, version: str, **options: Any) -> Path:
        """Build a wheel."""
        return build_wheel(self.home, name, version, **options)

    def install(self, *wheels: Path, **options: Any) -> Applied:
        """Install wheels; the options are those of the fixture ``install``."""
        return self._install(self.environment, *wheels, **options)

    def add(self, name: str, version: str, **options: Any) -> Applied:
        """Build a wheel, and install it."""
        return self.install(self.wheel(name, version, **options))

    def tree(self) -> dict[str, str]:
        """Describe everything in the environment: mode and content."""
        return self._tree(self.environment.interpreter.prefix)

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Check that nothing in the environment is changed."""
        before = self.tree()
        yield
        assert self.tree() == before
