"""Findings about installed packages that conflict with the hardware, or with each other.

This module reads nothing: packages come from `wheelfit.doctor.contents`, hardware from detection.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import chain, combinations
from shlex import quote
from typing import TYPE_CHECKING

from packaging.version import Version

from wheelfit.checking.findings import Finding, Location, Severity, listed_briefly
from wheelfit.core.sizes import size_in_words
from wheelfit.doctor import diagnoses
from wheelfit.installation.installed import Installed, by_name
from wheelfit.resolution.joint_choice import ChosenBuild, outcomes_of
from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms.providers.nvidia.tables import CUDA_CODE_FLOOR, DRIVER_FLOOR
from wheelfit_runtime.wording import count_of, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from packaging.tags import Tag

    from wheelfit.core.agreements import Agreement
    from wheelfit.core.target import TagPreference, Target
    from wheelfit.doctor.accelerators import AcceleratorBuild, OwnedLibrary
    from wheelfit.doctor.contents import OwnedFile, Package, RecordDifferences
    from wheelfit.doctor.machine import Hardware
    from wheelfit_runtime.platforms.providers.nvidia.facts import Capability

_LIBRARY = re.compile(r".+\.(?:so(?:\.[0-9.]+)?|dll|dylib|pyd)", re.IGNORECASE)
_OFTEN_EDITED = frozenset({"cacert.pem"})
"""Files that administrators edit on purpose: the certificate authorities that a site trusts."""


def tag_findings(packages: Iterable[Package], target: Target, where: str) -> Iterator[Finding]:
    """Yield a finding about packages whose wheels are not for this interpreter or system.

    :param packages: the installed packages; of several with one name, the imported one first.
    """
    imported = by_name(packages).values()
    wrong_packages = [
        package
        for package in imported
        if package.tags and not _supports_any(package.tags, target.tags)
    ]
    if wrong_packages:
        names = listed_briefly(
            f"{package} (for {min(map(str, package.tags))})" for package in wrong_packages
        )
        requirements = " ".join(
            f"{package.name}=={package.installed.version}" for package in wrong_packages
        )
        yield Location(where).finding(
            diagnoses.WRONG_PLATFORM,
            f"{target.name} cannot use {names}",
            remedy=f"wheelfit install --force-reinstall {requirements}",
        )


def _supports_any(tags: frozenset[Tag], supported: TagPreference) -> bool:
    """Return whether a target supports one of the tags."""
    if supported.best(tags) is not None:
        return True
    local_tags = [tag for tag in tags if tag.platform.startswith("linux_")]
    return any(_fits_local_build(tag, other) for tag in local_tags for other in supported)


def _fits_local_build(local: Tag, other: Tag) -> bool:
    """Return whether a target that supports a tag can use a build of the platform ``linux_…``.

    Wheels built for one machine have this platform, which descriptions of hosts do not list.
    """
    is_linux = "linux_" in other.platform  # also of manylinux_ and musllinux_
    is_same_machine = other.platform.endswith(local.platform.removeprefix("linux"))
    is_same_python = (local.interpreter, local.abi) == (other.interpreter, other.abi)
    return is_same_python and is_linux and is_same_machine


def conflict_findings(
    builds: Sequence[AcceleratorBuild], libraries: Sequence[OwnedLibrary], where: str
) -> Iterator[Finding]:
    """Yield findings about packages that conflict with each other."""
    yield from _mixed_cuda_findings(builds, libraries, where)
    by_rocm: dict[str, list[AcceleratorBuild]] = defaultdict(list)
    for build in builds:
        for version in build.rocm:
            by_rocm[version].append(build)
    if len(by_rocm) > 1:
        parts = "; ".join(
            f"ROCm {version}: {_names(build.package for build in by_rocm[version])}"
            for version in sorted(by_rocm, key=Version)
        )
        yield Location(where).finding(diagnoses.MIXED_ROCM, parts)
    yield from _mixed_kinds_findings(libraries, "openmp", where)
    yield from _mixed_kinds_findings(libraries, "blas", where)


def agreement_findings(
    installed: Iterable[Installed], agreements: Iterable[Agreement], where: str
) -> Iterator[Finding]:
    """Yield a finding about variants that disagree on a property that all must share.

    CUDA and ROCm are left out: `conflict_findings` has more evidence of them than properties.
    """
    entries = {entry.name: entry for entry in installed}
    chosen = [ChosenBuild.of_installed(entry.for_resolver()) for entry in entries.values()]
    for outcome in outcomes_of(
        chosen, (agreement for agreement in agreements if agreement.name not in ("cuda", "rocm"))
    ):
        if not outcome.values:  # the packages have no value in common
            requirements = " ".join(
                f"{name}=={entries[name].version}" for name in sorted(outcome.packages)
            )
            yield Location(where).finding(
                diagnoses.MIXED_VARIANTS,
                outcome.packages_in_words,
                remedy=f"wheelfit install --force-reinstall {requirements}",
            )


def _mixed_cuda_findings(
    builds: Iterable[AcceleratorBuild], libraries: Iterable[OwnedLibrary], where: str
) -> Iterator[Finding]:
    by_major: dict[int, list[AcceleratorBuild]] = defaultdict(list)
    majors_of: dict[Package, frozenset[int]] = {}
    for build in builds:
        majors_of[build.package] = frozenset(build.cuda)
        for major in build.cuda:
            by_major[major].append(build)
    if len(by_major) < 2:
        return
    parts = "; ".join(
        f"CUDA {major}: {_with_evidence(by_major[major], major)}" for major in sorted(by_major)
    )
    program_counts = {
        major: sum(not build.is_library for build in by_major[major]) for major in by_major
    }
    main_major = max(
        program_counts, key=lambda major: (program_counts[major], len(by_major[major]), major)
    )
    others = sorted(
        {
            build.package.name
            for major, builds_of_major in by_major.items()
            for build in builds_of_major
            if major != main_major and main_major not in build.cuda
        }
    )
    remedy = f"keep one CUDA major; most packages are for CUDA {main_major}, so replace or "
    remedy += f"uninstall {listed_briefly(others)}"
    conflict = next(_soname_conflicts(libraries, majors_of), None)
    if conflict is None:
        yield Location(where).finding(diagnoses.MIXED_CUDA, parts, remedy=remedy)
        return
    message = f"{parts}. {conflict}: a process loads only the first of them"
    yield Location(where).finding(
        diagnoses.MIXED_CUDA, message, remedy=remedy, severity=Severity.ERROR
    )


def _soname_conflicts(
    libraries: Iterable[OwnedLibrary], majors_of: Mapping[Package, frozenset[int]]
) -> Iterator[str]:
    """Yield a clause for each pair of libraries with one SONAME, but for different CUDA majors."""
    by_soname: dict[str, list[OwnedLibrary]] = defaultdict(list)
    for owned in libraries:
        library = owned.identity
        # Libraries for several CUDA majors share the SONAME of an ambiguous library, which consists
        # of its stem and the first part of its number.
        if library.is_ambiguous and majors_of.get(owned.package):
            by_soname[f"{library.stem} {library.number.partition('.')[0]}"].append(owned)
    for same_soname in by_soname.values():
        for left, right in combinations(same_soname, 2):
            if majors_of[left.package].isdisjoint(majors_of[right.package]):
                yield f"{left.file.name} comes from {left.package} and from {right.package}"


def _mixed_kinds_findings(
    libraries: Iterable[OwnedLibrary], family: str, where: str
) -> Iterator[Finding]:
    """Yield a finding if there are several implementations of OpenMP or BLAS, such as libgomp."""
    kinds: dict[str, dict[Package, str]] = defaultdict(dict)
    for owned in libraries:
        if owned.identity.family == family:
            kinds[owned.identity.kind].setdefault(owned.package, owned.file.name)
    if len(kinds) < 2:
        return
    parts = "; ".join(
        f"{kind}: "
        + listed_briefly([f"{package} ({name})" for package, name in kinds[kind].items()])
        for kind in sorted(kinds)
    )
    check = diagnoses.MIXED_OPENMP if family == "openmp" else diagnoses.SEVERAL_BLAS
    # GNU's runtime beside another one is common, and rarely a problem.
    is_harmless = family == "blas" or ("gnu" in kinds and len(kinds) == 2)
    yield Location(where).finding(check, parts, severity=Severity.NOTE if is_harmless else None)


def hardware_findings(
    builds: Sequence[AcceleratorBuild], hardware: Hardware, where: str
) -> Iterator[Finding]:
    """Yield findings about packages that cannot use the hardware, or need hardware that is absent.

    Variants are left out of findings about absent or too old hardware: their properties name it,
    and are compared elsewhere.
    """
    by_major: dict[int, list[AcceleratorBuild]] = defaultdict(list)
    plain_builds = [build for build in builds if build.package.installed.label is None]
    for build in plain_builds:
        for major in build.cuda:
            by_major[major].append(build)
    if "nvidia" in hardware.examined:
        if hardware.cuda is None:
            yield from _idle_cuda_findings(by_major, where)
        else:
            for major in sorted(by_major):
                yield from _unsupported_cuda_findings(major, by_major[major], hardware, where)
            yield from _newer_toolkit_findings(builds, hardware.cuda, where)
    if "amd" in hardware.examined - hardware.present:
        rocm = [build.package for build in plain_builds if build.rocm]
        if rocm:
            message = f"{_names(rocm)}, {_total_size(rocm)} for ROCm, but no AMD GPU is usable"
            yield Location(where).finding(diagnoses.IDLE_BUILD, message)
    present = hardware.present
    devices = [
        accelerator.device
        for accelerator in providers.accelerators()
        if accelerator.namespace in present
    ]
    if devices:
        for build in builds:
            if evidence := build.cpu_evidence or _unused_hardware_evidence(build, hardware):
                message = f"{build.package} is a build for the CPU ({evidence}), "
                message += f"but this machine has {listed(devices)}"
                yield Location(where).finding(
                    diagnoses.IDLE_HARDWARE,
                    message,
                    remedy=f"`wheelfit install --force-reinstall {build.package.name}`, from an "
                    "index that has builds for the GPU",
                )


def _unused_hardware_evidence(build: AcceleratorBuild, hardware: Hardware) -> str:
    """Return the evidence that a variant ignores hardware it could use; empty: there is none."""
    entry = build.package.installed
    if entry.label is None or entry.document is None:
        return ""
    namespaces = hardware.present.intersection(entry.document.providers)
    uses_hardware = bool(hardware.present.intersection(entry.properties.namespaces))
    if uses_hardware or not namespaces:
        return ""
    return (
        f"its variant {entry.label} uses no accelerator of this machine, although its release has "
        f"builds for {min(namespaces)}"
    )


def _idle_cuda_findings(
    by_major: Mapping[int, Sequence[AcceleratorBuild]], where: str
) -> Iterator[Finding]:
    builds = chain.from_iterable(by_major.values())
    packages = list(dict.fromkeys(build.package for build in builds))
    if packages:
        message = (
            f"{_names(packages)}, {_total_size(packages)} for CUDA, but no NVIDIA GPU is usable"
        )
        yield Location(where).finding(diagnoses.IDLE_BUILD, message)


def _unsupported_cuda_findings(
    major: int, builds: Sequence[AcceleratorBuild], hardware: Hardware, where: str
) -> Iterator[Finding]:
    packages = [build.package for build in builds]
    cuda = hardware.cuda
    if cuda is not None and cuda.major < major:
        linux_floor, windows_floor = DRIVER_FLOOR.get(major, ("", ""))
        floor = windows_floor if hardware.windows else linux_floor
        message = (
            f"{_with_evidence(builds, major)}: CUDA {major} does not work with a driver for CUDA "
        )
        message += str(cuda)
        release = f" to release {floor} or newer" if floor else ""
        remedy = f"update NVIDIA's driver{release}, or install the builds for CUDA {cuda.major}"
        yield Location(where).finding(diagnoses.DRIVER_TOO_OLD, message, remedy=remedy)
    oldest = CUDA_CODE_FLOOR.get(major)
    too_old = [
        capability
        for capability in hardware.capabilities
        if oldest is not None and capability < oldest
    ]
    if too_old:
        message = (
            f"{_names(packages)}: CUDA {major} supports compute capability {oldest} and newer, "
        )
        message += f"but this machine has a GPU with {', '.join(map(str, too_old))}"
        usable = [number for number, floor in CUDA_CODE_FLOOR.items() if floor <= min(too_old)]
        yield Location(where).finding(
            diagnoses.GPU_TOO_OLD,
            message,
            remedy=f"install the builds for CUDA {max(usable)}"
            if usable
            else "uninstall them: the GPU is too old for every known CUDA",
            severity=None if len(too_old) == len(hardware.capabilities) else Severity.WARNING,
        )


def _newer_toolkit_findings(
    builds: Iterable[AcceleratorBuild], cuda: Capability, where: str
) -> Iterator[Finding]:
    newer = []
    for build in builds:
        major, _, minor = build.toolkit.partition(".")
        if build.toolkit and int(major) == cuda.major and int(minor) > cuda.minor:
            newer.append(f"{build.package} (CUDA {build.toolkit})")
    if newer:
        message = f"{listed_briefly(newer)}, but the driver supports CUDA {cuda}"
        yield Location(where).finding(diagnoses.NEWER_THAN_DRIVER, message)


def shared_paths(packages: Iterable[Package]) -> dict[str, list[tuple[Package, OwnedFile]]]:
    """Return the paths that several packages own, with their owners."""
    first_owners: dict[str, tuple[Package, OwnedFile]] = {}
    shared: dict[str, list[tuple[Package, OwnedFile]]] = {}
    for package in packages:
        for file in package.files:
            first_owner = first_owners.setdefault(file.path, (package, file))
            if first_owner[0] is not package:
                shared.setdefault(file.path, [first_owner]).append((package, file))
    return shared


def shared_file_findings(
    shared: Mapping[str, Sequence[tuple[Package, OwnedFile]]], writers: Mapping[str, Package]
) -> Iterator[Finding]:
    """Yield a finding for each pair of packages that own a file with different content.

    Equal content is common and harmless (empty ``__init__.py`` files), unless the file is a
    library: then uninstalling one of the packages breaks the other.

    :param writers: by path, the package whose content the file has, where known.
    """
    pairs: dict[tuple[Package, Package], list[tuple[OwnedFile, bool]]] = defaultdict(list)
    for owners in shared.values():
        for (left, left_file), (right, right_file) in combinations(owners, 2):
            if left.name == right.name:
                continue  # `duplicate_findings` reports it
            differs = (left_file.hash, left_file.size) != (right_file.hash, right_file.size)
            if differs or _LIBRARY.fullmatch(left_file.name):
                pairs[left, right].append((left_file, differs))
    for (left, right), files in pairs.items():
        different = [file for file, differs in files if differs]
        library = next((file for file in different if _LIBRARY.fullmatch(file.name)), None)
        shown = library or (different[0] if different else files[0][0])
        count = len(different or files)
        message = f"{left} and {right} both own {left.relative_path(shown)}"
        message += f" and {count - 1} more" if count > 1 else ""
        if not different:
            message += "; the content is the same, but uninstalling one removes it from the other"
        elif (writer := writers.get(shown.path)) is not None:
            message += f"; its content is that of {writer}"
        remedy = f"`wheelfit uninstall {left.name} {right.name}`, and install the one you need"
        severity = Severity.ERROR if library else Severity.WARNING if different else Severity.NOTE
        yield Location(str(left.installed.path)).finding(
            diagnoses.SHARED_FILE, message, remedy=remedy, severity=severity
        )


def changed_file_findings(changes: Iterable[RecordDifferences]) -> Iterator[Finding]:
    """Yield findings about files that are missing, unreadable or changed since installation."""
    for change in changes:
        package = change.package
        location = Location(str(package.installed.path))
        remedy = f"`wheelfit install --force-reinstall {package.name}=={package.installed.version}`"
        if change.lost:
            message = _count_message(package, change.lost, "missing")
            yield location.finding(diagnoses.LOST_FILE, message, remedy=remedy)
        if change.unreadable:
            yield location.finding(
                diagnoses.UNREADABLE,
                _count_message(package, change.unreadable, "not readable by this user"),
                remedy=f"run as owner: chmod -R a+rX {quote(str(package.installed.location))}",
            )
        if change.changed:
            only_edited = all(file.name in _OFTEN_EDITED for file in change.changed)
            yield location.finding(
                diagnoses.CHANGED_FILE,
                _count_message(package, change.changed, "not as installed"),
                remedy=f"{remedy}, unless you changed them on purpose",
                severity=Severity.NOTE if only_edited else None,
            )


def _count_message(package: Package, files: Sequence[OwnedFile], message: str) -> str:
    names = listed_briefly([package.relative_path(file) for file in files])
    return f"{package}: {len(files)} of {len(package.files)} files {message}: {names}"


def duplicate_findings(packages: Iterable[Package]) -> Iterator[Finding]:
    """Yield a finding for each project that is recorded twice in one folder."""
    by_location: dict[tuple[str, str], list[Package]] = defaultdict(list)
    for package in packages:
        by_location[package.name, str(package.installed.location)].append(package)
    for (name, folder), duplicates in by_location.items():
        if len(duplicates) > 1:
            versions = listed(str(package.installed.version) for package in duplicates)
            folders = listed_briefly([package.installed.path.name for package in duplicates])
            yield Location(folder).finding(
                diagnoses.DUPLICATE,
                f"{name} is recorded in versions {versions}; the owner of each file is unknown",
                remedy=f"delete the folders {folders}, "
                f"then `wheelfit install --replace-files {name}`",
            )


def requirement_findings(packages: Sequence[Package]) -> Iterator[Finding]:
    """Yield a finding for each package with unmet requirements."""
    present = by_name(packages)
    for package in present.values():
        if package.installed.outside:
            continue  # it belongs to another environment, from which this one can import
        unmet = []
        to_install = []
        for requirement in package.requirements:
            text = f"{requirement.name}{requirement.specifier}"
            other = present.get(requirement.name)
            if other is None:
                unmet.append(f"{text} (not installed)")
            elif not requirement.specifier.contains(other.installed.version, prereleases=True):
                unmet.append(f"{text} ({other.installed.version} is installed)")
            else:
                continue
            to_install.append(f"'{text}'")
        if unmet:
            yield Location(str(package.installed.path)).finding(
                diagnoses.UNMET,
                f"{package} needs {listed_briefly(unmet)}",
                remedy=f"wheelfit install {' '.join(to_install)}",
            )


def _with_evidence(builds: Sequence[AcceleratorBuild], major: int) -> str:
    programs = [build for build in builds if not build.is_library]
    libraries = len(builds) - len(programs)
    shown = programs or builds
    packages = [f"{build.package} ({build.cuda[major]})" for build in shown]
    if programs and libraries:
        library_count = count_of(libraries, "library", "libraries")
        return f"{listed_briefly(packages)}, with {library_count}"
    return listed_briefly(packages)


def _names(packages: Iterable[Package]) -> str:
    """Return packages as text, vendors' libraries last."""
    ordered = sorted(
        dict.fromkeys(packages),
        key=lambda package: (package.name.startswith(("nvidia-", "cuda-")), package.name),
    )
    return listed_briefly([str(package) for package in ordered])


def _total_size(packages: Iterable[Package]) -> str:
    return size_in_words(sum(package.size for package in packages))
