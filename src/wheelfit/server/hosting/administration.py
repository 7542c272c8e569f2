"""The administration of an index, in its store and over HTTP: actions, rules, permissions."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from packaging.utils import InvalidName, NormalizedName, canonicalize_name
from packaging.version import Version

from wheelfit.core.durations import parse_duration
from wheelfit.core.filename import project_of
from wheelfit.core.project_patterns import check_patterns, normalised
from wheelfit.core.versions import version_of
from wheelfit.server.hosting.access import OPERATOR, AttemptedChange, PermissionDenied, is_operator
from wheelfit.server.hosting.readers import Reader
from wheelfit.server.store.audit import ACTIONS, AuditFilter
from wheelfit.server.store.database import timestamp
from wheelfit.server.store.tokens import issue_token, open_stage
from wheelfit.server.uploads.form import FormLimits
from wheelfit.sources.page import STATUSES, Status
from wheelfit_runtime.errors import FileProblem, InvalidConfiguration
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from wheelfit.server.hosting.access import AuthenticatedUser
    from wheelfit.server.hosting.results import StagedFile
    from wheelfit.server.messages import Request
    from wheelfit.server.store.opening import Store
    from wheelfit.server.store.project_rules import ProjectRules
    from wheelfit.server.store.records import StoredFile, Token

    Result = Mapping[str, object]


AUDIT_FILTERS = ("project", "actor", "action", "outcome", "since", "until", "max_count")
"""The filters for entries of the audit log."""
_MAX_LIFETIME = 300 * 365 * 86400.0
_SCOPES = ("read", "upload", "admin")
_MAX_JSON_SIZE = 1 << 20
_UNSTORABLE = pattern(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Characters of JSON that databases cannot store (NUL, lone surrogates), and other control
characters.
"""
_MAX_TEXT_LENGTH = 1000


@dataclass(frozen=True, slots=True)
class JsonBody:
    """The JSON object of a request; methods raise ``InvalidConfiguration`` for wrong values."""

    values: Mapping[str, Any]

    def allow_only(self, *names: str) -> None:
        """Raise if it has other fields: a mistyped limit must not be ignored."""
        if others := sorted(self.values.keys() - set(names)):
            raise InvalidConfiguration(
                f"{others[0][:80]!r} is not a field of this request ({', '.join(names)})"
            )

    def text(self, name: str, default: str = "") -> str:
        """Return a text; the default if the field is missing."""
        value = self.values.get(name, default)
        if not isinstance(value, str) or len(value) > _MAX_TEXT_LENGTH or _UNSTORABLE.search(value):
            raise InvalidConfiguration(
                f"{name} must be a text of at most {_MAX_TEXT_LENGTH} characters"
            )
        return value

    def texts(self, name: str) -> list[str]:
        """Return a list of texts; empty if the field is missing."""
        value = self.values.get(name, [])
        if not isinstance(value, list) or not all(
            isinstance(text, str) and not _UNSTORABLE.search(text) for text in value
        ):
            raise InvalidConfiguration(f"{name} must be a list of texts")
        return value

    def seconds(self, name: str) -> float:
        """Return a duration in seconds; 0 if the field is missing."""
        value = self.values.get(name)
        return 0.0 if value is None else parse_lifetime(value, name)


def read_body(request: Request, limit: int) -> bytes:
    """Read the body of a request.

    :raises InvalidConfiguration: it has more bytes than the limit.
    """
    parts, size = [], 0
    while piece := request.body.read(1 << 16):
        parts.append(piece)
        size += len(piece)
        if size > limit:
            raise InvalidConfiguration(f"the body has more than {limit} bytes")
    return b"".join(parts)


def read_json_body(request: Request) -> JsonBody:
    """Read the JSON object in the body of a request.

    :raises InvalidConfiguration: it is not a JSON object, or too long.
    """
    try:
        values = json.loads(read_body(request, _MAX_JSON_SIZE) or b"{}")
    except (ValueError, RecursionError):
        raise InvalidConfiguration("the body is not JSON") from None
    if not isinstance(values, dict):
        raise InvalidConfiguration("the body is not a JSON object")
    return JsonBody(values)


@dataclass(frozen=True, slots=True)
class HostingRules:
    """The rules of the operator."""

    deletes: Literal["never", "admin"] | timedelta = "admin"
    """The tokens that may delete: none; those with the scope ``admin``; or, for this time after an
    upload, also those with the scope ``upload``.
    """
    file_size: int = FormLimits().file
    """Bytes of the largest file."""
    stage_lifetime: float = 7 * 86400.0
    """Default seconds until a stage expires."""
    metrics: Literal["operator", "everybody"] = "operator"
    """Who may read ``/-/metrics``."""
    private: tuple[str, ...] = ()
    """Patterns of the projects that only tokens for them may read."""
    projects: tuple[ProjectRules, ...] = ()
    """Rules for some projects; the first that matches is used."""


@dataclass(frozen=True, slots=True)
class Administration:
    """The changes and queries of an index for one request; results have the types of JSON."""

    store: Store
    rules: HostingRules
    now: Callable[[], datetime]
    user: AuthenticatedUser
    body: JsonBody

    def attempted_change(self, method: str, segments: Sequence[str]) -> AttemptedChange | None:
        """Return the change that is requested, for the audit log; None: no change."""
        match method, *segments:
            case ["POST", ("yank" | "unyank" | "delete") as action]:
                names = self.body.texts("names")
                project = project_of_name(names[0]) if len(names) == 1 else ""
                return AttemptedChange(action, project, ", ".join(names))
            case ["POST", "status"]:
                project = self.body.text("project")
                return AttemptedChange("status", project_of_name(project), self.body.text("status"))
            case ["POST", "stages"]:
                return AttemptedChange("open-stage")
            case ["POST", "stages", stage, "publish"]:
                return AttemptedChange("publish", "", stage)
            case ["DELETE", "stages", stage]:
                return AttemptedChange("drop-stage", "", stage)
            case ["POST", "tokens"]:
                return AttemptedChange("create-token")
            case ["DELETE", "tokens", token]:
                return AttemptedChange("revoke-token", "", token)
        return None

    def perform(self, method: str, segments: Sequence[str]) -> Result | None:
        """Perform an action; return None if there is no such action.

        :param segments: the segments of the path after ``/-/api/``.
        :raises PermissionDenied: the token does not allow it.
        :raises UserError: it cannot be done.
        """
        user, body, records = self.user, self.body, self.store.records
        match method, *segments:
            case ["POST", ("yank" | "unyank") as action]:
                return self._yank(body.text("reason") if action == "yank" else None)
            case ["POST", "delete"]:
                return self._delete()
            case ["POST", "status"]:
                return self._set_status()
            case ["GET", "stages"]:
                return self._list_stages()
            case ["POST", "stages"]:
                return self._open_stage()
            case ["POST", "stages", stage, "publish"]:
                user.require_whole_stage(stage, self._may_read, now=self.now())
                files = records.publish(stage, time=timestamp(self.now()))
                return {"files": [file.filename for file in files]}
            case ["DELETE", "stages", stage]:
                user.require_whole_stage(stage, self._may_read, now=self.now())
                return {"count": records.drop(stage)}
            case [_, "tokens" | "audit", *_]:
                user.require_operator()
        match method, *segments:  # each of these was checked by the last case above
            case ["GET", "audit"]:
                return self._read_audit_log()
            case ["GET", "tokens"]:
                return {"tokens": [_token_fields(token) for token in records.tokens()]}
            case ["POST", "tokens"]:
                return self._create_token()
            case ["DELETE", "tokens", token]:
                return {"revoked": records.revoke(token)}
        return None

    def _may_read(self, project: NormalizedName) -> bool:
        """Return whether a project is visible to the user."""
        return Reader(self.rules.private, self.user.token.projects).may_read(project)

    def _select_files(self) -> tuple[StoredFile, ...]:
        return select_files(self.store, self.body.texts("names"), self._may_read)

    def _yank(self, reason: str | None) -> Result:
        """Yank files, or undo that.

        :param reason: shown by installers, may be empty; None: undo the yank.
        """
        files = self._select_files()
        self._require_upload(files)
        filenames = [file.filename for file in files]
        self.store.records.yank(filenames, reason)
        return {"files": filenames}

    def _delete(self) -> Result:
        files = self._select_files()
        self._require_delete(files)
        filenames = [file.filename for file in files]
        self.store.records.delete(filenames, time=timestamp(self.now()))
        return {"files": filenames}

    def _set_status(self) -> Result:
        """Set the status of a project (PEP 792); only the operator sets or ends a quarantine."""
        records, body = self.store.records, self.body
        name, marker = canonicalize_name(body.text("project")), body.text("status")
        may_read = self._may_read(name)
        if may_read:  # a hidden project does not exist for this token
            if marker == "quarantined" or records.status(name).is_quarantined:
                self.user.require_operator()
            elif not is_operator(self.user.token):
                self.user.require("upload", name)
        if marker not in STATUSES:
            raise InvalidConfiguration(f"a status is one of {', '.join(STATUSES)}")
        # A project without files, all of which were deleted, has a status too.
        if not may_read or not records.serial(name):
            raise FileProblem("the index has no such project", where=body.text("project")[:200])
        status = Status(marker, " ".join(body.text("reason").split()))
        records.set_status(name, status)
        return {"project": name, "status": status.marker, "reason": status.reason}

    def _list_stages(self) -> Result:
        user, records = self.user, self.store.records
        user.require_scope("upload")
        return {
            "stages": [
                {**asdict(stage), "files": self._staged_files(stage.id)}
                for stage in records.stages()
                if stage.expires > timestamp(self.now())
                if is_operator(user.token) or stage.owner == user.token.owner
                if all(map(self._may_read, records.staged_projects(stage.id)))
            ]
        }

    def _staged_files(self, stage: str) -> list[StagedFile]:
        records = self.store.records
        return [
            {"filename": file.filename, "sha256": file.sha256}
            for project in sorted(records.staged_projects(stage))
            if (listing := records.listing(project, stage)) is not None
            for file in listing.files
            if file.stage == stage
        ]

    def _open_stage(self) -> Result:
        self.user.require_scope("upload")
        self.body.allow_only("owner", "lifetime")
        owner = self.body.text("owner", self.user.token.owner)
        if owner != self.user.token.owner:
            self.user.require_operator()
        lifetime = timedelta(seconds=self.body.seconds("lifetime") or self.rules.stage_lifetime)
        stage, secret = open_stage(self.store.records, owner, now=self.now(), lifetime=lifetime)
        return {"id": stage.id, "expires": stage.expires, "secret": secret}

    def _create_token(self) -> Result:
        self.body.allow_only("owner", "scopes", "projects", "lifetime", "note")
        scopes = self.body.texts("scopes")
        if not scopes or not set(scopes) <= set(_SCOPES):
            raise InvalidConfiguration(f"scopes must be some of {', '.join(_SCOPES)}")
        has_projects = self.body.values.get("projects") is not None
        seconds = self.body.seconds("lifetime")
        token, secret = issue_token(
            self.store.records,
            self.body.text("owner", OPERATOR),
            scopes,  # type: ignore[arg-type]  # compared above
            now=self.now(),
            projects=map(_normalised_project, self.body.texts("projects"))
            if has_projects
            else None,
            lifetime=timedelta(seconds=seconds) if seconds else None,
            note=self.body.text("note"),
        )
        return {**_token_fields(token), "secret": secret}

    def _read_audit_log(self) -> Result:
        """Return entries of the audit log, the newest first, by the filters in `AUDIT_FILTERS`."""
        self.body.allow_only(*AUDIT_FILTERS)
        filters = {name: self.body.text(name) for name in AUDIT_FILTERS}
        action, outcome = filters["action"], filters["outcome"]
        max_count = filters["max_count"] or "100"
        if action and action not in ACTIONS:
            raise InvalidConfiguration(f"actions are {', '.join(ACTIONS)}", where=action[:80])
        if outcome not in ("", "done", "refused"):
            raise InvalidConfiguration("an outcome is done or refused", where=outcome[:80])
        if not (max_count.isascii() and max_count.isdigit() and len(max_count) <= 4):
            raise InvalidConfiguration(
                "the number of entries must be a whole number up to 9999", where=max_count[:80]
            )
        since, until = (
            timestamp(parse_moment(filters[name], self.now())) if filters[name] else ""
            for name in ("since", "until")
        )
        entries = self.store.records.audit.entries(
            AuditFilter(
                project=canonicalize_name(filters["project"]),
                actor=filters["actor"],
                action=action,
                outcome=outcome,
                since=since,
                until=until,
                max_count=int(max_count),
            )
        )
        return {"entries": [asdict(entry) for entry in entries]}

    def _require_delete(self, files: Sequence[StoredFile]) -> None:
        rule = self.rules.deletes
        if rule == "never":
            raise PermissionDenied(403, "files are never deleted from this index; yank them")
        self._require_upload(files)
        if "admin" in self.user.token.scopes:
            return
        if rule == "admin":
            raise PermissionDenied(
                403, "deleting needs a token with the scope admin; yank the file instead"
            )
        since = timestamp(self.now() - rule)
        if late := [file.filename for file in files if file.uploaded < since]:
            raise PermissionDenied(
                403,
                f"{late[0]} was uploaded too long ago to be deleted without the scope admin; yank "
                "it instead",
            )

    def _require_upload(self, files: Sequence[StoredFile]) -> None:
        for project in {file.project for file in files}:
            self.user.require("upload", project)


def _normalised_project(name: str) -> str:
    """Return the normalised name of a project, or the pattern of several."""
    if "*" in name or "?" in name:
        check_patterns([name])
        return normalised(name)
    try:
        return canonicalize_name(name, validate=True)
    except InvalidName:
        raise InvalidConfiguration("no project can have this name", where=name) from None


def select_files(
    store: Store, names: Iterable[str], may_read: Callable[[NormalizedName], bool]
) -> tuple[StoredFile, ...]:
    """Select published files by file names, ``NAME==VERSION``, or names of projects.

    :param may_read: returns whether a project is visible; others are treated as missing.
    :raises FileProblem: a name has no match.
    """
    selected: dict[str, StoredFile] = {}
    for text in names:
        name, is_release, version = text.partition("==")
        if not is_release and project_of(text) is not None:
            file = store.records.file(text)
            files = [] if file is None else [file]
        else:
            files = _published_files(
                store, canonicalize_name(name), version if is_release else None
            )
        if not files or not may_read(files[0].project):
            raise FileProblem(
                "the index has no such file, release or project",
                where=text[:200],
                hint="name a file, a release as NAME==VERSION, or a project",
            )
        selected |= {file.filename: file for file in files}
    return tuple(selected.values())


def _published_files(store: Store, name: NormalizedName, version: str | None) -> list[StoredFile]:
    listing = store.records.listing(name)
    if listing is None:
        return []
    if version is None:
        return list(listing.files)
    parsed = version_of(version)
    return [file for file in listing.files if Version(file.version) == parsed]


def project_of_name(name: str) -> str:
    """Return the project of the name of a file, of a release or of a project."""
    return project_of(name) or canonicalize_name(name.partition("==")[0])


def parse_moment(text: str, now: datetime) -> datetime:
    """Return a point in time.

    :param text: a date or time of RFC 3339, in UTC unless it names a zone; or how long ago, as
        ``7d``.
    :raises InvalidConfiguration: it is neither.
    """
    try:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return now - timedelta(seconds=parse_duration(text))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidConfiguration(
            "this is neither a date or time, as 2026-01-31T12:00:00Z, nor how long ago, as 7d",
            where=text[:80],
        ) from None


def parse_seconds(text: str) -> float:
    """Return the seconds of a span of time, for options, files and requests.

    :raises InvalidConfiguration: it is not a span of time.
    """
    try:
        return parse_duration(text)
    except ValueError as error:
        raise InvalidConfiguration(str(error)) from None


def parse_lifetime(value: Any, name: str) -> float:
    """Return the seconds for which a token or a stage is valid, for options and requests.

    :param name: the name of the value, for messages.
    :raises InvalidConfiguration: it is not a span of time, zero, or longer than 300 years.
    """
    seconds = parse_seconds(value) if isinstance(value, str) else value
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds < _MAX_LIFETIME:
        raise InvalidConfiguration(
            f"{name} must be a span of time of more than 0 seconds and less than 300 years"
        )
    return float(seconds)


def _token_fields(token: Token) -> dict[str, Any]:
    projects = None if token.projects is None else sorted(token.projects)
    return {**asdict(token), "scopes": sorted(token.scopes), "projects": projects}
