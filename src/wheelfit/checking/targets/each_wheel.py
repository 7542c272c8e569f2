"""Checks of single wheels; in threads or by any mapper."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from wheelfit.checking.releases import wrong_hash
from wheelfit.checking.tool_profiles import CheckOptions
from wheelfit.checking.wheels.wheel import WheelFacts, check_wheel
from wheelfit.sources.hash_check import check_bytes, check_file
from wheelfit_runtime.errors import FileProblem, IntegrityError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from wheelfit.checking.findings import Finding
    from wheelfit.sources.page import File
    from wheelfit.sources.progress import Progress
    from wheelfit_runtime.errors import WheelfitError

_MOST_THREADS = 8
_LARGE = 1 << 20


CheckedWheel: TypeAlias = "tuple[list[Finding], WheelFacts | None]"
"""The findings in a wheel, and its facts."""


WheelMapper: TypeAlias = (
    "Callable[[Callable[[WheelToCheck], CheckedWheel], Sequence[WheelToCheck], Progress],"
    " Iterable[CheckedWheel | WheelfitError]]"
)
"""Calls a function for each of some wheels, and returns the results in their order.

An error leaves its wheel unchecked.
"""


@dataclass(frozen=True, slots=True)
class WheelToCheck:
    """A wheel to check, and how closely; can be pickled."""

    path: Path
    """As the user named it, which is how findings name it."""
    size: int
    options: CheckOptions = CheckOptions()
    promise: File | None = None
    """Its entry on a page."""
    folder: Path | None = None
    """The base folder of its path, for another process; None: the current one."""

    def __str__(self) -> str:
        return str(self.path)


def look_at(asked: WheelToCheck) -> CheckedWheel:
    """Check one wheel by itself.

    :return: the findings, and the facts of the wheel; None if its name is invalid.
    """
    path = asked.path if asked.folder is None else asked.folder / asked.path
    where = str(asked.path)
    try:
        findings, facts = check_wheel(path, path.name, where=where, options=asked.options)
        if asked.options.full and asked.promise is not None:
            findings = [*findings, *broken_promises(asked.promise, path, where=where)]
    except OSError as error:
        message = f"the wheel cannot be read: {error.strerror or type(error).__name__}"
        raise FileProblem(message, where=where) from error
    return findings, facts


def broken_promises(
    file: File, path: Path, data: bytes | None = None, *, where: str = ""
) -> Iterator[Finding]:
    """Yield differences between a file and its entry on a page (F-79)."""
    where = where or str(path)
    if not (file.hashes or file.size is not None):
        return
    try:
        if data is not None:
            check_bytes(data, file.hashes, file.size, where=where)
        else:
            check_file(path, file.hashes, file.size, where=where)
    except IntegrityError as error:
        yield wrong_hash(error, where)


def in_threads(
    function: Callable[[WheelToCheck], CheckedWheel],
    asked: Sequence[WheelToCheck],
    progress: Progress,
) -> Iterator[CheckedWheel | WheelfitError]:
    """Call a function for each wheel, for large ones in several threads.

    Hashing runs in parallel; the checks of small wheels do not, and threads would only delay each
    other.
    """

    def call(check: WheelToCheck) -> CheckedWheel | WheelfitError:
        try:
            return function(check)
        except FileProblem as error:
            return error

    progress.start(sum(one.size for one in asked))
    with ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1)) as pool:
        large = {id(one): pool.submit(call, one) for one in asked if one.size >= _LARGE}
        for one in asked:
            future = large.pop(id(one), None)
            checked = call(one) if future is None else future.result()
            progress.advance(one.size)
            yield checked
    progress.done()
