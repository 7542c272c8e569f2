"""Detect the supported Armv8/Armv9 version and CPU features (P-110 to P-115)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms import overrides
from wheelfit_runtime.platforms.facts import Core, Cpu
from wheelfit_runtime.platforms.features import Detection, Evidence, FeatureConfig
from wheelfit_runtime.platforms.probes import proc_cpuinfo, sysctl, windows_features
from wheelfit_runtime.platforms.provider import BuiltInProvider, answer
from wheelfit_runtime.platforms.providers.aarch64 import probes, tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit_runtime.platforms.system_view import SystemView

NAMESPACE = "aarch64"

_VERSION = "version"
_VERSIONS = tables.VERSIONS  # newest first
_FEATURES = (*tables.FEATURES, *tables.APPENDED)
_LAST_FROM_BITS = "8.4a"  # P-112: no bit shows the other additions of 8.5
_FIRST_OF_CORES = "8.5a"
_BASELINE = "8a"

_APPLE = re.compile(r"Apple ([AM])([0-9]+)\b")


def _find(view: SystemView, overridden: Mapping[str, tuple[str, ...]]) -> Detection:
    del overridden
    if view.architecture != NAMESPACE:
        evidence = Evidence("interpreter architecture", view.architecture)
        return answer(NAMESPACE, evidence=(evidence,))
    override = _conda_override(view)
    if override is None:
        cpu = read(view)
    else:
        version, variable = override
        cpu = of_version(version)._replace(evidence=(overrides.shown_override(variable),))
    bits_decide = view.system == "Linux" or override is not None
    return supported(cpu, bits_decide=bits_decide, reference=view.reference)


def _conda_override(view: SystemView) -> tuple[str, Evidence] | None:
    return overrides.conda_processor(view, NAMESPACE, tables.ARCHSPEC, _BASELINE)


def _override_evidence(view: SystemView) -> tuple[Evidence, ...]:
    override = _conda_override(view)
    return () if override is None else override[1:]


def of_version(version: str) -> Cpu:
    """Return a processor with only the required features of an architecture version.

    :param version: as ``8.2a``.
    """
    flags = frozenset(["fp", "asimd"])
    for name, added in tables.REQUIREMENTS:
        flags |= added
        if name == version:
            break
    # From 8.5 on the bits are not enough (P-113); the Neoverse N2 is in the table of cores.
    cores = (Core(0x41, 0xD49),) if _is_newer(version, _LAST_FROM_BITS) else ()
    return Cpu(flags, cores)


def supported(cpu: Cpu, *, bits_decide: bool = True, reference: bool = False) -> Detection:
    """Return version and features of a processor, in the reference plugin's order.

    :param bits_decide: whether the feature bits show versions up to 8.4a, as on Linux (P-112);
        otherwise the table of cores does, and an unknown core is 8a.
    :param reference: whether to omit features unknown to the reference plugin (P-43).
    """
    version = _version(cpu, bits_decide=bits_decide)
    flags = cpu.flags or frozenset()
    features = tables.FEATURES if reference else _FEATURES
    warnings = cpu.warnings
    if cpu.flags is None:
        warning = "the features of the processor could not be detected; only 8a is assumed"
        warnings = (*warnings, warning)
    return answer(
        NAMESPACE,
        (
            FeatureConfig(_VERSION, _VERSIONS[_VERSIONS.index(version) :]),
            *(FeatureConfig(name, ("on",)) for name in features if name in flags),
        ),
        evidence=(*cpu.evidence, *_evidence_of_limit(cpu, version, bits_decide=bits_decide)),
        warnings=warnings,
    )


def _evidence_of_limit(cpu: Cpu, version: str, *, bits_decide: bool) -> tuple[Evidence, ...]:
    """Return evidence of the obstacle to a newer version: hidden features, or an unknown core."""
    core_version = _version_of_core(cpu)
    if core_version is not None:
        if cpu.flags is None or not _is_newer(core_version, version):
            return ()
        following = _VERSIONS[_VERSIONS.index(version) - 1]
        missing = sorted(dict(tables.REQUIREMENTS)[following] - cpu.flags)
        obstacle = f"the core is {core_version}, but hidden for {following}: {', '.join(missing)}"
        return (Evidence("table of cores", obstacle),)
    if bits_decide:
        needed = dict(tables.REQUIREMENTS)[_FIRST_OF_CORES]
        if version != _LAST_FROM_BITS or not needed <= (cpu.flags or frozenset()):
            return ()
        unknown = [str(core) for core in cpu.cores if core not in tables.CORE_VERSIONS]
        obstacle = f"unknown: {', '.join(unknown)}" if unknown else "no core was identified"
    elif cpu.brand:
        obstacle = f"{cpu.brand!r} names no kind of core"
    else:
        return ()
    return (Evidence("table of cores", f"{obstacle}; nothing newer than {version} is sure"),)


def _version(cpu: Cpu, *, bits_decide: bool) -> str:
    """Return the highest version whose requirements are all met (P-112, P-113)."""
    flags = cpu.flags or frozenset()
    core_version = _version_of_core(cpu)
    highest = _BASELINE
    for version, needed in tables.REQUIREMENTS:
        has_bits = needed <= flags
        if _is_newer(version, _LAST_FROM_BITS):
            is_met = has_bits and core_version is not None and not _is_newer(version, core_version)
        elif bits_decide:
            is_met = has_bits
        else:
            # Older systems do not report all features.
            is_met = not _is_newer(version, core_version or _BASELINE)
        if not is_met:
            break
        highest = version
    return highest


def _version_of_core(cpu: Cpu) -> str | None:
    """Return the version of the weakest core in the table; None if one is unknown (P-114)."""
    if cpu.cores:
        versions = [tables.CORE_VERSIONS.get(core) for core in cpu.cores]
        known_versions = [version for version in versions if version is not None]
        return (
            max(known_versions, key=_VERSIONS.index)
            if len(known_versions) == len(versions)
            else None
        )
    chip = _APPLE.match(cpu.brand)  # "Apple processor" identifies nothing
    if chip is None:
        return None
    generations = tables.APPLE_CORES[chip[1]]
    return generations.get(min(int(chip[2]), max(generations)))


def _is_newer(version: str, other: str) -> bool:
    return _VERSIONS.index(version) < _VERSIONS.index(other)


def read(view: SystemView) -> Cpu:
    """Read the processor from the sources of this kind of system."""
    if view.system == "Darwin":
        return probes.parse_macos(sysctl.read(view, probes.MACOS_NAMES))
    if view.system == "Linux":
        return _read_linux(view)
    evidence = Evidence(view.system, "has too few facts about the processor")
    numbers_present = windows_features.read(view) if view.system == "Windows" else None
    if numbers_present is None:
        return Cpu(flags=frozenset(), evidence=(evidence,))
    numbers = " ".join(map(str, sorted(numbers_present)))
    flags = windows_features.parse(numbers_present, tables.WINDOWS_FEATURES)
    return Cpu(flags, evidence=(Evidence(windows_features.NAME, numbers), evidence))


def _read_linux(view: SystemView) -> Cpu:
    evidence: list[Evidence] = []
    vector, source = view.read_bytes(probes.AUXV), probes.AUXV
    if vector is None and view.is_real:
        vector, source = probes.ask_library(), probes.GETAUXVAL
    hwcap = probes.parse_auxv(vector) if vector else None
    text = view.read_text(proc_cpuinfo.PATH)
    info = proc_cpuinfo.parse(text, "Features") if text is not None else None
    flags = None
    if hwcap is not None:
        flags = hwcap.names
        detail = f"HWCAP {hwcap.first:#x}, HWCAP2 {hwcap.second:#x}"
        evidence.append(Evidence(source, detail))
    elif info is not None and info.flags is not None:
        flags = info.flags
        detail = "Features: " + " ".join(sorted(info.flags))
        evidence.append(Evidence(proc_cpuinfo.PATH, detail))
    cores, path = (info.cores, proc_cpuinfo.PATH) if info is not None else ((), "")
    if not cores:
        cores, path = probes.parse_midr(probes.read_midr(view)), probes.CPU_FOLDER
    if cores:
        evidence.append(Evidence(path, "cores " + ", ".join(str(core) for core in cores)))
    return Cpu(flags, cores, evidence=tuple(evidence))


PROVIDER = BuiltInProvider(
    NAMESPACE,
    tables.DATA_VERSION,
    _find,
    {_VERSION: _VERSIONS.__contains__, **dict.fromkeys(_FEATURES, "on".__eq__)},
    overrides=_override_evidence,
)
