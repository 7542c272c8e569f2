"""Compiler flags that follow from the properties of a variant, on request only (B-26).

The table of toolchains has a row for each; what one is told stands in its module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.building.front_end.toolchains.blas import BLAS
from wheelfit.building.front_end.toolchains.c_family import C_FAMILY, with_words
from wheelfit.building.front_end.toolchains.go import GO
from wheelfit.building.front_end.toolchains.gpus import CUDA, HIP
from wheelfit.building.front_end.toolchains.rust import RUST

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from wheelfit.building.front_end.toolchains.inputs import BuildInputs, Toolchain
    from wheelfit.core.properties import PropertySet

TOOLCHAINS = (C_FAMILY, RUST, GO, CUDA, HIP, BLAS)
_FOR_PROCESSORS = (C_FAMILY, RUST, GO)


def flags_of(
    properties: PropertySet, machine: Mapping[str, str], used: Container[Toolchain] = ()
) -> tuple[str, ...]:
    """Return what compilers are told for properties.

    :param machine: marker variables of the interpreter that builds.
    :param used: those that have compiled something, as far as that is known.
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
