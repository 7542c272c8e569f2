"""An index on an object store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from server.generate.folders import Site, build_release
from server.services import ObjectStorage

from wheelfit.errors import EnvironmentBusy, StorageUnavailable
from wheelfit.operations.context import Context
from wheelfit.operations.publish import PublishRequest, publish
from wheelfit.server.generate.object_store import ObjectStoreTarget, open_object_store_target
from wheelfit.server.storage import credentials_hint
from wheelfit.server.store.opening import open_blobs
from wheelfit_runtime.errors import InvalidConfiguration

pytestmark = pytest.mark.integration

obstore = pytest.importorskip("obstore", reason="needs the extra `server`")


@pytest.fixture(params=["memory", "s3"])
def store(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Give an empty store, once in memory and once behind the protocol of S3."""
    if request.param == "memory":
        yield obstore.store.MemoryStore()
        return
    server: ObjectStorage = request.getfixturevalue("object_storage")
    yield open_object_store_target(f"{server.bucket()}")._store


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Give a folder with one release."""
    build_release(tmp_path / "dist")
    return Site(tmp_path / "dist", tmp_path / "nothing")


def names(store: Any) -> dict[str, int]:
    """Return every object with its size."""
    return {one["path"]: one["size"] for some in obstore.list(store) for one in some}


class Recorder:
    """Pass everything to a store, and remember what is put there."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.paths: list[str] = []

    def put(self, path: str, file: Any, **options: Any) -> Any:
        """Put an object there."""
        self.paths.append(path)
        return self._store.put(path, file, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.mark.parametrize(
    ("url", "variable"),
    [
        ("s3://bucket/prefix", "AWS_ACCESS_KEY_ID"),
        ("gs://bucket/prefix", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("az://container/prefix", "AZURE_STORAGE_ACCOUNT_KEY"),
    ],
)
def test_a_storage_without_credentials_says_which_ones(url: str, variable: str) -> None:
    """The hint names the variables, for the library tells of addresses that nobody knows."""
    error = OSError("Error performing PUT http://169.254.169.254/latest/api/token")
    assert variable in str(credentials_hint(error, url))
    assert credentials_hint(OSError("the disk is full"), url) is None


def test_a_storage_that_needs_an_account_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uploads and generated indexes are told the same, before anything is sent."""
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    for opening in (open_object_store_target, open_blobs):
        with pytest.raises(InvalidConfiguration) as excinfo:
            opening("az://container/prefix")
        assert "AZURE_STORAGE_ACCOUNT_NAME" in str(excinfo.value.hint)


def test_files_come_first_and_the_manifest_last(site: Site, store: Any) -> None:
    """F-74: at no moment is there a page that names what is not there."""
    recorder = Recorder(store)
    site.generate(ObjectStoreTarget(recorder, "store"))
    order = [path for path in recorder.paths if not path.endswith(".lock")]
    pages = [path for path in order if path.endswith(("index.html", "index.json"))]
    assert order[-5:] == [*pages, "simple/wheelfit.json"]
    assert len(pages) == 4
    there = names(store)
    assert "simple/.lock" not in there
    page = json.loads(bytes(store.get("simple/fast/index.json").bytes()))
    for entry in page["files"]:
        url = entry["url"]
        path = url.removeprefix("../../") if url.startswith("../../") else f"simple/fast/{url}"
        assert there[path] == entry["size"]


def test_only_what_changed_is_uploaded(site: Site, store: Any) -> None:
    """A second run puts nothing there, a new file only itself and its page."""
    site.generate(ObjectStoreTarget(store, "store"))
    recorder = Recorder(store)
    assert site.generate(ObjectStoreTarget(recorder, "store")).written == ()
    assert recorder.paths == ["simple/.lock"]
    build_release(site.folder, "other", labels=(None,))
    done = site.generate(ObjectStoreTarget(recorder, "store"))
    assert not any("fast" in path for path in done.written)
    assert len(done.written) == 6


def test_types_and_how_long_they_may_be_kept(site: Site) -> None:
    """Static hosts send what is stored with an object: JSON pages are of their own type."""
    store = obstore.store.MemoryStore()
    target = ObjectStoreTarget(store, "store")
    site.generate(target)
    target.put_pages([("site.css", b""), ("favicon.svg", b""), ("feed.xml", b"")])
    for path in ("simple/python-multipart/index.json", f"files/{'0' * 16}/some.whl.provenance"):
        target.put_pages([(path, b"")])
        assert store.get(path).attributes["Cache-Control"] == "no-cache"
    found = {}
    for path in names(store):
        attributes = store.get(path).attributes
        found[path.rpartition("/")[2]] = (attributes["Content-Type"], attributes["Cache-Control"])
    assert found["index.json"] == ("application/vnd.pypi.simple.v1+json", "no-cache")
    assert found["index.html"] == ("text/html; charset=utf-8", "no-cache")
    assert found["site.css"][0] == "text/css; charset=utf-8"
    assert found["favicon.svg"][0] == "image/svg+xml"
    assert found["feed.xml"][0] == "application/atom+xml; charset=utf-8"
    kind, kept = found["fast-1.0-variants.json"]
    assert (kind, "immutable" in kept) == ("application/json", True)
    assert "immutable" in found["fast-1.0-py3-none-any.whl.metadata"][1]


def test_a_lock_is_respected_and_does_not_last(site: Site, store: Any) -> None:
    """Two runs do not exchange pages at once; a run that was killed does not block for ever."""
    target = ObjectStoreTarget(store, "store")
    with target.page_lock(), pytest.raises(EnvironmentBusy):
        site.generate(ObjectStoreTarget(store, "store"))
    store.put("simple/.lock", json.dumps({"since": datetime.now(UTC).isoformat()}).encode())
    with pytest.raises(EnvironmentBusy):
        site.generate(target)
    later = datetime.now(UTC) + timedelta(hours=1)
    assert site.generate(ObjectStoreTarget(store, "store", now=lambda: later)).is_published


def test_runs_at_the_same_time_lose_nothing(tmp_path: Path, store: Any) -> None:
    """Jobs that each add a release to one index: every one is there, or was told to try again."""

    def add(version: str) -> str:
        site = Site(tmp_path / version, tmp_path / f"nothing-{version}")
        build_release(site.folder, version=version)
        from packaging.utils import canonicalize_name
        from packaging.version import Version

        wanted = frozenset({(canonicalize_name("fast"), Version(version))})
        while True:
            try:
                site.generate(ObjectStoreTarget(store, "store"), releases=wanted)
            except EnvironmentBusy:
                continue
            return version

    versions = [f"{number}.0" for number in range(1, 13)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(add, versions)) == versions
    page = json.loads(bytes(store.get("simple/fast/index.json").bytes()))
    assert page["versions"] == versions


def test_a_store_that_cannot_be_reached(site: Site) -> None:
    """What the storage says becomes an error of the family, in one line."""
    with pytest.raises(InvalidConfiguration, match="not the URL of a storage"):
        open_object_store_target("nothing://bucket")

    class Broken:
        """Fail."""

        def get(self, path: str) -> None:
            """Fail."""
            raise obstore.exceptions.GenericError(f"no {path}\nsecret")

    with pytest.raises(StorageUnavailable, match=r"no simple/wheelfit\.json"):
        site.generate(ObjectStoreTarget(Broken(), "store"))


def test_a_job_adds_to_a_release(tmp_path: Path, object_storage: ObjectStorage) -> None:
    """Wheels of a release that other jobs have published stay, and need not be named again."""
    place = object_storage.bucket()
    context = Context({"WHEELFIT_CACHE_DIR": str(tmp_path / "cache")})
    files = build_release(tmp_path / "dist")
    for file in files:
        report = publish(PublishRequest(paths=(str(file),), to=place), context)
        assert report.result is not None, report.checks
    page = json.loads(open_object_store_target(place).read("simple/fast/index.json") or b"{}")
    names = {file["filename"] for file in page["files"]}
    assert names == {*(file.name for file in files), "fast-1.0-variants.json"}
    again = publish(PublishRequest(paths=tuple(map(str, files)), to=place), context)
    assert again.result is not None
    assert again.result.sent == ()
    dry = publish(PublishRequest(paths=(str(files[0]),), to=place, dry_run=True), context)
    builds = {choice.build for row in dry.choices[0].machines for choice in row.choices}
    assert builds == {"plain", "mkl"}
