"""The application of a hosted index: pages, files, uploads and administration."""

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
from wheelfit.server.hosting.access import (
    AttemptedChange,
    PermissionDenied,
    authenticate,
    denial_response,
    secret_of,
)
from wheelfit.server.hosting.administration import (
    Administration,
    HostingRules,
    JsonBody,
    read_json_body,
)
from wheelfit.server.hosting.error_responses import error_response, json_response, refusal_response
from wheelfit.server.hosting.page_cache import PageCache
from wheelfit.server.hosting.public_errors import public_error
from wheelfit.server.hosting.readers import ReadableIndex, Reader, as_reader, is_shared
from wheelfit.server.hosting.sessions import SESSION_ROOT, SessionApi
from wheelfit.server.messages import Application, Request, Response
from wheelfit.server.rebinding_guard import HostNames, is_cross_origin
from wheelfit.server.simple import SimpleIndex
from wheelfit.server.store.audit import Actor
from wheelfit.server.store.database import timestamp
from wheelfit.server.store.project_rules import rules_of
from wheelfit.server.store.records import PUBLISHED, refusal, single_refusal, violations_of
from wheelfit.server.store.stored_index import StoredIndex
from wheelfit.server.store.tokens import STAGE_PREFIX, stage_of_secret
from wheelfit.server.uploads.accepting import AcceptedUpload, accept_upload
from wheelfit.server.uploads.form import FormLimits, read_form
from wheelfit_runtime.errors import FileProblem, InvalidConfiguration, NetworkError
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

    from wheelfit.server.hosting.access import AuthenticatedUser
    from wheelfit.server.hosting.logs import Log
    from wheelfit.server.hosting.metrics import Metrics
    from wheelfit.server.hosting.trusted_publishing import TrustedPublishing
    from wheelfit.server.store.opening import Store
    from wheelfit.sources.repository import Index


ROUTES = (
    "simple",
    "files",
    "bridges",
    "legacy",
    SESSION_ROOT,
    "stage",
    "health",
    "metrics",
    "api",
    "other",
)
"""The routes of requests, in metrics and logs."""
_STAGE = pattern(r"[0-9a-f]{16}")
_RETRY_SOON = {"retry-after": "2"}
_READY = frozenset({"/-/health", "/-/health/", "/-/health/ready"})
_WRITE_ROUTES = frozenset({"legacy", SESSION_ROOT, "stage", "api"})
"""Routes with requests that change the index."""


def route_of(path: str) -> str:
    """Return the route in `ROUTES` that a path belongs to."""
    first, _, rest = path[1:].partition("/")
    if first == "-":
        first = rest.partition("/")[0]
    return first if first in ROUTES else "other"


class HostedIndex:
    """A live index: an `Application`.

    :param index: the projects to serve, those of the store and of mirrors; None: of the store only.
    :param bridges: applications that mirror the indexes of families, by name of the family.
    :param site: returns the application with the pages for people; None: there are none.
    :param publishing: exchanges identities of CI jobs for tokens; None: no job is trusted.
    :param names: the host names that the server answers to; None for any.
    :param generation: returns a value that stays equal as long as no page of the index changes; by
        default the serial of the last change of the store.
    """

    def __init__(
        self,
        store: Store,
        *,
        log: Log,
        metrics: Metrics,
        index: Index | None = None,
        bridges: Mapping[str, Application] | None = None,
        rules: HostingRules = HostingRules(),
        site: Callable[[Index], Application] | None = None,
        publishing: TrustedPublishing | None = None,
        names: HostNames | None = None,
        generation: Callable[[], Hashable] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._bridges = bridges or {}
        self._rules = rules
        self._is_all_private = "*" in rules.private
        self._anonymous = Reader(rules.private, (), is_anonymous=True)
        self._publishing = publishing
        self._names = names
        self._log = log
        self._metrics = metrics
        self._now = now
        readable = ReadableIndex(StoredIndex(store) if index is None else index, log)
        simple = SimpleIndex(readable)
        self._site = simple if site is None else site(readable)
        generation = generation or store.records.serial
        self._pages = PageCache(
            simple, readable, generation, is_shared=is_shared if rules.private else None
        )

    def cached_response(self, request: Request) -> Response | None:
        """Return a response without blocking; None if the request must be answered in a thread."""
        if self._names is not None and (host_refusal := self._names.refusal(request)) is not None:
            return host_refusal
        if request.path == "/-/health/live":
            return Response.text(200, "alive")
        if request.path in _READY:
            return self._health()
        if not self._rules.private:
            return self._pages.cached_response(request)
        if self._is_all_private or "authorization" in request.headers:
            return None  # the token has to be looked up in the database
        with as_reader(self._anonymous):
            return self._pages.cached_response(request)

    def __call__(self, request: Request) -> Response:
        """Answer a request."""
        if self._names is not None and (host_refusal := self._names.refusal(request)) is not None:
            return host_refusal
        try:
            return self._respond(request)
        except PermissionDenied as error:
            return denial_response(error, takes_basic=_is_read(request.path))
        except UploadRefused as error:
            # The form is invalid, or contradicts the documents of its stage.
            return refusal_response(request, violations_of(error))
        except (FileProblem, InvalidConfiguration) as error:
            status = 404 if isinstance(error, FileProblem) else 400
            return error_response(request, status, error)
        except (StorageUnavailable, NetworkError) as error:
            status = 503 if isinstance(error, StorageUnavailable) else 502
            response = error_response(request, status, public_error(error, self._log))
            return replace(response, headers={**response.headers, **_RETRY_SOON})

    def _respond(self, request: Request) -> Response:
        if "%00" in request.path:
            return Response.text(404, "there is no such page")  # some databases refuse such text
        if (
            request.method not in ("GET", "HEAD")
            and route_of(request.path) in _WRITE_ROUTES
            and is_cross_origin(request)
        ):
            raise PermissionDenied(
                403,
                "a page of another origin may not change anything here (set this server's own "
                "origin with --public-url)",
            )
        match request.path.split("/")[1:]:
            case ["" | "simple", *_] if request.method == "POST":
                return Response.text(405, "uploads go to /legacy/", {"allow": "GET, HEAD"})
            case ["simple", *_] | ["files", *_]:
                return self._read(request, self._pages)
            case ["bridges", name, *rest] if name in self._bridges:
                return self._read(replace(request, path=f"/{'/'.join(rest)}"), self._bridges[name])
            case ["legacy"] | ["legacy", ""]:
                return self._upload(request, PUBLISHED)
            case [root, *rest] if root == SESSION_ROOT:
                return self._serve_session(request, rest)
            case ["stage", stage, *rest] if _STAGE.fullmatch(stage):
                return self._serve_stage(request, stage, rest)
            case ["stage", secret, *rest] if secret.startswith(STAGE_PREFIX):
                return self._serve_preview(request, secret, rest)
            case ["_", *rest] if self._publishing is not None:
                return self._exchange_token(request, self._publishing, rest)
            case ["-", "metrics"]:
                return self._serve_metrics(request)
            case ["-", "api", *rest]:
                return self._serve_api(request, [unquote(part) for part in rest])
            case ["-", "health", *_] if request.path in _READY:
                return self._health()
            case ["-", *_]:
                return Response.text(404, "there is no such page")
        return self._read(request, self._site)

    def _read(self, request: Request, application: Application) -> Response:
        """Answer a read request by an application, with the projects that the reader may see."""
        reader = self._anonymous
        if self._rules.private and ("authorization" in request.headers or self._is_all_private):
            reader = Reader(self._rules.private, self._authenticate(request).token.projects)
        with as_reader(reader):
            response = application(request)
        if response.status == 503:  # of the pages for people
            response = replace(response, headers={**_RETRY_SOON, **response.headers})
        return (
            self._with_cache_control(response, "private, no-cache")
            if self._rules.private
            else response
        )

    def _authenticate(self, request: Request, *, takes_basic: bool = True) -> AuthenticatedUser:
        records = self._store.records
        return authenticate(request, records, now=self._now(), takes_basic=takes_basic)

    # --- uploads -------------------------------------------------------------------------

    def _upload(self, request: Request, stage: str) -> Response:
        if request.method != "POST":
            return Response.text(405, "uploads are posted here", {"allow": "POST"})
        # Before the body is read, so that requests without permission cost nothing.
        user, attempt = self._authenticate(request), AttemptedChange("upload")
        with user.recording_refusals(attempt):
            return self._accept_upload(request, user, attempt, stage)

    def _accept_upload(
        self, request: Request, user: AuthenticatedUser, attempt: AttemptedChange, stage: str
    ) -> Response:
        user.require_scope("upload")
        start = time.monotonic()
        drafts, limits = self._store.blobs.draft(), FormLimits(file=self._rules.file_size)
        content_type = request.headers.get("content-type", "")
        with read_form(request.body, content_type, drafts, limits=limits) as upload:
            name = upload.first("name")
            if not name:
                self._metrics.count_upload("refused")
                raise single_refusal("bad-form", "it names no project", "the form: name")
            project = canonicalize_name(name)
            attempt.project, attempt.subject = project, upload.filename
            user.require("upload", project)
            size, store = upload.draft.size, self._store.with_actor(user.actor)
            outcome = accept_upload(
                upload,
                store,
                now=self._now(),
                stage=stage,
                uploader=user.token.owner,
                rules=rules_of(self._rules.projects, project),
            )
        log = partial(
            self._log,
            file=upload.filename,
            owner=user.token.owner,
            token=user.token.id,
            size=size,
            seconds=round(time.monotonic() - start, 3),
            stage=stage or None,
        )
        if not isinstance(outcome, AcceptedUpload):
            log("refused", reason="; ".join(violation.reference for violation in outcome))
            self._metrics.count_upload("refused")
            raise refusal(outcome)
        self._pages.record_change(project)
        log("upload" if outcome.is_new else "repeated")
        self._metrics.count_upload("accepted" if outcome.is_new else "repeated")
        lines = [f"{outcome.filename} is {'waiting' if stage else 'published'}"]
        lines += [f"warning: {warning}" for warning in outcome.warnings]
        return Response.text(200, "\n".join(lines))

    # --- stages ----------------------------------------------------------------------------

    def _serve_stage(self, request: Request, stage: str, rest: Sequence[str]) -> Response:
        """Answer a request to a stage, of a client with a token or the secret of the stage."""
        if rest in (["legacy"], ["legacy", ""]):
            self._authenticate(request).require_stage(stage, now=self._now())
            if self._store.sessions.session(stage) is not None:
                return Response.text(
                    409, f"files of this stage come through its session, at /{SESSION_ROOT}/"
                )
            return self._upload(request, stage)
        if rest[:1] not in (["simple"], ["files"]):
            return Response.text(404, "there is no such page")
        secret = secret_of(request)
        secret_stage = (
            stage_of_secret(self._store.records, secret, now=self._now()) if secret else None
        )
        if secret_stage is not None and secret_stage.id == stage:
            return self._serve_staged_files(request, stage, rest, ())
        # Otherwise the secret is the token of a user, who may own the stage.
        user = self._authenticate(request)
        reader = Reader(self._rules.private, user.token.projects)
        user.require_whole_stage(stage, reader.may_read, now=self._now())
        return self._serve_staged_files(request, stage, rest, user.token.projects)

    def _serve_preview(self, request: Request, secret: str, rest: Sequence[str]) -> Response:
        """Answer a request to the secret preview URL of a stage (PEP 694)."""
        stage = stage_of_secret(self._store.records, secret, now=self._now())
        if stage is None or rest[:1] not in (["simple"], ["files"]):
            return Response.text(404, "there is no such page")
        return self._serve_staged_files(request, stage.id, rest, ())

    def _serve_staged_files(
        self, request: Request, stage: str, rest: Sequence[str], allowed: Collection[str] | None
    ) -> Response:
        """Answer with the files of a stage, and all projects that the reader may see.

        :param allowed: private projects that the reader may see, besides those of the stage; None:
            all of them.
        """
        if self._rules.private and allowed is not None:
            allowed = {*allowed, *self._store.records.staged_projects(stage)}
        path = "/" + "/".join(rest)
        index = ReadableIndex(StoredIndex(self._store, stage=stage), self._log)
        with as_reader(Reader(self._rules.private, allowed)):
            response = SimpleIndex(index)(replace(request, path=path))
        return self._with_cache_control(response, "private, no-store")

    def _with_cache_control(self, response: Response, control: str) -> Response:
        """Return a response with a ``Cache-Control`` header, which depends on the authorization."""
        vary = ", ".join(filter(None, (response.headers.get("vary"), "Authorization")))
        return replace(
            response, headers={**response.headers, "cache-control": control, "vary": vary}
        )

    def _serve_session(self, request: Request, segments: Sequence[str]) -> Response:
        """Answer a request to a publishing session (PEP 694)."""
        identify = partial(self._authenticate, request)
        api = SessionApi(request, self._store, self._rules, self._now, identify, self._log)
        response = api.respond(segments)
        if "publish" in segments and response.status < 300:
            self._pages.record_change()
        return response

    def _exchange_token(
        self, request: Request, publishing: TrustedPublishing, segments: Sequence[str]
    ) -> Response:
        """Exchange the identity of a CI job for a token."""
        is_minting = segments[-1:] == ["mint-token"]
        if request.method != ("POST" if is_minting else "GET"):
            return Response.text(
                405,
                "a token is requested by POST, the audience by GET",
                {"allow": "POST" if is_minting else "GET"},
            )
        body = read_json_body(request).values if is_minting else {}
        now = self._now()
        actor = Actor(address=request.client, time=timestamp(now))
        records = self._store.records.with_actor(actor)
        response = publishing.respond(segments, body, records, now, self._log)
        return response or Response.text(404, "there is no such page")

    # --- health and administration --------------------------------------------------

    def _health(self) -> Response:
        """Answer with the last known state of the dependencies, without probing them."""
        states = {dependency.name: dependency.fault or "ready" for dependency in self._store.probes}
        is_ready = set(states.values()) <= {"ready"}
        status = "ready" if is_ready else "not ready"
        return json_response(200 if is_ready else 503, {"status": status, "dependencies": states})

    def _serve_metrics(self, request: Request) -> Response:
        if self._rules.metrics == "operator":
            self._authenticate(request, takes_basic=False).require_operator()
        headers = {"content-type": self._metrics.content_type, "cache-control": "no-store"}
        return Response.of(200, self._metrics.exposition(), headers)

    def _serve_api(self, request: Request, segments: Sequence[str]) -> Response:
        is_post = request.method == "POST"
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if is_post and content_type != "application/json":
            # Forms of other sites cannot send this type, and scripts of theirs only after the
            # browser has asked the server.
            return Response.text(415, "a request to the API needs Content-Type: application/json")
        user = self._authenticate(request, takes_basic=False)
        body = read_json_body(request) if is_post else JsonBody(dict(parse_qsl(request.query)))
        store = self._store.with_actor(user.actor)
        administration = Administration(store, self._rules, self._now, user, body)
        attempt = administration.attempted_change(request.method, segments)
        with nullcontext() if attempt is None else user.recording_refusals(attempt):
            result = administration.perform(request.method, segments)
        if result is None:
            return Response.text(404, "there is no such endpoint, or not with this method")
        if request.method != "GET":
            self._pages.record_change()
            names = body.values.get("names")
            self._log(
                "action",
                action=" ".join(segments),
                owner=user.token.owner,
                token=user.token.id,
                subject=", ".join(map(str, names)) if isinstance(names, list) else None,
            )
        return json_response(200, result)


def _is_read(path: str) -> bool:
    """Return whether a path is for reading, so that a browser may prompt its user for a token."""
    match path.split("/")[1:]:
        case ["legacy" | "-", *_] | ["stage", _, "legacy", *_]:
            return False
    return True
