"""The application of a hosted index: pages, files, uploads, and administration."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote

from packaging.utils import canonicalize_name

from wheelfit.errors import StorageUnavailable, UploadRefused
from wheelfit.server.hosting.access import Attempt, Denied, denial, secret_of, visitor
from wheelfit.server.hosting.api import HostingApi, JsonBody, Rules, read_body
from wheelfit.server.hosting.error_answers import error_answer, json_answer, refusal_answer
from wheelfit.server.hosting.page_cache import PageCache
from wheelfit.server.hosting.public_errors import discreet
from wheelfit.server.hosting.readers import ReadableIndex, Reader, is_shared, reading
from wheelfit.server.hosting.sessions import ROOT, SessionApi
from wheelfit.server.messages import STRICT, Answer
from wheelfit.server.rebinding_guard import is_of_foreign_page
from wheelfit.server.simple import SimpleIndex
from wheelfit.server.store.audit import Actor
from wheelfit.server.store.database import written
from wheelfit.server.store.project_rules import rules_of
from wheelfit.server.store.records import PUBLISHED, refusal, refused, violations_of
from wheelfit.server.store.stored_index import StoredIndex
from wheelfit.server.store.tokens import STAGE_PREFIX, stage_of
from wheelfit.server.uploads.accepting import AcceptedUpload, accept
from wheelfit.server.uploads.form import FormLimits, read_form
from wheelfit_runtime.errors import FileProblem, InvalidConfiguration, NetworkError
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

    from wheelfit.server.hosting.access import Visitor
    from wheelfit.server.hosting.logs import Log
    from wheelfit.server.hosting.metrics import Metrics
    from wheelfit.server.hosting.trusted_publishing import TrustedPublishing
    from wheelfit.server.messages import Application, Request
    from wheelfit.server.rebinding_guard import HostNames
    from wheelfit.server.store.opening import Store
    from wheelfit.sources.repository import Index


ROUTES = "simple", "files", "bridges", "legacy", ROOT, "stage", "health", "metrics", "api", "other"
"""The routes of requests, in metrics and logs."""
_STAGE = pattern(r"[0-9a-f]{16}")
_SOON = {"retry-after": "2"}
_READY = frozenset({"/-/health", "/-/health/", "/-/health/ready"})
_CHANGING = frozenset({"legacy", ROOT, "stage", "api"})
"""Routes of changes."""
HEADERS = tuple(STRICT.items())
"""Default headers of every answer."""


def route_of(path: str) -> str:
    """Return the one of `ROUTES` that a path belongs to."""
    first, _, rest = path[1:].partition("/")
    if first == "-":
        first = rest.partition("/")[0]
    return first if first in ROUTES else "other"


class HostedIndex:
    """A live index: an `Application`.

    :param index: the projects to serve; with mirrors it has more than the store.
    :param bridges: families whose indexes are mirrored, by name; each serves a `ReadableIndex`.
    :param site: renders the pages for people; None: there are none.
    :param publishing: exchanges identities of CI jobs for tokens; None: no job is trusted.
    :param names: the host names that the server answers to; None for any.
    :param generation: stays equal as long as no page of the index changes; by default the number of
        the last change of the store.
    """

    def __init__(
        self,
        store: Store,
        *,
        log: Log,
        metrics: Metrics,
        index: Index | None = None,
        bridges: Mapping[str, Application] | None = None,
        rules: Rules = Rules(),
        site: Callable[[Index], Application] | None = None,
        publishing: TrustedPublishing | None = None,
        names: HostNames | None = None,
        generation: Callable[[], Hashable] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._bridges = bridges or {}
        self._rules = rules
        self._is_private = "*" in rules.private
        self._anonymous = Reader(rules.private, (), is_anonymous=True)
        self._publishing = publishing
        self._names = names
        self._log = log
        self._metrics = metrics
        self._now = now
        shown = ReadableIndex(StoredIndex(store) if index is None else index)
        simple = SimpleIndex(shown)
        self._site = simple if site is None else site(shown)
        generation = generation or store.records.serial
        self._pages = PageCache(
            simple, shown, generation, is_shared=is_shared if rules.private else None
        )

    def at_hand(self, request: Request) -> Answer | None:
        """Return an answer that takes no thread."""
        if self._names is not None and (refusal := self._names.refusal(request)) is not None:
            return refusal
        if request.path == "/-/health/live":
            return Answer.text(200, "alive")
        if request.path in _READY:
            return self._health()
        if not self._rules.private:
            return self._pages.at_hand(request)
        if self._is_private or "authorization" in request.headers:
            return None  # the database maps the token to its holder
        with reading(self._anonymous):
            return self._pages.at_hand(request)

    def __call__(self, request: Request) -> Answer:
        """Answer a request."""
        if self._names is not None and (refusal := self._names.refusal(request)) is not None:
            return refusal
        try:
            return self._answer(request)
        except Denied as error:
            return denial(error, takes_basic=_is_read(request.path))
        except UploadRefused as error:
            # The form itself is invalid, or the documents of a stage contradict it.
            return refusal_answer(request, violations_of(error))
        except (FileProblem, InvalidConfiguration) as error:
            status = 404 if isinstance(error, FileProblem) else 400
            return error_answer(request, status, error)
        except (StorageUnavailable, NetworkError) as error:
            status = 503 if isinstance(error, StorageUnavailable) else 502
            answer = error_answer(request, status, discreet(error, self._log))
            return replace(answer, headers={**answer.headers, **_SOON})

    def _answer(self, request: Request) -> Answer:
        if "%00" in request.path:
            return Answer.text(404, "there is no such page")  # nor do all databases take one
        if (
            request.method not in ("GET", "HEAD")
            and route_of(request.path) in _CHANGING
            and is_of_foreign_page(request)
        ):
            raise Denied(403, "a page of another origin may not change anything here (set this "
                         "server's own origin with --public-url)")  # fmt: skip
        match request.path.split("/")[1:]:
            case ["simple", *_] if request.method == "POST":
                return Answer.text(405, "uploads go to /legacy/", {"allow": "GET, HEAD"})
            case ["simple", *_] | ["files", *_]:
                return self._read(request, self._pages)
            case ["bridges", name, *rest] if name in self._bridges:
                return self._read(replace(request, path=f"/{'/'.join(rest)}"), self._bridges[name])
            case ["legacy"] | ["legacy", ""]:
                return self._upload(request, PUBLISHED)
            case [root, *rest] if root == ROOT:
                return self._in_session(request, rest)
            case ["stage", stage, *rest] if _STAGE.fullmatch(stage):
                return self._staged(request, stage, rest)
            case ["stage", secret, *rest] if secret.startswith(STAGE_PREFIX):
                return self._previewed(request, secret, rest)
            case ["_", *rest] if self._publishing is not None:
                return self._exchange(request, self._publishing, rest)
            case ["-", "metrics"]:
                return self._measured(request)
            case ["-", "api", *rest]:
                return self._act(request, [unquote(part) for part in rest])
            case ["-", "health", *_] if request.path in _READY:
                return self._health()
            case ["-", *_]:
                return Answer.text(404, "there is no such page")
        return self._read(request, self._site)

    def _read(self, request: Request, answers: Application) -> Answer:
        """Answer a reading request with the projects that the reader may see."""
        reader = self._anonymous
        if self._rules.private and ("authorization" in request.headers or self._is_private):
            reader = Reader(self._rules.private, self._visitor(request).token.projects)
        with reading(reader):
            answer = answers(request)
        if answer.status == 503:  # of the pages for people
            answer = replace(answer, headers={**_SOON, **answer.headers})
        return self._kept_private(answer, "private, no-cache") if self._rules.private else answer

    def _visitor(self, request: Request, *, takes_basic: bool = True) -> Visitor:
        records = self._store.records
        return visitor(request, records, now=self._now(), takes_basic=takes_basic)

    # --- uploads -------------------------------------------------------------------------

    def _upload(self, request: Request, stage: str) -> Answer:
        if request.method != "POST":
            return Answer.text(405, "uploads are posted here", {"allow": "POST"})
        # Before a byte of the body: unauthorised requests cost nothing.
        who, attempt = self._visitor(request), Attempt("upload")
        with who.noting_refusals(attempt):
            return self._upload_of(request, who, attempt, stage)

    def _upload_of(self, request: Request, who: Visitor, attempt: Attempt, stage: str) -> Answer:
        who.need_scope("upload")
        began = time.monotonic()
        drafts, limits = self._store.blobs.draft(), FormLimits(file=self._rules.file_size)
        content_type = request.headers.get("content-type", "")
        with read_form(request.body, content_type, drafts, limits=limits) as upload:
            name = upload.first("name")
            if not name:
                self._metrics.uploaded("refused")
                raise refused("bad-form", "it names no project", "the form: name")
            project = canonicalize_name(name)
            attempt.project, attempt.subject = project, upload.filename
            who.need("upload", project)
            size, store = upload.draft.size, self._store.acting(who.actor)
            outcome = accept(
                upload,
                store,
                now=self._now(),
                stage=stage,
                by=who.token.owner,
                rules=rules_of(self._rules.projects, project),
            )
        log = partial(
            self._log,
            file=upload.filename,
            owner=who.token.owner,
            token=who.token.id,
            size=size,
            seconds=round(time.monotonic() - began, 3),
            stage=stage or None,
        )
        if not isinstance(outcome, AcceptedUpload):
            log("refused", reason="; ".join(violation.reference for violation in outcome))
            self._metrics.uploaded("refused")
            raise refusal(outcome)
        self._pages.changed(project)
        log("upload" if outcome.is_new else "repeated")
        self._metrics.uploaded("accepted" if outcome.is_new else "repeated")
        lines = [f"{outcome.filename} is {'waiting' if stage else 'published'}"]
        lines += [f"warning: {warning}" for warning in outcome.warnings]
        return Answer.text(200, "\n".join(lines))

    # --- stages ----------------------------------------------------------------------------

    def _staged(self, request: Request, stage: str, rest: Sequence[str]) -> Answer:
        if rest in (["legacy"], ["legacy", ""]):
            self._visitor(request).need_stage(stage, now=self._now())
            if self._store.sessions.session(stage) is not None:
                return Answer.text(
                    409, f"files of this stage come through its session, at /{ROOT}/"
                )
            return self._upload(request, stage)
        if rest[:1] not in (["simple"], ["files"]):
            return Answer.text(404, "there is no such page")
        secret = secret_of(request)
        opened = stage_of(self._store.records, secret, now=self._now()) if secret else None
        if opened is not None and opened.id == stage:
            return self._shown(request, stage, rest, ())
        # Its owner sees it with a token too.
        who = self._visitor(request)
        reader = Reader(self._rules.private, who.token.projects)
        who.need_whole_stage(stage, reader.may_read, now=self._now())
        return self._shown(request, stage, rest, who.token.projects)

    def _previewed(self, request: Request, secret: str, rest: Sequence[str]) -> Answer:
        """Answer with a stage, for clients with its preview's secret address (PEP 694)."""
        opened = stage_of(self._store.records, secret, now=self._now())
        if opened is None or rest[:1] not in (["simple"], ["files"]):
            return Answer.text(404, "there is no such page")
        return self._shown(request, opened.id, rest, ())

    def _shown(
        self, request: Request, stage: str, rest: Sequence[str], allowed: Collection[str] | None
    ) -> Answer:
        """Answer with the files of a stage, and beside them the projects that the reader may see.

        :param allowed: private projects that it may read in any case.
        """
        if self._rules.private and allowed is not None:
            allowed = {*allowed, *self._store.records.staged_projects(stage)}
        path = "/" + "/".join(rest)
        index = ReadableIndex(StoredIndex(self._store, stage=stage))
        with reading(Reader(self._rules.private, allowed)):
            answer = SimpleIndex(index)(replace(request, path=path))
        return self._kept_private(answer, "private, no-store")

    def _kept_private(self, answer: Answer, control: str) -> Answer:
        """Return an answer with headers that forbid shared caches."""
        vary = answer.headers.get("vary")
        varies = "Authorization" if vary is None else f"{vary}, Authorization"
        return replace(answer, headers={**answer.headers, "cache-control": control, "vary": varies})

    def _in_session(self, request: Request, words: Sequence[str]) -> Answer:
        """Answer a publishing session (PEP 694)."""
        identify = partial(self._visitor, request)
        api = SessionApi(request, self._store, self._rules, self._now, identify, self._log)
        answer = api.answer(words)
        if "publish" in words and answer.status < 300:
            self._pages.changed()
        return answer

    def _exchange(
        self, request: Request, publishing: TrustedPublishing, words: Sequence[str]
    ) -> Answer:
        """Exchange the identity of a CI job for a token."""
        is_minting = words[-1:] == ["mint-token"]
        if request.method != ("POST" if is_minting else "GET"):
            return Answer.text(405, "a token is asked for with POST, the audience with GET",
                               {"allow": "POST" if is_minting else "GET"})  # fmt: skip
        body = read_body(request).values if is_minting else {}
        now = self._now()
        job = Actor(address=request.client, time=written(now))
        answer = publishing.answer(words, body, self._store.records.acting(job), now, self._log)
        return answer or Answer.text(404, "there is no such page")

    # --- health and administration --------------------------------------------------

    def _health(self) -> Answer:
        """Return the last known state of the dependencies, without any request."""
        states = {
            dependency.name: dependency.trouble or "ready" for dependency in self._store.probes
        }
        is_ready = set(states.values()) <= {"ready"}
        status = "ready" if is_ready else "not ready"
        return json_answer(200 if is_ready else 503, {"status": status, "dependencies": states})

    def _measured(self, request: Request) -> Answer:
        if self._rules.metrics == "operator":
            self._visitor(request, takes_basic=False).need_operator()
        kind = {"content-type": self._metrics.content_type, "cache-control": "no-store"}
        return Answer.of(200, self._metrics.written(), kind)

    def _act(self, request: Request, words: Sequence[str]) -> Answer:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.method == "POST" and kind != "application/json":
            # Forms cannot send this type, and browsers check with the server before a script sends
            # it.
            return Answer.text(415, "a request to the API needs Content-Type: application/json")
        who = self._visitor(request, takes_basic=False)
        is_post = request.method == "POST"
        body = read_body(request) if is_post else JsonBody(dict(parse_qsl(request.query)))
        acts = HostingApi(self._store.acting(who.actor), self._rules, self._now, who, body)
        attempt = acts.attempt(request.method, words)
        with nullcontext() if attempt is None else who.noting_refusals(attempt):
            result = acts.do(request.method, words)
        if result is None:
            return Answer.text(404, "there is no such endpoint, or not with this method")
        if request.method != "GET":
            self._pages.changed()
            what = body.values.get("what")
            self._log(
                "act",
                act=" ".join(words),
                owner=who.token.owner,
                token=who.token.id,
                what=", ".join(map(str, what)) if isinstance(what, list) else None,
            )
        return json_answer(200, result)


def _is_read(path: str) -> bool:
    """Return whether a path is for reading; there a browser may prompt its user for a token."""
    match path.split("/")[1:]:
        case ["legacy" | "-", *_] | ["stage", _, "legacy", *_]:
            return False
    return True
