"""Conversion of an index with an old layout to the current one."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.checking.findings import Report
from wheelfit.errors import UsageError
from wheelfit.operations.plain_data import plain_report
from wheelfit.operations.requests import SourceOptions
from wheelfit.operations.whole_index import (
    existing_folder,
    is_remote,
    open_target,
    open_whole_index,
)
from wheelfit.server.generate.conversion import convert_project, project_names, publish_converted
from wheelfit.server.generate.targets import SIMPLE
from wheelfit.sources.urls import redact

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wheelfit.operations.context import Context
    from wheelfit.server.generate.conversion import ConvertedProject
    from wheelfit.server.generate.request import GenerateResult
    from wheelfit.sources.repository import Repository


class ConvertIndexRequest(SourceOptions):
    """The index to convert, and the target of the new one."""

    source: str
    to: str
    accept_losses: bool = False
    keep_going: bool = False


@dataclass(frozen=True, slots=True)
class ConvertedIndex:
    """The result of a conversion, which is not published if a file was refused."""

    source: str
    """As the user named it."""
    target: str
    """The name of the target."""
    projects: Mapping[str, ConvertedProject]
    generated: GenerateResult

    @property
    def documents(self) -> dict[str, str]:
        """The layout of each index file that was read, by its name."""
        return {
            name: layout
            for project in self.projects.values()
            for name, layout in project.documents.items()
        }

    @property
    def lost(self) -> list[str]:
        """The losses that the user accepted, one sentence each."""
        return [text for project in self.projects.values() for text in project.lost]

    @property
    def refused(self) -> Report:
        """The wheels that could not be converted."""
        return Report.of(self.generated.refused)

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(
            self,
            "target documents lost",
            source=redact(self.source),
            published=self.generated.is_published,
            projects=len(self.projects),
            findings=self.generated.refused,
            written=self.generated.written,
        )


def convert_index(request: ConvertIndexRequest, context: Context) -> ConvertedIndex:
    """Convert an index and publish the result.

    :raises UsageError: the index would be written over itself.
    """
    target, target_folder = open_target(request.to)
    source_folder = None if is_remote(request.source) else _pages_folder(request.source)
    written = [] if target_folder is None else [target_folder, target_folder / SIMPLE]
    if source_folder and source_folder.resolve() in [folder.resolve() for folder in written]:
        raise UsageError(
            "the index cannot be written over itself", hint="name another folder with --to"
        )
    projects: dict[str, ConvertedProject] = {}
    with ExitStack() as stack:
        repository, names = _open(source_folder, request, context, stack)
        progress = stack.enter_context(context.reporter.work("converting"))
        progress.start(len(names))
        for name in names:
            page = repository.project(name)
            if page is not None:
                converted = convert_project(repository, page, accept_losses=request.accept_losses)
                # Folders without files are not projects.
                if converted.entries or converted.findings:
                    projects[name] = converted
            progress.advance(1)
        progress.done()
        generated = publish_converted(projects, target, keep_going=request.keep_going)
    return ConvertedIndex(request.source, target.name, projects, generated)


def _open(
    source_folder: Path | None, request: ConvertIndexRequest, context: Context, stack: ExitStack
) -> tuple[Repository, tuple[NormalizedName, ...]]:
    """Open the old index; return it and the names of its projects."""
    if source_folder is None:
        repository = stack.enter_context(open_whole_index(request.source, request, context))
        return repository, tuple(repository.projects())
    repository = stack.enter_context(open_whole_index(str(source_folder), request, context))
    return repository, tuple(canonicalize_name(name) for name in project_names(source_folder))


def _pages_folder(source: str) -> Path:
    """Return the folder of a local index that has its pages."""
    folder = existing_folder(source).absolute()
    return folder / SIMPLE if (folder / SIMPLE).is_dir() else folder
