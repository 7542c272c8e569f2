"""Conversion of platforms with virtual packages of conda and pixi to host files."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from wheelfit.core import virtual_packages
from wheelfit.core.compatible_tags import platforms_of
from wheelfit.core.host_file import HostFile
from wheelfit_runtime import __version__
from wheelfit_runtime.errors import UserError
from wheelfit_runtime.platforms import overrides, providers
from wheelfit_runtime.platforms.discovery import Machine
from wheelfit_runtime.platforms.features import Detection, Evidence, Status
from wheelfit_runtime.platforms.known_platforms import PLATFORMS, PlatformRow
from wheelfit_runtime.platforms.system_view import SystemView

if TYPE_CHECKING:
    from wheelfit.core.virtual_packages import CondaPlatform, VirtualPackage

_LIBRARIES: Final = {
    virtual_packages.GLIBC: ("glibc", re.compile(r"(2\.\d{1,3})(?:\..*)?")),
    virtual_packages.MUSL: ("musl", re.compile(r"(1\.\d{1,3})(?:\..*)?")),
    virtual_packages.OSX: ("macos", re.compile(r"(\d{2}(?:\.\d{1,2})?)(?:\..*)?")),
}
"""The libraries of platform tags by virtual package, with the form of its version."""
_MARKERS: Final = {
    virtual_packages.LINUX: "platform_release",
    virtual_packages.WIN: "platform_version",
}
"""The marker variables by virtual package."""
_NVIDIA: Final = "nvidia"
_VARIABLES: Final = {
    _NVIDIA: {
        virtual_packages.CUDA: overrides.CONDA_CUDA,
        virtual_packages.CUDA_ARCH: overrides.CONDA_CUDA_ARCH,
    },
    "x86_64": {virtual_packages.ARCHSPEC: overrides.CONDA_ARCHSPEC},
    "aarch64": {virtual_packages.ARCHSPEC: overrides.CONDA_ARCHSPEC},
}
"""The variables by which providers read virtual packages, by namespace."""


def host_of_virtual_packages(platform: CondaPlatform, where: str) -> HostFile:
    """Return the host file of a platform of conda or pixi.

    The providers evaluate the versions, as for conda's variables. Accelerators without virtual
    packages in conda are left out.

    :raises UserError: ``invalid-host-file``; the platform is not known, or a version cannot be
        understood.
    """
    if platform.subdir not in virtual_packages.SUBDIRS:
        raise UserError(
            f"{platform.subdir[:80]!r} is not a supported platform",
            code="invalid-host-file",
            where=where,
            hint=f"supported: {', '.join(virtual_packages.SUBDIRS)}",
        )
    row = PLATFORMS[virtual_packages.SUBDIRS[platform.subdir]]
    notes: list[str] = []
    detections = [_detect(platform, namespace, row, where, notes) for namespace in _VARIABLES]
    if platform.get(virtual_packages.CUDA) and not platform.get(virtual_packages.CUDA_ARCH):
        notes.append(
            "there is no __cuda_arch, so builds that name GPUs do not fit; conda lists it where "
            "nvidia-virtual-packages is installed, or add it by hand, as __cuda_arch=8.6"
        )
    others = (
        accelerator.namespace
        for accelerator in providers.accelerators()
        if accelerator.namespace != _NVIDIA
    )
    notes.append(f"conda has no virtual packages for {', '.join(others)}")
    file = HostFile.from_detections(
        detections,
        created_by=f"wheelfit {__version__}",
        origin=f"virtual packages of {platform.name or platform.subdir}",
    )
    return replace(
        file,
        platforms=_platforms(platform, row, where),
        environment={
            variable: package.version
            for name, variable in _MARKERS.items()
            if (package := platform.get(name)) and package.version != "0"
        },
        notes=tuple(notes),
    )


def _detect(
    platform: CondaPlatform, namespace: str, row: PlatformRow, where: str, notes: list[str]
) -> Detection:
    """Return the answer of a provider that sees only some virtual packages."""
    variables = _VARIABLES[namespace]
    packages = {name: platform.get(name) for name in variables}
    environ = {variables[name]: _value(package) for name, package in packages.items()}
    # The baseline processor of a Mac is Apple's M1; of other systems, any of the architecture.
    baseline = "m1" if row.processor == "apple-m1" else ""
    if environ.get(overrides.CONDA_ARCHSPEC) == "":
        environ[overrides.CONDA_ARCHSPEC] = baseline
    detection = _detect_by_variables(namespace, environ, row)
    is_of_platform = namespace in (_NVIDIA, row.architecture)
    if not is_of_platform:
        return detection  # for a processor of another architecture nothing is supported
    if detection.status is Status.DISABLED and namespace == _NVIDIA:
        source = detection.evidence[0].source
        name = next(name for name, variable in variables.items() if variable == source)
        raise UserError(
            f"{name} is {environ[source]!r}, which is not a valid version",
            code="invalid-host-file",
            where=where,
            hint="write 12.8 for __cuda and 8.6 for __cuda_arch",
        )
    if detection.status is Status.DISABLED:
        # New processor names appear every year, and must not be an error.
        name = environ[overrides.CONDA_ARCHSPEC]
        notes.append(
            f"archspec's {name!r} is unknown, so the baseline {namespace} processor is assumed"
        )
        detection = _detect_by_variables(namespace, {overrides.CONDA_ARCHSPEC: baseline}, row)
    evidence = tuple(
        Evidence("virtual packages", str(package) if package else f"no {name}")
        for name, package in packages.items()
    )
    return detection._replace(evidence=evidence, warnings=())


def _detect_by_variables(namespace: str, environ: dict[str, str], row: PlatformRow) -> Detection:
    """Return the answer of a provider that sees only the variables."""
    view = SystemView(
        os.devnull,  # nothing lies below it
        environ,
        interpreter=None,
        system=row.system,
        architecture=row.architecture,
    )
    detection = Machine(view).detect(namespace)
    assert detection is not None  # noqa: S101 - the providers are built in
    return detection


def _value(package: VirtualPackage | None) -> str:
    """Return the value of a variable that replaces a virtual package; empty: unset."""
    if package is None:
        return ""
    return package.build if package.name == virtual_packages.ARCHSPEC else package.version


def _platforms(platform: CondaPlatform, row: PlatformRow, where: str) -> tuple[str, ...]:
    """Return the platform tags, best first; those of the usual version where none is stated."""
    possible = ("glibc", "musl") if row.system == "Linux" else (row.library,)
    for name, (library, pattern) in _LIBRARIES.items():
        package = platform.get(name)
        if package is None or library not in possible:
            continue
        match = pattern.fullmatch(package.version)
        if match is None:
            raise UserError(
                f"{name} is {package.version!r}, which is not a version of {library}",
                code="invalid-host-file",
                where=where,
                hint=f"write {name}={row.version}",
            )
        version = match[1] if "." in match[1] else f"{match[1]}.0"
        return platforms_of(row.architecture, library, version)
    return platforms_of(row.architecture, row.library, row.version)
