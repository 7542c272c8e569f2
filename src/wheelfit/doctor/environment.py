"""The diagnosis of an environment: its packages, against each other and against a machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wheelfit.checking.findings import CheckedFile, Count, Report
from wheelfit.checking.installed import report_on
from wheelfit.core.shared_requirements import AGREEMENTS
from wheelfit.doctor import contents, diagnoses, packages
from wheelfit.doctor.accelerators import build_of, owned_libraries
from wheelfit.installation.environment_folders import WORKPLACE
from wheelfit.installation.installed import by_name
from wheelfit.installation.variant_fit import judge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from wheelfit.checking.findings import Finding
    from wheelfit.core.abi_dependency import KnownVersions
    from wheelfit.core.document import VariantDocument
    from wheelfit.core.property_support import Support
    from wheelfit.core.shared_requirements import Agreement
    from wheelfit.core.target import Target
    from wheelfit.doctor.accelerators import AcceleratorBuild, OwnedLibrary
    from wheelfit.doctor.contents import Package
    from wheelfit.doctor.machine import Hardware
    from wheelfit.installation.environment import Environment
    from wheelfit.installation.installed import Broken

    Ask = Callable[[VariantDocument, frozenset[str], KnownVersions], Support]

_SMALL = 16 * 1024 * 1024
"""Bytes up to which a file with several owners is hashed to see whose it is."""


@dataclass(frozen=True, slots=True)
class EnvironmentContents:
    """The contents of an environment."""

    name: str
    packages: tuple[Package, ...]
    """The packages by name; of one name, the imported one comes first."""
    broken: tuple[Broken, ...]
    """Entries that look like a package and cannot be read."""
    libraries: tuple[OwnedLibrary, ...]
    builds: tuple[AcceleratorBuild, ...]
    findings: tuple[Finding, ...] = ()
    """Findings of comparing the files with their records."""

    @property
    def modules(self) -> dict[str, str]:
        """The modules that can be imported, and in words whose each is."""
        return {
            module: str(package)
            for package in reversed(self.packages)
            for module in contents.top_level(package)
        }


def read_environment(environment: Environment, target: Target | None = None) -> EnvironmentContents:
    """Read the installed packages; only records are read, and nothing is imported."""
    scan = environment.scan()
    target = target or environment.target()
    read = contents.read_packages(scan.installed, target.environment)
    libraries = tuple(one for package in read for one in owned_libraries(package))
    by_package: dict[Package, list[OwnedLibrary]] = {}
    for library in libraries:
        by_package.setdefault(library.package, []).append(library)
    return EnvironmentContents(
        environment.name,
        read,
        scan.broken,
        libraries,
        tuple(build_of(package, by_package.get(package, ())) for package in read),
    )


def examine_environment(
    environment: Environment, target: Target | None = None, *, full: bool = False
) -> EnvironmentContents:
    """Read the installed packages, and compare files with RECORD; nothing is imported.

    :param target: the target for requirements; default: the environment's interpreter.
    """
    read = read_environment(environment, target)
    own = [package for package in read.packages if not package.installed.outside]
    shared = packages.shared_paths(own)
    winners = {
        path: package
        for path, owners in shared.items()
        for package, file in owners
        if (full or max(one.size or 0 for _, one in owners) <= _SMALL) and contents.matches(file)
    }
    changes = contents.changes(
        own, frozenset(shared), environment.schemes.folders().values(), full=full
    )
    findings = [
        *packages.about_shared_files(shared, winners),
        *packages.about_changes(changes),
        *packages.about_duplicates(own),
        *_about_broken(read.broken),
        *_about_records(own),
    ]
    return replace(read, findings=tuple(findings))


def _about_broken(broken: tuple[Broken, ...]) -> Iterator[Finding]:
    for one in broken:
        interrupted = one.path.name.startswith((WORKPLACE, "~"))
        check = diagnoses.INTERRUPTED if interrupted else diagnoses.UNREADABLE
        yield CheckedFile(str(one.path)).found(check, one.reason)


def _about_records(read: list[Package]) -> Iterator[Finding]:
    for package in read:
        for words in (*package.installed.notes, *filter(None, [package.problem])):
            yield CheckedFile(str(package.installed.path)).found(
                diagnoses.UNREADABLE, f"{package}: {words}"
            )


def about_contents(
    contents: EnvironmentContents,
    target: Target,
    hardware: Hardware | None,
    ask: Ask,
    agreements: Iterable[Agreement] = AGREEMENTS,
) -> Report:
    """Judge the installed packages against a machine, and against each other.

    :param hardware: the hardware of the machine; None: not detected, and only variants are judged.
    """
    first = by_name(contents.packages)
    checked = report_on(judge((package.installed for package in contents.packages), ask))
    by_place = {str(package.installed.path): package for package in first.values()}
    imported = tuple(
        build for build in contents.builds if first[build.package.name] is build.package
    )
    findings = [
        *(_with_command(finding, by_place) for finding in checked.findings),
        *(
            CheckedFile(one.where).found(diagnoses.UNASKED, one.message, remedy=one.hint)
            for one in checked.unchecked
        ),
        *packages.about_tags(contents.packages, target, contents.name),
        *packages.about_builds(imported, contents.libraries, contents.name),
        *packages.about_agreements(
            (one.installed for one in first.values()), agreements, contents.name
        ),
        *(() if hardware is None else packages.about_hardware(imported, hardware, contents.name)),
        *packages.about_needs(contents.packages),
        *contents.findings,
    ]
    return Report.of(findings, (), Count(installed=checked.count.installed))


def _with_command(finding: Finding, by_place: dict[str, Package]) -> Finding:
    package = by_place.get(finding.where)
    if package is None:
        return finding
    chosen = package.circumstances
    how = [f"it was chosen for {chosen.host}"] if chosen.host else []
    how += [f"{override} was in effect when it was chosen" for override in chosen.overrides]
    message = "; ".join([finding.message, *how])
    remedy = "`wheelfit install --refit`; it exchanges every variant that does not fit any more"
    return finding._replace(message=message, remedy=remedy)
