"""The publication of releases: checked as an index would, and published whole or not at all."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.building.publishing.completeness import (
    closed_findings,
    compare_with_index,
    completeness_findings,
)
from wheelfit.building.publishing.forecast import Forecast, forecast
from wheelfit.building.publishing.publication import (
    PublishResult,
    confirm,
    publish_as_one,
    publish_in_order,
)
from wheelfit.building.publishing.refusals import NOT_LISTED, REFUSALS, REFUSED
from wheelfit.building.publishing.release_files import ReleaseSet, collect_files, new_index_files
from wheelfit.building.publishing.sessions import SessionIndex, publish_in_sessions
from wheelfit.building.publishing.signing import attest
from wheelfit.building.publishing.tool_choices import ReleaseChoices, tool_choices
from wheelfit.building.publishing.trusted_publishing import trusted_login
from wheelfit.building.publishing.twine_sender import TwineSender
from wheelfit.building.wheel_results import untested_findings
from wheelfit.checking.findings import Finding, Location, Report, Severity, UncheckedTarget
from wheelfit.checking.tool_profiles import Profile
from wheelfit.core.variant_json_layouts.schema import KEY, parse_schema
from wheelfit.errors import UploadRefused
from wheelfit.operations.check import check_ignored, named_profiles
from wheelfit.operations.plain_data import plain_fields, plain_report
from wheelfit.operations.publish_destinations import (
    DestinationRequest,
    StaticIndex,
    UploadIndex,
    limits_of,
    open_destination,
    with_identity,
)
from wheelfit.operations.release_checks import (
    build_index_files,
    check_files,
    disable_jekyll,
    planned_releases,
    publish_static,
    read_declared_release,
)
from wheelfit.server.hosting.client import ServerAdministration
from wheelfit_runtime.errors import UserError, WheelfitError
from wheelfit_runtime.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.building.publishing.completeness import IndexComparison
    from wheelfit.core.filename import Release
    from wheelfit.operations.context import Context
    from wheelfit.sources.page import File

    Destination = UploadIndex | StaticIndex
    Listed = Mapping[NormalizedName, Sequence[File]]


class PublishRequest(DestinationRequest):
    """The release to publish, and its destination."""

    paths: tuple[str, ...] = ()
    """Empty: the folder ``dist`` of the project."""
    dry_run: bool = False
    attest: bool = False
    sigstore: str | None = None
    """The trust configuration of a sigstore instance; None: the public one."""
    publish_timeout: float = 15.0
    project: str = "."


@dataclass(frozen=True, slots=True)
class PublishReport:
    """The outcome of a publication, which does not happen if the release has faults."""

    to: str
    """The name of the destination."""
    method: str
    """``stage``, ``session``, ``static`` or ``one-by-one``."""
    dry_run: bool
    is_public: bool
    """Whether the destination is the public registry."""
    outgoing: ReleaseSet
    comparison: IndexComparison
    forecasts: tuple[Forecast, ...]
    checks: Report
    result: PublishResult | None = None
    """The outcome of the upload; None: nothing was sent."""
    choices: tuple[ReleaseChoices, ...] = ()
    """In a dry run: the choices of installers in each release."""

    def state(self, filename: str) -> str:
        """Return the state of a file in words."""
        result = self.result
        if result is None:
            published = {file.filename for file in self.comparison.existing}
            return "existing" if filename in published else "new"
        if filename in result.unlisted:
            return "not-listed"
        if filename not in result.sent:
            return "existing"
        return "published" if result.is_confirmed else "sent"

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        result = self.result
        files = [
            plain_fields(
                file,
                "filename label size sha256",
                project=file.release[0],
                version=file.release[1],
                attestations=len(file.attestations),
                state=self.state(file.filename),
            )
            for file in self.outgoing.files
        ]
        return plain_report(
            self,
            "to method dry_run choices",
            published=result is not None and result.is_confirmed and not result.unlisted,
            resumed=result is not None and result.is_resumed,
            files=files,
            refused_index_files=result.refused_index_files if result else (),
            forecast=self.forecasts,
            findings=self.checks.findings,
            unchecked=self.checks.unchecked,
        )


def publish(request: PublishRequest, context: Context) -> PublishReport:
    """Check a release and publish it."""
    check_ignored(request.ignore, REFUSALS)
    with context.reporter.work("reading") as progress:
        paths = [Path(path) for path in request.paths] or [Path(request.project, "dist")]
        outgoing = collect_files(paths, progress)
    destination = open_destination(request, context)
    projects = sorted({name for name, _ in outgoing.releases})
    published = destination.published_files(projects, context)
    checks, comparison, forecasts = _check_release(
        request, context, outgoing, destination, published
    )
    index_files: Mapping[Release, bytes] = {}
    needs_index_files = isinstance(destination, UploadIndex) or request.dry_run
    if needs_index_files and not checks.has_faults(strict=False):
        index_files, contradictions = build_index_files(destination, outgoing, published, context)
        checks += Report.of(contradictions).without(request.ignore)
        _warn_of_drafts(index_files.values(), context)
    report = PublishReport(
        destination.name,
        _method_of(destination, one_by_one=request.one_by_one),
        request.dry_run,
        destination.is_public,
        outgoing,
        comparison,
        forecasts,
        checks,
        choices=_tool_choices(outgoing, published, index_files) if request.dry_run else (),
    )
    if checks.unchecked or checks.has_faults(strict=request.strict) or request.dry_run:
        return report
    if request.attest:
        outgoing = _sign(request, context, outgoing, comparison)
        report = replace(report, outgoing=outgoing)
    result: PublishResult | None
    if isinstance(destination, UploadIndex):
        destination = with_identity(request, destination, context)
        try:
            result = _send(request, context, destination, outgoing, published, index_files)
        except UploadRefused as error:
            return _with_refusals(report, error, destination, context)
        result, further_checks = _confirm_listing(request, context, destination, outgoing, result)
    else:
        result, further_checks = _write_static(context, destination, outgoing, published)
    return replace(report, checks=checks + further_checks, result=result)


def _warn_of_drafts(documents: Iterable[bytes], context: Context) -> None:
    """Warn of schemas before 1.0, which may change in each of their versions."""
    schemas = {str(json.loads(document).get(KEY)) for document in documents}
    drafts = sorted(
        text for text in schemas if (schema := parse_schema(text)) and schema.version[0] == 0
    )
    if drafts:
        context.reporter.warn(
            f"a draft of the schema is not for production ({listed(drafts)}): installers may stop "
            "reading it, and these wheels would have to be built again"
        )


def _tool_choices(
    outgoing: ReleaseSet, published: Listed, index_files: Mapping[Release, bytes]
) -> tuple[ReleaseChoices, ...]:
    """Return the choices of installers, as far as the wheels can be read."""
    try:
        return tuple(map(tool_choices, planned_releases(outgoing, published, index_files)))
    except UserError:  # each of them is among the findings
        return ()


def _method_of(destination: Destination, *, one_by_one: bool) -> str:
    if isinstance(destination, StaticIndex):
        return "static"
    if destination.session_url is not None and not one_by_one:
        return "session"
    return "stage" if destination.base is not None and not one_by_one else "one-by-one"


def _check_release(
    request: PublishRequest,
    context: Context,
    outgoing: ReleaseSet,
    destination: Destination,
    published: Listed,
) -> tuple[Report, IndexComparison, tuple[Forecast, ...]]:
    """Return the findings about a release, its comparison with the index, and forecasts."""
    profiles = named_profiles(request.profile)
    if destination.is_public:
        profiles |= {Profile.PYPI}
    with context.reporter.work("checking") as progress:
        report = check_files(outgoing, profiles, progress)
    comparison = compare_with_index(outgoing.files, _by_name(published))
    forecasts, findings = forecast(comparison.new, published, limits_of(request, destination))
    further_findings = [*comparison.findings, *findings]
    statements = read_declared_release(Path(request.project))
    further_findings += completeness_findings(outgoing, published, statements)
    further_findings += untested_findings(comparison.new)
    if Profile.PYPI in profiles:
        further_findings += closed_findings(comparison.new, published, datetime.now(UTC))
    report += Report.of(further_findings)
    return report.without(request.ignore), comparison, forecasts


def _sign(
    request: PublishRequest, context: Context, outgoing: ReleaseSet, comparison: IndexComparison
) -> ReleaseSet:
    """Sign the new files that have no attestation."""
    missing = [file for file in comparison.new if not file.attestations]
    if not missing:
        return outgoing
    instance = None if request.sigstore is None else Path(request.sigstore)
    with context.reporter.work("signing"):
        written = attest(missing, context.environ, instance)
    signed = {file.path: path for file, path in zip(missing, written, strict=True)}
    return replace(
        outgoing,
        files=tuple(
            replace(file, attestations=(signed[file.path],)) if file.path in signed else file
            for file in outgoing.files
        ),
    )


# --- sending -----------------------------------------------------------------------------


def _send(
    request: PublishRequest,
    context: Context,
    index: UploadIndex,
    outgoing: ReleaseSet,
    published: Listed,
    index_files: Mapping[Release, bytes],
) -> PublishResult:
    """Send the missing files to an index."""

    def sender(url: str) -> TwineSender:
        renew = partial(trusted_login, url, context.environ, index.tls)
        return TwineSender(
            url, index.login, index.tls, renew=renew if index.uses_trusted_publishing else None
        )

    def listed_files() -> dict[str, File]:
        return _by_name(index.published_files(list(published), context))

    method = _method_of(index, one_by_one=request.one_by_one)
    if index.base is not None and method == "stage":
        base = index.base
        if not compare_with_index(outgoing.files, _by_name(published)).new:  # needs no login
            return PublishResult(existing=tuple(file.filename for file in outgoing.files))
        token = index.login.password if index.login else ""
        stages = ServerAdministration(base, token, context=index.tls)
        with context.reporter.work("sending") as progress:
            return publish_as_one(
                outgoing.files,
                stages,
                lambda stage: sender(f"{base}/stage/{stage}/legacy/"),
                listed_files,
                progress,
            )
    # A live index of wheelfit writes them itself.
    new_files = {} if index.base else new_index_files(index_files, published)
    with context.reporter.work("sending") as progress:
        if index.session_url is not None and method == "session":
            result = publish_in_sessions(
                outgoing.files,
                new_files,
                SessionIndex(index.session_url, index.login, index.tls),
                listed_files,
                progress,
            )
        else:
            result = publish_in_order(
                outgoing.files, new_files, sender(index.upload_url), listed_files, progress
            )
    for message in result.refused_index_files:
        context.reporter.warn(f"{message}; without it installers may not find the variants")
    return result


def _with_refusals(
    report: PublishReport, error: UploadRefused, index: UploadIndex, context: Context
) -> PublishReport:
    """Return a report with the refusals of an index, and the files that were published earlier.

    A taken name is the same finding whether it is noticed before or during the upload.
    """
    paths = {file.filename: str(file.path) for file in report.outgoing.files}
    findings = []
    for detail in error.details:
        reference, where = str(detail["reference"]), str(detail["where"])
        check = REFUSALS.get(reference, REFUSED)
        # Servers without codes of wheelfit give the HTTP status alone.
        code = REFUSED.code if reference.isdecimal() else reference
        remedy = error.hint or check.remedy
        location = paths.get(where) or where or error.where or index.name
        message = str(detail["message"]) or error.message
        findings.append(Finding(Severity.ERROR, code, check.rule, location, message, remedy))
    if error.note:
        context.reporter.warn(error.note)
    checks = report.checks + Report.of(findings)
    try:
        projects = list({file.release[0] for file in report.outgoing.files})
        published = _by_name(index.published_files(projects, context))
    except WheelfitError:
        return replace(report, checks=checks)
    return replace(
        report, checks=checks, comparison=compare_with_index(report.outgoing.files, published)
    )


def _confirm_listing(
    request: PublishRequest,
    context: Context,
    index: UploadIndex,
    outgoing: ReleaseSet,
    result: PublishResult,
) -> tuple[PublishResult, Report]:
    """Read the index again, since a file is published once it is listed."""
    sent = [file for file in outgoing.files if file.filename in result.sent]
    if not sent:
        return result, Report()
    projects = sorted({file.release[0] for file in sent})
    confirmation = confirm(
        sent,
        lambda: _by_name(index.published_files(projects, context)),
        timeout=request.publish_timeout,
    )
    findings = [*confirmation.findings]
    for file in confirmation.missing:
        message = f"{index.check_url} does not list it"
        findings.append(Location(str(file.path)).finding(NOT_LISTED, message))
    unchecked = []
    if confirmation.error is not None:
        unchecked.append(UncheckedTarget.from_error(confirmation.error, index.check_url))
    result = replace(
        result,
        unlisted=tuple(file.filename for file in confirmation.missing),
        is_confirmed=confirmation.error is None,
    )
    return result, Report.of(findings, unchecked).without(request.ignore)


def _by_name(published: Listed) -> dict[str, File]:
    return {file.filename: file for files in published.values() for file in files}


def _write_static(
    context: Context, location: StaticIndex, outgoing: ReleaseSet, published: Listed
) -> tuple[PublishResult | None, Report]:
    """Write files and pages of a static index; nothing is written if a file is refused."""
    if location.is_checkout and location.folder is not None:
        disable_jekyll(location.folder)
    with context.reporter.work("writing") as progress:
        written, refused = publish_static(location, outgoing, published, progress)
    if refused:
        return None, Report.of(refused)
    names = {path.rpartition("/")[2] for path in written}
    sent = tuple(file.filename for file in outgoing.files if file.filename in names)
    existing = tuple(file.filename for file in outgoing.files if file.filename not in names)
    return PublishResult(sent, existing), Report()
