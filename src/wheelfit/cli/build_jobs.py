"""Build the wheels of a matrix that this machine can, as many at once as there are workers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wheelfit.build.matrix import Matrix

__all__ = ["read_project_matrix"]


def __dir__() -> list[str]:
    return __all__


def read_project_matrix(project: str) -> tuple[str, Matrix]:
    """Return what a project is called, and its matrix.

    :param project: its folder.
    :raises UsageError: it has no matrix.
    :raises InvalidProject: its matrix has faults.
    """
    from wheelfit.build.front_end.source import open_source
    from wheelfit.build.matrix import read_matrix
    from wheelfit.cli.scratch import scratch_folder
    from wheelfit.errors import UsageError

    with scratch_folder() as scratch:
        source = open_source(Path(project), scratch, {})
    variants = () if source.table is None else tuple(source.table.variants)
    matrix = read_matrix(source.pyproject, variants, where=source.where)
    if matrix is None:
        raise UsageError(
            f"{source.where} has no [tool.wheelfit.matrix]",
            hint="it says for which Pythons and platforms wheels are built",
        )
    return source.name, matrix
