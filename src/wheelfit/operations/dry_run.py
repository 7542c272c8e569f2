"""A dry run, which raises what the real run would, as far as it can be known beforehand.

Local and cached wheels are unpacked into the cache and read, as for an installation. For others
only the indexes are read, so the contents of their files are unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.installation.environment import nearest_existing
from wheelfit.operations.cache_folder import cache_folder_in_use
from wheelfit.operations.changes import attest, carry_out, fetch
from wheelfit.operations.context import Reporter
from wheelfit.operations.text import sizes_of
from wheelfit_runtime.errors import EnvironmentUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.installation.plan import Plan
    from wheelfit.operations.changes import ChangeContext, ChangeDecision, ChangeRequest
    from wheelfit.operations.context import Context
    from wheelfit.operations.step_durations import StepDurations
    from wheelfit.resolution.resolution import Pin
    from wheelfit.sources.repository import FileSize
    from wheelfit.wheels.unpacked import UnpackedWheel

    Sizes = Mapping[NormalizedName, FileSize]


def carry_out_or_rehearse(
    decision: ChangeDecision,
    decide: Callable[[], ChangeDecision],
    request: ChangeRequest,
    context: Context,
    ground: ChangeContext,
    durations: StepDurations,
) -> tuple[ChangeDecision, Sizes | None]:
    """Apply a plan; a dry run only raises what the real run would raise.

    :returns: the final decision, and the sizes of the wheels for a dry run.
    """
    if not request.dry_run:
        done = carry_out(decision, decide, request, context.reporter, ground, durations)
        return done, None
    return _rehearse(decision, decide, request, context, ground)


def _rehearse(
    decision: ChangeDecision,
    decide: Callable[[], ChangeDecision],
    request: ChangeRequest,
    context: Context,
    ground: ChangeContext,
) -> tuple[ChangeDecision, Sizes]:
    """Raise what the real run would raise; return the final decision and the sizes.

    A local wheel that contradicts the data it was chosen by is replaced by the next, too.

    :raises EnvironmentUnavailable: there is not enough space, or a folder cannot be written.
    """
    while True:
        planned = decision.planned
        sizes = sizes_of(planned.install, ground.candidates.repository, unpacked=True)
        _check_space(planned, sizes, request, context, ground)
        pins = _at_hand(planned, sizes, request, ground)
        if not pins:
            attest(planned, {}, request, ground, context.reporter)
            return decision, sizes
        if _rehearse_with(pins, planned, request, context, ground):
            return decision, sizes
        decision = decide()


def _rehearse_with(
    pins: Sequence[Pin],
    planned: Plan,
    request: ChangeRequest,
    context: Context,
    ground: ChangeContext,
) -> bool:
    """Check local wheels; return whether each agrees with the data it was chosen by."""
    from wheelfit.installation.apply import rehearse
    from wheelfit.installation.startup_files import StartupFiles
    from wheelfit.operations.temporary_folders import scratch_folder

    wheels: dict[str, UnpackedWheel] = {}
    # Reading local wheels is not a download to report.
    silent = Reporter().transfers(ground.repository.cut)
    with scratch_folder() as folder, silent as transfers:
        if not fetch(pins, wheels, folder, ground, context.reporter, transfers):
            return False
        attest(planned, wheels, request, ground, context.reporter)
        rehearse(
            planned,
            ground.environment,
            {pin.name: wheels[pin.file.url] for pin in pins},
            replace=request.replace_files,
            startup_files=StartupFiles(request.startup_files),
        )
    return True


def _at_hand(
    planned: Plan, sizes: Sizes, request: ChangeRequest, ground: ChangeContext
) -> list[Pin]:
    """Return the wheels to read: all offline, else local ones that may be refused.

    Cached wheels were verified when they were stored. In an empty environment there are no
    conflicts.
    """
    is_empty = _is_empty(ground.environment.schemes.libraries())
    looks_into_cache = request.startup_files == "deny" or not is_empty
    return [
        pin
        for pin in planned.install
        if (pin.file.origin is None or pin.file.origin.is_built)
        and (
            request.offline
            or (sizes[pin.name].is_on_disk and (looks_into_cache or pin.file.is_local))
        )
    ]


def _is_empty(folders: Iterable[Path]) -> bool:
    return not any(name for folder in folders if folder.is_dir() for name in folder.iterdir())


def _check_space(
    planned: Plan, sizes: Sizes, request: ChangeRequest, context: Context, ground: ChangeContext
) -> None:
    """Raise if the change needs more space than is free, as far as sizes are known.

    Files of wheels in the cache are linked, so they take none on its disk.
    """
    place = nearest_existing(ground.environment.schemes.purelib)
    wheel_sizes = [sizes[pin.name] for pin in planned.install]
    needed = sum(size.unpacked or 0 for size in wheel_sizes if not size.is_on_disk)
    if any(size.is_on_disk for size in wheel_sizes) and not _is_linked(place, request, context):
        needed += sum(size.unpacked or 0 for size in wheel_sizes if size.is_on_disk)
    from wheelfit.wheels.disk_space import free_space, no_space_message

    if needed > free_space(place):
        raise EnvironmentUnavailable(
            no_space_message(place, needed), where=str(place), hint="make room and try again"
        )


def _is_linked(place: Path, request: ChangeRequest, context: Context) -> bool:
    """Return whether files of the cache are linked to a place, on its disk."""
    cache = cache_folder_in_use(request, context.environ)
    if cache is None or request.link_mode == "copy":
        return False
    return place.stat().st_dev == nearest_existing(cache).stat().st_dev
