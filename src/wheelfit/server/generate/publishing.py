"""Publishing to a target: first the files, then the pages."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote

from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from wheelfit.checking.findings import Check, Severity
from wheelfit.core.filename import parse_index_file_name, release_of
from wheelfit.server.generate.manifest import MANIFEST, IndexManifest, read_manifest, write_manifest
from wheelfit.server.generate.request import GenerateResult, TargetState
from wheelfit.server.generate.targets import SIMPLE, PublishedFile, Target
from wheelfit.server.pages import PAGE_TYPES, write_project, write_projects
from wheelfit.sources.file_readers import ContentFiles
from wheelfit.sources.page import File, ProjectPage
from wheelfit.sources.progress import NO_PROGRESS, Progress
from wheelfit.sources.repository import Content, content_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping


# Reasons to refuse a file that is sound by itself.
SAME_NAME = Check(
    "same-name",
    "F-131",
    Severity.ERROR,
    "two files have the same name, or names that differ in upper and lower case only",
    "remove one of them",
)
CHANGED_FILE = Check(
    "changed-file",
    "F-131",
    Severity.ERROR,
    "a file of this name was published with other content, and locks have its hash",
    "publish a new version or a new build number; --replace takes it all the same",
)
INCOMPLETE_RELEASE = Check(
    "incomplete-release",
    "F-131",
    Severity.ERROR,
    "a file of the release is published already and not in the folder",
    "put all files of the release into the folder",
)
FOREIGN_PROVENANCE = Check(
    "foreign-provenance",
    "F-131",
    Severity.ERROR,
    "the provenance is not a provenance object (PEP 740), or about another file",
    "put the provenance of this file beside it, or remove it",
)


def publish(
    entries: Mapping[str, tuple[File, ...]],
    files: Iterable[PublishedFile],
    target: Target,
    before: IndexManifest,
    generated: GenerateResult,
    *,
    keeps_others: bool = False,
    prune: bool = False,
    progress: Progress = NO_PROGRESS,
) -> GenerateResult:
    """Publish files to a target, and replace the pages once all files are there.

    :param entries: the entries of each page, by project.
    :param target: the locked target.
    :param keeps_others: whether published releases without new entries stay on the pages.
    :param prune: whether to remove files that are on no page, neither now nor before.
    """
    files = sorted(files, key=lambda file: file.path)
    missing = target.missing(files, before.files.items())
    if missing:
        target.put_files(missing, progress)
    with target.page_lock():
        # Read again: another process may have published to an object store meanwhile.
        before = read_manifest(target.read(MANIFEST), where=target.name)
        listed = _merged_entries(before.entries, entries, keeps_others=keeps_others)
        pages, digests = _pages(listed, before, target)
        stored = {**before.files, **{file.path: file.sha256 for file in files}}
        listed_files = [(name, file) for name, page in listed.items() for file in page]
        unreferenced = stored.keys() - {
            path for listed_file in listed_files for path in _paths_of(*listed_file)
        }
        names = {file.filename for _, file in listed_files}
        pruned = sorted(unreferenced & before.unreferenced) if prune else []
        removed_pages = sorted(before.pages.keys() - digests.keys())
        after = IndexManifest(
            listed,
            digests,
            {path: digest for path, digest in stored.items() if path not in pruned},
            frozenset(unreferenced.difference(pruned)),
            {name: sha for name, sha in before.published_hashes().items() if name not in names},
        )
        target.put_pages(pages)
        if removed_pages:
            target.remove(removed_pages)
        manifest = write_manifest(after)
        if after != before or not target.has_page(MANIFEST, _digest(manifest)):
            target.put_pages([(MANIFEST, manifest)])
        if pruned:
            target.remove(pruned)
    return replace(
        generated,
        projects=len(listed),
        releases=len({release_of(file.filename) for _, file in listed_files}),
        files=len(listed_files),
        is_published=True,
        written=(*(file.path for file in missing), *(path for path, _ in pages)),
        removed=(*removed_pages, *pruned),
        unreferenced=len(after.unreferenced),
        state=TargetState(
            _digest(manifest),
            digests,
            tuple((file.path, file.sha256, file.size) for file in files),
        ),
    )


def _merged_entries(
    before: Mapping[str, tuple[File, ...]],
    entries: Mapping[str, tuple[File, ...]],
    *,
    keeps_others: bool,
) -> dict[str, tuple[File, ...]]:
    """Return the entries of all pages, by project."""
    if not keeps_others:
        return {name: entries[name] for name in sorted(entries)}
    replaced = {release_of(file.filename) for page in entries.values() for file in page}
    listed: dict[str, tuple[File, ...]] = {}
    for name in sorted({*before, *entries}):
        page = [*entries.get(name, ())]
        page += [file for file in before.get(name, ()) if release_of(file.filename) not in replaced]
        listed[name] = tuple(sorted(page, key=_by_version))
    return listed


def _by_version(file: File) -> tuple[Version, str]:
    """Return the sort key of an entry of a page."""
    release = release_of(file.filename)
    return (Version("0") if release is None else release[1], file.filename)


def _pages(
    listed: Mapping[str, tuple[File, ...]],
    before: IndexManifest,
    target: Target,
) -> tuple[list[tuple[str, bytes]], dict[str, str]]:
    """Return the pages that have to be written, and the digests of all pages.

    The list of projects is last, so that it never names a project without a page.
    """
    pages: list[tuple[str, bytes]] = []
    digests: dict[str, str] = {}

    def add(path: str, *, is_same: bool, write: partial[bytes]) -> None:
        digest = before.pages.get(path)
        if is_same and digest is not None and target.has_page(path, digest):
            digests[path] = digest
            return
        data = write()
        digests[path] = _digest(data)
        if digests[path] != digest or not target.has_page(path, digests[path]):
            pages.append((path, data))

    for name, entries in listed.items():
        is_same = before.entries.get(name) == entries
        page = ProjectPage(canonicalize_name(name), entries, source="")
        for file, media_type in PAGE_TYPES.items():
            path = f"{SIMPLE}/{name}/{file}"
            add(path, is_same=is_same, write=partial(write_project, page, media_type))
    names = list(listed)
    for file, media_type in PAGE_TYPES.items():
        is_same = list(before.entries) == names
        add(f"{SIMPLE}/{file}", is_same=is_same, write=partial(write_projects, names, media_type))
    return pages, digests


def _paths_of(project: str, file: File) -> Iterator[str]:
    """Yield the paths of the files that an entry names."""
    for url in (file.url, file.provenance):
        if url is None or "://" in url:
            continue
        path = path_of_entry(project, url)
        yield path
        if url == file.url and file.metadata_hashes is not None:
            yield f"{path}.metadata"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class PublishedIndex(ContentFiles):
    """The pages of a target, with METADATA of wheels and variants documents: an `Index`.

    :param target: read once; it must not change meanwhile.
    """

    name = "this index"

    def __init__(self, target: Target) -> None:
        self._target = target
        self._entries = read_manifest(target.read(MANIFEST), where=target.name).entries
        self._paths: dict[str, str] = {}
        for project, entries in self._entries.items():
            for file in entries:
                path = path_of_entry(project, file.url)
                if parse_index_file_name(file.filename) is not None:
                    self._paths[file.filename] = path
                elif file.metadata_hashes is not None:
                    self._paths[f"{file.filename}.metadata"] = f"{path}.metadata"

    def projects(self) -> tuple[NormalizedName, ...]:
        """Return the names of all projects, sorted."""
        return tuple(NormalizedName(name) for name in sorted(self._entries))

    def project(self, name: NormalizedName) -> ProjectPage | None:
        """Return the page of a project."""
        entries = self._entries.get(name)
        return None if entries is None else ProjectPage(name, entries, source=self.name)

    def stamp(self, name: NormalizedName) -> Hashable:
        """Return a constant: nothing changes."""
        return name

    def content(self, filename: str) -> Content | None:
        """Return the bytes of a small file."""
        path = self._paths.get(filename)
        data = None if path is None else self._target.read(path)
        return None if data is None else content_of(data)


def path_of_entry(project: str, url: str) -> str:
    """Return the path of a file below the target, from its URL on a page."""
    if url.startswith("../../"):
        return unquote(url.removeprefix("../../"))
    return f"{SIMPLE}/{project}/{unquote(url)}"
