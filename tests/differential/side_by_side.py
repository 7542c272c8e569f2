"""Run wheelfit and uv 0.13.8 side by side: the same index, the same environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FORCED_DRIVER = "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION"
FORCED_CAPABILITY = "NV_VARIANT_PROVIDER_FORCE_SM_ARCH"


@dataclass(frozen=True, slots=True)
class Tools:
    """Run both tools against one index."""

    uv: Path
    """The program."""
    folder: Path
    """For caches and what is installed."""
    index: str
    """URL of the index."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables for both tools."""

    def uv_install(self, *names: str, options: Sequence[str] = ()) -> dict[str, str]:
        """Let uv install projects; return the name of the wheel it took, or what it said."""
        target = self._target()
        words = ["pip", "install", "--no-config", "--index-url", self.index]
        words += ["--cache-dir", str(self.folder / "uv-cache"), "--python", sys.executable]
        words += ["--preview-features", "wheel-variants", "--target", str(target)]
        done = self._run(self.uv, *words, *options, *names)
        if done.returncode:
            return dict.fromkeys(names, done.stderr)
        return {name: _filename(target, name) for name in names}

    def install(self, *names: str) -> dict[str, str]:
        """Let wheelfit install projects; return the name of the wheel it took."""
        target = self._target()
        self._wheelfit("install", "--target", str(target), *names)
        return {name: _filename(target, name) for name in names}

    def would_install(self, *names: str) -> dict[str, str]:
        """Return the wheels that wheelfit's dry run names, each project for itself as in uv."""
        words = ("--dry-run", "--allow-mixed", ":all:", "--target", str(self._target()))
        answer = self._wheelfit("install", *words, *names)
        return {entry["name"]: entry["filename"] for entry in answer["install"]}

    def explain(self, *names: str) -> dict[str, list[str]]:
        """Return the wheels that wheelfit would take, best first."""
        return {
            project["name"]: [
                candidate["filename"]
                for candidate in project["candidates"]
                if candidate["verdict"] != "rejected"
            ]
            for project in self._wheelfit("explain", *names)["projects"]
        }

    def _wheelfit(self, command: str, *words: str) -> dict[str, Any]:
        arguments = ["-m", "wheelfit", command, "--json", "--no-cache-dir", "-i", self.index]
        done = self._run(sys.executable, *arguments, *words)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return dict(json.loads(done.stdout))

    def _run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
        settings = {"HOME": str(self.folder), "PIP_CONFIG_FILE": os.devnull}
        return subprocess.run(
            words,
            cwd=self.folder,
            env={**kept, **settings, **self.environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def _target(self) -> Path:
        number = len(list(self.folder.glob("target-*")))
        target = self.folder / f"target-{number}"
        target.mkdir()
        return target


def _filename(target: Path, name: str) -> str:
    return (target / name / "filename").read_text(encoding="utf-8")
