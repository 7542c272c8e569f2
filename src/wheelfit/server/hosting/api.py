"""The API of a hosted index, except uploads: requests, rules and permissions."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from packaging.utils import canonicalize_name

from wheelfit.server.hosting.access import OPERATOR, Attempt, Denied, is_operator
from wheelfit.server.hosting.administration import (
    AUDIT_FILTERS,
    StoreAdministration,
    named_project,
    parse_seconds,
)
from wheelfit.server.hosting.readers import Reader
from wheelfit.server.store.database import timestamp
from wheelfit.server.uploads.form import FormLimits
from wheelfit_runtime.errors import InvalidConfiguration
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime, timedelta

    from wheelfit.server.hosting.access import Visitor
    from wheelfit.server.messages import Request
    from wheelfit.server.store.opening import Store
    from wheelfit.server.store.project_rules import ProjectRules
    from wheelfit.server.store.records import StoredFile

    Result = Mapping[str, object]


_SCOPES = ("read", "upload", "admin")
_MOST_JSON = 1 << 20
_UNKEPT = pattern(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Characters that are valid in JSON and that no database stores: NUL, lone surrogates; and other
controls.
"""
_LONGEST_SPAN = 1e10
_LONGEST_TEXT = 1000


@dataclass(frozen=True, slots=True)
class JsonBody:
    """The JSON object of a request; methods raise ``InvalidConfiguration`` for wrong values."""

    values: Mapping[str, Any]

    def refuse_others(self, *names: str) -> None:
        """Raise if it has other fields than these: a mistyped limit would not count."""
        if others := sorted(self.values.keys() - set(names)):
            raise InvalidConfiguration(
                f"{others[0][:80]!r} is not a field of this request ({', '.join(names)})"
            )

    def text(self, name: str, default: str = "") -> str:
        """Return a text."""
        value = self.values.get(name, default)
        if not isinstance(value, str) or len(value) > _LONGEST_TEXT or _UNKEPT.search(value):
            raise InvalidConfiguration(f"{name} is a text of at most {_LONGEST_TEXT} characters")
        return value

    def texts(self, name: str) -> list[str]:
        """Return a list of texts; empty if it is missing."""
        value = self.values.get(name, [])
        if not isinstance(value, list) or not all(
            isinstance(text, str) and not _UNKEPT.search(text) for text in value
        ):
            raise InvalidConfiguration(f"{name} is a list of texts")
        return value

    def seconds(self, name: str, default: float) -> float:
        """Return a span of time."""
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, str):
            value = parse_seconds(value)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not 0 < value < _LONGEST_SPAN:
            raise InvalidConfiguration(f"{name} is a number of seconds")
        return float(value)


def read_body(request: Request) -> JsonBody:
    """Read the body of a request.

    :raises InvalidConfiguration: it is not a JSON object, or too long.
    """
    parts, size = [], 0
    while piece := request.body.read(1 << 16):
        parts.append(piece)
        size += len(piece)
        if size > _MOST_JSON:
            raise InvalidConfiguration(f"it has more than {_MOST_JSON} bytes")
    try:
        values = json.loads(b"".join(parts) or b"{}")
    except (ValueError, RecursionError):
        raise InvalidConfiguration("the body is not JSON") from None
    if not isinstance(values, dict):
        raise InvalidConfiguration("the body is not a JSON object")
    return JsonBody(values)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of the operator."""

    deletes: Literal["never", "admin"] | timedelta = "admin"
    """The tokens that may delete: none, those of the scope ``admin``, or also those that may
    upload, for this time after an upload.
    """
    file_size: int = FormLimits().file
    """Bytes of the largest file."""
    stage_lifetime: float = 7 * 86400.0
    """Default seconds that a stage may wait."""
    metrics: Literal["operator", "everybody"] = "operator"
    private: tuple[str, ...] = ()
    """Patterns of the projects that only tokens for them may read."""
    projects: tuple[ProjectRules, ...] = ()
    """Rules for some projects; the first that matches is used."""


@dataclass(frozen=True, slots=True)
class HostingApi:
    """The actions on an index, except uploads, for one request."""

    store: Store
    rules: Rules
    now: Callable[[], datetime]
    who: Visitor
    body: JsonBody

    def attempt(self, method: str, words: Sequence[str]) -> Attempt | None:
        """Return the requested change; None: there is none."""
        match method, *words:
            case ["POST", ("yank" | "unyank" | "delete") as act]:
                what = self.body.texts("what")
                project = named_project(what[0]) if len(what) == 1 else ""
                return Attempt(act, project, ", ".join(what))
            case ["POST", "status"]:
                project = self.body.text("project")
                return Attempt("status", named_project(project), self.body.text("status"))
            case ["POST", "stages"]:
                return Attempt("open-stage")
            case ["POST", "stages", stage, "publish"]:
                return Attempt("publish", "", stage)
            case ["DELETE", "stages", stage]:
                return Attempt("drop-stage", "", stage)
            case ["POST", "tokens"]:
                return Attempt("create-token")
            case ["DELETE", "tokens", token]:
                return Attempt("revoke-token", "", token)
        return None

    def do(self, method: str, words: Sequence[str]) -> Result | None:
        """Perform an action; return None if there is no such action.

        :param words: the segments of the path after ``/-/api/``.
        :raises Denied: the token does not allow it.
        :raises UserError: it cannot be done.
        """
        who, body = self.who, self.body
        reader = Reader(self.rules.private, who.token.projects)
        acts = StoreAdministration(self.store, self.now, may_read=reader.may_read)
        match method, *words:
            case ["POST", "yank"]:
                acts = replace(acts, check_files=self._need_upload)
                return {"files": acts.yank(body.texts("what"), body.text("reason"))}
            case ["POST", "unyank"]:
                acts = replace(acts, check_files=self._need_upload)
                return {"files": acts.yank(body.texts("what"), None)}
            case ["POST", "delete"]:
                acts = replace(acts, check_files=self._need_delete)
                return {"files": acts.delete(body.texts("what"))}
            case ["POST", "status"]:
                return self._set_status(acts)
            case ["GET", "stages"]:
                who.require_scope("upload")
                stages = acts.stages()
                if not is_operator(who.token):
                    stages = [stage for stage in stages if stage["owner"] == who.token.owner]
                return {"stages": stages}
            case ["POST", "stages"]:
                who.require_scope("upload")
                body.refuse_others("lifetime")
                lifetime = body.seconds("lifetime", self.rules.stage_lifetime)
                return acts.open_stage(who.token.owner, lifetime)
            case ["POST", "stages", stage, "publish"]:
                who.require_whole_stage(stage, reader.may_read, now=self.now())
                return {"files": acts.publish(stage)}
            case ["DELETE", "stages", stage]:
                who.require_whole_stage(stage, reader.may_read, now=self.now())
                return {"count": acts.drop(stage)}
            case [_, "tokens" | "audit", *_]:
                who.require_operator()
        match method, *words:
            case ["GET", "audit"]:
                body.refuse_others(*AUDIT_FILTERS)
                return {"entries": acts.audit({name: body.text(name) for name in AUDIT_FILTERS})}
            case ["GET", "tokens"]:
                return {"tokens": acts.tokens()}
            case ["POST", "tokens"]:
                return self._create_token(acts)
            case ["DELETE", "tokens", token]:
                return {"revoked": acts.revoke(token)}
        return None

    def _set_status(self, acts: StoreAdministration) -> Result:
        """Set the status of a project; only the operator may set or end a quarantine."""
        project, marker = canonicalize_name(self.body.text("project")), self.body.text("status")
        if acts.may_read(project):  # a hidden project does not exist for this token
            if marker == "quarantined" or self.store.records.status(project).is_quarantined:
                self.who.require_operator()
            elif not is_operator(self.who.token):
                self.who.require("upload", project)
        return acts.set_status(project, marker, self.body.text("reason"))

    def _create_token(self, acts: StoreAdministration) -> Result:
        self.body.refuse_others("owner", "scopes", "projects", "lifetime", "note")
        scopes = self.body.texts("scopes")
        if not scopes or not set(scopes) <= set(_SCOPES):
            raise InvalidConfiguration(f"scopes are {', '.join(_SCOPES)}")
        return acts.create_token(
            self.body.text("owner", OPERATOR),
            scopes,  # type: ignore[arg-type]  # they were looked at
            self.body.texts("projects") if self.body.values.get("projects") is not None else None,
            self.body.seconds("lifetime", 0.0) or None,
            self.body.text("note"),
        )

    def _need_delete(self, files: Sequence[StoredFile]) -> None:
        rule = self.rules.deletes
        if rule == "never":
            raise Denied(403, "nothing is ever deleted from this index; yank it")
        self._need_upload(files)
        if "admin" in self.who.token.scopes:
            return
        if rule == "admin":
            raise Denied(403, "a token of the scope admin is needed to delete; yank it")
        since = timestamp(self.now() - rule)
        if late := [file.filename for file in files if file.uploaded < since]:
            raise Denied(
                403, f"{late[0]} was uploaded too long ago to be deleted without admin; yank it"
            )

    def _need_upload(self, files: Sequence[StoredFile]) -> None:
        for project in {file.project for file in files}:
            self.who.require("upload", project)
