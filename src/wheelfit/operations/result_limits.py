"""Checks of results against the user's limits: required accelerators, the size of downloads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.errors import TooLarge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wheelfit.operations.changes import ChangeDecision
    from wheelfit.operations.context import Reporter
    from wheelfit.operations.requests import BoundOptions
    from wheelfit.resolution.candidates import Candidates
    from wheelfit.resolution.resolution import Pin, Resolution
    from wheelfit.sources.open import OpenedSources
    from wheelfit.sources.repository import FileSize

_MAX_SHOWN = 5
"""Number of packages in the error about a download that is too large."""


def check_bounds(
    request: BoundOptions, decision: ChangeDecision, candidates: Candidates, reporter: Reporter
) -> None:
    """Raise on a result beyond the user's limits; nothing was downloaded yet.

    :raises NoFit: ``no-accelerator``; a build would use no accelerator, though others do.
    :raises TooLarge: more would be downloaded than is allowed.
    """
    if request.require_accelerator:
        check_accelerators(decision.resolution, candidates, reporter)
    if request.max_download is not None:
        _check_download(request.max_download, decision.planned.install, candidates, reporter)


def check_substitutes(
    resolution: Resolution, candidates: Candidates, sources: OpenedSources
) -> None:
    """Raise if a result leaves an accelerator idle because an index cannot be reached.

    :raises NoFit: ``no-accelerator``; the registry only has builds that use none.
    """
    if sources.bridged is None or not sources.bridged.unreachable_owners:
        return
    from wheelfit.resolution.bridges import missing_accelerated_build

    error = missing_accelerated_build(resolution, candidates, sources.bridged.unreachable_owners)
    if error is not None:
        raise error


def check_accelerators(resolution: Resolution, candidates: Candidates, reporter: Reporter) -> None:
    """Raise if a result uses no accelerator though other builds do.

    :raises NoFit: ``no-accelerator``; a build would use none.
    """
    from wheelfit.resolution.unaccelerated import accelerations, no_accelerator_error

    accelerated = list(accelerations(resolution, candidates))
    error = no_accelerator_error(accelerated)
    if error is not None:
        raise error
    if not accelerated:
        warn_of_no_accelerators(reporter)


def warn_of_no_accelerators(reporter: Reporter) -> None:
    """Warn that no package has builds for accelerators, so that none was required."""
    reporter.warn("--require-accelerator has no effect: no package has builds for an accelerator")


def _check_download(
    limit: int, pins: Sequence[Pin], candidates: Candidates, reporter: Reporter
) -> None:
    from wheelfit.operations.text import sizes_of, unknown_sizes

    sizes = sizes_of(pins, candidates.repository, unpacked=False)
    check_download(
        limit,
        {str(pin): sizes[pin.name] for pin in pins},
        hint="raise --max-download, or choose smaller builds: --variant cpu excludes "
        "accelerators; install --dry-run shows every size",
    )
    for line in unknown_sizes(sizes):
        reporter.warn(f"{line}; --max-download applies during its download")


def check_download(limit: int, sizes: Mapping[str, FileSize], *, hint: str) -> None:
    """Raise if the download exceeds the limit.

    :param sizes: the sizes of the files to fetch, by their names in messages.
    :raises TooLarge: it exceeds the limit; unknown sizes are not counted.
    """
    from wheelfit.core.sizes import size_in_words
    from wheelfit.operations.text import largest_first

    total = sum(size.download or 0 for size in sizes.values())
    if total <= limit:
        return
    rows = largest_first(sizes)
    others = [f"and {len(rows) - _MAX_SHOWN} more"] if len(rows) > _MAX_SHOWN else []
    at_least = "at least " if any(size.download is None for size in sizes.values()) else ""
    raise TooLarge(
        f"{at_least}{size_in_words(total)} would be downloaded, and {size_in_words(limit)} "
        "are allowed (--max-download)",
        note="\n".join([*rows[:_MAX_SHOWN], *others]),
        hint=hint,
    )
