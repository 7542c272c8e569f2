"""Compiler flags that follow from the properties of a variant, on request only (B-26).

`TOOLCHAINS` lists the toolchains; the flags of each are in a module of its own. Flags that the
packager has set are compared with the claims of a wheel.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wheelfit.building.front_end.toolchains.blas import BLAS
from wheelfit.building.front_end.toolchains.c_family import C_FAMILY, with_compiler_flags
from wheelfit.building.front_end.toolchains.go import GO
from wheelfit.building.front_end.toolchains.gpus import CUDA, HIP
from wheelfit.building.front_end.toolchains.inputs import BuildInputs, Toolchain, split_words
from wheelfit.building.front_end.toolchains.rust import RUST
from wheelfit.wheels.binaries.unguarded_instructions import claimed_level
from wheelfit_runtime.platforms.providers.x86_64.tables import LEVELS

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from wheelfit.core.properties import PropertySet

TOOLCHAINS = (C_FAMILY, RUST, GO, CUDA, HIP, BLAS)
_PROCESSOR_TOOLCHAINS = (C_FAMILY, RUST, GO)


def flags_of(
    properties: PropertySet, machine: Mapping[str, str], used: Container[Toolchain] = ()
) -> tuple[str, ...]:
    """Return the compiler flags for properties.

    :param machine: marker variables of the interpreter that builds.
    :param used: the toolchains that are known to have compiled something.
    """
    return tuple(
        word
        for toolchain in TOOLCHAINS
        if toolchain in used or not toolchain.is_reported_only_if_used
        for word in toolchain.words(properties, machine)
    )


def changes_processor_code(properties: PropertySet) -> bool:
    """Return whether properties change the flags for processor code."""
    return any(toolchain.words(properties, {}) for toolchain in _PROCESSOR_TOOLCHAINS)


def with_flags(
    inputs: BuildInputs, properties: PropertySet, further: Iterable[str] = ()
) -> BuildInputs:
    """Return inputs with the flags of properties, and further ones.

    :param further: flags for C and C++ to add after these.
    """
    for toolchain in TOOLCHAINS:
        inputs = toolchain.add(inputs, properties)
    words = list(further)
    if words and inputs.is_windows:
        return inputs.with_appended("CL", words)
    return with_compiler_flags(inputs, words, fortran=False) if words else inputs


# --- flags of the packager ------------------------------------------------------------------

# Our flags come after the packager's, and the last ``-march`` is used. But ``-mno-avx2`` and
# ``-mavx512f`` have an effect at any position, and setuptools puts ``CPPFLAGS`` after all of ours.
_VARIABLES = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "FFLAGS", "FCFLAGS", "CPPFLAGS")
_AFTER_OURS = frozenset({"CPPFLAGS"})
_NAMES = {"bmi": "bmi1", "lzcnt": "abm", "sse4.1": "sse4_1", "sse4.2": "sse4_2", "sse4": "sse4_2"}
"""Names of features on Linux, by the names of compilers, where they differ."""
_LEVELS = {f"x86-64{'' if level == 'v1' else f'-{level}'}": level for level, _ in LEVELS}
_CHOICE = re.compile(r"-m(?:arch|cpu)=(?P<name>.+)")
_FEATURE = re.compile(r"-m(?P<no>no-)?(?P<name>[a-z][\w.]*)")


def notes_on_packager_flags(
    environ: Mapping[str, str], properties: PropertySet, *, adds_level: bool
) -> Iterator[str]:
    """Yield the flags that contradict the claims of a wheel, one sentence each.

    :param environ: the variables of compilers, without our flags.
    :param adds_level: whether our flags have an ``-march``, which overrides an earlier one.
    """
    features = properties.to_mapping().get("x86_64", {})
    # A wheel that names single features has a reason for flags of others.
    level = claimed_level(features) if features.keys() <= {"level"} else None
    claims = f"claims {level or 'single features'}" if features else "claims no level"
    for variable in _VARIABLES:
        for word in split_words(environ.get(variable, "")):
            fault = None
            if variable in _AFTER_OURS or not adds_level:
                fault = _choice_fault(word, level, claims)
            if fault is None and level:
                fault = _feature_fault(word, level, claims)
            if fault is not None:
                yield f"{variable} has {word}: {fault}"


def _choice_fault(word: str, level: str | None, claims: str) -> str | None:
    """Return how a flag that selects a processor contradicts the wheel; None: it does not."""
    match = _CHOICE.fullmatch(word)
    if match is None:
        return None
    if match["name"] == "native":
        return f"the wheel {claims}, but is compiled for the processor of this machine"
    chosen = _LEVELS.get(match["name"])
    if level is None or chosen in (None, level):
        return None
    return f"the wheel {claims}, but is compiled for {chosen}"


def _feature_fault(word: str, level: str, claims: str) -> str | None:
    """Return how a flag for a single feature contradicts the wheel; None: it does not."""
    match = _FEATURE.fullmatch(word)
    if match is None:
        return None
    name = _NAMES.get(match["name"], match["name"])
    level_of_feature = next((level_name for level_name, names in LEVELS if name in names), None)
    if level_of_feature is None:
        return None
    if match["no"] and level_of_feature <= level:
        return f"the wheel {claims}, but is compiled without a feature of {level_of_feature}"
    if not match["no"] and level_of_feature > level:
        return f"the wheel {claims}, but is compiled for a feature of {level_of_feature}"
    return None
