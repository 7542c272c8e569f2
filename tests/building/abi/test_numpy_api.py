"""What NumPy's headers leave in a module tells which releases of NumPy it works with."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from wheelfit.building.abi.numpy_api import NumpyApi, numpy_bounds, read_numpy_api
from wheelfit.building.abi.release_comparison import LibraryRelease
from wheelfit.core.abi_exports import AbiExports
from wheelfit.testing.binaries import elf_file
from wheelfit.testing.wheels import build_wheel

ONE, BOTH = b"numpy.core._multiarray_umath", b"numpy._core._multiarray_umath"
WANTED = b"(NumPy %s) but the running NumPy has C-API version 0x%%x. Check"


def module(folder: Path, *texts: bytes) -> Path:
    """Build a wheel with a module that has some texts."""
    binary = elf_file(sections={".rodata": b"\0".join((b"", *texts, b""))})
    return build_wheel(folder, "user", "1.0", files={"user/_c.so": binary})


def releases(*versions: str) -> list[LibraryRelease]:
    """Return releases whose files nobody may fetch."""

    def fetch() -> Path:
        raise AssertionError("a release was fetched")

    return [LibraryRelease(Version(version), f"numpy-{version}.whl", fetch) for version in versions]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([b"numpy"], None),
        ([ONE], NumpyApi(None, supports_numpy_2=False)),
        ([ONE, WANTED % b"1.25"], NumpyApi(Version("1.25"), supports_numpy_2=False)),
        ([ONE, BOTH, WANTED % b"1.23"], NumpyApi(Version("1.23"), supports_numpy_2=True)),
        ([BOTH, WANTED % b"2.0"], NumpyApi(Version("2.0"), supports_numpy_2=True)),
    ],
)
def test_reading(tmp_path: Path, texts: list[bytes], expected: NumpyApi | None) -> None:
    """B-61: the API is read from what the headers compile into a module."""
    assert read_numpy_api(module(tmp_path, *texts)) == expected


def test_the_strictest_module_counts(tmp_path: Path) -> None:
    """B-61: a wheel works where all of its modules do."""
    files = {
        f"user/{number}.so": elf_file(sections={".rodata": b"\0".join((b"", *texts, b""))})
        for number, texts in enumerate([[BOTH, WANTED % b"1.20"], [BOTH, WANTED % b"2.1"]])
    }
    wheel = build_wheel(tmp_path, "user", "1.0", files=files)
    assert read_numpy_api(wheel) == NumpyApi(Version("2.1"), supports_numpy_2=True)


def test_bounds(tmp_path: Path) -> None:
    """B-61: releases are judged by their versions alone."""
    wheel = module(tmp_path, ONE, BOTH, WANTED % b"1.25")
    found = numpy_bounds(wheel, releases("1.24.4", "1.25.0", "1.26.4", "2.0.0"), AbiExports())
    assert found is not None
    assert [release.fits for release in found.releases] == [False, True, True, True]
    assert found.values == ("1.25", "1.26", "2.0")
    assert found.requirement == ">=1.25.0"


def test_headers_of_numpy_1(tmp_path: Path) -> None:
    """B-61: what was compiled with NumPy 1 does not work with NumPy 2, and from when is unknown."""
    found = numpy_bounds(module(tmp_path, ONE), releases("1.20.0", "2.0.0"), AbiExports())
    assert found is not None
    assert found.requirement == ">=1.20.0,<2.0.0"
    assert "do not name the oldest release" in found.notes[0]


def test_no_api(tmp_path: Path) -> None:
    """B-61: what uses no C API is compared by symbols, as with any library."""
    assert numpy_bounds(module(tmp_path), releases("2.0.0"), AbiExports()) is None
