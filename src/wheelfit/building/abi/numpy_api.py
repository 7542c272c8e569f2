"""Bounds on NumPy from the C API that a module was compiled for (B-61).

The API is a table of pointers that a module fetches when it is imported, so there are no symbols.
Strings from NumPy's headers in the module are the evidence: the message for a refused import names
the oldest release with a sufficient API, and headers of NumPy 2 import the table by its new name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import Version

from wheelfit.building.abi.bounds import Bounds, ReleaseVerdict, bounds_of_interface
from wheelfit.wheels.binaries.reading import binary_files
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from wheelfit.building.abi.release_comparison import LibraryRelease
    from wheelfit.core.abi_exports import AbiExports

NUMPY = "numpy"
_TABLE, _TABLE_OF_NUMPY_2 = b"numpy.core._multiarray_umath", b"numpy._core._multiarray_umath"
_IMPORT_ERROR = pattern(rb"\(NumPy (\d{1,4}\.\d{1,4})\+?\) but the running NumPy has C-API version")
_CHUNK, _OVERLAP = 8 << 20, 256  # bytes
_NUMPY_2 = 2


@dataclass(frozen=True, slots=True)
class NumpyApi:
    """The C API of NumPy that a consumer was compiled for."""

    oldest: Version | None
    """The oldest release with a sufficient API; None: headers before NumPy 1.25 do not name it."""
    supports_numpy_2: bool
    """Whether it was compiled with headers of NumPy 2, which work with NumPy 1 too."""

    def refusal(self, version: Version) -> str:
        """Return the reason why a release does not fit; empty if it does."""
        if self.oldest is not None and version.release[:2] < self.oldest.release[:2]:
            return f"is older than the C API of {self.oldest}"
        if version.major >= _NUMPY_2 and not self.supports_numpy_2:
            return "has another C API than NumPy 1"
        return ""


def read_numpy_api(path: Path) -> NumpyApi | None:
    """Return the C API that a wheel or a library was compiled for; None if it uses none."""
    apis = [api for _, file in binary_files(path) if (api := _read(file)) is not None]
    if not apis:
        return None
    oldest = [api.oldest for api in apis if api.oldest is not None]
    return NumpyApi(max(oldest, default=None), all(api.supports_numpy_2 for api in apis))


def _read(file: BinaryIO) -> NumpyApi | None:
    file.seek(0)
    tail, uses_numpy, supports_numpy_2 = b"", False, False
    oldest: Version | None = None
    while chunk := file.read(_CHUNK):
        data = tail + chunk
        supports_numpy_2 = supports_numpy_2 or _TABLE_OF_NUMPY_2 in data
        uses_numpy = uses_numpy or supports_numpy_2 or _TABLE in data
        if (match := _IMPORT_ERROR.search(data)) is not None:
            oldest = Version(match[1].decode("ascii"))
        tail = data[-_OVERLAP:]
    return NumpyApi(oldest, supports_numpy_2) if uses_numpy else None


def numpy_bounds(
    consumer: Path, releases: Iterable[LibraryRelease], exports: AbiExports
) -> Bounds | None:
    """Return the releases of NumPy that a consumer works with; no release is fetched.

    :param releases: each version once, the oldest first.
    :return: None if it does not use the C API.
    """
    api = read_numpy_api(consumer)
    if api is None:
        return None
    verdicts = [
        ReleaseVerdict(release.version, release.origin, refusal=api.refusal(release.version))
        for release in releases
    ]
    notes = _caveats(api, verdicts)
    return bounds_of_interface("the C API of NumPy", (), verdicts, exports, notes)


def _caveats(api: NumpyApi, verdicts: Sequence[ReleaseVerdict]) -> Iterator[str]:
    """Yield notes on what the evidence does not cover, one sentence each."""
    if api.oldest is None:
        yield (
            "it was compiled with headers before NumPy 1.25, which do not name the oldest release "
            "with a sufficient API: the oldest of these releases may be too old"
        )
    if api.supports_numpy_2 and any(verdict.version.major > _NUMPY_2 for verdict in verdicts):
        yield "the binary does not show whether releases after NumPy 2 keep its C API"
    yield "only the C API was examined, not the functions that Python code calls"
