"""The diagnosis of an environment: its packages, against each other and against a machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wheelfit.checking.findings import Finding, Location, Report
from wheelfit.core.agreements import AGREEMENTS, Agreement
from wheelfit.doctor import diagnoses, packages
from wheelfit.doctor.accelerators import AcceleratorBuild, OwnedLibrary, build_of, owned_libraries
from wheelfit.doctor.contents import compare_with_record, has_recorded_content, read_packages
from wheelfit.installation.environment_folders import WORKPLACE
from wheelfit.installation.installed import Broken, by_name
from wheelfit.installation.removal import how_to_replace
from wheelfit.installation.variant_fit import judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.core.target import Target
    from wheelfit.doctor.contents import Package
    from wheelfit.doctor.machine import Hardware
    from wheelfit.installation.environment import Environment
    from wheelfit.installation.variant_fit import DetectSupport, FitVerdict

_MAX_HASHED_SIZE = 16 * 1024 * 1024
"""Bytes up to which a file with several owners is hashed to find the one that wrote it."""
_REFIT = "`wheelfit install --refit`; it replaces every variant that does not fit any more"


@dataclass(frozen=True, slots=True)
class EnvironmentContents:
    """The installed packages of an environment, with their libraries and builds."""

    name: str
    packages: tuple[Package, ...]
    """The packages, sorted by name; of several with one name, the imported one comes first."""
    broken: tuple[Broken, ...]
    """Entries that look like a package and cannot be read."""
    libraries: tuple[OwnedLibrary, ...]
    builds: tuple[AcceleratorBuild, ...]
    findings: tuple[Finding, ...] = ()
    """Findings from the comparison of files with RECORD."""


def _read_environment(environment: Environment, target: Target | None) -> EnvironmentContents:
    """Read the installed packages; only records are read, and nothing is imported."""
    scan = environment.scan()
    target = target or environment.target
    installed = read_packages(scan.installed, target.environment)
    libraries = tuple(library for package in installed for library in owned_libraries(package))
    by_package: dict[Package, list[OwnedLibrary]] = {}
    for library in libraries:
        by_package.setdefault(library.package, []).append(library)
    return EnvironmentContents(
        environment.name,
        installed,
        scan.broken,
        libraries,
        tuple(build_of(package, by_package.get(package, ())) for package in installed),
    )


def examine_environment(
    environment: Environment, target: Target | None = None, *, full: bool = False
) -> EnvironmentContents:
    """Read the installed packages, and compare files with RECORD; nothing is imported.

    :param target: the target for requirements; default: the environment's interpreter.
    :param full: whether to hash all files, instead of comparing only their sizes.
    """
    contents = _read_environment(environment, target)
    local_packages = [package for package in contents.packages if not package.installed.outside]
    shared = packages.shared_paths(local_packages)
    # Of the packages that share a file, the one whose RECORD has its present hash wrote it last.
    writers = {
        path: package
        for path, owners in shared.items()
        if full or max(file.size or 0 for _, file in owners) <= _MAX_HASHED_SIZE
        for package, file in owners
        if file.hash and has_recorded_content(file)
    }
    changes = compare_with_record(
        local_packages, frozenset(shared), environment.schemes.folders().values(), full=full
    )
    findings = [
        *packages.shared_file_findings(shared, writers),
        *packages.changed_file_findings(changes),
        *packages.duplicate_findings(local_packages),
        *_broken_findings(contents.broken),
        *_record_findings(local_packages),
    ]
    return replace(contents, findings=tuple(findings))


def _broken_findings(broken: tuple[Broken, ...]) -> Iterator[Finding]:
    for entry in broken:
        is_interrupted = entry.path.name.startswith((WORKPLACE, "~"))
        where = Location(str(entry.path))
        if is_interrupted or entry.path.suffix != ".dist-info":
            check = diagnoses.INTERRUPTED if is_interrupted else diagnoses.UNREADABLE
            yield where.finding(check, entry.reason)
        else:
            remedy = _remedy_for_unreadable(entry.path, entry.path.name.partition("-")[0])
            yield where.finding(diagnoses.UNREADABLE, entry.reason, remedy=remedy)


def _remedy_for_unreadable(path: Path, name: str) -> str:
    """Return the remedy for a ``.dist-info`` without which no installer removes a package."""
    return f"give this user the permission to read it, or {how_to_replace(path.name, name)}"


def _record_findings(installed: Iterable[Package]) -> Iterator[Finding]:
    for package in installed:
        path = package.installed.path
        where = Location(str(path))
        for note in package.installed.notes:
            yield where.finding(diagnoses.UNREADABLE, f"{package}: {note}")
        if package.problem:
            remedy = _remedy_for_unreadable(path, package.installed.name)
            message = f"{package}: {package.problem}"
            yield where.finding(diagnoses.UNREADABLE, message, remedy=remedy)


def diagnose_packages(
    contents: EnvironmentContents,
    target: Target,
    hardware: Hardware,
    detect_support: DetectSupport,
    agreements: Iterable[Agreement] = AGREEMENTS,
) -> Report:
    """Check the installed packages against a machine, and against each other.

    :param hardware: the hardware with which builds are compared.
    :param detect_support: detects the values that the machine supports.
    """
    importable = by_name(contents.packages)
    verdicts = judge((package.installed for package in contents.packages), detect_support)
    builds = tuple(
        build for build in contents.builds if importable[build.package.name] is build.package
    )
    findings = [
        *(finding for verdict in verdicts for finding in _fit_findings(verdict, importable)),
        *packages.tag_findings(contents.packages, target, contents.name),
        *packages.conflict_findings(builds, contents.libraries, contents.name),
        *packages.agreement_findings(
            (package.installed for package in importable.values()), agreements, contents.name
        ),
        *packages.hardware_findings(builds, hardware, contents.name),
        *packages.requirement_findings(contents.packages),
        *contents.findings,
    ]
    return Report.of(findings)


def _fit_findings(
    verdict: FitVerdict, importable: Mapping[NormalizedName, Package]
) -> Iterator[Finding]:
    """Yield findings about a variant, with the reasons of its choice and the command to run."""
    variant = verdict.variant
    where = Location(str(variant.path))
    if verdict.unchecked:
        yield where.finding(diagnoses.UNCHECKED_VARIANT, verdict.unchecked)
    chosen = importable[variant.name].host_and_overrides
    reasons = [f"it was chosen for {chosen.host}"] if chosen.host else []
    reasons += [f"{override} was in effect when it was chosen" for override in chosen.overrides]
    for check, refusal in (
        (diagnoses.UNSUPPORTED_HERE, verdict.machine_refusal),
        (diagnoses.BROKEN_BY_DEPENDENCY, verdict.dependency_refusal),
    ):
        if refusal:
            message = "; ".join([f"{variant}: {refusal}", *reasons])
            yield where.finding(check, message, remedy=_REFIT)
