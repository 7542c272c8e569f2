"""BLAS and LAPACK: the library of a variant, as an option of Meson and of CMake.

NumPy, SciPy and others call the options of Meson ``blas`` and ``lapack``, with the name by which
Meson or pkg-config knows the library. ``FindBLAS`` and ``FindLAPACK`` of CMake read ``BLA_VENDOR``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.building.front_end.toolchains.inputs import BuildInputs, Toolchain
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wheelfit.core.properties import PropertySet

_FEATURES = {("blas_lapack", "provider"), ("blas", "library"), ("blas_lapack", "library")}
_OPTION = pattern(r"\boption\(\s*['\"](blas|lapack)['\"]")


@dataclass(frozen=True, slots=True)
class BlasLibrary:
    """An implementation of BLAS."""

    vendor: str
    """Its name in CMake."""
    has_lapack: bool = True


LIBRARIES: Mapping[str, BlasLibrary] = {
    "accelerate": BlasLibrary("Apple"),
    "blis": BlasLibrary("FLAME", has_lapack=False),
    "mkl": BlasLibrary("Intel10_64lp"),
    "openblas": BlasLibrary("OpenBLAS"),
}
"""By the value of the property, which is also its name in Meson."""


def required_library(properties: PropertySet) -> str | None:
    """Return the library that properties require; None: no known one, or several.

    >>> from wheelfit.core.properties import PropertySet, parse_property
    >>> required_library(PropertySet([parse_property("blas_lapack :: provider :: mkl")]))
    'mkl'
    """
    values = {value for feature in _FEATURES for value in properties.values(*feature)}
    return next(iter(values)) if len(values) == 1 and values <= LIBRARIES.keys() else None


def _words(properties: PropertySet, _machine: Mapping[str, str]) -> tuple[str, ...]:
    name = required_library(properties)
    return () if name is None else (f"blas={name}",)


def _add(inputs: BuildInputs, properties: PropertySet) -> BuildInputs:
    name = required_library(properties)
    if name is None:
        return inputs
    library = LIBRARIES[name]
    inputs = inputs.with_variable("BLA_VENDOR", library.vendor)
    if inputs.backend == "scikit_build_core.build":
        return inputs.with_setting("cmake.define.BLA_VENDOR", library.vendor)
    if inputs.backend == "mesonpy":
        options = [
            option for option in _declared_options(inputs) if option == "blas" or library.has_lapack
        ]
        if options:
            return inputs.with_setup_args(*(f"-D{option}={name}" for option in options))
    return inputs


def _declared_options(inputs: BuildInputs) -> Iterator[str]:
    """Yield the options that a project declares; Meson refuses others."""
    for file in ("meson.options", "meson_options.txt"):
        path = inputs.project / file
        if path.is_file():
            yield from _OPTION.findall(path.read_text("utf-8", "replace"))
            return


BLAS = Toolchain(_words, _add)
