"""The 64-bit Arm processors that presets may name."""

from __future__ import annotations

# ruff: noqa: SIM905  # long lists of words are easier to compare with their source as text
from typing import TYPE_CHECKING

from wheelfit_runtime.platforms.facts import Cpu
from wheelfit_runtime.platforms.preset_parts import ProcessorRow
from wheelfit_runtime.platforms.providers.aarch64 import provider
from wheelfit_runtime.platforms.providers.aarch64.record import FAMILY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit_runtime.platforms.features import Detection


# The CPU features that macOS 12 reports for an M1 and an M2, and macOS 14 for an M3; later releases
# report more.
_APPLE_FLAGS = frozenset(
    """
    aes asimd asimddp asimdfhm asimdhp asimdrdm atomics crc32 dcpodp dcpop ecv fcma flagm
    flagm2 fp fphp frint ilrcpc jscvt lrcpc paca pacg pmull sb sha1 sha2 sha3 sha512 ssbs uscat
    """.split()
)


def _row(version: str, description: str) -> ProcessorRow:
    # On other systems than Linux only the baseline is detected.
    return ProcessorRow(FAMILY.namespace, provider.of_version(version), description, "Linux")


def _apple(brand: str, *added: str) -> ProcessorRow:
    cpu = Cpu(_APPLE_FLAGS.union(added), brand=brand)
    return ProcessorRow(FAMILY.namespace, cpu, brand, "Darwin")


PROCESSORS: Mapping[str, ProcessorRow] = {
    "aarch64": _row("8a", "any 64-bit Arm processor"),
    "aarch64-8.1a": _row("8.1a", "Armv8.1 (ThunderX2)"),
    "aarch64-8.2a": _row("8.2a", "Armv8.2 (Neoverse N1, Graviton 2)"),
    "aarch64-8.3a": _row("8.3a", "Armv8.3"),
    "aarch64-8.4a": _row("8.4a", "Armv8.4 (Neoverse V1, Graviton 3)"),
    "aarch64-8.5a": _row("8.5a", "Armv8.5"),
    "aarch64-9.0a": _row("9.0a", "Armv9.0 (Neoverse V2, Graviton 4, Grace)"),
    "apple-m1": _apple("Apple M1"),
    "apple-m2": _apple("Apple M2", "bf16", "bti", "i8mm"),
    "apple-m3": _apple("Apple M3", "bf16", "bti", "dit", "i8mm"),
}
"""By the name in a preset."""


def detect(cpu: Cpu, system: str) -> Detection:
    """Return the detection of a processor with known facts."""
    return provider.supported(cpu, bits_decide=system == "Linux")
