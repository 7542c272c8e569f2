"""Findings about installed packages: against the hardware, and against each other.

Pure: the packages were read by `wheelfit.doctor.contents`, the hardware by detection.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import combinations
from shlex import quote
from typing import TYPE_CHECKING

from packaging.version import Version

from wheelfit.checking.findings import CheckedFile, Severity, some_of
from wheelfit.core.sizes import size_in_words
from wheelfit.doctor import diagnoses
from wheelfit.installation.installed import by_name
from wheelfit.resolution.joint_choice import ChosenBuild, held_by
from wheelfit_runtime.platforms import providers
from wheelfit_runtime.platforms.providers.nvidia.tables import CUDA_CODE_FLOOR, DRIVER_FLOOR
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from packaging.tags import Tag

    from wheelfit.checking.findings import Finding
    from wheelfit.core.shared_requirements import Agreement
    from wheelfit.core.target import TagPreference, Target
    from wheelfit.doctor.accelerators import Build, OwnedLibrary
    from wheelfit.doctor.contents import Change, OwnedFile, Package
    from wheelfit.doctor.machine import Hardware
    from wheelfit.installation.installed import Installed
    from wheelfit_runtime.platforms.providers.nvidia.facts import Capability

_LIBRARY = re.compile(r".+\.(?:so(?:\.[0-9.]+)?|dll|dylib|pyd)", re.IGNORECASE)
_EDITED = frozenset({"cacert.pem"})
"""Files to which administrators add on purpose: the authorities that a site trusts."""


def about_tags(packages: Iterable[Package], target: Target, where: str) -> Iterator[Finding]:
    """Yield a finding about packages whose wheels are not for this interpreter or system.

    :param packages: the installed ones; of one name, the imported one comes first.
    """
    imported = by_name(packages).values()
    wrong = [one for one in imported if one.tags and not _fits(one.tags, target.tags)]
    if wrong:
        words = some_of(f"{package} (for {min(map(str, package.tags))})" for package in wrong)
        again = " ".join(f"{package.name}=={package.installed.version}" for package in wrong)
        yield CheckedFile(where).found(
            diagnoses.WRONG_PLATFORM,
            f"{target.name} cannot use {words}",
            remedy=f"wheelfit install --force-reinstall {again}",
        )


def _fits(tags: frozenset[Tag], wanted: TagPreference) -> bool:
    if wanted.best(tags) is not None:
        return True
    # Builders often name the system as plain linux, which hosts of other machines do not list.
    plain = [tag for tag in tags if tag.platform.startswith("linux_")]
    return any(
        (tag.interpreter, tag.abi) == (one.interpreter, one.abi)
        and "linux_" in one.platform
        and one.platform.endswith(tag.platform.removeprefix("linux"))
        for tag in plain
        for one in wanted
    )


def about_builds(
    builds: Sequence[Build], libraries: Sequence[OwnedLibrary], where: str
) -> Iterator[Finding]:
    """Yield findings about packages that do not go together."""
    yield from _mixed_cuda(builds, libraries, where)
    by_rocm: dict[str, list[Build]] = defaultdict(list)
    for build in builds:
        for version in build.rocm:
            by_rocm[version].append(build)
    if len(by_rocm) > 1:
        parts = "; ".join(
            f"ROCm {version}: {_named(one.package for one in by_rocm[version])}"
            for version in sorted(by_rocm, key=Version)
        )
        yield CheckedFile(where).found(diagnoses.MIXED_ROCM, parts)
    yield from _several_kinds(libraries, "openmp", where)
    yield from _several_kinds(libraries, "blas", where)


def about_agreements(
    installed: Iterable[Installed], agreements: Iterable[Agreement], where: str
) -> Iterator[Finding]:
    """Yield a finding about variants that disagree on a property that all must share.

    CUDA and ROCm are left out: `about_builds` has more evidence of them than properties.
    """
    entries = {entry.name: entry for entry in installed}
    chosen = [ChosenBuild.that_stays(entry.present()) for entry in entries.values()]
    for held in held_by(
        chosen, (agreement for agreement in agreements if agreement.name not in ("cuda", "rocm"))
    ):
        if not held.values:
            again = " ".join(f"{name}=={entries[name].version}" for name in sorted(held.packages))
            yield CheckedFile(where).found(
                diagnoses.MIXED_VARIANTS,
                held.sides,
                remedy=f"wheelfit install --force-reinstall {again}",
            )


def _mixed_cuda(
    builds: Iterable[Build], libraries: Iterable[OwnedLibrary], where: str
) -> Iterator[Finding]:
    by_major: dict[int, list[Build]] = defaultdict(list)
    majors_of: dict[Package, frozenset[int]] = {}
    for build in builds:
        majors_of[build.package] = frozenset(build.cuda)
        for major in build.cuda:
            by_major[major].append(build)
    if len(by_major) < 2:
        return
    parts = "; ".join(
        f"CUDA {major}: {_with_signs(by_major[major], major)}" for major in sorted(by_major)
    )
    counts = {major: sum(not one.is_library for one in by_major[major]) for major in by_major}
    most = max(counts, key=lambda major: (counts[major], len(by_major[major]), major))
    others = sorted(
        {
            one.package.name
            for major, builds_of_major in by_major.items()
            for one in builds_of_major
            if major != most and most not in one.cuda
        }
    )
    remedy = f"keep one CUDA major; most here is for CUDA {most}, so exchange or uninstall "
    remedy += some_of(others)
    clash = next(_clashes(libraries, majors_of), None)
    if clash is None:
        yield CheckedFile(where).found(diagnoses.MIXED_CUDA, parts, remedy=remedy)
        return
    words = f"{parts}. {clash}: in one process only the first of them is found"
    yield CheckedFile(where).found(
        diagnoses.MIXED_CUDA, words, remedy=remedy, severity=Severity.ERROR
    )


def _clashes(
    libraries: Iterable[OwnedLibrary], majors_of: Mapping[Package, frozenset[int]]
) -> Iterator[str]:
    """Yield libraries of one SONAME that come from packages for different majors."""
    by_stem: dict[str, list[OwnedLibrary]] = defaultdict(list)
    for one in libraries:
        if one.library.ambiguous and majors_of.get(one.package):
            by_stem[f"{one.library.stem} {one.library.number.partition('.')[0]}"].append(one)
    for same_stem in by_stem.values():
        for left, right in combinations(same_stem, 2):
            if majors_of[left.package].isdisjoint(majors_of[right.package]):
                yield f"{left.file.name} comes from {left.package} and from {right.package}"


def _several_kinds(libraries: Iterable[OwnedLibrary], family: str, where: str) -> Iterator[Finding]:
    kinds: dict[str, dict[Package, str]] = defaultdict(dict)
    for one in libraries:
        if one.library.family == family:
            kinds[one.library.kind].setdefault(one.package, one.file.name)
    if len(kinds) < 2:
        return
    parts = "; ".join(
        f"{kind}: " + some_of([f"{package} ({name})" for package, name in kinds[kind].items()])
        for kind in sorted(kinds)
    )
    check = diagnoses.MIXED_OPENMP if family == "openmp" else diagnoses.SEVERAL_BLAS
    # GNU's runtime and another one are found in many environments, and mostly get on.
    harmless = family == "blas" or ("gnu" in kinds and len(kinds) == 2)
    yield CheckedFile(where).found(check, parts, severity=Severity.NOTE if harmless else None)


def about_hardware(builds: Sequence[Build], hardware: Hardware, where: str) -> Iterator[Finding]:
    """Yield findings about packages that cannot use the hardware, or for which there is none.

    Variants are left out: their properties are exact.
    """
    by_major: dict[int, list[Build]] = defaultdict(list)
    for build in builds:
        if build.package.installed.label is None:
            for major in build.cuda:
                by_major[major].append(build)
    if "nvidia" in hardware.looked:
        if hardware.cuda is None:
            yield from _idle(by_major, where)
        else:
            for major in sorted(by_major):
                yield from _refused(major, by_major[major], hardware, where)
            yield from _newer_than_driver(builds, hardware.cuda, where)
    if "amd" in hardware.looked - hardware.present:
        rocm = [build.package for build in builds if build.rocm]
        if rocm:
            words = f"{_named(rocm)}, {_sum(rocm)} for ROCm, and no AMD GPU can be used here"
            yield CheckedFile(where).found(diagnoses.IDLE_BUILD, words)
    present = hardware.present
    there = [
        accelerator.device
        for accelerator in providers.accelerators()
        if accelerator.namespace in present
    ]
    if there:
        for build in builds:
            if sign := build.cpu_only or _unused(build, hardware):
                words = f"{build.package} is a build for the CPU ({sign}), and "
                words += f"{listed(there)} is here"
                yield CheckedFile(where).found(
                    diagnoses.IDLE_HARDWARE,
                    words,
                    remedy=f"`wheelfit install --force-reinstall {build.package.name}`, from an "
                    "index that has builds for the GPU",
                )


def _unused(build: Build, hardware: Hardware) -> str:
    """Return the evidence that a variant ignores hardware it could use; empty: there is none."""
    entry = build.package.installed
    if entry.label is None or entry.document is None:
        return ""
    known = hardware.present.intersection(entry.document.providers)
    if not known or not hardware.present.isdisjoint(entry.properties.namespaces):
        return ""
    return f"its variant {entry.label} uses none, and its release has builds for {min(known)}"


def _idle(by_major: Mapping[int, Sequence[Build]], where: str) -> Iterator[Finding]:
    packages = list(
        dict.fromkeys(
            one.package for builds_of_major in by_major.values() for one in builds_of_major
        )
    )
    if packages:
        words = f"{_named(packages)}, {_sum(packages)} for CUDA, and no NVIDIA GPU can be used here"
        yield CheckedFile(where).found(diagnoses.IDLE_BUILD, words)


def _refused(
    major: int, builds: Sequence[Build], hardware: Hardware, where: str
) -> Iterator[Finding]:
    packages = [one.package for one in builds]
    cuda = hardware.cuda
    if cuda is not None and cuda.major < major:
        floor = DRIVER_FLOOR.get(major, ("", ""))[hardware.windows]
        words = f"{_with_signs(builds, major)}: CUDA {major} does not start on a driver with CUDA "
        words += str(cuda)
        release = f" to release {floor} or newer" if floor else ""
        remedy = f"update NVIDIA's driver{release}, or install the builds for CUDA {cuda.major}"
        yield CheckedFile(where).found(diagnoses.DRIVER_TOO_OLD, words, remedy=remedy)
    oldest = CUDA_CODE_FLOOR.get(major)
    old = [
        capability
        for capability in hardware.capabilities
        if oldest is not None and capability < oldest
    ]
    if old:
        words = f"{_named(packages)}: CUDA {major} makes code for compute capability {oldest} and "
        words += f"newer, and the GPU here has {', '.join(map(str, old))}"
        yield CheckedFile(where).found(
            diagnoses.GPU_TOO_OLD,
            words,
            remedy=f"install the builds for CUDA {major - 1}",
            severity=None if len(old) == len(hardware.capabilities) else Severity.WARNING,
        )


def _newer_than_driver(builds: Iterable[Build], cuda: Capability, where: str) -> Iterator[Finding]:
    newer = []
    for build in builds:
        major, _, minor = build.toolkit.partition(".")
        if build.toolkit and int(major) == cuda.major and int(minor) > cuda.minor:
            newer.append(f"{build.package} (CUDA {build.toolkit})")
    if newer:
        words = f"{some_of(newer)}, and the driver has CUDA {cuda}"
        yield CheckedFile(where).found(diagnoses.NEWER_THAN_DRIVER, words)


def shared_paths(packages: Iterable[Package]) -> dict[str, list[tuple[Package, OwnedFile]]]:
    """Return the paths that several packages own, with their owners."""
    first: dict[str, tuple[Package, OwnedFile]] = {}
    shared: dict[str, list[tuple[Package, OwnedFile]]] = {}
    for package in packages:
        for file in package.files:
            other = first.setdefault(file.path, (package, file))
            if other[0] is not package:
                shared.setdefault(file.path, [other]).append((package, file))
    return shared


def about_shared_files(
    shared: Mapping[str, Sequence[tuple[Package, OwnedFile]]], winners: Mapping[str, Package]
) -> Iterator[Finding]:
    """Yield a finding for each pair of packages that own a file with different content.

    Equal content is common and harmless (empty ``__init__.py`` files) unless it is a
    library: then uninstalling one of the packages breaks the other.

    :param winners: by path, the package whose content the file has, where known.
    """
    pairs: dict[tuple[Package, Package], list[tuple[OwnedFile, bool]]] = defaultdict(list)
    for owners in shared.values():
        for (left, mine), (right, theirs) in combinations(owners, 2):
            if left.name == right.name:
                continue  # that is a duplicate, and reported as one
            differs = (mine.hash, mine.size) != (theirs.hash, theirs.size)
            if differs or _LIBRARY.fullmatch(mine.name):
                pairs[left, right].append((mine, differs))
    for (left, right), files in pairs.items():
        different = [file for file, differs in files if differs]
        library = next((file for file in different if _LIBRARY.fullmatch(file.name)), None)
        shown = library or (different or [files[0][0]])[0]
        count = len(different or files)
        words = f"{left} and {right} both own {left.inside(shown)}"
        words += f" and {count - 1} more" if count > 1 else ""
        if not different:
            words += "; the content is the same, but uninstalling one takes it from the other"
        elif (winner := winners.get(shown.path)) is not None:
            words += f"; what is there is from {winner}"
        remedy = f"`wheelfit uninstall {left.name} {right.name}`, and install the one you need"
        severity = Severity.ERROR if library else Severity.WARNING if different else Severity.NOTE
        yield CheckedFile(str(left.installed.path)).found(
            diagnoses.SHARED_FILE, words, remedy=remedy, severity=severity
        )


def about_changes(changes: Iterable[Change]) -> Iterator[Finding]:
    """Yield findings about files that are missing or not as they were installed."""
    for change in changes:
        package = change.package
        place = CheckedFile(str(package.installed.path))
        remedy = f"`wheelfit install --force-reinstall {package.name}=={package.installed.version}`"
        if change.lost:
            words = _counted(package, change.lost, "missing")
            yield place.found(diagnoses.LOST_FILE, words, remedy=remedy)
        if change.hidden:
            yield place.found(
                diagnoses.UNREADABLE,
                _counted(package, change.hidden, "may not be read by this user"),
                remedy=f"let its owner say: chmod -R a+rX {quote(str(package.installed.location))}",
            )
        if change.changed:
            edited = all(file.name in _EDITED for file in change.changed)
            yield place.found(
                diagnoses.CHANGED_FILE,
                _counted(package, change.changed, "not as installed"),
                remedy=f"{remedy}, unless you changed them on purpose",
                severity=Severity.NOTE if edited else None,
            )


def _counted(package: Package, files: Sequence[OwnedFile], words: str) -> str:
    names = some_of([package.inside(file) for file in files])
    return f"{package}: {len(files)} of {len(package.files)} files {words}: {names}"


def about_duplicates(packages: Iterable[Package]) -> Iterator[Finding]:
    """Yield a finding for each project that is recorded twice in one folder."""
    places: dict[tuple[str, str], list[Package]] = defaultdict(list)
    for package in packages:
        places[package.name, str(package.installed.location)].append(package)
    for (name, location), twins in places.items():
        if len(twins) > 1:
            versions = listed(str(one.installed.version) for one in twins)
            yield CheckedFile(location).found(
                diagnoses.DUPLICATE,
                f"{name} is recorded in versions {versions}; the owner of each file is unknown",
                remedy=f"delete the folders {some_of([one.installed.path.name for one in twins])}, "
                f"then `wheelfit install --replace-files {name}`",
            )


def about_needs(packages: Sequence[Package]) -> Iterator[Finding]:
    """Yield a finding for each package whose needs are not met."""
    present = by_name(packages)
    for package in present.values():
        if package.installed.outside:
            continue  # nothing can be done about it here
        unmet = []
        wanted = []
        for need in package.needs:
            dependency = present.get(need.name)
            if dependency is None:
                unmet.append(f"{need.name}{need.specifier} (not installed)")
            elif not need.specifier.contains(dependency.installed.version, prereleases=True):
                words = f"{need.name}{need.specifier} ({dependency.installed.version} is installed)"
                unmet.append(words)
            else:
                continue
            wanted.append(f"'{need.name}{need.specifier}'")
        if unmet:
            yield CheckedFile(str(package.installed.path)).found(
                diagnoses.UNMET,
                f"{package} needs {some_of(unmet)}",
                remedy=f"wheelfit install {' '.join(wanted)}",
            )


def _with_signs(builds: Sequence[Build], major: int) -> str:
    programs = [build for build in builds if not build.is_library]
    libraries = len(builds) - len(programs)
    shown = programs or builds
    words = [f"{one.package} ({one.cuda[major]})" for one in shown]
    if programs and libraries:
        return f"{some_of(words)}, with {libraries} {'library' if libraries == 1 else 'libraries'}"
    return some_of(words)


def _named(packages: Iterable[Package]) -> str:
    """Return packages as a list, vendors' libraries last."""
    ordered = sorted(
        dict.fromkeys(packages),
        key=lambda one: (one.name.startswith(("nvidia-", "cuda-")), one.name),
    )
    return some_of([str(package) for package in ordered])


def _sum(packages: Iterable[Package]) -> str:
    return size_in_words(sum(package.size for package in packages))
