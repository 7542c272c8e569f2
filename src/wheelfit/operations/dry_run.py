"""A dry run, which raises the errors of the real run, as far as they can be known beforehand.

Local and cached wheels are unpacked into the cache and read, as for an installation. For others
only the indexes are read, so the contents of their files are unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.installation.environment import nearest_existing
from wheelfit.operations.attestations import verify_attestations
from wheelfit.operations.cache_folder import cache_folder_in_use
from wheelfit.operations.changes import apply_decision, fetch_wheels
from wheelfit.operations.context import Context, Reporter
from wheelfit.operations.text import sizes_of
from wheelfit_runtime.errors import EnvironmentUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.installation.plan import Plan
    from wheelfit.operations.changes import ChangeContext, ChangeDecision, ChangeRequest
    from wheelfit.operations.step_durations import StepDurations
    from wheelfit.resolution.resolution import Pin
    from wheelfit.sources.repository import FileSize
    from wheelfit.wheels.unpacked import UnpackedWheel

    Sizes = Mapping[NormalizedName, FileSize]


def apply_or_dry_run(
    decision: ChangeDecision,
    decide: Callable[[], ChangeDecision],
    request: ChangeRequest,
    context: Context,
    change: ChangeContext,
    durations: StepDurations,
) -> tuple[ChangeDecision, Sizes | None]:
    """Apply a plan; a dry run only raises the errors of the real run.

    In both cases, a local wheel that contradicts the data it was chosen by is replaced by the next.

    :return: the final decision, and the sizes of the wheels for a dry run.
    :raises EnvironmentUnavailable: there is not enough space, or a folder cannot be written.
    """
    if not request.dry_run:
        decision = apply_decision(decision, decide, request, context.reporter, change, durations)
        return decision, None
    while True:
        planned = decision.planned
        sizes = sizes_of(planned.install, change.candidates.repository, unpacked=True)
        _check_space(planned, sizes, request, context, change)
        pins = _wheels_to_read(planned, sizes, request, change)
        if not pins:
            verify_attestations(planned.install, {}, change.repository, request, context.reporter)
            return decision, sizes
        if _check_wheels(pins, planned, request, context, change):
            return decision, sizes
        decision = decide()


def _check_wheels(
    pins: Sequence[Pin],
    planned: Plan,
    request: ChangeRequest,
    context: Context,
    change: ChangeContext,
) -> bool:
    """Check local wheels; return whether each agrees with the data it was chosen by."""
    from wheelfit.installation.apply import rehearse
    from wheelfit.installation.startup_files import StartupFiles
    from wheelfit.operations.temporary_folders import scratch_folder

    wheels: dict[str, UnpackedWheel] = {}
    # Reading local wheels is not a download to report.
    silent_transfers = Reporter().transfers(change.repository.cancel)
    with scratch_folder() as folder, silent_transfers as transfers:
        if not fetch_wheels(pins, wheels, folder, change, context.reporter, transfers):
            return False
        verify_attestations(planned.install, wheels, change.repository, request, context.reporter)
        rehearse(
            planned,
            change.environment,
            {pin.name: wheels[pin.file.url] for pin in pins},
            replace=request.replace_files,
            startup_files=StartupFiles(request.startup_files),
        )
    return True


def _wheels_to_read(
    planned: Plan, sizes: Sizes, request: ChangeRequest, change: ChangeContext
) -> list[Pin]:
    """Return the wheels to read: with ``--offline`` all, else local ones that may be refused.

    Cached wheels were verified when they were stored, so that only their startup files or a
    conflict can be refused. In an empty environment there are no conflicts.
    """
    folders = change.environment.schemes.libraries()
    is_empty = not any(name for folder in folders if folder.is_dir() for name in folder.iterdir())
    reads_cached = request.startup_files == "deny" or not is_empty
    return [
        pin
        for pin in planned.install
        if (pin.file.origin is None or pin.file.origin.is_built)  # else it has no wheel yet
        and (
            request.offline or (sizes[pin.name].is_on_disk and (reads_cached or pin.file.is_local))
        )
    ]


def _check_space(
    planned: Plan, sizes: Sizes, request: ChangeRequest, context: Context, change: ChangeContext
) -> None:
    """Raise if the change needs more space than is free, as far as sizes are known.

    Files of wheels in the cache are linked, so they need no space on the disk of the cache.
    """
    from wheelfit.wheels.disk_space import free_space, no_space_message

    folder = nearest_existing(change.environment.schemes.purelib)
    wheel_sizes = [sizes[pin.name] for pin in planned.install]
    needed = sum(size.unpacked or 0 for size in wheel_sizes if not size.is_on_disk)
    if any(size.is_on_disk for size in wheel_sizes) and not _is_linked(folder, request, context):
        needed += sum(size.unpacked or 0 for size in wheel_sizes if size.is_on_disk)
    if needed > free_space(folder):
        raise EnvironmentUnavailable(
            no_space_message(folder, needed),
            where=str(folder),
            hint="free some space and try again",
        )


def _is_linked(place: Path, request: ChangeRequest, context: Context) -> bool:
    """Return whether files of the cache are linked to a place, on its disk."""
    cache = cache_folder_in_use(request, context.environ)
    if cache is None or request.link_mode == "copy":
        return False
    return place.stat().st_dev == nearest_existing(cache).stat().st_dev
