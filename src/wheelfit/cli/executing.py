"""Who does the work of commands with many items: the options, and what is opened for them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from wheelfit.cli.options import given

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wheelfit.build.executors import Workers
    from wheelfit.check.local import CheckedWheel, Each, WheelToCheck
    from wheelfit.errors import WheelfitError
    from wheelfit.sources.progress import Progress

__all__ = ["add_executor", "batch_for", "each_wheel", "open_workers_of"]


def __dir__() -> list[str]:
    return __all__


_SMALL = 4 << 20
"""Bytes of wheels that are sent several at once."""
_BATCH = 32
_PROBED = 16
"""Folders of which it is looked whether workers see them."""


def add_executor(parser: ArgumentParser, default: str = "this one") -> None:
    """Add who does the work.

    :param parser: of the command.
    :param default: who does it if nobody is named.
    """
    group = parser.add_argument_group("who works")
    group.add_argument(
        "-j",
        "--jobs",
        type=_count,
        metavar="N",
        help=f"work in N processes of this machine (default: {default})",
    )
    group.add_argument(
        "--executor",
        type=given,
        metavar="URL",
        help="let others work: dask://HOST:PORT, with the extra dask; processes: as many as there "
        "are processors",
    )


def _count(text: str) -> int:
    from argparse import ArgumentTypeError

    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 4096:
        raise ArgumentTypeError(f"{text!r} is no number of processes")
    return int(text)


@contextmanager
def open_workers_of(arguments: Namespace) -> Iterator[Workers]:
    """Open who does the work.

    :param arguments: with those of `add_executor`.
    :raises WheelfitError: see `wheelfit.build.executors.open_workers`.
    """
    from wheelfit.build.executors import open_workers

    with open_workers(arguments.executor, jobs=arguments.jobs) as workers:
        yield workers


def batch_for(sizes: Sequence[int], workers: Workers) -> int:
    """Return how many files are sent to a worker at once: several where they are small.

    :param sizes: bytes of the files.
    :param workers: who does the work.
    """
    if not sizes or sum(sizes) / len(sizes) > _SMALL:
        return 1
    return max(1, min(_BATCH, len(sizes) // (8 * workers.count())))


@contextmanager
def each_wheel(arguments: Namespace) -> Iterator[Each | None]:
    """Give what looks at wheels as `wheelfit.check.local.check_paths` asks for it; None: threads.

    :param arguments: with those of `add_executor`.
    """
    if arguments.jobs is None and arguments.executor is None:
        yield None
        return
    with open_workers_of(arguments) as workers:
        yield _Each(workers)


class _Each:
    """Have wheels looked at (`wheelfit.check.local.Each`)."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    def __call__(
        self,
        function: Callable[[WheelToCheck], CheckedWheel],
        asked: Sequence[WheelToCheck],
        progress: Progress,
        /,
    ) -> Iterable[CheckedWheel | WheelfitError]:
        from pathlib import Path

        from wheelfit.build.work import run
        from wheelfit.errors import NeedsExtra
        from wheelfit.values import replace

        workers, here = self._workers, Path.cwd()
        folders = {one.path.parent: one.path for one in asked}
        workers.must_see(list(folders.values())[:_PROBED])
        outcomes = run(
            function,
            [replace(one, folder=here) for one in asked],
            executor=workers.executor,
            workers=workers.count,
            batch=batch_for([one.size for one in asked], workers),
            progress=progress,
            weigh=lambda one: one.size,
        )
        for outcome in outcomes:
            if isinstance(outcome.error, NeedsExtra):
                raise outcome.error  # it is so for all of them
            if outcome.error is not None:
                yield outcome.error
            elif outcome.value is not None:
                yield outcome.value
