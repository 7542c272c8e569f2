"""Ask macOS what its processor can do, through ``sysctlbyname`` (P-106, P-112)."""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING

from wheelfit.platforms.facts import Cpu
from wheelfit.platforms.features import Evidence
from wheelfit.platforms.tables import aarch64, x86_64

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.platforms.surroundings import Surroundings

__all__ = ["ARM_NAMES", "TRANSLATED", "X86_NAMES", "parse_arm", "parse_x86", "read"]


def __dir__() -> list[str]:
    return __all__


TRANSLATED = "sysctl.proc_translated"
"""What tells whether the process that asks runs through Rosetta 2."""

_BRAND = "machdep.cpu.brand_string"

X86_NAMES: tuple[str, ...] = (
    "machdep.cpu.features",
    "machdep.cpu.leaf7_features",
    "machdep.cpu.extfeatures",
    _BRAND,
    TRANSLATED,
)
"""What :func:`parse_x86` wants to know."""

_ARM_PREFIX = "hw.optional."

ARM_NAMES: tuple[str, ...] = (
    _BRAND,
    *(_ARM_PREFIX + name for name in aarch64.MACOS_FLAGS),
)
"""What :func:`parse_arm` wants to know."""


def read(surroundings: Surroundings, names: tuple[str, ...]) -> dict[str, bytes]:
    """Return the raw answers by name; what the system does not know is absent.

    :param names: names as ``hw.optional.arm.FEAT_LSE``.
    """
    if surroundings.recorded_sysctl is not None:
        recorded = surroundings.recorded_sysctl
        return {name: recorded[name] for name in names if name in recorded}
    if not surroundings.is_real or sys.platform != "darwin":
        return {}
    return _ask_system(names)


def _ask_system(names: tuple[str, ...]) -> dict[str, bytes]:
    try:
        ask = ctypes.CDLL(None).sysctlbyname
    except (OSError, AttributeError):
        return {}
    found = {}
    for name in names:
        size = ctypes.c_size_t(0)
        if ask(name.encode(), None, ctypes.byref(size), None, ctypes.c_size_t(0)):
            continue
        buffer = ctypes.create_string_buffer(size.value)
        if not ask(name.encode(), buffer, ctypes.byref(size), None, ctypes.c_size_t(0)):
            found[name] = buffer.raw[: size.value]
    return found


def parse_x86(answers: Mapping[str, bytes]) -> Cpu:
    """Read the three lists of feature names (P-106).

    :param answers: what :func:`read` returned for :data:`X86_NAMES`.
    """
    words: list[str] = []
    for name in X86_NAMES[:3]:
        words += _text(answers, name).lower().split()
    flags = {x86_64.MACOS_FLAGS.get(word, word) for word in words}
    warnings: tuple[str, ...] = ()
    if flags and _is_on(answers, TRANSLATED):
        flags -= x86_64.NOT_TRANSLATED
        warnings = ("this Python is translated by Rosetta; AVX and newer are left out",)
    return Cpu(
        flags=frozenset(flags) or None,
        brand=_text(answers, _BRAND),
        evidence=_evidence(answers),
        warnings=warnings,
    )


def parse_arm(answers: Mapping[str, bytes]) -> Cpu:
    """Read the switches below ``hw.optional`` and the brand name.

    :param answers: what :func:`read` returned for :data:`ARM_NAMES`.
    """
    flags = {
        flag
        for name, known in aarch64.MACOS_FLAGS.items()
        if _is_on(answers, _ARM_PREFIX + name)
        for flag in known
    }
    return Cpu(
        flags=frozenset(flags) or None,
        brand=_text(answers, _BRAND),
        evidence=_evidence(answers),
    )


def _evidence(answers: Mapping[str, bytes]) -> tuple[Evidence, ...]:
    return tuple(Evidence(f"sysctl {name}", _shown(answers[name])) for name in sorted(answers))


def _shown(raw: bytes) -> str:
    if len(raw) in (4, 8) and not raw.rstrip(b"\0").isalnum():
        return str(int.from_bytes(raw, "little"))
    return raw.rstrip(b"\0").decode("utf-8", "replace")


def _text(answers: Mapping[str, bytes], name: str) -> str:
    return answers.get(name, b"").rstrip(b"\0").decode("utf-8", "replace").strip()


def _is_on(answers: Mapping[str, bytes], name: str) -> bool:
    return int.from_bytes(answers.get(name, b""), "little") == 1
