"""Generate an index from a folder of files: inspect, refuse, combine, publish."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from packaging.utils import canonicalize_name

from wheelfit.checking.findings import Finding, Location
from wheelfit.core.filename import (
    NEWER_FORMAT,
    index_file_name,
    parse_index_file_name,
    parse_wheel_filename,
    release_of,
)
from wheelfit.core.versions import version_of
from wheelfit.server.generate.collection import ARCHIVES, CollectedFile, CollectedFiles, collect
from wheelfit.server.generate.manifest import MANIFEST, IndexManifest, read_manifest
from wheelfit.server.generate.publishing import (
    CHANGED_FILE,
    FOREIGN_PROVENANCE,
    INCOMPLETE_RELEASE,
    SAME_NAME,
    publish,
)
from wheelfit.server.generate.request import GenerateOptions, GenerateResult
from wheelfit.server.generate.targets import FILES, SIMPLE, PublishedFile, Target
from wheelfit.sources.page import File
from wheelfit.sources.progress import NO_PROGRESS, Progress
from wheelfit_runtime.errors import UserError
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from packaging.version import Version

    from wheelfit.core.filename import Release, WheelFilename
    from wheelfit.server.generate.file_facts import FactsCache, FileFacts
    from wheelfit.server.generate.last_run import LastRun


_LONGEST_REASON = 500
_LAST_SECOND = 253402300799  # of the year 9999


@dataclass(slots=True)
class _Candidate:
    """A file that may be published."""

    file: CollectedFile
    facts: FileFacts
    release: Release
    wheel: WheelFilename | None
    provenance: bytes | None = None
    yanked: str | None = None


def generate(
    folder: Path,
    target: Target,
    cache: FactsCache,
    options: GenerateOptions = GenerateOptions(),
    *,
    in_place: bool = False,
    excluded: frozenset[Path] = frozenset(),
    progress: Progress = NO_PROGRESS,
    last_run: LastRun | None = None,
) -> GenerateResult:
    """Generate an index of the files of a folder.

    All files that pages name are in the target before the first page, so at any moment a client
    sees a release as it was or as it is, with all of its variants.

    :param in_place: whether the target is the folder itself; then files stay where they are.
    :raises UserError: a named release does not exist, or nothing would be left.
    """
    with target.lock():
        collection = collect(folder, excluded=excluded)
        facts = {archive.name: cache.facts(archive) for archive in collection.archives}
        new = [
            archive
            for archive in collection.archives
            if facts[archive.name] is None
            and (not options.releases or release_of(archive.filename) in options.releases)
        ]
        if new:
            from wheelfit.server.generate.inspection import inspect_all

            for archive, new_facts in inspect_all(
                new, check_content=options.check_content, progress=progress
            ):
                facts[archive.name] = new_facts
                cache.add(archive, new_facts)
        before = read_manifest(target.read(MANIFEST), where=target.name)
        selection = _Selection(
            collection,
            {name: file_facts for name, file_facts in facts.items() if file_facts is not None},
            before,
            options,
            cache,
            in_place=in_place,
        )
        selection.select()
        publishes = options.keep_going or not selection.refused
        is_empty = not (selection.entries or options.releases)
        if before.entries and publishes and is_empty and not options.allow_empty:
            raise UserError(
                f"{folder} has nothing to publish, and the index has "
                f"{count_of(len(before.entries), 'project')}",
                where=target.name,
                hint=(
                    "check that the folder is right and mounted; --allow-empty removes all projects"
                ),
            )
        notes = tuple(filter(None, [cache.save(), *_notes(folder, collection), *selection.notes]))
        refused = tuple(sorted(selection.refused, key=lambda finding: finding.sort_key))
        result = GenerateResult(
            hashed=len(new),
            refused=refused,
            excluded=tuple(sorted(selection.excluded)),
            notes=notes,
        )
        if not publishes:
            return result
        result = publish(
            selection.entries,
            selection.files.values(),
            target,
            before,
            result,
            keeps_others=bool(options.releases),
            prune=options.prune,
            progress=progress,
        )
        if last_run is not None:
            last_run.save(result, prune=options.prune)
        return result


def _notes(folder: Path, collection: CollectedFiles) -> Iterator[str]:
    """Yield likely mistakes: of the folder, or of the name of a file in it."""
    if not collection.archives:
        yield f"{folder} has no wheels and no source distributions: the index is empty"
    for name in collection.misnamed:
        yield f"{name} is left out: it is not named as a source distribution"
    for name in collection.newer_format:
        yield f"{name} is left out: {NEWER_FORMAT}"
    files = {archive.name for archive in collection.archives}
    releases = {release_of(archive.filename) for archive in collection.archives}
    for name in sorted(collection.provenance.keys() - files):
        yield f"{collection.provenance[name].name} is left out: there is no such file"
    for name in sorted(collection.yanked.keys() - files):
        if not any(release is not None and _is_release_name(name, release) for release in releases):
            yield f"{collection.yanked[name].name} yanks nothing: there is no such file or release"


class _Selection:
    """The files to publish, and the reasons against others."""

    def __init__(
        self,
        collection: CollectedFiles,
        facts: Mapping[str, FileFacts],
        before: IndexManifest,
        options: GenerateOptions,
        cache: FactsCache,
        *,
        in_place: bool,
    ) -> None:
        self._collection = collection
        self._facts = facts
        self._published = {
            file.filename: file for entries in before.entries.values() for file in entries
        }
        self._known = before.published_hashes()
        self._options = options
        self._requested = options.releases
        self._cache = cache
        self._in_place = in_place
        self.entries: dict[str, tuple[File, ...]] = {}
        self.files: dict[str, PublishedFile] = {}
        self.refused: list[Finding] = []
        self.excluded: set[str] = set()
        self.notes: list[str] = []

    def select(self) -> None:
        """Fill in `entries` and `files`, and the reasons against others."""
        releases: dict[Release, list[_Candidate]] = {}
        for candidate in self._acceptable():
            releases.setdefault(candidate.release, []).append(candidate)
        # A release without acceptable files may stay as it was published.
        for name in () if self._requested else self.excluded & self._published.keys():
            release = release_of(name)
            if release is not None:
                releases.setdefault(release, [])
        existing = {release_of(archive.filename) for archive in self._collection.archives}
        if missing := sorted(self._requested - existing):
            listed = ", ".join(f"{name}=={version}" for name, version in missing)
            raise UserError(f"the folder has no file of {listed}")
        by_project: dict[str, list[tuple[Version, File]]] = {}
        for release, candidates in releases.items():
            if self._requested and release not in self._requested:
                continue
            document = None
            unchanged = self._unchanged_release(release, candidates)
            if not unchanged:
                document = self._document(release, candidates)
                # Without a document, published variants were refused just now.
                unchanged = self._unchanged_release(release, candidates)
            if not unchanged and self._requested and self._is_incomplete(release, candidates):
                continue
            entries = by_project.setdefault(release[0], [])
            if unchanged:
                entries += [(release[1], file) for file in unchanged]
                continue
            entries += [(release[1], self._entry(candidate)) for candidate in candidates]
            if document is not None:
                entry, file = index_entry(release, document)
                self.files[file.path] = file
                entries.append((release[1], entry))
        for name, entries in by_project.items():
            if entries:  # variants that contradict each other are left out only now
                entries.sort(key=lambda pair: (pair[0], pair[1].filename))
                self.entries[name] = tuple(file for _, file in entries)

    # --- refused files ------------------------------------------------------------------

    def _refuse(self, filename: str, findings: Iterable[Finding]) -> None:
        self.refused += findings
        self.excluded.add(filename)

    def _acceptable(self) -> Iterator[_Candidate]:
        """Yield the files that may be published, each judged by itself."""
        first_of_name: dict[str, CollectedFile] = {}
        for archive in self._collection.archives:
            filename = archive.filename
            release = release_of(filename)
            if self._requested and release not in self._requested:
                continue
            facts = self._facts[archive.name]
            location = Location(archive.name)
            other = first_of_name.setdefault(filename.casefold(), archive)
            if other is not archive:
                if other.filename == filename and self._facts[other.name].sha256 == facts.sha256:
                    continue
                self._refuse(filename, [location.finding(SAME_NAME, f"there is {other.name} too")])
                continue
            findings = list(facts.findings)
            published_sha256 = self._known.get(filename, facts.sha256)
            if published_sha256 != facts.sha256 and not self._options.replace:
                message = (
                    f"it was published with sha256 {published_sha256[:16]}…, "
                    f"and has {facts.sha256[:16]}…"
                )
                findings.append(location.finding(CHANGED_FILE, message))
            provenance = self._provenance(archive, facts, findings)
            if findings or release is None:
                self._refuse(filename, findings)
                continue
            yield _Candidate(
                archive,
                facts,
                release,
                parse_wheel_filename(filename) if filename.endswith(".whl") else None,
                provenance,
                self._yanked(archive, release),
            )

    def _provenance(
        self, archive: CollectedFile, facts: FileFacts, faults: list[Finding]
    ) -> bytes | None:
        provenance_file = self._collection.provenance.get(archive.name)
        if provenance_file is None:
            return None
        from wheelfit.server.generate.inspection import provenance_fault

        data = provenance_file.path.read_bytes()
        fault = provenance_fault(data, archive.filename, facts.sha256)
        if fault is not None:
            faults.append(Location(provenance_file.name).finding(FOREIGN_PROVENANCE, fault))
            return None
        return data

    def _yanked(self, archive: CollectedFile, release: Release) -> str | None:
        yank_files = self._collection.yanked
        yank_file = yank_files.get(archive.name)
        if yank_file is None:
            releases = sorted(key for key in yank_files if not key.endswith(ARCHIVES))
            keys = (key for key in releases if _is_release_name(key, release))
            yank_file = yank_files.get(next(keys, ""))
        if yank_file is None:
            return None
        text = yank_file.path.read_bytes()[: 4 * _LONGEST_REASON].decode("utf-8", "replace")
        return " ".join(text.split())[:_LONGEST_REASON]

    def _document(self, release: Release, candidates: list[_Candidate]) -> bytes | None:
        """Return the ``-variants.json`` of a release; without one its variants are left out."""
        variants = [
            candidate
            for candidate in candidates
            if candidate.wheel is not None and candidate.wheel.is_variant
        ]
        document = None
        if variants:
            name = f"{release[0]}-{release[1]}"
            key = "\n".join(
                sorted(f"{variant.file.filename} {variant.facts.sha256}" for variant in variants)
            )
            document = self._cache.combined(name, key)
        if variants and document is None:
            from wheelfit.server.generate.inspection import VariantWheel, combined_document

            wheels = [
                VariantWheel(variant.file, variant.wheel, variant.facts.document)
                for variant in variants
                if variant.wheel is not None
            ]
            document, findings = combined_document(wheels)
            if document is not None:
                self._cache.add_combined(name, key, document)
            else:
                for variant in variants:
                    self._refuse(variant.file.filename, ())
                    candidates.remove(variant)
                self.refused += findings
        for file in self._collection.index_files:
            # If no document could be made, the reasons are reported already.
            is_comparable = document is not None or not variants
            if is_comparable and parse_index_file_name(file.filename) == release:
                from wheelfit.server.generate.inspection import published_findings

                self.refused += published_findings(file, document)
        return document

    def _unchanged_release(self, release: Release, candidates: Sequence[_Candidate]) -> list[File]:
        """If a published file of a release is refused now, return all published ones, which stay.

        They are intact even if the files in the folder are damaged.
        """
        # In place, the published files are those of the folder.
        if self._in_place or self._options.releases:
            return []
        if not any(release_of(name) == release for name in self.excluded & self._published.keys()):
            return []
        files = [file for name, file in self._published.items() if release_of(name) == release]
        self.excluded |= {candidate.file.filename for candidate in candidates}
        self.excluded -= {file.filename for file in files}
        self.notes.append(f"{release[0]}=={release[1]} stays as it was published")
        return files

    def _is_incomplete(self, release: Release, candidates: Sequence[_Candidate]) -> bool:
        """Return whether a named release cannot be published as a whole."""
        included = {candidate.file.filename for candidate in candidates}
        excluded = {name for name in self.excluded if release_of(name) == release}
        missing = [
            name
            for name in self._published
            if release_of(name) == release
            and name not in included | excluded
            and parse_index_file_name(name) is None
        ]
        location = Location(f"{release[0]}-{release[1]}")
        for name in sorted(missing):
            self.refused.append(
                location.finding(INCOMPLETE_RELEASE, f"{name} is published, but not in the folder")
            )
        if excluded or missing:
            self.excluded |= included
        return bool(excluded or missing)

    # --- published files ----------------------------------------------------------------

    def _entry(self, candidate: _Candidate) -> File:
        file, facts = candidate.file, candidate.facts
        if self._in_place:
            path = file.name
        else:
            path = f"{FILES}/{facts.sha256[:16]}/{file.filename}"
            self.files[path] = PublishedFile(path, facts.sha256, file.size, file.path)
        if facts.metadata_sha256 is not None:
            metadata_path = f"{path}.metadata"
            read = partial(_metadata_of, file, facts.metadata)
            self.files[metadata_path] = PublishedFile(
                metadata_path, facts.metadata_sha256, facts.metadata_size, read
            )
        if candidate.provenance is not None and not self._in_place:
            data = candidate.provenance
            provenance_path = f"{path}.provenance"
            digest = hashlib.sha256(data).hexdigest()
            self.files[provenance_path] = PublishedFile(
                provenance_path, digest, len(data), lambda: data
            )
        url = f"../../{quote(path)}"
        published = self._published.get(file.filename)
        if published is not None and published.hashes.get("sha256") == facts.sha256:
            upload_time = published.upload_time
        else:
            upload_time = _upload_time(file.modified)
        return File(
            file.filename,
            url,
            {"sha256": facts.sha256},
            requires_python=facts.requires_python,
            yanked=candidate.yanked,
            size=file.size,
            upload_time=upload_time,
            metadata_hashes=None
            if facts.metadata_sha256 is None
            else {"sha256": facts.metadata_sha256},
            provenance=None if candidate.provenance is None else f"{url}.provenance",
        )


def index_entry(release: Release, document: bytes) -> tuple[File, PublishedFile]:
    """Return the entry of a ``-variants.json``, and the file itself, whose path has its digest."""
    filename = index_file_name(*release)
    digest = hashlib.sha256(document).hexdigest()
    path = f"{SIMPLE}/{release[0]}/{digest[:16]}/{filename}"
    entry = File(
        filename, f"{digest[:16]}/{quote(filename)}", {"sha256": digest}, size=len(document)
    )
    return entry, PublishedFile(path, digest, len(document), lambda: document)


def _is_release_name(text: str, release: Release) -> bool:
    name, _, version = text.rpartition("-")
    return (canonicalize_name(name), version_of(version)) == release


def _metadata_of(archive: CollectedFile, metadata: bytes | None) -> bytes:
    if metadata is not None:
        return metadata
    from wheelfit.wheels.archive import WheelArchive

    with WheelArchive(archive.path) as wheel:
        return wheel.metadata()


def _upload_time(nanoseconds: int) -> str:
    """Return a time in the form of pages (PEP 700), at most the last one that it can express."""
    moment = datetime.fromtimestamp(min(nanoseconds // 10**9, _LAST_SECOND), UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{nanoseconds // 1000 % 10**6:06d}Z"
