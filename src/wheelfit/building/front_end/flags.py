"""Compiler flags that follow from the properties of a variant, on request only (B-26).

The table of toolchains has a row for each; its flags are in its module. Flags that a packager has
set already are compared with the claims of a wheel.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wheelfit.building.front_end.toolchains.blas import BLAS
from wheelfit.building.front_end.toolchains.c_family import C_FAMILY, with_words
from wheelfit.building.front_end.toolchains.go import GO
from wheelfit.building.front_end.toolchains.gpus import CUDA, HIP
from wheelfit.building.front_end.toolchains.inputs import split_words
from wheelfit.building.front_end.toolchains.rust import RUST
from wheelfit.wheels.binaries.unguarded_instructions import claimed_level
from wheelfit_runtime.platforms.providers.x86_64.tables import LEVELS

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from wheelfit.building.front_end.toolchains.inputs import BuildInputs, Toolchain
    from wheelfit.core.properties import PropertySet

TOOLCHAINS = (C_FAMILY, RUST, GO, CUDA, HIP, BLAS)
_FOR_PROCESSORS = (C_FAMILY, RUST, GO)


def flags_of(
    properties: PropertySet, machine: Mapping[str, str], used: Container[Toolchain] = ()
) -> tuple[str, ...]:
    """Return the compiler flags for properties.

    :param machine: marker variables of the interpreter that builds.
    :param used: the toolchains that compiled something, as far as known.
    """
    return tuple(
        word
        for one in TOOLCHAINS
        if one in used or not one.is_named_when_used
        for word in one.words(properties, machine)
    )


def changes_processor_code(properties: PropertySet) -> bool:
    """Return whether code for processors is compiled in another way for properties."""
    return any(one.words(properties, {}) for one in _FOR_PROCESSORS)


def with_flags(
    inputs: BuildInputs, properties: PropertySet, further: Iterable[str] = ()
) -> BuildInputs:
    """Return inputs with the flags of properties, and further ones.

    :param properties: flags that follow from these are added; empty: none are.
    :param further: flags for C and C++ behind these.
    """
    for toolchain in TOOLCHAINS:
        inputs = toolchain.add(inputs, properties)
    words = list(further)
    if words and inputs.is_windows:
        return inputs.appended("CL", words)
    return with_words(inputs, words, fortran=False) if words else inputs


# --- flags of the packager ------------------------------------------------------------------

# Ours come behind them, and the last ``-march`` is used. But ``-mno-avx2`` and ``-mavx512f`` have
# an effect at any position, and setuptools puts ``CPPFLAGS`` behind all of ours.
_VARIABLES = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "FFLAGS", "FCFLAGS", "CPPFLAGS")
_BEHIND = frozenset({"CPPFLAGS"})
_NAMES = {"bmi": "bmi1", "lzcnt": "abm", "sse4.1": "sse4_1", "sse4.2": "sse4_2", "sse4": "sse4_2"}
"""Names of features by compilers, where they differ from those of Linux."""
_LEVELS = {f"x86-64{'' if level == 'v1' else f'-{level}'}": level for level, _ in LEVELS}
_CHOICE = re.compile(r"-m(?:arch|cpu)=(?P<name>.+)")
_FEATURE = re.compile(r"-m(?P<no>no-)?(?P<name>[a-z][\w.]*)")


def notes_on_given_flags(
    environ: Mapping[str, str], properties: PropertySet, *, adds_level: bool
) -> Iterator[str]:
    """Yield the flags that contradict the claims of a wheel, one sentence each.

    :param environ: variables that compilers read, without flags of ours.
    :param adds_level: whether ours have an ``-march``, which overrides an earlier one.
    """
    features = properties.to_mapping().get("x86_64", {})
    level = claimed_level(features) if not set(features) - {"level"} else None
    claims = f"claims {level}" if features else "claims no level"
    for variable in _VARIABLES:
        for word in split_words(environ.get(variable, "")):
            why = (
                _choice_fault(word, level, claims)
                if (variable in _BEHIND or not adds_level)
                else None
            )
            why = why or (_feature_fault(word, level, claims) if level else None)
            if why:
                yield f"{variable} has {word}: {why}"


def _choice_fault(word: str, level: str | None, claims: str) -> str | None:
    """Return the contradiction of a flag that selects a processor to the wheel, or None."""
    match = _CHOICE.fullmatch(word)
    if match is None:
        return None
    if match["name"] == "native":
        return f"the wheel {claims}, and is compiled for the processor of this machine"
    chosen = _LEVELS.get(match["name"])
    if level is None or chosen in (None, level):
        return None
    return f"the wheel {claims}, and is compiled for {chosen}"


def _feature_fault(word: str, level: str, claims: str) -> str | None:
    """Return the contradiction of a flag for a single feature to the wheel, or None."""
    match = _FEATURE.fullmatch(word)
    if match is None:
        return None
    name = _NAMES.get(match["name"], match["name"])
    owner = next((one for one, names in LEVELS if name in names), None)
    if owner is None:
        return None
    if match["no"]:
        return f"the wheel {claims}, and is compiled without that" if owner <= level else None
    return f"the wheel {claims}, and is compiled for more" if owner > level else None
