"""Rewritten wheels: all of them, or none."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from wheelfit.building.index_file import check_consistency
from wheelfit.building.staging import Staging
from wheelfit.building.wheel_jobs import Operation, WheelJob, WheelJobResult, run_job
from wheelfit.core.filename import NEWER_FORMAT, is_newer_format, parse_wheel_filename
from wheelfit.errors import UsageError
from wheelfit.operations.executors import is_executor_named, write_with_workers
from wheelfit.operations.files import new_folder, source_date_epoch
from wheelfit.operations.plain_data import plain_fields, plain_report
from wheelfit.operations.requests import WorkerOptions
from wheelfit.wheels.rewrite import RewriteOptions
from wheelfit_runtime.errors import FileProblem, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wheelfit.operations.context import Context


class RewriteRequest(WorkerOptions):
    """The wheels to rewrite, and the folder and options of the results."""

    wheels: tuple[str, ...]
    output: str | None = None
    overwrite: bool = False
    keep_going: bool = False
    dry_run: bool = False
    verify_content: bool | None = None
    accept_record_errors: bool = False
    no_fsync: bool = False


@dataclass(frozen=True, slots=True)
class RewriteReport:
    """The results of rewritten wheels."""

    dry_run: bool
    """Whether nothing was written."""
    wheels: tuple[WheelJobResult, ...]
    failed: tuple[tuple[Path, WheelfitError], ...]
    """Wheels without a result, with the reason; only with ``keep_going``."""
    urls: Mapping[Path, str] = field(default_factory=dict)
    """URLs of the wheels that were fetched."""
    lost: tuple[str, ...] | None = None
    """Losses of a conversion to the current layout, one sentence each."""
    index_files: tuple[Path, ...] | None = None
    """Index files that were written; None: none was requested."""

    def name_of(self, source: Path) -> str:
        """Return the path or the URL of a rewritten wheel."""
        return self.urls.get(source, str(source))

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        failed = [
            {"source": self.name_of(source), "error": error.parts()}
            for source, error in self.failed
        ]
        wheels = [_to_json(wheel, self.name_of(wheel.source)) for wheel in self.wheels]
        report = plain_report(self, "dry_run", wheels=wheels, failed=failed)
        if self.lost is not None:
            report["lost"] = list(self.lost)
        if self.index_files is not None:
            report["index_files"] = list(map(str, self.index_files))
        return report


def find_wheels(names: Sequence[str]) -> list[Path]:
    """Return wheels, and the wheels in folders and the folders below.

    :raises FileProblem: a path does not exist, or a folder has no wheels.
    :raises UsageError: a file is not a wheel.
    """
    wheels: dict[Path, None] = {}
    for name in names:
        path = Path(name)
        if not path.is_dir():
            if is_newer_format(name):
                raise FileProblem(NEWER_FORMAT, where=name)
            if path.suffix != ".whl":
                raise UsageError(
                    f"{name} is neither a wheel nor a folder of wheels",
                    hint="name *.whl files or folders that exist",
                )
            if not path.is_file():
                raise FileProblem(
                    "the wheel does not exist", where=name, hint="name files or folders that exist"
                )
            wheels[path] = None
            continue
        inside: dict[Path, None] = {}
        for root, folders, files in os.walk(path):
            # Hidden folders contain environments and caches of tools.
            folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
            inside |= {Path(root, file): None for file in sorted(files) if file.endswith(".whl")}
        if not inside:
            raise FileProblem("the folder has no wheels", where=name)
        wheels |= inside
    return list(wheels)


def rewrite(
    work: Sequence[tuple[Path, Operation]],
    request: RewriteRequest,
    context: Context,
    *,
    copy_unchanged: bool = False,
    urls: Mapping[Path, str] | None = None,
) -> RewriteReport:
    """Rewrite wheels.

    All results get their names at the end, or none does; with ``keep_going``, each when it is
    finished.

    :param work: each wheel, and the change to it.
    :param copy_unchanged: whether wheels that need no change are copied to an output folder.
    :param urls: URLs of the wheels that were fetched.
    """
    urls = urls or {}
    options = RewriteOptions(
        epoch=source_date_epoch(context.environ),
        verify_content=request.verify_content,
        repair_record=request.accept_record_errors,
        sync=not (request.no_fsync or request.dry_run),
    )
    with ExitStack() as stack:
        folders = _output_folders(work, request, stack)
        writable = folders
        if not all(folder.exists() for folder in folders):  # the new folder of a dry run
            scratch = Path(stack.enter_context(TemporaryDirectory(prefix="wheelfit-")))
            writable = [scratch] * len(folders)
        staging = stack.enter_context(Staging())
        jobs = [
            WheelJob(
                source,
                change,
                staging.new_folder(existing),
                options,
                copy_unchanged=copy_unchanged and not _is_same_path(source.parent, folder),
            )
            for (source, change), folder, existing in zip(work, folders, writable, strict=True)
        ]
        results = _Results(staging, jobs, folders, request, urls)
        _run_jobs(jobs, request, context, results.add)
        results.publish_waiting()
    return RewriteReport(request.dry_run, tuple(results.done), tuple(results.failed), urls)


def _run_jobs(
    jobs: Sequence[WheelJob],
    request: RewriteRequest,
    context: Context,
    add_result: Callable[[int, WheelJobResult | WheelfitError], None],
) -> None:
    """Run the jobs in order, and add the result or the error of each."""
    with context.reporter.work("writing") as progress:
        sizes = [job.source.stat().st_size for job in jobs]
        if is_executor_named(request):
            write_with_workers(jobs, sizes, request, progress, add_result)
            return
        progress.start(sum(sizes))
        for index, job in enumerate(jobs):
            try:
                result: WheelJobResult | WheelfitError = run_job(job)
            except WheelfitError as error:
                result = error
            add_result(index, result)
            progress.advance(sizes[index])
        progress.done()


@dataclass(slots=True)
class _Results:
    """Results that are published all together, or each when it is finished."""

    staging: Staging
    jobs: Sequence[WheelJob]
    folders: Sequence[Path]
    request: RewriteRequest
    urls: Mapping[Path, str]
    _waiting: list[tuple[WheelJobResult, Path]] = field(default_factory=list, init=False)
    done: list[WheelJobResult] = field(default_factory=list, init=False)
    """Results, with their final paths."""
    failed: list[tuple[Path, WheelfitError]] = field(default_factory=list, init=False)
    """Wheels without a result, and the reason."""

    def add(self, index: int, result: WheelJobResult | WheelfitError) -> None:
        """Add the result of a job."""
        if isinstance(result, WheelfitError):
            # Users do not know the temporary folder of a result.
            source, temporary = self.jobs[index].source, str(self.jobs[index].folder)
            if result.where is not None and result.where.startswith(temporary):
                result.where = f"{self.folders[index]}{result.where.removeprefix(temporary)}"
            if result.where == str(source):
                result.where = self.urls.get(source, result.where)
            if not self.request.keep_going:
                raise result
            self.failed.append((source, result))
            return
        self._waiting.append((result, self.folders[index]))
        if self.request.keep_going:
            try:
                self.publish_waiting()
            except WheelfitError as error:
                self.failed.append((self.jobs[index].source, error))
                self._waiting.clear()

    def publish_waiting(self) -> None:
        """Move waiting results to their final paths."""
        published, pairs, replaced = [], [], set()
        for result, folder in self._waiting:
            if not result.is_new:
                published.append(result)
                continue
            path = folder / result.path.name
            if any(path == other.path for other in self.done if other.is_new):
                raise FileProblem("another result already has this name", where=str(path))
            pairs.append((result.path, path))
            if path.name == result.source.name and _is_same_path(path.parent, result.source.parent):
                replaced.add(path)
            published.append(replace(result, path=path))
        check_consistency({path: result for result, path in pairs})
        overwrite = [path for _, path in pairs if self.request.overwrite or path in replaced]
        self.staging.publish(pairs, overwrite=overwrite, dry_run=self.request.dry_run)
        self.done += published
        self._waiting.clear()


def _is_same_path(path: Path, other: Path) -> bool:
    return path.exists() and other.exists() and path.samefile(other)


def _to_json(job_result: WheelJobResult, source: str) -> dict[str, object]:
    return plain_fields(
        job_result,
        "path content_verified layout notes",
        source=source,
        label=parse_wheel_filename(job_result.path.name).label,
        changed=job_result.is_new,
    )


def _output_folders(
    work: Sequence[tuple[Path, Operation]], request: RewriteRequest, stack: ExitStack
) -> list[Path]:
    """Return the folder for the result of each wheel."""
    if request.output is None:
        return [source.parent for source, _ in work]
    folder = Path(request.output)
    if request.dry_run and not folder.exists():
        return [folder] * len(work)
    return [stack.enter_context(new_folder(str(folder)))] * len(work)
