"""The tables of x86-64 processors (P-100 to P-107)."""
# ruff: noqa: SIM905  # long lists of words are easier to compare with their source as text

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


DATA_VERSION = "2026-11"

# P-100: the reference plugin's order, newest first, which ranks wheels.
FEATURES: tuple[str, ...] = tuple(
    """
    avx_vnni cppc ibrs_enhanced tsc_adjust flush_l1d movdir64b movdiri avx512_bf16 avx512_bitalg
    avx512_vbmi2 avx512_vnni avx512_vp2intersect avx512_vpopcntdq avx512ifma avx512vbmi rdpid sha_ni
    vaes vpclmulqdq clwb clzero avx512bw avx512cd avx512dq avx512f avx512vl clflushopt gfni rdseed
    xsavec xsaveopt adx avx2 avx bmi2 bmi1 abm f16c fma movbe xsave rdrand aes pclmulqdq sse4a
    fsgsbase sse4_2 sse4_1 ssse3 sse3 cx16 lahf_lm popcnt sse2 sse mmx
    """.split()
)

# P-101: further flags of wheelfit.
APPENDED: tuple[str, ...] = tuple(
    """
    amx_tile amx_int8 amx_bf16 amx_fp16 avx512_fp16 avx_ifma avx_ne_convert avx_vnni_int8
    avx_vnni_int16 sha512 sm3 sm4 cmpccxadd serialize waitpkg
    """.split()
)

# P-102 (x86-64 psABI). Each level needs the flags of the lower ones too.
LEVELS: tuple[tuple[str, frozenset[str]], ...] = (
    ("v1", frozenset()),
    ("v2", frozenset("cx16 lahf_lm popcnt sse3 ssse3 sse4_1 sse4_2".split())),
    ("v3", frozenset("avx avx2 bmi1 bmi2 f16c fma abm movbe".split())),
    ("v4", frozenset("avx512f avx512bw avx512cd avx512dq avx512vl".split())),
)

# The x86-64 processors of archspec-json 0.2.5 to 0.2.7 (cpu/microarchitectures.json), each with the
# highest level whose features it lists.
ARCHSPEC: Mapping[str, str] = {
    **dict.fromkeys("x86_64 nocona core2 k10".split(), "v1"),
    **dict.fromkeys(
        """
        x86_64_v2 nehalem westmere sandybridge ivybridge bulldozer piledriver steamroller
        """.split(),
        "v2",
    ),
    **dict.fromkeys(
        """
        x86_64_v3 haswell broadwell skylake mic_knl alderlake arrowlake arrowlake_s excavator
        zen zen2 zen3
        """.split(),
        "v3",
    ),
    **dict.fromkeys(
        """
        x86_64_v4 skylake_avx512 cannonlake cascadelake icelake sapphirerapids zen4 zen5 zen6
        """.split(),
        "v4",
    ),
}

# P-107: (leaf, subleaf, register) -> bit -> flag by its Linux name.
CPUID_FLAGS: Mapping[tuple[int, int, str], dict[int, str]] = {
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
}  # fmt: skip

# P-107: flags that need register states saved by the system, as in the Linux kernel.
NEEDS_XSAVE: frozenset[str] = frozenset(["xsave", "xsaveopt", "xsavec"])
NEEDS_YMM_STATE: frozenset[str] = frozenset(
    """
    avx avx2 fma f16c vaes vpclmulqdq avx_vnni avx_ifma avx_ne_convert avx_vnni_int8 avx_vnni_int16
    sha512 sm3 sm4
    """.split()
)
NEEDS_AVX512_STATE: frozenset[str] = frozenset(
    flag for flag in (*FEATURES, *APPENDED) if flag.startswith("avx512")
)
NEEDS_AMX_STATE: frozenset[str] = frozenset("amx_tile amx_int8 amx_bf16 amx_fp16".split())

# P-106: names that macOS spells differently, lower-cased.
MACOS_FLAGS: Mapping[str, str] = {
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "avx1.0": "avx",
    "avx2.0": "avx2",
    "lahf": "lahf_lm",
    "lzcnt": "abm",
    "clfsopt": "clflushopt",
    "rdwrfsgs": "fsgsbase",
}

# P-106: flags that Rosetta may list, but not translate: those of AVX's generation and newer ones.
NOT_TRANSLATED: frozenset[str] = frozenset((*FEATURES[: FEATURES.index("rdrand")], *APPENDED))

# P-107: numbers of IsProcessorFeaturePresent. lahf_lm and popcnt, which levels need, have none.
WINDOWS_FEATURES: Mapping[int, tuple[str, ...]] = {
    3: ("mmx",),
    6: ("sse",),
    10: ("sse2",),
    13: ("sse3",),
    14: ("cx16",),
    17: ("xsave",),
    22: ("fsgsbase",),
    28: ("rdrand",),
    33: ("rdpid",),
    36: ("ssse3",),
    37: ("sse4_1",),
    38: ("sse4_2",),
    39: ("avx",),
    40: ("avx2",),
    41: ("avx512f",),
    60: ("bmi2",),
    61: ("movdir64b",),
}
