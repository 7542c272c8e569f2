"""The workers of a request, and the wheels that they check and write."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wheelfit.building.batch import Outcome
    from wheelfit.building.executors import Workers
    from wheelfit.building.wheel_jobs import WheelJob, WheelJobResult
    from wheelfit.checking.targets.each_wheel import CheckedWheel, WheelMapper, WheelToCheck
    from wheelfit.operations.requests import WorkerOptions
    from wheelfit.sources.progress import Progress
    from wheelfit_runtime.errors import WheelfitError

_SMALL_SIZE = 4 << 20
"""Bytes of a wheel up to which a worker gets several at a time."""
_MAX_BATCH = 32
_MAX_FOLDERS_PROBED = 16
"""The most folders for which the access of workers is tested."""


def is_executor_named(request: WorkerOptions) -> bool:
    """Return whether a request names an executor or a number of processes."""
    return request.jobs is not None or request.executor is not None


def open_workers_of(request: WorkerOptions) -> AbstractContextManager[Workers]:
    """Open the workers of a request."""
    from wheelfit.building.executors import open_workers

    return open_workers(request.executor, jobs=request.jobs)


def batch_for(sizes: Sequence[int], workers: Workers) -> int:
    """Return the number of files that a worker gets at a time: several if they are small."""
    if not sizes or sum(sizes) / len(sizes) > _SMALL_SIZE:
        return 1
    # Each worker gets several batches, so that all workers end at about the same time.
    return max(1, min(_MAX_BATCH, len(sizes) // (8 * workers.count())))


@contextmanager
def open_wheel_mapper(request: WorkerOptions) -> Iterator[WheelMapper | None]:
    """Open the workers for `wheelfit.checking.targets.paths.check_paths`; None means threads."""
    if not is_executor_named(request):
        yield None
        return
    with open_workers_of(request) as workers:
        yield partial(_map_wheels, workers)


def _map_wheels(
    workers: Workers,
    function: Callable[[WheelToCheck], CheckedWheel],
    wheels: Sequence[WheelToCheck],
    progress: Progress,
) -> Iterable[CheckedWheel | WheelfitError]:
    """Call a function for each wheel in worker processes; a `WheelMapper`."""
    from wheelfit.building.batch import Batch
    from wheelfit.errors import NeedsExtra

    current_folder = Path.cwd()
    path_by_folder = {wheel.path.parent: wheel.path for wheel in wheels}
    workers.check_files(list(path_by_folder.values())[:_MAX_FOLDERS_PROBED])
    outcomes = Batch(
        function,
        [replace(wheel, folder=current_folder) for wheel in wheels],
        executor=workers.executor,
        workers=workers.count,
        batch_size=batch_for([wheel.size for wheel in wheels], workers),
        progress=progress,
        size_of=lambda wheel: wheel.size,
    ).run()
    for outcome in outcomes:
        if isinstance(outcome.error, NeedsExtra):
            raise outcome.error  # all others have the same error
        if outcome.error is not None:
            yield outcome.error
        elif outcome.value is not None:
            yield outcome.value


# --- writing -------------------------------------------------------------------------------------


def write_with_workers(
    jobs: Sequence[WheelJob],
    sizes: Sequence[int],
    request: WorkerOptions,
    progress: Progress,
    add_result: Callable[[int, WheelJobResult | WheelfitError], None],
) -> None:
    """Write wheels by the workers of a request.

    :param sizes: bytes of each wheel that is read.
    :param add_result: called in the order of the jobs with the index of a job and its result; an
        exception from it ends the work.
    """
    from wheelfit.building.batch import Batch
    from wheelfit.building.wheel_jobs import run_job

    with open_workers_of(request) as workers:
        absolute_jobs = [_with_absolute_paths(job) for job in jobs]
        indexes = {id(job): index for index, job in enumerate(absolute_jobs)}
        sources = {job.source.parent: job.source for job in absolute_jobs}
        targets = dict.fromkeys(job.folder.parent for job in absolute_jobs)
        workers.check_files(
            list(sources.values())[:_MAX_FOLDERS_PROBED], list(targets)[:_MAX_FOLDERS_PROBED]
        )
        results: dict[int, WheelJobResult | WheelfitError] = {}
        next_index = 0

        def add_in_order(outcome: Outcome[WheelJob, WheelJobResult]) -> None:
            nonlocal next_index
            index = indexes[id(outcome.item)]
            results[index] = _with_requested_paths(outcome, jobs[index])
            while next_index in results:
                next_index += 1
                add_result(next_index - 1, results.pop(next_index - 1))

        Batch(
            run_job,
            absolute_jobs,
            executor=workers.executor,
            workers=workers.count,
            batch_size=batch_for(sizes, workers),
            progress=progress,
            size_of=lambda job: sizes[indexes[id(job)]],
            on_outcome=add_in_order,
        ).run()


def _with_absolute_paths(job: WheelJob) -> WheelJob:
    """Return a job for a process with another current folder.

    It may overwrite: its folder has no other writer, so a file there is from an attempt whose
    process died.
    """
    source, folder = job.source.absolute(), job.folder.absolute()
    options = replace(job.options, overwrite=True)
    return replace(job, source=source, folder=folder, options=options)


def _with_requested_paths(
    outcome: Outcome[WheelJob, WheelJobResult], job: WheelJob
) -> WheelJobResult | WheelfitError:
    """Return the result of a job with the paths of the request."""
    if outcome.value is not None:
        path = outcome.value.path if outcome.value.is_new else job.source
        return replace(outcome.value, source=job.source, path=path)
    error = outcome.error
    assert error is not None  # noqa: S101 - an outcome has a value or an error
    for absolute, requested in (
        (str(outcome.item.source), job.source),
        (str(outcome.item.folder), job.folder),
    ):
        if error.where is not None and error.where.startswith(absolute):
            error.where = f"{requested}{error.where.removeprefix(absolute)}"
    return error
