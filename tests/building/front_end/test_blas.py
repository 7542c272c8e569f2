"""BLAS as an axis of variants, in the words of Meson and CMake."""

from __future__ import annotations

from pathlib import Path

import pytest

from wheelfit.building.front_end.flags import flags_of, with_flags
from wheelfit.building.front_end.toolchains.inputs import BuildInputs
from wheelfit.core.properties import PropertySet, parse_property

NUMPY = """option('blas', type: 'string', value: 'auto',
        description: 'see `blas-order`')
option('lapack', type: 'string', value: 'auto')
option('blas-order', type: 'array', value: ['auto'])
"""


def properties(*texts: str) -> PropertySet:
    """Return a set of properties."""
    return PropertySet(map(parse_property, texts))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with the options of NumPy."""
    (tmp_path / "meson.options").write_text(NUMPY)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "arguments", "vendor"),
    [
        ("blas_lapack :: provider :: mkl", ["-Dblas=mkl", "-Dlapack=mkl"], "Intel10_64lp"),
        ("blas :: library :: openblas", ["-Dblas=openblas", "-Dlapack=openblas"], "OpenBLAS"),
        ("blas_lapack :: library :: blis", ["-Dblas=blis"], "FLAME"),
        (
            "blas_lapack :: provider :: accelerate",
            ["-Dblas=accelerate", "-Dlapack=accelerate"],
            "Apple",
        ),
    ],
)
def test_names(text: str, arguments: list[str], vendor: str, project: Path) -> None:
    """Each build system has names of its own."""
    wanted = properties(text)
    found = with_flags(BuildInputs(backend="mesonpy", project=project), wanted)
    assert found.settings == {"setup-args": arguments}
    assert found.environ == {"BLA_VENDOR": vendor}
    cmake = with_flags(BuildInputs(backend="scikit_build_core.build", project=project), wanted)
    assert cmake.settings == {"cmake.define.BLA_VENDOR": vendor}
    assert flags_of(wanted, {}) == (f"blas={text.rpartition(' ')[2]}",)


def test_only_options_that_there_are(tmp_path: Path) -> None:
    """Meson refuses options that a project does not declare; older files count as well."""
    inputs = BuildInputs(backend="mesonpy", project=tmp_path)
    wanted = properties("blas :: library :: mkl")
    assert with_flags(inputs, wanted).settings == {}
    (tmp_path / "meson_options.txt").write_text('option( "lapack", type : "string")\n')
    assert with_flags(inputs, wanted).settings == {"setup-args": ["-Dlapack=mkl"]}


def test_what_the_project_says_counts_more(project: Path) -> None:
    """Of two arguments Meson takes the last one."""
    settings = {"setup-args": "-Dblas=mkl-dynamic-lp64-seq"}
    inputs = BuildInputs(backend="mesonpy", project=project, settings=settings)
    found = with_flags(inputs, properties("blas :: library :: mkl")).settings
    assert found["setup-args"] == ["-Dblas=mkl", "-Dlapack=mkl", "-Dblas=mkl-dynamic-lp64-seq"]


@pytest.mark.parametrize(
    "texts",
    [
        ["blas :: library :: reference"],
        ["blas :: library :: mkl", "blas :: library :: openblas"],
        ["openmp :: provider :: gnu"],
    ],
)
def test_nothing_follows(texts: list[str], project: Path) -> None:
    """A library that is not known, or one of several, is for the project to choose."""
    inputs = BuildInputs(backend="mesonpy", project=project)
    assert with_flags(inputs, properties(*texts)) == inputs
