"""Checks of the libraries that a wheel's binaries load, and their search paths."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.checking import checks
from wheelfit.checking.findings import Finding, Location, Severity, listed_briefly
from wheelfit.wheels.binaries.facts import Binaries, Binary, Format
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wheelfit.checking.wheels.linux_policies import LinuxPolicy

_DRIVERS = pattern(
    r"lib(?:cuda|nvcuvid|nvidia-[\w-]+|nvoptix|OpenCL|ze_loader|amdhip64|vulkan|EGL|GLX\w*|OpenGL)\.so.*"
)
"""Libraries that come with the driver of a device, and must not be in a wheel."""
_ORIGIN_VARIABLES = ("$ORIGIN", "${ORIGIN}", "@loader_path")
_DEFAULT_FOLDERS = frozenset(["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/lib/swift"])
_ENVIRONMENT_FOLDERS = pattern(r"(?:\.\./)+(?:lib|lib64|bin)(?:/.*)?|\.\./\.\.")
"""Library folders of an environment, relative to site-packages."""


class SearchPath(Struct, frozen=True):
    """An entry of an RPATH, resolved as by the loader."""

    text: str
    folder: str | None
    """The folder, relative to site-packages; None: it is not relative to the binary."""

    @classmethod
    def of(cls, binary: Binary, entry: str) -> SearchPath:
        """Return the search path for an entry in the RPATH of a binary."""
        for origin in _ORIGIN_VARIABLES:
            if entry == origin or entry.startswith(f"{origin}/"):
                binary_folder = posixpath.dirname(_installed(binary.member))
                folder = posixpath.join(binary_folder, entry[len(origin) :].lstrip("/"))
                return cls(entry, posixpath.normpath(folder or "."))
        return cls(entry, None)

    @property
    def leads_out(self) -> bool:
        """Whether it is outside of site-packages."""
        return self.folder is not None and self.folder.split("/")[0] == ".."


def _installed(member: str) -> str:
    """Return the installed path of a member, relative to site-packages."""
    folder, _, rest = member.partition("/")
    if folder.endswith(".data") and rest.startswith(("purelib/", "platlib/")):
        return rest.partition("/")[2]
    return member


def search_path_findings(binaries: Binaries, location: Location) -> Iterator[Finding]:
    """Yield findings about search paths outside of site-packages, one for each severity."""
    folders: dict[Severity, dict[str, None]] = defaultdict(dict)
    members: dict[Severity, dict[str, None]] = defaultdict(dict)
    for binary in binaries:
        if ".data/" in binary.member and _installed(binary.member) == binary.member:
            continue  # scripts and data are installed elsewhere
        for entry in dict.fromkeys(binary.rpath):
            severity = _severity(SearchPath.of(binary, entry), is_only=len(binary.rpath) == 1)
            if severity is not None:
                folders[severity][entry or "the current folder"] = None
                members[severity][binary.member] = None
    for severity, entries in folders.items():
        verb = "searches" if len(members[severity]) == 1 else "search"
        searching = listed(list(members[severity]), most=2)
        message = f"{searching} {verb} libraries in {listed_briefly(entries)}"
        yield location.finding(checks.RPATH_LEADS_OUT, message, severity=severity)


def _severity(path: SearchPath, *, is_only: bool) -> Severity | None:
    """Return the severity of a search path; None: it is harmless."""
    if path.leads_out and path.folder is not None:
        # Conda packages and others install libraries into the environment itself.
        return Severity.NOTE if _ENVIRONMENT_FOLDERS.fullmatch(path.folder) else Severity.WARNING
    if path.folder is not None or path.text.rstrip("/") in _DEFAULT_FOLDERS:
        return None
    if path.text.startswith(("@executable_path", "@rpath")):
        return None
    if is_only and not path.text:
        return None  # an empty RPATH has no effect; only beside others is it the current folder
    return Severity.WARNING


def _missing_libraries(
    native: Sequence[Binary], machines: frozenset[str]
) -> dict[str, list[Binary]]:
    """Return the needed libraries outside of the wheel, with the ELF binaries that need them."""
    bundled = {posixpath.basename(binary.member) for binary in native}
    bundled |= {posixpath.basename(binary.soname) for binary in native if binary.soname}
    needed_by: dict[str, list[Binary]] = defaultdict(list)
    for binary in native:
        if binary.format is Format.ELF and not machines.isdisjoint(binary.machines):
            for name in binary.needed:
                if posixpath.basename(name) not in bundled:
                    needed_by[name].append(binary)
    return needed_by


def library_findings(
    native: Sequence[Binary],
    tag: str,
    machines: frozenset[str],
    policy: LinuxPolicy,
    location: Location,
) -> Iterator[Finding]:
    """Yield findings about libraries and symbol versions that a platform tag does not guarantee."""
    missing_by_clause: dict[str, dict[str, list[Binary]]] = defaultdict(dict)
    for name, binaries in _missing_libraries(native, machines).items():
        if policy.has_library(name):
            yield from _version_findings(name, binaries, tag, policy, location)
        elif _DRIVERS.fullmatch(name):
            missing_by_clause["which drivers provide"][name] = binaries
        elif all(_searches_other_packages(binary, native) for binary in binaries):
            missing_by_clause["which the search path finds in other packages"][name] = binaries
        else:
            missing_by_clause[""][name] = binaries
    for clause, libraries in missing_by_clause.items():
        reason = clause or f"which {tag} does not guarantee"
        yield location.finding(
            checks.EXTERNAL_LIBRARY,
            f"{_needed_libraries_in_words(libraries)}, {reason}",
            severity=Severity.NOTE if clause else None,
        )


def _needed_libraries_in_words(libraries: dict[str, list[Binary]]) -> str:
    """Return a text on the needed libraries that are not in the wheel, and their binaries."""
    members = dict.fromkeys(binary.member for binaries in libraries.values() for binary in binaries)
    needed_by = listed(list(members), most=2)
    return f"needed by {needed_by}, but not in the wheel: {listed_briefly(sorted(libraries))}"


def _version_findings(
    name: str, needing: Sequence[Binary], tag: str, policy: LinuxPolicy, location: Location
) -> Iterator[Finding]:
    """Yield symbol versions that are newer than those of the oldest system with the tag."""
    for binary in needing:
        needed = [version.name for version in binary.versions if version.library == name]
        if too_new := [version for version in needed if policy.is_too_new(version)]:
            message = f"{binary.member} needs {listed_briefly(too_new)} of {name}"
            message += f", which {tag} does not guarantee"
            yield location.finding(checks.PLATFORM_TOO_OLD, message)


def _searches_other_packages(binary: Binary, native: Iterable[Binary]) -> bool:
    """Return whether the search path of a binary has folders of other packages."""
    own_packages = {_installed(library.member).partition("/")[0] for library in native}
    paths = [SearchPath.of(binary, entry).folder for entry in binary.rpath]
    return any(
        path is not None and path.partition("/")[0] not in (*own_packages, ".") for path in paths
    )
