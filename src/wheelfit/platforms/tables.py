"""What is known about processors and GPUs, as data with a date.

Nothing here was found out on this machine. Every table names its rule; unknown
always means the cautious answer.
"""
# ruff: noqa: SIM905  # long lists of words are easier to compare with their source as text

from __future__ import annotations

from types import MappingProxyType

from wheelfit.platforms.facts import Capability, Core

__all__ = [
    "AARCH64_APPENDED",
    "AARCH64_FEATURES",
    "AARCH64_REQUIREMENTS",
    "AARCH64_VERSIONS",
    "APPLE_CORES",
    "CORE_VERSIONS",
    "CPUID_FLAGS",
    "CUDA_CODE_FLOOR",
    "DATA_VERSION",
    "DRIVER_FLOOR",
    "HWCAP2_BITS",
    "HWCAP_BITS",
    "MACOS_ARM_FLAGS",
    "MACOS_X86_FLAGS",
    "NEEDS_AMX_STATE",
    "NEEDS_AVX512_STATE",
    "NEEDS_YMM_STATE",
    "PTX_OF_TOOLKIT",
    "SM_FAMILIES",
    "X86_APPENDED",
    "X86_FEATURES",
    "X86_LEVELS",
]


def __dir__() -> list[str]:
    return __all__


DATA_VERSION = "2026-11"
"""When these tables were last compared with their sources."""

# --- x86-64 ------------------------------------------------------------------------

# P-100: the reference plugin's order, newest first. Part of how wheels are ranked.
X86_FEATURES: tuple[str, ...] = tuple(
    """
    avx_vnni cppc ibrs_enhanced tsc_adjust flush_l1d movdir64b movdiri avx512_bf16 avx512_bitalg
    avx512_vbmi2 avx512_vnni avx512_vp2intersect avx512_vpopcntdq avx512ifma avx512vbmi rdpid sha_ni
    vaes vpclmulqdq clwb clzero avx512bw avx512cd avx512dq avx512f avx512vl clflushopt gfni rdseed
    xsavec xsaveopt adx avx2 avx bmi2 bmi1 abm f16c fma movbe xsave rdrand aes pclmulqdq sse4a
    fsgsbase sse4_2 sse4_1 ssse3 sse3 cx16 lahf_lm popcnt sse2 sse mmx
    """.split()
)

# P-101: ours, after all of the reference.
X86_APPENDED: tuple[str, ...] = tuple(
    """
    amx_tile amx_int8 amx_bf16 amx_fp16 avx512_fp16 avx_ifma avx_ne_convert avx_vnni_int8
    avx_vnni_int16 sha512 sm3 sm4 cmpccxadd serialize waitpkg
    """.split()
)

# P-102 (x86-64 psABI). Each level needs the flags of the lower ones too.
X86_LEVELS: tuple[tuple[str, frozenset[str]], ...] = (
    ("v1", frozenset()),
    ("v2", frozenset("cx16 lahf_lm popcnt sse3 ssse3 sse4_1 sse4_2".split())),
    ("v3", frozenset("avx avx2 bmi1 bmi2 f16c fma abm movbe".split())),
    ("v4", frozenset("avx512f avx512bw avx512cd avx512dq avx512vl".split())),
)

# P-107: (leaf, subleaf, register) -> bit -> flag by its Linux name.
CPUID_FLAGS: MappingProxyType[tuple[int, int, str], dict[int, str]] = MappingProxyType(
    {
        (1, 0, "ecx"): {
            0: "sse3", 1: "pclmulqdq", 9: "ssse3", 12: "fma", 13: "cx16", 19: "sse4_1",
            20: "sse4_2", 22: "movbe", 23: "popcnt", 25: "aes", 26: "xsave", 28: "avx",
            29: "f16c", 30: "rdrand",
        },
        (1, 0, "edx"): {23: "mmx", 25: "sse", 26: "sse2"},
        (7, 0, "ebx"): {
            0: "fsgsbase", 1: "tsc_adjust", 3: "bmi1", 5: "avx2", 8: "bmi2", 16: "avx512f",
            17: "avx512dq", 18: "rdseed", 19: "adx", 21: "avx512ifma", 23: "clflushopt",
            24: "clwb", 28: "avx512cd", 29: "sha_ni", 30: "avx512bw", 31: "avx512vl",
        },
        (7, 0, "ecx"): {
            1: "avx512vbmi", 5: "waitpkg", 6: "avx512_vbmi2", 8: "gfni", 9: "vaes",
            10: "vpclmulqdq", 11: "avx512_vnni", 12: "avx512_bitalg", 14: "avx512_vpopcntdq",
            22: "rdpid", 27: "movdiri", 28: "movdir64b",
        },
        (7, 0, "edx"): {
            8: "avx512_vp2intersect", 14: "serialize", 22: "amx_bf16", 23: "avx512_fp16",
            24: "amx_tile", 25: "amx_int8", 28: "flush_l1d",
        },
        (7, 1, "eax"): {
            0: "sha512", 1: "sm3", 2: "sm4", 4: "avx_vnni", 5: "avx512_bf16", 7: "cmpccxadd",
            21: "amx_fp16", 23: "avx_ifma",
        },
        (7, 1, "edx"): {4: "avx_vnni_int8", 5: "avx_ne_convert", 10: "avx_vnni_int16"},
        (0xD, 1, "eax"): {0: "xsaveopt", 1: "xsavec"},
        (0x80000001, 0, "ecx"): {0: "lahf_lm", 5: "abm", 6: "sse4a"},
        (0x80000008, 0, "ebx"): {0: "clzero", 27: "cppc"},
    }
)  # fmt: skip

# P-107: what the system must save before these may be used (as the Linux kernel masks them).
NEEDS_YMM_STATE: frozenset[str] = frozenset(
    """
    avx avx2 fma f16c vaes vpclmulqdq avx_vnni avx_ifma avx_ne_convert avx_vnni_int8 avx_vnni_int16
    sha512 sm3 sm4
    """.split()
)
NEEDS_AVX512_STATE: frozenset[str] = frozenset(
    flag for flag in (*X86_FEATURES, *X86_APPENDED) if flag.startswith("avx512")
)
NEEDS_AMX_STATE: frozenset[str] = frozenset("amx_tile amx_int8 amx_bf16 amx_fp16".split())

# P-106: names that macOS spells differently, lower-cased.
MACOS_X86_FLAGS: MappingProxyType[str, str] = MappingProxyType(
    {
        "sse4.1": "sse4_1",
        "sse4.2": "sse4_2",
        "avx1.0": "avx",
        "avx2.0": "avx2",
        "lahf": "lahf_lm",
        "lzcnt": "abm",
        "clfsopt": "clflushopt",
        "rdwrfsgs": "fsgsbase",
    }
)

# --- aarch64 -------------------------------------------------------------------------

AARCH64_VERSIONS: tuple[str, ...] = ("9.0a", "8.5a", "8.4a", "8.3a", "8.2a", "8.1a", "8a")

# P-110: the reference plugin's order, with its two typing errors corrected.
AARCH64_FEATURES: tuple[str, ...] = tuple(
    """
    sve2 flagm2 frint sb bti ecv paca pacg ssbs asimdfhm bf16 dcpodp dgh dit flagm i8mm ilrcpc jscvt
    rng sha3 sha512 svebf16 svei8mm uscat asimddp lrcpc asimdhp dcpop fcma fphp sve asimdrdm atomics
    aes asimd cpuid crc32 evtstrm fp pmull sha1 sha2
    """.split()
)

# P-111: ours, after all of the reference.
AARCH64_APPENDED: tuple[str, ...] = tuple(
    "sme sme2 sve2p1 mte mops ebf16 sveaes svebitperm svesha3 svepmull".split()
)

# P-112, P-113: abilities that each version adds, lowest first.
AARCH64_REQUIREMENTS: tuple[tuple[str, frozenset[str]], ...] = (
    ("8a", frozenset()),
    ("8.1a", frozenset("fp asimd crc32 atomics asimdrdm".split())),
    ("8.2a", frozenset(["dcpop"])),
    ("8.3a", frozenset("jscvt fcma lrcpc paca pacg".split())),
    ("8.4a", frozenset("fphp asimdhp asimddp asimdfhm dit uscat ilrcpc flagm".split())),
    ("8.5a", frozenset("dcpodp flagm2 frint sb ssbs".split())),
    ("9.0a", frozenset(["sve2"])),
)

# P-115; "and newer" of P-113 from the Linux kernel's list of part numbers.
CORE_VERSIONS: MappingProxyType[Core, str] = MappingProxyType(
    {
        Core(0x41, 0xD0C): "8.2a",  # Neoverse N1
        Core(0x41, 0xD40): "8.4a",  # Neoverse V1
        Core(0x41, 0xD49): "9.0a",  # Neoverse N2
        Core(0x41, 0xD4F): "9.0a",  # Neoverse V2
        Core(0x41, 0xD83): "9.0a",  # Neoverse V3AE
        Core(0x41, 0xD84): "9.0a",  # Neoverse V3
        Core(0x41, 0xD85): "9.0a",  # Cortex-X925
        Core(0x41, 0xD87): "9.0a",  # Cortex-A725
        Core(0x41, 0xD8E): "9.0a",  # Neoverse N3
        Core(0x6D, 0xD49): "9.0a",  # Cobalt 100
        Core(0x46, 0x001): "8.2a",  # A64FX
        Core(0x42, 0x516): "8.1a",  # ThunderX2
        Core(0x43, 0x0AF): "8.1a",  # ThunderX2
        Core(0xC0, 0xAC3): "8.4a",  # AmpereOne
        Core(0xC0, 0xAC4): "8.4a",  # AmpereOne
        **{Core(0x61, part): "8.4a" for part in (*range(0x20, 0x26), 0x28, 0x29)},  # Apple M1
        **{Core(0x61, part): "8.5a" for part in range(0x30, 0x100)},  # Apple M2 and newer
    }
)

# Generations by brand name, for macOS; later ones count as the latest listed.
APPLE_CORES: MappingProxyType[int, str] = MappingProxyType({1: "8.4a", 2: "8.5a"})

HWCAP_BITS: tuple[str, ...] = tuple(
    """
    fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma lrcpc
    dcpop sha3 sm3 sm4 asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm ssbs sb paca pacg
    """.split()
)
"""Names of the bits of AT_HWCAP, from bit 0."""

HWCAP2_BITS: MappingProxyType[int, str] = MappingProxyType(
    {
        0: "dcpodp", 1: "sve2", 2: "sveaes", 3: "svepmull", 4: "svebitperm", 5: "svesha3",
        6: "svesm4", 7: "flagm2", 8: "frint", 9: "svei8mm", 12: "svebf16", 13: "i8mm", 14: "bf16",
        15: "dgh", 16: "rng", 17: "bti", 18: "mte", 19: "ecv", 23: "sme", 32: "ebf16",
        36: "sve2p1", 37: "sme2", 43: "mops",
    }
)  # fmt: skip
"""Names of the bits of AT_HWCAP2."""

# What macOS calls the abilities that Linux names, without ``hw.optional.``; macOS 12
# knows only some of the names below ``arm.`` and has others beside them.
MACOS_ARM_FLAGS: MappingProxyType[str, tuple[str, ...]] = MappingProxyType(
    {
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
        "arm.FEAT_SME": ("sme",),
        "arm.FEAT_SME2": ("sme2",),
    }
)

# --- NVIDIA ----------------------------------------------------------------------------

# P-90: devices that run family code ("f"); directional, never extrapolated.
SM_FAMILIES: MappingProxyType[Capability, frozenset[Capability]] = MappingProxyType(
    {
        Capability(10, 0): frozenset({Capability(10, 0), Capability(10, 3), Capability(10, 7)}),
        Capability(10, 3): frozenset({Capability(10, 3), Capability(10, 7)}),
        Capability(10, 7): frozenset({Capability(10, 7)}),
        Capability(11, 0): frozenset({Capability(11, 0)}),
        Capability(12, 0): frozenset({Capability(12, 0), Capability(12, 1)}),
        Capability(12, 1): frozenset({Capability(12, 1)}),
    }
)

# P-91: PTX version by the CUDA toolkit that first writes it (measured from compiler output).
PTX_OF_TOOLKIT: MappingProxyType[Capability, Capability] = MappingProxyType(
    {
        Capability(11, 8): Capability(7, 8),
        Capability(12, 5): Capability(8, 5),
        Capability(12, 6): Capability(8, 5),
        Capability(12, 8): Capability(8, 7),
        Capability(12, 9): Capability(8, 8),
        Capability(13, 0): Capability(9, 0),
        Capability(13, 5): Capability(9, 5),
    }
)

# P-92: oldest driver release by CUDA major: Linux, Windows.
DRIVER_FLOOR: MappingProxyType[int, tuple[str, str]] = MappingProxyType(
    {11: ("450.80.02", "452.39"), 12: ("525.60.13", "528.33"), 13: ("580", "580")}
)

# P-95: oldest capability each toolkit major compiles for.
CUDA_CODE_FLOOR: MappingProxyType[int, Capability] = MappingProxyType(
    {11: Capability(3, 5), 12: Capability(5, 0), 13: Capability(7, 5)}
)
