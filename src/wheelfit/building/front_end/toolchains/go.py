"""Go: variables with the processor level for its compiler, and flags for C code in Go packages.

Go reads ``GOARM64`` since 1.23; older versions compile for every 64-bit Arm processor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.building.front_end.toolchains import c_family
from wheelfit.building.front_end.toolchains.c_family import level_of
from wheelfit.building.front_end.toolchains.inputs import BuildInputs, Toolchain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.core.properties import PropertySet

_DEFAULT_C_FLAGS = "-O2 -g"
"""Go's default flags for compilers of C."""


def variables(properties: PropertySet) -> Mapping[str, str]:
    """Return the variables of Go for properties.

    >>> from wheelfit.core.properties import PropertySet, parse_property
    >>> variables(PropertySet([parse_property("aarch64 :: version :: 8.2a")]))
    {'GOARM64': 'v8.2'}
    """
    settings = {}
    if level := level_of(properties, "x86_64"):
        settings["GOAMD64"] = level
    if version := level_of(properties, "aarch64"):
        number = version.removesuffix("a")
        settings["GOARM64"] = f"v{number if '.' in number else f'{number}.0'}"
    return settings


def _words(properties: PropertySet, _machine: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables as ``NAME=value``, for reports."""
    return tuple(f"{name}={value}" for name, value in variables(properties).items())


def _add(inputs: BuildInputs, properties: PropertySet) -> BuildInputs:
    for name, value in variables(properties).items():
        inputs = inputs.with_variable(name, value)
    for name in ("CGO_CFLAGS", "CGO_CXXFLAGS"):
        if not inputs.is_windows and (words := c_family.words(properties, inputs.machine)):
            inputs = inputs.with_appended(name, words, base=_DEFAULT_C_FLAGS)
    return inputs


GO = Toolchain(_words, _add, is_reported_only_if_used=True)
