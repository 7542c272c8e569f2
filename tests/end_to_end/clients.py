"""Real installers under `wheelfit run`, with a small index that has variants."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wheelfit.testing.drivers import FakeDriver
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document

NVIDIA = {
    "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
    "requires": ["nvidia-variant-provider>=0.0.1"],
}
_KEPT = ("PATH", "SYSTEMROOT", "LANG", "COVERAGE_PROCESS_START")


def stock(folder: Path) -> Path:
    """Build the wheels of the index in a folder."""
    variants = {
        "cu126": {"nvidia": {"cuda_version_lower_bound": ["12.6"]}},
        "cu129": {"nvidia": {"cuda_version_lower_bound": ["12.9"]}},
        "cu130": {"nvidia": {"cuda_version_lower_bound": ["13.0"]}},
        "null": {},
    }
    document = release_document(variants, providers={"nvidia": NVIDIA})
    for label in (*variants, None):
        for version in ("1.0", "2.0"):
            build_wheel(
                folder, "demogpu", version, label=label, document=document, requires=["small"]
            )
        build_wheel(
            folder,
            "demodep",
            "1.0",
            label=label,
            document=document,
            requires=[
                "small",
                'cuda-lib; "nvidia" in variant_namespaces',
                'cpu-lib; "nvidia" not in variant_namespaces',
            ],
        )
    for release in ("demogpu-1.0", "demogpu-2.0", "demodep-1.0"):
        (folder / f"{release}-variants.json").write_text(json.dumps(document))
    for name in ("small", "cuda-lib", "cpu-lib"):
        build_wheel(folder, name, "1")
    return folder


@dataclass(frozen=True, slots=True)
class Scene:
    """An index, and a working folder."""

    index: RecordingIndex
    folder: Path
    driver: FakeDriver

    def environ(self, cuda: str | None) -> dict[str, str]:
        """Return an environment without the user's settings, with or without a driver."""
        environ = {name: os.environ[name] for name in _KEPT if name in os.environ}
        environ |= {
            "HOME": str(self.folder / "home"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "WHEELFIT_CONFIG_FILE": os.devnull,
            "UV_NO_CONFIG": "1",
            "UV_PYTHON": sys.executable,
            "UV_PYTHON_DOWNLOADS": "never",
            "PDM_CHECK_UPDATE": "0",
            "POETRY_NO_INTERACTION": "1",
            "KEYRING_BACKEND": "keyring.backends.null.Keyring",
            "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
            # Whoever has a proxy in the environment that is not there any more.
            "HTTP_PROXY": "http://127.0.0.1:9",
        }
        if cuda is not None:
            devices = ["9.0 NVIDIA H100"]
            environ |= {
                **self.driver.environ(devices=devices, cuda=cuda),
                "LD_LIBRARY_PATH": str(self.driver.folder),
            }
        return environ

    def run(
        self,
        *command: str | Path,
        cuda: str | None = None,
        options: Sequence[str] = (),
        folder: Path | None = None,
        code: int = 0,
        **more: str,
    ) -> str:
        """Run a command under `wheelfit run`; return its output."""
        place = folder or self.folder
        place.mkdir(parents=True, exist_ok=True)
        program = [sys.executable, "-m", "wheelfit", "run", "--index-url", self.index.url]
        completed = subprocess.run(
            [*program, *options, "--", *map(str, command)],
            env={**self.environ(cuda), **more},
            cwd=place,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert completed.returncode == code, completed.stdout
        return completed.stdout

    def venv(self, name: str) -> Path:
        """Return a new environment without pip."""
        path = self.folder / name
        if not path.exists():
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", path], check=True)
        return path


def installed(environment: Path) -> dict[str, str | None]:
    """Return the installed projects with their labels."""
    found: dict[str, str | None] = {}
    for module in environment.rglob("site-packages/*/__init__.py"):
        match = re.search(r"__variant__ = (?:'(.*)'|None)", module.read_text())
        if match is not None:
            found[module.parent.name] = match[1]
    return found
