"""An index with publishing sessions (PEP 694), for tests: one that keeps to the states there."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from server.legacy import LegacyIndex

from wheelfit.server.messages import Request, Response

_TYPE = {"content-type": "application/vnd.pypi.upload.v2+json"}


@dataclass
class Upload:
    """A file of a session."""

    said: dict[str, Any]
    content: bytes = b""
    attestations: list[object] = field(default_factory=list)
    status: str = "pending"


@dataclass
class Session:
    """A session for one release."""

    name: str
    version: str
    status: str = "open"
    files: dict[str, Upload] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)


class SessionServer(LegacyIndex):
    """Serve sessions below ``/sessions/``; what is published appears on the pages."""

    sessions: dict[str, Session]
    is_slow: bool = False
    """Whether it works on files and releases after it has answered."""
    takes_index_files: bool = True
    fails_at: str = ""
    """The name of a file whose content is not taken: the connection is cut."""
    refuses: str = ""
    """The name of a file that does not pass."""
    elsewhere: str = ""
    """Where links lead instead."""
    is_page: bool = False
    """Whether there is a page for people instead."""

    @property
    def root(self) -> str:
        """The root endpoint."""
        return f"{self.url}sessions/"

    def answer(self, request: Request) -> Response:
        """Answer a request."""
        if not hasattr(self, "sessions"):
            self.sessions = {}
        if not request.path.startswith("/sessions/"):
            return super().answer(request)
        body = b"".join(iter(lambda: request.body.read(1 << 20), b""))
        parts = [part for part in request.path.split("/")[2:] if part]
        match [request.method, *parts]:
            case ["POST"] if self.is_page:
                return Response(200, {"content-type": "text/html"}, [b"<html></html>"], 13)
            case ["POST"]:
                return self._open(json.loads(body))
            case [method, key]:
                return self._session(method, key)
            case ["POST", key, "publish"]:
                return self._publish(key)
            case ["POST", key, "upload"]:
                return self._begin(key, json.loads(body))
            case [method, key, name, *act]:
                return self._file(method, key, name, act, body)
        return _problem(404, "no such endpoint")

    def _open(self, said: dict[str, Any]) -> Response:
        assert said["meta"] == {"api-version": "2.0"}
        for key, one in self.sessions.items():
            if (one.name, one.version) == (said["name"], said["version"]) and one.status in (
                "open", "processing", "error"
            ):  # fmt: skip
                return _problem(409, "a session is open", location=f"/sessions/{key}")
        key = f"s{len(self.sessions)}"
        self.sessions[key] = Session(said["name"], said["version"])
        return self._status(key, 201)

    def _status(self, key: str, status: int = 200) -> Response:
        session = self.sessions[key]
        here = f"{self.elsewhere or self.url}sessions/{key}"
        links = {"session": here, "publish": f"{here}/publish", "upload": f"{here}/upload"}
        files = {name: {"status": one.status, "link": f"{here}/{name}"}
                 for name, one in session.files.items()}  # fmt: skip
        return _said(status, links=links, mechanisms=["http-post-bytes"], status=session.status,
                     files=files, notices=session.notices)  # fmt: skip

    def _session(self, method: str, key: str) -> Response:
        session = self.sessions[key]
        if method == "DELETE":
            session.status = "canceled"
            return Response.of(204, b"", {})
        if session.status == "processing":
            self._show(session)
        return self._status(key)

    def _begin(self, key: str, said: dict[str, Any]) -> Response:
        name = said["filename"]
        if name in self.names:
            return _problem(409, "the file is published")
        if name.endswith(".json") and not self.takes_index_files:
            return _problem(400, "this is no name of a wheel")
        assert said["mechanism"] == "http-post-bytes"
        self.sessions[key].files[name] = Upload(said)
        here = f"{self.url}sessions/{key}/{name}"
        mechanism = {"identifier": "http-post-bytes", "file_url": f"{here}/content",
                     "attestations_url": f"{here}/attestations"}  # fmt: skip
        links = {"file-upload-session": here, "complete": f"{here}/complete"}
        return _said(202, status="pending", mechanism=mechanism, links=links)

    def _file(self, method: str, key: str, name: str, act: list[str], body: bytes) -> Response:
        files = self.sessions[key].files
        upload = files[name]
        match [method, *act]:
            case ["POST", "content"]:
                if name == self.fails_at:
                    return _problem(503, "not now")
                upload.content = body
                return Response.of(201, b"", {})
            case ["POST", "attestations"]:
                upload.attestations = json.loads(body)
                return Response.of(201, b"", {})
            case ["POST", "complete"]:
                upload.status = "processing" if self.is_slow else self._looked(name, upload)
                if upload.status == "error":
                    return _problem(400, "it did not pass")
                return _said(202 if self.is_slow else 201, status=upload.status)
            case ["GET"]:
                if upload.status == "processing":
                    upload.status = self._looked(name, upload)
                return _said(200, status=upload.status, notices=["it did not pass"])
            case ["DELETE"]:
                del files[name]
                return Response.of(204, b"", {})
        return _problem(404, "no such endpoint")

    def _looked(self, name: str, upload: Upload) -> str:
        is_whole = hashlib.sha256(upload.content).hexdigest() == upload.said["hashes"]["sha256"]
        is_whole = is_whole and len(upload.content) == upload.said["size"]
        return "completed" if is_whole and name != self.refuses else "error"

    def _publish(self, key: str) -> Response:
        session = self.sessions[key]
        if any(file.status != "completed" for file in session.files.values()):
            return _problem(409, "a file is not there yet")
        session.status = "processing"
        if not self.is_slow:
            self._show(session)
        return self._status(key, 202 if self.is_slow else 201)

    def _show(self, session: Session) -> None:
        for name, one in session.files.items():
            (self.folder / name).write_bytes(one.content)
        session.status = "published"


def _said(code: int, **said: object) -> Response:
    return Response.of(code, json.dumps({"meta": {"api-version": "2.0"}, **said}).encode(),
                     {**_TYPE, "retry-after": "0"})  # fmt: skip


def _problem(status: int, title: str, **headers: str) -> Response:
    said = {"title": title, "status": status, "errors": [{"source": "x", "message": "see there"}]}
    kind = {"content-type": "application/problem+json", **headers}
    return Response.of(status, json.dumps(said).encode(), kind)
