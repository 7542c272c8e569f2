"""Read facts about the processor from macOS, through ``sysctlbyname`` (P-106, P-112)."""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.features import Evidence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit_runtime.platforms.system_view import SystemView

TRANSLATED = "sysctl.proc_translated"
"""Whether this process runs through Rosetta 2."""

BRAND = "machdep.cpu.brand_string"
"""The vendor's name of the processor."""


def read(view: SystemView, names: tuple[str, ...]) -> dict[str, bytes]:
    """Return the raw answers by name; unknown names are absent."""
    if view.recorded_sysctl is not None:
        recorded = view.recorded_sysctl
        return {name: recorded[name] for name in names if name in recorded}
    if not view.is_real or sys.platform != "darwin":
        return {}
    return _ask_system(names)


def _ask_system(names: tuple[str, ...]) -> dict[str, bytes]:
    try:
        ask = ctypes.CDLL(None).sysctlbyname
    except (OSError, AttributeError):
        return {}
    values = {}
    for name in names:
        size = ctypes.c_size_t(0)
        if ask(name.encode(), None, ctypes.byref(size), None, ctypes.c_size_t(0)):
            continue
        buffer = ctypes.create_string_buffer(size.value)
        if not ask(name.encode(), buffer, ctypes.byref(size), None, ctypes.c_size_t(0)):
            values[name] = buffer.raw[: size.value]
    return values


def evidence(answers: Mapping[str, bytes]) -> tuple[Evidence, ...]:
    """Return the answers as evidence, by name."""
    return tuple(Evidence(f"sysctl {name}", _shown(answers[name])) for name in sorted(answers))


def _shown(raw: bytes) -> str:
    """Return an answer as text: a number if it has the size of one and is no word."""
    if len(raw) in (4, 8) and not raw.rstrip(b"\0").isalnum():
        return str(int.from_bytes(raw, "little"))
    return raw.rstrip(b"\0").decode("utf-8", "replace")


def text(answers: Mapping[str, bytes], name: str) -> str:
    """Return an answer as text; empty when there is none."""
    return answers.get(name, b"").rstrip(b"\0").decode("utf-8", "replace").strip()


def is_on(answers: Mapping[str, bytes], name: str) -> bool:
    """Return whether an answer is the number 1."""
    return int.from_bytes(answers.get(name, b""), "little") == 1
