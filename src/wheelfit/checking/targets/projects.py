"""Check projects and releases where they are published, without fetching whole wheels."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from wheelfit.checking import checks
from wheelfit.checking.findings import CheckedFile, Count, Report, Unchecked
from wheelfit.checking.pages import ListedRelease, check_listing, sort_files
from wheelfit.checking.releases import (
    IndexFacts,
    ReleaseFacts,
    check_index_file,
    check_release,
    closed_finding,
    wrong_hash,
)
from wheelfit.checking.tool_profiles import CheckOptions, Profile, is_closed
from wheelfit.checking.wheels.wheel import WheelFacts, check_parts, check_wheel
from wheelfit.core.filename import NEWER_FORMAT, is_newer_format
from wheelfit.core.strict_json import DEFAULT_LIMITS
from wheelfit.sources.page import File
from wheelfit.sources.progress import NO_PROGRESS
from wheelfit.sources.repository import TooCostly
from wheelfit.sources.urls import (
    file_path,
    last_segment,
    origin,
    redact,
    split_userinfo,
    without_fragment,
)
from wheelfit_runtime.errors import (
    FileProblem,
    IntegrityError,
    InvalidWheel,
    ProjectNotFound,
    UnexpectedStatus,
    Unreachable,
    WheelfitError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from packaging.specifiers import SpecifierSet
    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.checking.findings import Finding
    from wheelfit.core.filename import WheelFilename
    from wheelfit.sources.progress import Progress
    from wheelfit.sources.repository import Files, Repository

_THREADS = 16
_REFUSED = frozenset([401, 403, 404, 410, *range(500, 600)])


def check_project(
    repository: Repository,
    name: NormalizedName,
    versions: SpecifierSet,
    *,
    now: datetime,
    options: CheckOptions = CheckOptions(),
    progress: Progress = NO_PROGRESS,
    everything: bool = False,
    seen: Callable[[ReleaseFacts], Iterable[Finding]] = lambda _: (),
) -> Report:
    """Check the published releases of a project.

    Of each variant wheel a few ranges of bytes are read. Releases without variants are checked only
    if ``versions`` limits the releases, or with ``everything``.

    :param versions: the releases; empty: all that have variants.
    :param options: if full, every wheel is fetched.
    :param everything: check releases without variants, too.
    :param seen: called with each checked release, and yields further findings.
    """
    try:
        page = repository.project(name)
        if page is None:
            raise ProjectNotFound(f"{name} was not found in any index", where=repository.name)
    except WheelfitError as error:
        return Report.of((), [Unchecked.because(error, name)], Count())
    limited = bool(str(versions))
    releases = {
        version: listed
        for (owner, version), listed in sort_files(page.files).items()
        if owner == name and versions.contains(version, prereleases=True)
    }
    meant = page.files
    if limited:
        if not releases:
            reason = f"{name} has no release that {versions} admits"
            return Report.of((), [Unchecked(page.source, "project-not-found", reason)], Count())
        wanted = {file for listed in releases.values() for file in listed.files}
        meant = tuple(file for file in page.files if file in wanted)
    elif not everything:
        releases = {version: one for version, one in releases.items() if one.has_variants}
    work = _Work(repository, page.source, options, seen)
    if not (releases or everything):
        reason = f"no release of {name} has variants, so none was looked into"
        hint = f"name versions, as project:{name}>=0, to look into their wheels"
        work.unchecked.append(Unchecked(page.source, "nothing-checked", reason, hint))
    work.findings += check_listing(meant, page.notes, page.source, options.profiles, called=_called)
    return work.report(name, releases, now, progress)


def check_url(repository: Files, url: str, options: CheckOptions = CheckOptions()) -> Report:
    """Check one wheel or index file by its URL.

    :param url: the URL; a login in it is known to the repository.
    """
    bare = without_fragment(split_userinfo(url)[0])
    file = File(last_segment(bare), bare)
    work = _Work(repository, redact(bare), options)
    listed = next(iter(sort_files([file]).values()), ListedRelease())
    if file.filename.endswith(".whl") and not listed.wheels:
        findings = check_listing([file], (), redact(bare))
        return Report.of(findings, (), Count(wheels=1))
    outcomes = [*map(work.index_file, listed.index_files), *map(work.wheel, listed.wheels)]
    if outcomes:
        (outcome,) = outcomes
        count = Count(len(listed.wheels), len(listed.index_files), 1)
        return Report.of(outcome.findings, filter(None, [outcome.unchecked]), count)
    is_newer = is_newer_format(file.filename)
    reason = NEWER_FORMAT if is_newer else "the file is neither a wheel nor a *-variants.json file"
    return Report.of((), [Unchecked(redact(bare), FileProblem.reference, reason)], Count())


def _called(file: File) -> str:
    """Return the name of a file in findings."""
    if file.is_local:
        with suppress(ValueError):
            return file_path(file.url)
    return redact(file.url)


@dataclass(slots=True)
class _Outcome:
    """The result of checking one file."""

    findings: list[Finding] = field(default_factory=list)
    wheel: WheelFacts | None = None
    index_file: IndexFacts | None = None
    unchecked: Unchecked | None = None


@dataclass(slots=True)
class _Work:
    """The findings in files of some releases, several at a time."""

    repository: Files
    source: str
    options: CheckOptions
    seen: Callable[[ReleaseFacts], Iterable[Finding]] = lambda _: ()
    dead: set[object] = field(default_factory=set)
    """Unreachable servers; they are not requested again."""
    without_ranges: set[object] = field(default_factory=set)
    """Servers that give no parts of files."""
    findings: list[Finding] = field(default_factory=list)
    unchecked: list[Unchecked] = field(default_factory=list)

    def report(
        self,
        name: NormalizedName,
        releases: dict[Version, ListedRelease],
        now: datetime,
        progress: Progress,
    ) -> Report:
        count = Count(releases=len(releases))
        progress.start(sum(1 for listed in releases.values() for _ in listed.files))
        with ThreadPoolExecutor(_THREADS) as pool:
            for version, listed in releases.items():
                # Limits of a server show first where they cost nothing.
                wheels = sorted(listed.wheels, key=lambda one: not one[1].is_variant)
                done: list[_Outcome] = []
                for outcome in chain(
                    pool.map(self.index_file, listed.index_files), pool.map(self.wheel, wheels)
                ):
                    done.append(outcome)
                    progress.advance(1)
                    self.findings += outcome.findings
                    self.unchecked += filter(None, [outcome.unchecked])
                facts = ReleaseFacts(
                    name,
                    version,
                    self.source,
                    tuple(one.wheel for one in done if one.wheel is not None),
                    tuple(one.index_file for one in done if one.index_file is not None),
                    has_source=listed.has_source,
                    is_listed=True,
                )
                self.findings += check_release(facts, profiles=self.options.profiles)
                self.findings += self.seen(facts)
                if Profile.PYPI in self.options.profiles and is_closed(listed.files, now):
                    self.findings.append(closed_finding(facts))
                count += Count(wheels=len(listed.wheels), index_files=len(listed.index_files))
        progress.done()
        return Report.of(self.findings, self.unchecked, count)

    def index_file(self, file: File) -> _Outcome:
        """Check an index file."""

        def look() -> _Outcome:
            try:
                data = self.repository.read(file, limit=DEFAULT_LIMITS.size)
            except UnexpectedStatus as error:
                if error.status != 200:
                    raise
                place = CheckedFile(_called(file))  # too long, so it was not read to its end
                return _Outcome([place.found(checks.UNREADABLE_DOCUMENT, error.message)])
            findings, facts = check_index_file(
                data, file.filename, where=_called(file), profiles=self.options.profiles
            )
            return _Outcome(findings, index_file=facts)

        outcome = self._guarded(file, look)
        if outcome.index_file is None:  # it is listed anyway
            outcome.index_file = IndexFacts(_called(file), file.filename)
        return outcome

    def wheel(self, listed: tuple[File, WheelFilename]) -> _Outcome:
        """Check a wheel."""
        file, filename = listed
        look = self._whole if self.options.full else self._parts
        outcome = self._guarded(file, lambda: look(file, filename))
        if outcome.wheel is None:
            outcome.wheel = WheelFacts(_called(file), filename)
        return outcome

    def _parts(self, file: File, filename: WheelFilename) -> _Outcome:
        """Check a wheel by a few ranges of bytes."""
        if file.size == 0:  # no server gives a part of that
            raise InvalidWheel("the file is empty", where=_called(file))
        server = _server(file)
        document = None
        if filename.is_variant:
            if server in self.without_ranges:
                raise TooCostly("the server does not support range requests", where=_called(file))
            try:
                document = self.repository.variant_document(file)
            except TooCostly:
                self.without_ranges.add(server)
                raise
        metadata = None
        if file.metadata_hashes is not None or server not in self.without_ranges:
            metadata = self.repository.metadata(file)
        place = CheckedFile(_called(file))
        findings, facts = check_parts(filename, metadata, document, place, self.options.profiles)
        if filename.is_variant and document is None:
            findings.append(place.found(checks.MISSING_DOCUMENT, "there is no variant.json"))
        return _Outcome(findings, wheel=facts)

    def _whole(self, file: File, filename: WheelFilename) -> _Outcome:
        """Fetch a wheel, and check all of it."""
        where = _called(file)
        with TemporaryDirectory(prefix="wheelfit-") as folder:
            path = self.repository.download(file, Path(folder))
            options = CheckOptions(full=True, profiles=self.options.profiles)
            findings, facts = check_wheel(path, filename.text, where=where, options=options)
            if file.metadata_hashes is not None and facts is not None and facts.metadata:
                beside = self.repository.metadata(file)
                if beside != facts.metadata:
                    message = "the file beside the wheel has other bytes"
                    place = CheckedFile(where, "METADATA")
                    findings.append(place.found(checks.METADATA_DIFFERS, message))
        return _Outcome(findings, wheel=facts)

    def _guarded(self, file: File, look: Callable[[], _Outcome]) -> _Outcome:
        """Call a check, and turn its errors into a finding or a reason."""
        where = _called(file)
        place = CheckedFile(where)
        server = _server(file)
        if server in self.dead:
            return _Outcome(unchecked=_unreachable(file))
        try:
            return look()
        except InvalidWheel as error:
            return _Outcome([place.found(checks.UNSOUND_ARCHIVE, error.message)])
        except IntegrityError as error:
            return _Outcome([wrong_hash(error, where)])
        except TooCostly as error:
            reason = Unchecked(where, error.reference, error.message, "--full fetches it")
            return _Outcome(unchecked=reason)
        except WheelfitError as error:
            if isinstance(error, UnexpectedStatus) and error.status in _REFUSED:
                return _Outcome([place.found(checks.MISSING_FILE, error.message)])
            if isinstance(error, Unreachable) and server is not None:
                self.dead.add(server)
                return _Outcome(unchecked=_unreachable(file))
            return _Outcome(unchecked=Unchecked.because(error, where))


def _server(file: File) -> object:
    return None if file.is_local else origin(file.url)


def _unreachable(file: File) -> Unchecked:
    """Return the same value for all files of a server, so that it is reported once."""
    server = origin(file.url)
    where = f"{server.scheme}://{server.host}:{server.port}"
    return Unchecked(where, Unreachable.reference, "the server cannot be reached")
