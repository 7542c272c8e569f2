"""The matrix of a project: the wheels that a release has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.building.ci import github_matrix, gitlab_pipeline
from wheelfit.building.front_end.source import Source, open_source
from wheelfit.building.matrix import Job, Matrix, read_matrix
from wheelfit.errors import UsageError
from wheelfit.operations.plain_data import plain_fields, plain_report
from wheelfit.operations.requests import ValidatedRequest
from wheelfit.operations.temporary_folders import scratch_folder

if TYPE_CHECKING:
    from wheelfit.operations.context import Context


class MatrixRequest(ValidatedRequest):
    """The project, and the Pythons and platforms of interest; none: all."""

    project: str = "."
    only_python: tuple[str, ...] = ()
    only_platform: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MatrixReport:
    """The wheels of a project's matrix."""

    name: str
    """The name of the project."""
    project: str
    """Its folder, relative to the current one, in which jobs run as well."""
    matrix: Matrix
    jobs: tuple[Job, ...]
    """The jobs of the requested Pythons and platforms."""

    def for_github(self, *, by_target: bool) -> str:
        """Return the line that ``strategy.matrix: ${{ fromJSON(...) }}`` reads.

        :param by_target: whether all wheels of a Python and platform are one job.
        """
        return github_matrix(self.matrix, self.jobs, by_target=by_target, project=self.project)

    def for_gitlab(self, *, by_target: bool, template: str | None) -> str:
        """Return a pipeline for ``trigger: include: artifact``, in YAML.

        :param template: a file of the repository with a job ``.build-wheel``; None: the pipeline
            has one.
        """
        return gitlab_pipeline(
            self.matrix, self.jobs, by_target=by_target, project=self.project, template=template
        )

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        jobs = [
            plain_fields(job, "label python platform", identifier=job.identifier or None)
            for job in self.jobs
        ]
        return plain_report(self, project=self.name, jobs=jobs)


def matrix(request: MatrixRequest, context: Context) -> MatrixReport:
    """Return the wheels of a project's matrix.

    :raises UsageError: the project has no matrix, or no wheel is left.
    :raises InvalidDocument: ``invalid-project``; the matrix has faults.
    """
    del context
    with scratch_folder() as scratch:
        source = open_source(Path(request.project), scratch, {})
        project_matrix = matrix_of(source)
    if project_matrix is None:
        raise UsageError(
            f"{source.where} has no [tool.wheelfit.matrix]",
            hint='as pythons = ["3.13"], platforms = ["manylinux_x86_64"]',
        )
    jobs = project_matrix.only(pythons=request.only_python, platforms=request.only_platform)
    if not jobs:
        raise UsageError(
            "no wheel of the matrix matches",
            hint="`wheelfit matrix` lists the Pythons and platforms there are",
        )
    current, folder = Path.cwd().resolve(), Path(request.project).resolve()
    is_below = folder.is_dir() and folder.is_relative_to(current)
    project = folder.relative_to(current).as_posix() if is_below else "."
    return MatrixReport(source.name, project, project_matrix, jobs)


def matrix_of(source: Source) -> Matrix | None:
    """Return the matrix of a project; None if it has none.

    :raises InvalidDocument: ``invalid-project``; its matrix has faults.
    """
    variants = () if source.table is None else tuple(source.table.variants)
    return read_matrix(source.pyproject, variants, where=source.where)
