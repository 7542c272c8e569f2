"""The executors of operations on many items."""

from __future__ import annotations

from contextlib import contextmanager
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

_SMALL = 4 << 20
"""Bytes of wheels that are sent several at once."""
_BATCH = 32
_PROBED = 16
"""The most folders whose visibility is tested by the workers."""


def is_executor_named(request: WorkerOptions) -> bool:
    """Return whether the request names an executor or a number of processes."""
    return request.jobs is not None or request.executor is not None


@contextmanager
def open_workers_of(request: WorkerOptions) -> Iterator[Workers]:
    """Open the workers of a request."""
    from wheelfit.building.executors import open_workers

    with open_workers(request.executor, jobs=request.jobs) as workers:
        yield workers


def batch_for(sizes: Sequence[int], workers: Workers) -> int:
    """Return the number of files a worker gets at once: several where they are small."""
    if not sizes or sum(sizes) / len(sizes) > _SMALL:
        return 1
    return max(1, min(_BATCH, len(sizes) // (8 * workers.count())))


@contextmanager
def each_wheel(request: WorkerOptions) -> Iterator[WheelMapper | None]:
    """Open the workers of `wheelfit.checking.targets.paths.check_paths`; None: threads."""
    if not is_executor_named(request):
        yield None
        return
    with open_workers_of(request) as workers:
        yield _Each(workers)


class _Each:
    """A check of wheels by workers (`wheelfit.checking.targets.each_wheel.WheelMapper`)."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def __call__(
        self,
        function: Callable[[WheelToCheck], CheckedWheel],
        asked: Sequence[WheelToCheck],
        progress: Progress,
        /,
    ) -> Iterable[CheckedWheel | WheelfitError]:
        from dataclasses import replace
        from pathlib import Path

        from wheelfit.building.batch import Batch
        from wheelfit.errors import NeedsExtra

        workers, here = self._workers, Path.cwd()
        folders = {one.path.parent: one.path for one in asked}
        workers.must_see(list(folders.values())[:_PROBED])
        outcomes = Batch(
            function,
            [replace(one, folder=here) for one in asked],
            executor=workers.executor,
            workers=workers.count,
            batch=batch_for([one.size for one in asked], workers),
            progress=progress,
            weigh=lambda one: one.size,
        ).run()
        for outcome in outcomes:
            if isinstance(outcome.error, NeedsExtra):
                raise outcome.error  # it is so for all of them
            if outcome.error is not None:
                yield outcome.error
            elif outcome.value is not None:
                yield outcome.value


# --- wheels that are written -------------------------------------------------------------------


def write_by_workers(
    jobs: Sequence[WheelJob],
    sizes: Sequence[int],
    request: WorkerOptions,
    progress: Progress,
    take: Callable[[int, WheelJobResult | WheelfitError], None],
) -> None:
    """Write wheels by the workers of a request.

    :param take: called in the order of the jobs with the number of a job and its result; an
        exception from it ends the work.
    """
    from wheelfit.building.batch import Batch
    from wheelfit.building.wheel_jobs import do_job

    with open_workers_of(request) as workers:
        sent = [_sent(job) for job in jobs]
        places = {id(job): number for number, job in enumerate(sent)}
        sources = {job.source.parent: job.source for job in sent}
        targets = dict.fromkeys(job.folder.parent for job in sent)
        workers.must_see(list(sources.values())[:_PROBED], list(targets)[:_PROBED])
        waiting: dict[int, WheelJobResult | WheelfitError] = {}
        taken = 0

        def done(outcome: Outcome[WheelJob, WheelJobResult]) -> None:
            nonlocal taken
            number = places[id(outcome.item)]
            waiting[number] = _as_named(outcome, jobs[number])
            while taken in waiting:
                taken += 1
                take(taken - 1, waiting.pop(taken - 1))

        Batch(
            do_job,
            sent,
            executor=workers.executor,
            workers=workers.count,
            batch=batch_for(sizes, workers),
            progress=progress,
            weigh=lambda job: sizes[places[id(job)]],
            done=done,
        ).run()


def _sent(job: WheelJob) -> WheelJob:
    """Return a job for a process elsewhere.

    Its folder has no other writer, so a file there comes from an attempt whose process died.
    """
    from dataclasses import replace

    source, folder = job.source.absolute(), job.folder.absolute()
    writing = replace(job.writing, overwrite=True)
    return replace(job, source=source, folder=folder, writing=writing)


def _as_named(
    outcome: Outcome[WheelJob, WheelJobResult], job: WheelJob
) -> WheelJobResult | WheelfitError:
    """Return the outcome of a job, with paths as the user has named them."""
    from dataclasses import replace

    if outcome.value is not None:
        path = outcome.value.path if outcome.value.is_new else job.source
        return replace(outcome.value, source=job.source, path=path)
    error = outcome.error
    assert error is not None  # noqa: S101 - one of the two is there
    sent = outcome.item
    for there, named in ((sent.source, job.source), (sent.folder, job.folder)):
        if error.where is not None and error.where.startswith(str(there)):
            error.where = f"{named}{error.where[len(str(there)) :]}"
    return error
