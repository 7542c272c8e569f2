"""Checks of a whole index."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from wheelfit.checking import checks
from wheelfit.checking.findings import CheckedCounts, Location, Report, UncheckedTarget
from wheelfit.checking.indexes.index import IndexCheckOptions, check_index_folder
from wheelfit.checking.tool_profiles import CheckOptions, with_profile_severities
from wheelfit.errors import UsageError
from wheelfit.operations.check import CheckReport, FindingOptions, check_ignored, named_profiles
from wheelfit.operations.environments import open_environment_of
from wheelfit.operations.indexes import open_indexes, read_settings
from wheelfit.operations.overview_hosts import overview_hosts
from wheelfit.operations.requests import EnvironmentOptions, SourceOptions
from wheelfit.operations.whole_index import existing_folder, is_remote, open_whole_index
from wheelfit.sources.urls import redact
from wheelfit_runtime.errors import ProjectNotFound, UserError

if TYPE_CHECKING:
    from wheelfit.checking.indexes.reachability import FindMachines
    from wheelfit.operations.context import Context
    from wheelfit.resolution.overview import OverviewHost


class CheckIndexRequest(FindingOptions, SourceOptions, EnvironmentOptions):
    """The index to check, and further sources that its wheels may depend on."""

    index: str
    only: tuple[str, ...] = ()
    full: bool = False


def check_index(request: CheckIndexRequest, context: Context) -> CheckReport:
    """Check every release of every project of an index.

    :raises FileProblem: there is no such folder.
    :raises ProjectNotFound: the index has no project of a name.
    """
    check_ignored(request.ignore)
    with ExitStack() as stack:
        upstream = None
        if request.index_url or request.extra_index_url or request.find_links:
            settings = read_settings(request, context.environ)
            upstream = stack.enter_context(open_indexes(request, settings, context))
        profiles = named_profiles(request.profile)
        options = CheckOptions(full=request.full, profiles=profiles)
        index_options = IndexCheckOptions(_machines(request, context), upstream, options)
        check = _check_remote if is_remote(request.index) else _check_local
        report = with_profile_severities(check(request, index_options, context), profiles).without(
            request.ignore
        )
    return CheckReport(report, (request.index,), request.profile, request.full)


def _machines(request: CheckIndexRequest, context: Context) -> FindMachines:
    """Return a function that yields the machines for which a document is judged."""
    current = open_environment_of(request, context.environ, may_be_own=True).target
    hosts: dict[str, OverviewHost] = {}
    return lambda document: overview_hosts(
        document, current, context.environ, context.reporter, cache=hosts
    )


def _check_local(
    request: CheckIndexRequest, options: IndexCheckOptions, context: Context
) -> Report:
    folder = existing_folder(request.index)
    if request.only:
        raise UsageError("--project is for an index that has a URL", hint="name its folder instead")
    with context.reporter.work("checking") as progress:
        return check_index_folder(folder, options, progress=progress)


def _check_remote(
    request: CheckIndexRequest, options: IndexCheckOptions, context: Context
) -> Report:
    from wheelfit.checking.indexes.index import check_index

    url = request.index
    notes: list[str] = []
    with open_whole_index(url, request, context, note=notes.append, refresh=True) as repository:
        names = tuple(map(canonicalize_name, request.only)) or tuple(repository.projects())
        # Answers for missing projects differ most, and installers depend on them.
        repository.project(canonicalize_name("wheelfit-asks-for-a-missing-project"))
        for name in names if request.only else ():
            if repository.project(name) is None:
                raise ProjectNotFound(f"the index has no project {name}", where=redact(url))
        with context.reporter.work("checking") as progress:
            report = check_index(
                repository, names, options, now=datetime.now(UTC), progress=progress
            )
    location = Location(redact(url))
    if report.counts == CheckedCounts() and not report.unchecked:
        # A URL of the page above the index, or of an empty one, must not pass the check.
        error = UserError(
            "the index has no projects to check",
            hint="give the URL that installers use; it often ends with /simple/",
        )
        report += Report.of((), [UncheckedTarget.from_error(error, location.where)])
    findings = [location.finding(checks.STRANGE_ANSWER, note) for note in dict.fromkeys(notes)]
    return report + Report.of(findings)
