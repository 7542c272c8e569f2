"""The status of projects (PEP 792): set by owners and operators, served and enforced."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from server.hosting.hosts import Host, text

from wheelfit.server.messages import Response
from wheelfit.server.store.moving import check_export, export_index, import_index
from wheelfit.server.store.opening import open_store
from wheelfit.server.store.stored_index import StoredIndex
from wheelfit.sources.page import Status
from wheelfit.sources.progress import NO_PROGRESS
from wheelfit.testing.wheels import build_wheel

pytest.importorskip("prometheus_client", reason="needs the extra `server`")
SOME = canonicalize_name("some")


@pytest.fixture
def host(host: Host, tmp_path: Path) -> Host:
    """Return an index with one release of an owned project."""
    wheel = build_wheel(tmp_path, "some", "1.0")
    assert host.upload(wheel, host.token("upload", owner="ann")).status == 200
    return host


def put(host: Host, token: str, status: str, reason: str = "", project: str = "Some") -> Response:
    """Set a status."""
    said = {"project": project, "status": status, "reason": reason}
    return host.ask("POST", "/-/api/status", token, said)


def shown(host: Host) -> tuple[Status, int]:
    """Return the status and the number of files on the project page, equal in both formats."""
    listed = StoredIndex(host.store).project(SOME)
    assert listed is not None
    html = text(host.ask("GET", "/simple/some/"))
    assert html.count("<a href") == len(listed.files)
    assert (f'content="{listed.status.marker}"' in html) == bool(listed.status)
    return listed.status, len(listed.files)


def test_archived_project(host: Host, tmp_path: Path) -> None:
    """Owners archive a project; its files are listed, and uploads refused until it is active."""
    token = host.token("upload", owner="ann")
    staged = json.loads(text(host.ask("POST", "/-/api/stages", token, {"lifetime": "1d"})))["id"]
    third = build_wheel(tmp_path, "some", "3.0")
    assert host.upload(third, token, at=f"/stage/{staged}/legacy/").status == 200
    assert put(host, token, "archived", "see\nother").status == 200
    assert shown(host) == (Status("archived", "see other"), 1)
    second = build_wheel(tmp_path, "some", "2.0")
    refused = host.upload(second, token)
    assert refused.status == 403
    assert "some is archived: see other [closed-project]" in text(refused)
    publish = f"/-/api/stages/{staged}/publish"
    assert "closed-project" in text(host.ask("POST", publish, token))
    assert put(host, token, "deprecated").status == 200
    assert host.upload(second, token).status == 200
    assert host.ask("POST", publish, token).status == 200
    assert put(host, token, "active").status == 200
    assert shown(host) == (Status(), 3)


def test_quarantined_project(host: Host) -> None:
    """Only the operator sets and ends quarantine; meanwhile no file is served."""
    owner, operator = host.token("upload", "admin", owner="ann"), host.token("upload", "admin")
    file = "/files/some-1.0-py3-none-any.whl"
    assert put(host, owner, "quarantined").status == 403
    assert host.ask("GET", file).status == 200
    assert put(host, operator, "quarantined", "malware").status == 200
    assert shown(host) == (Status("quarantined", "malware"), 0)
    assert [host.ask("GET", one).status for one in (file, f"{file}.metadata")] == [404, 404]
    assert put(host, owner, "active").status == 403
    assert put(host, operator, "active").status == 200
    assert host.ask("GET", file).status == 200


def test_project_without_files(host: Host, tmp_path: Path) -> None:
    """Its status still refuses uploads, and can still be changed."""
    owner, operator = host.token("upload", owner="ann"), host.token("upload", "admin")
    assert put(host, operator, "quarantined", "malware").status == 200
    assert host.store.records.delete(["some-1.0-py3-none-any.whl"], time="2026-01-01T00:00:00Z")
    second = build_wheel(tmp_path, "some", "2.0")
    assert "closed-project" in text(host.upload(second, owner))
    assert put(host, owner, "active").status == 403
    assert put(host, operator, "active").status == 200
    assert host.upload(second, owner).status == 200


def test_refusals(host: Host) -> None:
    """Strangers, unknown words and unknown projects are refused."""
    assert put(host, host.token("upload", owner="bob"), "archived").status == 403
    assert put(host, host.token("read"), "archived").status == 403
    assert put(host, "", "archived").status == 401
    operator = host.token("upload", "admin")
    assert put(host, operator, "closed").status == 400
    assert put(host, operator, "archived", "x" * 10_000).status == 400
    assert put(host, operator, "archived", project="no-such").status == 404
    assert put(host, operator, "archived", project="../x").status == 404
    assert shown(host) == (Status(), 1)


def test_export_and_import(host: Host, tmp_path: Path) -> None:
    """An export has the status, and so has a store that imports it."""
    assert put(host, host.token("upload", owner="ann"), "archived", "old").status == 200
    store = host.store
    export_index(store.records.database, store.blobs, tmp_path / "export", NO_PROGRESS)
    wanted = check_export(tmp_path / "export")
    with open_store(tmp_path / "other") as other:
        import_index(tmp_path / "export", wanted, other.records.database, other.blobs, NO_PROGRESS)
        listed = StoredIndex(other).project(SOME)
        assert listed is not None
        assert listed.status == Status("archived", "old")
