"""The tables of 64-bit Arm processors (P-110 to P-115)."""
# ruff: noqa: SIM905  # long lists of words are easier to compare with their source as text

from __future__ import annotations

from wheelfit_runtime.platforms.facts import Core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

DATA_VERSION = "2026-11"

VERSIONS: tuple[str, ...] = ("9.0a", "8.5a", "8.4a", "8.3a", "8.2a", "8.1a", "8a")

# P-110: the reference plugin's order, with its two typing errors corrected.
FEATURES: tuple[str, ...] = tuple(
    """
    sve2 flagm2 frint sb bti ecv paca pacg ssbs asimdfhm bf16 dcpodp dgh dit flagm i8mm ilrcpc jscvt
    rng sha3 sha512 svebf16 svei8mm uscat asimddp lrcpc asimdhp dcpop fcma fphp sve asimdrdm atomics
    aes asimd cpuid crc32 evtstrm fp pmull sha1 sha2
    """.split()
)

# P-110: values of the reference plugin without a comma between them.
MISSPELT: Mapping[str, tuple[str, str]] = {
    "btiecv": ("bti", "ecv"),
    "asimdrdmatomics": ("asimdrdm", "atomics"),
}

# P-111: further features of wheelfit.
APPENDED: tuple[str, ...] = tuple(
    "sme sme2 sve2p1 mte mops ebf16 sveaes svebitperm svesha3 svepmull".split()
)

# P-112, P-113: features that each version adds, lowest first.
REQUIREMENTS: tuple[tuple[str, frozenset[str]], ...] = (
    ("8a", frozenset()),
    ("8.1a", frozenset("fp asimd crc32 atomics asimdrdm".split())),
    ("8.2a", frozenset(["dcpop"])),
    ("8.3a", frozenset("jscvt fcma lrcpc paca pacg".split())),
    ("8.4a", frozenset("fphp asimdhp asimddp asimdfhm dit uscat ilrcpc flagm".split())),
    ("8.5a", frozenset("dcpodp flagm2 frint sb ssbs".split())),
    ("9.0a", frozenset(["sve2"])),
)

# The 64-bit Arm processors of archspec-json 0.2.5 to 0.2.7 (cpu/microarchitectures.json), each with
# the newest version that has a name here and is an ancestor; for AmpereOne see P-115.
ARCHSPEC: Mapping[str, str] = {
    **dict.fromkeys("aarch64 cortex_a72".split(), "8a"),
    **dict.fromkeys("armv8.1a thunderx2".split(), "8.1a"),
    **dict.fromkeys("armv8.2a a64fx neoverse_n1".split(), "8.2a"),
    "armv8.3a": "8.3a",
    **dict.fromkeys("armv8.4a neoverse_v1 ampere1 ampere1a m1".split(), "8.4a"),
    **dict.fromkeys("armv8.5a armv8.6a m2 m3 m4".split(), "8.5a"),
    **dict.fromkeys(
        "armv9.0a armv9.2a neoverse_n2 neoverse_v2 neoverse_v3ae olympus".split(), "9.0a"
    ),
}

# P-115; "and newer" of P-113 by the part numbers that the Linux kernel and util-linux know.
CORE_VERSIONS: Mapping[Core, str] = {
    Core(0x41, 0xD0C): "8.2a",  # Neoverse N1
    Core(0x41, 0xD40): "8.4a",  # Neoverse V1
    Core(0x41, 0xD46): "9.0a",  # Cortex-A510
    Core(0x41, 0xD47): "9.0a",  # Cortex-A710
    Core(0x41, 0xD48): "9.0a",  # Cortex-X2
    Core(0x41, 0xD49): "9.0a",  # Neoverse N2
    Core(0x41, 0xD4D): "9.0a",  # Cortex-A715
    Core(0x41, 0xD4E): "9.0a",  # Cortex-X3
    Core(0x41, 0xD4F): "9.0a",  # Neoverse V2
    Core(0x41, 0xD80): "9.0a",  # Cortex-A520
    Core(0x41, 0xD81): "9.0a",  # Cortex-A720
    Core(0x41, 0xD82): "9.0a",  # Cortex-X4
    Core(0x41, 0xD83): "9.0a",  # Neoverse V3AE
    Core(0x41, 0xD84): "9.0a",  # Neoverse V3
    Core(0x41, 0xD85): "9.0a",  # Cortex-X925
    Core(0x41, 0xD87): "9.0a",  # Cortex-A725
    Core(0x41, 0xD88): "9.0a",  # Cortex-A520AE
    Core(0x41, 0xD89): "9.0a",  # Cortex-A720AE
    Core(0x41, 0xD8A): "9.0a",  # C1-Nano
    Core(0x41, 0xD8B): "9.0a",  # C1-Pro
    Core(0x41, 0xD8C): "9.0a",  # C1-Ultra
    Core(0x41, 0xD8E): "9.0a",  # Neoverse N3
    Core(0x41, 0xD8F): "9.0a",  # Cortex-A320
    Core(0x41, 0xD90): "9.0a",  # C1-Premium
    Core(0x42, 0x516): "8.1a",  # ThunderX2
    Core(0x43, 0x0AF): "8.1a",  # ThunderX2
    Core(0x46, 0x001): "8.2a",  # A64FX
    Core(0x4E, 0x010): "9.0a",  # Olympus
    Core(0x51, 0x001): "8.5a",  # Oryon
    **{Core(0x61, part): "8.4a" for part in (*range(0x20, 0x26), 0x28, 0x29)},  # Apple M1
    **{Core(0x61, part): "8.5a" for part in range(0x30, 0x100)},  # Apple M2 and newer
    Core(0x6D, 0xD49): "9.0a",  # Cobalt 100
    Core(0xC0, 0xAC3): "8.4a",  # AmpereOne
    Core(0xC0, 0xAC4): "8.4a",  # AmpereOne
}

# P-113: generations by brand name, for macOS; later ones count as the latest listed.
# The A14 has the cores of the M1, the A15 those of the M2.
APPLE_CORES: Mapping[str, Mapping[int, str]] = {
    "M": {1: "8.4a", 2: "8.5a"},
    "A": {14: "8.4a", 15: "8.5a"},
}

HWCAP_BITS: tuple[str, ...] = tuple(
    """
    fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma lrcpc
    dcpop sha3 sm3 sm4 asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm ssbs sb paca pacg
    """.split()
)
"""Names of the bits of AT_HWCAP, from bit 0."""

HWCAP2_BITS: Mapping[int, str] = {
    0: "dcpodp", 1: "sve2", 2: "sveaes", 3: "svepmull", 4: "svebitperm", 5: "svesha3",
    6: "svesm4", 7: "flagm2", 8: "frint", 9: "svei8mm", 12: "svebf16", 13: "i8mm", 14: "bf16",
    15: "dgh", 16: "rng", 17: "bti", 18: "mte", 19: "ecv", 23: "sme", 32: "ebf16",
    36: "sve2p1", 37: "sme2", 43: "mops",
}  # fmt: skip
"""Names of the bits of AT_HWCAP2."""

# Linux's names of features by those of macOS, without ``hw.optional.``. macOS 12 has only some of
# the names below ``arm.``, and others beside them.
MACOS_FLAGS: Mapping[str, tuple[str, ...]] = {
    "AdvSIMD": ("fp", "asimd"),
    "arm.AdvSIMD": ("fp", "asimd"),
    "armv8_crc32": ("crc32",),
    "arm.FEAT_CRC32": ("crc32",),
    "armv8_1_atomics": ("atomics",),
    "arm.FEAT_LSE": ("atomics",),
    "arm.FEAT_RDM": ("asimdrdm",),
    "arm.FEAT_DPB": ("dcpop",),
    "arm.FEAT_DPB2": ("dcpodp",),
    "arm.FEAT_JSCVT": ("jscvt",),
    "arm.FEAT_FCMA": ("fcma",),
    "arm.FEAT_LRCPC": ("lrcpc",),
    "arm.FEAT_LRCPC2": ("ilrcpc",),
    "arm.FEAT_PAuth": ("paca", "pacg"),
    "arm.FEAT_FP16": ("fphp", "asimdhp"),
    "arm.FEAT_DotProd": ("asimddp",),
    "arm.FEAT_FHM": ("asimdfhm",),
    "arm.FEAT_DIT": ("dit",),
    "arm.FEAT_LSE2": ("uscat",),
    "arm.FEAT_FlagM": ("flagm",),
    "arm.FEAT_FlagM2": ("flagm2",),
    "arm.FEAT_FRINTTS": ("frint",),
    "arm.FEAT_SB": ("sb",),
    "arm.FEAT_SSBS": ("ssbs",),
    "arm.FEAT_BTI": ("bti",),
    "arm.FEAT_ECV": ("ecv",),
    "arm.FEAT_AES": ("aes",),
    "arm.FEAT_PMULL": ("pmull",),
    "arm.FEAT_SHA1": ("sha1",),
    "arm.FEAT_SHA256": ("sha2",),
    "arm.FEAT_SHA512": ("sha512",),
    "arm.FEAT_SHA3": ("sha3",),
    "arm.FEAT_BF16": ("bf16",),
    "arm.FEAT_EBF16": ("ebf16",),
    "arm.FEAT_I8MM": ("i8mm",),
    "arm.FEAT_MTE2": ("mte",),
    "arm.FEAT_SME": ("sme",),
    "arm.FEAT_SME2": ("sme2",),
}

# Numbers of IsProcessorFeaturePresent; far too few to determine a version (section 11).
WINDOWS_FEATURES: Mapping[int, tuple[str, ...]] = {
    29: ("fp", "asimd"),
    30: ("aes", "pmull", "sha1", "sha2"),
    31: ("crc32",),
    34: ("atomics",),
    43: ("asimddp",),
    44: ("jscvt",),
    45: ("lrcpc",),
    46: ("sve",),
    47: ("sve2",),
    48: ("sve2p1",),
    49: ("sveaes",),
    50: ("svepmull",),
    51: ("svebitperm",),
    52: ("svebf16",),
    55: ("svesha3",),
    57: ("svei8mm",),
    62: ("uscat",),
    64: ("sha3",),
    65: ("sha512",),
    66: ("i8mm",),
    67: ("fphp", "asimdhp"),
    68: ("bf16",),
    69: ("ebf16",),
    70: ("sme",),
    71: ("sme2",),
}
