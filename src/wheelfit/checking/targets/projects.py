"""Checks of published projects and releases, without fetching whole wheels."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from wheelfit.checking import checks
from wheelfit.checking.findings import CheckedCounts, Finding, Location, Report, UncheckedTarget
from wheelfit.checking.pages import ListedRelease, check_listing, listed_releases
from wheelfit.checking.releases import (
    IndexFacts,
    ReleaseFacts,
    check_index_file,
    check_release,
    closed_finding,
    wrong_hash_finding,
)
from wheelfit.checking.tool_profiles import CheckOptions, Profile, is_closed
from wheelfit.checking.wheels.wheel import WheelFacts, check_parts, check_wheel
from wheelfit.core.filename import NEWER_FORMAT, WheelFilename, is_newer_format
from wheelfit.core.strict_json import DEFAULT_LIMITS
from wheelfit.sources.page import File, file_of_url
from wheelfit.sources.progress import NO_PROGRESS, Progress
from wheelfit.sources.repository import Files, Repository, TooCostly
from wheelfit.sources.urls import file_path, origin, redact
from wheelfit_runtime.errors import (
    FileProblem,
    IntegrityError,
    InvalidWheel,
    ProjectNotFound,
    UnexpectedStatus,
    Unreachable,
    UserError,
    WheelfitError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from packaging.specifiers import SpecifierSet
    from packaging.utils import NormalizedName
    from packaging.version import Version

_THREADS = 16
_MISSING_STATUSES = frozenset([401, 403, 404, 410, *range(500, 600)])
"""HTTP statuses that mean that a listed file cannot be fetched."""


def check_project(
    repository: Repository,
    name: NormalizedName,
    versions: SpecifierSet,
    *,
    now: datetime,
    options: CheckOptions = CheckOptions(),
    progress: Progress = NO_PROGRESS,
    with_plain_releases: bool = False,
    on_release: Callable[[ReleaseFacts], Iterable[Finding]] = lambda _: (),
) -> Report:
    """Check the published releases of a project.

    Of each variant wheel a few ranges of bytes are read. Releases without variants are checked only
    if ``versions`` limits the releases, or with ``with_plain_releases``.

    :param versions: the releases; empty: all that have variants.
    :param options: the depth; if full, every wheel is fetched.
    :param with_plain_releases: whether to check releases without variants, too.
    :param on_release: called with each checked release; returns further findings.
    """
    try:
        page = repository.project(name)
        if page is None:
            raise ProjectNotFound(f"{name} was not found in any index", where=repository.name)
    except WheelfitError as error:
        return Report.of((), [UncheckedTarget.from_error(error, name)])
    is_limited = bool(str(versions))
    releases = {
        version: listed
        for (owner, version), listed in listed_releases(page.files).items()
        if owner == name and versions.contains(version, prereleases=True)
    }
    files = page.files
    if is_limited:
        if not releases:
            reason = f"{name} has no release that {versions} admits"
            return Report.of((), [UncheckedTarget(page.source, "project-not-found", reason)])
        selected = {file for listed in releases.values() for file in listed.files}
        files = tuple(file for file in page.files if file in selected)
    elif not with_plain_releases:
        releases = {version: listed for version, listed in releases.items() if listed.has_variants}
    project_checks = _ProjectChecks(repository, page.source, options, on_release)
    if not (releases or with_plain_releases):
        reason = f"no release of {name} has variants, so none was checked"
        hint = f"name versions, as project:{name}>=0, to check their wheels"
        project_checks.unchecked.append(
            UncheckedTarget(page.source, "nothing-checked", reason, hint)
        )
    project_checks.findings += check_listing(
        files, page.notes, page.source, options.profiles, name_of=_name_of
    )
    return project_checks.report(name, releases, now, progress)


def check_url(repository: Files, url: str, options: CheckOptions = CheckOptions()) -> Report:
    """Check one wheel or index file by its URL.

    :param url: the URL; a login in it is ignored, since the repository has it.
    """
    try:
        file = file_of_url(url)
    except UserError as error:
        return Report.of((), [UncheckedTarget.from_error(error, redact(url))])
    url_checks = _ProjectChecks(repository, redact(file.url), options)
    listed = next(iter(listed_releases([file]).values()), ListedRelease())
    if file.filename.endswith(".whl") and not listed.wheels:
        findings = check_listing([file], (), redact(file.url))
        return Report.of(findings, (), CheckedCounts(wheels=1))
    if listed.wheels:
        outcome = url_checks.examine_wheel(listed.wheels[0])
    elif listed.index_files:
        outcome = url_checks.examine_index_file(file)
    else:
        where = redact(file.url)
        reason = "the file is neither a wheel nor a *-variants.json file"
        hint = f"if it is an index, use `wheelfit index check {where}`"
        if is_newer_format(file.filename):
            reason, hint = NEWER_FORMAT, ""
        return Report.of((), [UncheckedTarget(where, FileProblem.reference, reason, hint)])
    count = CheckedCounts(len(listed.wheels), len(listed.index_files), 1)
    return Report.of(outcome.findings, filter(None, [outcome.unchecked]), count)


def _name_of(file: File) -> str:
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
    unchecked: UncheckedTarget | None = None


@dataclass(slots=True)
class _ProjectChecks:
    """The checks of files of some releases in parallel, and their findings."""

    repository: Files
    source: str
    options: CheckOptions
    on_release: Callable[[ReleaseFacts], Iterable[Finding]] = lambda _: ()
    unreachable_servers: set[object] = field(default_factory=set)
    """Unreachable servers, which get no further requests."""
    without_ranges: set[object] = field(default_factory=set)
    """Servers without support for range requests."""
    findings: list[Finding] = field(default_factory=list)
    unchecked: list[UncheckedTarget] = field(default_factory=list)

    def report(
        self,
        name: NormalizedName,
        releases: dict[Version, ListedRelease],
        now: datetime,
        progress: Progress,
    ) -> Report:
        """Check the files of releases, and return all findings."""
        count = CheckedCounts(releases=len(releases))
        progress.start(sum(1 for listed in releases.values() for _ in listed.files))
        with ThreadPoolExecutor(_THREADS) as pool:
            for version, listed in releases.items():
                # Variants first: they show whether the server supports range requests.
                wheels = sorted(listed.wheels, key=lambda wheel: not wheel[1].is_variant)
                outcomes: list[_Outcome] = []
                for outcome in chain(
                    pool.map(self.examine_index_file, listed.index_files),
                    pool.map(self.examine_wheel, wheels),
                ):
                    outcomes.append(outcome)
                    progress.advance(1)
                    self.findings += outcome.findings
                    self.unchecked += filter(None, [outcome.unchecked])
                facts = ReleaseFacts(
                    name,
                    version,
                    self.source,
                    [result.wheel for result in outcomes if result.wheel is not None],
                    [result.index_file for result in outcomes if result.index_file is not None],
                    has_source=listed.has_source,
                    is_listed=True,
                )
                self.findings += check_release(facts, profiles=self.options.profiles)
                self.findings += self.on_release(facts)
                if Profile.PYPI in self.options.profiles and is_closed(listed.files, now):
                    self.findings.append(closed_finding(facts))
                count += CheckedCounts(
                    wheels=len(listed.wheels), index_files=len(listed.index_files)
                )
        progress.done()
        return Report.of(self.findings, self.unchecked, count)

    def examine_index_file(self, file: File) -> _Outcome:
        """Check an index file."""

        def check() -> _Outcome:
            try:
                data = self.repository.read(file, limit=DEFAULT_LIMITS.size)
            except UnexpectedStatus as error:
                if error.status != 200:
                    raise
                location = Location(_name_of(file))  # the file exceeds the limit
                return _Outcome([location.finding(checks.UNREADABLE_DOCUMENT, error.message)])
            findings, facts = check_index_file(
                data, file.filename, where=_name_of(file), profiles=self.options.profiles
            )
            return _Outcome(findings, index_file=facts)

        outcome = self._run_check(file, check)
        if outcome.index_file is None:  # the page lists it nevertheless
            outcome.index_file = IndexFacts(_name_of(file), file.filename)
        return outcome

    def examine_wheel(self, listed: tuple[File, WheelFilename]) -> _Outcome:
        """Check a wheel."""
        file, filename = listed
        check = self._check_whole_wheel if self.options.full else self._check_ranges
        outcome = self._run_check(file, lambda: check(file, filename))
        if outcome.wheel is None:
            outcome.wheel = WheelFacts(_name_of(file), filename)
        return outcome

    def _check_ranges(self, file: File, filename: WheelFilename) -> _Outcome:
        """Check a wheel by a few ranges of bytes."""
        if file.size == 0:  # a range request would fail
            raise InvalidWheel("the file is empty", where=_name_of(file))
        server = _server(file)
        document = None
        if filename.is_variant:
            if server in self.without_ranges:
                raise TooCostly("the server does not support range requests", where=_name_of(file))
            try:
                document = self.repository.variant_document(file)
            except TooCostly:
                self.without_ranges.add(server)
                raise
        metadata = None
        if file.metadata_hashes is not None or server not in self.without_ranges:
            metadata = self.repository.metadata(file)
        location = Location(_name_of(file))
        findings, facts = check_parts(filename, metadata, document, location, self.options.profiles)
        if filename.is_variant and document is None:
            findings.append(location.finding(checks.MISSING_DOCUMENT, "there is no variant.json"))
        return _Outcome(findings, wheel=facts)

    def _check_whole_wheel(self, file: File, filename: WheelFilename) -> _Outcome:
        """Fetch a wheel, and check all of it."""
        where = _name_of(file)
        with TemporaryDirectory(prefix="wheelfit-") as folder:
            path = self.repository.download(file, Path(folder))
            options = CheckOptions(full=True, profiles=self.options.profiles)
            findings, facts = check_wheel(path, filename.text, where=where, options=options)
            if file.metadata_hashes is not None and facts is not None and facts.metadata:
                separate = self.repository.metadata(file)
                if separate != facts.metadata:
                    message = "the file beside the wheel has other content"
                    location = Location(where, "METADATA")
                    findings.append(location.finding(checks.METADATA_DIFFERS, message))
        return _Outcome(findings, wheel=facts)

    def _run_check(self, file: File, check: Callable[[], _Outcome]) -> _Outcome:
        """Call a check, and convert its errors to a finding or an unchecked target."""
        where = _name_of(file)
        location = Location(where)
        server = _server(file)
        if server in self.unreachable_servers:
            return _Outcome(unchecked=_unreachable(file))
        try:
            return check()
        except InvalidWheel as error:
            return _Outcome([location.finding(checks.UNSOUND_ARCHIVE, error.message)])
        except IntegrityError as error:
            return _Outcome([wrong_hash_finding(error, where)])
        except TooCostly as error:
            reason = UncheckedTarget(where, error.reference, error.message, "--full fetches it")
            return _Outcome(unchecked=reason)
        except WheelfitError as error:
            if isinstance(error, UnexpectedStatus) and error.status in _MISSING_STATUSES:
                return _Outcome([location.finding(checks.MISSING_FILE, error.message)])
            if isinstance(error, Unreachable) and server is not None:
                self.unreachable_servers.add(server)
                return _Outcome(unchecked=_unreachable(file))
            return _Outcome(unchecked=UncheckedTarget.from_error(error, where))


def _server(file: File) -> object:
    return None if file.is_local else origin(file.url)


def _unreachable(file: File) -> UncheckedTarget:
    """Return the server of a file as unchecked; the equal values of its files are reported once."""
    server = origin(file.url)
    where = f"{server.scheme}://{server.host}:{server.port}"
    return UncheckedTarget(where, Unreachable.reference, "the server cannot be reached")
