"""Checks of the libraries that a wheel's binaries load, and their search paths."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.checking import checks
from wheelfit.checking.findings import Severity, some_of
from wheelfit.wheels.binaries.facts import Format
from wheelfit_runtime.patterns import pattern
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wheelfit.checking.findings import CheckedFile, Finding
    from wheelfit.checking.wheels.linux_policies import LinuxPolicy
    from wheelfit.wheels.binaries.facts import Binaries, Binary

_DRIVERS = pattern(
    r"lib(?:cuda|nvcuvid|nvidia-[\w-]+|nvoptix|OpenCL|ze_loader|amdhip64|vulkan|EGL|GLX\w*|OpenGL)\.so.*"
)
"""Libraries that come with the driver of a device, and must not be in a wheel."""
_MACOS = ("/usr/lib/", "/System/")
_ORIGINS = ("$ORIGIN", "${ORIGIN}", "@loader_path")
_SEARCHED_ANYWAY = frozenset(["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/lib/swift"])
_SHARED = pattern(r"(?:\.\./)+(?:lib|lib64|bin)(?:/.*)?|\.\./\.\.")
"""Places of an environment's libraries outside packages: beside and above its library folder."""


class SearchPath(Struct, frozen=True):
    """An entry of an RPATH, as the loader takes it."""

    text: str
    folder: str | None
    """From the library folder of the environment; None: it does not depend on that."""

    @classmethod
    def of(cls, binary: Binary, entry: str) -> SearchPath:
        """Read an entry."""
        for origin in _ORIGINS:
            if entry == origin or entry.startswith(f"{origin}/"):
                here = posixpath.dirname(_installed(binary.member))
                inside = posixpath.join(here, entry[len(origin) :].lstrip("/"))
                return cls(entry, posixpath.normpath(inside or "."))
        return cls(entry, None)

    @property
    def leads_out(self) -> bool:
        """Whether it leaves the library folder."""
        return self.folder is not None and self.folder.split("/")[0] == ".."


def _installed(member: str) -> str:
    """Return the installed path of a member, from the library folder."""
    folder, _, rest = member.partition("/")
    if folder.endswith(".data") and rest.startswith(("purelib/", "platlib/")):
        return rest.partition("/")[2]
    return member


def search_path_findings(binaries: Binaries, place: CheckedFile) -> Iterator[Finding]:
    """Yield search paths of binaries outside of Python's installed files."""
    folders: dict[Severity, dict[str, None]] = defaultdict(dict)
    members: dict[Severity, dict[str, None]] = defaultdict(dict)
    for binary in binaries:
        if ".data/" in binary.member and _installed(binary.member) == binary.member:
            continue  # scripts and data lie elsewhere, at known places
        for entry in dict.fromkeys(binary.rpath):
            severity = _severity(SearchPath.of(binary, entry), alone=len(binary.rpath) == 1)
            if severity is not None:
                folders[severity][entry or "the current folder"] = None
                members[severity][binary.member] = None
    for severity, entries in folders.items():
        who = listed(list(members[severity]), most=2)
        message = f"libraries are looked for in {some_of(entries)}, by {who}"
        yield place.found(checks.RPATH_LEADS_OUT, message, severity=severity)


def _severity(path: SearchPath, *, alone: bool) -> Severity | None:
    """Return the severity of a search path; None: it is harmless."""
    if path.leads_out and path.folder is not None:
        # Packages for conda, and others that put libraries into the environment itself.
        return Severity.NOTE if _SHARED.fullmatch(path.folder) else Severity.WARNING
    if path.folder is not None or path.text.rstrip("/") in _SEARCHED_ANYWAY:
        return None
    if path.text.startswith(("@executable_path", "@rpath")) or (alone and not path.text):
        return None
    return Severity.WARNING


class _Libraries:
    """The libraries in a wheel, and those that its binaries need besides."""

    def __init__(self, binaries: Iterable[Binary]) -> None:
        self._binaries = tuple(binaries)

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name by which a library of the wheel can be loaded."""
        names = {posixpath.basename(binary.member) for binary in self._binaries}
        names |= {posixpath.basename(binary.soname) for binary in self._binaries if binary.soname}
        return frozenset(names)

    def missing(self, kind: Format, machines: frozenset[str]) -> dict[str, list[Binary]]:
        """Return the needed libraries outside of the wheel, with the binaries that need them."""
        found: dict[str, list[Binary]] = defaultdict(list)
        for binary in self._binaries:
            if binary.format is not kind or machines.isdisjoint(binary.machines):
                continue
            for name in binary.needed:
                if posixpath.basename(name) not in self.names:
                    found[name].append(binary)
        return found


def library_findings(
    native: Sequence[Binary],
    tag: str,
    machines: frozenset[str],
    policy: LinuxPolicy,
    place: CheckedFile,
) -> Iterator[Finding]:
    """Compare libraries and versions of symbols with those of every Linux that takes the tag."""
    lacking: dict[str, dict[str, list[Binary]]] = defaultdict(dict)
    for name, needing in _Libraries(native).missing(Format.ELF, machines).items():
        if policy.has_library(name):
            yield from _version_findings(name, needing, tag, policy, place)
        elif _DRIVERS.fullmatch(name):
            lacking["they come with drivers"][name] = needing
        elif all(_looks_elsewhere(one, native) for one in needing):
            lacking["they are looked for in other packages"][name] = needing
        else:
            lacking[""][name] = needing
    for known, libraries in lacking.items():
        message = f"{_needing(libraries)}; {known or f'{tag} does not promise that'}"
        yield place.found(
            checks.EXTERNAL_LIBRARY, message, severity=Severity.NOTE if known else None
        )


def _needing(libraries: dict[str, list[Binary]]) -> str:
    """Return a text on the needed libraries that are not in the wheel, and their binaries."""
    members = dict.fromkeys(one.member for needing in libraries.values() for one in needing)
    return (
        f"{some_of(sorted(libraries))} not in the wheel, needed by {listed(list(members), most=2)}"
    )


def _version_findings(
    name: str, needing: Sequence[Binary], tag: str, policy: LinuxPolicy, place: CheckedFile
) -> Iterator[Finding]:
    """Yield versions of symbols that are newer than those of the oldest system."""
    for one in needing:
        wanted = [version.name for version in one.versions if version.library == name]
        if too_new := [version for version in wanted if policy.is_too_new(version)]:
            message = (
                f"{one.member} wants {some_of(too_new)} of {name}, which {tag} does not promise"
            )
            yield place.found(checks.PLATFORM_TOO_OLD, message)


def _looks_elsewhere(binary: Binary, native: Iterable[Binary]) -> bool:
    """Return whether the search path of a binary leads into folders of other packages."""
    own = {_installed(one.member).partition("/")[0] for one in native}
    paths = [SearchPath.of(binary, entry).folder for entry in binary.rpath]
    return any(path is not None and path.partition("/")[0] not in (*own, ".") for path in paths)


def macos_library_findings(native: Sequence[Binary], place: CheckedFile) -> Iterator[Finding]:
    """Yield libraries by whole paths that are on the machine where the wheel was built."""
    machines = frozenset(machine for one in native for machine in one.machines)
    lacking = {
        name: needing
        for name, needing in _Libraries(native).missing(Format.MACHO, machines).items()
        if name.startswith("/") and not name.startswith(_MACOS)
    }
    if lacking:
        message = f"{_needing(lacking)}; it is no part of macOS"
        yield place.found(checks.EXTERNAL_LIBRARY, message)


def windows_library_findings(native: Sequence[Binary], place: CheckedFile) -> Iterator[Finding]:
    """Yield libraries that neither the wheel has nor Windows, Python or a driver brings."""
    there = {posixpath.basename(one.member).lower() for one in native}
    lacking: dict[str, dict[str, list[Binary]]] = defaultdict(lambda: defaultdict(list))
    for one in native:
        for name in one.needed if one.format is Format.PE else ():
            known = origin_of(name)
            if name.lower() not in there and known not in ("Windows", "Python"):
                lacking[known or ""][name].append(one)
    for known, libraries in lacking.items():
        whose = f"not every Windows has {known}" if known else "neither Windows nor Python has that"
        yield place.found(
            checks.EXTERNAL_LIBRARY,
            f"{_needing(libraries)}; {whose}",
            severity=Severity.NOTE if known else None,
        )


# --- libraries that a wheel for Windows may leave out -------------------------------------------

# Windows has no list of guaranteed libraries, so this one has those that every edition since 10 has
# and binaries in published wheels load.
_WINDOWS = frozenset(
    """
    aclui activeds advapi32 authz avicap32 avifil32 avrt bcrypt bcryptprimitives cabinet
    cfgmgr32 combase comctl32 comdlg32 credui crypt32 cryptbase cryptnet cryptsp cryptui d2d1
    d3d10 d3d10_1 d3d11 d3d12 d3d9 d3dcompiler_47 davclnt dbgeng dbghelp dcomp ddraw dhcpcsvc
    dinput8 dnsapi dsound dwmapi dwrite dxcore dxgi dxva2 esent evr faultrep fwpuclnt gdi32
    gdi32full gdiplus glu32 hid hlink httpapi icmp icu icuin icuuc imagehlp imm32 inetcpl
    iphlpapi kernel32 kernelbase ksuser ktmw32 loadperf logoncli lz32 magnification mf mfplat
    mfplay mfreadwrite mfuuid mlang mmdevapi mpr msacm32 mscms mscoree msdmo msi msimg32
    mspatcha mstask msvcp_win msvcrt msvfw32 mswsock ncrypt ndfapi netapi32 netutils newdev
    ninput normaliz ntdll ntdsapi ntmarta odbc32 odbccp32 ole32 oleacc oleaut32 oledlg opengl32
    pdh powrprof profapi propsys psapi query qwave rasapi32 resutils rpcns4 rpcrt4 rstrtmgr
    samcli sas schannel sechost secur32 security sensapi setupapi sfc shcore shell32 shfolder
    shlwapi snmpapi spoolss srvcli sspicli synchronization t2embed tapi32 taskschd tbs tdh
    traffic twinapi txfw32 ucrtbase uiautomationcore urlmon user32 userenv usp10 uxtheme version
    virtdisk vssapi wdsclientapi webauthn webservices wer wevtapi wimgapi win32u windows.storage
    windowscodecs winhttp wininet winmm winscard winspool.drv winsta wintrust wkscli wlanapi
    wldap32 wldp wow32 ws2_32 wsnmp32 wsock32 wtsapi32 xinput1_4 xinput9_1_0 xmllite xolehlp
    xpsprint
    """.split()  # noqa: SIM905  # a list of words is read more easily as text
)
_CONTRACTS = pattern(r"(?:api|ext)-ms-.*\.dll")
_OF_PYTHON = pattern(r"(?:python3\d*t?|vcruntime140(?:_1)?)\.dll")
"""Libraries of Python's own installation."""
_RUNTIME = pattern(r"(?:msvcp140(?:_\w+)?|concrt140|vcomp140|vccorlib140|mfc140u?)\.dll")
"""Libraries of the Visual C++ runtime, which many machines have, but not all."""
_WINDOWS_DRIVERS = pattern(
    r"(?:nvcuda|nvml|nvcuvid|nvencodeapi64|nvoptix|opencl|ze_loader|amdhip64(?:_\d+)?|vulkan-1)\.dll"
)


def origin_of(name: str) -> str | None:
    """Return the origin of a library that a wheel may leave out; None: it has none.

    >>> origin_of("KERNEL32.dll"), origin_of("msvcp140.dll"), origin_of("zlib1.dll")
    ('Windows', 'the Visual C++ runtime', None)
    """
    name = name.lower()
    if name.removesuffix(".dll") in _WINDOWS or _CONTRACTS.fullmatch(name):
        return "Windows"
    if _OF_PYTHON.fullmatch(name):
        return "Python"
    if _RUNTIME.fullmatch(name):
        return "the Visual C++ runtime"
    return "drivers" if _WINDOWS_DRIVERS.fullmatch(name) else None
