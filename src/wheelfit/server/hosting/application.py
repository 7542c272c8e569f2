"""Answer everything that a hosted index is asked: pages, files, uploads, and its own doings."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from packaging.utils import canonicalize_name

from wheelfit.errors import (
    FileProblem,
    InvalidConfiguration,
    NetworkError,
    StorageUnavailable,
    UploadRefused,
    WheelfitError,
)
from wheelfit.patterns import pattern
from wheelfit.server.hosting.access import (
    OPERATOR,
    Denied,
    denial,
    is_operator,
    secret_of,
    visitor,
)
from wheelfit.server.hosting.administration import StoreAdministration, seconds_of
from wheelfit.server.hosting.hot_pages import HotPages
from wheelfit.server.messages import Answer
from wheelfit.server.simple import SimpleIndex
from wheelfit.server.store.records import PUBLISHED, Violation
from wheelfit.server.store.stored_index import StoredIndex
from wheelfit.server.store.tokens import stage_of, written
from wheelfit.server.uploads.accepting import Accepted, accept
from wheelfit.server.uploads.form import FormLimits, read_form
from wheelfit.values import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from wheelfit.server.hosting.access import Visitor
    from wheelfit.server.hosting.logs import Log
    from wheelfit.server.hosting.metrics import Metrics
    from wheelfit.server.index import Index
    from wheelfit.server.messages import Application, Request
    from wheelfit.server.store.opening import Store
    from wheelfit.server.store.records import StoredFile


__all__ = ["ROUTES", "HostedIndex", "Rules", "route_of"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True, slots=True)
class Rules:
    """Say what the operator wants."""

    deletes: Literal["never", "admin"] | timedelta = "admin"
    """Who may delete: nobody, tokens of the scope ``admin``; or besides, for so long after an
    upload, whoever may upload."""
    file_size: int = FormLimits().file
    """Bytes of the largest file."""
    stage_lasts: float = 7 * 86400.0
    """Seconds that a stage may wait, if nobody says how long."""
    metrics: Literal["operator", "everybody"] = "operator"
    """Who sees the metrics."""


ROUTES = ("simple", "files", "legacy", "stage", "health", "metrics", "api", "other")
"""What requests are for, as metrics and logs call it."""
_STAGE = pattern(r"[0-9a-f]{16}")
_MOST_JSON = 1 << 20
_UNKEPT = pattern(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
"""What JSON can say and no database keeps: NUL, halves of characters; and other controls."""
_LONGEST_SPAN = 1e10
_READY_FOR = 1.0
_HTML = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HEADERS = (
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),
    ("content-security-policy", _HTML),
)
"""What goes with every answer that says nothing else."""


def route_of(path: str) -> str:
    """Return which of `ROUTES` a path is for."""
    first, _, rest = path[1:].partition("/")
    if first == "-":
        first = rest.partition("/")[0]
    return first if first in ROUTES else "other"


class HostedIndex:
    """Be a live index: an `Application`.

    :param store: where uploads go.
    :param index: what is shown; with mirrors it has more than the store.
    :param rules: what the operator wants.
    :param log: told what happens.
    :param metrics: counts it.
    :param site: the pages for people; None: there are none.
    :param generation: stays equal as long as no page of the index changes; by default the number
        of the last change of the store.
    :param now: returns the time.
    """

    def __init__(
        self,
        store: Store,
        *,
        log: Log,
        metrics: Metrics,
        index: Index | None = None,
        rules: Rules = Rules(),
        site: Application | None = None,
        generation: Callable[[], Hashable] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._rules = rules
        self._log = log
        self._metrics = metrics
        self._now = now
        shown = StoredIndex(store) if index is None else index
        simple = SimpleIndex(shown)
        self._site = simple if site is None else site
        self._pages = HotPages(simple, shown, generation or store.records.serial)
        self._ready: tuple[float, str] = (float("-inf"), "")

    def at_hand(self, request: Request) -> Answer | None:
        """Return an answer that takes no thread."""
        if request.path == "/-/health/live":
            return Answer.text(200, "alive")
        return self._pages.at_hand(request)

    def __call__(self, request: Request) -> Answer:
        """Answer a request."""
        try:
            return self._answer(request)
        except Denied as error:
            return denial(error)
        except UploadRefused as error:
            # The form itself, or what a stage says of others.
            return _refused(request, tuple(_violation(one) for one in error.details))
        except (FileProblem, InvalidConfiguration) as error:
            status = 404 if isinstance(error, FileProblem) else 400
            return _told(request, status, error)
        except (StorageUnavailable, NetworkError) as error:
            self._log(
                "unavailable",
                reference=error.reference,
                message=error.message,
                where=error.where,
                hint=error.hint,
            )
            status = 503 if isinstance(error, StorageUnavailable) else 502
            answer = _told(request, status, error)
            return replace(answer, headers={**answer.headers, "retry-after": "5"})

    def _answer(self, request: Request) -> Answer:
        if "%00" in request.path:
            return Answer.text(404, "there is no such page")  # nor do all databases take one
        match request.path.split("/")[1:]:
            case ["simple", *_] if request.method == "POST":
                return Answer.text(405, "uploads go to /legacy/", {"allow": "GET, HEAD"})
            case ["simple", *_] | ["files", *_]:
                return self._pages(request)
            case ["legacy"] | ["legacy", ""]:
                return self._upload(request, PUBLISHED)
            case ["stage", stage, *rest] if _STAGE.fullmatch(stage):
                return self._staged(request, stage, rest)
            case ["-", "health"] | ["-", "health", ""] | ["-", "health", "ready"]:
                return self._health()
            case ["-", "metrics"]:
                return self._measured(request)
            case ["-", "api", *rest]:
                return self._administer(request, [unquote(part) for part in rest])
            case ["-", *_]:
                return Answer.text(404, "there is no such page")
        return self._site(request)

    # --- uploads -------------------------------------------------------------------------

    def _upload(self, request: Request, stage: str) -> Answer:
        if request.method != "POST":
            return Answer.text(405, "uploads are posted here", {"allow": "POST"})
        # Before a byte of the body: strangers cost nothing.
        who = visitor(request, self._store.records, now=self._now())
        who.need_scope("upload")
        began = time.monotonic()
        limits = FormLimits(file=self._rules.file_size)
        content_type = request.headers.get("content-type", "")
        with read_form(request.body, content_type, self._store.blobs, limits=limits) as upload:
            name = upload.first("name")
            if not name:
                wrong = Violation("bad-form", "it names no project", "the form: name")
                return self._count("refused", _refused(request, (wrong,)))
            who.need("upload", canonicalize_name(name))
            size = upload.draft.size
            outcome = accept(upload, self._store, now=self._now(), stage=stage, by=who.token.owner)
        facts: dict[str, str | float] = {
            "file": upload.filename,
            "owner": who.token.owner,
            "token": who.token.id,
            "size": size,
            "seconds": round(time.monotonic() - began, 3),
        }
        if stage:
            facts["stage"] = stage
        if not isinstance(outcome, Accepted):
            self._log("refused", **facts, reason="; ".join(one.reference for one in outcome))
            return self._count("refused", _refused(request, outcome))
        self._pages.changed()
        self._log("upload" if outcome.is_new else "repeated", **facts)
        said = [f"{outcome.filename} is {'waiting' if stage else 'published'}"]
        said += [f"warning: {one}" for one in outcome.warnings]
        return self._count(
            "accepted" if outcome.is_new else "repeated", Answer.text(200, "\n".join(said))
        )

    def _count(self, outcome: str, answer: Answer) -> Answer:
        self._metrics.uploaded(outcome)
        return answer

    # --- stages ----------------------------------------------------------------------------

    def _staged(self, request: Request, stage: str, rest: Sequence[str]) -> Answer:
        if rest in (["legacy"], ["legacy", ""]):
            self._own_stage(visitor(request, self._store.records, now=self._now()), stage)
            return self._upload(request, stage)
        if rest[:1] not in (["simple"], ["files"]):
            return Answer.text(404, "there is no such page")
        secret = secret_of(request)
        opened = stage_of(self._store.records, secret, now=self._now()) if secret else None
        if opened is None or opened.id != stage:
            # Whoever opened it sees it with his own token too.
            self._whole_stage(visitor(request, self._store.records, now=self._now()), stage)
        answer = SimpleIndex(StoredIndex(self._store, stage=stage))(
            replace(request, path="/" + "/".join(rest))
        )
        return replace(answer, headers={**answer.headers, "cache-control": "private, no-store"})

    def _own_stage(self, who: Visitor, stage: str) -> None:
        who.need_scope("upload")
        opened = [one for one in self._store.records.stages() if one.id == stage]
        if not opened or opened[0].expires <= written(self._now()):
            raise FileProblem("there is no such stage", where=stage)
        if opened[0].owner != who.token.owner and not is_operator(who.token):
            raise Denied(403, "this stage belongs to somebody else")

    def _whole_stage(self, who: Visitor, stage: str) -> None:
        """Check that a token is good for a stage with everything in it."""
        self._own_stage(who, stage)
        for project in sorted(self._store.records.staged_projects(stage)):
            who.need("upload", project)

    # --- what operators see and do -----------------------------------------------------------

    def _health(self) -> Answer:
        since, problem = self._ready
        if time.monotonic() - since > _READY_FOR:
            try:
                self._store.records.serial()
                self._store.blobs.size("0" * 64)
                problem = ""
            except WheelfitError as error:
                problem = error.message
            self._ready = (time.monotonic(), problem)
        return Answer.text(503, problem) if problem else Answer.text(200, "ready")

    def _measured(self, request: Request) -> Answer:
        if self._rules.metrics == "operator":
            self._need_operator(visitor(request, self._store.records, now=self._now()))
        kind = {"content-type": self._metrics.content_type, "cache-control": "no-store"}
        return Answer.of(200, self._metrics.written(), kind)

    @staticmethod
    def _need_operator(who: Visitor) -> None:
        if not is_operator(who.token):
            raise Denied(403, f"a token of {OPERATOR} for all projects is needed")

    def _administer(self, request: Request, words: Sequence[str]) -> Answer:
        who = visitor(request, self._store.records, now=self._now())
        said = _body(request) if request.method == "POST" else {}
        acts = StoreAdministration(self._store, self._now)
        method = request.method
        result: object
        match words:
            case ["yank" | "unyank" as act] if method == "POST":
                acts = replace(acts, admits=lambda files: _need(who, "upload", files))
                reason = _text(said, "reason", "") if act == "yank" else None
                result = {"files": acts.yank(_texts(said, "what"), reason)}
            case ["delete"] if method == "POST":
                acts = replace(acts, admits=lambda files: self._need_delete(who, files))
                result = {"files": acts.delete(_texts(said, "what"))}
            case ["stages"] if method == "GET":
                who.need_scope("upload")
                stages = acts.stages()
                if not is_operator(who.token):
                    stages = [one for one in stages if one["owner"] == who.token.owner]
                result = {"stages": stages}
            case ["stages"] if method == "POST":
                who.need_scope("upload")
                lasts = _number(said, "lasts", self._rules.stage_lasts)
                result = acts.open_stage(who.token.owner, lasts)
            case ["stages", stage, "publish"] if method == "POST":
                self._whole_stage(who, stage)
                result = {"files": acts.publish(stage)}
            case ["stages", stage] if method == "DELETE":
                self._whole_stage(who, stage)
                result = {"count": acts.drop(stage)}
            case ["tokens"] if method == "GET":
                self._need_operator(who)
                result = {"tokens": acts.tokens()}
            case ["tokens"] if method == "POST":
                self._need_operator(who)
                result = self._create_token(acts, said)
            case ["tokens", token] if method == "DELETE":
                self._need_operator(who)
                result = {"revoked": acts.revoke(token)}
            case _:
                return Answer.text(404, "there is no such act, or not with this method")
        self._pages.changed()
        if method != "GET":
            what = said.get("what")
            self._log(
                "act",
                act=" ".join(words),
                owner=who.token.owner,
                token=who.token.id,
                what=", ".join(map(str, what)) if isinstance(what, list) else None,
            )
        return _json(200, result)

    def _create_token(self, acts: StoreAdministration, said: dict[str, Any]) -> dict[str, Any]:
        scopes = _texts(said, "scopes")
        if not scopes or not set(scopes) <= {"upload", "admin"}:
            raise InvalidConfiguration("scopes are upload and admin")
        lasts = _number(said, "lasts", 0.0)
        return acts.create_token(
            _text(said, "owner", OPERATOR),
            scopes,  # type: ignore[arg-type]  # they were looked at
            _texts(said, "projects") if said.get("projects") is not None else None,
            lasts or None,
            _text(said, "note", ""),
        )

    def _need_delete(self, who: Visitor, files: Sequence[StoredFile]) -> None:
        rule = self._rules.deletes
        if rule == "never":
            raise Denied(403, "nothing is ever deleted from this index; yank it")
        for project in {one.project for one in files}:
            who.need("upload", project)
        if "admin" in who.token.scopes:
            return
        if rule == "admin":
            raise Denied(403, "a token of the scope admin is needed to delete; yank it")
        since = written(self._now() - rule)
        if late := [one.filename for one in files if one.uploaded < since]:
            raise Denied(
                403, f"{late[0]} was uploaded too long ago to be deleted without admin; yank it"
            )


def _need(who: Visitor, scope: Literal["upload", "admin"], files: Sequence[StoredFile]) -> None:
    for project in {one.project for one in files}:
        who.need(scope, project)


# --- what was said, and what is answered ------------------------------------------------------


def _body(request: Request) -> dict[str, Any]:
    parts, size = [], 0
    while piece := request.body.read(1 << 16):
        parts.append(piece)
        size += len(piece)
        if size > _MOST_JSON:
            raise InvalidConfiguration(f"it has more than {_MOST_JSON} bytes")
    try:
        said = json.loads(b"".join(parts) or b"{}")
    except (ValueError, RecursionError):
        raise InvalidConfiguration("the body is not JSON") from None
    if not isinstance(said, dict):
        raise InvalidConfiguration("the body is no JSON object")
    return said


def _text(said: dict[str, Any], name: str, default: str) -> str:
    value = said.get(name, default)
    if not isinstance(value, str) or len(value) > 1000 or _UNKEPT.search(value):
        raise InvalidConfiguration(f"{name} is a text of at most 1000 characters")
    return value


def _texts(said: dict[str, Any], name: str) -> list[str]:
    value = said.get(name, [])
    if not isinstance(value, list) or not all(
        isinstance(one, str) and not _UNKEPT.search(one) for one in value
    ):
        raise InvalidConfiguration(f"{name} is a list of texts")
    return value


def _number(said: dict[str, Any], name: str, default: float) -> float:
    value = said.get(name)
    if value is None:
        return default
    if isinstance(value, str):
        value = seconds_of(value)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 < value < _LONGEST_SPAN:
        raise InvalidConfiguration(f"{name} is a number of seconds")
    return float(value)


def _violation(details: Any) -> Violation:
    return Violation(str(details["reference"]), str(details["message"]), str(details["where"]))


def _refused(request: Request, violations: Sequence[Violation]) -> Answer:
    """Tell everything that keeps a file out, so that every publishing tool shows it."""
    first, *others = violations
    references = {one.reference for one in violations}
    status = 400
    if "too-large" in references:
        status = 413
    elif references <= {"name-taken", "name-deleted"}:
        status = 409
    elif references <= {"not-an-owner"}:
        status = 403
    more = f" (and {len(others)} more)" if others else ""
    if _wants_json(request):
        said = {
            "errors": [
                {"reference": one.reference, "message": one.message, "where": one.where}
                for one in violations
            ]
        }
        answer = _json(status, said)
    else:
        answer = Answer.text(status, "\n".join(map(str, violations)))
    return replace(answer, reason=f"{first}{more}")


def _told(request: Request, status: int, error: WheelfitError) -> Answer:
    where = f"{error.where}: " if error.where else ""
    # Where a storage is, is for the log.
    sentence = error.message if status >= 500 else f"{where}{error.message}"
    if _wants_json(request):
        one = {"reference": error.reference, "message": error.message, "where": error.where}
        answer = _json(status, {"errors": [one]})
    else:
        answer = Answer.text(status, sentence)
    return replace(answer, reason=sentence)


def _wants_json(request: Request) -> bool:
    return "application/json" in request.headers.get("accept", "")


def _json(status: int, value: object) -> Answer:
    headers = {"content-type": "application/json", "cache-control": "no-store"}
    return Answer.of(status, json.dumps(value).encode(), headers)
