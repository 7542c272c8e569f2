"""An index of an old layout, converted to the current one.

URLs, hashes, yanks and times of files stay. Documents are read by the rules of their layout, and
written in the current one (F-56). Wheels are copied unchanged, unless they are rewritten too.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec.structs import replace

from wheelfit.checking.findings import Check, Finding, Location, Severity
from wheelfit.core.filename import (
    parse_index_file_name,
    parse_wheel_filename,
    release_of,
    sdist_release,
)
from wheelfit.core.index_metadata import combine
from wheelfit.core.metadata import losses, read_document, write_document
from wheelfit.errors import InvalidFilename
from wheelfit.server.folder import describe_file
from wheelfit.server.generate.generation import index_entry
from wheelfit.server.generate.inspection import error_in_one_line
from wheelfit.server.generate.manifest import MANIFEST, IndexManifest, read_manifest
from wheelfit.server.generate.publishing import CHANGED_FILE, by_version, paths_of, publish
from wheelfit.server.generate.request import GenerateResult
from wheelfit.server.generate.targets import FILES, PublishedFile, Target
from wheelfit.sources.concurrency import map_concurrently
from wheelfit.sources.urls import file_path, redact
from wheelfit.wheels.conversion import convert_wheel, rename_null_variant
from wheelfit.wheels.rewrite import RewriteOptions
from wheelfit_runtime.errors import InvalidDocument, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wheelfit.core.document import VariantDocument
    from wheelfit.core.filename import Release, WheelFilename
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
    "the document, or the wheel, cannot be read or may not be written",
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
    rewritten: dict[str, str] = field(default_factory=dict)
    """New names of rewritten wheels, by their old names."""


def convert_project(
    repository: Repository,
    page: ProjectPage,
    scratch: Path,
    *,
    rewrite_wheels: bool = False,
    accept_losses: bool = False,
) -> ConvertedProject:
    """Convert one project.

    :param scratch: a folder that exists until the result is published.
    """
    return _Conversion(repository, scratch, rewrite_wheels, accept_losses).convert(page)


def publish_converted(
    converted: Mapping[str, ConvertedProject],
    target: Target,
    *,
    keep_going: bool = False,
    replace_files: bool = False,
) -> GenerateResult:
    """Publish converted projects, or return the reasons against it."""
    findings = [finding for project in converted.values() for finding in project.findings]
    if findings and not keep_going:
        return GenerateResult(refused=tuple(findings))  # the target stays untouched
    with target.lock():
        published = read_manifest(target.read(MANIFEST), where=target.name)
        if not replace_files:
            for name, project in converted.items():
                findings += _keep_published_releases(name, project, published)
        result = GenerateResult(refused=tuple(findings))
        if findings and not keep_going:
            return result
        return publish(
            {name: project.entries for name, project in converted.items()},
            [file for project in converted.values() for file in project.files],
            target,
            published,
            result,
        )


def _keep_published_releases(
    name: str, converted: ConvertedProject, published: IndexManifest
) -> Iterator[Finding]:
    """Yield files that were published with other content, and keep their releases as published."""
    published_hashes = published.published_hashes()
    changed: set[Release | None] = set()
    for file in converted.entries:
        sha256 = file.hashes.get("sha256")
        published_sha256 = published_hashes.get(file.filename, sha256)
        if published_sha256 != sha256:
            changed.add(release_of(file.filename))
            actual = "no sha256" if sha256 is None else f"{sha256[:16]}…"
            yield Location(file.filename).finding(
                CHANGED_FILE,
                f"it was published with sha256 {str(published_sha256)[:16]}…, and has {actual}",
            )
    if not changed:
        return
    entries = [entry for entry in converted.entries if release_of(entry.filename) not in changed]
    entries += [
        entry for entry in published.entries.get(name, ()) if release_of(entry.filename) in changed
    ]
    converted.entries = tuple(sorted(entries, key=by_version))
    paths = {path for entry in converted.entries for path in paths_of(name, entry)}
    converted.files = [file for file in converted.files if file.path in paths]


@dataclass(slots=True)
class _Conversion:
    """The conversion of one page."""

    repository: Repository
    scratch: Path
    rewrite_wheels: bool
    accept_losses: bool
    result: ConvertedProject = field(default_factory=ConvertedProject)
    entries: list[tuple[Release, File]] = field(default_factory=list)
    wheel_documents: dict[Release, list[tuple[str, VariantDocument]]] = field(default_factory=dict)
    """Documents of rewritten wheels."""

    def convert(self, page: ProjectPage) -> ConvertedProject:
        index_files: dict[Release, list[File]] = {}
        wheels: list[tuple[File, WheelFilename]] = []
        for file in page.files:
            if (release := parse_index_file_name(file.filename)) is not None:
                index_files.setdefault(release, []).append(file)
            elif file.filename.endswith(".whl"):
                with suppress(InvalidFilename):
                    wheels.append((file, parse_wheel_filename(file.filename)))
            elif (release := sdist_release(file.filename)) is not None:
                self.entries.append((release, self._publishable(file)))
        for file, name in wheels:
            self._add_wheel(file, name)
        variant_releases = {(name.name, name.version) for _, name in wheels if name.is_variant}
        listed = [file for files in index_files.values() for file in files]
        bodies = iter(map_concurrently(listed, self.repository.read, most=_CONCURRENT_READS))
        for release, files in index_files.items():
            documents = [(file, next(bodies)) for file in files]
            self._add_document(release, documents)
        for release in sorted(variant_releases - index_files.keys()):
            self._add_document(release, [])
        self.entries.sort(key=lambda pair: (pair[0][1], pair[1].filename))
        self.result.entries = tuple(file for _, file in self.entries)
        return self.result

    # --- documents ------------------------------------------------------------------------

    def _add_document(self, release: Release, index_files: list[tuple[File, bytes]]) -> None:
        """Write the document of a release in the current layout."""
        where = redact(index_files[0][0].url) if index_files else f"{release[0]} {release[1]}"
        location = Location(where)
        try:
            read = [read_document(data, where=redact(file.url)) for file, data in index_files]
            documents = []
            for (file, _), document in zip(index_files, read, strict=True):
                self.result.documents[file.filename] = document.layout
                current = rename_null_variant(document) if self.rewrite_wheels else document
                documents.append((redact(file.url), current))
            documents += self.wheel_documents.get(release, [])
            if not documents:
                return  # its variants are described in their wheels alone
            document = combine(documents)
            written = self._write(document, location)
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

    def _add_wheel(self, file: File, name: WheelFilename) -> None:
        path = _local_path(file)
        if path is not None and self.rewrite_wheels and name.is_variant:
            try:
                new = self._rewrite_wheel(path, name)
            except WheelfitError as error:
                self.result.findings.append(
                    Location(str(path)).finding(UNCONVERTIBLE, error.message)
                )
                return
            if new is None:
                return  # it would lose parts, without consent
            if new != path:
                self.result.rewritten[file.filename] = new.name
                file = replace(
                    file, filename=new.name, url=new.as_uri(), hashes={}, size=None,
                    metadata_hashes=None, provenance=None,
                )  # fmt: skip
                name = parse_wheel_filename(new.name)
        self.entries.append(((name.name, name.version), self._publishable(file)))

    def _rewrite_wheel(self, path: Path, name: WheelFilename) -> Path | None:
        """Return a wheel with a document of the current layout: itself if it has one."""
        try:
            converted = convert_wheel(
                path,
                self.scratch,
                accept_losses=self.accept_losses,
                options=RewriteOptions(overwrite=True),
            )
        except InvalidDocument as error:
            if any(fault.rule != "F-56" for fault in error.faults):
                raise
            location = Location(str(path), "variant.json")
            self.result.findings += [
                location.finding(LOSSY, fault.message) for fault in error.faults
            ]
            return None
        self.result.lost += [f"{path}: {text}" for text in converted.lost]
        if converted.is_new:
            release = (name.name, name.version)
            wheels = self.wheel_documents.setdefault(release, [])
            wheels.append((converted.path.name, converted.document))
        return converted.path

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
