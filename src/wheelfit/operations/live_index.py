"""A live index: its files, stages and tokens, here or over its server."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from wheelfit.errors import UsageError
from wheelfit.operations.plain_data import PlainReport, plain_fields, plain_report
from wheelfit.operations.requests import ValidatedRequest
from wheelfit.server.hosting.access import OPERATOR, AuthenticatedUser
from wheelfit.server.hosting.administration import (
    AUDIT_FILTERS,
    Administration,
    HostingRules,
    JsonBody,
    parse_lifetime,
)
from wheelfit.server.hosting.client import ServerAdministration
from wheelfit.server.hosting.results import ListedStage, ListedToken  # noqa: TC001 - msgspec reads them
from wheelfit.server.store.audit import Actor, AuditEntry
from wheelfit.server.store.database import timestamp
from wheelfit.server.store.opening import DATABASE, Store, clean, open_store
from wheelfit.server.store.project_rules import ExpiredRelease, expired_releases, rules_of
from wheelfit.server.store.records import Token
from wheelfit_runtime.errors import FileProblem, PolicyRefusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wheelfit.operations.context import Context


_UPLOAD_TIME = timedelta(hours=1)  # a file of many gigabytes may take that long to the storage
_Result = TypeVar("_Result")
TOKEN = "WHEELFIT_INDEX_TOKEN"  # noqa: S105 - the name of a variable
"""The environment variable with the token for a server."""


class LiveIndexRequest(ValidatedRequest):
    """A live index."""

    at: str = "."
    database: str | None = None
    storage: str | None = None

    @property
    def is_server(self) -> bool:
        """Whether the index is named by the URL of its server."""
        return self.at.startswith(("http://", "https://"))


def _perform(
    request: LiveIndexRequest,
    context: Context,
    result: type[_Result],
    method: str,
    *segments: str,
    **body: object,
) -> _Result:
    """Perform an action of the `Administration` of an index, in its store or by its server.

    :param result: the type of the result.
    :param segments: the segments of the path after ``/-/api/``.
    :raises FileProblem: there is no index in the folder.
    :raises UsageError: a server is named, and a store as well.
    """
    if request.is_server:
        if request.database or request.storage:
            raise UsageError("--database and --storage cannot be used with the URL of a server")
        server = ServerAdministration(request.at, context.environ.get(TOKEN, ""))
        return server.perform(result, method, *segments, **body)
    with closing(_open_existing_store(request)) as store:
        token = Token("", OPERATOR, frozenset({"admin"}), created="")
        user = AuthenticatedUser(token, store.records, local_actor(), is_local=True)
        administration = Administration(
            store, HostingRules(), lambda: datetime.now(UTC), user, JsonBody(body)
        )
        return msgspec.convert(administration.perform(method, segments), result)


def _open_existing_store(request: LiveIndexRequest) -> Store:
    """Open the store of an index.

    :raises FileProblem: there is no index in the folder.
    """
    folder = Path(request.at)
    if not request.database and not (folder / DATABASE).is_file():
        raise FileProblem(
            "the folder has no index",
            where=request.at,
            hint="--at names the folder of an index; `wheelfit index serve DIR` creates one",
        )
    store = open_store(folder, records=request.database, blobs=request.storage)
    return store.with_actor(local_actor())


def local_actor() -> Actor:
    """Return the user of this machine, for the audit log."""
    try:
        return Actor(note=getuser())
    except (KeyError, OSError, ImportError):  # no user has this number
        return Actor()


class FilesRequest(LiveIndexRequest):
    """Files of a live index: names of files, releases as ``NAME==VERSION``, or projects."""

    what: tuple[str, ...]


class YankRequest(FilesRequest):
    """The files to yank, and why."""

    reason: str = ""


class StatusRequest(LiveIndexRequest):
    """The status of a project (PEP 792), and its reason."""

    project: str
    status: Literal["active", "archived", "deprecated", "quarantined"]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StatusReport(PlainReport):
    """The status of a project."""

    project: str
    status: str
    reason: str


def set_status(request: StatusRequest, context: Context) -> StatusReport:
    """Set the status of a project: installers show it, and files in quarantine are withheld.

    :raises FileProblem: the index has no such project.
    """
    return _perform(
        request,
        context,
        StatusReport,
        "POST",
        "status",
        project=request.project,
        status=request.status,
        reason=request.reason,
    )


class DeleteRequest(FilesRequest):
    """The files to delete, and the consent to it."""

    yes: bool = False


@dataclass(frozen=True, slots=True)
class FilesReport(PlainReport):
    """The files of an index that were changed."""

    files: tuple[str, ...]


def yank(request: YankRequest, context: Context) -> FilesReport:
    """Yank files: installers take them only where a version is pinned exactly."""
    names = list(request.what)
    return _perform(
        request, context, FilesReport, "POST", "yank", names=names, reason=request.reason
    )


def unyank(request: FilesRequest, context: Context) -> FilesReport:
    """Restore files that were yanked."""
    return _perform(request, context, FilesReport, "POST", "unyank", names=list(request.what))


def delete(request: DeleteRequest, context: Context) -> FilesReport:
    """Delete files for ever: their names cannot be uploaded again.

    :raises PolicyRefusal: ``no-consent``; the request has no consent.
    """
    if not request.yes:
        raise PolicyRefusal(
            "deleting cannot be undone, and the file names cannot be used again",
            code="no-consent",
            hint="--yes deletes; `wheelfit index yank` keeps installers from it as well",
        )
    return _perform(request, context, FilesReport, "POST", "delete", names=list(request.what))


class CleanIndexRequest(LiveIndexRequest):
    """The index to clean, and the rules."""

    settings: str | None = None
    """The file with the settings of the server, which has rules for projects."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class CleaningReport:
    """The removals from the store of an index, done or planned."""

    files: int
    """Files without a record: deleted, or of uploads that did not finish."""
    size: int
    """Their bytes."""
    stages: int
    """Stages that had expired, or to which nothing was uploaded."""
    uploads: int
    """Uploads that were interrupted."""
    releases: tuple[ExpiredRelease, ...] = ()
    """Releases removed by the rules of their projects."""
    dry_run: bool = False
    """Whether the removal was only planned; then only releases are listed."""

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        releases = [
            plain_fields(
                release,
                "project version reason",
                files=[file.filename for file in release.files],
                size=sum(file.size for file in release.files),
            )
            for release in self.releases
        ]
        return plain_report(self, "dry_run files size stages uploads", releases=releases)


def clean_index(request: CleanIndexRequest, context: Context) -> CleaningReport:
    """Remove unused files, as a server does once a day, and expired releases.

    An upload in progress is left alone: none of its files is older than an hour.

    :raises UsageError: a server is named, which cleans its store itself; or a dry run without
        settings, which have the rules.
    """
    if request.dry_run and request.settings is None:
        raise UsageError("--dry-run lists the releases that the rules of --settings remove")
    if request.is_server:
        raise UsageError(
            "a server cleans its store once a day; to do it now, name the store",
            hint="--at DIR, or --database and --storage, on a machine that reaches them",
        )
    with closing(_open_existing_store(request)) as store:
        now = datetime.now(UTC)
        releases = tuple(_remove_expired(store, request, context, now))
        if request.dry_run:
            return CleaningReport(0, 0, 0, 0, releases, dry_run=True)
        cleaned = clean(store, now=now, grace=_UPLOAD_TIME)
    return CleaningReport(cleaned.blobs, cleaned.size, cleaned.stages, cleaned.drafts, releases)


def _remove_expired(
    store: Store, request: CleanIndexRequest, context: Context, now: datetime
) -> Iterator[ExpiredRelease]:
    """Yield the expired releases by the rules of the settings; delete them except in a dry run.

    :raises InvalidConfiguration: a setting cannot be used.
    """
    if request.settings is None:
        return
    from wheelfit.server.hosting.settings import read_settings

    rules = read_settings({}, context.environ, request.settings).rules.projects
    for project in store.records.projects() if rules else ():
        listing = store.records.listing(project)
        files = () if listing is None else listing.files
        for release in expired_releases(files, rules_of(rules, project), now=now):
            if not request.dry_run:
                names = [file.filename for file in release.files]
                store.records.delete(names, time=timestamp(now), reason=release.reason)
            yield release


class MoveIndexRequest(LiveIndexRequest):
    """A store, and the folder of its export."""

    folder: str


@dataclass(frozen=True, slots=True)
class MovedIndexReport(PlainReport):
    """The size of an index that was exported or imported."""

    files: int
    copied: int
    """Files that were new."""
    size: int
    """Bytes of all files."""
    records: int


def export_live_index(request: MoveIndexRequest, context: Context) -> MovedIndexReport:
    """Write an index to a folder: as a backup, or to move it to another store.

    :raises UsageError: a server is named.
    :raises FileProblem: there is no index.
    :raises IntegrityError: a file does not match its hash.
    """
    from wheelfit.server.store.moving import export_index

    refuse_server(request)
    with (
        closing(_open_existing_store(request)) as store,
        context.reporter.work("copying") as progress,
    ):
        moved = export_index(store.records.database, store.blobs, Path(request.folder), progress)
    return MovedIndexReport(*moved)


def refuse_server(request: LiveIndexRequest) -> None:
    """Raise if an index is named by its server, where its store is needed."""
    if request.is_server:
        raise UsageError(
            "an index is moved by its store, not over its server",
            hint="--at DIR, or --database and --storage, on a machine that reaches them",
        )


class AuditRequest(LiveIndexRequest):
    """The filters of audit log entries; None matches any."""

    project: str | None = None
    actor: str | None = None
    action: str | None = None
    refused: bool = False
    since: str | None = None
    until: str | None = None
    max_count: str | None = None


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Entries of the audit log of an index, the newest first."""

    entries: tuple[AuditEntry, ...]

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(self, entries=list(map(asdict, self.entries)))


def read_audit_log(request: AuditRequest, context: Context) -> AuditReport:
    """Return entries of the audit log.

    :raises UserError: a time, an action or a number is invalid.
    """
    filters = {name: getattr(request, name, None) or "" for name in AUDIT_FILTERS}
    filters["outcome"] = "refused" if request.refused else ""
    return _perform(request, context, AuditReport, "GET", "audit", **filters)


class OpenStageRequest(LiveIndexRequest):
    """The stage to open."""

    owner: str | None = None
    """The default is the owner of the token; with a store, ``admin``."""
    expires: str = "7d"


class StageRequest(LiveIndexRequest):
    """A stage, by its ID."""

    stage: str


@dataclass(frozen=True, slots=True)
class OpenedStage:
    """A stage that was opened."""

    id: str
    expires: str
    secret: str
    server: str | None = None
    """The URL of the server, without a slash at its end; None for an index named by its store."""

    @property
    def upload_url(self) -> str:
        """The URL for uploads, where there is a server."""
        return f"{self.server}/stage/{self.id}/legacy/"

    @property
    def index_url(self) -> str:
        """The URL for installers, with the secret, where there is a server."""
        scheme, _, rest = f"{self.server}/stage/{self.id}".partition("://")
        return f"{scheme}://__token__:{self.secret}@{rest}/simple/"

    def to_json(self) -> dict[str, object]:
        """Return the report as plain data."""
        return plain_report(self, "id expires secret")


@dataclass(frozen=True, slots=True)
class StagesReport(PlainReport):
    """The open stages of an index."""

    stages: tuple[ListedStage, ...]


@dataclass(frozen=True, slots=True)
class DroppedStage(PlainReport):
    """A stage that was dropped."""

    count: int
    """The number of its files."""


def open_stage(request: OpenStageRequest, context: Context) -> OpenedStage:
    """Open a stage.

    :raises UserError: the time after which it expires is invalid.
    """
    owner = {} if request.owner is None else {"owner": request.owner}
    lifetime = parse_lifetime(request.expires, "--expires")
    stage = _perform(request, context, OpenedStage, "POST", "stages", lifetime=lifetime, **owner)
    return replace(stage, server=request.at.rstrip("/") if request.is_server else None)


def list_stages(request: LiveIndexRequest, context: Context) -> StagesReport:
    """Return the open stages."""
    return _perform(request, context, StagesReport, "GET", "stages")


def publish_stage(request: StageRequest, context: Context) -> FilesReport:
    """Publish all files of a stage at once, or none after any error."""
    return _perform(request, context, FilesReport, "POST", "stages", request.stage, "publish")


def drop_stage(request: StageRequest, context: Context) -> DroppedStage:
    """Drop a stage and its files."""
    return _perform(request, context, DroppedStage, "DELETE", "stages", request.stage)


class CreateTokenRequest(LiveIndexRequest):
    """The token to create."""

    project: tuple[str, ...] = ()
    scope: Literal["read", "upload", "admin"] = "upload"
    owner: str = "admin"
    expires: str | None = None
    note: str = ""


class TokenRequest(LiveIndexRequest):
    """A token, by its ID."""

    token: str


@dataclass(frozen=True, slots=True)
class CreatedToken(PlainReport):
    """A token that was created."""

    id: str
    owner: str
    scopes: tuple[str, ...]
    created: str
    projects: tuple[str, ...] | None
    expires: str | None
    note: str
    secret: str


@dataclass(frozen=True, slots=True)
class TokensReport(PlainReport):
    """The tokens of an index, without their secrets."""

    tokens: tuple[ListedToken, ...]


@dataclass(frozen=True, slots=True)
class RevokedToken(PlainReport):
    """A token that was revoked, by its ID."""

    revoked: str


def create_token(request: CreateTokenRequest, context: Context) -> CreatedToken:
    """Create a token; its secret cannot be read afterwards.

    :raises UserError: the time until it expires is invalid.
    """
    expires = request.expires
    return _perform(
        request,
        context,
        CreatedToken,
        "POST",
        "tokens",
        owner=request.owner,
        scopes=["upload", "admin"] if request.scope == "admin" else [request.scope],
        projects=list(request.project) or None,
        lifetime=None if expires is None else parse_lifetime(expires, "--expires"),
        note=request.note,
    )


def list_tokens(request: LiveIndexRequest, context: Context) -> TokensReport:
    """Return the tokens."""
    return _perform(request, context, TokensReport, "GET", "tokens")


def revoke_token(request: TokenRequest, context: Context) -> RevokedToken:
    """Revoke a token.

    :raises FileProblem: there is no token with that ID.
    """
    result = _perform(request, context, dict[str, bool], "DELETE", "tokens", request.token)
    if not result.get("revoked"):
        raise FileProblem("the token does not exist", where=request.token)
    return RevokedToken(request.token)
