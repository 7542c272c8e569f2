"""Import of the packages of another index, of a folder, or of an export of devpi."""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from packaging.utils import InvalidName, NormalizedName, canonicalize_name

from wheelfit.errors import StorageUnavailable, UsageError
from wheelfit.operations.downloads import MOST_FAILURES, FailedFile
from wheelfit.operations.live_index import (
    LiveIndexRequest,
    MovedIndexReport,
    local_actor,
    refuse_server,
)
from wheelfit.operations.plain_data import PlainReport, plain_fields
from wheelfit.operations.requests import SourceOptions
from wheelfit.operations.whole_index import existing_folder, is_remote, open_whole_index
from wheelfit.server.store.moving import RECORDS, check_export, import_index
from wheelfit.server.store.opening import Store, has_store, open_store
from wheelfit.server.store.records import Violation
from wheelfit.server.uploads.accepting import AcceptedUpload, accept_from_index
from wheelfit.server.uploads.rules import check_name
from wheelfit.sources.concurrency import map_concurrently
from wheelfit.sources.local_files import LocalFiles, path_of
from wheelfit.sources.package_tree import TreeIndex
from wheelfit.sources.page import File, ProjectPage
from wheelfit.sources.urls import redact
from wheelfit.wheels.record import sha256_of_file
from wheelfit_runtime.errors import FileProblem, NetworkError, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wheelfit.operations.context import Context
    from wheelfit.sources.repository import Repository


_MAX_FETCHES = 4
"""Files that are fetched and checked simultaneously."""
_CHUNK_SIZE = 1 << 20


class ImportIndexRequest(LiveIndexRequest, SourceOptions):
    """A store, and the export or the index to import into it."""

    source: str
    projects: tuple[str, ...] = ()
    """Names of the projects to import; empty: all."""
    owner: str = "admin"
    """The owner of new projects."""
    dry_run: bool = False


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


def import_live_index(
    request: ImportIndexRequest, context: Context
) -> MovedIndexReport | ImportedPackages:
    """Import an export into a new store, or the packages of another index into any store.

    :raises UsageError: the target is a server, ``--project`` is given for an export, or a project
        name is invalid.
    :raises FileProblem: there is nothing to import, or the store for an export is not empty.
    :raises IntegrityError: a file of an export does not match its hash.
    :raises NetworkError: the projects of another index cannot be listed.
    """
    refuse_server(request)
    if "://" not in request.source and (Path(request.source) / RECORDS).is_file():
        return _import_export(request, context)
    return _import_packages(request, context)


def _import_export(request: ImportIndexRequest, context: Context) -> MovedIndexReport:
    if request.projects:
        raise UsageError(
            "an export is imported as a whole", hint="leave out --project, or delete afterwards"
        )
    folder = Path(request.source)
    counts = check_export(folder)  # before anything is created
    if request.dry_run:
        return MovedIndexReport(len(counts), 0, sum(counts.values()), 0)
    store = _new_store(request)
    with closing(store), context.reporter.work("copying") as progress:
        moved = import_index(folder, counts, store.records.database, store.blobs, progress)
        store.records.record_action("import", f"{moved.files} files, {moved.records} records")
    return MovedIndexReport(*moved)


def _new_store(request: ImportIndexRequest) -> Store:
    """Open the store of a request, and create missing parts."""
    store = open_store(Path(request.at), records=request.database, blobs=request.storage)
    return store.with_actor(local_actor())


def _import_packages(request: ImportIndexRequest, context: Context) -> ImportedPackages:
    """Add the packages of a source to a store, each checked like an upload.

    Present files are not fetched again, so an import continues where an earlier one ended.
    """
    with _open(request, context) as (repository, cancel), ExitStack() as stack:
        failed: list[FailedFile] = []
        names = tuple(map(_project_name, request.projects)) or tuple(repository.projects())
        pages = _pages(repository, names, failed, context)
        unread_projects = {failure.name for failure in failed}
        project_names = {page.name for page in pages}
        files = [
            file
            for page in pages
            for file in page.files
            if file.filename.endswith((".whl", ".tar.gz", ".zip"))
        ]
        store = None
        # A dry run reads a store only if one exists, and creates none.
        if not request.dry_run or has_store(Path(request.at), records=request.database):
            store = stack.enter_context(closing(_new_store(request)))
        importing = _PackageImport(request, repository, store, failed)
        with context.reporter.work("importing") as progress:
            progress.start(sum(file.size or 0 for file in files) or None)

            def add_file(file: File) -> None:
                importing.add(file)
                progress.advance(file.size or 0)

            if files:
                map_concurrently(files, add_file, most=_MAX_FETCHES, cancel=cancel)
            progress.done()
        importing.record_in_audit_log()
    return ImportedPackages(
        request.dry_run,
        len(files),
        sum(file.size or 0 for file in files),
        len(importing.existing),
        len(importing.added_sizes),
        sum(importing.added_sizes),
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
    request: ImportIndexRequest, context: Context
) -> Iterator[tuple[Repository, Callable[[], None]]]:
    """Open a source; yield it with a function that aborts its transfers."""
    source = request.source
    if "://" in source:
        if not is_remote(source):
            existing_folder(source)  # of a file: URL; any other scheme is refused here
        # A whole index would fill the default cache, so only --cache-dir is used.
        options = request.with_options(no_cache_dir=request.cache_dir is None)
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
    """The import of files into a store, by several threads."""

    request: ImportIndexRequest
    repository: Repository
    store: Store | None
    failed: list[FailedFile]
    refused: list[RefusedFile] = field(default_factory=list, init=False)
    existing: list[str] = field(default_factory=list, init=False)
    """Names of the files that existed before."""
    added_sizes: list[int] = field(default_factory=list, init=False)
    """Bytes of each new file; 0 where unknown."""

    def record_in_audit_log(self) -> None:
        """Add the number of imported files to the audit log."""
        if self.store is not None and self.added_sizes and not self.request.dry_run:
            self.store.records.record_action(
                "import", f"{len(self.added_sizes)} files of {redact(self.request.source)}"
            )

    def add(self, file: File) -> None:
        """Add a file unless it exists."""
        if violations := check_name(file.filename):
            self.refused.append(RefusedFile(file.filename, violations))
            return
        try:
            if self._exists(file):
                self.existing.append(file.filename)
            elif self.store is None or self.request.dry_run:
                self.added_sizes.append(file.size or 0)
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
        """Return whether the store has a file; yank it there if the source has yanked it since."""
        if self.store is None or (stored := self.store.records.file(file.filename)) is None:
            return False
        digest = file.hashes.get("sha256")
        if digest is None and file.is_local:
            digest = sha256_of_file(path_of(file))
        if stored.sha256 != digest:
            return False
        if file.yanked is not None and stored.yanked is None and not self.request.dry_run:
            self.store.records.yank([file.filename], file.yanked)
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
                uploader=self.request.owner,
            )
            if not isinstance(result, AcceptedUpload):
                self.refused.append(RefusedFile(file.filename, result))
            elif result.is_new:
                self.added_sizes.append(draft.size)
            else:  # it existed; without hashes on the page, only the download shows that
                self.existing.append(file.filename)
