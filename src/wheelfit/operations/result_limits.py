"""Limits of results: builds without an accelerator, a size to download."""

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

_SHOWN = 5
"""Packages that are named when a download is too large."""


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
    if sources.bridged is None or not sources.bridged.missed:
        return
    from wheelfit.resolution.bridges import missing_accelerated_build

    refused = missing_accelerated_build(resolution, candidates, sources.bridged.missed)
    if refused is not None:
        raise refused


def check_accelerators(resolution: Resolution, candidates: Candidates, reporter: Reporter) -> None:
    """Raise if a result uses no accelerator though other builds do.

    :raises NoFit: ``no-accelerator``; a build would use none.
    """
    from wheelfit.resolution.unaccelerated import accelerations, refusal

    accelerated = list(accelerations(resolution, candidates))
    refused = refusal(accelerated)
    if refused is not None:
        raise refused
    if not accelerated:
        tell_unconcerned(reporter)


def tell_unconcerned(reporter: Reporter) -> None:
    """Warn that no package has builds for accelerators, so that none was required."""
    reporter.warn(
        "--require-accelerator concerns nothing here: no package comes in variants that use one"
    )


def _check_download(
    most: int, fetched: Sequence[Pin], candidates: Candidates, reporter: Reporter
) -> None:
    from wheelfit.operations.text import sizes_of, unknown_sizes

    sizes = sizes_of(fetched, candidates.repository, unpacked=False)
    check_download(
        most,
        {str(pin): sizes[pin.name] for pin in fetched},
        hint="raise --max-download, or choose smaller builds: --variant cpu excludes "
        "accelerators; install --dry-run shows every size",
    )
    for line in unknown_sizes(sizes):
        reporter.warn(f"{line}; it counts for --max-download as it comes")


def check_download(most: int, sizes: Mapping[str, FileSize], *, hint: str) -> None:
    """Raise if the download exceeds the limit.

    :param sizes: of the files to fetch, by their names in messages.
    :raises TooLarge: it exceeds the limit; unknown sizes are not counted.
    """
    from wheelfit.core.sizes import size_in_words
    from wheelfit.operations.text import largest_first

    total = sum(size.download or 0 for size in sizes.values())
    if total <= most:
        return
    rows = largest_first(sizes)
    more = [f"and {len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else []
    at_least = "at least " if any(size.download is None for size in sizes.values()) else ""
    raise TooLarge(
        f"{at_least}{size_in_words(total)} would be downloaded, and {size_in_words(most)} "
        "are allowed (--max-download)",
        note="\n".join([*rows[:_SHOWN], *more]),
        hint=hint,
    )
