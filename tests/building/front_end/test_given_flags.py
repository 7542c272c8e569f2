"""Flags of packagers beside what a wheel claims."""

from __future__ import annotations

import pytest

from wheelfit.building.front_end.flags import notes_on_packager_flags
from wheelfit.core.properties import EMPTY, PropertySet, parse_property

V3 = PropertySet([parse_property("x86_64 :: level :: v3")])
AVX2 = PropertySet([parse_property("x86_64 :: avx2 :: on")])
BLAS = PropertySet([parse_property("blas :: library :: mkl")])
CONDA = "-march=nocona -mtune=haswell -ftree-vectorize -fPIC -fstack-protector-strong -O2 -pipe"
DEBIAN = "-g -O2 -ffile-prefix-map=/build=. -fstack-protector-strong -Wformat -mbranch-protection=x"


@pytest.mark.parametrize(
    ("variable", "text", "properties", "note"),
    [
        ("CFLAGS", CONDA, V3, None),
        ("CFLAGS", DEBIAN, V3, None),
        ("CFLAGS", "-march=native", V3, None),  # ours comes behind it
        ("CPPFLAGS", "-march=native", V3, "is compiled for the processor of this machine"),
        ("CPPFLAGS", "-march=x86-64-v2", V3, "the wheel claims v3, but is compiled for v2"),
        ("CPPFLAGS", "-march=x86-64-v3", V3, None),
        (
            "CXXFLAGS",
            "-O2 -mno-avx2",
            V3,
            "the wheel claims v3, but is compiled without a feature of v3",
        ),
        ("CC", "gcc -mno-lzcnt", V3, "is compiled without a feature of v3"),
        ("CFLAGS", "-mno-avx512f", V3, None),
        ("CFLAGS", "-mavx512f", V3, "the wheel claims v3, but is compiled for a feature of v4"),
        ("CFLAGS", "-mavx2 -msse4.2", V3, None),
        (
            "CFLAGS",
            "-msse4.2",
            EMPTY,
            "the wheel claims no level, but is compiled for a feature of v2",
        ),
        ("CFLAGS", "-march=native", EMPTY, "the wheel claims no level, but is compiled for the"),
        ("CFLAGS", "-mcpu=native", BLAS, "claims no level, but is compiled for the processor"),
        ("CFLAGS", "-march=x86-64-v3", EMPTY, "the wheel claims no level, but is compiled for v3"),
        ("CFLAGS", "-march=x86-64", EMPTY, None),
        ("CFLAGS", CONDA, EMPTY, None),
        ("CFLAGS", "-march=native", AVX2, "the wheel claims single features, but is compiled for"),
        ("CFLAGS", "-mavx512f", AVX2, None),  # who names abilities has a reason
        ("CFLAGS", "'", V3, None),
    ],
)
def test_what_contradicts(
    variable: str, text: str, properties: PropertySet, note: str | None
) -> None:
    """B-26: the last ``-march`` counts, single abilities count wherever they stand."""
    adds_level = properties == V3
    found = [*notes_on_packager_flags({variable: text}, properties, adds_level=adds_level)]
    if note is None:
        assert not found
    else:
        (told,) = found
        assert told.startswith(f"{variable} has -m")
        assert note in told


def test_a_variant_of_one_plain_build() -> None:
    """Without flags of ours an ``-march`` before them counts, for the variant too."""
    given = {"CFLAGS": "-march=x86-64-v2"}
    (told,) = notes_on_packager_flags(given, V3, adds_level=False)
    assert told == "CFLAGS has -march=x86-64-v2: the wheel claims v3, but is compiled for v2"
