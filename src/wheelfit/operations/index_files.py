"""Files of a live index that are yanked, restored or deleted."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.operations.live_index import LiveIndexRequest, open_administration

if TYPE_CHECKING:
    from wheelfit.operations.context import Context


@dataclass(frozen=True, kw_only=True)
class FilesRequest(LiveIndexRequest):
    """Files of a live index: names of files, releases as ``NAME==VERSION``, or projects."""

    what: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class YankRequest(FilesRequest):
    """The files to yank, and why."""

    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class DeleteRequest(FilesRequest):
    """The files to delete, and the consent to it."""

    yes: bool = False


@dataclass(frozen=True, slots=True)
class FilesReport:
    """The files of an index that were changed."""

    files: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """Return the report as plain data."""
        return {"version": 1, "files": list(self.files)}


def yank(request: YankRequest, context: Context) -> FilesReport:
    """Yank files: installers take them only where a version is pinned exactly."""
    with closing(open_administration(request, context)) as administration:
        return FilesReport(tuple(administration.yank(request.what, request.reason)))


def unyank(request: FilesRequest, context: Context) -> FilesReport:
    """Restore files that were yanked."""
    with closing(open_administration(request, context)) as administration:
        return FilesReport(tuple(administration.yank(request.what, None)))


def delete(request: DeleteRequest, context: Context) -> FilesReport:
    """Delete files for ever: their names cannot be uploaded again.

    :raises PolicyRefusal: ``no-consent``; the request has no consent.
    """
    from wheelfit_runtime.errors import PolicyRefusal

    if not request.yes:
        raise PolicyRefusal(
            "what is deleted is gone, and its names never come back",
            code="no-consent",
            hint="--yes deletes; wheelfit index yank keeps installers from it as well",
        )
    with closing(open_administration(request, context)) as administration:
        return FilesReport(tuple(administration.delete(request.what)))
