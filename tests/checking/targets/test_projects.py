"""Check what an index publishes, over loopback."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from checking.releases import INDEX_FILE, codes, document, only, sound_release, write
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from server.static_site import StaticSite

from wheelfit.checking.findings import Report
from wheelfit.checking.targets.projects import check_project, check_url
from wheelfit.checking.tool_profiles import CheckOptions, Profile
from wheelfit.server.messages import Application, Request, Response
from wheelfit.sources.open import open_sources
from wheelfit.sources.settings import SourceSettings
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_large_wheel, build_wheel, release_document

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def published(
    index: RecordingIndex,
    versions: str = "",
    *,
    name: str = "fast",
    profiles: str = "",
    full: bool = False,
    **more: Any,
) -> Report:
    """Check a project of an index."""
    settings = SourceSettings(index_url=index.url, retries=0, timeout=5)
    with open_sources(settings, cache_folder=None, environ={}) as repository:
        return check_project(
            repository,
            canonicalize_name(name),
            SpecifierSet(versions),
            now=NOW,
            options=CheckOptions(full, profiles=frozenset(map(Profile, profiles.split()))),
            **more,
        )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give the folder of a sound release."""
    return sound_release(tmp_path / "index")


def test_a_sound_release(folder: Path) -> None:
    """B-54, F-131: what is sound on disk is sound where it is published."""
    with RecordingIndex(folder) as index:
        for full in (False, True):
            report = published(index, full=full)
            assert not report.findings
            assert not report.unchecked
            assert (report.counts.wheels, report.counts.index_files) == (4, 1)


def test_little_is_read(tmp_path: Path) -> None:
    """Of a large wheel a few ranges of bytes are read, and no more."""
    whole = release_document(
        {"mkl": {"blas": {"library": ["mkl"]}}}, static={"blas": {"library": ["mkl"]}}
    )
    folder = tmp_path / "index"
    build_large_wheel(folder, "fast", "1.0", 5_000_000, label="mkl", document=whole)
    with RecordingIndex(folder) as index:
        index.faults.metadata = False
        report = published(index)
        assert index.bytes_sent("/files/") < 200_000
    assert codes(report) == {"no-plain-wheel": 1, "no-index-file": 1}
    assert only(report, "no-index-file").severity == "error"  # F-70: a page must list one


def test_the_same_findings_as_on_disk(folder: Path) -> None:
    """B-54, F-93: claims that disagree are found by ranges of bytes too."""
    other = document(lambda d: d["variants"]["mkl"].update({"nvidia": {"sm_arch": ["90_real"]}}))
    write(folder / INDEX_FILE, other)
    build_wheel(folder, "fast", "1.0", requires=['a; "nvidia" in variant_namespaces'])
    with RecordingIndex(folder) as index:
        report = published(index)
    assert codes(report) == {"claims-disagree": 1, "variant-marker-in-plain-wheel": 1}
    finding = only(report, "claims-disagree")
    assert finding.where == f"{index.origin}/files/fast-1.0-py3-none-any-mkl.whl"
    assert (finding.member, finding.path) == ("variant.json", "variants.mkl")
    assert "only the index has nvidia :: sm_arch :: 90_real" in finding.message


def test_releases_that_are_meant(folder: Path) -> None:
    """Without a version the releases with variants are looked into, with one those that fit."""
    build_wheel(folder, "fast", "0.9", requires=['a; "nvidia" in variant_namespaces'])
    with RecordingIndex(folder) as index:
        assert published(index).counts.releases == 1
        assert not index.requests_for("fast-0.9-py3-none-any.whl.metadata")
        report = published(index, "==0.9")
        assert codes(report) == {"variant-marker-in-plain-wheel": 1}
        missing = published(index, "==7")
    (unchecked,) = missing.unchecked
    assert unchecked.message == "fast has no release that ==7 admits"


def test_wrong_promises(folder: Path) -> None:
    """F-79: hashes and files that the page promises and the server does not have."""
    wheel = "fast-1.0-py3-none-any-mkl.whl"
    with RecordingIndex(folder) as index:
        index.faults.wrong_hash |= {INDEX_FILE, wheel}
        assert codes(published(index)) == {"wrong-hash": 1}
        assert codes(published(index, full=True)) == {"wrong-hash": 2}
        index.faults.wrong_hash.clear()
        index.faults.status[INDEX_FILE] = 404
        assert codes(published(index)) == {"missing-file": 1}
        index.faults.status[INDEX_FILE] = 503
        assert codes(published(index)) == {"missing-file": 1}


@pytest.mark.parametrize("junk", [b"junk", b"", b"PK\x05\x06" + bytes(18)])
def test_damaged_wheels(folder: Path, junk: bytes) -> None:
    """One wheel that is not an archive costs the findings of no other one."""
    build_wheel(folder, "fast", "1.0", requires=['a; "nvidia" in variant_namespaces'])
    with RecordingIndex(folder) as index:
        index.faults.metadata = False
        (folder / "fast-1.0-py3-none-any-mkl.whl").write_bytes(junk)
        report = published(index)
    assert codes(report) == {"unsound-archive": 1, "variant-marker-in-plain-wheel": 1}


def test_a_huge_index_file(folder: Path) -> None:
    """F-30: an index file that is too long is refused before it is read to its end."""
    with RecordingIndex(folder) as index:
        index.faults.hashes = index.faults.sizes = False
        index.faults.content[INDEX_FILE] = b" " * (20 << 20)
        report = published(index)
    assert codes(report) == {"unreadable-document": 1, "no-hash": 1}
    assert not report.unchecked


def test_a_server_without_ranges(folder: Path) -> None:
    """F-77: what would cost a whole wheel is left unchecked, unless all is asked for."""
    with RecordingIndex(folder) as index:
        index.faults.ranges = False
        report = published(index)
        assert not report.findings
        assert {one.code for one in report.unchecked} == {"too-costly"}
        assert "--full" in report.unchecked[0].hint
        report = published(index, full=True)
        assert not report.findings
        assert not report.unchecked


def test_an_index_that_is_away(folder: Path) -> None:
    """A server that cannot be reached is said to be unchecked, with nothing found."""
    with RecordingIndex(folder) as index:
        pass
    report = published(index)
    (unchecked,) = report.unchecked
    assert unchecked.code == "unreachable"
    assert not report.findings


def test_an_unknown_project(folder: Path) -> None:
    """A project that no source knows is unchecked."""
    with RecordingIndex(folder) as index:
        report = published(index, name="slow")
    assert [one.code for one in report.unchecked] == ["project-not-found"]


def test_wheels_on_a_dead_host(tmp_path: Path) -> None:
    """A host that is away is named once, however many wheels lie there."""
    with RecordingIndex(tmp_path) as gone:
        pass
    links = "".join(
        f'<a href="{gone.origin}/{n}/fast-{n}-py3-none-any-mkl.whl">w</a>' for n in range(1, 40)
    )
    write(tmp_path / "tree" / "fast" / "index.html", f"<!DOCTYPE html>{links}".encode())
    with RecordingIndex(StaticSite(tmp_path / "tree")) as index:
        report = published(index)
    assert len(report.unchecked) == 1
    assert gone.origin in report.unchecked[0].where
    assert codes(report) == {"no-plain-wheel": 39, "no-index-file": 39}


def test_metadata_beside_a_wheel(tmp_path: Path) -> None:
    """F-95: METADATA beside a wheel that is not the one inside is found with ``full``."""
    folder = tmp_path / "tree" / "fast"
    wheel = build_wheel(folder, "fast", "1.0")
    link = f'<a href="{wheel.name}" data-core-metadata="true">{wheel.name}</a>'
    write(folder / "index.html", f"<!DOCTYPE html>{link}".encode())
    beside = write(folder / f"{wheel.name}.metadata", b"Name: fast\nVersion: 1.0\n")
    with RecordingIndex(StaticSite(tmp_path / "tree")) as index:
        assert codes(published(index, "==1.0", full=True)) == {"metadata-differs": 1}
        assert not published(index, "==1.0").findings
        import zipfile

        with zipfile.ZipFile(wheel) as archive:
            beside.write_bytes(archive.read("fast-1.0.dist-info/METADATA"))
        assert not published(index, "==1.0", full=True).findings


def serving(page: dict[str, Any]) -> Application:
    """Serve one page, and no files."""

    def answer(request: Request) -> Response:
        if request.path.startswith("/simple/fast"):
            kind = {"content-type": "application/vnd.pypi.simple.v1+json"}
            return Response.of(200, json.dumps(page).encode(), kind)
        return Response.text(404, "no such file")

    return answer


def entry(filename: str, **more: object) -> dict[str, object]:
    """Return the entry of a file."""
    return {"filename": filename, "url": f"/files/{filename}", "hashes": {}, **more}


@pytest.mark.parametrize(
    ("uploaded", "closed"),
    [("2026-11-01T00:00:00Z", True), ("2026-11-10T00:00:00Z", False), ("nonsense", False)],
)
def test_the_registry(uploaded: str, closed: bool) -> None:  # noqa: FBT001 - a table
    """B-53: closed releases, large files and large projects are known by the page."""
    files = [
        entry("fast-1.0-py3-none-any.whl", size=10_000_000_001, **{"upload-time": uploaded}),
        entry(INDEX_FILE, **{"requires-python": ">=3", "core-metadata": True, "yanked": True}),
    ]
    page = {"meta": {"api-version": "1.0"}, "name": "fast", "files": files}
    with RecordingIndex(serving(page)) as index:
        found = codes(published(index, profiles="pypi"))
    assert found["pypi-closed-release"] == closed
    assert found["pypi-project-size"] == 1
    assert found["pypi-file-size"] == 1
    assert found["forbidden-attribute"] == 1  # F-72
    assert found["no-hash"] == 1
    assert found["missing-file"] == 2


def test_without_logins(folder: Path) -> None:
    """No finding names the login of an index."""
    with RecordingIndex(folder) as index:
        index.faults.login = ("joe", "s3cret")
        index.faults.wrong_hash.add(INDEX_FILE)
        url = index.url_with_login("joe", "s3cret")
        with open_sources(
            SourceSettings(index_url=url, retries=0), cache_folder=None, environ={}
        ) as repository:
            report = check_project(repository, canonicalize_name("fast"), SpecifierSet(), now=NOW)
    assert codes(report) == {"wrong-hash": 1}
    assert "s3cret" not in repr(report)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("fast-1.0-py3-none-any-mkl.whl", {}),
        (INDEX_FILE, {"bad-values": 1}),
        ("fast-1.0-py3-none-any-CUDA.whl", {"invalid-filename": 1}),
    ],
)
def test_urls(folder: Path, name: str, found: dict[str, int]) -> None:
    """F-131: a wheel or an index file can be named by its URL."""
    spoilt = document(lambda d: d["variants"]["cu128"]["nvidia"]["sm_arch"].reverse())
    write(folder / INDEX_FILE, spoilt)
    with RecordingIndex(folder) as index:
        settings = SourceSettings(no_index=True, retries=0)
        with open_sources(settings, cache_folder=None, environ={}) as repository:
            report = check_url(repository, index.file_url(name))
            other = check_url(repository, index.url)
    assert codes(report) == found
    assert not report.unchecked
    (unchecked,) = other.unchecked
    assert unchecked.hint.endswith(f"`wheelfit index check {index.url}`")
