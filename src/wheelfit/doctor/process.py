"""The accelerator libraries that a running process has loaded, their owners, and findings.

`examine_process` reads, `about_process` judges. A program may examine itself at any time: nothing
is loaded, and no GPU runtime is touched::

    from wheelfit.doctor.process import examine_process

    for one in examine_process(None).libraries:
        print(one.soname, one.owner, one.path)
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.checking.findings import CheckedFile, Severity
from wheelfit.doctor import diagnoses
from wheelfit.doctor.accelerators import build_of, owned_libraries
from wheelfit.doctor.contents import read_packages
from wheelfit.installation.installed import scan
from wheelfit_runtime.platforms.accelerator_libraries import identify
from wheelfit_runtime.platforms.probes import mapped_libraries
from wheelfit_runtime.platforms.providers.nvidia.tables import DRIVER_FLOOR
from wheelfit_runtime.platforms.system_view import SystemView

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wheelfit.checking.findings import Finding
    from wheelfit.doctor.accelerators import OwnedLibrary
    from wheelfit.doctor.contents import Package
    from wheelfit_runtime.platforms.accelerator_libraries import AcceleratorLibrary
    from wheelfit_runtime.platforms.probes.mapped_libraries import MappedFile, MappedFiles

_LIBRARY_FOLDERS = ("site-packages", "dist-packages")
_TOOLKIT = re.compile(r"(/usr/local/cuda(?:-[0-9.]+)?|/opt/rocm(?:-[0-9.]+)?)/")
_DRIVER_RELEASE = re.compile(r"lib(?:cuda|nvidia-ml)\.so\.([0-9]+\.[0-9]+(?:\.[0-9]+)?)")
_SYSTEM = ("/lib", "/usr/lib", "/usr/lib64", "/lib64")


@dataclass(frozen=True, slots=True)
class LoadedLibrary:
    """An accelerator library of a process."""

    file: MappedFile
    library: AcceleratorLibrary
    soname: str
    """Its SONAME; where that cannot be read any more, its file name."""
    owner: str
    """In words: a package with its version, a toolkit, the driver, or the system."""
    package: Package | None = None
    version: str = ""
    """Of the package, if that is nothing but the library; else from the name of the file."""
    cuda_major: int | None = None
    """Which CUDA it belongs to, by its name or else by its package."""

    @property
    def path(self) -> str:
        """As the process names it."""
        return self.file.path


@dataclass(frozen=True, slots=True)
class ExaminedProcess:
    """The accelerator libraries of one process."""

    mapped: MappedFiles
    libraries: tuple[LoadedLibrary, ...] = ()
    """Accelerator libraries, in the order of their paths."""
    packages: tuple[Package, ...] = field(default=(), repr=False)
    """The packages in the folders from which it loaded libraries."""
    hashes: tuple[tuple[str, str | None], ...] = ()
    """Content of libraries that share a SONAME, by path; None: not readable any more."""


def examine_process(pid: int | None, view: SystemView | None = None) -> ExaminedProcess:
    """Return the libraries of a process; unknown facts are data.

    :param pid: of the process; None: the calling one.
    """
    seen = view or SystemView()
    mapped = mapped_libraries.read(seen, pid)
    of_interest = [
        (file, library) for file in mapped.files if (library := identify(file.name)) is not None
    ]
    packages = _packages(seen, mapped)
    owners = {file.path: package for package in packages for file in package.files}
    majors = {
        package: tuple(build_of(package, owned_libraries(package)).cuda)
        for package in dict.fromkeys(
            owners[file.path] for file, _ in of_interest if file.path in owners
        )
    }
    libraries = []
    for file, library in of_interest:
        package = owners.get(file.path)
        major = library.cuda_major
        if major is None and package is not None and len(majors[package]) == 1:
            (major,) = majors[package]
        libraries.append(
            LoadedLibrary(
                file,
                library,
                mapped_libraries.soname(seen, mapped.pid, file) or file.name,
                _owner(seen, file, library, package),
                package,
                _version(library, package),
                major if library.family == "cuda" else None,
            )
        )
    libraries.sort(key=lambda one: one.path)
    hashes = tuple(
        (one.path, mapped_libraries.fingerprint(seen, mapped.pid, one.file))
        for group in _by_soname(libraries).values()
        if len(group) > 1
        for one in group
    )
    return ExaminedProcess(mapped, tuple(libraries), packages, hashes)


def _packages(view: SystemView, mapped: MappedFiles) -> tuple[Package, ...]:
    """Read the packages where the process loads from, which may be another environment."""
    folders: dict[str, None] = {}
    for file in mapped.files:
        for name in _LIBRARY_FOLDERS:
            head, separator, _ = file.path.partition(f"/{name}/")
            if separator:
                folders[f"{head}/{name}"] = None
    if not view.is_real:
        return ()
    return read_packages(scan(map(Path, folders)).installed, {})


def _version(library: AcceleratorLibrary, package: Package | None) -> str:
    if package is not None and _is_vendors(package):
        return str(package.installed.version)
    return library.number if "." in library.number else ""


def _is_vendors(package: Package) -> bool:
    """Return whether a package is one library, and has its version; others bring copies along."""
    return package.name.startswith("nvidia-") or package.name in {"intel-openmp", "mkl"}


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
    if (conda := _conda(view, file.path)) is not None:
        return conda
    if library.family == "driver":
        return f"{library.kind} driver"
    if any(f"/{name}/" in file.path for name in _LIBRARY_FOLDERS):
        return "no package: no RECORD names it"
    return "the system" if file.path.startswith(_SYSTEM) else "nobody known"


def _conda(view: SystemView, path: str) -> str | None:
    """Return the package of a conda environment that owns a file."""
    prefix, separator, inside = path.partition("/lib/")
    folder = f"{prefix}/conda-meta"
    if not separator or not view.exists(folder):
        return None
    wanted = json.dumps(f"lib/{inside}")
    for name in view.children(folder):
        if name.endswith(".json") and wanted in (view.read_text(f"{folder}/{name}") or ""):
            return f"conda package {name.removesuffix('.json')}"
    return f"conda environment {prefix}"


def _by_soname(libraries: Iterable[LoadedLibrary]) -> dict[str, list[LoadedLibrary]]:
    groups: dict[str, list[LoadedLibrary]] = defaultdict(list)
    for library in libraries:
        groups[library.soname].append(library)
    return groups


def about_process(process: ExaminedProcess) -> Iterator[Finding]:
    """Yield findings about the loaded libraries of a process."""
    place = CheckedFile(f"process {process.mapped.pid}")
    if process.mapped.problem:
        yield place.found(diagnoses.NOT_LOOKED, process.mapped.problem)
        return
    yield from _same_sonames(process, place)
    yield from _several(process.libraries, place)
    yield from _driver(process.libraries, place)
    for library in process.libraries:
        if "/stubs/" in library.path:
            yield place.found(diagnoses.STUB_LOADED, f"{library.path} is loaded")
    yield from _strangers(process, place)
    deleted = [file.path for file in process.mapped.files if file.deleted and ".so" in file.name]
    if deleted:
        more = f" and {len(deleted) - 1} more" if len(deleted) > 1 else ""
        yield place.found(
            diagnoses.DELETED_LIBRARY,
            f"{deleted[0]}{more}: the file that is loaded is no longer the one on disk",
        )


def _same_sonames(process: ExaminedProcess, place: CheckedFile) -> Iterator[Finding]:
    hashes = dict(process.hashes)
    for soname, group in _by_soname(process.libraries).items():
        if len(group) < 2:
            continue
        words = f"{soname} is loaded {len(group)} times: "
        words += "; ".join(f"{one.path} ({one.owner})" for one in group)
        contents = {hashes.get(one.path) for one in group}
        same = len(contents) == 1 and None not in contents
        yield place.found(diagnoses.SECOND_COPY if same else diagnoses.SAME_SONAME, words)


def _several(libraries: Sequence[LoadedLibrary], place: CheckedFile) -> Iterator[Finding]:
    majors: dict[int, list[LoadedLibrary]] = defaultdict(list)
    for one in libraries:
        if one.cuda_major is not None:
            majors[one.cuda_major].append(one)
    if len(majors) > 1:
        words = "; ".join(
            f"CUDA {major}: {majors[major][0].soname} of {majors[major][0].owner}"
            + (f" and {len(majors[major]) - 1} more" if len(majors[major]) > 1 else "")
            for major in sorted(majors)
        )
        yield place.found(diagnoses.SEVERAL_MAJORS, words)
    kinds: dict[str, LoadedLibrary] = {}
    for one in libraries:
        if one.library.family == "openmp":
            kinds.setdefault(one.library.kind, one)
    if len(kinds) > 1:
        words = "; ".join(f"{kind}: {kinds[kind].soname} of {kinds[kind].owner}" for kind in kinds)
        # GNU's runtime and one other mostly get on.
        harmless = "gnu" in kinds and len(kinds) == 2
        severity = Severity.NOTE if harmless else None
        yield place.found(diagnoses.SEVERAL_OPENMP, words, severity=severity)


def _driver(libraries: Sequence[LoadedLibrary], place: CheckedFile) -> Iterator[Finding]:
    runtimes = [one for one in libraries if one.library.stem == "cudart" and one.cuda_major]
    for one in libraries:
        match = _DRIVER_RELEASE.fullmatch(one.file.name)
        if match is None or "/stubs/" in one.path:
            continue
        for runtime in runtimes:
            floor = DRIVER_FLOOR.get(runtime.cuda_major or 0)
            if floor is not None and _numbers(match[1]) < _numbers(floor[0]):
                yield place.found(
                    diagnoses.PROCESS_DRIVER_TOO_OLD,
                    f"{runtime.soname} of {runtime.owner} needs driver {floor[0]} or newer, and "
                    f"{match[1]} is loaded",
                )
        return  # the libraries of one driver are of one release


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _strangers(process: ExaminedProcess, place: CheckedFile) -> Iterator[Finding]:
    """Yield libraries from elsewhere that a package of the environment brought too."""
    brought: dict[str, list[OwnedLibrary]] = defaultdict(list)
    for package in process.packages:
        for owned in owned_libraries(package):
            brought[owned.file.name].append(owned)
    loaded = {one.path for one in process.libraries}
    for one in process.libraries:
        known = brought.get(one.soname) or brought.get(one.file.name) or []
        if one.package is not None or one.library.family == "driver" or not known:
            continue
        if any(owned.file.path in loaded for owned in known):
            continue  # both are: reported as one SONAME of two files
        yield place.found(
            diagnoses.FOREIGN_LIBRARY,
            f"{one.soname} comes from {one.path} ({one.owner}), and not from "
            f"{known[0].package}, which is installed",
        )
