"""Permission to read projects: unreadable projects look nonexistent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from server.hosting.hosts import Host, text
from server.running import basic
from server.uploading import DOCUMENT

from wheelfit.server.hosting.administration import HostingRules
from wheelfit.server.hosting.readers import ReadableIndex
from wheelfit.server.messages import Request, Response
from wheelfit.server.store.stored_index import StoredIndex
from wheelfit.testing.wheels import build_wheel, single_label_document

pytest.importorskip("prometheus_client", reason="needs the extra `server`")
JSON = "application/vnd.pypi.simple.v1+json"


@pytest.fixture
def rules() -> HostingRules:
    """Return the private projects of two teams."""
    return HostingRules(private=("acme-*", "evil-*"))


@pytest.fixture
def host(host: Host, tmp_path: Path) -> Host:
    """Return an index with projects of two teams, and a public project."""
    token = host.token("upload")
    for name in ("acme-secret", "evil-plan", "free"):
        assert host.upload(_wheel(tmp_path, name), token).status == 200
    return host


def _wheel(folder: Path, name: str) -> Path:
    document = single_label_document(DOCUMENT, "mkl")
    return build_wheel(folder, name, "1.0", label="mkl", document=document)


def _paths(name: str) -> list[str]:
    """Return every path of a project, in several spellings."""
    other = name.replace("-", "_")
    wheel = f"{other}-1.0-py3-none-any-mkl.whl"
    return [
        f"/simple/{name}/",
        f"/simple/{name[:-1]}%{ord(name[-1]):x}/",
        f"/project/{name}/",
        f"/project/{name}/1.0/",
        f"/project/{name}/1.0/which/",
        f"/project/{name}/feed.xml",
        f"/pypi/{name}/json",
        f"/pypi/{other.upper()}/json",
        f"/pypi/{name}/1.0/json",
        f"/files/{wheel}",
        f"/files/{wheel}.metadata",
        f"/files/{wheel.replace('-1.0', '%2D1.0')}",
        f"/files/{other}-1.0-variants.json",
    ]


def _get(host: Host, path: str, token: str, **headers: str) -> Response:
    shown = {"authorization": basic(token)} if token else {}
    request = Request("GET", path, {**shown, **headers})
    return host.index.cached_response(request) or host.index(request)


def test_projects_of_another_team(host: Host) -> None:
    """Projects of another team and missing projects get the same response."""
    ours = host.token("read", projects=["acme-*"])
    everything = host.token("read")
    for path, absent in zip(_paths("evil-plan"), _paths("evil-none"), strict=True):
        assert _get(host, path, everything).status < 400, path
        answer, other = _get(host, path, ours), _get(host, absent, ours)
        # The search of a page that is not there repeats the name of the address.
        same = text(other).replace("evil-none", "evil-plan")
        assert (answer.status, text(answer)) == (other.status, same), path
        assert answer.status in (404, 301), path
        assert "plan" not in text(answer).replace("evil-plan", ""), path
    for path in _paths("acme-secret") + _paths("free"):
        assert _get(host, path, ours).status < 400, path


def test_without_a_token(host: Host) -> None:
    """Private paths require a token whether they exist or not; public ones do not."""
    for path, absent in zip(_paths("evil-plan"), _paths("evil-none"), strict=True):
        answer, other = _get(host, path, ""), _get(host, absent, "")
        assert (answer.status, text(answer)) == (other.status, text(other)), path
        assert answer.status == 401
        assert "www-authenticate" in answer.headers
    for path in _paths("free"):
        assert _get(host, path, "").status < 400, path
    assert _get(host, "/simple/free/", "wheelfit-none").status == 403


def test_lists(host: Host) -> None:
    """Neither the project list, nor the front page, nor suggestions name an unreadable project."""
    tokens = {
        "": {"free"},
        host.token("read", projects=["acme-*"]): {"free", "acme-secret"},
        host.token("upload", projects=["evil-plan"]): {"free", "evil-plan"},
        host.token("read"): {"free", "acme-secret", "evil-plan"},
    }
    for _ in range(2):  # the second time from memory, if anything is kept
        for token, names in tokens.items():
            listed = json.loads(text(_get(host, "/simple/", token, accept=JSON)))
            assert {project["name"] for project in listed["projects"]} == names
            shown = ("/", "/?q=e", "/feed.xml")
            front = "".join(text(_get(host, path, token)) for path in shown)
            guess = text(_get(host, "/project/evil-plam/", host.token("read", projects=["x"])))
            for name in ("acme-secret", "evil-plan"):
                assert (name in front) == (name in names)
                assert name not in guess


def test_caches(host: Host) -> None:
    """A cached page or entity tag of one reader is of no use to another."""
    everything, ours = host.token("read"), host.token("read", projects=["acme-*"])
    for path in ("/simple/evil-plan/", "/simple/", "/project/evil-plan/", "/"):
        for _ in range(2):
            kept = _get(host, path, everything)
        assert kept.headers["cache-control"] == "private, no-cache"
        assert "Authorization" in kept.headers["vary"]
        tag = {"if-none-match": kept.headers.get("etag", "*")}
        assert _get(host, path, everything, **tag).status == 304
        for token in (ours, ""):
            answer = _get(host, path, token, **tag)
            assert answer.status in (200, 401, 404), path
            assert "evil-plan" not in text(answer) or answer.status == 404
    request = Request("GET", "/simple/free/")
    assert _get(host, "/simple/free/", "").status == 200
    # What is for everybody is as fast as ever.
    assert host.index.cached_response(request) is not None
    shown = Request("GET", "/simple/evil-plan/", {"authorization": basic(ours)})
    assert (
        host.index.cached_response(shown)
        is host.index.cached_response(Request("GET", "/simple/"))
        is None
    )


def test_attempted_changes(host: Host) -> None:
    """An attempted change does not reveal an unreadable project."""
    ours = host.token("upload", "admin", projects=["acme-*"])
    for act in ("yank", "unyank", "delete"):
        answers = [
            host.ask("POST", f"/-/api/{act}", ours, {"names": [what]})
            for what in ("evil-plan", "evil-none")
        ]
        assert [answer.status for answer in answers] == [404, 404]
        assert text(answers[0]).replace("plan", "none") == text(answers[1])
        assert host.ask("POST", f"/-/api/{act}", ours, {"names": ["free"]}).status == 403
    quarantine = {"project": "evil-plan", "status": "quarantined"}
    assert host.ask("POST", "/-/api/status", host.token("admin"), quarantine).status == 200
    for status in ("active", "quarantined"):
        answers = [
            host.ask("POST", "/-/api/status", ours, {"project": project, "status": status})
            for project in ("evil-plan", "evil-none")
        ]
        assert [answer.status for answer in answers] == [404, 404]
        assert text(answers[0]).replace("plan", "none") == text(answers[1])


def test_stages(host: Host, tmp_path: Path) -> None:
    """A stage shows its own files, and otherwise what the reader may read."""
    ours = host.token("upload", projects=["acme-*"])
    stage = json.loads(text(host.ask("POST", "/-/api/stages", ours, {"lifetime": "1d"})))
    base = f"/stage/{stage['id']}"
    new = _wheel(tmp_path, "acme-new")
    assert host.upload(new, ours, at=f"{base}/legacy/").status == 200
    for token in (stage["secret"], ours):
        assert _get(host, f"{base}/simple/acme-new/", token).status == 200
        assert _get(host, f"{base}/files/{new.name}", token).status == 200
        assert _get(host, f"{base}/simple/free/", token).status == 200
        assert _get(host, f"{base}/simple/evil-plan/", token).status == 404
        assert "evil" not in text(_get(host, f"{base}/simple/", token))
    assert _get(host, f"/stage/{stage['secret']}/simple/acme-new/", "").status == 200
    assert _get(host, f"/stage/{stage['secret']}/simple/acme-secret/", "").status == 404
    assert _get(host, f"{base}/simple/acme-secret/", ours).status == 200
    theirs = host.token("upload", projects=["evil-*"])
    assert json.loads(text(host.ask("GET", "/-/api/stages", theirs))) == {"stages": []}
    assert host.ask("POST", f"/-/api/stages/{stage['id']}/publish", theirs).status == 404
    assert _get(host, f"{base}/simple/acme-new/", theirs).status == 404


def test_publishing_sessions(host: Host) -> None:
    """A publishing session of an unreadable project looks nonexistent."""
    said = {"meta": {"api-version": "2.0"}, "name": "acme-new", "version": "1.0"}
    ours = host.token("upload", projects=["acme-*"])
    kind = "application/vnd.pypi.upload.v2+json"
    opened = json.loads(text(host.ask("POST", "/upload/", ours, said, kind=kind)))
    session = opened["links"]["session"]
    theirs = host.token("upload", projects=["evil-*"])
    assert host.ask("GET", session, theirs).status == 404
    assert host.ask("GET", session, ours).status == 200


def test_uploads_by_prefix(host: Host, tmp_path: Path) -> None:
    """A token for a prefix uploads only projects with that prefix."""
    said = {"scopes": ["upload"], "projects": ["Acme_*"]}
    made = json.loads(text(host.ask("POST", "/-/api/tokens", host.token("admin"), said)))
    assert made["projects"] == ["acme-*"]
    assert host.upload(_wheel(tmp_path, "acme-new"), made["secret"]).status == 200
    assert host.upload(_wheel(tmp_path, "acmenew"), made["secret"]).status == 403
    wrong = {"scopes": ["upload"], "projects": ["acme/*"]}
    assert host.ask("POST", "/-/api/tokens", host.token("admin"), wrong).status == 400


@pytest.mark.parametrize("rules", [HostingRules(private=("*",))])
def test_private_index_with_teams(host: Host) -> None:
    """In a private index a team's token reads only its projects."""
    ours = host.token("read", projects=["acme-*"])
    assert _get(host, "/simple/", "").status == 401
    assert _get(host, "/site.css", "").status == 401
    assert _get(host, "/simple/free/", ours).status == 404
    assert _get(host, "/simple/acme-secret/", ours).status == 200
    listed = json.loads(text(_get(host, "/simple/", ours, accept=JSON)))
    assert [project["name"] for project in listed["projects"]] == ["acme-secret"]


def test_outside_a_request(host: Host) -> None:
    """Outside of a request an index shows nothing."""
    index = ReadableIndex(StoredIndex(host.store), host.log)
    assert tuple(index.projects()) == ()
    name = canonicalize_name("free")
    assert index.project(name) is index.stamp(name) is None
    assert index.content("free-1.0-py3-none-any-mkl.whl") is None
