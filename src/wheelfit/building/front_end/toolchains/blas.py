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
    from wheelfit.wheels.binaries.facts import Binaries

_FEATURES = {("blas_lapack", "provider"), ("blas", "library"), ("blas_lapack", "library")}
_OPTION = pattern(r"\boption\(\s*['\"](blas|lapack)['\"]")


@dataclass(frozen=True, slots=True)
class BlasLibrary:
    """An implementation of BLAS."""

    vendor: str
    """Its name in CMake."""
    file: str
    """A part of its library's file name."""
    has_lapack: bool = True


LIBRARIES: Mapping[str, BlasLibrary] = {
    "accelerate": BlasLibrary("Apple", "Accelerate"),
    "blis": BlasLibrary("FLAME", "libblis", has_lapack=False),
    "mkl": BlasLibrary("Intel10_64lp", "libmkl_"),
    "openblas": BlasLibrary("OpenBLAS", "libopenblas"),
}
"""By the value of the property, which is also its name in Meson."""
_BUNDLED_OPENBLAS = "libscipy_open"
"""The prefix of OpenBLAS builds that NumPy and SciPy take from the package index."""


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


def blas_contradictions(binaries: Binaries, properties: PropertySet) -> Iterator[str]:
    """Yield the libraries that load another BLAS than the claimed one, one sentence each.

    Static linking is not detected.
    """
    claimed = required_library(properties)
    if claimed is None:
        return
    for binary in binaries:
        libraries = {name: _implementation(name) for name in binary.needed}
        other_files = [
            name for name, library in libraries.items() if library not in (None, claimed)
        ]
        if other_files and claimed not in libraries.values():
            yield f"{binary.member} loads {other_files[0]}, and the wheel claims {claimed}"


def _implementation(file: str) -> str | None:
    if file.startswith(_BUNDLED_OPENBLAS):
        return "openblas"
    return next((name for name, library in LIBRARIES.items() if library.file in file), None)


BLAS = Toolchain(_words, _add)
