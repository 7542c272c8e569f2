"""Detect the supported x86-64 level and flags (P-100 to P-107)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.platforms import overrides
from wheelfit_runtime.platforms.facts import Cpu, CpuidTable
from wheelfit_runtime.platforms.features import Detection, Evidence, FeatureConfig
from wheelfit_runtime.platforms.probes import proc_cpuinfo, sysctl, windows_features
from wheelfit_runtime.platforms.provider import BuiltInProvider, answer
from wheelfit_runtime.platforms.providers.x86_64 import instruction, probes, quick_look, tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit_runtime.platforms.system_view import SystemView

NAMESPACE = "x86_64"

_LEVELS = tuple(name for name, _ in reversed(tables.LEVELS))  # v4 first
_FLAGS = (*tables.FEATURES, *tables.APPENDED)


def _find(view: SystemView, overridden: Mapping[str, tuple[str, ...]]) -> Detection:
    del overridden
    if view.architecture != NAMESPACE:  # P-104
        evidence = Evidence("interpreter architecture", view.architecture)
        return answer(NAMESPACE, evidence=(evidence,))
    override = _conda_override(view)
    if override is None:
        cpu = read(view)
    else:
        level, variable = override
        cpu = of_level(level)._replace(evidence=(overrides.shown_override(variable),))
    return supported(cpu, reference=view.reference)


def _conda_override(view: SystemView) -> tuple[str, Evidence] | None:
    return overrides.conda_processor(view, NAMESPACE, tables.ARCHSPEC, _LEVELS[-1])


def _override_evidence(view: SystemView) -> tuple[Evidence, ...]:
    override = _conda_override(view)
    if override is None:
        return ()
    _, variable = override
    return (variable,)


def of_level(level: str) -> Cpu:
    """Return a processor with only the flags of a level and of the lower ones (psABI).

    :param level: as ``v3``.
    """
    flags = frozenset(("mmx", "sse", "sse2"))
    for name, added in tables.LEVELS:
        flags |= added
        if name == level:
            break
    return Cpu(flags | frozenset(["xsave"]) if "avx" in flags else flags)


def supported(cpu: Cpu, *, reference: bool = False) -> Detection:
    """Return level and flags of a processor, in the reference plugin's order.

    :param reference: whether to omit flags unknown to the reference plugin (P-43).
    """
    if cpu.flags is None:  # P-104
        warning = "the features of the processor could not be detected; only x86-64 v1 is assumed"
        return answer(
            NAMESPACE,
            (FeatureConfig(quick_look.FEATURE, ("v1",)),),
            evidence=cpu.evidence,
            warnings=(*cpu.warnings, warning),
        )
    features = tables.FEATURES if reference else _FLAGS
    return answer(
        NAMESPACE,
        (
            FeatureConfig(quick_look.FEATURE, quick_look.levels_of(cpu.flags)),
            *(FeatureConfig(flag, ("on",)) for flag in features if flag in cpu.flags),
        ),
        evidence=cpu.evidence,
        warnings=cpu.warnings,
    )


def read(view: SystemView) -> Cpu:
    """Read the processor from the sources of this kind of system (P-105 to P-107)."""
    if view.system == "Darwin":
        return probes.parse_macos(sysctl.read(view, probes.MACOS_NAMES))
    table = probes.read_cpuid(view)
    if table is None and view.system == "Windows":
        numbers = windows_features.read(view)
        if numbers is not None:
            return _from_windows(numbers)
    text = view.read_text(proc_cpuinfo.PATH) if view.system == "Linux" else None
    info = proc_cpuinfo.parse(text or "", "flags")
    if info.flags is None:
        # There is no file, or an emulator shows that of a host that is not x86.
        return from_cpuid(table)
    return _without_unconfirmed_flags(info, table)


def _without_unconfirmed_flags(info: proc_cpuinfo.CpuInfo, table: CpuidTable | None) -> Cpu:
    """Return the processor in the file, without flags that the instruction lacks (P-105)."""
    flags = info.flags or frozenset()
    evidence = [Evidence(proc_cpuinfo.PATH, "flags: " + " ".join(sorted(flags)))]
    if info.differ:
        text = "the processors differ; only features of all of them count"
        evidence.append(Evidence(proc_cpuinfo.PATH, text))
    if table is None:
        return Cpu(flags, evidence=tuple(evidence))
    allowed = probes.parse_cpuid(table)
    unconfirmed = instruction.unconfirmed(flags, allowed)
    if not unconfirmed:
        return Cpu(flags, evidence=tuple(evidence))
    evidence.append(Evidence("CPUID", _shown(table)))
    text = (
        f"{proc_cpuinfo.PATH} lists {', '.join(sorted(unconfirmed))}, but the processor denies it "
        "(an emulator?); only features in both are used"
    )
    return Cpu(flags - unconfirmed, evidence=tuple(evidence), warnings=(text,))


def from_cpuid(table: CpuidTable | None) -> Cpu:
    """Return the processor described by the instruction's answers (P-107)."""
    if table is None:
        return Cpu(evidence=(Evidence("CPUID", "not available"),))
    return Cpu(probes.parse_cpuid(table), evidence=(Evidence("CPUID", _shown(table)),))


def _from_windows(feature_numbers: frozenset[int]) -> Cpu:
    """Return the few facts from Windows, where the instruction may not be issued (P-107)."""
    numbers = " ".join(map(str, sorted(feature_numbers)))
    warning = (
        "this system refuses to run the CPUID instruction, and Windows has too few facts about "
        "the processor; only x86-64 v1 is assumed"
    )
    return Cpu(
        windows_features.parse(feature_numbers, tables.WINDOWS_FEATURES),
        evidence=(
            Evidence("CPUID", "not available"),
            Evidence(windows_features.NAME, numbers),
        ),
        warnings=(warning,),
    )


def _shown(table: CpuidTable) -> str:
    leaves = " ".join(
        f"{leaf:x}.{subleaf}={':'.join(f'{register:08x}' for register in registers)}"
        for (leaf, subleaf), registers in sorted(table.leaves.items())
    )
    return f"{leaves} xcr0={'none' if table.xcr0 is None else hex(table.xcr0)}"


PROVIDER = BuiltInProvider(
    NAMESPACE,
    tables.DATA_VERSION,
    _find,
    {quick_look.FEATURE: _LEVELS.__contains__, **dict.fromkeys(_FLAGS, "on".__eq__)},
    overrides=_override_evidence,
)
