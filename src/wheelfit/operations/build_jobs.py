"""The builds of a matrix for this machine, one for each worker at a time.

Builds in one folder conflict: backends write there. So each job builds from a source distribution
that is made first, in a folder of its own that is removed after the job.
"""

from __future__ import annotations

import platform
import shutil
import sysconfig
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from wheelfit.building.batch import Batch, Outcome
from wheelfit.building.batch_record import WorkRecord, digest_of
from wheelfit.building.front_end.building import ProjectBuilder
from wheelfit.building.front_end.comparison import Comparison, compare_with_plain
from wheelfit.building.front_end.variants import PLAIN, WheelToBuild
from wheelfit.building.jobs import (
    JobResult,
    order_digest,
    record_of_wheels,
    runs_on,
    source_digest,
    wheels_of_record,
)
from wheelfit.building.matrix import ANY, Job, platform_of
from wheelfit.building.staging import deliver
from wheelfit.core.properties import EMPTY
from wheelfit.errors import UnusableInterpreter, UsageError
from wheelfit.operations.build_request import BuildRequest, open_build_environments
from wheelfit.operations.cache_folder import cache_folder_in_use
from wheelfit.operations.context import Context, Reporter
from wheelfit.operations.environments import open_environment_of
from wheelfit.operations.executors import is_executor_named, open_workers_of
from wheelfit.operations.matrix import matrix_of
from wheelfit.operations.requirements import read_requirements
from wheelfit.operations.temporary_folders import scratch_folder
from wheelfit_runtime.errors import os_reason
from wheelfit_runtime.platforms.cache_folder import make_folders, unsafe_folder, usable_cache_folder
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wheelfit.building.front_end.build_orders import BuildOrder, BuiltWheel, TunedParts
    from wheelfit.building.front_end.source import Source
    from wheelfit.core.labels import Label
    from wheelfit_runtime.errors import WheelfitError

_RECORDS = "builds"
"""The folder of the cache that records finished wheels, in a file for each output folder."""


# --- selection of jobs ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs of one build."""

    here: tuple[Job, ...]
    elsewhere: tuple[Job, ...]
    """Those of other platforms."""
    default: str
    """The version of the default Python."""
    wheels: tuple[WheelToBuild, ...] = ()
    """The requested wheels, without a matrix; they may have properties of options."""


def select_jobs(
    request: BuildRequest,
    environ: Mapping[str, str],
    source: Source,
    choices: Sequence[WheelToBuild],
) -> Jobs | None:
    """Return the jobs of a build; None: the wheels are built here, one after the other.

    :param choices: the requested wheels, where the project has no matrix.
    :raises InvalidDocument: ``invalid-project``; its matrix has faults.
    :raises UsageError: options contradict each other, or leave nothing of the matrix.
    """
    matrix = matrix_of(source) if request.all else None
    if matrix is None and request.only_python:
        raise UsageError(
            "--only-python is for a matrix",
            hint="give --all, for a project with [tool.wheelfit.matrix]",
        )
    if matrix is None and not is_executor_named(request):
        return None
    if request.is_editable:
        raise UsageError("an editable wheel is built alone", hint="leave out --all, -j, --executor")
    interpreter = open_environment_of(request, environ, may_be_own=True).interpreter
    is_free_threaded = interpreter.tags[0].abi.endswith("t")
    default = "{}.{}".format(*interpreter.version) + ("t" if is_free_threaded else "")
    if matrix is None:
        jobs = tuple(Job(choice.label, default, ANY) for choice in choices)
        return Jobs(jobs, (), default, tuple(choices))
    if request.python is not None and not request.only_python:
        jobs = matrix.only(pythons=[default])
    else:
        jobs = matrix.only(pythons=request.only_python)
    if request.plain is False:
        jobs = tuple(job for job in jobs if job.label is not None)
    if not jobs:
        raise UsageError(
            "no wheel of the matrix matches",
            hint="`wheelfit matrix` lists its Pythons and platforms",
        )
    is_musl = "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or "")
    current = platform_of(platform.system(), platform.machine(), is_musl=is_musl)
    here = tuple(job for job in jobs if runs_on(job, current))
    return Jobs(here, tuple(job for job in jobs if job not in here), default)


# --- running them ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BuildItem:
    """The wheels of one order by one Python; can be pickled."""

    order: BuildOrder
    version: str
    """That of Python."""
    request: BuildRequest
    environ: Mapping[str, str]
    folder: Path
    problem: WheelfitError | None = None
    """The error that prevents the build."""

    def __str__(self) -> str:
        labels = [str(choice.label or "plain") for choice in self.order.choices]
        return f"{', '.join(labels)} for Python {self.version}"


def build_item(item: BuildItem) -> tuple[BuiltWheel, ...]:
    """Build the wheels of an order in its folder, and leave nothing else behind."""
    if item.problem is not None:
        raise item.problem
    with scratch_folder() as scratch:
        with open_build_environments(item.request, Context(item.environ)) as environments:
            folder = Path(mkdtemp(dir=scratch))
            wheels = ProjectBuilder(environments.make, item.environ).wheels(item.order, folder)
        paths = deliver([wheel.path for wheel in wheels], item.folder)
    return tuple(replace(wheel, path=path) for wheel, path in zip(wheels, paths, strict=True))


def run_jobs(
    jobs: Jobs,
    orders: Callable[[Sequence[WheelToBuild]], Sequence[BuildOrder]],
    source: Source,
    request: BuildRequest,
    context: Context,
) -> tuple[Sequence[JobResult], Sequence[str]]:
    """Build the jobs of this machine, and return the results of all jobs, and warnings.

    :param orders: returns as few orders as possible for some wheels, of a source distribution.
    """
    reporter = context.reporter
    target = Path(request.folder).absolute()
    target.mkdir(parents=True, exist_ok=True)
    with open_workers_of(request) as workers, _shared_sources(target) as share:
        items, jobs_of_items = _items(jobs, orders, source, share, request, context, target)
        if workers.are_remote:
            workers.check_files([item.order.project for item in items[:1]], [target])
        reporter.detail(f"{count_of(len(items), 'build')} by {workers.description}")
        with (
            _record(items, request, context, target) as record,
            reporter.work("building") as progress,
        ):
            outcomes = Batch(
                build_item,
                items,
                executor=workers.executor,
                workers=workers.count,
                record=record,
                progress=progress,
                on_outcome=lambda outcome: _report_finished(outcome, reporter),
            ).run()
        rejected, compared = _compare(outcomes, orders, share, reporter)
    by_job = {}
    for outcome, jobs_of_item in zip(outcomes, jobs_of_items, strict=True):
        by_label = {wheel.label: wheel for wheel in outcome.value or ()}
        for job in jobs_of_item:
            wheel = by_label.get(job.label)
            error = rejected.get(wheel.path) if wheel else outcome.error
            status = "failed" if error else "kept" if outcome.is_from_record else "built"
            wheel = None if error or wheel is None else compared.with_compared_libraries(wheel)
            by_job[job] = JobResult(job, status, wheel, error, outcome.seconds)
    results = [by_job[job] for job in jobs.here]
    return results + [JobResult(job, "skipped") for job in jobs.elsewhere], compared.notes


def _compare(
    outcomes: Sequence[Outcome[BuildItem, tuple[BuiltWheel, ...]]],
    orders: Callable[[Sequence[WheelToBuild]], Sequence[BuildOrder]],
    share: Callable[[Path], Path],
    reporter: Reporter,
) -> tuple[Mapping[Path, WheelfitError], Comparison]:
    """Compare variants with a plain wheel, and remove those without their optimisation.

    :returns: the errors of removed wheels by path, and the comparison.
    """
    (plain_order,) = orders([PLAIN])
    rejected: dict[Path, WheelfitError] = {}
    notes: list[str] = []
    parts: dict[str, TunedParts] = {}
    for version in dict.fromkeys(outcome.item.version for outcome in outcomes):
        of_version = [outcome for outcome in outcomes if outcome.item.version == version]
        with scratch_folder() as scratch:
            order = replace(plain_order, project=share(plain_order.project))
            item = replace(of_version[0].item, order=order, folder=scratch)

            def build_plain(item: BuildItem = item) -> BuiltWheel:
                reporter.note("building a plain wheel to compare the variants with")
                return build_item(item)[0]

            compared = compare_with_plain(
                [(outcome.item.order, outcome.value or ()) for outcome in of_version],
                order,
                build_plain,
            )
        for wheel, error in compared.rejected:
            # Wheels of the same content go too, so that the next run reuses none of them.
            for outcome in of_version:
                for other in outcome.value or ():
                    if other.content == wheel.content:
                        other.path.unlink(missing_ok=True)
                        rejected[other.path] = error
        for outcome in of_version:
            if _has_variants(outcome):
                is_rejected = any(wheel.path in rejected for wheel in outcome.value or ())
                _report_done(outcome, reporter, is_failed=is_rejected)
        notes += compared.notes
        parts |= compared.parts
    return rejected, Comparison(notes=tuple(notes), parts=parts)


def _has_variants(outcome: Outcome[BuildItem, tuple[BuiltWheel, ...]]) -> bool:
    """Return whether wheels of an outcome are compared before they are accepted."""
    return any(wheel.label is not None for wheel in outcome.value or ())


def _items(
    jobs: Jobs,
    orders: Callable[[Sequence[WheelToBuild]], Sequence[BuildOrder]],
    source: Source,
    share: Callable[[Path], Path],
    request: BuildRequest,
    context: Context,
    target: Path,
) -> tuple[list[BuildItem], list[list[Job]]]:
    """Return the items to build, and the jobs that each covers."""
    items: list[BuildItem] = []
    jobs_of_items: list[list[Job]] = []
    for version in dict.fromkeys(job.python for job in jobs.here):
        problem, python = _interpreter(version, jobs, request, context.environ)
        options = request.with_options(python=python)
        by_label: dict[Label | None, list[Job]] = {}  # a wheel may be for `any` and this platform
        for job in jobs.here:
            if job.python == version:
                by_label.setdefault(job.label, []).append(job)
        wheels = jobs.wheels or [_wheel_to_build(group[0], source) for group in by_label.values()]
        for order in orders(wheels):
            own = replace(order, project=share(order.project))
            items.append(BuildItem(own, version, options, dict(context.environ), target, problem))
            jobs_of_items.append(
                [job for choice in order.choices for job in by_label[choice.label]]
            )
    return items, jobs_of_items


def _wheel_to_build(job: Job, source: Source) -> WheelToBuild:
    if job.label is None or source.table is None:
        return WheelToBuild(job.label)
    return WheelToBuild(job.label, source.table.variants.get(job.label, EMPTY))


def _interpreter(
    version: str, jobs: Jobs, request: BuildRequest, environ: Mapping[str, str]
) -> tuple[WheelfitError | None, str | None]:
    """Return the error if this machine lacks a Python, and the ``python`` of a request for it."""
    if version == jobs.default:
        return None, request.python
    try:  # a program on PATH may be a version manager's shim, with nothing behind it
        open_environment_of(request.with_options(python=version), environ, may_be_own=True)
    except UnusableInterpreter as error:
        error.hint = f"install Python {version}, or leave it out with --only-python"
        return error, None
    return None, version


@contextmanager
def _shared_sources(target: Path) -> Iterator[Callable[[Path], Path]]:
    """Yield a function that copies a source distribution to a folder of all workers."""
    folder = Path(mkdtemp(prefix=".wheelfit-sources-", dir=target))

    @cache
    def share(path: Path) -> Path:
        return Path(shutil.copy(path, folder))

    try:
        yield share
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _record(
    items: Sequence[BuildItem], request: BuildRequest, context: Context, target: Path
) -> Iterator[WorkRecord[BuildItem, tuple[BuiltWheel, ...]] | None]:
    """Open the record of finished builds in a folder; None without a cache."""
    folder = _records_folder(request, context)
    if folder is None:
        yield None
        return
    sources = {path: source_digest(path) for path in {item.order.project for item in items}}
    requirements = read_requirements(request, context.environ, may_be_empty=True)
    constraints = [str(constraint.requirement) for constraint in requirements.constraints]
    options = repr([constraints, request.no_build_isolation])
    pythons: dict[str, str] = {}

    def key(item: BuildItem) -> str:
        if item.version not in pythons and item.problem is None:
            interpreter = open_environment_of(
                item.request, item.environ, may_be_own=True
            ).interpreter
            pythons[item.version] = f"{interpreter.executable} {interpreter.version}"
        python = pythons.get(item.version, "")
        return order_digest(
            item.order, sources[item.order.project], python, options, context.environ
        )

    path = folder / f"{digest_of(str(target.resolve()))}.jsonl"
    if request.rebuild:
        path.unlink(missing_ok=True)
    with WorkRecord[BuildItem, tuple["BuiltWheel", ...]](
        path,
        key=key,
        to_data=record_of_wheels,
        from_data=lambda data: wheels_of_record(data, target),
    ) as record:
        yield record


def _records_folder(request: BuildRequest, context: Context) -> Path | None:
    """Return the folder of the records; None without a cache, or if others can write to it."""
    warn = context.reporter.warn
    cache = usable_cache_folder(cache_folder_in_use(request, context.environ), warn)
    if cache is None:
        return None
    folder = str(cache / _RECORDS)
    if (unsafe := unsafe_folder(folder)) is not None:
        warn(f"the cache {unsafe}")
        return None
    try:
        make_folders(folder)
    except OSError as error:
        warn(f"finished builds are not recorded: {os_reason(error)}")
        return None
    return Path(folder)


def _report_finished(
    outcome: Outcome[BuildItem, tuple[BuiltWheel, ...]], reporter: Reporter
) -> None:
    """Report a finished build, unless its variants have yet to be compared."""
    if not _has_variants(outcome):
        _report_done(outcome, reporter, is_failed=outcome.error is not None)


def _report_done(
    outcome: Outcome[BuildItem, tuple[BuiltWheel, ...]], reporter: Reporter, *, is_failed: bool
) -> None:
    if is_failed:
        reporter.remark(f"failed {outcome.item}")
    else:
        reporter.note(f"{'kept' if outcome.is_from_record else 'built'} {outcome.item}")
