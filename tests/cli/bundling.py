"""A small index of real wheels, a lock of it, and four machines, for tests of bundles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from locking.entries import locked
from packaging.tags import Tag

from wheelfit.core.target import Target
from wheelfit.locking.document import write_lock
from wheelfit.locking.locking import new_lock
from wheelfit.sources.open import open_sources
from wheelfit.sources.settings import SourceSettings
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.resolution_setup import NVIDIA
from wheelfit.testing.wheels import build_release, build_wheel, release_document

PLATFORMS = {"x86": "manylinux_2_28_x86_64", "arm": "manylinux_2_28_aarch64", "win": "win_amd64"}
DOCUMENT = release_document(
    {
        "cu12.8": {"nvidia": {"cuda_version_lower_bound": ["12.8"]}},
        "cu11.8": {"nvidia": {"cuda_version_lower_bound": ["11.8"]}},
        "v3": {"x86_64": {"level": ["v3"]}},
        "null": {},
    },
    providers={"nvidia": NVIDIA, "x86_64": {"requires": ["x86-64-variant-provider<1"]}},
)
NAMES = [("fast", "2.0"), ("gpu-lib", "1"), ("native", "3"), ("plain", "1")]

_HOST = """
[metadata]
created-by = "a test"
version = "0.1"

[interpreter]
version = "3.12.4"

[platform]
tags = ["{tag}"]
"""
_GPU = """
[[provider]]
namespace = "nvidia"
feature-order = ["cuda_version_lower_bound"]

[provider.properties]
cuda_version_lower_bound = [{values}]
"""
_LEVEL = """
[[provider]]
namespace = "x86_64"
feature-order = ["level"]

[provider.properties]
level = ["v3", "v2", "v1"]
"""
HOSTS = {
    "new": _HOST.format(tag=PLATFORMS["x86"])
    + _GPU.format(values='"12.9", "12.8", "12", "11.8", "11"'),
    "old": _HOST.format(tag=PLATFORMS["x86"]) + _GPU.format(values='"11.9", "11.8", "11"'),
    "arm": _HOST.format(tag=PLATFORMS["arm"]) + _GPU.format(values='"12.8", "12", "11.8"'),
    "win": _HOST.format(tag=PLATFORMS["win"]) + _LEVEL,
}
"""Machines by name, as host files."""
CHOSEN = {
    "new": {"fast": "cu12.8", "gpu-lib": None, "native": None, "plain": None},
    "old": {"fast": "cu11.8", "gpu-lib": None, "native": None, "plain": None},
    "arm": {"fast": "cu12.8", "gpu-lib": None, "native": None, "plain": None},
    "win": {"fast": "v3", "native": None, "plain": None},
}
"""What each gets: project to label."""


def build_index(folder: Path) -> None:
    """Build the wheels of the index."""
    requires = ["plain", 'gpu-lib; "nvidia" in variant_namespaces', "native"]
    build_release(
        folder,
        "fast",
        "2.0",
        DOCUMENT,
        (None, "cu12.8", "cu11.8", "v3", "null"),
        requires=requires,
        requires_python=">=3.9",
    )
    build_wheel(folder, "gpu-lib", "1", requires=["plain"])
    build_wheel(folder, "plain", "1")
    for platform in PLATFORMS.values():
        build_wheel(folder, "native", "3", tag=f"py3-none-{platform}")


def targets() -> list[Target]:
    """Return the environments that the lock is made for."""
    systems = {
        "x86": ("linux", "Linux", "x86_64", "posix"),
        "arm": ("linux", "Linux", "aarch64", "posix"),
        "win": ("win32", "Windows", "AMD64", "nt"),
    }
    found = []
    for name, (platform, system, machine, kind) in systems.items():
        environment = {
            "implementation_name": "cpython",
            "implementation_version": "3.12.4",
            "os_name": kind,
            "platform_machine": machine,
            "platform_python_implementation": "CPython",
            "platform_release": "1",
            "platform_system": system,
            "platform_version": "1",
            "python_full_version": "3.12.4",
            "python_version": "3.12",
            "sys_platform": platform,
        }
        tags = [Tag("py3", "none", PLATFORMS[name]), Tag("py3", "none", "any")]
        found.append(Target.of(name, environment, tags))
    return found


def write_a_lock(
    index_url: str,
    path: Path,
    *,
    names: Sequence[tuple[str, str]] = NAMES,
    **options: Any,
) -> Path:
    """Lock releases that an index has, by default all of them for every machine."""
    settings = SourceSettings(index_url=index_url)
    with open_sources(settings, cache_folder=None, environ={}) as repository:
        tables = [
            locked(
                repository,  # type: ignore[arg-type]
                name,
                version,
                targets=targets(),
                index=index_url,
            ).table
            for name, version in names
        ]
    options = {"roots": ["fast>=2"], **options}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(write_lock(new_lock(tables, **options)))
    return path


@dataclass(frozen=True, slots=True)
class BundleSetup:
    """A served index, its lock, and the host files of four machines."""

    index: RecordingIndex
    folder: Path
    """The wheels."""
    lock: Path
    hosts: Path
    """The folder of the host files."""

    def options(self, *names: str) -> list[str]:
        """Return the options that name some of the machines."""
        return [word for name in names for word in ("--for", str(self.hosts / f"{name}.toml"))]
