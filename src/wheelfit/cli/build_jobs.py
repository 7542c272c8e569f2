"""Build the wheels of a matrix that this machine can, as many at once as there are workers.

Builds in one folder are in each other's way: backends write there. So each job builds from a source
distribution that is made first, in a folder of its own that is gone when the job is done.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wheelfit.build.executors import Workers
    from wheelfit.build.front_end.orders import BuildOrder, BuiltWheel
    from wheelfit.build.front_end.source import Source
    from wheelfit.build.front_end.variants import Choice
    from wheelfit.build.jobs import JobResult
    from wheelfit.build.matrix import Job
    from wheelfit.build.work import Outcome
    from wheelfit.build.work_record import WorkRecord
    from wheelfit.cli.output import Output
    from wheelfit.core.labels import Label
    from wheelfit.errors import WheelfitError

FAILURES = 9
"""The exit code when some jobs failed, and the others are done."""
_RECORD = ".wheelfit-build"
"""The file beside the wheels in which it stands what is done."""


# --- which jobs --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Jobs:
    """Hold the jobs of one command."""

    here: tuple[Job, ...]
    elsewhere: tuple[Job, ...]
    """Those of other platforms."""
    default: str
    """The version of the Python that counts where none is named."""

    @property
    def pythons(self) -> tuple[str, ...]:
        """The Pythons of the jobs here."""
        return tuple(dict.fromkeys(job.python for job in self.here))


def jobs_for(
    arguments: Namespace, environ: Mapping[str, str], source: Source, choices: Sequence[Choice]
) -> Jobs | None:
    """Return the jobs that are asked for; None: the wheels are built here one after the other.

    :param arguments: of `wheelfit build`.
    :param environ: the environment of the process.
    :param source: the project.
    :param choices: the wheels that are wanted, where the project has no matrix.
    :raises InvalidProject: its matrix has faults.
    :raises UsageError: options contradict each other, or leave nothing of the matrix.
    """
    from wheelfit.build.jobs import is_for
    from wheelfit.build.matrix import ANY, Job
    from wheelfit.errors import UsageError
    from wheelfit.operations.environments import open_environment_of
    from wheelfit.operations.executors import is_executor_named
    from wheelfit.operations.matrix import matrix_of

    matrix = matrix_of(source) if arguments.all else None
    if matrix is None and arguments.only_python:
        raise UsageError(
            "--only-python is for a matrix",
            hint="give --all, for a project with [tool.wheelfit.matrix]",
        )
    if matrix is None and not is_executor_named(arguments):
        return None
    if arguments.is_editable:
        raise UsageError("an editable wheel is built alone", hint="leave out --all, -j, --executor")
    target = open_environment_of(arguments, environ)
    default = _version_of(target.interpreter.version, target.interpreter.tags[0].abi)
    if matrix is None:
        jobs = tuple(Job(one.label, default, ANY) for one in choices)
        return Jobs(jobs, (), default)
    if arguments.python is not None and not arguments.only_python:
        jobs = matrix.only(pythons=[default])
    else:
        jobs = matrix.only(pythons=arguments.only_python)
    if arguments.plain is False:
        jobs = tuple(job for job in jobs if job.label is not None)
    if not jobs:
        raise UsageError(
            "no wheel of the matrix is left", hint="wheelfit matrix lists its Pythons and platforms"
        )
    platform = _platform()
    here = tuple(job for job in jobs if is_for(job, platform))
    return Jobs(here, tuple(job for job in jobs if job not in here), default)


def _version_of(version: tuple[int, int, int], abi: str) -> str:
    return f"{version[0]}.{version[1]}{'t' if abi.endswith('t') else ''}"


def _platform() -> str:
    import platform
    import sysconfig

    from wheelfit.build.matrix import platform_of

    is_musl = "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or "")
    return platform_of(platform.system(), platform.machine(), is_musl=is_musl)


# --- doing them --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BuildItem:
    """Ask for the wheels of one order by one Python; can be pickled."""

    order: BuildOrder
    version: str
    """Of the Python."""
    arguments: Namespace
    """Of the command."""
    environ: Mapping[str, str]
    folder: Path
    """Where wheels go."""
    problem: WheelfitError | None = None
    """Why it cannot be done."""

    def __str__(self) -> str:
        labels = ["plain" if one.label is None else str(one.label) for one in self.order.choices]
        return f"{', '.join(labels)} for Python {self.version}"


def build_item(item: BuildItem) -> tuple[BuiltWheel, ...]:
    """Build the wheels of an order, and put them where they go; everything else is gone then.

    :param item: says which.
    :raises WheelfitError: they cannot be built; nothing was written.
    """
    from tempfile import mkdtemp

    from wheelfit.build.front_end.building import build_wheels
    from wheelfit.build.front_end.delivery import deliver
    from wheelfit.cli.build_places import open_build_places
    from wheelfit.cli.output import Output
    from wheelfit.operations.scratch import scratch_folder

    if item.problem is not None:
        raise item.problem
    quiet = Output(verbosity=-1)
    with scratch_folder() as scratch:
        with open_build_places(item.arguments, item.environ, quiet) as places:
            folder = Path(mkdtemp(dir=scratch))
            wheels = build_wheels(item.order, places, folder, environ=item.environ)
        paths = deliver([wheel.path for wheel in wheels], item.folder)
    return tuple(replace(wheel, path=path) for wheel, path in zip(wheels, paths, strict=True))


def do_jobs(
    jobs: Jobs,
    orders: Callable[[Sequence[Choice]], Sequence[BuildOrder]],
    source: Source,
    arguments: Namespace,
    environ: Mapping[str, str],
    output: Output,
) -> tuple[Sequence[JobResult], Sequence[str]]:
    """Build the jobs of this machine, and return the results of all jobs, and warnings.

    :param jobs: those of the command.
    :param orders: makes orders of wheels, as few as will do; of a source distribution.
    :param source: the project.
    :param arguments: of the command.
    :param environ: the environment of the process.
    :param output: how to speak.
    """
    from wheelfit.build.jobs import JobResult
    from wheelfit.build.work import run
    from wheelfit.operations.executors import open_workers_of

    target = Path(arguments.folder).absolute()
    target.mkdir(parents=True, exist_ok=True)
    with open_workers_of(arguments) as workers, _shared_sources(target) as shared:
        items, covered = _items(jobs, orders, source, shared, arguments, environ, target)
        if workers.are_elsewhere:
            workers.must_see([item.order.project for item in items[:1]], [target])
        _tell_workers(workers, items, output)
        with (
            _record(items, arguments, environ, target, output) as record,
            output.work("building") as bar,
        ):
            outcomes = run(
                build_item,
                items,
                executor=workers.executor,
                workers=workers.count,
                record=record,
                progress=bar,
                done=lambda outcome: _tell_finished(outcome, output),
            )
        lost, notes = _compared(outcomes, orders, shared, output)
    found = {}
    for outcome, those in zip(outcomes, covered, strict=True):
        by_label = {wheel.label: wheel for wheel in outcome.value or ()}
        for job in those:
            wheel = by_label.get(job.label)
            error = lost.get(wheel.path) if wheel else outcome.error
            status = "failed" if error else "kept" if outcome.is_kept else "built"
            wheel = None if error else wheel
            found[job] = JobResult(job, status, wheel, error, outcome.seconds)
    results = [found[job] for job in jobs.here]
    return results + [JobResult(job, "skipped") for job in jobs.elsewhere], notes


def _compared(
    outcomes: Sequence[Outcome[BuildItem, tuple[BuiltWheel, ...]]],
    orders: Callable[[Sequence[Choice]], Sequence[BuildOrder]],
    shared: Callable[[Path], Path],
    output: Output,
) -> tuple[Mapping[Path, WheelfitError], Sequence[str]]:
    """Remove variants that lost optimisation, and return their errors, and warnings."""
    from wheelfit.build.front_end.comparison import compare_with_plain
    from wheelfit.build.front_end.variants import PLAIN
    from wheelfit.operations.scratch import scratch_folder

    (plain_order,) = orders([PLAIN])
    lost: dict[Path, WheelfitError] = {}
    notes: list[str] = []
    for version in dict.fromkeys(outcome.item.version for outcome in outcomes):
        those = [one for one in outcomes if one.item.version == version]
        with scratch_folder() as scratch:
            order = replace(plain_order, project=shared(plain_order.project))
            item = replace(those[0].item, order=order, folder=scratch)

            def build_plain(item: BuildItem = item) -> BuiltWheel:
                output.say("a plain wheel is built to compare the variants with", "dim")
                return build_item(item)[0]

            compared = compare_with_plain(
                [(one.item.order, one.value or ()) for one in those], order, build_plain
            )
        for wheel, error in compared.losses:
            # Every wheel of the same content is lost, and none is kept for the next run.
            for other in (one for each in those for one in each.value or ()):
                if other.content == wheel.content:
                    other.path.unlink(missing_ok=True)
                    lost[other.path] = error
        for one in those:
            if _has_variants(one):
                is_lost = any(wheel.path in lost for wheel in one.value or ())
                _tell_done(one, output, is_failed=is_lost)
        notes += compared.notes
    return lost, notes


def _has_variants(outcome: Outcome[BuildItem, tuple[BuiltWheel, ...]]) -> bool:
    """Return whether wheels of an outcome are compared before they count."""
    return any(wheel.label is not None for wheel in outcome.value or ())


def _items(
    jobs: Jobs,
    orders: Callable[[Sequence[Choice]], Sequence[BuildOrder]],
    source: Source,
    shared: Callable[[Path], Path],
    arguments: Namespace,
    environ: Mapping[str, str],
    target: Path,
) -> tuple[list[BuildItem], list[list[Job]]]:
    """Return what is built, and which jobs each of that covers."""
    from argparse import Namespace as Copy

    items: list[BuildItem] = []
    covered: list[list[Job]] = []
    for version in jobs.pythons:
        problem, python = _interpreter(version, jobs, arguments, environ)
        given = Copy(**{**vars(arguments), "python": python})
        asked: dict[Label | None, list[Job]] = {}  # several are `any` and this very platform
        for job in jobs.here:
            if job.python == version:
                asked.setdefault(job.label, []).append(job)
        for order in orders([_choice(those[0], source) for those in asked.values()]):
            moved = replace(order, project=shared(order.project))
            items.append(BuildItem(moved, version, given, dict(environ), target, problem))
            covered.append([job for one in order.choices for job in asked[one.label]])
    return items, covered


def _choice(job: Job, source: Source) -> Choice:
    from wheelfit.build.front_end.variants import Choice
    from wheelfit.core.properties import EMPTY

    if job.label is None or source.table is None:
        return Choice(job.label)
    return Choice(job.label, source.table.variants.get(job.label, EMPTY))


def _interpreter(
    version: str, jobs: Jobs, arguments: Namespace, environ: Mapping[str, str]
) -> tuple[WheelfitError | None, str | None]:
    """Return how the Python of a version is named; why not, if it is not here."""
    from argparse import Namespace as Copy

    from wheelfit.errors import UnusableInterpreter
    from wheelfit.operations.environments import open_environment_of

    if version == jobs.default:
        return None, arguments.python
    try:  # what is on PATH may be a shim of a version manager, with nothing behind it
        open_environment_of(Copy(**{**vars(arguments), "python": version}), environ)
    except UnusableInterpreter as error:
        error.hint = f"install Python {version}, or leave it out with --only-python"
        return error, None
    return None, version


@contextmanager
def _shared_sources(target: Path) -> Iterator[Callable[[Path], Path]]:
    """Give what puts a source distribution where all workers see it, until the block ends."""
    from tempfile import mkdtemp

    folder = Path(mkdtemp(prefix=".wheelfit-sources-", dir=target))
    known: dict[Path, Path] = {}

    def shared(path: Path) -> Path:
        if path not in known:
            known[path] = Path(shutil.copy(path, folder))
        return known[path]

    try:
        yield shared
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _record(
    items: Sequence[BuildItem],
    arguments: Namespace,
    environ: Mapping[str, str],
    target: Path,
    output: Output,
) -> Iterator[WorkRecord[BuildItem, tuple[BuiltWheel, ...]]]:
    """Open what is known of earlier runs; it lies beside the wheels."""
    from wheelfit.build.jobs import of_record, order_digest, source_digest, to_record
    from wheelfit.build.work_record import WorkRecord
    from wheelfit.install.seal import Seal
    from wheelfit.operations.environments import open_environment_of
    from wheelfit.platforms.cache_folder import state_folder_of

    sources = {path: source_digest(path) for path in {item.order.project for item in items}}
    said = repr([arguments.constraint, arguments.no_build_isolation])
    pythons: dict[str, str] = {}

    def key(item: BuildItem) -> str:
        if item.version not in pythons and item.problem is None:
            found = open_environment_of(item.arguments, item.environ).interpreter
            pythons[item.version] = f"{found.executable} {found.version}"
        python = pythons.get(item.version, "")
        return order_digest(item.order, sources[item.order.project], python, said, environ)

    path = target / _RECORD
    seal = Seal(Path(state_folder_of(environ)))
    if arguments.rebuild:
        path.unlink(missing_ok=True)
    with WorkRecord[BuildItem, tuple["BuiltWheel", ...]](
        path,
        purpose="build",
        key=key,
        to_data=to_record,
        of_data=lambda data: of_record(data, target),
        sign=lambda text: seal.of("what is built", str(path), text),
        note=output.warn,
    ) as record:
        yield record


# --- telling -----------------------------------------------------------------------------------


def _tell_workers(workers: Workers, items: Sequence[BuildItem], output: Output) -> None:
    from wheelfit.wording import count_of

    output.detail(f"{count_of(len(items), 'build')} by {workers.words}")


def _tell_finished(outcome: Outcome[BuildItem, tuple[BuiltWheel, ...]], output: Output) -> None:
    """Name a build that is finished, unless its variants have yet to be compared."""
    if not _has_variants(outcome):
        _tell_done(outcome, output, is_failed=outcome.error is not None)


def _tell_done(
    outcome: Outcome[BuildItem, tuple[BuiltWheel, ...]], output: Output, *, is_failed: bool
) -> None:
    word = "failed" if is_failed else "kept" if outcome.is_kept else "built"
    output.say(f"{word} {outcome.item}", "bad" if is_failed else "dim")


def tell_jobs(results: Sequence[JobResult], output: Output) -> int:
    """Say what became of jobs, in few words, and return the exit code.

    :param results: of all jobs.
    :param output: how to speak.
    """
    # One fault of several jobs is told once, though each process has an error of its own.
    errors = {str(one.error.parts()): one.error for one in results if one.error is not None}
    for error in errors.values():
        if not output.json:
            output.error(error)
    skipped = sorted({one.job.platform for one in results if one.status == "skipped"})
    words = {
        "built": "built",
        "kept": "kept from before",
        "failed": "failed",
        "skipped": f"for other platforms ({', '.join(skipped)})",
    }
    counts = {status: sum(one.status == status for one in results) for status in words}
    parts = [f"{count} {words[status]}" for status, count in counts.items() if count]
    output.say(", ".join(parts), "bad" if counts["failed"] else "good")
    return FAILURES if counts["failed"] else 0
