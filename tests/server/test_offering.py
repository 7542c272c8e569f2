"""Vulnerable or too recent files of other indexes, which are not offered."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from packaging.utils import NormalizedName
from server.upstream.mirroring import Mirroring

from wheelfit.operations.context import Context
from wheelfit.operations.indexes import read_settings
from wheelfit.operations.proxy import ProxyRequest, open_proxy
from wheelfit.server.folder import FolderIndex
from wheelfit.server.messages import Request, Response
from wheelfit.server.offering import OfferRules
from wheelfit.server.site.site import Site
from wheelfit.sources.advisories import Advisories
from wheelfit.sources.cooldown import Cooldown, parse_cutoff
from wheelfit.sources.page import File
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel

JSON = "application/vnd.pypi.simple.v1+json"
OLD, NEW = "some-1.0-py3-none-any.whl", "some-2.0-py3-none-any.whl"


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """Return a folder with two releases."""
    for version in ("1.0", "2.0"):
        build_wheel(tmp_path / "wheels", "some", version)
    return tmp_path / "wheels"


def test_index_file_without_offered_wheels() -> None:
    """An index file is withheld with the wheels of its release, even if the source is offered."""
    names = ("some-1.0-py3-none-any-cu129.whl", "some-1.0-variants.json", "some-1.0.tar.gz")
    times = {names[0]: "2026-11-28T00:00:00Z", names[2]: "2026-01-01T00:00:00Z"}
    files = [File(name, name, upload_time=times.get(name)) for name in names]
    rules = OfferRules(Cooldown(parse_cutoff("2026-06-01")))
    offered, withheld = rules.split(NormalizedName("some"), files)
    assert [file.filename for file in offered] == [names[2]]
    assert set(withheld) == set(names[:2])


@pytest.fixture
def advisories(tmp_path: Path) -> Advisories:
    """Return a vulnerability of the first release, in two databases, and a withdrawn one."""
    events = [{"introduced": "0"}, {"fixed": "2.0"}]
    affected = {
        "package": {"ecosystem": "PyPI", "name": "Some"},
        "ranges": [{"type": "ECOSYSTEM", "events": events}],
    }
    first = {"id": "PYSEC-1", "aliases": ["CVE-1", "GHSA-1"], "affected": [affected]}
    first["summary"] = "<script>alert(1)</script>"
    everything = {**affected, "ranges": [{"type": "ECOSYSTEM", "events": events[:1]}]}
    withdrawn = {"id": "PYSEC-2", "withdrawn": "2026-01-01T00:00:00Z", "affected": [everything]}
    folder = tmp_path / "osv"
    folder.mkdir()
    for one in (first, {**first, "id": "GHSA-1", "aliases": ["CVE-1", "PYSEC-1"]}, withdrawn):
        (folder / f"{one['id']}.json").write_text(json.dumps(one))
    return Advisories(folder)


def body(answer: Response) -> str:
    """Return the text of a response."""
    return b"".join(answer.body).decode()


def test_vulnerable_release_of_a_mirror(
    wheels: Path, advisories: Advisories, tmp_path: Path
) -> None:
    """The release is not listed; its page and its file's URL give the reason."""
    with RecordingIndex(wheels) as upstream:
        mirror = Mirroring(upstream.url, tmp_path / "mirror", denied=advisories)
        page = json.loads(body(mirror.ask("/simple/some/")))
        assert [file["filename"] for file in page["files"]] == [NEW]
        reason = page["_withheld"][OLD]
        assert reason == (
            "some 1.0 has known vulnerabilities: GHSA-1 (CVE-1, PYSEC-1), fixed in 2.0"
        )
        for path in (OLD, f"{OLD}.metadata"):
            answer = mirror.ask(f"/files/{path}")
            assert (answer.status, body(answer).strip()) == (403, reason)
        assert mirror.file(NEW) == (wheels / NEW).read_bytes()
        assert not upstream.requests_for(f"/files/{OLD}")
        mirror.close()


@pytest.fixture
def dated(wheels: Path) -> Iterator[RecordingIndex]:
    """Return an index of three files: old, of yesterday, and without a time."""
    yesterday = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    times = {OLD: "2020-01-01T00:00:00Z", NEW: yesterday, "some-3.0-py3-none-any.whl": None}
    files: list[object] = [
        {"filename": name, "url": f"../../files/{name}", "hashes": {}, "upload-time": when}
        for name, when in times.items()
    ]
    with RecordingIndex(wheels) as upstream:
        document = {"meta": {"api-version": "1.1"}, "name": "some", "files": files}
        upstream.faults.content["/simple/some/"] = json.dumps(document).encode()
        yield upstream


@pytest.mark.parametrize(
    ("limit", "listed"), [("P3D", [OLD]), ("2019-12-31", []), ("PT1H", [OLD, NEW])]
)
def test_minimum_age_of_a_mirror(
    dated: RecordingIndex, tmp_path: Path, limit: str, listed: list[str]
) -> None:
    """Files uploaded later, or at an unknown time, are refused by name."""
    mirror = Mirroring(dated.url, tmp_path / "mirror", uploaded_prior_to=limit)
    page = json.loads(body(mirror.ask("/simple/some/")))
    assert [file["filename"] for file in page["files"]] == listed
    answer = mirror.ask("/files/some-3.0-py3-none-any.whl")
    assert answer.status == 403
    assert "does not list its upload time" in body(answer)
    if NEW not in listed:
        assert "it was uploaded at" in page["_withheld"][NEW]
    mirror.close()


def test_vulnerable_release_of_a_proxy(
    wheels: Path, advisories: Advisories, tmp_path: Path
) -> None:
    """Over the network and in a folder; the file's URL gives the reason."""
    project = tmp_path / "laid-out" / "some"
    shutil.copytree(wheels, project)
    (project / "index.html").write_text(f'<a href="{OLD}">{OLD}</a><a href="{NEW}">{NEW}</a>')
    with RecordingIndex(wheels) as upstream:
        for url in (upstream.url, str(project.parent)):
            request = ProxyRequest(index_url=url, full=True, no_cache_dir=True, no_bridges=True)
            context = Context(environ={})
            settings = read_settings(request, context.environ)
            with open_proxy(request, settings, context, denied=advisories) as opened:
                ask = partial(Request, "GET", headers={"accept": JSON})
                page = json.loads(body(opened.application(ask("/simple/some/"))))
                assert [file["filename"] for file in page["files"]] == [NEW]
                assert "GHSA-1" in page["_withheld"][OLD]
                answer = opened.application(ask(f"/files/some/{'0' * 16}/{OLD}"))
                assert (answer.status, body(answer).strip()) == (403, page["_withheld"][OLD])


def test_vulnerabilities_on_pages(wheels: Path, advisories: Advisories) -> None:
    """The JSON API has all records, the page for people only current ones, without their HTML."""
    pytest.importorskip("jinja2", reason="needs the extra `server`")
    site = Site(FolderIndex(wheels), advisories=advisories)
    found = json.loads(body(site(Request("GET", "/pypi/some/1.0/json"))))["vulnerabilities"]
    assert [one["id"] for one in found] == ["GHSA-1", "PYSEC-1", "PYSEC-2"]
    assert found[0]["fixed_in"] == ["2.0"]
    assert (found[0]["withdrawn"], found[2]["withdrawn"]) == (None, "2026-01-01T00:00:00Z")
    page = body(site(Request("GET", "/project/some/1.0/")))
    assert "https://osv.dev/vulnerability/PYSEC-1" in page
    assert "PYSEC-2" not in page
    assert "<script>" not in page
    assert "PYSEC" not in body(site(Request("GET", "/project/some/2.0/")))
    newest = json.loads(body(site(Request("GET", "/pypi/some/json"))))
    assert [vulnerability["id"] for vulnerability in newest["vulnerabilities"]] == ["PYSEC-2"]
    assert "vulnerabilities" not in json.loads(
        body(Site(FolderIndex(wheels))(Request("GET", "/pypi/some/json")))
    )


def test_withheld_files_on_pages(wheels: Path, advisories: Advisories, tmp_path: Path) -> None:
    """A project page and the JSON API name the files not offered, with the reason."""
    pytest.importorskip("jinja2", reason="needs the extra `server`")
    with RecordingIndex(wheels) as upstream:
        mirror = Mirroring(upstream.url, tmp_path / "mirror", denied=advisories)
        site = Site(mirror.index, advisories=advisories)
        page = body(site(Request("GET", "/project/some/")))
        assert "1 file is not offered" in page
        assert "fixed in 2.0" in page
        answer = site(Request("GET", "/pypi/some/1.0/json"))
        assert answer.status == 404
        assert "known vulnerabilities" in json.loads(body(answer))["message"]
        mirror.close()
