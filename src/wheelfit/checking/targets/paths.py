"""Checks of files and folders of this machine."""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.checking import checks
from wheelfit.checking.findings import CheckedCounts, Finding, Location, Report, UncheckedTarget
from wheelfit.checking.pages import check_listing, listed_releases
from wheelfit.checking.releases import (
    ReleaseFacts,
    check_index_file,
    check_release,
    wrong_hash_finding,
)
from wheelfit.checking.targets.each_wheel import (
    WheelToCheck,
    check_in_threads,
    check_one_wheel,
    listing_differences,
)
from wheelfit.checking.tool_profiles import CheckOptions
from wheelfit.checking.wheels.wheel import WheelFacts
from wheelfit.core.filename import (
    NEWER_FORMAT,
    is_newer_format,
    parse_index_file_name,
    sdist_release,
    wheel_filename_of,
)
from wheelfit.core.strict_json import DEFAULT_LIMITS
from wheelfit.sources.hash_check import check_bytes
from wheelfit.sources.page import VARIANTS_SUFFIX, File
from wheelfit.sources.progress import NO_PROGRESS, Progress
from wheelfit.sources.simple_api import parse_links
from wheelfit.sources.urls import file_path, file_url, redact
from wheelfit_runtime.errors import (
    FileProblem,
    IntegrityError,
    InvalidPage,
    WheelfitError,
    os_reason,
)
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wheelfit.checking.targets.each_wheel import WheelMapper
    from wheelfit.core.filename import Release

_DOCUMENT = "variant.json"
_HINT = "name wheels, *-variants.json files, folders of them, or project:NAME for an index"
_PROJECT = "pyproject.toml"
_PAGE = "index.html"
_MAX_PAGE_SIZE = 256 << 20
_SITE_MARK = b'<meta name="wheelfit:page" content="people">'
"""In the head of pages for people, which `wheelfit index generate --site` writes."""
_HEAD_SIZE = 1 << 10


def check_paths(
    paths: Sequence[Path],
    options: CheckOptions = CheckOptions(),
    *,
    progress: Progress = NO_PROGRESS,
    on_release: Callable[[ReleaseFacts], Iterable[Finding]] = lambda _: (),
    map_wheels: WheelMapper | None = None,
) -> Report:
    """Check wheels, documents and folders, each by itself and those of a release together.

    The report names unreadable files; the others are checked.

    :param on_release: called with each release; returns further findings.
    :param map_wheels: calls `check_one_wheel` for each of some wheels; default: in threads.
    """
    files = _FilesToCheck()
    for path in paths:
        files.add(path)
    return _PathChecks(files, options, on_release, map_wheels or check_in_threads).report(progress)


@dataclass(slots=True)
class _FilesToCheck:
    """The files to check, each once, in the order of the arguments."""

    wheels: dict[Path, None] = field(default_factory=dict)
    index_files: dict[Path, None] = field(default_factory=dict)
    documents: dict[Path, None] = field(default_factory=dict)
    projects: dict[Path, None] = field(default_factory=dict)
    """Files named ``pyproject.toml`` among the arguments."""
    pages: dict[Path, None] = field(default_factory=dict)
    sources: dict[Path, Release] = field(default_factory=dict)
    """Source distributions, which are not opened."""
    explicit: set[Path] = field(default_factory=set)
    """Files among the arguments, whose releases need not be complete."""
    unchecked: list[UncheckedTarget] = field(default_factory=list)

    def add(self, path: Path) -> None:
        """Add a file, or all files in a folder."""
        if path.is_dir():
            self._add_folder(path)
        elif not path.exists():
            self._skip(path, "the file or folder does not exist")
        elif path.is_fifo():
            self._skip(path, "it is not an ordinary file")  # a pipe may never end
        elif self._add_file(path):
            self.explicit.add(path)
        elif path.suffix == ".json":
            self.documents[path] = None
            self.explicit.add(path)
        elif path.name == _PROJECT:
            self.projects[path] = None
        elif not is_newer_format(path.name):  # which `_add_file` has reported
            self._skip(path, "the file is neither a wheel nor a variant document")

    def _add_file(self, path: Path) -> bool:
        """Add a file of the kind that its name shows; return False for any other name."""
        kinds = (".whl", VARIANTS_SUFFIX, _DOCUMENT, _PAGE)
        if path.name.endswith(kinds) and path.exists() and not path.is_file():
            self._skip(path, "it is not an ordinary file")  # a pipe may never end
        elif path.suffix == ".whl":
            self.wheels[path] = None
        elif path.name.endswith(VARIANTS_SUFFIX):
            self.index_files[path] = None
        elif path.name == _DOCUMENT:
            self.documents[path] = None
        elif path.name == _PAGE:
            self.pages[path] = None
        else:
            if is_newer_format(path.name):
                self._skip(path, NEWER_FORMAT, "check it with a newer wheelfit")
            return False
        return True

    def _add_folder(self, folder: Path) -> None:
        count = 0
        problems: list[OSError] = []
        for root, folders, names in os.walk(folder, onerror=problems.append):
            # Hidden folders have environments and caches of tools.
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                path = Path(root, name)
                if self._add_file(path):
                    count += 1
                elif (release := sdist_release(name)) is not None:
                    self.sources[path] = release
        for error in problems:
            self._skip(Path(error.filename), f"the folder cannot be read: {os_reason(error)}")
        if not count and not problems:
            self._skip(folder, "the folder has no files to check")

    def _skip(self, path: Path, reason: str, hint: str = _HINT) -> None:
        self.unchecked.append(UncheckedTarget(str(path), FileProblem.reference, reason, hint))


@dataclass(slots=True)
class _PathChecks:
    """The checks of some files, and their findings."""

    files: _FilesToCheck
    options: CheckOptions
    on_release: Callable[[ReleaseFacts], Iterable[Finding]]
    map_wheels: WheelMapper
    findings: list[Finding] = field(default_factory=list)
    groups: dict[Release, dict[Path, ReleaseFacts]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """The files of each release, by folder."""
    folder_of: dict[str, Path] = field(default_factory=dict)
    """The folder of the page that lists a file, by the real path of the file."""
    entries: dict[str, File] = field(default_factory=dict)
    """Entries of pages for local files, by real path."""
    known_paths: set[str] = field(init=False)
    """Real paths of the wheels and index files to check."""

    def __post_init__(self) -> None:
        files = (*self.files.wheels, *self.files.index_files)
        self.known_paths = {os.path.realpath(path) for path in files}

    def report(self, progress: Progress) -> Report:
        for path in self.files.pages:
            self._check_page(path)
        self._check_wheels(progress)
        for path in self.files.index_files:
            self._check_index_file(path)
        for path in self.files.documents:
            self._check_document(path)
        for path in self.files.projects:
            from wheelfit.checking.documents.document import check_project_file

            if (data := self._read(path, DEFAULT_LIMITS.size)) is not None:
                self.findings += check_project_file(data, Location(str(path)))
        for path, release in self.files.sources.items():
            self._group(release, path).has_source = True
        releases = self._check_releases()
        count = CheckedCounts(
            len(self.files.wheels),
            len(self.files.index_files),
            releases,
            metadata_files=len(self.files.documents) + len(self.files.projects),
        )
        return Report.of(self.findings, self.files.unchecked, count)

    def _group(self, release: Release, path: Path) -> ReleaseFacts:
        folder = self.folder_of.get(os.path.realpath(path), path.parent)
        group = self._group_in(release, folder)
        if path in self.files.explicit:
            group.is_whole = False
        return group

    def _group_in(self, release: Release, folder: Path) -> ReleaseFacts:
        return self.groups[release].setdefault(folder, ReleaseFacts(*release, str(folder)))

    def _check_page(self, path: Path) -> None:
        body = self._read(path, _MAX_PAGE_SIZE)
        if body is None or _SITE_MARK in body[:_HEAD_SIZE]:
            return
        if len(body) > _MAX_PAGE_SIZE:
            reason = f"the page has more than {_MAX_PAGE_SIZE} bytes"
            self.files.unchecked.append(UncheckedTarget(str(path), FileProblem.reference, reason))
            return
        try:
            files, notes = parse_links(body, "text/html", file_url(path), source=str(path))
        except InvalidPage as error:
            self.files.unchecked.append(UncheckedTarget.from_error(error, str(path)))
            return
        base = file_url(path.parent)

        def name_of(file: File) -> str:
            if file.url.startswith(f"{base}/"):
                return str(path.parent / file_path(file.url[len(base) + 1 :]))
            return redact(file.url)

        self.findings += check_listing(
            files, notes, str(path), self.options.profiles, name_of=name_of
        )
        for release, listed in listed_releases(files).items():
            group = self._group_in(release, path.parent)
            group.is_listed = True
            group.has_source |= listed.has_source
            for file, filename in listed.wheels:
                if not self._record_entry(file, path):
                    group.wheels.append(WheelFacts(name_of(file), filename))
            for file in listed.index_files:
                self._record_entry(file, path)

    def _record_entry(self, file: File, page: Path) -> bool:
        """Record the entry of a listed file; return whether the file is local and exists."""
        if not file.is_local:
            return False
        try:
            path = Path(file_path(file.url))
        except ValueError:
            return False
        if not path.is_file():
            location = Location(str(page))
            message = f"{file.filename} does not exist"
            self.findings.append(location.finding(checks.MISSING_FILE, message))
            return False
        if path.name != file.filename:  # the kind of the file is uncertain, so it is not opened
            message = f"the entry {file.filename} leads to a file with another name, {path.name}"
            self.findings.append(Location(str(page)).finding(checks.STRANGE_ENTRY, message))
            return False
        real_path = os.path.realpath(path)
        self.folder_of[real_path] = page.parent
        self.entries[real_path] = file
        if real_path not in self.known_paths:  # a file outside of the given folders
            self.known_paths.add(real_path)
            (self.files.wheels if path.suffix == ".whl" else self.files.index_files)[path] = None
        return True

    def _check_wheels(self, progress: Progress) -> None:
        wheels = [
            WheelToCheck(path, _size(path), self.options, self.entries.get(os.path.realpath(path)))
            for path in self.files.wheels
        ]
        for wheel, checked in zip(
            wheels, self.map_wheels(check_one_wheel, wheels, progress), strict=True
        ):
            facts: WheelFacts | None
            if isinstance(checked, WheelfitError):
                self.files.unchecked.append(UncheckedTarget.from_error(checked, str(wheel.path)))
                filename = wheel_filename_of(wheel.path.name)
                facts = None if filename is None else WheelFacts(str(wheel.path), filename)
            else:
                findings, facts = checked
                self.findings += findings
                if facts is not None:
                    self.findings += self._metadata_findings(wheel.path, facts)
            if facts is not None:
                release = (facts.filename.name, facts.filename.version)
                self._group(release, wheel.path).wheels.append(facts)

    def _metadata_findings(self, path: Path, facts: WheelFacts) -> Iterator[Finding]:
        """Yield faults of the METADATA that a page lists beside a wheel (F-95)."""
        file = self.entries.get(os.path.realpath(path))
        if file is None or file.metadata_hashes is None:
            return
        location = Location(str(path), "METADATA")
        data = None
        with suppress(OSError):
            data = Path(f"{path}.metadata").read_bytes()
        if data is None:
            yield location.finding(checks.MISSING_FILE, f"{path.name}.metadata does not exist")
            return
        try:
            check_bytes(data, file.metadata_hashes, None, where=f"{path}.metadata")
        except IntegrityError as error:
            yield wrong_hash_finding(error, f"{path}.metadata")
        if facts.metadata and data != facts.metadata:
            yield location.finding(
                checks.METADATA_DIFFERS, "the file beside the wheel has other content"
            )

    def _check_index_file(self, path: Path) -> None:
        data = self._read(path, DEFAULT_LIMITS.size)
        if data is None:
            return
        if (file := self.entries.get(os.path.realpath(path))) is not None:
            self.findings += listing_differences(file, path, data)
        findings, facts = check_index_file(
            data, path.name, where=str(path), profiles=self.options.profiles
        )
        self.findings += findings
        release = parse_index_file_name(path.name)
        if release is None:
            message = "its name has no project and version"
            self.findings.append(Location(str(path)).finding(checks.MISSPELT_INDEX_FILE, message))
        else:
            self._group(release, path).index_files.append(facts)

    def _check_document(self, path: Path) -> None:
        data = self._read(path, DEFAULT_LIMITS.size)
        if data is None:
            return
        from wheelfit.checking.documents.document import check_variant_document

        folder_name = wheel_filename_of(path.parent.name)  # of an unpacked wheel
        label = None if folder_name is None else folder_name.label
        is_of_wheel = path.name == _DOCUMENT
        findings, document = check_variant_document(
            data,
            Location(str(path)),
            label=label,
            is_whole=not is_of_wheel,
            profiles=self.options.profiles,
        )
        self.findings += findings
        if document is None or label is not None or not is_of_wheel:
            return
        labels = [*document.variants, *document.unusable]
        if len(labels) != 1:
            message = f"it has {count_of(len(labels), 'label')}; the document of a wheel has one"
            self.findings.append(Location(str(path)).finding(checks.WRONG_LABEL, message))

    def _read(self, path: Path, limit: int) -> bytes | None:
        """Return at most one byte more than the limit of a file; None if it cannot be read."""
        try:
            with path.open("rb") as file:
                return file.read(limit + 1)
        except OSError as error:
            message = f"the file cannot be read: {os_reason(error)}"
            self.files.unchecked.append(UncheckedTarget(str(path), FileProblem.reference, message))
            return None

    def _check_releases(self) -> int:
        """Check the files of each release together, and return the number of releases."""
        for groups in self.groups.values():
            for group in _merged(groups):
                self.findings += check_release(group, profiles=self.options.profiles)
                self.findings += self.on_release(group)
        return len(self.groups)


def _merged(groups: dict[Path, ReleaseFacts]) -> list[ReleaseFacts]:
    """Return the files of a release, one group for each folder with an index.

    Files of folders without an index are added to the first group. Without any index there is one
    group, of all files.
    """
    separate = [group for group in groups.values() if group.has_index]
    separate = separate or [next(iter(groups.values()))]
    for group in groups.values():
        if group not in separate:
            separate[0].add(group)
    return separate


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
