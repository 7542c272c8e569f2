"""Do something to many wheels, all or none, and tell what became of each."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import ExitStack
    from pathlib import Path

    from wheelfit.build.staging import Staging
    from wheelfit.build.wheel_jobs import Act, Done, WheelJob
    from wheelfit.cli.output import Output
    from wheelfit.errors import WheelfitError

FAILURES = 9
"""The exit code when something could not be done, and the rest was, as was asked."""


def find_wheels(names: Sequence[str]) -> list[Path]:
    """Return the wheels that are named, and those of folders that are.

    :param names: paths of wheels and folders.
    :raises FileProblem: something is not there, or a folder has no wheels.
    :raises UsageError: something is no wheel.
    """
    import os
    from pathlib import Path

    from wheelfit.errors import FileProblem, UsageError

    found: dict[Path, None] = {}
    for name in names:
        path = Path(name)
        if not path.is_dir():
            if path.suffix != ".whl":
                raise UsageError(
                    f"{name} is no wheel, and no folder of wheels",
                    hint="name *.whl files or folders that exist",
                )
            if not path.is_file():
                raise FileProblem("there is no such wheel", where=name)
            found[path] = None
            continue
        inside: dict[Path, None] = {}
        for root, folders, files in os.walk(path):
            # Hidden folders hold environments and the memory of tools.
            folders[:] = sorted(one for one in folders if not one.startswith("."))
            inside |= {Path(root, one): None for one in sorted(files) if one.endswith(".whl")}
        if not inside:
            raise FileProblem("there are no wheels in the folder", where=name)
        found |= inside
    return list(found)


def carry_out(
    work: Sequence[tuple[Path, Act]],
    arguments: Namespace,
    output: Output,
    environ: Mapping[str, str],
    *,
    copy_unchanged: bool = False,
    more: Callable[[Sequence[Done]], Mapping[str, object]] = lambda _: {},
    called: Mapping[Path, str] = MappingProxyType({}),
) -> int:
    """Do all the work, and tell what became of each wheel.

    All results get their names at the end, or none does; with ``--keep-going`` each as it is
    done.

    :param work: wheels with what is done to each.
    :param arguments: with the options of `wheels.RESULTS`.
    :param output: how to speak.
    :param environ: the environment of the process; ``SOURCE_DATE_EPOCH`` counts.
    :param copy_unchanged: whether wheels that need nothing are copied to an output folder.
    :param more: is given the results, and does what else is asked for before they are told;
        returns what ``--json`` has besides.
    :param called: how wheels are called that were fetched, in place of their paths.
    :return: the exit code.
    """
    from contextlib import ExitStack

    from wheelfit.build.staging import Staging
    from wheelfit.build.wheel_jobs import WheelJob
    from wheelfit.operations.source_date import source_date_epoch
    from wheelfit.wheels.rewrite import Writing

    writing = Writing(
        epoch=source_date_epoch(environ),
        verify_content=arguments.verify_content,
        repair_record=arguments.accept_record_errors,
        sync=not (arguments.no_sync or arguments.dry_run),
    )
    with ExitStack() as stack:
        places = _places(work, arguments, stack)
        staging = stack.enter_context(Staging())
        jobs = [
            WheelJob(
                source,
                act,
                staging.room_for(place),
                writing,
                copy_unchanged=copy_unchanged and not _same(source.parent, place),
            )
            for (source, act), place in zip(work, places, strict=True)
        ]
        results = _Results(staging, jobs, places, arguments, called)
        _do(jobs, arguments, output, results.take)
        results.publish_rest()
        further = more(results.done)
    _tell(results, arguments, output, further)
    return FAILURES if results.failed else 0


def _do(
    jobs: Sequence[WheelJob],
    arguments: Namespace,
    output: Output,
    take: Callable[[int, Done | WheelfitError], None],
) -> None:
    """Do each job, and hand over what became of it, in their order."""
    from wheelfit.build.wheel_jobs import do_job
    from wheelfit.errors import WheelfitError
    from wheelfit.operations.executors import is_executor_named, write_by_workers

    with output.work("writing") as bar:
        sizes = [job.source.stat().st_size for job in jobs]
        if is_executor_named(arguments):
            write_by_workers(jobs, sizes, arguments, bar, take)
            return
        bar.start(sum(sizes))
        for index, job in enumerate(jobs):
            try:
                one: Done | WheelfitError = do_job(job)
            except WheelfitError as error:
                one = error
            take(index, one)
            bar.advance(sizes[index])
        bar.done()


class _Results:
    """Publish results as was asked: all together, or each as it comes."""

    def __init__(
        self,
        staging: Staging,
        jobs: Sequence[WheelJob],
        places: Sequence[Path],
        arguments: Namespace,
        called: Mapping[Path, str],
    ) -> None:
        self._staging = staging
        self._called = called
        self._sources = [job.source for job in jobs]
        self._rooms = [job.folder for job in jobs]
        self._places = places
        self._arguments = arguments
        self._waiting: list[tuple[Done, Path]] = []
        self.done: list[Done] = []
        """What became of the wheels, where they are now."""
        self.failed: list[tuple[Path, WheelfitError]] = []
        """Wheels that could not be done, and why."""

    def name_of(self, source: Path) -> str:
        """Return how people know a wheel."""
        return self._called.get(source, str(source))

    def take(self, index: int, one: Done | WheelfitError) -> None:
        """Take what became of a wheel.

        :param index: which it is.
        :param one: what became of it.
        :raises WheelfitError: the error, if all wheels are to be done or none.
        """
        from wheelfit.errors import WheelfitError

        if isinstance(one, WheelfitError):
            # Where a result waits for its name is nothing to people.
            room = str(self._rooms[index])
            if one.where is not None and one.where.startswith(room):
                one.where = f"{self._places[index]}{one.where[len(room) :]}"
            if one.where == str(self._sources[index]):
                one.where = self.name_of(self._sources[index])
            if not self._arguments.keep_going:
                raise one
            self.failed.append((self._sources[index], one))
            return
        self._waiting.append((one, self._places[index]))
        if self._arguments.keep_going:
            try:
                self.publish_rest()
            except WheelfitError as error:
                self.failed.append((self._sources[index], error))
                self._waiting.clear()

    def publish_rest(self) -> None:
        """Give their names to results that have none yet.

        :raises WheelfitError: something is in the way, or contradicts what is there.
        """
        from dataclasses import replace

        from wheelfit.build.index_file import check_consistency
        from wheelfit.errors import FileProblem

        published, pairs, own = [], [], set()
        for one, folder in self._waiting:
            if not one.is_new:
                published.append(one)
                continue
            place = folder / one.path.name
            if any(place == other.path for other in self.done if other.is_new):
                raise FileProblem("another result has that name already", where=str(place))
            pairs.append((one.path, place))
            if place.name == one.source.name and _same(place.parent, one.source.parent):
                own.add(place)
            published.append(replace(one, path=place))
        check_consistency({place: result for result, place in pairs})
        overwrite = [place for _, place in pairs if self._arguments.overwrite or place in own]
        self._staging.publish(pairs, overwrite=overwrite, rehearse=self._arguments.dry_run)
        self.done += published
        self._waiting.clear()


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


def _tell(
    results: _Results, arguments: Namespace, output: Output, further: Mapping[str, object]
) -> None:
    output.result_json(
        {
            "version": 1,
            "dry_run": arguments.dry_run,
            "wheels": [_mapping(one, results.name_of(one.source)) for one in results.done],
            "failed": [
                {"source": results.name_of(source), "error": error.parts()}
                for source, error in results.failed
            ],
            **further,
        }
    )
    for one in results.done:
        if not one.is_new:
            output.say(f"{one.source}: there is nothing to do", "dim")
            continue
        output.result(str(one.path), "good")
        for text in one.notes:
            output.say(f"  {text}")
    if results.failed and not output.json:
        for _, error in results.failed:
            output.error(error)
        from wheelfit.wording import count_of

        left = count_of(len(results.failed), "wheel")
        output.say(f"{left} could not be done; the others are there", "bad")
    if arguments.dry_run:
        output.say("nothing was written: this was a dry run", "dim")


def _mapping(one: Done, source: str) -> dict[str, object]:
    from wheelfit.core.filename import parse_wheel_filename

    return {
        "source": source,
        "path": str(one.path),
        "label": parse_wheel_filename(one.path.name).label,
        "changed": one.is_new,
        "content_verified": one.content_verified,
        "layout": one.layout,
        "notes": list(one.notes),
    }


def _places(work: Sequence[tuple[Path, Act]], arguments: Namespace, stack: ExitStack) -> list[Path]:
    """Return the folder for the result of each wheel."""
    from pathlib import Path

    from wheelfit.operations.files import new_folder

    if arguments.output is None:
        return [source.parent for source, _ in work]
    folder = Path(arguments.output)
    if arguments.dry_run and not folder.exists():
        from tempfile import TemporaryDirectory

        scratch = stack.enter_context(TemporaryDirectory(prefix="wheelfit-"))
        return [Path(scratch)] * len(work)
    return [stack.enter_context(new_folder(str(folder)))] * len(work)
