"""Answer publishing sessions: the upload API 2.0 of PEP 694, draft of July 2026.

A session is a stage for one release. Its uploads are checked as those of forms, and the stage is
published and dropped as every other.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion

from wheelfit.core.filename import parse_index_file_name, release_of
from wheelfit.core.versions import parse_version
from wheelfit.errors import UploadRefused
from wheelfit.server.hosting.access import BEARER, AttemptedChange, PermissionDenied
from wheelfit.server.hosting.administration import HostingRules, JsonBody, read_body, read_json_body
from wheelfit.server.hosting.error_responses import (
    API_METADATA,
    json_response,
    problem_response,
    status_of,
)
from wheelfit.server.hosting.readers import Reader
from wheelfit.server.messages import Request, Response
from wheelfit.server.store.database import timestamp
from wheelfit.server.store.opening import EMPTY_STAGE_LIFETIME, Store
from wheelfit.server.store.project_rules import rules_of
from wheelfit.server.store.records import Violation, refusal, single_refusal, violations_of
from wheelfit.server.store.sessions import Session, SessionUpload, UploadStatus, shown_status
from wheelfit.server.store.tokens import new_stage, secret_digest
from wheelfit.server.uploads.accepting import AcceptedUpload, accept_upload
from wheelfit.server.uploads.form import Upload
from wheelfit.server.uploads.rules import check_name, provenance_of
from wheelfit_runtime.errors import FileProblem, InvalidConfiguration
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wheelfit.server.hosting.access import AuthenticatedUser
    from wheelfit.server.store.blobs import Draft

SESSION_ROOT = "upload"
"""The path of the root endpoint."""
_TYPE = "application/vnd.pypi.upload.v2+json"
_MECHANISM = "http-post-bytes"
_MAX_LIFETIME = timedelta(days=28)
"""The time after its creation until which a session can be extended."""
_WEAK_ALGORITHMS = frozenset({"md5", "sha1"})
_PIECE = 1 << 18
_MAX_ATTESTATIONS = 16 << 20
_MAX_UPLOADS = 10_000
"""Uploads of one session."""


@dataclass(frozen=True, slots=True)
class SessionApi:
    """The publishing sessions of an index, for one request.

    Methods that return a response raise ``PermissionDenied``, ``UploadRefused``,
    ``InvalidConfiguration`` or ``FileProblem``; `respond` makes problem details of them.
    """

    request: Request
    store: Store
    rules: HostingRules
    now: Callable[[], datetime]
    identify: Callable[[], AuthenticatedUser]
    """Returns the holder of the token, or raises ``PermissionDenied``."""
    log: Callable[..., None]

    def respond(self, segments: Sequence[str]) -> Response:
        """Answer the request.

        :param segments: the parts of the path after the root endpoint.
        """
        try:
            return self._dispatch([segment for segment in segments if segment])
        except PermissionDenied as error:
            headers = {"www-authenticate": BEARER} if error.status == 401 else {}
            return problem_response(error.status, error.message, headers=headers)
        except UploadRefused as error:
            violations = violations_of(error)
            return problem_response(status_of(violations), str(violations[0]), violations)
        except FileProblem as error:
            return problem_response(404, error.message)
        except InvalidConfiguration as error:
            return problem_response(400, error.message)

    def _dispatch(self, segments: Sequence[str]) -> Response:
        user = self.identify()
        api_of_user = replace(self, store=self.store.with_actor(user.actor))
        attempt = self._attempt(segments)
        is_change = self.request.method not in ("GET", "HEAD")
        with user.recording_refusals(attempt) if is_change else nullcontext():
            return api_of_user._dispatch_allowed(user, segments, attempt)  # noqa: SLF001 - own class

    def _attempt(self, segments: Sequence[str]) -> AttemptedChange:
        """Return the change that the request attempts, for the audit log."""
        match self.request.method, *segments:
            case ["POST"]:
                return AttemptedChange("open-stage")
            case ["POST", session, "publish"]:
                return AttemptedChange("publish", "", session)
            case ["DELETE", session]:
                return AttemptedChange("drop-stage", "", session)
        return AttemptedChange("upload")

    def _dispatch_allowed(
        self, user: AuthenticatedUser, segments: Sequence[str], attempt: AttemptedChange
    ) -> Response:
        user.require_scope("upload")
        if self.request.method == "POST":
            self._check_type(segments)
        match self.request.method, *segments:
            case ["POST"]:
                return self._create(user, attempt)
            case [_, session, *rest]:
                opened = self._session(session)
                if not Reader(self.rules.private, user.token.projects).may_read(opened.project):
                    raise FileProblem("the session does not exist")
                attempt.project = opened.project
                user.require("upload", opened.project)
                return self._dispatch_session(user, opened, rest)
        return problem_response(405, "a session is created by POST", headers={"allow": "POST"})

    def _dispatch_session(
        self, user: AuthenticatedUser, session: Session, segments: Sequence[str]
    ) -> Response:
        match self.request.method, *segments:
            case ["GET" | "HEAD"]:
                return self._session_state(session)
            case ["DELETE"]:
                return self._cancel(user, session)
            case ["POST", "publish"]:
                return self._publish(user, session)
            case ["POST", "extend"]:
                return self._extend(session)
            case ["POST", "files"]:
                return self._begin(session)
            case [_, "files", token, upload, *rest] if hmac.compare_digest(
                token.encode(), session.token.encode()
            ):
                return self._dispatch_upload(user, session, self._upload(session, upload), rest)
        return problem_response(404, "there is no such endpoint, or not with this method")

    def _dispatch_upload(
        self,
        user: AuthenticatedUser,
        session: Session,
        upload: SessionUpload,
        segments: Sequence[str],
    ) -> Response:
        match self.request.method, *segments:
            case ["GET" | "HEAD"]:
                return self._upload_state(session, upload)
            case ["DELETE"]:
                _require_open(session)
                self.store.sessions.cancel(upload)
                return Response(204)
            case ["POST", "content"]:
                _require_open(session)
                return self._receive(user, session, upload)
            case ["POST", "attestations"]:
                _require_open(session)
                return self._attest(upload)
            case ["POST", "complete"]:
                _read_body(self.request)
                _require_open(session)
                return self._complete(session, upload)
        return problem_response(404, "there is no such endpoint, or not with this method")

    def _check_type(self, segments: Sequence[str]) -> None:
        """Check the type of a body.

        Forms of web pages cannot send these types, so no other site can make a browser do it.
        """
        last = segments[-1] if segments else ""
        content_types = {"content": "application/octet-stream", "attestations": "application/json"}
        expected = content_types.get(last, _TYPE)
        header = self.request.headers.get("content-type", "")
        if header.partition(";")[0].strip().lower() != expected:
            raise PermissionDenied(415, f"the body of this request is sent as {expected}")

    # --- sessions -----------------------------------------------------------------------------

    def _session(self, id_: str) -> Session:
        """Return a session; an expired one is cancelled first."""
        session = self.store.sessions.session(id_)
        if session is not None and session.status == "open" and self._is_expired(session):
            self.store.records.drop(id_)
            session = self.store.sessions.session(id_)
        if session is None:
            raise FileProblem("the session does not exist")
        return session

    def _is_expired(self, session: Session) -> bool:
        return session.expires <= timestamp(self.now())

    def _create(self, user: AuthenticatedUser, attempt: AttemptedChange) -> Response:
        body = _read_body(self.request)
        project, version = body.text("name"), body.text("version")
        try:
            name = canonicalize_name(project, validate=True)
            parsed = parse_version(version)
        except InvalidName:
            raise InvalidConfiguration(f"{project[:80]!r} is not a valid project name") from None
        except InvalidVersion:
            raise InvalidConfiguration(f"{version[:80]!r} is not a version") from None
        attempt.project = name
        user.require("upload", name)
        lifetime, owner = timedelta(seconds=self.rules.stage_lifetime), user.token.owner
        stage, token = new_stage(owner, now=self.now(), lifetime=lifetime)
        new = Session(stage.id, name, parsed, "open", token, stage.created, stage.expires)
        session = self.store.sessions.create(new, stage, secret_digest(token), owner)
        if session.id != new.id and self._is_expired(session):
            self.store.records.drop(session.id)
            session = self.store.sessions.create(new, stage, secret_digest(token), owner)
        if session.id != new.id:
            headers = {"location": f"{self._root}/{session.id}"}
            return problem_response(409, f"a session for {name} {parsed} is open", headers=headers)
        self._log("session-opened", user, session)
        return self._session_state(session, 201)

    def _session_state(self, session: Session, status: int = 200) -> Response:
        """Return the response with the state of a session."""
        url = f"{self._root}/{session.id}"
        uploads = self.store.sessions.uploads(session.id)
        expires = session.expires
        if not uploads:  # a session without uploads expires earlier
            expires_if_empty = datetime.fromisoformat(session.created) + EMPTY_STAGE_LIFETIME
            expires = min(expires, timestamp(expires_if_empty))
        files = {
            upload.filename: {
                "status": shown_status(upload.status),
                "link": self._link(session, upload),
                "_wheelfit": {"sha256": upload.hashes.get("sha256")},
            }
            for upload in uploads
            if session.status in ("open", "published")
        }
        value = {
            **API_METADATA,
            "links": {
                "stage": f"{self.request.origin}/stage/{session.token}/simple/",
                "upload": f"{url}/files",
                "session": url,
                "publish": f"{url}/publish",
                "extend": f"{url}/extend",
            },
            "mechanisms": [_MECHANISM],
            "session-token": session.token,
            "expires-at": _in_whole_seconds(expires),
            "status": session.status,
            "files": files,
        }
        return json_response(status, value, _TYPE, {"location": url} if status != 200 else {})

    def _publish(self, user: AuthenticatedUser, session: Session) -> Response:
        _read_body(self.request)
        _require_open(session)
        self.store.records.publish(session.id, time=timestamp(self.now()))
        published = self._session(session.id)
        if published.status != "published":
            _require_open(published)  # it was cancelled meanwhile
        self._log("session-published", user, session)
        return self._session_state(published, 201)

    def _cancel(self, user: AuthenticatedUser, session: Session) -> Response:
        was_open = session.status == "open"
        if was_open:
            self.store.records.drop(session.id)
            session = self._session(session.id)
        if session.status == "published":  # perhaps meanwhile
            return problem_response(409, "the session is published")
        if was_open:
            self._log("session-cancelled", user, session)
        return Response(204)

    def _extend(self, session: Session) -> Response:
        body = _read_body(self.request)
        _require_open(session)
        extension = timedelta(seconds=body.seconds("extend-for"))
        latest = datetime.fromisoformat(session.created) + _MAX_LIFETIME
        expires = min(datetime.fromisoformat(session.expires) + extension, latest)
        self.store.sessions.extend(session.id, timestamp(expires))
        return self._session_state(self._session(session.id))

    # --- uploads ------------------------------------------------------------------------------

    def _upload(self, session: Session, id_: str) -> SessionUpload:
        upload = self.store.sessions.upload(id_)
        if upload is None or upload.session != session.id:
            raise FileProblem("the upload does not exist")
        return upload

    def _begin(self, session: Session) -> Response:
        body = _read_body(self.request)
        _require_open(session)
        filename, size = body.text("filename"), body.values.get("size")
        release = parse_index_file_name(filename)
        if release is None:
            if violations := check_name(filename):
                raise refusal(violations)
            release = release_of(filename)
        if release is None:
            message = "it is not the name of a wheel or a source distribution"
            raise single_refusal("invalid-filename", message, filename)
        if release != (session.project, session.version):
            message = f"the session is for {session.project} {session.version}"
            raise single_refusal("other-release", message, filename)
        if type(size) is not int or size < 0:
            raise InvalidConfiguration("size is a number of bytes")
        project_rules = rules_of(self.rules.projects, session.project)
        limits = (self.rules.file_size, project_rules.max_file_size)
        limit = min(limit for limit in limits if limit is not None)
        if size > limit:
            raise single_refusal("too-large", f"it has more than {limit} bytes", filename)
        if body.text("mechanism") != _MECHANISM:
            return problem_response(422, f"the only supported mechanism is {_MECHANISM}")
        if len(self.store.sessions.uploads(session.id)) >= _MAX_UPLOADS:
            raise single_refusal("too-large", f"the session has {_MAX_UPLOADS} uploads", filename)
        hashes = _hashes(body.values.get("hashes"))
        upload = SessionUpload(secrets.token_hex(8), session.id, filename, size, hashes)
        self.store.sessions.begin(upload)
        return self._upload_state(session, upload, 202)

    def _upload_state(self, session: Session, upload: SessionUpload, status: int = 200) -> Response:
        """Return the response with the state of an upload."""
        url = self._link(session, upload)
        value = {
            **API_METADATA,
            "links": {"file-upload-session": url, "complete": f"{url}/complete"},
            "status": shown_status(upload.status),
            "expires-at": _in_whole_seconds(session.expires),
            "mechanism": {
                "identifier": _MECHANISM,
                "file_url": f"{url}/content",
                "attestations_url": f"{url}/attestations",
            },
        }
        return json_response(status, value, _TYPE, {"retry-after": "1", "location": url})

    def _receive(
        self, user: AuthenticatedUser, session: Session, upload: SessionUpload
    ) -> Response:
        """Receive the content of a file, and check it."""
        if upload.status != "pending":
            return _already_received(upload.status)
        sessions = self.store.sessions
        with self.store.blobs.draft() as draft:
            while draft.size <= upload.size and (piece := self.request.body.read(_PIECE)):
                draft.write(piece)
            violations = tuple(_differences(draft, upload))
            if not violations:
                form = _as_form(session, upload, draft)
                outcome = accept_upload(
                    form,
                    self.store,
                    now=self.now(),
                    stage=session.id,
                    uploader=user.token.owner,
                    rules=rules_of(self.rules.projects, session.project),
                )
                violations = () if isinstance(outcome, AcceptedUpload) else outcome
        if violations:
            sessions.move(upload, "error")
            raise refusal(violations)
        if not sessions.move(upload, "received"):
            status = self._upload(session, upload.id).status
            if status != "canceled":  # the client sent the content twice
                return _already_received(status)
            sessions.cancel(upload)
            return problem_response(409, "the upload was cancelled meanwhile")
        self._log("upload", user, session, file=upload.filename, size=upload.size)
        return Response(201)

    def _attest(self, upload: SessionUpload) -> Response:
        """Receive the attestations of a file whose content was received."""
        if upload.status != "received":
            return problem_response(
                409, f"attestations follow the content; the upload is {upload.status}"
            )
        try:
            text = read_body(self.request, _MAX_ATTESTATIONS).decode()
        except UnicodeDecodeError:
            raise InvalidConfiguration("the file is not UTF-8") from None
        file = self.store.records.file(upload.filename, upload.session)
        sha256 = "" if file is None else file.sha256
        provenance, violations = provenance_of(text, upload.filename, sha256)
        if violations:
            raise refusal(violations)
        if provenance is not None:
            self.store.sessions.attest(upload, provenance)
        return Response(201)

    def _complete(self, session: Session, upload: SessionUpload) -> Response:
        if upload.status == "completed":
            return self._upload_state(session, upload, 201)
        if upload.status == "pending":
            self.store.sessions.move(upload, "error")
            return problem_response(
                400, "no content was received; delete the upload, and begin another one"
            )
        if upload.status != "received" or not self.store.sessions.move(upload, "completed"):
            status = self._upload(session, upload.id).status  # it may have changed meanwhile
            return problem_response(
                409, f"the upload is {status}; delete it, and begin another one"
            )
        return self._upload_state(session, self._upload(session, upload.id), 201)

    @property
    def _root(self) -> str:
        return f"{self.request.origin}/{SESSION_ROOT}"

    def _link(self, session: Session, upload: SessionUpload) -> str:
        return f"{self._root}/{session.id}/files/{session.token}/{upload.id}"

    def _log(
        self, event: str, user: AuthenticatedUser, session: Session, **fields: str | float
    ) -> None:
        release = f"{session.project} {session.version}"
        token = user.token
        self.log(
            event, subject=release, stage=session.id, owner=token.owner, token=token.id, **fields
        )


def _read_body(request: Request) -> JsonBody:
    """Read the JSON of a request, which has to name the supported version of the API."""
    body = read_json_body(request)
    meta = body.values.get("meta")
    version = meta.get("api-version") if isinstance(meta, dict) else None
    if version != API_METADATA["meta"]["api-version"]:
        raise InvalidConfiguration('meta.api-version is "2.0"')
    return body


def _hashes(value: object) -> dict[str, str]:
    """Return announced digests, of algorithms that can be checked."""
    if not isinstance(value, dict) or not all(
        isinstance(digest, str) and digest.isascii() for digest in value.values()
    ):
        raise InvalidConfiguration("hashes has digests by algorithm")
    supported = {name for name in hashlib.algorithms_guaranteed if not name.startswith("shake")}
    if unknown := sorted(map(str, value.keys() - supported)):
        raise InvalidConfiguration(f"{unknown[0][:80]!r} is not a known algorithm of digests")
    if not value.keys() - _WEAK_ALGORITHMS:
        raise InvalidConfiguration("a digest by a secure algorithm is needed, as sha256")
    return {name: digest.strip().lower() for name, digest in value.items()}


def _already_received(status: UploadStatus) -> Response:
    return problem_response(409, f"the content was received already; the upload is {status}")


def _require_open(session: Session) -> None:
    """Raise ``UploadRefused`` (``session-ended``) unless a session can be changed."""
    if session.status != "open":
        outcome = "published" if session.status == "published" else "cancelled"
        raise single_refusal("session-ended", f"the session was {outcome}", session.project)


def _differences(draft: Draft, upload: SessionUpload) -> list[Violation]:
    """Return the differences between a content and its announcement."""
    if draft.size > upload.size:
        message = f"it has more than the {upload.size} bytes that were announced"
        return [Violation("too-large", message, upload.filename)]
    violations = []
    if draft.size < upload.size:
        message = f"it has {count_of(draft.size, 'byte')} instead of the announced {upload.size}"
        violations.append(Violation("wrong-size", message, upload.filename))
    for name, announced in upload.hashes.items():
        if name == "sha256":
            actual = draft.sha256
        else:
            with draft.path.open("rb") as file:
                actual = hashlib.file_digest(file, name).hexdigest()
        if not hmac.compare_digest(announced.encode(), actual.encode()):
            message = f"{name} is {actual}, and {announced[:128]!r} was announced"
            violations.append(Violation("hash-mismatch", message, upload.filename))
    return violations


def _as_form(session: Session, upload: SessionUpload, draft: Draft) -> Upload:
    """Return an upload as the upload form would have it."""
    is_sdist = upload.filename.endswith((".tar.gz", ".zip"))
    fields = {
        ":action": "file_upload",
        "protocol_version": "1",
        "filetype": "sdist" if is_sdist else "bdist_wheel",
        "name": session.project,
        "version": str(session.version),
        "sha256_digest": draft.sha256,
    }
    return Upload(upload.filename, draft, {name: (value,) for name, value in fields.items()})


def _in_whole_seconds(time: str) -> str:
    """Return a time of the records in whole seconds."""
    return f"{time[:19]}Z"
