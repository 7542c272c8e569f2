"""Machines as conda and pixi describe them: platforms with virtual packages (CEP 30, CEP 46)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from wheelfit.core.compatible_tags import platform_values
from wheelfit_runtime.errors import UserError
from wheelfit_runtime.platforms import providers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wheelfit.core.host_file import HostFile, HostProvider
    from wheelfit.core.target import Target

ARCHSPEC: Final = "__archspec"
CUDA: Final = "__cuda"
CUDA_ARCH: Final = "__cuda_arch"
GLIBC: Final = "__glibc"
LINUX: Final = "__linux"
MUSL: Final = "__musl"
"""Used only by rattler and pixi; conda does not support musl."""
OSX: Final = "__osx"
UNIX: Final = "__unix"
WIN: Final = "__win"

SUBDIRS: Final = {
    "linux-64": "linux-x86_64",
    "linux-aarch64": "linux-aarch64",
    "osx-64": "macos-x86_64",
    "osx-arm64": "macos-arm64",
    "win-64": "windows-x86_64",
    "win-arm64": "windows-arm64",
}
"""Platforms by conda's names."""


class VirtualPackage(NamedTuple):
    """A virtual package."""

    name: str
    """As ``__cuda``."""
    version: str
    build: str = "0"

    def __str__(self) -> str:
        return f"{self.name}={self.version}={self.build}"


@dataclass(frozen=True, slots=True)
class CondaPlatform:
    """A platform of conda with the virtual packages of a machine."""

    subdir: str
    """Conda's name of the platform, such as ``linux-64``."""
    packages: tuple[VirtualPackage, ...]
    """Sorted by name."""
    name: str = ""
    """Its name in a manifest of pixi; empty: it has none."""

    def get(self, name: str) -> VirtualPackage | None:
        """Return a virtual package by name; None if there is none."""
        return next((package for package in self.packages if package.name == name), None)


def conda_platform(file: HostFile, target: Target) -> tuple[CondaPlatform, tuple[str, ...]]:
    """Return a machine as a platform of conda, and notes on data that conda cannot express.

    :raises UserError: ``invalid-host-file``; conda has no such platform.
    """
    subdir = _subdir(target)
    entries: dict[str, HostProvider] = {}
    for entry in file.providers:
        entries.setdefault(entry.namespace, entry)
    packages = [
        *_processor_package(entries, subdir),
        *_cuda_packages(entries.get("nvidia")),
        *_system_packages(target),
    ]
    return CondaPlatform(subdir, tuple(sorted(packages))), tuple(_omission_notes(entries))


def _subdir(target: Target) -> str:
    values = platform_values(target.platforms[0]) if target.platforms else {}
    system = values.get("platform_system", target.environment.get("platform_system", ""))
    for subdir, platform in SUBDIRS.items():
        platform_system, _, architecture = platform.partition("-")
        architecture = "aarch64" if architecture == "arm64" else architecture
        if (
            _SYSTEM_NAMES.get(system) == platform_system
            and target.architecture.replace("arm64", "aarch64") == architecture
        ):
            return subdir
    raise UserError(
        f"conda has no platform for {system or 'such a system'} on {target.architecture}",
        code="invalid-host-file",
        where=target.name,
        hint=f"there are {', '.join(SUBDIRS)}",
    )


_SYSTEM_NAMES: Final = {"Linux": "linux", "Darwin": "macos", "Windows": "windows"}
_FIRST_CHIPS: Final = {"8.4a": "m1", "8.5a": "m2"}
"""The first Apple chip of each version of the architecture."""


def _processor_package(entries: dict[str, HostProvider], subdir: str) -> Iterator[VirtualPackage]:
    """Yield the processor as archspec names its level or version, not its product."""
    architecture = "aarch64" if subdir.endswith(("aarch64", "arm64")) else "x86_64"
    entry = entries.get(architecture)
    values = entry.features[0].values if entry and entry.features else ()
    if not values:
        # The level is unknown: CEP 30 then has the platform's architecture, as version 0.
        yield VirtualPackage(ARCHSPEC, "0", architecture)
    elif architecture == "x86_64":
        name = architecture if values[0] == "v1" else f"{architecture}_{values[0]}"
        yield VirtualPackage(ARCHSPEC, "1", name)
    elif subdir.startswith("osx") and values[0] in _FIRST_CHIPS:
        yield VirtualPackage(ARCHSPEC, "1", _FIRST_CHIPS[values[0]])
    else:
        name = architecture if values[0] == "8a" else f"armv{values[0]}"
        yield VirtualPackage(ARCHSPEC, "1", name)


_REAL: Final = re.compile(r"(\d+)(\d)_real")


def _capabilities(values: Iterable[str]) -> list[tuple[int, int]]:
    """Return the compute capabilities among values of ``sm_arch``; other values are ignored."""
    return [(int(match[1]), int(match[2])) for match in map(_REAL.fullmatch, values) if match]


def _cuda_packages(entry: HostProvider | None) -> Iterator[VirtualPackage]:
    features = {feature.name: feature.values for feature in entry.features} if entry else {}
    if bounds := features.get("cuda_version_lower_bound"):
        yield VirtualPackage(CUDA, bounds[0] if "." in bounds[0] else f"{bounds[0]}.0")
    if entry is None or not bounds or not features.get("sm_arch"):
        return
    devices = [device.values for device in entry.devices if device.feature == "sm_arch"]
    by_device = [_capabilities(values) for values in devices or [frozenset(features["sm_arch"])]]
    highest = [max(capabilities) for capabilities in by_device if capabilities]
    if highest:  # CEP 46: of the lowest device
        major, minor = min(highest)
        yield VirtualPackage(CUDA_ARCH, f"{major}.{minor}")


_GLIBC_TAG: Final = re.compile(r"manylinux_(2_\d+)_.+")
_MUSL_TAG: Final = re.compile(r"musllinux_(1_\d+)_.+")
_OSX_TAG: Final = re.compile(r"macosx_(\d+_\d+)_.+")
_KERNEL: Final = re.compile(r"\d+\.\d+(?:\.\d+){0,2}")
_WINDOWS: Final = re.compile(r"\d+(?:\.\d+){1,2}")
_UNKNOWN: Final = "0"


def _system_packages(target: Target) -> Iterator[VirtualPackage]:
    for name, pattern in ((GLIBC, _GLIBC_TAG), (MUSL, _MUSL_TAG), (OSX, _OSX_TAG)):
        # The first tag with the name of a library has its newest version.
        match = next(filter(None, map(pattern.fullmatch, target.platforms)), None)
        if match is not None:
            yield VirtualPackage(name, match[1].replace("_", "."))
    system = target.environment.get("platform_system")
    if system == "Linux":
        match = _KERNEL.match(target.environment.get("platform_release", ""))
        yield VirtualPackage(LINUX, match[0] if match else _UNKNOWN)
    if system == "Windows":
        match = _WINDOWS.match(target.environment.get("platform_version", ""))
        yield VirtualPackage(WIN, match[0] if match else _UNKNOWN)
    else:
        yield VirtualPackage(UNIX, "0")


def _omission_notes(entries: dict[str, HostProvider]) -> Iterator[str]:
    """Yield a note for each accelerator for which conda has no virtual package."""
    for namespace, entry in entries.items():
        family = providers.by_namespace(namespace)
        if family is None or family.is_processor or namespace == "nvidia":
            continue
        present = [feature for feature in entry.features if feature.name == family.presence]
        if any(set(feature.values) - {"false"} for feature in present):
            yield f"conda has no virtual package for {family.devices}: {namespace} is left out"


def as_text(platform: CondaPlatform) -> str:
    """Return a platform in the format of conda's list, with a virtual package on each line."""
    return "\n".join((f"# platform: {platform.subdir}", *map(str, platform.packages)))


PIXI_KEYS: Final = {
    ARCHSPEC: "archspec",
    GLIBC: "glibc",
    LINUX: "linux",
    OSX: "macos",
    WIN: "windows",
}
"""The keys of virtual packages in manifests of pixi, besides ``cuda``; others use their names."""


def as_pixi(platform: CondaPlatform, name: str) -> str:
    """Return a platform as TOML for the manifest of a pixi workspace.

    :param name: its name; reduced to the characters pixi allows.
    """
    fields = {"name": _pixi_name(name, platform.subdir), "platform": platform.subdir}
    entry = ", ".join(f'{key} = "{value}"' for key, value in fields.items())
    cuda, arch = platform.get(CUDA), platform.get(CUDA_ARCH)
    if cuda is not None and arch is not None:
        entry += f', cuda = {{ driver = "{cuda.version}", arch = "{arch.version}" }}'
    elif cuda is not None:
        entry += f', cuda = "{cuda.version}"'
    for package in platform.packages:
        value = package.build if package.name == ARCHSPEC else package.version
        if package.name not in (CUDA, CUDA_ARCH, UNIX) and package.version != _UNKNOWN:
            entry += f', {PIXI_KEYS.get(package.name, package.name)} = "{value}"'
    return f"[workspace]\nplatforms = [\n  {{ {entry} }},\n]"


_RESERVED: Final = frozenset(["linux", "unix", "win", "osx", "macos", *SUBDIRS])


def _pixi_name(name: str, subdir: str) -> str:
    """Return a name that pixi allows: letters, digits and dashes, but no platform's name."""
    reduced = re.sub(r"[^A-Za-z0-9]+", "-", name.removesuffix(".toml")).strip("-")[:50].strip("-")
    if not reduced[:1].isalpha() or reduced in _RESERVED:
        reduced = f"host-{reduced or subdir}"
    return reduced
