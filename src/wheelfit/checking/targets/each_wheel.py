"""Checks of single wheels, in threads or by another `WheelMapper`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from wheelfit.checking.releases import wrong_hash_finding
from wheelfit.checking.tool_profiles import CheckOptions
from wheelfit.checking.wheels.wheel import WheelFacts, check_wheel
from wheelfit.errors import reporting_os_errors
from wheelfit.sources.hash_check import check_bytes, check_file
from wheelfit.wheels.processors import processor_count
from wheelfit_runtime.errors import FileProblem, IntegrityError, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from wheelfit.checking.findings import Finding
    from wheelfit.sources.page import File
    from wheelfit.sources.progress import Progress

_MAX_THREADS = 8
_LARGE_SIZE = 1 << 20
"""Bytes from which a wheel is checked in a thread of its own."""


CheckedWheel: TypeAlias = "tuple[list[Finding], WheelFacts | None]"
"""The findings about a wheel, and its facts; None if its name is invalid."""


WheelMapper: TypeAlias = (
    "Callable[[Callable[[WheelToCheck], CheckedWheel], Sequence[WheelToCheck], Progress],"
    " Iterable[CheckedWheel | WheelfitError]]"
)
"""Calls a function for each wheel, and returns the results in the order of the wheels.

An error leaves its wheel unchecked.
"""


@dataclass(frozen=True, slots=True)
class WheelToCheck:
    """A wheel to check, with the options; can be pickled."""

    path: Path
    """The path that the user gave, for findings."""
    size: int
    options: CheckOptions = CheckOptions()
    entry: File | None = None
    """Its entry on a page."""
    folder: Path | None = None
    """The base folder of its path, for another process; None: the current one."""

    def __str__(self) -> str:
        return str(self.path)


def check_one_wheel(wheel: WheelToCheck) -> CheckedWheel:
    """Check one wheel by itself.

    :return: the findings, and the facts of the wheel; None if its name is invalid.
    """
    path = wheel.path if wheel.folder is None else wheel.folder / wheel.path
    where = str(wheel.path)
    with reporting_os_errors("the wheel cannot be read", where=where):
        findings, facts = check_wheel(path, path.name, where=where, options=wheel.options)
        if wheel.options.full and wheel.entry is not None:
            findings = [*findings, *listing_differences(wheel.entry, path, where=where)]
    return findings, facts


def listing_differences(
    file: File, path: Path, data: bytes | None = None, *, where: str = ""
) -> Iterator[Finding]:
    """Yield findings about differences between a file and its entry on a page (F-79)."""
    where = where or str(path)
    if not (file.hashes or file.size is not None):
        return
    try:
        if data is not None:
            check_bytes(data, file.hashes, file.size, where=where)
        else:
            check_file(path, file.hashes, file.size, where=where)
    except IntegrityError as error:
        yield wrong_hash_finding(error, where)


def check_in_threads(
    function: Callable[[WheelToCheck], CheckedWheel],
    wheels: Sequence[WheelToCheck],
    progress: Progress,
) -> Iterator[CheckedWheel | WheelfitError]:
    """Call a function for each wheel; large wheels are checked in parallel, each in one thread.

    Hashing releases the GIL. The other checks, which small wheels mostly need, do not, so threads
    would slow them down.
    """

    def call(wheel: WheelToCheck) -> CheckedWheel | WheelfitError:
        try:
            return function(wheel)
        except FileProblem as error:
            return error

    progress.start(sum(wheel.size for wheel in wheels))
    with ThreadPoolExecutor(min(_MAX_THREADS, processor_count())) as pool:
        large = {
            id(wheel): pool.submit(call, wheel) for wheel in wheels if wheel.size >= _LARGE_SIZE
        }
        for wheel in wheels:
            future = large.pop(id(wheel), None)
            checked = call(wheel) if future is None else future.result()
            progress.advance(wheel.size)
            yield checked
    progress.done()
