"""Generate an index from a folder of files: inspect, refuse, combine, publish."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from wheelfit.checking.findings import CheckedFile
from wheelfit.core.filename import (
    NEWER_FORMAT,
    index_file_name,
    parse_index_file_name,
    parse_wheel_filename,
    release_of,
)
from wheelfit.server.generate.collection import collect
from wheelfit.server.generate.manifest import MANIFEST, IndexManifest, read_manifest
from wheelfit.server.generate.publishing import (
    CHANGED_FILE,
    FOREIGN_PROVENANCE,
    INCOMPLETE_RELEASE,
    SAME_NAME,
    publish,
)
from wheelfit.server.generate.request import Generated, GenerateOptions
from wheelfit.server.generate.targets import FILES, SIMPLE, PublishedFile
from wheelfit.sources.page import File
from wheelfit.sources.progress import NO_PROGRESS
from wheelfit_runtime.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.checking.findings import Finding
    from wheelfit.core.filename import WheelFilename
    from wheelfit.server.generate.collection import CollectedFile, Collection
    from wheelfit.server.generate.file_facts import FactsMemory, FileFacts
    from wheelfit.server.generate.last_run import LastRun
    from wheelfit.server.generate.targets import Target
    from wheelfit.sources.progress import Progress

    Release = tuple[NormalizedName, Version]


_LONGEST_REASON = 500


@dataclass(slots=True)
class _Candidate:
    """A file that may be published."""

    found: CollectedFile
    facts: FileFacts
    release: Release
    wheel: WheelFilename | None
    provenance: bytes | None = None
    yanked: str | None = None


def generate(
    folder: Path,
    target: Target,
    memory: FactsMemory,
    wishes: GenerateOptions = GenerateOptions(),
    *,
    in_place: bool = False,
    without: frozenset[Path] = frozenset(),
    progress: Progress = NO_PROGRESS,
    last_run: LastRun | None = None,
) -> Generated:
    """Generate an index of the files of a folder.

    All files that pages name are in the target before the first page, so at any moment a client
    sees a release as it was or as it is, with all of its variants.

    :param in_place: whether the target is the folder itself; then files stay where they are.
    :raises UserError: a named release does not exist, or nothing would be left.
    """
    with target.opened():
        collection = collect(folder, without=without)
        facts = {archive.name: memory.facts(archive) for archive in collection.archives}
        new = [
            archive
            for archive in collection.archives
            if facts[archive.name] is None
            and (not wishes.releases or release_of(archive.filename) in wishes.releases)
        ]
        if new:
            from wheelfit.server.generate.inspection import inspect_all

            for archive, learnt in inspect_all(new, full=wishes.full, progress=progress):
                facts[archive.name] = learnt
                memory.add(archive, learnt)
        before = read_manifest(target.read(MANIFEST), where=target.name)
        known = {name: one for name, one in facts.items() if one is not None}
        survey = _Survey(collection, known, before, wishes, memory, in_place=in_place)
        survey.decide()
        publishes = wishes.keep_going or not survey.refused
        is_empty = not (survey.files or wishes.releases)
        if before.files and publishes and is_empty and not wishes.allow_empty:
            raise UserError(
                f"{folder} has nothing to publish, and the index has "
                f"{len(before.files)} project{'s' * (len(before.files) > 1)}",
                where=target.name,
                hint=(
                    "check that the folder is right and mounted; --allow-empty removes all projects"
                ),
            )
        notes = tuple(filter(None, [memory.save(), *_notes(folder, collection), *survey.kept]))
        refused = tuple(sorted(survey.refused, key=lambda finding: finding.sort_key))
        generated = Generated(
            hashed=len(new),
            refused=refused,
            excluded=tuple(sorted(survey.left_out)),
            notes=notes,
        )
        if not publishes:
            return generated
        generated = publish(
            survey.files,
            survey.parts.values(),
            target,
            before,
            generated,
            only=wishes.releases,
            elsewhere=wishes.elsewhere,
            prune=wishes.prune,
            progress=progress,
        )
        if last_run is not None:
            last_run.keep(generated, prune=wishes.prune)
        return generated


def _notes(folder: Path, collection: Collection) -> Iterator[str]:
    """Yield likely mistakes: of the folder, or of the name of a file in it."""
    if not collection.archives:
        yield f"{folder} has no wheels and no source distributions: the index is empty"
    for name in collection.strange:
        yield f"{name} is left out: it is not named as a source distribution"
    for name in collection.newer:
        yield f"{name} is left out: {NEWER_FORMAT}"
    files = {archive.name for archive in collection.archives}
    releases = {release_of(archive.filename) for archive in collection.archives}
    for name in sorted(collection.provenance.keys() - files):
        yield f"{collection.provenance[name].name} is left out: there is no such file"
    for name in sorted(collection.yanked.keys() - files):
        if not any(release is not None and _names(name, release) for release in releases):
            yield f"{collection.yanked[name].name} yanks nothing: there is no such file or release"


class _Survey:
    """The decision about the files to publish."""

    def __init__(
        self,
        collection: Collection,
        facts: Mapping[str, FileFacts],
        before: IndexManifest,
        wishes: GenerateOptions,
        memory: FactsMemory,
        *,
        in_place: bool,
    ) -> None:
        self._collection = collection
        self._facts = facts
        self._published = {file.filename: file for files in before.files.values() for file in files}
        self._known = before.known()
        self._wishes = wishes
        self._memory = memory
        self._in_place = in_place
        self.files: dict[str, tuple[File, ...]] = {}
        self.parts: dict[str, PublishedFile] = {}
        self.refused: list[Finding] = []
        self.left_out: set[str] = set()
        self.kept: list[str] = []

    def decide(self) -> None:
        """Fill in `files` and `parts`, and the reasons against others."""
        releases: dict[Release, list[_Candidate]] = {}
        for one in self._sound():
            releases.setdefault(one.release, []).append(one)
        wanted = self._wishes.releases
        for name in () if wanted else self.left_out & self._published.keys():
            release = release_of(name)
            if release is not None:
                releases.setdefault(release, [])
        if missing := sorted(wanted - self._all_releases()):
            listed = ", ".join(f"{name}=={version}" for name, version in missing)
            raise UserError(f"the folder has no file of {listed}")
        by_project: dict[str, list[tuple[Version, File]]] = {}
        for release, candidates in releases.items():
            if wanted and release not in wanted:
                continue
            documents = None
            kept = self._kept(release, candidates)
            if not kept:
                documents = self._document(release, candidates)
                kept = self._kept(release, candidates)
            if kept:
                by_project.setdefault(release[0], []).extend((release[1], file) for file in kept)
                continue
            if wanted and self._is_broken(release, candidates):
                continue
            entries = by_project.setdefault(release[0], [])
            entries += [(release[1], self._entry(candidate)) for candidate in candidates]
            if documents is not None:
                entry, part = index_entry(release, documents)
                self.parts[part.path] = part
                entries.append((release[1], entry))
        for name, entries in by_project.items():
            entries.sort(key=lambda pair: (pair[0], pair[1].filename))
            self.files[name] = tuple(file for _, file in entries)

    def _all_releases(self) -> set[Release]:
        return {
            release
            for archive in self._collection.archives
            if (release := release_of(archive.filename)) is not None
        }

    # --- refused files ------------------------------------------------------------------

    def _refuse(self, filename: str, findings: Iterable[Finding]) -> None:
        self.refused += findings
        self.left_out.add(filename)

    def _sound(self) -> Iterator[_Candidate]:
        """Yield the files with nothing against them alone."""
        wanted = self._wishes.releases
        seen: dict[str, CollectedFile] = {}
        for archive in self._collection.archives:
            filename = archive.filename
            release = release_of(filename)
            if wanted and release not in wanted:
                continue
            facts = self._facts[archive.name]
            place = CheckedFile(archive.name)
            other = seen.setdefault(filename.casefold(), archive)
            if other is not archive:
                if other.filename == filename and self._facts[other.name].sha256 == facts.sha256:
                    continue
                self._refuse(filename, [place.found(SAME_NAME, f"there is {other.name} too")])
                continue
            faults = list(facts.findings)
            known = self._known.get(filename, facts.sha256)
            if known != facts.sha256 and not self._wishes.replace:
                message = (
                    f"it was published with sha256 {known[:16]}…, and has {facts.sha256[:16]}…"
                )
                faults.append(place.found(CHANGED_FILE, message))
            provenance = self._provenance(archive, facts, faults)
            if faults or release is None:
                self._refuse(filename, faults)
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
        beside = self._collection.provenance.get(archive.name)
        if beside is None:
            return None
        from wheelfit.server.generate.inspection import provenance_fault

        data = beside.path.read_bytes()
        fault = provenance_fault(data, archive.filename, facts.sha256)
        if fault is not None:
            faults.append(CheckedFile(beside.name).found(FOREIGN_PROVENANCE, fault))
            return None
        return data

    def _yanked(self, archive: CollectedFile, release: Release) -> str | None:
        marks = self._collection.yanked
        mark = marks.get(archive.name)
        if mark is None:
            names = {key for key in marks if not key.endswith((".whl", ".tar.gz", ".zip"))}
            mark = next((marks[key] for key in sorted(names) if _names(key, release)), None)
        if mark is None:
            return None
        text = mark.path.read_bytes()[: 4 * _LONGEST_REASON].decode("utf-8", "replace")
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
                sorted(f"{variant.found.filename} {variant.facts.sha256}" for variant in variants)
            )
            document = self._memory.combined(name, key)
        if variants and document is None:
            from wheelfit.server.generate.inspection import (
                VariantWheel,
                combined_document,
            )

            wheels = [
                VariantWheel(variant.found, variant.wheel, variant.facts.document)
                for variant in variants
                if variant.wheel is not None
            ]
            document, findings = combined_document(wheels)
            if document is not None:
                self._memory.add_combined(name, key, document)
            else:
                for variant in variants:
                    self._refuse(variant.found.filename, ())
                    candidates.remove(variant)
                self.refused += findings
        for file in self._collection.index_files:
            if parse_index_file_name(file.filename) == release and (document or not variants):
                from wheelfit.server.generate.inspection import (
                    published_findings,
                )

                self.refused += published_findings(file, document)
        return document

    def _kept(self, release: Release, candidates: Sequence[_Candidate]) -> list[File]:
        """Return the published files of a release with a newly refused file: all stay.

        They are sound, however damaged the copies in the folder are. (In place, there are no
        copies.)
        """
        if self._in_place or self._wishes.releases:
            return []
        if not any(release_of(name) == release for name in self.left_out & self._published.keys()):
            return []
        kept = {name: file for name, file in self._published.items() if release_of(name) == release}
        self.left_out |= {candidate.found.filename for candidate in candidates}
        self.left_out -= kept.keys()
        self.kept.append(f"{release[0]}=={release[1]} stays as it was published")
        return list(kept.values())

    def _is_broken(self, release: Release, candidates: Sequence[_Candidate]) -> bool:
        """Return whether a named release cannot be published as a whole."""
        here = {candidate.found.filename for candidate in candidates}
        out = {name for name in self.left_out if release_of(name) == release}
        missing = [
            name
            for name in self._published
            if release_of(name) == release
            and name not in here | out
            and parse_index_file_name(name) is None
        ]
        place = CheckedFile(f"{release[0]}-{release[1]}")
        for name in sorted(missing):
            self.refused.append(place.found(INCOMPLETE_RELEASE, f"{name} is published already"))
        if out or missing:
            self.left_out |= here
        return bool(out or missing)

    # --- published files ----------------------------------------------------------------

    def _entry(self, one: _Candidate) -> File:
        file, facts = one.found, one.facts
        if self._in_place:
            path = file.name
        else:
            path = f"{FILES}/{facts.sha256[:16]}/{file.filename}"
            self.parts[path] = PublishedFile(path, facts.sha256, file.size, file.path)
        if facts.metadata_sha256 is not None:
            beside = f"{path}.metadata"
            read = partial(_metadata_of, file, facts.metadata)
            self.parts[beside] = PublishedFile(
                beside, facts.metadata_sha256, facts.metadata_size, read
            )
        if one.provenance is not None and not self._in_place:
            data = one.provenance
            beside = f"{path}.provenance"
            digest = hashlib.sha256(data).hexdigest()
            self.parts[beside] = PublishedFile(beside, digest, len(data), lambda: data)
        url = f"../../{quote(path)}"
        published = self._published.get(file.filename)
        if published is not None and published.hashes.get("sha256") == facts.sha256:
            time = published.upload_time
        else:
            time = _time(file.modified)
        return File(
            file.filename,
            url,
            {"sha256": facts.sha256},
            requires_python=facts.requires_python,
            yanked=one.yanked,
            size=file.size,
            upload_time=time,
            metadata_hashes=None
            if facts.metadata_sha256 is None
            else {"sha256": facts.metadata_sha256},
            provenance=None if one.provenance is None else f"{url}.provenance",
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


def _names(text: str, release: Release) -> bool:
    name, _, version = text.rpartition("-")
    try:
        return (canonicalize_name(name), Version(version)) == release
    except InvalidVersion:
        return False


def _metadata_of(archive: CollectedFile, known: bytes | None) -> bytes:
    if known is not None:
        return known
    from wheelfit.wheels.archive import WheelArchive

    with WheelArchive(archive.path) as wheel:
        return wheel.metadata()


def _time(nanoseconds: int) -> str:
    """Return a time in the form of pages (PEP 700)."""
    moment = datetime.fromtimestamp(nanoseconds // 10**9, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{nanoseconds // 1000 % 10**6:06d}Z"
