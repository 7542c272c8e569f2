"""Answer publishing sessions: the upload API 2.0 of PEP 694, draft of July 2026.

A session is a stage for one release. Its uploads are let in by the rules for forms of uploads, and
the stage is published and dropped as every other.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from packaging.utils import InvalidName, canonicalize_name
from packaging.version import InvalidVersion

from wheelfit.core.filename import parse_index_file_name, release_of
from wheelfit.core.versions import parse_version
from wheelfit.errors import UploadRefused
from wheelfit.server.hosting.access import BEARER, Denied
from wheelfit.server.hosting.api import JsonBody, read_body
from wheelfit.server.hosting.error_answers import META, problem, status_of
from wheelfit.server.messages import Answer
from wheelfit.server.store.opening import EMPTY_STAGE_LASTS
from wheelfit.server.store.records import Violation, refusal, violations_of
from wheelfit.server.store.sessions import Session, SessionUpload, shown_status
from wheelfit.server.store.tokens import digest, new_stage, written
from wheelfit.server.uploads.accepting import Accepted, accept
from wheelfit.server.uploads.form import Upload
from wheelfit.server.uploads.rules import check_name, provenance_of
from wheelfit_runtime.errors import FileProblem, InvalidConfiguration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wheelfit.server.hosting.access import Visitor
    from wheelfit.server.hosting.api import Rules
    from wheelfit.server.messages import Request
    from wheelfit.server.store.blobs import Draft
    from wheelfit.server.store.opening import Store

ROOT = "upload"
"""The path of the root endpoint."""
_TYPE = "application/vnd.pypi.upload.v2+json"
_MECHANISM = "http-post-bytes"
_LONGEST = timedelta(days=28)
"""How long after its creation a session may still be open, however often it is extended."""
_WEAK = frozenset({"md5", "sha1"})
_PIECE = 1 << 18
_MOST_ATTESTATIONS = 16 << 20
_MANY = 10_000
"""Uploads that one session has at most."""


@dataclass(frozen=True, slots=True)
class SessionApi:
    """The publishing sessions of an index, for one request.

    Each method that answers raises ``Denied``, ``UploadRefused``, ``InvalidConfiguration`` or
    ``FileProblem``; `answer` makes problem details of them.
    """

    store: Store
    rules: Rules
    now: Callable[[], datetime]
    identify: Callable[[], Visitor]
    """Returns who asks, or raises ``Denied``."""
    log: Callable[..., None]

    def answer(self, request: Request, words: Sequence[str]) -> Answer:
        """Answer a request.

        :param words: of the path, behind that of the root endpoint.
        """
        try:
            return self._answer(request, [word for word in words if word])
        except Denied as error:
            headers = {"www-authenticate": BEARER} if error.status == 401 else {}
            return problem(error.status, error.sentence, headers=headers)
        except UploadRefused as error:
            violations = violations_of(error)
            return problem(status_of(violations), str(violations[0]), violations)
        except FileProblem as error:
            return problem(404, error.message)
        except InvalidConfiguration as error:
            return problem(400, error.message)

    def _answer(self, request: Request, words: Sequence[str]) -> Answer:
        who = self.identify()
        who.need_scope("upload")
        if request.method == "POST":
            self._check_type(request, words)
        match request.method, *words:
            case ["POST"]:
                return self._create(request, who)
            case [method, session, *acts]:
                opened = self._session(session)
                who.need("upload", opened.project)
                return self._of_session(request, who, opened, method, acts)
        return problem(405, "a session is created by POST", headers={"allow": "POST"})

    def _of_session(
        self, request: Request, who: Visitor, session: Session, method: str, acts: Sequence[str]
    ) -> Answer:
        match method, *acts:
            case ["GET" | "HEAD"]:
                return self._told(request, session)
            case ["DELETE"]:
                return self._cancel(who, session)
            case ["POST", "publish"]:
                return self._publish(request, who, session)
            case ["POST", "extend"]:
                return self._extend(request, session)
            case ["POST", "files"]:
                return self._begin(request, session)
            case [_, "files", token, upload, *rest] if hmac.compare_digest(
                token.encode(), session.token.encode()
            ):
                return self._of_upload(request, who, self._upload(session, upload), rest)
        return problem(404, "there is no such endpoint, or not with this method")

    @staticmethod
    def _check_type(request: Request, words: Sequence[str]) -> None:
        """Check the type of a body; none of these can be sent by a form of a web page."""
        expected = _TYPE
        if words[-1:] == ["content"]:
            expected = "application/octet-stream"
        elif words[-1:] == ["attestations"]:
            expected = "application/json"
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != expected:
            raise Denied(415, f"the body of this request is sent as {expected}")

    # --- sessions -----------------------------------------------------------------------------

    def _session(self, id_: str) -> Session:
        """Return a session; one whose time is up is cancelled."""
        session = self.store.sessions.session(id_)
        if session is not None and session.status == "open" and self._is_over(session):
            self.store.records.drop(id_)
            session = self.store.sessions.session(id_)
        if session is None:
            raise FileProblem("there is no such session")
        return session

    def _is_over(self, session: Session) -> bool:
        return session.expires <= written(self.now())

    def _create(self, request: Request, who: Visitor) -> Answer:
        body = _read(request)
        project, version = body.text("name"), body.text("version")
        try:
            name = canonicalize_name(project, validate=True)
            parsed = parse_version(version)
        except InvalidName:
            raise InvalidConfiguration(f"{project[:80]!r} is not a name of a project") from None
        except InvalidVersion:
            raise InvalidConfiguration(f"{version[:80]!r} is not a version") from None
        who.need("upload", name)
        lasts, owner = timedelta(seconds=self.rules.stage_lasts), who.token.owner
        stage, token = new_stage(owner, now=self.now(), lasts=lasts)
        new = Session(stage.id, name, parsed, "open", token, stage.created, stage.expires)
        session = self.store.sessions.create(new, stage, digest(token), owner)
        if session.id != new.id and self._is_over(session):
            self.store.records.drop(session.id)
            session = self.store.sessions.create(new, stage, digest(token), owner)
        if session.id != new.id:
            where = {"location": f"{_root(request)}/{session.id}"}
            return problem(409, f"a session for {name} {parsed} is open", headers=where)
        self._note("session-opened", who, session)
        return self._told(request, session, 201)

    def _told(self, request: Request, session: Session, status: int = 200) -> Answer:
        """Return the state of a session as an answer."""
        here = f"{_root(request)}/{session.id}"
        uploads = self.store.sessions.uploads(session.id)
        expires = session.expires
        if not uploads:  # one that stays empty goes sooner
            first = datetime.fromisoformat(session.created) + EMPTY_STAGE_LASTS
            expires = min(expires, written(first))
        is_open = session.status == "open"
        value = {
            **META,
            "links": {
                "stage": f"{request.origin}/stage/{session.token}/simple/",
                "upload": f"{here}/files",
                "session": here,
                "publish": f"{here}/publish",
                "extend": f"{here}/extend",
            },
            "mechanisms": [_MECHANISM],
            "session-token": session.token,
            "expires-at": _moment(expires),
            "status": session.status,
            "files": {
                one.filename: {
                    "status": shown_status(one.status),
                    "link": self._link(request, session, one),
                    "_wheelfit": {"sha256": one.hashes.get("sha256")},
                }
                for one in uploads
                if is_open or session.status == "published"
            },
        }
        return _said(status, value, {"location": here} if status != 200 else {})

    def _publish(self, request: Request, who: Visitor, session: Session) -> Answer:
        _read(request)
        _need_open(session)
        self.store.records.publish(session.id, time=written(self.now()))
        self._note("session-published", who, session)
        return self._told(request, self._session(session.id), 201)

    def _cancel(self, who: Visitor, session: Session) -> Answer:
        if session.status == "published":
            return problem(409, "the session is published")
        if session.status == "open":
            self.store.records.drop(session.id)
            self._note("session-cancelled", who, session)
        return Answer(204)

    def _extend(self, request: Request, session: Session) -> Answer:
        body = _read(request)
        _need_open(session)
        more = timedelta(seconds=body.seconds("extend-for", 0.0) or 0.0)
        latest = datetime.fromisoformat(session.created) + _LONGEST
        wanted = min(datetime.fromisoformat(session.expires) + more, latest)
        self.store.sessions.extend(session.id, written(wanted))
        return self._told(request, self._session(session.id))

    # --- uploads ------------------------------------------------------------------------------

    def _upload(self, session: Session, id_: str) -> SessionUpload:
        upload = self.store.sessions.upload(id_)
        if upload is None or upload.session != session.id:
            raise FileProblem("there is no such upload")
        return upload

    def _begin(self, request: Request, session: Session) -> Answer:
        body = _read(request)
        _need_open(session)
        filename, size = body.text("filename"), body.values.get("size")
        release = parse_index_file_name(filename)
        if release is None:
            if wrong := check_name(filename):
                raise refusal(wrong)
            release = release_of(filename)
        if release is None:
            message = "it is not the name of a wheel or a source distribution"
            raise refusal([Violation("invalid-filename", message, filename)])
        if release != (session.project, session.version):
            message = f"the session is for {session.project} {session.version}"
            raise refusal([Violation("other-release", message, filename)])
        if type(size) is not int or size < 0:
            raise InvalidConfiguration("size is a number of bytes")
        if size > self.rules.file_size:
            message = f"it has more than {self.rules.file_size} bytes"
            raise refusal([Violation("too-large", message, filename)])
        if body.text("mechanism") != _MECHANISM:
            return problem(422, f"the one mechanism here is {_MECHANISM}")
        if len(self.store.sessions.uploads(session.id)) >= _MANY:
            message = f"the session has {_MANY} uploads"
            raise refusal([Violation("too-large", message, filename)])
        hashes = _hashes(body.values.get("hashes"))
        upload = SessionUpload(secrets.token_hex(8), session.id, filename, size, hashes)
        self.store.sessions.begin(upload)
        return self._upload_told(request, session, upload, 202)

    def _link(self, request: Request, session: Session, upload: SessionUpload) -> str:
        return f"{_root(request)}/{session.id}/files/{session.token}/{upload.id}"

    def _upload_told(
        self, request: Request, session: Session, upload: SessionUpload, status: int = 200
    ) -> Answer:
        here = self._link(request, session, upload)
        value = {
            **META,
            "links": {"file-upload-session": here, "complete": f"{here}/complete"},
            "status": shown_status(upload.status),
            "expires-at": _moment(session.expires),
            "mechanism": {
                "identifier": _MECHANISM,
                "file_url": f"{here}/content",
                "attestations_url": f"{here}/attestations",
            },
        }
        return _said(status, value, {"retry-after": "1", "location": here})

    def _of_upload(
        self, request: Request, who: Visitor, upload: SessionUpload, acts: Sequence[str]
    ) -> Answer:
        session = self._session(upload.session)
        match request.method, *acts:
            case ["GET" | "HEAD"]:
                return self._upload_told(request, session, upload)
            case ["DELETE"]:
                _need_open(session)
                self.store.sessions.cancel(upload)
                return Answer(204)
            case ["POST", "content"]:
                _need_open(session)
                return self._take(request, who, session, upload)
            case ["POST", "attestations"]:
                _need_open(session)
                return self._attest(request, upload)
            case ["POST", "complete"]:
                _read(request)
                _need_open(session)
                return self._complete(request, session, upload)
        return problem(404, "there is no such endpoint, or not with this method")

    def _take(
        self, request: Request, who: Visitor, session: Session, upload: SessionUpload
    ) -> Answer:
        """Take the content of a file, and check all that can be wrong with it."""
        if upload.status != "pending":
            return problem(409, f"the content came already; the upload is {upload.status}")
        sessions = self.store.sessions
        with self.store.blobs.draft() as draft:
            while draft.size <= upload.size and (piece := request.body.read(_PIECE)):
                draft.write(piece)
            violations = tuple(_differences(draft, upload))
            if not violations:
                came = _as_form(session, upload, draft)
                owner = who.token.owner
                outcome = accept(came, self.store, now=self.now(), stage=session.id, by=owner)
                violations = () if isinstance(outcome, Accepted) else outcome
        if violations:
            sessions.move(upload, "error")
            raise refusal(violations)
        if not sessions.move(upload, "received"):
            sessions.cancel(upload)
            return problem(409, "the upload was cancelled meanwhile")
        self._note("upload", who, session, file=upload.filename, size=upload.size)
        return Answer(201)

    def _attest(self, request: Request, upload: SessionUpload) -> Answer:
        """Take what was attested about a file that came."""
        if upload.status != "received":
            return problem(409, f"attestations follow the content; the upload is {upload.status}")
        text = _bounded(request, _MOST_ATTESTATIONS)
        sha256 = self.store.records.file(upload.filename, upload.session)
        provenance, violations = provenance_of(
            text, upload.filename, "" if sha256 is None else sha256.sha256
        )
        if violations:
            raise refusal(violations)
        if provenance is not None:
            self.store.sessions.attest(upload, provenance)
        return Answer(201)

    def _complete(self, request: Request, session: Session, upload: SessionUpload) -> Answer:
        if upload.status == "completed":
            return self._upload_told(request, session, upload, 201)
        if upload.status == "pending":
            self.store.sessions.move(upload, "error")
            return problem(400, "no content came; delete the upload, and begin another one")
        is_checked = upload.status == "received"
        if not is_checked or not self.store.sessions.move(upload, "completed"):
            return problem(409, f"the upload is {upload.status}; delete it, and begin another one")
        return self._upload_told(request, session, self._upload(session, upload.id), 201)

    def _note(self, event: str, who: Visitor, session: Session, **more: str | float) -> None:
        release = f"{session.project} {session.version}"
        facts = {"stage": session.id, "owner": who.token.owner, "token": who.token.id}
        self.log(event, what=release, **facts, **more)


# --- what requests say ----------------------------------------------------------------------


def _read(request: Request) -> JsonBody:
    """Read the JSON of a request."""
    body = read_body(request)
    meta = body.values.get("meta")
    version = meta.get("api-version") if isinstance(meta, dict) else None
    if version != META["meta"]["api-version"]:
        raise InvalidConfiguration('meta.api-version is "2.0"')
    return body


def _hashes(value: object) -> dict[str, str]:
    """Return announced digests, of algorithms that can be checked."""
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise InvalidConfiguration("hashes has digests by algorithm")
    known = {name for name in hashlib.algorithms_guaranteed if not name.startswith("shake")}
    if unknown := sorted(map(str, value.keys() - known)):
        raise InvalidConfiguration(f"{unknown[0][:80]!r} is not a known algorithm of digests")
    if not value.keys() - _WEAK:
        raise InvalidConfiguration("a digest by a secure algorithm is needed, as sha256")
    return {name: one.strip().lower() for name, one in value.items()}


def _bounded(request: Request, most: int) -> str:
    data = b""
    while piece := request.body.read(_PIECE):
        data += piece
        if len(data) > most:
            raise InvalidConfiguration(f"it has more than {most} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidConfiguration("it is not text in UTF-8") from None


def _need_open(session: Session) -> None:
    """Check that a session can be changed.

    :raises UploadRefused: ``session-ended``.
    """
    if session.status != "open":
        words = {"published": "published", "canceled": "cancelled"}[session.status]
        message = f"the session was {words}"
        raise refusal([Violation("session-ended", message, session.project)])


def _differences(draft: Draft, upload: SessionUpload) -> list[Violation]:
    """Return in what a content differs from what was announced."""
    found = []
    if draft.size > upload.size:
        message = f"it has more than the {upload.size} bytes that were announced"
        return [Violation("too-large", message, upload.filename)]
    if draft.size < upload.size:
        message = f"{draft.size} bytes came, {upload.size} were announced"
        found.append(Violation("wrong-size", message, upload.filename))
    for name, announced in upload.hashes.items():
        if name == "sha256":
            digest_ = draft.sha256
        else:
            with draft.path.open("rb") as file:
                digest_ = hashlib.file_digest(file, name).hexdigest()
        if not hmac.compare_digest(announced.encode(), digest_.encode()):
            message = f"{name} is {digest_}, and {announced[:128]!r} was announced"
            found.append(Violation("hash-mismatch", message, upload.filename))
    return found


def _as_form(session: Session, upload: SessionUpload, draft: Draft) -> Upload:
    """Return an upload as the form for uploads would have brought it."""
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


# --- what answers say -----------------------------------------------------------------------


def _root(request: Request) -> str:
    return f"{request.origin}/{ROOT}"


def _moment(time: str) -> str:
    """Write a time of the records in whole seconds."""
    return f"{time[:19]}Z"


def _said(status: int, value: dict[str, Any], headers: dict[str, str]) -> Answer:
    kind = {"content-type": _TYPE, "cache-control": "no-store"}
    return Answer.of(status, json.dumps(value).encode(), {**kind, **headers})
