"""An index of an old layout, converted to the current one.

URLs, hashes, yanks and times of files stay. Documents are read by the rules of their layout, and
written in the current one (F-56). Wheels are copied unchanged.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec.structs import replace

from wheelfit.checking.findings import Check, Finding, Location, Severity
from wheelfit.core.filename import parse_index_file_name, parse_wheel_filename, sdist_release
from wheelfit.core.index_metadata import combine
from wheelfit.core.metadata import losses, read_document, write_document
from wheelfit.errors import InvalidFilename
from wheelfit.server.folder import describe_file
from wheelfit.server.generate.generation import index_entry
from wheelfit.server.generate.inspection import error_in_one_line
from wheelfit.server.generate.manifest import MANIFEST, IndexManifest, read_manifest
from wheelfit.server.generate.publishing import CHANGED_FILE, publish
from wheelfit.server.generate.request import GenerateResult
from wheelfit.server.generate.targets import FILES, PublishedFile, Target
from wheelfit.sources.concurrency import map_concurrently
from wheelfit.sources.urls import file_path, redact
from wheelfit_runtime.errors import WheelfitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.filename import Release
    from wheelfit.sources.page import File, ProjectPage
    from wheelfit.sources.repository import Repository


_CONCURRENT_READS = 8

LOSSY = Check(
    "lossy-conversion",
    "F-56",
    Severity.ERROR,
    "the current layout cannot express all of the document",
    "--accept-losses converts it without the rest",
)
UNCONVERTIBLE = Check(
    "unconvertible",
    "F-131",
    Severity.ERROR,
    "the document cannot be read or may not be written",
    "correct it first; `wheelfit check` shows the faults",
)


@dataclass(slots=True)
class ConvertedProject:
    """The result of converting a project."""

    entries: tuple[File, ...] = ()
    """The entries of the new page."""
    files: list[PublishedFile] = field(default_factory=list)
    """The files to publish with them."""
    findings: list[Finding] = field(default_factory=list)
    """Findings about files that could not be converted, and are left out."""
    lost: list[str] = field(default_factory=list)
    """Parts of documents that were lost with the user's consent, one sentence each."""
    documents: dict[str, str] = field(default_factory=dict)
    """By name of an index file: the layout it had."""


def convert_project(
    repository: Repository, page: ProjectPage, *, accept_losses: bool = False
) -> ConvertedProject:
    """Convert one project."""
    return _Conversion(repository, accept_losses).convert(page)


def publish_converted(
    converted: Mapping[str, ConvertedProject], target: Target, *, keep_going: bool = False
) -> GenerateResult:
    """Publish converted projects, or return the reasons against it.

    :param keep_going: whether to publish the rest if files could not be converted; nothing is
        published if a published file has changed.
    """
    findings = [finding for project in converted.values() for finding in project.findings]
    if findings and not keep_going:
        return GenerateResult(refused=tuple(findings))  # the target stays untouched
    with target.lock():
        published = read_manifest(target.read(MANIFEST), where=target.name)
        changed = list(_changed_files(converted.values(), published))
        result = GenerateResult(refused=(*findings, *changed))
        if changed:
            return result
        return publish(
            {name: project.entries for name, project in converted.items()},
            [file for project in converted.values() for file in project.files],
            target,
            published,
            result,
        )


def _changed_files(
    converted: Iterable[ConvertedProject], published: IndexManifest
) -> Iterator[Finding]:
    """Yield the files that were published with other content."""
    published_hashes = published.published_hashes()
    for file in (file for project in converted for file in project.entries):
        sha256 = file.hashes.get("sha256")
        published_sha256 = published_hashes.get(file.filename, sha256)
        if published_sha256 != sha256:
            actual = "no sha256" if sha256 is None else f"{sha256[:16]}…"
            yield Location(file.filename).finding(
                CHANGED_FILE,
                f"it was published with sha256 {str(published_sha256)[:16]}…, and has {actual}",
                remedy="publish a new version or a new build number, or convert to another TARGET",
            )


@dataclass(slots=True)
class _Conversion:
    """The conversion of one page."""

    repository: Repository
    accept_losses: bool
    result: ConvertedProject = field(default_factory=ConvertedProject)
    entries: list[tuple[Release, File]] = field(default_factory=list)

    def convert(self, page: ProjectPage) -> ConvertedProject:
        index_files: dict[Release, list[File]] = {}
        for file in page.files:
            if (release := parse_index_file_name(file.filename)) is not None:
                index_files.setdefault(release, []).append(file)
            elif file.filename.endswith(".whl"):
                with suppress(InvalidFilename):
                    wheel = parse_wheel_filename(file.filename)
                    self.entries.append(((wheel.name, wheel.version), self._publishable(file)))
            elif (release := sdist_release(file.filename)) is not None:
                self.entries.append((release, self._publishable(file)))
        listed = [file for files in index_files.values() for file in files]
        bodies = iter(map_concurrently(listed, self.repository.read, most=_CONCURRENT_READS))
        for release, files in index_files.items():
            documents = [(file, next(bodies)) for file in files]
            self._add_document(release, documents)
        self.entries.sort(key=lambda pair: (pair[0][1], pair[1].filename))
        self.result.entries = tuple(file for _, file in self.entries)
        return self.result

    # --- documents ------------------------------------------------------------------------

    def _add_document(self, release: Release, index_files: list[tuple[File, bytes]]) -> None:
        """Write the document of a release in the current layout."""
        location = Location(redact(index_files[0][0].url))
        documents: list[tuple[str, VariantDocument]] = []
        try:
            for file, data in index_files:
                url = redact(file.url)
                document = read_document(data, where=url)
                self.result.documents[file.filename] = document.layout
                documents.append((url, document))
            written = self._write(combine(documents), location)
        except WheelfitError as error:
            self.result.findings.append(location.finding(UNCONVERTIBLE, error_in_one_line(error)))
            return
        if written is not None:
            entry, index_file = index_entry(release, written)
            self.result.files.append(index_file)
            self.entries.append((release, entry))

    def _write(self, document: VariantDocument, location: Location) -> bytes | None:
        """Return a document in the current layout; None if parts would be lost without consent."""
        lost = losses(document)
        if lost and not self.accept_losses:
            self.result.findings += [location.finding(LOSSY, text) for text in lost]
            return None
        self.result.lost += [f"{location.where}: {text}" for text in lost]
        return write_document(document, accept_losses=True)

    # --- files ------------------------------------------------------------------------------

    def _publishable(self, file: File) -> File:
        """Return the entry of the new page; a local file is published with it."""
        file = replace(file, source="", forbidden=(), origin=None)
        path = _local_path(file)
        if path is None:
            return file
        entry, metadata = describe_file(path, lenient=True)
        digest, size = entry.hashes["sha256"], path.stat().st_size
        stored_path = f"{FILES}/{digest[:16]}/{file.filename}"
        self.result.files.append(PublishedFile(stored_path, digest, size, path))
        if metadata is not None and entry.metadata_hashes is not None:
            metadata_sha256 = entry.metadata_hashes["sha256"]
            self.result.files.append(
                PublishedFile(
                    f"{stored_path}.metadata", metadata_sha256, len(metadata), lambda: metadata
                )
            )
        return replace(
            file,
            url=f"../../{quote(stored_path)}",
            hashes=entry.hashes,
            size=size,
            metadata_hashes=entry.metadata_hashes,
            requires_python=file.requires_python or entry.requires_python,
            provenance=None,
        )


def _local_path(file: File) -> Path | None:
    if not file.is_local:
        return None
    with suppress(ValueError):
        path = Path(file_path(file.url))
        return path if path.is_file() else None
    return None


def project_names(folder: Path) -> Iterable[str]:
    """Return the projects of a local index."""
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != ".")
