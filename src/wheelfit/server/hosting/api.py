"""The administration API of a hosted index: requests, rules and permissions."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from packaging.utils import canonicalize_name

from wheelfit.server.hosting.access import OPERATOR, AttemptedChange, PermissionDenied, is_operator
from wheelfit.server.hosting.administration import (
    AUDIT_FILTERS,
    StoreAdministration,
    parse_lifetime,
    project_of_name,
)
from wheelfit.server.hosting.readers import Reader
from wheelfit.server.store.database import timestamp
from wheelfit.server.uploads.form import FormLimits
from wheelfit_runtime.errors import InvalidConfiguration
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime, timedelta

    from wheelfit.server.hosting.access import AuthenticatedUser
    from wheelfit.server.messages import Request
    from wheelfit.server.store.opening import Store
    from wheelfit.server.store.project_rules import ProjectRules
    from wheelfit.server.store.records import StoredFile

    Result = Mapping[str, object]


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
class HostingApi:
    """The actions of the administration API, for one request."""

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
        user, body = self.user, self.body
        reader = Reader(self.rules.private, user.token.projects)
        administration = StoreAdministration(self.store, self.now, may_read=reader.may_read)
        match method, *segments:
            case ["POST", ("yank" | "unyank") as action]:
                administration = replace(administration, check_files=self._require_upload)
                reason = body.text("reason") if action == "yank" else None
                return {"files": administration.yank(body.texts("names"), reason)}
            case ["POST", "delete"]:
                administration = replace(administration, check_files=self._require_delete)
                return {"files": administration.delete(body.texts("names"))}
            case ["POST", "status"]:
                return self._set_status(administration)
            case ["GET", "stages"]:
                user.require_scope("upload")
                stages = administration.stages()
                if not is_operator(user.token):
                    stages = [stage for stage in stages if stage["owner"] == user.token.owner]
                return {"stages": stages}
            case ["POST", "stages"]:
                user.require_scope("upload")
                body.allow_only("lifetime")
                lifetime = body.seconds("lifetime") or self.rules.stage_lifetime
                return administration.open_stage(user.token.owner, lifetime)
            case ["POST", "stages", stage, "publish"]:
                user.require_whole_stage(stage, reader.may_read, now=self.now())
                return {"files": administration.publish(stage)}
            case ["DELETE", "stages", stage]:
                user.require_whole_stage(stage, reader.may_read, now=self.now())
                return {"count": administration.drop(stage)}
            case [_, "tokens" | "audit", *_]:
                user.require_operator()
        match method, *segments:  # each of these was checked by the last case above
            case ["GET", "audit"]:
                body.allow_only(*AUDIT_FILTERS)
                filters = {name: body.text(name) for name in AUDIT_FILTERS}
                return {"entries": administration.audit(filters)}
            case ["GET", "tokens"]:
                return {"tokens": administration.tokens()}
            case ["POST", "tokens"]:
                return self._create_token(administration)
            case ["DELETE", "tokens", token]:
                return {"revoked": administration.revoke(token)}
        return None

    def _set_status(self, administration: StoreAdministration) -> Result:
        """Set the status of a project; only the operator may set or end a quarantine."""
        project, marker = canonicalize_name(self.body.text("project")), self.body.text("status")
        if administration.may_read(project):  # a hidden project does not exist for this token
            if marker == "quarantined" or self.store.records.status(project).is_quarantined:
                self.user.require_operator()
            elif not is_operator(self.user.token):
                self.user.require("upload", project)
        return administration.set_status(project, marker, self.body.text("reason"))

    def _create_token(self, administration: StoreAdministration) -> Result:
        self.body.allow_only("owner", "scopes", "projects", "lifetime", "note")
        scopes = self.body.texts("scopes")
        if not scopes or not set(scopes) <= set(_SCOPES):
            raise InvalidConfiguration(f"scopes must be some of {', '.join(_SCOPES)}")
        return administration.create_token(
            self.body.text("owner", OPERATOR),
            scopes,  # type: ignore[arg-type]  # compared above
            self.body.texts("projects") if self.body.values.get("projects") is not None else None,
            self.body.seconds("lifetime") or None,
            self.body.text("note"),
        )

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
