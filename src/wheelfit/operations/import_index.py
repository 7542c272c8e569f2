"""Import of the packages of another index, of a folder, or of an export of devpi."""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from packaging.utils import InvalidName, NormalizedName, canonicalize_name

from wheelfit.errors import StorageUnavailable, UsageError
from wheelfit.operations.downloads import MOST_FAILURES, FailedFile
from wheelfit.operations.plain_data import PlainReport, plain_fields
from wheelfit.operations.whole_index import existing_folder, is_remote, open_whole_index
from wheelfit.server.store.database import timestamp
from wheelfit.server.store.records import Violation
from wheelfit.server.uploads.accepting import AcceptedUpload, accept_from_index
from wheelfit.server.uploads.rules import check_name
from wheelfit.sources.concurrency import map_concurrently
from wheelfit.sources.local_files import LocalFiles, path_of
from wheelfit.sources.package_tree import TreeIndex
from wheelfit.sources.page import File, ProjectPage
from wheelfit.sources.urls import redact
from wheelfit_runtime.errors import FileProblem, NetworkError, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wheelfit.operations.context import Context
    from wheelfit.operations.requests import SourceOptions
    from wheelfit.server.store.opening import Store
    from wheelfit.sources.repository import Repository


_MAX_FETCHES = 4
"""Files that are fetched and checked simultaneously."""
_CHUNK_SIZE = 1 << 20


@dataclass(frozen=True, slots=True)
class RefusedFile:
    """A file that the index would refuse as an upload, too."""

    filename: str
    reasons: tuple[Violation, ...]

    def to_json(self) -> dict[str, object]:
        """Return the object of the file in ``--json``."""
        reasons = [plain_fields(reason, "reference message where") for reason in self.reasons]
        return plain_fields(self, "filename", reasons=reasons)


@dataclass(frozen=True, slots=True)
class ImportedPackages(PlainReport):
    """The packages that were imported from another index, or would be."""

    dry_run: bool
    files: int
    """Wheels and source distributions of the other index."""
    size: int
    """Total size of the packages of known size, in bytes."""
    existing: int
    """Files that existed before."""
    added: int
    """New files; in a dry run, files that would be fetched and checked."""
    added_size: int
    refused: tuple[RefusedFile, ...]
    failed: tuple[FailedFile, ...]
    missing: tuple[str, ...]
    """Requested projects that the other index does not have."""


def import_packages(
    source: str,
    projects: tuple[str, ...],
    owner: str,
    open_store: Callable[[], Store | None],
    options: SourceOptions,
    context: Context,
    *,
    dry_run: bool = False,
) -> ImportedPackages:
    """Add the packages of a source to a store, each checked like an upload.

    Present files are not fetched again, so an import continues where an earlier one ended.

    :param source: the URL of an index, or a folder.
    :param projects: the projects to take; none: all.
    :param owner: the owner of projects that are new.
    :param open_store: opens the store, once the source is read; None in a dry run without one.
    :raises UsageError: a project name is invalid.
    :raises FileProblem: the folder has no packages, or does not exist.
    :raises NetworkError: the projects of the index cannot be listed.
    """
    with _open(source, options, context) as (repository, cancel):
        failed: list[FailedFile] = []
        names = tuple(map(_project_name, projects)) or tuple(repository.projects())
        pages = _pages(repository, names, failed, context)
        unread_projects = {failure.name for failure in failed}
        project_names = {page.name for page in pages}
        files = [
            file
            for page in pages
            for file in page.files
            if file.filename.endswith((".whl", ".tar.gz", ".zip"))
        ]
        importing = _PackageImport(repository, open_store(), owner, failed, dry_run=dry_run)
        with context.reporter.work("importing") as progress:
            progress.start(sum(file.size or 0 for file in files) or None)

            def add_file(file: File) -> None:
                importing.add(file)
                progress.advance(file.size or 0)

            if files:
                map_concurrently(files, add_file, most=_MAX_FETCHES, cancel=cancel)
            progress.done()
        importing.note(source)
    counts = importing.counts
    return ImportedPackages(
        dry_run,
        len(files),
        sum(file.size or 0 for file in files),
        counts["existing"],
        counts["added"],
        counts["size"],
        tuple(sorted(importing.refused, key=lambda file: file.filename)),
        tuple(failed),
        tuple(name for name in names if name not in project_names and name not in unread_projects),
    )


def _project_name(text: str) -> NormalizedName:
    try:
        return canonicalize_name(text, validate=True)
    except InvalidName:
        raise UsageError(f"{text[:80]!r} is not the name of a project") from None


@contextmanager
def _open(
    source: str, options: SourceOptions, context: Context
) -> Iterator[tuple[Repository, Callable[[], None]]]:
    """Open a source; yield it with a function that aborts its transfers."""
    if "://" in source:
        if not is_remote(source):
            existing_folder(source)
        # A whole index would fill the default cache; only a named one is used.
        options = options.with_options(no_cache_dir=options.cache_dir is None)
        with open_whole_index(source, options, context, refresh=True) as index:
            yield index, index.cancel
        return
    tree = TreeIndex(Path(source), LocalFiles())
    if not tree.projects():
        raise FileProblem(
            "the folder has neither a finished export nor packages",
            where=source,
            hint="`wheelfit index export` writes records.jsonl last; run it again",
        )
    yield tree, lambda: None


def _pages(
    repository: Repository,
    names: tuple[NormalizedName, ...],
    failed: list[FailedFile],
    context: Context,
) -> list[ProjectPage]:
    with context.reporter.work("reading pages") as progress:
        progress.start(len(names))

        def read(name: NormalizedName) -> ProjectPage | None:
            try:
                return repository.project(name)
            except WheelfitError as error:
                failed.append(FailedFile(name, error.message))
                if len(failed) > MOST_FAILURES:
                    raise
                return None
            finally:
                progress.advance(1)

        pages = map_concurrently(names, read, most=_MAX_FETCHES) if names else []
        progress.done()
    return [page for page in pages if page is not None]


@dataclass(slots=True)
class _PackageImport:
    """An import by several threads."""

    repository: Repository
    store: Store | None
    owner: str
    failed: list[FailedFile]
    dry_run: bool
    refused: list[RefusedFile] = field(default_factory=list, init=False)
    counts: Counter[str] = field(default_factory=Counter, init=False)

    def note(self, source: str) -> None:
        """Add the number of imported files to the audit log."""
        if self.store is not None and self.counts["added"] and not self.dry_run:
            self.store.records.record_action(
                "import", f"{self.counts['added']} files of {redact(source)}"
            )

    def add(self, file: File) -> None:
        """Add a file unless it exists."""
        if violations := check_name(file.filename):
            self.refused.append(RefusedFile(file.filename, violations))
            return
        try:
            if self._exists(file):
                self.counts["existing"] += 1
            elif self.store is None or self.dry_run:
                self.counts.update(added=1, size=file.size or 0)
            else:
                self._add(file, self.store)
        except StorageUnavailable:
            raise
        except (NetworkError, FileProblem, OSError) as error:
            message = error.message if isinstance(error, WheelfitError) else str(error)
            self.failed.append(FailedFile(file.filename, message))
            if len(self.failed) > MOST_FAILURES:
                raise
        except WheelfitError as error:
            reason = Violation(error.reference, error.message, file.filename)
            self.refused.append(RefusedFile(file.filename, (reason,)))

    def _exists(self, file: File) -> bool:
        if self.store is None or (stored := self.store.records.file(file.filename)) is None:
            return False
        digest = file.hashes.get("sha256")
        if digest is None and file.is_local:
            with path_of(file).open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
        if stored.sha256 != digest:
            return False
        if file.yanked is not None and stored.yanked is None and not self.dry_run:
            now = timestamp(datetime.now(UTC))
            self.store.records.yank([file.filename], file.yanked, time=now)
        return True

    def _add(self, file: File, store: Store) -> None:
        provenance = None
        if file.provenance is not None:
            document = File(f"{file.filename}.provenance", file.provenance, source=file.source)
            provenance = self.repository.read(document)
        with TemporaryDirectory(prefix="wheelfit-") as folder, store.blobs.draft() as draft:
            path = self.repository.download(file, Path(folder))
            with path.open("rb") as content:
                while chunk := content.read(_CHUNK_SIZE):
                    draft.write(chunk)
            result = accept_from_index(
                draft,
                file,
                store,
                provenance=provenance,
                now=datetime.now(UTC),
                uploader=self.owner,
            )
            if not isinstance(result, AcceptedUpload):
                self.refused.append(RefusedFile(file.filename, result))
            elif result.is_new:
                self.counts.update(added=1, size=draft.size)
            else:  # impossible to detect for a page without hashes
                self.counts["existing"] += 1
