"""The accelerator that each installed package was built for, and the evidence.

The evidence is the name (``cupy-cuda12x``), the local part of the version (``2.8.0+cu128``), the
properties of a variant, the libraries that the package contains, and its requirements. The
strongest evidence decides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from wheelfit_runtime.platforms.accelerator_libraries import AcceleratorLibrary, identify

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wheelfit.core.requirements import Requirement
    from wheelfit.doctor.contents import OwnedFile, Package

_Version = TypeVar("_Version", int, str)

_CUDA_SUFFIX = re.compile(r"-cu(?:da)?-?(1[1-9])x?(?=-|$)")
_LOCAL_CUDA = re.compile(r"cu(1[1-9])([0-9])?")
_LOCAL_ROCM = re.compile(r"rocm([0-9]+\.[0-9]+)(?:\.[0-9.]+)?")
_VERSION = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_CUDA_FOLDER = re.compile(r"nvidia/cu(1[1-9])/")
_FOLLOWS_CUDA = frozenset({"cuda-bindings", "cuda-python", "cuda-toolkit"})
"""Projects whose major version is that of CUDA."""
_ROCM_PROJECTS = re.compile(r"rocm(?:-sdk(?:-[a-z0-9-]+)?)?")


@dataclass(frozen=True, slots=True)
class OwnedLibrary:
    """An accelerator library among the files of a package."""

    package: Package
    file: OwnedFile
    identity: AcceleratorLibrary


@dataclass(frozen=True, slots=True)
class AcceleratorBuild:
    """The accelerator that a package was built for."""

    package: Package
    cuda: Mapping[int, str] = field(default_factory=dict)
    """CUDA majors, each with its evidence."""
    toolkit: str = ""
    """The toolkit version, such as ``12.8``; empty if the package states no minor version."""
    rocm: Mapping[str, str] = field(default_factory=dict)
    """ROCm versions, such as ``6.4``, each with its evidence."""
    cpu_evidence: str = ""
    """The evidence that it uses no accelerator, although other builds of it do."""

    @property
    def is_library(self) -> bool:
        """Whether the package consists of a vendor's libraries and no program of its own."""
        return self.package.name.startswith(("nvidia-", "cuda-", "rocm-sdk"))


def owned_libraries(package: Package) -> tuple[OwnedLibrary, ...]:
    """Return the accelerator libraries among the files of a package."""
    return tuple(
        OwnedLibrary(package, file, library)
        for file in package.files
        if (".so" in file.name or file.name.endswith((".dll", ".dylib")))
        and (library := identify(file.name)) is not None
    )


def build_of(package: Package, libraries: Iterable[OwnedLibrary]) -> AcceleratorBuild:
    """Return the accelerator that a package was built for."""
    local = package.installed.version.local or ""
    toolkit = next(_toolkits(package, local), "")
    is_for_cpu = local == "cpu" or local.startswith("cpu.")
    return AcceleratorBuild(
        package,
        _strongest(
            _named_cuda(package, local),
            _property_cuda(package),
            _contained_cuda(package, libraries),
            _required_cuda(package.requirements),
        ),
        toolkit,
        _strongest(_named_rocm(package, local), _property_rocm(package)),
        f"its version ends with +{local}" if is_for_cpu else "",
    )


def _strongest(*kinds: Iterable[tuple[_Version, str]]) -> dict[_Version, str]:
    """Return the versions of the first kind of evidence that names any."""
    for kind in kinds:
        versions: dict[_Version, str] = {}
        for version, evidence in kind:
            versions.setdefault(version, evidence)
        if versions:
            return versions
    return {}


def _named_cuda(package: Package, local: str) -> Iterator[tuple[int, str]]:
    if (match := _CUDA_SUFFIX.search(package.name)) is not None:
        yield int(match[1]), "its name"
    if (match := _LOCAL_CUDA.search(local)) is not None:
        yield int(match[1]), f"its version ends with +{local}"
    if package.name in _FOLLOWS_CUDA and package.installed.version.major >= 11:
        yield package.installed.version.major, "its version"


def _property_cuda(package: Package) -> Iterator[tuple[int, str]]:
    """Yield the CUDA majors that the properties of the variant need, with the evidence."""
    bounds = package.installed.properties.values("nvidia", "cuda_version_lower_bound")
    values = [value for value in bounds if _VERSION.fullmatch(value)]
    if values:
        # Of several lower bounds the lowest names the major it was built for.
        lowest = min(values, key=lambda value: [int(part) for part in value.split(".")])
        yield int(lowest.partition(".")[0]), f"its variant needs CUDA {lowest}"


def _contained_cuda(
    package: Package, libraries: Iterable[OwnedLibrary]
) -> Iterator[tuple[int, str]]:
    for owned in libraries:
        path = package.relative_path(owned.file).replace("\\", "/")
        if (match := _CUDA_FOLDER.match(path)) is not None:
            yield int(match[1]), f"it contains {match[0].rstrip('/')}"
        elif owned.identity.cuda_major is not None:
            yield owned.identity.cuda_major, f"it contains {owned.file.name}"


def _required_cuda(requirements: Iterable[Requirement]) -> Iterator[tuple[int, str]]:
    """Yield the CUDA majors of the required projects, with the evidence."""
    for requirement in requirements:
        if (match := _CUDA_SUFFIX.search(requirement.name)) is not None:
            yield int(match[1]), f"it needs {requirement.name}"
        elif requirement.name in _FOLLOWS_CUDA:
            for specifier in requirement.specifier:
                major = specifier.version.partition(".")[0]
                if specifier.operator in {"==", "~="} and major.isdecimal():
                    yield int(major), f"it needs {requirement.name} {requirement.specifier}"


def _toolkits(package: Package, local: str) -> Iterator[str]:
    """Yield the CUDA toolkit that a package names, such as ``12.8``."""
    match = _LOCAL_CUDA.search(local)
    if match is not None and match[2]:
        yield f"{match[1]}.{match[2]}"
    if package.name.startswith("nvidia-cuda-runtime") and package.installed.version.major >= 11:
        release = package.installed.version.release
        yield f"{release[0]}.{release[1] if len(release) > 1 else 0}"


def _named_rocm(package: Package, local: str) -> Iterator[tuple[str, str]]:
    if (match := _LOCAL_ROCM.search(local)) is not None:
        yield match[1], f"its version ends with +{local}"
    if _ROCM_PROJECTS.fullmatch(package.name):
        version = package.installed.version
        yield f"{version.major}.{version.minor}", "its version"


def _property_rocm(package: Package) -> Iterator[tuple[str, str]]:
    for value in package.installed.properties.values("amd", "rocm_version"):
        if _VERSION.fullmatch(value):
            yield value, f"its variant needs ROCm {value}"
