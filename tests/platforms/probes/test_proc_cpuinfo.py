"""``/proc/cpuinfo`` of x86 and Arm."""

from __future__ import annotations

from wheelfit_runtime.platforms.facts import Core
from wheelfit_runtime.platforms.probes import proc_cpuinfo


def test_flags_are_those_of_every_processor() -> None:
    """P-105: the intersection counts, and pni is sse3."""
    info = proc_cpuinfo.parse(
        "processor\t: 0\nflags\t\t: fpu pni avx2 avx\nvmx flags\t: vnmi\n\n"
        "processor\t: 1\nflags\t\t: fpu pni avx\n",
        "flags",
    )
    assert info.flags == frozenset({"fpu", "sse3", "avx"})
    assert info.differ


def test_kinds_of_core_are_collected() -> None:
    """P-114: every kind of core is known, each with its own implementer."""
    info = proc_cpuinfo.parse(
        "Features : fp asimd\nCPU implementer : 0x41\nCPU part : 0xd0c\n"
        "Features : fp asimd\nCPU implementer : 0x41\nCPU part : 0xd05\n"
        "Features : fp asimd\nCPU implementer : 0x61\nCPU part : 0x032\n",
        "Features",
    )
    assert info.cores == (Core(0x41, 0xD05), Core(0x41, 0xD0C), Core(0x61, 0x032))
    assert info.flags == frozenset({"fp", "asimd"})
    assert not info.differ


def test_a_file_without_flags_says_so() -> None:
    """P-104: no flags is not the same as no abilities."""
    for text in (
        "",
        "nonsense",
        "flags\n",
        "flags :\n",
        "Features : fp\n",
        "CPU part : 0xd0c\nCPU implementer: x\n",
    ):
        info = proc_cpuinfo.parse(text, "flags")
        assert (info.flags, info.cores) == (None, ())
