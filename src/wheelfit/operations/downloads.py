"""The download of the wheels of a plan, with a check against the data of the choice."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.operations.plain_data import plain_fields
from wheelfit.sources.concurrency import map_concurrently
from wheelfit.sources.urls import redact
from wheelfit.wheels.archive import WheelArchive
from wheelfit_runtime.errors import WheelfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.operations.context import Transfers
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.resolution import Pin
    from wheelfit.wheels.unpacked import UnpackedWheel

_T = TypeVar("_T")
_R = TypeVar("_R")
_AT_ONCE = 4
"""Wheels at the same time; the number of connections is a setting."""
MOST_FAILURES = 25
"""Failed files after which a long transfer ends, since the others would probably fail too."""


class FailedFile(Struct, frozen=True):
    """A file or page that could not be read; the others of a long transfer do not depend on it."""

    name: str
    message: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return plain_fields(self, "name message")


def download(
    pins: Sequence[Pin], candidates: Candidates, folder: Path, transfers: Transfers
) -> tuple[dict[NormalizedName, Path], list[tuple[Pin, str]]]:
    """Download wheels without unpacking them.

    :param candidates: the source, and the data each wheel must agree with.
    :returns: the paths by name, and the wheels that contradict the data they were chosen by, with
        the reason (F-93).
    :raises HashMismatch: a wheel that the user named has another hash than given.
    """
    results = several_at_once(
        pins, lambda pin: _fetch(pin, candidates, folder, transfers), transfers
    )
    return _separate_rejected(pins, results)


def fetch_unpacked(
    pins: Sequence[Pin], candidates: Candidates, folder: Path, transfers: Transfers
) -> tuple[dict[NormalizedName, UnpackedWheel], list[tuple[Pin, str]]]:
    """Fetch wheels and unpack them, unless a cache has them.

    :param candidates: the source, and the data each wheel must agree with.
    :param folder: for wheels that no cache keeps.
    :returns: the wheels by name, and those that contradict the data they were chosen by, with the
        reason (F-93).
    :raises HashMismatch: a wheel that the user named has another hash than given.
    """
    wheels = transfers.wheels(pin.file.size for pin in pins)

    def fetch(pin: Pin) -> UnpackedWheel | str:
        progress = wheels.wheel(str(pin), pin.file.size)
        wheel = candidates.repository.unpacked(pin.file, folder, progress)
        progress.end()
        if pin.label is None:
            return wheel
        return candidates.metadata_disagreement(pin.choice, wheel.variant_document()) or wheel

    # The largest first, so that the last to start are the shortest.
    ordered = sorted(pins, key=lambda pin: pin.file.size or 0, reverse=True)
    return _separate_rejected(ordered, several_at_once(ordered, fetch, transfers))


def _separate_rejected(
    pins: Sequence[Pin], results: Sequence[_R | str]
) -> tuple[dict[NormalizedName, _R], list[tuple[Pin, str]]]:
    """Return results by name, and the pins with a reason for rejection in place of a result."""
    accepted: dict[NormalizedName, _R] = {}
    rejected = []
    for pin, result in zip(pins, results, strict=True):
        if isinstance(result, str):
            rejected.append((pin, result))
        else:
            accepted[pin.name] = result
    return accepted, rejected


def several_at_once(
    items: Sequence[_T], fetch: Callable[[_T], _R], transfers: Transfers
) -> list[_R]:
    """Return the results of a function for items, a few at a time; the first failure ends all.

    :param fetch: called from several threads.
    """
    return map_concurrently(items, fetch, most=_AT_ONCE, cancel=transfers.cancel)


@contextmanager
def naming_sources_in_errors(
    pins: Sequence[Pin], paths: Mapping[NormalizedName, Path]
) -> Iterator[None]:
    """Name the sources of wheels in errors of the block, in place of their temporary copies."""
    try:
        yield
    except WheelfitError as error:
        for pin in pins:
            if error.where is not None:
                error.where = error.where.replace(str(paths[pin.name]), redact(pin.file.url))
        raise


def _fetch(pin: Pin, candidates: Candidates, folder: Path, transfers: Transfers) -> Path | str:
    path = candidates.repository.download(pin.file, folder, transfers.transfer(pin.file.filename))
    if pin.label is None:
        return path
    # Opened like a plain wheel: a missing document makes this wheel invalid (F-27) and not the
    # whole installation.
    filename = parse_wheel_filename(pin.filename.plain)
    with naming_sources_in_errors([pin], {pin.name: path}), WheelArchive(path, filename) as wheel:
        return candidates.metadata_disagreement(pin.choice, wheel.variant_document()) or path
