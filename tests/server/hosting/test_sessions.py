"""Publishing sessions of a live index (PEP 694), over its routes and without a socket."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name
from server.hosting.hosts import Host
from server.running import basic
from server.uploading import CONTENT_TYPE, DOCUMENT, fields_of, form

from wheelfit.server.hosting.access import authenticate
from wheelfit.server.hosting.administration import HostingRules
from wheelfit.server.hosting.sessions import SessionApi
from wheelfit.server.messages import Request, Response
from wheelfit.server.store.opening import Store, clean
from wheelfit.testing.wheels import build_wheel

pytest.importorskip("prometheus_client", reason="needs the extra `server`")
pytest.importorskip("python_multipart", reason="needs the extra `server`")

ORIGIN = "https://wheels.example"
TYPE = "application/vnd.pypi.upload.v2+json"
API_METADATA = {"meta": {"api-version": "2.0"}}


class SessionHost(Host):
    """An index with a publisher."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, HostingRules(file_size=1 << 20))
        self.publisher = self.token("upload", owner="ann")

    def call(
        self,
        method: str,
        url: str,
        said: object = None,
        *,
        token: str | None = None,
        kind: str = TYPE,
    ) -> Response:
        """Send a request; a body that is not bytes is sent as JSON."""
        shown = self.publisher if token is None else token
        headers = {"content-type": kind} | ({"authorization": basic(shown)} if shown else {})
        data = said if isinstance(said, bytes) else json.dumps(said).encode() if said else b""
        path = url.removeprefix(ORIGIN)
        return self.index(Request(method, path, headers, origin=ORIGIN, body=io.BytesIO(data)))

    def create(self, name: str = "fast", version: str = "1.0", **options: Any) -> Response:
        """Create a session."""
        return self.call(
            "POST", "/upload/", {**API_METADATA, "name": name, "version": version}, **options
        )

    def begin(self, session: Mapping[str, Any], path: Path, **changes: Any) -> Response:
        """Begin an upload of a file."""
        content = path.read_bytes()
        said = {
            **API_METADATA,
            "filename": path.name,
            "size": len(content),
            "hashes": {"sha256": hashlib.sha256(content).hexdigest()},
            "mechanism": "http-post-bytes",
        }
        return self.call("POST", session["links"]["upload"], said | changes)

    def put(self, upload: Mapping[str, Any], content: bytes) -> Response:
        """Send the content of a file."""
        url = upload["mechanism"]["file_url"]
        return self.call("POST", url, content, kind="application/octet-stream")

    def send(self, session: Mapping[str, Any], path: Path) -> dict[str, Any]:
        """Send a file, and complete it."""
        upload = read(self.begin(session, path), 202)
        assert self.put(upload, path.read_bytes()).status == 201
        return read(self.call("POST", upload["links"]["complete"], API_METADATA), 201)

    def names(self, page: str = "/simple/fast/") -> set[str]:
        """Return the files on a page."""
        headers = {"accept": "application/vnd.pypi.simple.v1+json"}
        answer = self.index(Request("GET", page.removeprefix(ORIGIN), headers))
        return (
            {file["filename"] for file in read(answer)["files"]} if answer.status == 200 else set()
        )


def read(answer: Response, status: int = 200) -> dict[str, Any]:
    """Return the JSON of a response."""
    text = b"".join(answer.body)
    assert answer.status == status, text
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def refused(answer: Response) -> tuple[int, set[str]]:
    """Return the status and references of problem details (RFC 9457)."""
    assert answer.headers["content-type"] == "application/problem+json"
    value = read(answer, answer.status)
    assert value["status"] == answer.status
    assert value["title"]
    assert value["meta"] == {"api-version": "2.0"}
    return answer.status, {error["reference"] for error in value["errors"]}


@pytest.fixture
def host(store: Store) -> Iterator[SessionHost]:
    """Return an index."""
    host = SessionHost(store)
    yield host
    host.log.close()


@pytest.fixture
def wheels(tmp_path: Path) -> list[Path]:
    """Return a release with two variants."""
    return [
        build_wheel(tmp_path / "dist", "fast", "1.0", label=label, document=DOCUMENT)
        for label in ("mkl", "open")
    ]


def test_atomic_release(host: SessionHost, wheels: list[Path]) -> None:
    """Files of a session are visible only by its address until it is published."""
    answer = host.create("Fast", "1.0")
    session = read(answer, 201)
    assert answer.headers["location"] == session["links"]["session"]
    assert answer.headers["content-type"] == TYPE
    assert (session["status"], session["files"]) == ("open", {})
    assert session["mechanisms"] == ["http-post-bytes"]
    assert session["session-token"] in session["links"]["stage"]
    for path in wheels:
        assert host.send(session, path)["status"] == "completed"
    status = read(host.call("GET", session["links"]["session"]))
    assert {name: one["status"] for name, one in status["files"].items()} == {
        path.name: "completed" for path in wheels
    }
    for one in status["files"].values():
        assert one["link"].startswith(f"{ORIGIN}/")
        assert session["session-token"] in one["link"]
        assert read(host.call("GET", one["link"]))["status"] == "completed"
    assert host.names() == set()
    preview = {path.name for path in wheels} | {"fast-1.0-variants.json"}
    assert host.names(f"{session['links']['stage']}fast/") == preview
    published = read(host.call("POST", session["links"]["publish"], API_METADATA), 201)
    assert published["status"] == "published"
    assert host.names() == preview
    assert host.names(f"{session['links']['stage']}fast/") == set()
    assert read(host.call("GET", session["links"]["session"]))["status"] == "published"
    assert host.call("DELETE", session["links"]["session"]).status == 409
    other = read(host.create(), 201)  # the release may get more files
    assert other["session-token"] != session["session-token"]
    assert refused(host.begin(other, wheels[0])) == (409, {"name-taken"})
    host.log.close()
    assert session["session-token"] not in host.written.getvalue()


def test_second_session(host: SessionHost) -> None:
    """A second session is not created; the response links to the first."""
    session = read(host.create(), 201)
    again = host.create("FAST", "1")
    assert refused(again) == (409, set())
    assert again.headers["location"] == session["links"]["session"]
    assert read(host.create("fast", "2.0"), 201)["links"] != session["links"]
    assert host.call("DELETE", session["links"]["session"]).status == 204
    assert read(host.call("GET", session["links"]["session"]))["status"] == "canceled"
    assert host.call("DELETE", session["links"]["session"]).status == 204
    assert read(host.create(), 201)["links"] != session["links"]


def test_permissions(host: SessionHost) -> None:
    """Each request is authorised by its own token; a new name is reserved at once."""
    other = host.token("upload", owner="bob")
    assert refused(host.create(token=""))[0] == 401
    assert "www-authenticate" in host.create(token="").headers
    assert refused(host.create(token=host.token("read")))[0] == 403
    session = read(host.create(), 201)
    assert refused(host.create(token=other))[0] == 403
    assert refused(host.call("GET", session["links"]["session"], token=other))[0] == 403
    assert (
        refused(host.call("POST", session["links"]["publish"], API_METADATA, token=other))[0] == 403
    )
    second = host.token("upload", owner="ann", projects=[canonicalize_name("fast")])
    assert host.call("GET", session["links"]["session"], token=second).status == 200
    host.call("DELETE", session["links"]["session"])
    assert read(host.create(token=other), 201)["status"] == "open"  # the name is free again


def test_publishing_without_files(host: SessionHost) -> None:
    """PEP 694: publishing a session without files reserves the name permanently."""
    session = read(host.create(version="0.0.0a0"), 201)
    assert (
        read(host.call("POST", session["links"]["publish"], API_METADATA), 201)["status"]
        == "published"
    )
    other = read(host.create(), 201)
    host.call("DELETE", other["links"]["session"])
    assert refused(host.create(token=host.token("upload", owner="bob")))[0] == 403
    assert host.store.records.owns_name(canonicalize_name("fast"))
    assert host.names() == set()


def test_upload_states(host: SessionHost, wheels: list[Path]) -> None:
    """An unfinished upload blocks publishing; a cancelled upload is removed."""
    session = read(host.create(), 201)
    upload = read(host.begin(session, wheels[0]), 202)
    link = upload["links"]["file-upload-session"]
    assert upload["status"] == "pending"
    assert refused(host.begin(session, wheels[0])) == (409, {"upload-unfinished"})
    publish = session["links"]["publish"]
    assert refused(host.call("POST", publish, API_METADATA)) == (409, {"upload-unfinished"})
    assert host.put(upload, wheels[0].read_bytes()).status == 201
    assert refused(host.put(upload, b"x"))[0] == 409
    assert read(host.call("GET", link))["status"] == "pending"
    assert refused(host.call("POST", publish, API_METADATA)) == (409, {"upload-unfinished"})
    assert host.call("DELETE", link).status == 204
    assert read(host.call("GET", link))["status"] == "canceled"
    assert read(host.call("GET", session["links"]["session"]))["files"] == {}
    assert refused(host.call("POST", upload["links"]["complete"], API_METADATA))[0] == 409
    empty = read(host.begin(session, wheels[0]), 202)
    assert refused(host.call("POST", empty["links"]["complete"], API_METADATA))[0] == 400
    assert read(host.call("GET", empty["links"]["file-upload-session"]))["status"] == "error"
    host.send(session, wheels[0])  # which replaces it
    host.send(session, wheels[0])  # and so does the next
    assert host.send(session, wheels[1])["status"] == "completed"
    assert read(host.call("POST", publish, API_METADATA), 201)["status"] == "published"


@pytest.mark.parametrize(
    ("changes", "status", "references"),
    [
        ({"filename": "fast-2.0-py3-none-any.whl"}, 400, {"other-release"}),
        ({"filename": "other-1.0.tar.gz"}, 400, {"other-release"}),
        ({"filename": "../fast-1.0.tar.gz"}, 400, {"invalid-filename"}),
        ({"filename": "fast.exe"}, 400, {"invalid-filename"}),
        ({"mechanism": "vnd-acme-postal"}, 422, set()),
        ({"size": -1}, 400, set()),
        ({"size": True}, 400, set()),
        ({"size": 2 << 20}, 413, {"too-large"}),
        ({"hashes": {"md5": "0"}}, 400, set()),
        ({"hashes": {"sha256": 1}}, 400, set()),
        ({"hashes": {"sha256": "0", "crc": "0"}}, 400, set()),
        ({"meta": {"api-version": "3.0"}}, 400, set()),
    ],
)
def test_uploads_refused_before_the_content(
    host: SessionHost,
    wheels: list[Path],
    changes: dict[str, Any],
    status: int,
    references: set[str],
) -> None:
    """What can be checked before the content is refused before it."""
    session = read(host.create(), 201)
    assert refused(host.begin(session, wheels[0], **changes)) == (status, references)
    assert read(host.call("GET", session["links"]["session"]))["files"] == {}


@pytest.mark.parametrize(
    ("content", "changes", "references"),
    [
        (b"", {}, {"wrong-size", "hash-mismatch"}),
        (b"x" * 100_000, {}, {"too-large"}),
        (None, {"hashes": {"sha256": "0" * 64}}, {"hash-mismatch"}),
        (None, {"hashes": {"sha512": "0" * 128}}, {"hash-mismatch"}),
        (b"PK", {"size": 2, "hashes": {"sha256": hashlib.sha256(b"PK").hexdigest()}},
         {"unsound-archive"}),
    ],
)  # fmt: skip
def test_invalid_contents(
    host: SessionHost, wheels: list[Path], content: bytes | None, changes: Any, references: set[str]
) -> None:
    """Content is checked against the announcement and the rules for uploads."""
    session = read(host.create(), 201)
    upload = read(host.begin(session, wheels[0], **changes), 202)
    answer = host.put(upload, wheels[0].read_bytes() if content is None else content)
    status, found = refused(answer)
    assert status in (400, 413)
    assert references <= found
    assert host.names(f"{session['links']['stage']}fast/") == set()
    assert read(host.create("fast", "3.0"), 201)["status"] == "open"


def test_attestations(host: SessionHost, wheels: list[Path]) -> None:
    """PEP 740: attestations follow the content, and invalid ones are refused."""
    pytest.importorskip("pypi_attestations", reason="needs the extra `attestations`")
    session = read(host.create(), 201)
    upload = read(host.begin(session, wheels[0]), 202)
    url, kind = upload["mechanism"]["attestations_url"], "application/json"
    assert refused(host.call("POST", url, b"[]", kind=kind))[0] == 409
    host.put(upload, wheels[0].read_bytes())
    assert refused(host.call("POST", url, b"[{}]", kind=kind)) == (400, {"bad-attestation"})
    assert host.call("POST", upload["links"]["complete"], API_METADATA).status == 201


def test_expiry(host: SessionHost, wheels: list[Path]) -> None:
    """Empty sessions expire early, others later, and clients can extend them."""
    session = read(host.create(), 201)
    assert session["expires-at"] == "2026-11-22T18:00:00Z"
    host.send(session, wheels[0])
    link = session["links"]["session"]
    assert read(host.call("GET", link))["expires-at"] == "2026-11-29T12:00:00Z"
    longer = read(
        host.call("POST", session["links"]["extend"], {**API_METADATA, "extend-for": 3600})
    )
    assert longer["expires-at"] == "2026-11-29T13:00:00Z"
    longest = {**API_METADATA, "extend-for": 1e9}
    assert read(host.call("POST", session["links"]["extend"], longest))["expires-at"] == (
        "2026-12-20T12:00:00Z"
    )
    empty = read(host.create("fast", "2.0"), 201)
    host.time += timedelta(hours=7)
    assert clean(host.store, now=host.time, grace=timedelta(days=1)).stages == 1
    assert read(host.call("GET", empty["links"]["session"]))["status"] == "canceled"
    host.time += timedelta(days=28)
    assert read(host.call("GET", link))["status"] == "canceled"  # before anybody cleans up
    assert read(host.create(), 201)["status"] == "open"
    host.time += timedelta(days=8)
    clean(host.store, now=host.time, grace=timedelta(days=1))
    assert refused(host.call("GET", link)) == (404, set())


def test_operators_view(host: SessionHost, wheels: list[Path]) -> None:
    """The operator lists and drops sessions; the legacy upload form cannot use them."""
    session = read(host.create(), 201)
    host.send(session, wheels[0])
    (stage,) = host.store.records.stages()
    content = wheels[1].read_bytes()
    body = io.BytesIO(form(wheels[1].name, content, fields_of(wheels[1].name, content)))
    headers = {"authorization": basic(host.publisher), "content-type": CONTENT_TYPE}
    path = f"/stage/{stage.id}/legacy/"
    assert host.index(Request("POST", path, headers, body=body)).status == 409
    host.store.records.drop(stage.id)
    assert read(host.call("GET", session["links"]["session"]))["status"] == "canceled"
    assert refused(host.begin(session, wheels[1])) == (409, {"session-ended"})


def test_invalid_requests(host: SessionHost, wheels: list[Path]) -> None:
    """Invalid requests are answered with problem details."""
    session = read(host.create(), 201)
    upload = read(host.begin(session, wheels[0]), 202)
    guessed = upload["links"]["complete"].replace(session["session-token"], "wheelfit-stage-x")
    assert refused(host.call("POST", guessed, API_METADATA))[0] == 404
    assert refused(host.call("GET", "/upload/"))[0] == 405
    assert refused(host.call("GET", "/upload"))[0] == 405
    assert refused(host.call("GET", "/upload/0123456789abcdef"))[0] == 404
    assert refused(host.call("POST", "/upload/", API_METADATA, kind="application/json"))[0] == 415
    assert refused(host.call("POST", "/upload/", b"{"))[0] == 400
    assert refused(host.call("POST", "/upload/", b"[]"))[0] == 400
    assert refused(host.create("-", "1.0"))[0] == 400
    assert refused(host.create("fast", "one"))[0] == 400
    assert refused(host.call("POST", f"{session['links']['session']}/more", API_METADATA))[0] == 404
    assert host.index(Request("GET", "/stage/wheelfit-stage-x/simple/")).status == 404
    attack = {"sec-fetch-site": "cross-site", "authorization": basic(host.publisher)}
    assert host.index(Request("DELETE", f"/upload/{session['links']['session'][-16:]}", attack)
                      ).status == 403  # fmt: skip


class InterruptedBody(io.BytesIO):
    """A body during whose receipt something else happens."""

    def __init__(self, content: bytes, meanwhile: Callable[[], object]) -> None:
        super().__init__(content)
        self._meanwhile = meanwhile

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes."""
        if self.tell() == 0:
            self._meanwhile()
        return super().read(size)


def test_content_sent_twice_at_once(host: SessionHost, wheels: list[Path]) -> None:
    """A client that repeats a request too early does not cancel what the first one sent."""
    session = read(host.create(), 201)
    upload = read(host.begin(session, wheels[0]), 202)
    content = wheels[0].read_bytes()

    def first() -> None:
        assert host.put(upload, content).status == 201

    headers = {"content-type": "application/octet-stream", "authorization": basic(host.publisher)}
    path = upload["mechanism"]["file_url"].removeprefix(ORIGIN)
    body = InterruptedBody(content, first)
    second = host.index(Request("POST", path, headers, origin=ORIGIN, body=body))
    assert "received already" in read(second, 409)["title"]
    assert read(host.call("POST", upload["links"]["complete"], API_METADATA), 201)
    assert read(host.call("POST", session["links"]["publish"], API_METADATA), 201)
    assert wheels[0].name in host.names()


def test_sent_again_after_it_was_cancelled(host: SessionHost, wheels: list[Path]) -> None:
    """The end of a cancelled upload leaves a later one of the same file as it is."""
    session = read(host.create(), 201)
    upload = read(host.begin(session, wheels[0]), 202)
    link = upload["links"]["file-upload-session"]

    def replace_it() -> None:
        assert host.call("DELETE", link).status == 204
        host.send(session, wheels[0])

    headers = {"content-type": "application/octet-stream", "authorization": basic(host.publisher)}
    path = upload["mechanism"]["file_url"].removeprefix(ORIGIN)
    body = InterruptedBody(wheels[0].read_bytes(), replace_it)
    answer = host.index(Request("POST", path, headers, origin=ORIGIN, body=body))
    assert "cancelled meanwhile" in read(answer, 409)["title"]
    assert host.call("DELETE", link).status == 204
    assert read(host.call("POST", session["links"]["publish"], API_METADATA), 201)
    assert wheels[0].name in host.names()


def test_cancelled_while_it_is_published(host: SessionHost) -> None:
    """A session that is cancelled meanwhile is not published, and its name stays free."""
    session = read(host.create(), 201)
    (stage,) = host.store.records.stages()
    headers = {"content-type": TYPE, "authorization": basic(host.publisher)}
    body = InterruptedBody(
        json.dumps(API_METADATA).encode(), lambda: host.store.records.drop(stage.id)
    )
    path = session["links"]["publish"].removeprefix(ORIGIN)
    answer = host.index(Request("POST", path, headers, origin=ORIGIN, body=body))
    assert refused(answer) == (409, {"session-ended"})
    assert read(host.call("GET", session["links"]["session"]))["status"] == "canceled"
    assert not host.store.records.owns_name(canonicalize_name("fast"))


@pytest.mark.parametrize("cancelled", ["session", "upload"])
def test_published_while_it_is_cancelled(
    host: SessionHost, wheels: list[Path], cancelled: str
) -> None:
    """A session that is published meanwhile is not cancelled, nor is a file of it."""
    session = read(host.create(), 201)
    (stage,) = host.store.records.stages()
    link = host.send(session, wheels[0])["links"]["file-upload-session"]
    link = session["links"]["session"] if cancelled == "session" else link
    path = link.removeprefix(f"{ORIGIN}/upload/")
    request = Request("DELETE", path, {"authorization": basic(host.publisher)}, origin=ORIGIN)

    def publish() -> datetime:  # the clock is read after the session
        host.store.records.publish(stage.id, time="2026-11-22T12:00:00Z")
        return host.time

    user = authenticate(request, host.store.records, now=host.time)
    api = SessionApi(request, host.store, HostingRules(), publish, lambda: user, host.log)
    response = api.respond(path.split("/"))
    assert refused(response)[0] == 409
    assert read(host.call("GET", session["links"]["session"]))["status"] == "published"
    assert wheels[0].name in host.names()
    assert "session-cancelled" not in host.written.getvalue()


def test_dropped_after_it_was_published(host: SessionHost, wheels: list[Path]) -> None:
    """A late drop, as of a cleaning at the same time, leaves a published session published."""
    session = read(host.create(), 201)
    (stage,) = host.store.records.stages()
    host.send(session, wheels[0])
    assert read(host.call("POST", session["links"]["publish"], API_METADATA), 201)
    assert host.store.records.drop(stage.id) == 0
    assert read(host.call("GET", session["links"]["session"]))["status"] == "published"


def test_digest_that_is_no_unicode(host: SessionHost, wheels: list[Path]) -> None:
    """A digest with a lone surrogate is refused when it is announced."""
    session = read(host.create(), 201)
    assert refused(host.begin(session, wheels[0], hashes={"sha256": "\ud800"}))[0] == 400
