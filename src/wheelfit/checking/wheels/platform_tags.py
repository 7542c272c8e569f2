"""Comparison of a wheel's platform tags with its binaries: machine, C library, oldest system."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.checking import checks
from wheelfit.checking.findings import Finding, Location, Severity, listed_briefly
from wheelfit.checking.wheels.linux_policies import LinuxPolicy, linux_policy
from wheelfit.checking.wheels.loading import library_findings
from wheelfit.wheels.binaries.facts import Binaries, Binary, Format
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wheelfit.core.filename import WheelFilename


class ClaimedPlatform(Struct, frozen=True):
    """The claims of a platform tag."""

    tag: str
    format: Format
    machines: frozenset[str]
    """The machines, for each of which a binary must exist."""
    c_library: str = ""
    """``glibc`` or ``musl``; empty if it does not matter."""
    floor: tuple[int, int] | None = None
    """The oldest glibc or macOS that it works with; None: unspecified."""
    policy: LinuxPolicy | None = None
    """Its policy; None if it is not a manylinux or musllinux tag."""


_LINUX = re.compile(r"(?:(manylinux|musllinux)_(\d+)_(\d+)|linux)_(\w+)")
_MACOS = re.compile(r"macosx_(\d+)_(\d+)_(\w+)")
_OLD_MANYLINUX = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_MACOS_MACHINES = {
    "universal2": frozenset(["x86_64", "aarch64"]),
    "universal": frozenset(["i686", "ppc"]),
    "intel": frozenset(["x86_64"]),
    "arm64": frozenset(["aarch64"]),
}
_WINDOWS = {"win_amd64": "x86_64", "win32": "i686", "win_arm64": "aarch64"}
_COMPATIBLE_MACHINES = {"armv6l": "armv7l", "armv8l": "armv7l", "i386": "i686"}


def read_platform(tag: str) -> ClaimedPlatform | None:
    """Return the claims of a platform tag; None if it has none, or is unknown.

    >>> read_platform("manylinux2014_aarch64").floor
    (2, 17)
    """
    for old, floor in _OLD_MANYLINUX.items():
        if tag.startswith(f"{old}_"):
            return _linux_platform(tag, "manylinux", floor, tag.removeprefix(f"{old}_"))
    if (match := _LINUX.fullmatch(tag)) is not None:
        pair = None if match[1] is None else (int(match[2]), int(match[3]))
        return _linux_platform(tag, match[1], pair, match[4])
    if (match := _MACOS.fullmatch(tag)) is not None:
        machines = _MACOS_MACHINES.get(match[3], frozenset([match[3]]))
        return ClaimedPlatform(tag, Format.MACHO, machines, "", (int(match[1]), int(match[2])))
    if tag in _WINDOWS:
        return ClaimedPlatform(tag, Format.PE, frozenset([_WINDOWS[tag]]))
    return None


def _linux_platform(
    tag: str, kind: str | None, floor: tuple[int, int] | None, machine: str
) -> ClaimedPlatform:
    libraries = {"manylinux": "glibc", "musllinux": "musl"}
    return ClaimedPlatform(
        tag,
        Format.ELF,
        frozenset([_COMPATIBLE_MACHINES.get(machine, machine)]),
        libraries.get(kind or "", ""),
        floor if kind == "manylinux" else None,
        None if kind is None or floor is None else linux_policy(kind, floor, machine),
    )


def platform_findings(
    binaries: Binaries, name: WheelFilename, location: Location
) -> Iterator[Finding]:
    """Yield contradictions between binaries and the platform tags.

    A wheel for any platform may have binaries for all of them, so it is not compared.
    """
    tags = sorted({tag.platform for tag in name.tags})
    claims = [claim for tag in tags if (claim := read_platform(tag)) is not None]
    native = [binary for binary in binaries if binary.machines]
    if len(claims) != len(tags) or not native:
        return
    for claim in claims:
        yield from _machine_findings(claim, native, location)
    # The oldest claim for each format and machine; one for several machines has several entries.
    oldest: dict[tuple[Format, str], ClaimedPlatform] = {}
    for claim in sorted(claims, key=_floor):
        if claim.floor is not None:
            for machine in claim.machines:
                oldest.setdefault((claim.format, machine), claim)
    unique_claims = {claim.tag: claim for claim in oldest.values()}
    for claim in unique_claims.values():
        yield from _floor_findings(claim, native, location)
    yield from _library_findings(claims, native, location)
    if any(claim.c_library == "musl" for claim in claims):
        for binary in native:
            if glibc := _required_glibc(binary):
                yield location.finding(
                    checks.FOREIGN_BINARY,
                    f"{binary.member} needs glibc ({glibc[1]}); the tag is for musl",
                )


def _library_findings(
    claims: Iterable[ClaimedPlatform], native: list[Binary], location: Location
) -> Iterator[Finding]:
    """Compare the libraries that binaries load with those of every Linux that a tag admits."""
    oldest: dict[object, ClaimedPlatform] = {}
    for claim in sorted(claims, key=_floor, reverse=True):  # older claims overwrite newer ones
        oldest[claim.c_library, claim.machines] = claim
    for claim in oldest.values():
        if claim.policy is not None:
            yield from library_findings(native, claim.tag, claim.machines, claim.policy, location)


def _machine_findings(
    claim: ClaimedPlatform, native: list[Binary], location: Location
) -> Iterator[Finding]:
    candidates = [binary for binary in native if binary.format is claim.format]
    served = frozenset(machine for binary in candidates for machine in binary.machines)
    if missing := claim.machines - served:
        present = listed(
            sorted(
                {f"{machine} ({binary.format})" for binary in native for machine in binary.machines}
            )
        )
        yield location.finding(
            checks.FOREIGN_BINARY,
            f"the tag is {claim.tag}, but no binary is for "
            f"{listed(sorted(missing))}, only for {present}",
        )
        return
    for binary in candidates:
        if claim.machines.isdisjoint(binary.machines):
            yield location.finding(
                checks.FOREIGN_BINARY,
                f"{binary.member} is for {listed(binary.machines)}; the tag is {claim.tag}",
                severity=Severity.WARNING,
            )


def _floor(claim: ClaimedPlatform) -> tuple[int, int]:
    return claim.floor or (0, 0)


def _floor_findings(
    claim: ClaimedPlatform, native: list[Binary], location: Location
) -> Iterator[Finding]:
    """Compare the oldest system that a tag admits with the requirements of binaries."""
    floor = _floor(claim)
    if claim.policy is not None and (glibc := claim.policy.symbols.get("GLIBC")):
        floor = max(floor, (glibc[0], glibc[1]))  # manylinux_2_17 on aarch64 has symbols of 2.18
    allowed = f"{floor[0]}.{floor[1]}"
    members_by_requirement: dict[tuple[str, Severity | None], list[str]] = defaultdict(list)
    for binary in native:
        if binary.format is not claim.format or claim.machines.isdisjoint(binary.machines):
            continue
        if claim.format is Format.ELF:
            required = _required_glibc(binary)
            if required is not None and required[0] > floor:
                members_by_requirement[required[1], None].append(binary.member)
            continue
        for system in binary.minimum_systems:
            if system.machine in claim.machines and system.version > floor:
                severity = _macos_severity(system.version, claim)
                version = f"{system.version[0]}.{system.version[1]}"
                requirement = f"macOS {version} on {system.machine}"
                members_by_requirement[requirement, severity].append(binary.member)
    system_name = "glibc" if claim.format is Format.ELF else "macOS"
    for (requirement, severity), members in members_by_requirement.items():
        yield location.finding(
            checks.PLATFORM_TOO_OLD,
            f"{requirement} is needed by {listed_briefly(members)}; the tag {claim.tag} allows "
            f"{system_name} {allowed}",
            severity=severity,
        )


def _macos_severity(version: tuple[int, int], claim: ClaimedPlatform) -> Severity | None:
    """Return the severity of a binary for a newer macOS than the tag names."""
    if len(claim.machines) > 1 and version <= (11, 0):
        # A universal tag names the older of two systems: Macs with Arm start with macOS 11.
        return Severity.NOTE
    is_same_major = version[0] == _floor(claim)[0]
    if is_same_major and version[0] >= _FIRST_YEARLY_MACOS:
        return Severity.WARNING  # no tag can name its minor: installers only have tags with minor 0
    return None


_FIRST_YEARLY_MACOS = 11
"""The first macOS whose major version changes every year."""
_GLIBC = re.compile(r"GLIBC_(\d{1,3})\.(\d{1,3})(?:\.\d{1,3})?")
_UNWINDER = "libgcc_s"  # has versions called GLIBC_2.0 of its own, with any C library
_RELATIVE_RELOCATIONS = "GLIBC_ABI_DT_RELR"  # since 2.36


def _required_glibc(binary: Binary) -> tuple[tuple[int, int], str] | None:
    """Return the newest version of glibc that a binary needs, and its symbol version."""
    versions = []
    for version in binary.versions:
        if version.library.startswith(_UNWINDER):
            continue
        match = _GLIBC.fullmatch(version.name)
        if match is not None:
            versions.append(((int(match[1]), int(match[2])), version.name))
        elif version.name == _RELATIVE_RELOCATIONS:
            versions.append(((2, 36), version.name))
    return max(versions, default=None)
