"""The accelerator libraries that a running process has loaded, their owners, and findings.

`examine_process` reads a process, and `process_findings` yields findings. A program may examine
itself at any time: nothing is loaded, and no GPU runtime is touched::

    from wheelfit.doctor.process import examine_process

    for library in examine_process(None).libraries:
        print(library.soname, library.owner, library.path)
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.checking.findings import Finding, Location, Severity
from wheelfit.doctor import diagnoses
from wheelfit.doctor.accelerators import OwnedLibrary, build_of, owned_libraries
from wheelfit.doctor.contents import Package, read_packages
from wheelfit.installation.installed import scan
from wheelfit_runtime.platforms.accelerator_libraries import AcceleratorLibrary, identify
from wheelfit_runtime.platforms.probes import mapped_libraries
from wheelfit_runtime.platforms.providers.nvidia.tables import DRIVER_FLOOR
from wheelfit_runtime.platforms.system_view import SystemView

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wheelfit_runtime.platforms.probes.mapped_libraries import MappedFile, MappedFiles

_LIBRARY_FOLDERS = ("site-packages", "dist-packages")
_TOOLKIT = re.compile(r"(/usr/local/cuda(?:-[0-9.]+)?|/opt/rocm(?:-[0-9.]+)?)/")
_DRIVER_RELEASE = re.compile(r"lib(?:cuda|nvidia-ml)\.so\.([0-9]+\.[0-9]+(?:\.[0-9]+)?)")
_SYSTEM_FOLDERS = re.compile(r"(?:/usr)?/lib(?:32|64|x32)?/")


@dataclass(frozen=True, slots=True)
class LoadedLibrary:
    """An accelerator library of a process."""

    file: MappedFile
    identity: AcceleratorLibrary
    soname: str
    """Its SONAME; its file name if the SONAME is no longer readable."""
    owner: str
    """Its owner in words: a package with its version, a toolkit, the driver, or the system."""
    package: Package | None = None
    version: str = ""
    """The version of a package that consists of this library; else the number in the file name."""
    cuda_major: int | None = None
    """The CUDA major that it belongs to, by its name or else by its package."""

    @property
    def path(self) -> str:
        """The path by which the process has mapped it."""
        return self.file.path


@dataclass(frozen=True, slots=True)
class ExaminedProcess:
    """The accelerator libraries of one process."""

    mapped: MappedFiles
    libraries: tuple[LoadedLibrary, ...] = ()
    """Accelerator libraries, in the order of their paths."""
    packages: tuple[Package, ...] = field(default=(), repr=False)
    """The packages in the folders from which it loaded libraries."""
    hashes: Mapping[str, str | None] = field(default_factory=dict)
    """Hashes of the libraries that share a SONAME, by path; None: no longer readable."""


def examine_process(pid: int | None, view: SystemView | None = None) -> ExaminedProcess:
    """Return the accelerator libraries that a process has loaded.

    :param pid: None: the calling process.
    """
    view = view or SystemView()
    mapped = mapped_libraries.read(view, pid)
    identified = [
        (file, library) for file in mapped.files if (library := identify(file.name)) is not None
    ]
    packages = _packages(view, mapped)
    owners = {file.path: package for package in packages for file in package.files}
    cuda_majors = {
        package: tuple(build_of(package, owned_libraries(package)).cuda)
        for package in dict.fromkeys(
            owners[file.path] for file, _ in identified if file.path in owners
        )
    }
    libraries = []
    for file, library in identified:
        package = owners.get(file.path)
        major = library.cuda_major
        if major is None and package is not None and len(cuda_majors[package]) == 1:
            (major,) = cuda_majors[package]
        libraries.append(
            LoadedLibrary(
                file,
                library,
                mapped_libraries.soname(view, mapped.pid, file) or file.name,
                _owner(view, file, library, package),
                package,
                _version(library, package),
                major if library.family == "cuda" else None,
            )
        )
    libraries.sort(key=lambda loaded: loaded.path)
    hashes = {
        loaded.path: mapped_libraries.sha256_of(view, mapped.pid, loaded.file)
        for group in _by_soname(libraries).values()
        if len(group) > 1
        for loaded in group
    }
    return ExaminedProcess(mapped, tuple(libraries), packages, hashes)


def _packages(view: SystemView, mapped: MappedFiles) -> tuple[Package, ...]:
    """Read the packages in the folders of loaded files, which may be of another environment."""
    if not view.is_real:
        return ()
    folders: dict[str, None] = {}
    for file in mapped.files:
        for name in _LIBRARY_FOLDERS:
            head, separator, _ = file.path.partition(f"/{name}/")
            if separator:
                folders[f"{head}/{name}"] = None
    return read_packages(scan(map(Path, folders)).installed, {})


def _version(library: AcceleratorLibrary, package: Package | None) -> str:
    # Each of these packages consists of one library, and has its version.
    if package and (package.name.startswith("nvidia-") or package.name in {"intel-openmp", "mkl"}):
        return str(package.installed.version)
    return library.number if "." in library.number else ""


def _owner(
    view: SystemView,
    file: MappedFile,
    library: AcceleratorLibrary,
    package: Package | None,
) -> str:
    if package is not None:
        return str(package)
    if (match := _TOOLKIT.match(file.path)) is not None:
        return f"toolkit in {match[1]}"
    if (owner := _conda_owner(view, file.path)) is not None:
        return owner
    if library.family == "driver":
        return f"{library.kind} driver"
    if any(f"/{name}/" in file.path for name in _LIBRARY_FOLDERS):
        return "no package: no RECORD names it"
    return "the system" if _SYSTEM_FOLDERS.match(file.path) else "unknown"


def _conda_owner(view: SystemView, path: str) -> str | None:
    """Return the conda package or environment that owns a file; None if there is none."""
    prefix, separator, inside = path.partition("/lib/")
    folder = f"{prefix}/conda-meta"
    if not separator or not view.exists(folder):
        return None
    path_in_json = json.dumps(f"lib/{inside}")
    for name in view.children(folder):
        if name.endswith(".json") and path_in_json in (view.read_text(f"{folder}/{name}") or ""):
            return f"conda package {name.removesuffix('.json')}"
    return f"conda environment {prefix}"


def _by_soname(libraries: Iterable[LoadedLibrary]) -> dict[str, list[LoadedLibrary]]:
    groups: dict[str, list[LoadedLibrary]] = defaultdict(list)
    for library in libraries:
        groups[library.soname].append(library)
    return groups


def process_findings(process: ExaminedProcess) -> Iterator[Finding]:
    """Yield findings about the loaded libraries of a process."""
    location = Location(f"process {process.mapped.pid}")
    if process.mapped.problem:
        yield location.finding(diagnoses.PROCESS_UNREADABLE, process.mapped.problem)
        return
    yield from _same_soname_findings(process, location)
    yield from _mixed_library_findings(process.libraries, location)
    yield from _old_driver_findings(process.libraries, location)
    for library in process.libraries:
        if "/stubs/" in library.path:
            yield location.finding(diagnoses.STUB_LOADED, f"{library.path} is loaded")
    yield from _foreign_library_findings(process, location)
    deleted = [file.path for file in process.mapped.files if file.deleted and ".so" in file.name]
    if deleted:
        others = f" and {len(deleted) - 1} more" if len(deleted) > 1 else ""
        message = f"{deleted[0]}{others}: the loaded file is no longer the one on disk"
        yield location.finding(diagnoses.DELETED_LIBRARY, message)


def _same_soname_findings(process: ExaminedProcess, location: Location) -> Iterator[Finding]:
    for soname, group in _by_soname(process.libraries).items():
        if len(group) < 2:
            continue
        paths = "; ".join(f"{library.path} ({library.owner})" for library in group)
        contents = {process.hashes.get(library.path) for library in group}
        are_equal = len(contents) == 1 and None not in contents
        check = diagnoses.SECOND_COPY if are_equal else diagnoses.SAME_SONAME
        yield location.finding(check, f"{soname} is loaded {len(group)} times: {paths}")


def _mixed_library_findings(
    libraries: Sequence[LoadedLibrary], location: Location
) -> Iterator[Finding]:
    majors: dict[int, list[LoadedLibrary]] = defaultdict(list)
    openmp: dict[str, LoadedLibrary] = {}
    for library in libraries:
        if library.cuda_major is not None:
            majors[library.cuda_major].append(library)
        if library.identity.family == "openmp":
            openmp.setdefault(library.identity.kind, library)
    if len(majors) > 1:
        message = "; ".join(
            f"CUDA {major}: {group[0].soname} of {group[0].owner}"
            + (f" and {len(group) - 1} more" if len(group) > 1 else "")
            for major, group in sorted(majors.items())
        )
        yield location.finding(diagnoses.SEVERAL_MAJORS, message)
    if len(openmp) > 1:
        message = "; ".join(
            f"{kind}: {library.soname} of {library.owner}" for kind, library in openmp.items()
        )
        # GNU's runtime and one other mostly work together.
        severity = Severity.NOTE if "gnu" in openmp and len(openmp) == 2 else None
        yield location.finding(diagnoses.SEVERAL_OPENMP, message, severity=severity)


def _old_driver_findings(
    libraries: Sequence[LoadedLibrary], location: Location
) -> Iterator[Finding]:
    runtimes = [
        library for library in libraries if library.identity.stem == "cudart" and library.cuda_major
    ]
    for library in libraries:
        match = _DRIVER_RELEASE.fullmatch(library.file.name)
        if match is None or "/stubs/" in library.path:
            continue
        for runtime in runtimes:
            linux_floor, _ = DRIVER_FLOOR.get(runtime.cuda_major or 0, ("0", ""))
            if _numbers(match[1]) < _numbers(linux_floor):
                yield location.finding(
                    diagnoses.RUNTIME_TOO_NEW,
                    f"{runtime.soname} of {runtime.owner} needs driver {linux_floor} or newer, but "
                    f"{match[1]} is loaded",
                )
        return  # all libraries of a driver have one release, so the first one is enough


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _foreign_library_findings(process: ExaminedProcess, location: Location) -> Iterator[Finding]:
    """Yield findings about libraries loaded from elsewhere, although a package has them."""
    installed: dict[str, list[OwnedLibrary]] = defaultdict(list)
    for package in process.packages:
        for owned in owned_libraries(package):
            installed[owned.file.name].append(owned)
    loaded_paths = {library.path for library in process.libraries}
    for library in process.libraries:
        if library.package is not None or library.identity.family == "driver":
            continue
        candidates = installed.get(library.soname) or installed.get(library.file.name) or []
        # Where both are loaded, they are reported as two files with one SONAME.
        if candidates and not any(owned.file.path in loaded_paths for owned in candidates):
            yield location.finding(
                diagnoses.FOREIGN_LIBRARY,
                f"{library.soname} comes from {library.path} ({library.owner}), and not from "
                f"{candidates[0].package}, which is installed",
            )
