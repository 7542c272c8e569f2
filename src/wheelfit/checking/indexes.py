"""Check everything that an index has: projects, what their pins need, who takes their variants."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet

from wheelfit.checking import checks
from wheelfit.checking.findings import Count, Place, Report, Unchecked
from wheelfit.checking.listings import sort_files
from wheelfit.checking.local import check_paths
from wheelfit.checking.pins import pin_findings, pins_of
from wheelfit.checking.reach import reach_findings
from wheelfit.checking.remote import check_project
from wheelfit.core.index_metadata import combine, contradictions
from wheelfit.sources.progress import NO_PROGRESS
from wheelfit_runtime.errors import WheelfitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.checking.findings import Finding
    from wheelfit.checking.profile import Profile
    from wheelfit.checking.reach import Machines
    from wheelfit.checking.releases import ReleaseFacts
    from wheelfit.core.document import VariantDocument
    from wheelfit.sources.page import ProjectPage
    from wheelfit.sources.progress import Progress
    from wheelfit.sources.repository import Repository


_AT_ONCE = 4
"""Projects at the same time; each asks for several files at once."""
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Demands:
    """Say what is asked of an index."""

    machines: Machines
    """Yields the machines that differ in what a document asks for."""
    upstream: Repository | None = None
    """Where else its packages may come from."""
    profiles: frozenset[Profile] = frozenset()
    full: bool = False


@dataclass(slots=True)
class _Seen:
    """Take note of releases as they are checked; from several threads."""

    machines: Machines
    releases: list[ReleaseFacts] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, release: ReleaseFacts) -> Iterator[Finding]:
        """Take note of a release, and yield what keeps its variants from everybody."""
        with self._lock:
            self.releases.append(release)
        document = _document_of(release)
        if document is not None:
            yield from reach_findings(release, document, self.machines)


def _document_of(release: ReleaseFacts) -> VariantDocument | None:
    """Return what the variants of a release need; None if that cannot be told."""
    given = [(one.where, one.document) for one in release.index_files if one.document is not None]
    if not given:
        given = [(one.where, one.document) for one in release.variants if one.document is not None]
    if not given or contradictions(given):
        return None
    return combine(given)


def check_index(
    repository: Repository,
    projects: Sequence[NormalizedName],
    demands: Demands,
    *,
    now: datetime,
    progress: Progress = NO_PROGRESS,
) -> Report:
    """Check every release of every project of an index.

    :param now: the time, with a time zone.
    """
    seen = _Seen(demands.machines)
    report = Report()

    def check(name: NormalizedName) -> Report:
        if _is_lost(repository, name):
            message = f"{name} is in the list of projects, and has no page"
            found = Place(repository.name).found(checks.STRANGE_ANSWER, message)
            return Report.of([found], (), Count())
        done = check_project(
            repository,
            name,
            SpecifierSet(),
            now=now,
            full=demands.full,
            profiles=demands.profiles,
            everything=True,
            seen=seen,
        )
        return done + Report.of(_unhashed(repository, name), (), Count())

    progress.start(len(projects))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for one in pool.map(check, projects):
            report += one
            progress.advance(1)
    progress.done()
    return report + _pins(seen.releases, _Versions(repository, demands.upstream), demands)


def check_index_folder(
    folder: Path, demands: Demands, *, progress: Progress = NO_PROGRESS
) -> Report:
    """Check a folder of wheels, or an index that lies on this machine.

    :param progress: told of bytes as files are done.
    """
    seen = _Seen(demands.machines)
    report = check_paths(
        [folder], full=demands.full, profiles=demands.profiles, progress=progress, seen=seen
    )
    here: dict[NormalizedName, set[Version]] = {}
    for release in seen.releases:
        here.setdefault(release.name, set()).add(release.version)
    return report + _pins(seen.releases, _Versions(None, demands.upstream, here), demands)


def _is_lost(repository: Repository, name: NormalizedName) -> bool:
    try:
        return repository.project(name) is None
    except WheelfitError:
        return False  # that is another matter, which will be told


def _unhashed(repository: Repository, name: NormalizedName) -> Iterator[Finding]:
    """Yield which files of a project are listed without a hash."""
    try:
        page = repository.project(name)
    except WheelfitError:
        return  # that was said
    files = () if page is None else page.files
    without = sorted(file.filename for file in files if not file.hashes)
    if page is not None and without:
        named = ", ".join(without[:_NAMED])
        more = f" and {len(without) - _NAMED} more" if len(without) > _NAMED else ""
        yield Place(page.source).found(
            checks.UNHASHED_FILES,
            f"{len(without)} of {len(files)} files of {name} have no hash: {named}{more}",
        )


def _pins(releases: Iterable[ReleaseFacts], versions: _Versions, demands: Demands) -> Report:
    pins = pins_of(releases)
    names = sorted({pin.name for pin in pins})
    with ThreadPoolExecutor(_AT_ONCE * 2) as pool:
        for _ in pool.map(versions.look_up, names):
            pass
    sure = {pin: wheels for pin, wheels in pins.items() if pin.name not in versions.unsure}
    findings = pin_findings(sure, versions.known, elsewhere=demands.upstream is not None)
    unchecked = [Unchecked.because(error, name) for name, error in versions.unsure.items()]
    return Report.of(findings, unchecked, Count())


class _Versions:
    """Know which versions of projects can be had."""

    def __init__(
        self,
        index: Repository | None,
        upstream: Repository | None,
        here: dict[NormalizedName, set[Version]] | None = None,
    ) -> None:
        self._sources = [one for one in (index, upstream) if one is not None]
        self._known: dict[NormalizedName, frozenset[Version] | None] = {}
        self._here = here or {}
        self.unsure: dict[NormalizedName, WheelfitError] = {}
        """Projects of which a source could not be asked."""

    def look_up(self, name: NormalizedName) -> None:
        """Ask all sources about a project: a pin may be met by any of them."""
        found: set[Version] | None = self._here.get(name)
        for source in self._sources:
            try:
                page = source.project(name)
            except WheelfitError as error:
                self.unsure[name] = error
                continue
            if page is not None:
                found = (found or set()) | _versions(page)
        self._known[name] = None if found is None else frozenset(found)

    def known(self, name: NormalizedName) -> frozenset[Version] | None:
        """Return which versions of a project can be had; None: nobody knows it."""
        return self._known.get(name)


def _versions(page: ProjectPage) -> set[Version]:
    return {
        version
        for (owner, version), listed in sort_files(page.files).items()
        if owner == page.name and (listed.wheels or listed.has_source)
    }
