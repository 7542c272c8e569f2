"""Packages of other indexes that are imported: over HTTP, from folders, and from devpi."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest
from packaging.utils import canonicalize_name
from server.uploading import DOCUMENT, upload

from wheelfit.errors import UsageError
from wheelfit.operations.context import Context
from wheelfit.operations.import_index import ImportedPackages, ImportIndexRequest, import_live_index
from wheelfit.server.messages import Request, Response
from wheelfit.server.simple import SimpleIndex
from wheelfit.server.store.opening import open_store
from wheelfit.server.store.records import StoredFile
from wheelfit.server.store.stored_index import StoredIndex
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.errors import FileProblem, NetworkError

LONG_AGO = datetime(2020, 2, 29, 12, tzinfo=UTC)


@pytest.fixture
def old(tmp_path: Path) -> Iterator[RecordingIndex]:
    """Give another live index, with variants, a yank, and times of upload."""
    wheels = tmp_path / "wheels"
    with open_store(tmp_path / "old") as store:
        for label in ("null", "mkl", None):
            wheel = build_wheel(wheels, "some", "1.0", label=label, document=DOCUMENT)
            upload(store, wheel, now=LONG_AGO)
        upload(store, build_wheel(wheels, "some", "2.0", requires_python=">=3.9"), now=LONG_AGO)
        upload(store, build_wheel(wheels, "other", "1.0"), now=LONG_AGO)
        store.records.yank(["some-2.0-py3-none-any.whl"], "broken")
        with RecordingIndex(SimpleIndex(StoredIndex(store))) as index:
            yield index


def bring(source: object, at: Path, **more: object) -> ImportedPackages:
    """Import something into a store."""
    request = ImportIndexRequest(source=str(source), at=str(at), **more)  # type: ignore[arg-type]
    return cast("ImportedPackages", import_live_index(request, Context(environ={})))


def files(at: Path, project: str = "some") -> dict[str, StoredFile]:
    """Return the files of a project by name."""
    with open_store(at) as store:
        listing = store.records.listing(canonicalize_name(project))
        return {} if listing is None else {file.filename: file for file in listing.files}


def reasons(report: ImportedPackages) -> dict[str, set[str]]:
    """Return why files were refused."""
    return {one.filename: {each.reference for each in one.reasons} for one in report.refused}


def test_everything_of_an_index(old: RecordingIndex, tmp_path: Path) -> None:
    """Files, yanks, times of upload and the document of variants are as they were."""
    report = bring(old.url, tmp_path / "new", owner="acme")
    assert (report.files, report.added, report.existing) == (5, 5, 0)
    assert (report.refused, report.failed, report.missing) == ((), (), ())
    assert files(tmp_path / "new") == files(tmp_path / "old")
    assert files(tmp_path / "new", "other") == files(tmp_path / "old", "other")
    with open_store(tmp_path / "new") as new, open_store(tmp_path / "old") as before:
        document = "some-1.0-variants.json"
        assert new.records.release_document(document) == before.records.release_document(document)
        assert new.records.owners(canonicalize_name("some")) == {"acme"}


def test_only_what_is_missing(old: RecordingIndex, tmp_path: Path) -> None:
    """A second import fetches pages alone, and takes over what was yanked meanwhile."""
    bring(old.url, tmp_path / "new", projects=("other",))
    assert set(files(tmp_path / "new", "other")) == {"other-1.0-py3-none-any.whl"}
    assert not files(tmp_path / "new")
    old.clear_requests()
    assert bring(old.url, tmp_path / "new").existing == 1
    assert not old.requests_for("other-1.0-py3-none-any.whl")
    with open_store(tmp_path / "old") as store:
        store.records.yank(["other-1.0-py3-none-any.whl"], "late")
    old.clear_requests()
    assert bring(old.url, tmp_path / "new").added == 0
    assert not old.requests_for("/files/")
    assert files(tmp_path / "new", "other")["other-1.0-py3-none-any.whl"].yanked == "late"


def test_a_dry_run(old: RecordingIndex, tmp_path: Path) -> None:
    """It counts files and bytes, fetches none, and creates nothing."""
    report = bring(old.url, tmp_path / "new", dry_run=True)
    sizes = [
        file.size for name in ("some", "other") for file in files(tmp_path / "old", name).values()
    ]
    assert (report.added, report.added_size, report.size) == (5, sum(sizes), sum(sizes))
    assert not old.requests_for("/files/")
    assert not (tmp_path / "new").exists()
    bring(old.url, tmp_path / "new", projects=("some",))
    report = bring(old.url, tmp_path / "new", dry_run=True)
    assert (report.added, report.existing) == (1, 4)
    database = tmp_path / "another" / "records.sqlite3"
    url = f"sqlite:////{database.as_posix().lstrip('/')}"  # as SQLAlchemy writes it
    assert bring(old.url, tmp_path / "another", database=url, dry_run=True).existing == 0
    assert not database.parent.exists()


def test_names_that_are_not_there(old: RecordingIndex, tmp_path: Path) -> None:
    """They are told, and the others come."""
    report = bring(old.url, tmp_path / "new", projects=("Some", "absent"))
    assert (report.missing, report.added) == (("absent",), 4)


def test_what_is_refused(old: RecordingIndex, tmp_path: Path) -> None:
    """Each file has its own reasons, and all others are imported."""
    with open_store(tmp_path / "new") as store:
        other = build_wheel(tmp_path / "else", "other", "1.0", requires=["x"])
        upload(store, other)
    wheel = "some-1.0-py3-none-any.whl"
    old.faults.content[wheel] = bytes(files(tmp_path / "old")[wheel].size)
    report = bring(old.url, tmp_path / "new")
    assert reasons(report) == {
        "other-1.0-py3-none-any.whl": {"name-taken"},
        wheel: {"hash-mismatch"},
    }
    assert (report.added, report.existing) == (3, 0)
    del old.faults.content[wheel]
    assert bring(old.url, tmp_path / "new").added == 1


def test_pages_that_lie(old: RecordingIndex, tmp_path: Path) -> None:
    """What a page says of METADATA and of Python has to be what the file has."""
    page = b"".join(SimpleIndexPage(old).get("some"))
    content = json.loads(page)
    for file in content["files"]:
        if file["filename"].startswith("some-2.0"):
            file["requires-python"] = ">=3.8"
        elif file["filename"].endswith("any-mkl.whl"):
            file["core-metadata"] = {"sha256": "0" * 64}
    old.faults.content["/simple/some/"] = json.dumps(content).encode()
    report = bring(old.url, tmp_path / "new", projects=("some",))
    assert reasons(report) == {
        "some-2.0-py3-none-any.whl": {"page-disagrees"},
        "some-1.0-py3-none-any-mkl.whl": {"page-disagrees"},
    }


def test_times_that_no_index_has(old: RecordingIndex, tmp_path: Path) -> None:
    """What is stored of an upload at the edge of the calendar can be read again, in UTC."""
    content = json.loads(b"".join(SimpleIndexPage(old).get("some")))
    times = ("0500-01-01T00:00:00Z", "0001-01-01T00:00:00+10:00", "9999-12-31T23:59:59-10:00")
    for entry, time in zip(content["files"], times, strict=False):
        entry["upload-time"] = time
    old.faults.content["/simple/some/"] = json.dumps(content).encode()
    assert bring(old.url, tmp_path / "new", projects=("some",)).added == 4
    stored = [datetime.fromisoformat(file.uploaded) for file in files(tmp_path / "new").values()]
    assert min(stored) == datetime(500, 1, 1, tzinfo=UTC)
    assert max(stored) <= datetime.now(UTC)


class SimpleIndexPage:
    """The pages of an index in JSON."""

    def __init__(self, index: RecordingIndex) -> None:
        self._index = index

    def get(self, name: str) -> tuple[bytes, ...]:
        """Return the page of a project."""
        import urllib.request

        headers = {"accept": "application/vnd.pypi.simple.v1+json"}
        request = urllib.request.Request(f"{self._index.url}{name}/", headers=headers)
        with urllib.request.urlopen(request) as answer:
            return (answer.read(),)


def test_provenance_that_does_not_hold(old: RecordingIndex, tmp_path: Path) -> None:
    """A file whose attestations cannot be verified is refused."""
    content = json.loads(b"".join(SimpleIndexPage(old).get("other")))
    content["files"][0]["provenance"] = f"{old.origin}/provenance"
    old.faults.content["/simple/other/"] = json.dumps(content).encode()
    inner = old._inner

    def answer(request: Request) -> Response:
        if request.path == "/provenance":
            return Response.of(
                200, b'{"version":1,"attestation_bundles":[]}', {"content-type": "x"}
            )
        return inner(request)

    with RecordingIndex(answer) as index:
        index.faults = old.faults
        content["files"][0]["provenance"] = f"{index.origin}/provenance"
        old.faults.content["/simple/other/"] = json.dumps(content).encode()
        report = bring(index.url, tmp_path / "new", projects=("other",))
    assert reasons(report) == {"other-1.0-py3-none-any.whl": {"bad-attestation"}}


def test_a_server_that_fails(old: RecordingIndex, tmp_path: Path) -> None:
    """Files that cannot be fetched are told, and come the next time."""
    old.faults.status["other-1.0-py3-none-any.whl"] = 404
    report = bring(old.url, tmp_path / "new", retries=0)
    assert [one.name for one in report.failed] == ["other-1.0-py3-none-any.whl"]
    assert report.added == 4
    old.faults.status.clear()
    assert bring(old.url, tmp_path / "new").added == 1
    old.faults.status["*"] = 500
    with pytest.raises(NetworkError):
        bring(old.url, tmp_path / "newer", retries=0)
    assert not (tmp_path / "newer").exists()


def test_a_private_index_of_old_pages(tmp_path: Path) -> None:
    """Pages in HTML, with a login, without sizes and without hashes."""
    build_wheel(tmp_path / "wheels", "some", "1.0")
    with RecordingIndex(tmp_path / "wheels") as index:
        index.faults.html_only = True
        index.faults.hashes = index.faults.sizes = index.faults.metadata = False
        index.faults.login = ("me", "secret")
        for added in (1, 0):  # only its content tells that a file is there
            report = bring(index.url_with_login("me", "secret"), tmp_path / "new")
            assert (report.added, report.existing) == (added, 1 - added)
            assert (report.refused, report.failed) == ((), ())
        assert bring(index.url, tmp_path / "newer", projects=("some",)).failed


def test_a_folder_of_packages(tmp_path: Path) -> None:
    """Wheels in nested folders, as pypiserver has them; nothing hidden, nothing else."""
    there = tmp_path / "packages"
    build_wheel(there / "deep/er", "some", "1.0")
    build_wheel(there, "other", "1.0")
    build_wheel(there / ".hidden", "third", "1.0")
    (there / "README.txt").write_text("some-1.0")
    (there / "bad-1.0-py3-none-any.whl").write_bytes(b"PK")
    (there / "lost-1.0-py3-none-any.whl").symlink_to(tmp_path / "nowhere")
    for expected in (2, 0):
        report = bring(there, tmp_path / "new")
        assert (report.files, report.added) == (3, expected)
        assert reasons(report).keys() == {"bad-1.0-py3-none-any.whl"}
    assert report.existing == 2
    assert files(tmp_path / "new").keys() == {"some-1.0-py3-none-any.whl"}


def devpi_export(folder: Path, wheel: Path, digest: str | None = None) -> Path:
    """Write an export as devpi does."""
    entry = {
        "type": "releasefile",
        "projectname": "some",
        "relpath": wheel.relative_to(folder).as_posix(),
        "entrymapping": {
            "hash_spec": f"sha256={digest or hashlib.sha256(wheel.read_bytes()).hexdigest()}"
        },
        "log": [{"what": "upload", "who": "acme", "when": [2020, 2, 29, 12, 0, 0]}],
    }
    indexes = {"root/pypi": {"indexconfig": {"type": "mirror"}}, "acme/prod": {"files": [entry]}}
    content = {"dumpversion": "2", "users": {}, "indexes": indexes}
    (folder / "dataindex.json").write_text(json.dumps(content))
    return folder


def test_an_export_of_devpi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes and times of upload come from it, named as a whole or by one index."""
    there = tmp_path / "export"
    wheel = build_wheel(there / "acme/prod/some/1.0", "some", "1.0")
    devpi_export(there, wheel)
    monkeypatch.chdir(there / "acme")
    for number, source in enumerate((there, there / "acme/prod", "prod")):
        assert bring(source, tmp_path / str(number)).added == 1
        (stored,) = files(tmp_path / str(number)).values()
        assert stored.uploaded.startswith("2020-02-29T12:00:00")
    devpi_export(there, wheel, "0" * 64)
    assert reasons(bring(there, tmp_path / "new")) == {wheel.name: {"hash-mismatch"}}
    endless = (there / "dataindex.json").read_text().replace("[2020, ", f"[{10**30}, ")
    for text in ('{"indexes": []}', "[" * 200_000, endless):
        (there / "dataindex.json").write_text(text)
        with pytest.raises(FileProblem):
            bring(there, tmp_path / "newer")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of names that are no text")
def test_a_folder_with_what_is_no_package(tmp_path: Path) -> None:
    """Pipes and circular links are left alone, and a name that is not Unicode is refused."""
    there = tmp_path / "packages"
    build_wheel(there, "some", "1.0")
    os.mkfifo(there / "other-1.0.tar.gz")
    (there / "third-1.0.tar.gz").symlink_to("third-1.0.tar.gz")
    odd = os.fsdecode(b"s\xff-1.0.tar.gz")
    (there / odd).touch()
    report = bring(there, tmp_path / "new")
    assert (report.files, report.added) == (2, 1)
    assert reasons(report) == {odd: {"invalid-filename"}}


@pytest.mark.parametrize("name", ["../x", "", "a b"])
def test_names_that_are_none(name: str, old: RecordingIndex, tmp_path: Path) -> None:
    """They are refused before anything is asked for."""
    with pytest.raises(UsageError):
        bring(old.url, tmp_path / "new", projects=(name,))
    assert not old.requests


@pytest.mark.parametrize("kind", ["empty", "file", "absent", "url"])
def test_nothing_to_import(kind: str, tmp_path: Path) -> None:
    """It is told, and no store is created."""
    source = tmp_path / "source"
    if kind == "empty":
        source.mkdir()
    elif kind == "file":
        source.touch()
    with pytest.raises(FileProblem):
        bring(source.as_uri() if kind == "url" else source, tmp_path / "new")
    assert not (tmp_path / "new").exists()
