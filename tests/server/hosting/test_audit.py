"""Entries of the audit log of a hosted index for changes and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from server.hosting.hosts import Host, text

from wheelfit.testing.wheels import build_wheel

pytest.importorskip("prometheus_client", reason="needs the extra `server`")
UPLOAD = "application/vnd.pypi.upload.v2+json"


def _entries(host: Host, **wanted: str) -> list[dict[str, Any]]:
    """Return entries as the operator reads them, oldest first."""
    token = host.token("admin")
    answer = host.ask("GET", f"/-/api/audit?{urlencode(wanted)}", token)
    assert answer.status == 200, text(answer)
    entries = json.loads(text(answer))["entries"]
    return [entry for entry in reversed(entries) if entry["owner"] != "local"]


def test_changes(host: Host, tmp_path: Path) -> None:
    """Every change of the index has an entry with who, what and from where."""
    token = host.token("upload", "admin", owner="admin", note="CI")
    one, two = (build_wheel(tmp_path, "some", version) for version in ("1.0", "2.0"))
    assert host.upload(one, token).status == 200
    assert host.upload(one, token).status == 200  # the same again is no change
    stage = json.loads(text(host.ask("POST", "/-/api/stages", token, {"lifetime": "1d"})))["id"]
    assert host.upload(two, token, at=f"/stage/{stage}/legacy/").status == 200
    assert host.ask("POST", f"/-/api/stages/{stage}/publish", token).status == 200
    host.ask("POST", "/-/api/yank", token, {"names": ["some==1.0"], "reason": "broken"})
    host.ask("POST", "/-/api/unyank", token, {"names": ["some"]})
    host.ask("POST", "/-/api/delete", token, {"names": [one.name]})
    other = json.loads(text(host.ask("POST", "/-/api/stages", token, {"lifetime": "1d"})))["id"]
    host.ask("DELETE", f"/-/api/stages/{other}", token)
    said = {"scopes": ["read"], "projects": ["a-*"], "owner": "ann"}
    made = json.loads(text(host.ask("POST", "/-/api/tokens", token, said)))
    host.ask("DELETE", f"/-/api/tokens/{made['id']}", token)
    found = _entries(host)
    assert [(entry["action"], entry["subject"]) for entry in found] == [
        ("upload", one.name),
        ("open-stage", stage),
        ("stage", two.name),
        ("publish", two.name),
        ("yank", one.name),
        ("unyank", one.name),
        ("unyank", two.name),
        ("delete", one.name),
        ("open-stage", other),
        ("drop-stage", other),
        ("create-token", made["id"]),
        ("revoke-token", made["id"]),
    ]
    assert {(entry["owner"], entry["note"], entry["address"]) for entry in found} == {
        ("admin", "CI", "192.0.2.7")
    }
    assert {entry["outcome"] for entry in found} == {"done"}
    assert {entry["project"] for entry in found[2:8]} == {"some"}
    assert found[4]["detail"] == "broken"
    assert "ann: read" in found[10]["detail"]
    everything = json.dumps(found)
    assert token not in everything
    assert made["secret"] not in everything


def test_refusals(host: Host, tmp_path: Path) -> None:
    """Forbidden requests and refused uploads have an entry with the reason."""
    ours = host.token("upload", projects=["ours"])
    wheel, theirs = build_wheel(tmp_path, "ours", "1.0"), build_wheel(tmp_path, "theirs", "1.0")
    assert host.upload(wheel, ours).status == 200
    other = build_wheel(tmp_path / "other", "ours", "1.0", requires=["more"])
    assert host.upload(other, ours).status == 409
    assert host.upload(theirs, ours).status == 403
    assert host.upload(theirs, host.token("upload")).status == 200
    assert host.ask("POST", "/-/api/yank", ours, {"names": ["theirs==1.0"]}).status == 403
    assert host.ask("POST", "/-/api/tokens", ours, {"scopes": ["admin"]}).status == 403
    said = {"meta": {"api-version": "2.0"}, "name": "theirs", "version": "2.0"}
    assert host.ask("POST", "/upload/", ours, said, kind=UPLOAD).status == 403
    found = _entries(host, outcome="refused")
    assert [(entry["action"], entry["project"]) for entry in found] == [
        ("upload", "ours"),
        ("upload", "theirs"),
        ("yank", "theirs"),
        ("create-token", ""),
        ("open-stage", "theirs"),
    ]
    assert "[name-taken]" in found[0]["detail"]
    assert found[1]["subject"] == theirs.name
    assert all(entry["detail"] for entry in found)


def test_invalid_tokens(host: Host, tmp_path: Path) -> None:
    """Requests without a valid token do not add entries."""
    wheel = build_wheel(tmp_path, "some", "1.0")
    for token in ("", "wheelfit-none"):
        assert host.upload(wheel, token).status in (401, 403)
        assert host.ask("POST", "/-/api/yank", token, {"names": ["some"]}).status in (401, 403)
    assert _entries(host) == []


def test_reading(host: Host) -> None:
    """Only the operator reads the log; invalid queries are refused."""
    for token in (host.token("upload"), host.token("admin", projects=["some"])):
        assert host.ask("GET", "/-/api/audit", token).status == 403
    operator = host.token("admin")
    for query in (
        "action=burn",
        "outcome=x",
        "max_count=-1",
        "since=soon",
        "until=9999999999999d",
        "since=9999-12-31T23:59:59-12:00",
    ):
        assert host.ask("GET", f"/-/api/audit?{query}", operator).status == 400, query
    for query in (
        "since=7d&until=0d",
        "since=2026-01-01",
        "max_count=0",
        "actor=%00",
        "project=%FF",
    ):
        assert host.ask("GET", f"/-/api/audit?{query}", operator).status in (200, 400), query
