"""What a dry run refuses because the real one would, as far as it can be known beforehand.

Wheels that are at hand are unpacked into the cache and looked at, as for an installation. Of the
others only the indexes are asked, so what their files hold is not known.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from wheelfit.core.sizes import size_in_words
from wheelfit.installation.apply import rehearse as rehearse_change
from wheelfit.installation.environment import nearest_existing
from wheelfit.installation.startup_files import StartupFiles
from wheelfit.operations.cache_folder import cache_folder_in_use
from wheelfit.operations.changes import attest, carry_out, fetch
from wheelfit.operations.context import Reporter
from wheelfit.operations.scratch import scratch_folder
from wheelfit.operations.text import sizes_of
from wheelfit_runtime.errors import EnvironmentUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.installation.plan import Plan
    from wheelfit.operations.changes import ChangeRequest, Decided, Ground
    from wheelfit.operations.context import Context
    from wheelfit.operations.step_durations import StepDurations
    from wheelfit.resolution.resolution import Pin
    from wheelfit.sources.size import FileSize
    from wheelfit.wheels.unpacked import UnpackedWheel

    Sizes = Mapping[NormalizedName, FileSize]


def carry_out_or_rehearse(
    decision: Decided,
    decide: Callable[[], Decided],
    request: ChangeRequest,
    context: Context,
    ground: Ground,
    durations: StepDurations,
) -> tuple[Decided, Sizes | None]:
    """Do what was decided; of a dry run, refuse what the real one would refuse.

    :param durations: the time that each step takes.
    :returns: what was or would be done in the end, and of a dry run the sizes of the wheels.
    """
    if not request.dry_run:
        done = carry_out(decision, decide, request, context.reporter, ground, durations)
        return done, None
    return _rehearse(decision, decide, request, context, ground)


def _rehearse(
    decision: Decided,
    decide: Callable[[], Decided],
    request: ChangeRequest,
    context: Context,
    ground: Ground,
) -> tuple[Decided, Sizes]:
    """Refuse what the real run would refuse; return what that would do, and the sizes of it.

    A wheel at hand that is not what it was chosen for gives way to the next, as then.

    :param decision: what to do.
    :param decide: decides anew.
    :param request: of the command.
    :param context: the surroundings.
    :param ground: where.
    :raises EnvironmentUnavailable: there is not enough space, or a folder cannot be written.
    :raises WheelfitError: as `wheelfit.installation.apply.apply` says, of the wheels at hand.
    """
    wheels: dict[str, UnpackedWheel] = {}
    reporter = context.reporter
    # What is at hand is no download that anybody wants to hear of.
    silent = Reporter().transfers(ground.repository.cut)
    with scratch_folder() as folder, silent as transfers:
        while True:
            planned = decision.planned
            sizes = sizes_of(planned.install, ground.candidates.repository, unpacked=True)
            if not planned:
                return decision, sizes
            _check_space(planned, sizes, request, context, ground)
            pins = _at_hand(planned.install, sizes, is_all=request.offline)
            if fetch(pins, wheels, folder, ground, reporter, transfers):
                break
            decision = decide()
        attest(planned, wheels, request, ground, reporter)
        rehearse_change(
            planned,
            ground.environment,
            {pin.name: wheels[pin.file.url] for pin in pins},
            replace=request.replace_files,
            startup_files=StartupFiles(request.startup_files),
        )
        return decision, sizes


def _at_hand(pins: Sequence[Pin], sizes: Sizes, *, is_all: bool) -> list[Pin]:
    """Return what can be looked at without a server; all that need not be built, if so asked."""
    return [
        pin
        for pin in pins
        if (pin.file.origin is None or pin.file.origin.is_built)
        and (is_all or sizes[pin.name].is_here)
    ]


def _check_space(
    planned: Plan, sizes: Sizes, request: ChangeRequest, context: Context, ground: Ground
) -> None:
    """Refuse what takes more space than there is, as far as sizes are known.

    Files of wheels in the cache are linked, so they take none on its disk.
    """
    place = nearest_existing(ground.environment.schemes.purelib)
    cache = cache_folder_in_use(request, context.environ)
    is_linked = request.link_mode != "copy" and cache is not None and _share_a_disk(place, cache)
    needed = sum(
        size.unpacked or 0
        for size in (sizes[pin.name] for pin in planned.install)
        if not (size.is_here and is_linked)
    )
    free = shutil.disk_usage(place).free
    if needed > free:
        raise EnvironmentUnavailable(
            f"there is not enough space: {size_in_words(needed)} are needed, and "
            f"{size_in_words(free)} are free",
            where=str(place),
            hint="make room and try again",
        )


def _share_a_disk(place: Path, other: Path) -> bool:
    return place.stat().st_dev == nearest_existing(other).stat().st_dev
