"""Permissions of a hosted index, through its routes and without a socket."""

from __future__ import annotations

import io
import json
import tarfile
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from packaging.utils import canonicalize_name
from server.hosting.hosts import START, Host, text
from server.running import basic, bearer
from server.uploading import CONTENT_TYPE, fields_of, form

from wheelfit.errors import StorageUnavailable
from wheelfit.server.backing_services import Dependency
from wheelfit.server.hosting.administration import HostingRules
from wheelfit.server.hosting.application import HostedIndex, route_of
from wheelfit.server.hosting.logs import Log
from wheelfit.server.hosting.metrics import Metrics
from wheelfit.server.messages import Request
from wheelfit.server.site.site import Site
from wheelfit.server.store.blobs import Blobs, probe
from wheelfit.server.store.opening import open_store
from wheelfit.server.store.project_rules import ProjectRules
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.errors import UnexpectedStatus

pytest.importorskip("prometheus_client", reason="needs the extra `server`")


def test_token_permissions(host: Host, tmp_path: Path) -> None:
    """A valid token permits what it was made for, and nothing else."""
    ours, theirs = (build_wheel(tmp_path, name, "1.0") for name in ("ours", "theirs"))
    only = host.token("upload", projects=[canonicalize_name("ours")], lifetime=timedelta(days=1))
    assert host.upload(ours, "").status == 401
    assert host.upload(ours, "wheelfit-none").status == 403
    assert host.upload(theirs, only).status == 403
    assert host.upload(ours, only).status == 200
    assert host.upload(ours, only).status == 200  # the very same file
    said = {"scopes": ["upload"], "projects": ["../ours"], "owner": "admin"}
    answer = host.ask("POST", "/-/api/tokens", host.token("admin"), said)
    assert (answer.status, "no project can have this name" in text(answer)) == (400, True)
    other = host.token("upload", owner="somebody")
    assert host.upload(build_wheel(tmp_path / "2", "ours", "2.0"), other).status == 403
    assert host.upload(theirs, other).status == 200  # who comes first owns it
    host.time += timedelta(days=2)
    assert host.upload(build_wheel(tmp_path / "3", "ours", "3.0"), only).status == 403
    shown = Request("POST", "/legacy/", {"authorization": "Basic dXNlcjpwYXNz"})
    assert "__token__" in host.index(shown).reason
    host.log.close()
    assert only not in host.written.getvalue()


def test_forms_of_refusals(host: Host, tmp_path: Path) -> None:
    """Refusals have all references, as text, as JSON and in the reason phrase."""
    token = host.token("upload")
    assert host.upload(build_wheel(tmp_path / "1", "told", "1.0"), token).status == 200
    other = build_wheel(tmp_path / "2", "told", "1.0", requires=["more"])
    answer = host.upload(other, token)
    assert answer.status == 409
    assert "name-taken" in answer.reason
    assert "name-taken" in text(answer)
    found = json.loads(text(host.upload(other, token, accept="application/json")))
    assert [error["reference"] for error in found["errors"]] == ["name-taken"]
    request = Request("POST", "/legacy/", {"authorization": basic(token), "content-type": "a/b"})
    assert host.index(request).status == 400
    assert host.ask("GET", "/legacy/").status == 405
    for path in ("/simple/", "/"):
        answer = host.ask("POST", path)
        assert (answer.status, text(answer)) == (405, "uploads go to /legacy/\n")


@pytest.mark.parametrize("rules", [HostingRules(private=("*",))])
def test_private_index(host: Host, tmp_path: Path) -> None:
    """A token reads its projects; a token for reading permits nothing else."""
    reader, ended = host.token("read"), host.token("read", lifetime=timedelta(hours=1))
    writer = host.token("upload", projects=[canonicalize_name("other")])
    wheel = build_wheel(tmp_path, "some", "1.0")
    assert host.upload(wheel, host.token("upload")).status == 200
    host.time += timedelta(hours=2)
    paths = ("/", "/simple/", "/simple/some/", f"/files/{wheel.name}")
    for path in (*paths, f"/files/{wheel.name}.metadata"):
        for token, status in (("", 401), ("wrong", 403), (ended, 403)):
            refused = host.ask("GET", path, token)
            assert (refused.status, b"some" in b"".join(refused.body)) == (status, False), path
        for token in (reader, writer):
            answer = host.ask("GET", path, token)
            assert answer.status == (404 if token == writer and "some" in path else 200), path
            assert "private" in answer.headers["cache-control"]
        assert host.index.cached_response(Request("GET", path, {})) is None
    assert "www-authenticate" in host.ask("GET", "/simple/").headers
    assert host.ask("GET", "/-/health/ready").status == 200
    assert host.upload(build_wheel(tmp_path, "some", "2.0"), reader).status == 403
    for act in ("yank", "delete"):
        said = {"names": ["some"]}
        assert host.ask("POST", f"/-/api/{act}", reader, said).status == 403
    for path in ("/-/api/stages", "/-/api/tokens", "/-/metrics"):
        assert host.ask("GET", path, reader).status == 403


_FEW = HostingRules(
    projects=(ProjectRules(("s*",), max_files=1), ProjectRules(("t*",), max_file_size=9))
)


@pytest.mark.parametrize("rules", [_FEW])
def test_project_limits(host: Host, tmp_path: Path) -> None:
    """Uploads beyond the limits of a project are refused, without effect on others."""
    token = host.token("upload")
    one, two = (build_wheel(tmp_path, "some", version) for version in ("1.0", "2.0"))
    assert host.upload(one, token).status == 200
    answer = host.upload(two, token)
    assert (answer.status, "[over-quota]" in answer.reason) == (403, True)
    answer = host.upload(build_wheel(tmp_path, "two", "1.0"), token)
    assert (answer.status, "[too-large]" in answer.reason) == (413, True)
    assert host.upload(build_wheel(tmp_path, "other", "1.0"), token).status == 200
    assert host.ask("GET", f"/files/{two.name}").status == 404
    kind = "application/vnd.pypi.upload.v2+json"
    meta = {"meta": {"api-version": "2.0"}}
    session = {**meta, "name": "two", "version": "1.0"}
    opened = json.loads(text(host.ask("POST", "/upload/", token, session, kind=kind)))
    said = {**meta, "filename": "two-1.0-py3-none-any.whl", "size": 10, "hashes": {"sha256": "0"},
            "mechanism": "http-post-bytes"}  # fmt: skip
    answer = host.ask("POST", opened["links"]["upload"], token, said, kind=kind)
    assert (answer.status, "too-large" in text(answer)) == (413, True)


def test_yanking(host: Host, tmp_path: Path) -> None:
    """Owners yank a release with a reason that pages show, and undo it."""
    token = host.token("upload")
    host.upload(build_wheel(tmp_path, "yanked", "1.0"), token)
    said = {"names": ["yanked==1.0"], "reason": "<broken>"}
    assert host.ask("POST", "/-/api/yank", host.token("upload", owner="x"), said).status == 403
    assert host.ask("POST", "/-/api/yank", token, said).status == 200
    assert 'data-yanked="&lt;broken&gt;"' in text(host.ask("GET", "/simple/yanked/"))
    assert host.ask("POST", "/-/api/unyank", token, {"names": ["yanked"]}).status == 200
    assert "data-yanked" not in text(host.ask("GET", "/simple/yanked/"))
    assert host.ask("POST", "/-/api/yank", token, {"names": ["nothing"]}).status == 404
    assert host.ask("POST", "/-/api/yank", token, {"names": "yanked"}).status == 400
    assert host.ask("POST", "/-/api/yank", token, ["yanked"]).status == 400


@pytest.mark.parametrize(
    ("rules", "soon", "late", "admin"),
    [
        (HostingRules(deletes="never"), 403, 403, 403),
        (HostingRules(deletes="admin"), 403, 403, 200),
        (HostingRules(deletes=timedelta(hours=72)), 200, 403, 200),
    ],
)
def test_deletion_rules(host: Host, tmp_path: Path, soon: int, late: int, admin: int) -> None:
    """Each rule permits deletion by those it names, and no name is reused."""
    upload, admins = host.token("upload"), host.token("upload", "admin")
    wheels = [build_wheel(tmp_path, "gone", f"{number}.0") for number in range(3)]
    for wheel in wheels:
        assert host.upload(wheel, upload).status == 200

    def delete(wheel: Path, token: str) -> int:
        return host.ask("POST", "/-/api/delete", token, {"names": [wheel.name]}).status

    assert delete(wheels[0], upload) == soon
    host.time += timedelta(hours=73)
    assert delete(wheels[1], upload) == late
    assert delete(wheels[2], admins) == admin
    if admin == 200:
        assert host.ask("GET", f"/files/{wheels[2].name}").status == 404
        answer = host.upload(wheels[2], upload)
        assert answer.status == 409
        assert "name-deleted" in answer.reason


@pytest.mark.parametrize(
    ("act", "said"),
    [
        ("yank", {"names": ["\ud800"]}),
        ("yank", {"names": ["here"], "reason": "\0"}),
        ("yank", {"names": ["here"], "reason": "\x9b31m"}),
        ("stages", {"lifetime": "999999w"}),
        ("tokens", {"scopes": ["upload"], "owner": "\udfff"}),
    ],
)
def test_values_a_database_cannot_store(host: Host, tmp_path: Path, act: str, said: object) -> None:
    """JSON values that a database cannot store are errors of the client."""
    token = host.token("upload", "admin")
    assert host.upload(build_wheel(tmp_path, "here", "1.0"), token).status == 200
    assert host.ask("POST", f"/-/api/{act}", token, said).status == 400


@pytest.mark.parametrize(
    ("method", "path", "said", "field"),
    [
        ("POST", "tokens", {"scopes": ["upload"], "lasts": "1d"}, "lifetime"),
        ("POST", "stages", {"lasts": "1d"}, "lifetime"),
        ("GET", "audit?who=me", None, "actor"),
    ],
)
def test_unknown_fields(host: Host, method: str, path: str, said: object, field: str) -> None:
    """Unknown limits and filters are refused by name."""
    answer = host.ask(method, f"/-/api/{path}", host.token("upload", "admin"), said)
    assert answer.status == 400
    assert "is not a field of this request" in text(answer)
    assert field in text(answer)


def test_invalid_identifiers(host: Host, tmp_path: Path) -> None:
    """Huge numbers and NUL match nothing; non-ASCII credentials are invalid."""
    token = host.token("upload", "admin")
    assert host.upload(build_wheel(tmp_path, "here", "1.0"), token).status == 200
    endless = {"names": [f"here=={'1' * 5000}"]}
    assert host.ask("POST", "/-/api/yank", token, endless).status == 404
    assert host.ask("GET", "/simple/he%00re/").status == 404
    shown = Request("GET", "/-/metrics", {"authorization": "Basic \xe9"})
    assert host.index(shown).status == 401


def test_very_long_version(host: Host, tmp_path: Path) -> None:
    """A form whose version has thousands of digits disagrees with its file."""
    wheel = build_wheel(tmp_path, "here", "1.0")
    content = wheel.read_bytes()
    fields = {**fields_of(wheel.name, content), "requires_python": f">={'1' * 5000}"}
    headers = {"authorization": basic(host.token("upload")), "content-type": CONTENT_TYPE}
    body = io.BytesIO(form(wheel.name, content, fields))
    answer = host.index(Request("POST", "/legacy/", headers, body=body))
    assert "form-disagrees" in answer.reason


def test_stage_ownership(host: Host, tmp_path: Path) -> None:
    """Only its owner uploads to, publishes or drops a stage; stages expire."""
    mine, other = host.token("upload"), host.token("upload", owner="other")
    stage = json.loads(text(host.ask("POST", "/-/api/stages", mine, {"lifetime": "1d"})))
    base, act = f"/stage/{stage['id']}", f"/-/api/stages/{stage['id']}"
    wheel = build_wheel(tmp_path, "waits", "1.0")
    assert host.upload(wheel, other, at=f"{base}/legacy/").status == 403
    assert host.upload(wheel, mine, at=f"{base}/legacy/").status == 200
    assert host.ask("GET", f"{base}/simple/waits/", stage["secret"]).status == 200
    assert host.ask("GET", f"{base}/files/{wheel.name}", mine).status == 200
    assert host.ask("GET", f"{base}/files/{wheel.name}", other).status == 403
    assert host.ask("GET", f"/files/{wheel.name}").status == 404
    assert host.ask("POST", f"{act}/publish", other).status == 403
    assert json.loads(text(host.ask("GET", "/-/api/stages", other))) == {"stages": []}
    assert host.ask("POST", "/-/api/stages", mine, {"owner": "other"}).status == 403
    assert host.ask("POST", "/-/api/stages", host.token("admin"), {"owner": "other"}).status == 200
    host.time += timedelta(days=2)
    assert host.ask("GET", f"{base}/simple/waits/", stage["secret"]).status == 403
    assert host.ask("POST", f"{act}/publish", mine).status == 404
    host.time = START
    assert host.ask("DELETE", act, mine).status == 200
    assert host.ask("POST", f"{act}/publish", mine).status == 404


def test_stage_with_other_projects(host: Host, tmp_path: Path) -> None:
    """A token for one project cannot see, publish or drop staged files of another."""
    everything = host.token("upload")
    only = host.token("upload", projects=[canonicalize_name("ours")])
    stage = json.loads(text(host.ask("POST", "/-/api/stages", everything, {"lifetime": "1d"})))
    base, act = f"/stage/{stage['id']}", f"/-/api/stages/{stage['id']}"
    ours, theirs = (build_wheel(tmp_path, name, "1.0") for name in ("ours", "theirs"))
    assert host.upload(ours, only, at=f"{base}/legacy/").status == 200
    assert host.ask("GET", f"{base}/files/{ours.name}", only).status == 200
    assert host.upload(theirs, everything, at=f"{base}/legacy/").status == 200
    assert host.ask("GET", f"{base}/files/{theirs.name}", only).status == 403
    assert host.ask("POST", f"{act}/publish", only).status == 403
    assert host.ask("DELETE", act, only).status == 403
    assert host.ask("GET", f"/files/{theirs.name}").status == 404
    assert host.ask("POST", f"{act}/publish", everything).status == 200
    assert host.ask("GET", f"/files/{theirs.name}").status == 200


def test_token_management(host: Host) -> None:
    """Only an unrestricted operator token creates, lists and revokes tokens."""
    operator = host.token("upload", "admin")
    for token in (
        host.token("upload"),
        host.token("admin", owner="other"),
        host.token("admin", projects=[canonicalize_name("one")]),
    ):
        assert host.ask("GET", "/-/api/tokens", token).status == 403
        assert host.ask("GET", "/-/metrics", token).status == 403
    said = {"scopes": ["upload"], "projects": ["Some.Name"], "lifetime": "30d", "note": "CI"}
    made = json.loads(text(host.ask("POST", "/-/api/tokens", operator, said)))
    assert made["projects"] == ["some-name"]
    listed = text(host.ask("GET", "/-/api/tokens", operator))
    assert made["id"] in listed
    assert made["secret"] not in listed
    assert host.ask("DELETE", f"/-/api/tokens/{made['id']}", operator).status == 200
    assert host.ask("GET", "/-/api/stages", made["secret"]).status == 403
    assert host.ask("POST", "/-/api/tokens", operator, {"scopes": ["root"]}).status == 400


class FailingBlobs:
    """A storage that does not respond, except for drafts."""

    def __init__(self, inner: Blobs) -> None:
        self.draft = inner.draft

    def __getattr__(self, name: str) -> Any:
        def fail(*_arguments: object) -> None:
            raise StorageUnavailable(f"{name}: http://storage.internal/bucket does not answer")

        return fail


def test_storage_address_in_responses(tmp_path: Path) -> None:
    """The address of the storage is logged, and in no response."""
    with open_store(tmp_path / "store") as store:
        host = Host(store, HostingRules())
        token = host.token("upload", "admin")
        wheel = build_wheel(tmp_path, "some", "1.0")
        assert host.upload(wheel, token).status == 200
        blobs = cast("Blobs", FailingBlobs(store.blobs))
        storage = Dependency("storage")
        storage.probe(partial(probe, blobs))
        broken = Host(
            store._replace(blobs=blobs, probes={storage: partial(probe, blobs)}), HostingRules()
        )
        health = broken.ask("GET", "/-/health/ready")
        assert (health.status, "internal" in text(health)) == (503, False)
        for accept in ("", "application/json"):
            told = broken.upload(build_wheel(tmp_path, "some", "2.0"), token, accept=accept)
            assert (told.status, "internal" in text(told) + told.reason) == (503, False)
            assert "storage-unavailable" in text(told) or not accept
        broken.log.close()
        host.log.close()
        assert "storage.internal" in broken.written.getvalue()


class UnreachableIndex:
    """An index whose upstream has a confidential address."""

    def __getattr__(self, name: str) -> Any:
        def fail(*_arguments: object) -> None:
            raise UnexpectedStatus(
                "10.1.2.3 answered with status 500",
                status=500,
                where="http://10.1.2.3:3141/simple/",
                hint="see 10.1.2.3",
            )

        return fail


def test_upstream_address_on_pages(tmp_path: Path) -> None:
    """No page names the address of an upstream."""
    with open_store(tmp_path / "store") as store:
        written = io.StringIO()
        log = Log(written, "json")
        hosted = HostedIndex(store, log=log, metrics=Metrics(), index=UnreachableIndex(), site=Site)
        for path in ("/", "/project/some/", "/simple/", "/simple/some/", "/files/some-1.0.tar.gz"):
            for accept in ("text/html", "application/json"):
                answer = hosted(Request("GET", path, {"accept": accept}))
                assert answer.status in (406, 502, 503), path
                assert "10.1.2.3" not in text(answer) + answer.reason
                assert "does not answer" in text(answer) or answer.status == 406
        log.close()
        assert "http://10.1.2.3:3141/simple/" in written.getvalue()


@pytest.mark.parametrize("accept", ["", "application/json"])
def test_paths_in_refusals(host: Host, tmp_path: Path, accept: str) -> None:
    """Refusals name the uploaded file, not the path of its draft."""
    token = host.token("upload")
    wheel = build_wheel(tmp_path, "some", "1.0").read_bytes()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        link = tarfile.TarInfo("some-1.0/PKG-INFO")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    for name, content in (
        ("some-1.0-py3-none-any.whl", wheel[: len(wheel) // 2]),
        ("some-1.0-py3-none-any.whl", wheel.replace(b"some", b"s\0me", 5)),
        ("some-1.0-py3-none-any.whl", b""),
        ("some-1.0.tar.gz", wheel),
        ("some-1.0.tar.gz", packed.getvalue()),
        ("some-1.0.tar.gz", packed.getvalue()[:-9]),
        ("some-1.0.zip", wheel),
        ("some-1.0.zip", b"PK\x05\x06" + b"\0" * 18),
    ):
        body = io.BytesIO(form(name, content, fields_of(name, content)))
        headers = {"authorization": basic(token), "content-type": CONTENT_TYPE, "accept": accept}
        answer = host.index(Request("POST", "/legacy/", headers, body=body))
        assert answer.status == 400
        said = text(answer) + answer.reason
        assert name in said
        for place in (str(tmp_path), ".incoming", ".part", "/tmp"):
            assert place not in said


# --- browsers -------------------------------------------------------------------------------


def test_cross_origin_requests(host: Host, tmp_path: Path) -> None:
    """A request from a foreign page changes nothing, whatever its credentials."""
    token = host.token("upload", "admin")
    wheel = build_wheel(tmp_path, "some", "1.0")
    assert host.upload(wheel, token).status == 200
    stage = json.loads(text(host.ask("POST", "/-/api/stages", token, {"lifetime": "1d"})))["id"]
    unread = Unread()
    for page in (
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.test"},
        {"origin": "null"},
    ):
        for method, path, kind in (
            ("POST", "/legacy/", CONTENT_TYPE),
            ("POST", f"/stage/{stage}/legacy/", CONTENT_TYPE),
            ("POST", "/-/api/delete", "application/json"),
            ("POST", f"/-/api/stages/{stage}/publish", "application/json"),
            ("DELETE", f"/-/api/stages/{stage}", ""),
        ):
            for show in (basic, bearer):
                headers = {"authorization": show(token), "content-type": kind, **page}
                answer = host.index(Request(method, path, headers, body=unread))
                assert answer.status == 403, (page, path)
    assert host.ask("GET", f"/files/{wheel.name}").status == 200


class Unread:
    """A body that must not be read."""

    def read(self, _size: int = -1) -> bytes:
        """Fail."""
        raise AssertionError


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", CONTENT_TYPE, "text/json"]
)
def test_api_content_type(host: Host, tmp_path: Path, kind: str) -> None:
    """The API accepts only the content type that needs a CORS preflight."""
    token = host.token("upload", "admin")
    assert host.upload(build_wheel(tmp_path, "some", "1.0"), token).status == 200
    headers = {"authorization": bearer(token), "content-type": kind}
    request = Request("POST", "/-/api/delete", headers, body=Unread())
    assert host.index(request).status == 415
    for good in ("application/json", "Application/JSON; charset=utf-8"):
        body = io.BytesIO(b'{"names": ["some"], "reason": ""}')
        headers = {"authorization": bearer(token), "content-type": good}
        assert host.index(Request("POST", "/-/api/yank", headers, body=body)).status == 200


def test_basic_authentication(host: Host) -> None:
    """Basic is offered for reading and accepted for tool uploads, and nowhere else."""
    token = host.token("upload", "admin")
    for method, path in (
        ("GET", "/-/metrics"),
        ("GET", "/-/api/tokens"),
        ("POST", "/-/api/delete"),
        ("POST", "/legacy/"),
        ("POST", "/stage/0123456789abcdef/legacy/"),
    ):
        asked = host.ask(method, path)
        assert asked.status == 401
        assert asked.headers["www-authenticate"].startswith("Bearer"), path
    asked = host.ask("GET", "/stage/0123456789abcdef/simple/")
    assert asked.headers["www-authenticate"].startswith("Basic")
    for path in ("/-/metrics", "/-/api/tokens"):
        shown = Request("GET", path, {"authorization": basic(token)})
        assert host.index(shown).status == 401
        assert host.ask("GET", path, token).status == 200
    # What a browser has kept all the same is not taken even for its own pages.
    headers = {"authorization": basic(token), "content-type": CONTENT_TYPE,
               "sec-fetch-site": "same-origin"}  # fmt: skip
    assert host.index(Request("POST", "/legacy/", headers, body=Unread())).status == 401


def test_route_labels() -> None:
    """Metrics have few route names, whatever the request."""
    assert route_of("/simple/x/") == "simple"
    assert route_of("/-/health/live") == "health"
    assert {route_of(path) for path in ("/x", "/", "/-/x", "*", "")} == {"other"}
