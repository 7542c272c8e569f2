"""Detect which x86-64 level and which flags this machine supports (P-100 to P-107).

Reachable as a PEP 850 plugin: ``wheelfit_runtime.platforms.providers.x86_64.provider:PROVIDER``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit_runtime.platforms import overrides
from wheelfit_runtime.platforms.facts import Cpu
from wheelfit_runtime.platforms.features import Evidence, FeatureConfig
from wheelfit_runtime.platforms.probes import proc_cpuinfo, sysctl, windows_features
from wheelfit_runtime.platforms.provider import BuiltInProvider, answer
from wheelfit_runtime.platforms.providers.x86_64 import instruction, probes, quick_look, tables

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit_runtime.platforms.facts import CpuidTable
    from wheelfit_runtime.platforms.features import Detection
    from wheelfit_runtime.platforms.system_view import SystemView

NAMESPACE = "x86_64"

_LEVELS = tuple(name for name, _ in reversed(tables.LEVELS))  # v4 first
_FLAGS = (*tables.FEATURES, *tables.APPENDED)


def _find(view: SystemView, own: Mapping[str, tuple[str, ...]]) -> Detection:
    del own
    if view.architecture != NAMESPACE:  # P-104
        seen = Evidence("interpreter architecture", view.architecture)
        return answer(NAMESPACE, evidence=(seen,))
    stated = _stated(view)
    cpu = of_level(stated[0]) if stated else read(view)
    cpu = cpu._replace(evidence=(overrides.shown_override(stated[1]),)) if stated else cpu
    return supported(cpu, reference=view.reference)


def _stated(view: SystemView) -> tuple[str, Evidence] | None:
    """Return the level that conda's variable states; None: it concerns no such processor."""
    if view.architecture != NAMESPACE:
        return None
    return overrides.conda_processor(view.environ, tables.ARCHSPEC, _LEVELS[-1])


def of_level(level: str) -> Cpu:
    """Return a processor with the flags of a level and of the lower ones (psABI), and no others.

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

    :param reference: leave out the flags that the reference does not know (P-43).
    """
    if cpu.flags is None:  # P-104
        words = "the processor's abilities could not be found out; only x86-64 v1 is assumed"
        return answer(
            NAMESPACE,
            (FeatureConfig(quick_look.FEATURE, ("v1",)),),
            evidence=cpu.evidence,
            warnings=(*cpu.warnings, words),
        )
    known = tables.FEATURES if reference else _FLAGS
    return answer(
        NAMESPACE,
        (
            FeatureConfig(quick_look.FEATURE, quick_look.levels_of(cpu.flags)),
            *(FeatureConfig(flag, ("on",)) for flag in known if flag in cpu.flags),
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
        affirmed = windows_features.read(view)
        if affirmed is not None:
            return _from_windows(affirmed)
    text = proc_cpuinfo.read(view) if view.system == "Linux" else None
    if text is None:
        return from_cpuid(table)
    info = proc_cpuinfo.parse(text, "flags")
    if info.flags is None:
        # An emulator shows the file of a host that is not x86 at all.
        return from_cpuid(table)
    return _compared(info, table)


def _compared(info: proc_cpuinfo.CpuInfo, table: CpuidTable | None) -> Cpu:
    """Return the processor in the file, without flags the instruction denies (P-105)."""
    flags = info.flags or frozenset()
    evidence = [Evidence(proc_cpuinfo.PATH, "flags: " + " ".join(sorted(flags)))]
    if info.differ:
        words = "the processors differ; what all of them can do is taken"
        evidence.append(Evidence(proc_cpuinfo.PATH, words))
    if table is None:
        return Cpu(flags, evidence=tuple(evidence))
    allowed = probes.parse_cpuid(table)
    denied = instruction.denied(flags, allowed)
    if not denied:
        return Cpu(flags, evidence=tuple(evidence))
    evidence.append(Evidence("CPUID", _shown(table)))
    words = (
        f"{proc_cpuinfo.PATH} lists {', '.join(sorted(denied))}, but the processor denies it "
        "(an emulator?); only what both say is used"
    )
    return Cpu(flags - denied, evidence=tuple(evidence), warnings=(words,))


def from_cpuid(table: CpuidTable | None) -> Cpu:
    """Return the processor described by the instruction's answers (P-107)."""
    if table is None:
        return Cpu(evidence=(Evidence("CPUID", "could not be asked"),))
    return Cpu(probes.parse_cpuid(table), evidence=(Evidence("CPUID", _shown(table)),))


def _from_windows(affirmed: frozenset[int]) -> Cpu:
    """Return the few facts from Windows, where the instruction may not be issued (P-107)."""
    numbers = " ".join(map(str, sorted(affirmed)))
    words = (
        "this system refuses to run the CPUID instruction, and Windows tells too little of "
        "the processor; only x86-64 v1 is assumed"
    )
    return Cpu(
        windows_features.parse(affirmed, tables.WINDOWS_FEATURES),
        evidence=(
            Evidence("CPUID", "could not be asked"),
            Evidence(windows_features.NAME, numbers),
        ),
        warnings=(words,),
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
    others=lambda view: (_stated(view) or ())[1:],
)
