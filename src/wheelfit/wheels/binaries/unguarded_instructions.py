"""Code for newer processors that runs without a check of the processor (P-102).

A wheel built with ``-march=native`` crashes on other machines with an illegal instruction. Its code
looks like that of libraries which choose functions by the processor at run time. The evidence is:

1. newer instructions in functions that the loader and Python call on every processor;
2. no code for older processors: a compiler that may use AVX uses it for all vectors and
   floating-point numbers;
3. no code in the wheel that detects the processor.

A file whose path names a processor, such as ``lib_avx2.so``, is one of several to choose from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.wheels.binaries.facts import LEVELS, Binary, is_below
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


_V3_FEATURES = frozenset(["abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"])
_NAMED_FOR = pattern(
    r"(?:^|[^a-z])(?:avx|fma|sse|amx|bmi|haswell|broadwell|skylake|icelake|cannonlake|cascadelake|"
    r"cooperlake|alderlake|sapphirerapids|spr|zen[1-9]|x86[-_]64[-_]v[34]|v[34])(?![a-z])"
)
_MIN_AVX_PER_SSE = 50
"""AVX instructions for each of SSE; code of another compiler may add some of SSE."""
_MIN_COUNT = 16
"""Fewer instructions of a higher level may be data among the code."""


class UnguardedCode(Struct, frozen=True):
    """Code of a binary that needs a higher level than the wheel claims."""

    member: str
    level: str
    """The highest level that it needs."""
    count: int
    """Instructions of levels above the claimed one."""
    reason: str
    """The reason it runs on every processor, as the end of a sentence."""

    def __str__(self) -> str:
        noun = "instruction" if self.count == 1 else "instructions"
        return f"{self.member} has {self.count:,} {noun} up to {self.level}, {self.reason}"


def claimed_level(features: Mapping[str, Iterable[str]]) -> str | None:
    """Return the level that a wheel claims to need; None: unknown.

    >>> claimed_level({"level": ["v3", "v2"]}), claimed_level({"avx2": ["on"]}), claimed_level({})
    ('v2', 'v3', 'v1')
    """
    if "level" in features:
        return min((value for value in features["level"] if value in LEVELS), default=None)
    if any(name.startswith("avx512") for name in features):
        return "v4"
    return "v1" if _V3_FEATURES.isdisjoint(features) else "v3"


def unguarded_code(
    binaries: Iterable[Binary], claimed: str = "v1", *, is_whole: bool = True
) -> tuple[UnguardedCode, ...]:
    """Return binaries whose instructions need a higher level than claimed.

    Binaries without counted instructions are left out.

    :param is_whole: whether these are all binaries of the wheel; a missing one may detect the
        processor.
    """
    uses = [(binary, binary.levels.use) for binary in binaries if binary.levels.use is not None]
    may_detect = not is_whole or any(use.detects_processor for _, use in uses)
    unguarded = []
    for binary, use in uses:
        at_start = _above(use.at_start, claimed)
        newer = _above(use.newer, claimed)
        if not newer or _NAMED_FOR.search(binary.member.lower()):
            continue
        if at_start:
            number = sum(count for _, count in at_start)
            reason = f"{number:,} of them in functions that the loader or Python calls"
        elif is_below(claimed, "v3") and use.avx >= max(_MIN_COUNT, use.sse * _MIN_AVX_PER_SSE):
            # The share proves nothing for v4: that code may still be guarded.
            newer = [(level, count) for level, count in newer if level == "v3"] or newer
            reason = f"which leaves {use.sse:,} instructions of SSE for other processors"
        elif not may_detect and sum(count for _, count in newer) >= _MIN_COUNT:
            reason = "and no code in the wheel detects the processor"
        else:
            continue
        level = max(level for level, _ in at_start or newer)
        count = sum(number for needed, number in newer if not is_below(level, needed))
        unguarded.append(UnguardedCode(binary.member, level, count, reason))
    return tuple(unguarded)


def _above(counts: Iterable[tuple[str, int]], claimed: str) -> list[tuple[str, int]]:
    return [(level, count) for level, count in counts if count and is_below(claimed, level)]
