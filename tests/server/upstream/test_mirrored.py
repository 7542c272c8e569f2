"""Pages and files of a mirror, and the requests to its upstream."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from server.upstream.mirroring import JSON, Mirroring, join_pulls, read

from wheelfit.errors import StorageUnavailable
from wheelfit.server.messages import Request, Response
from wheelfit.server.store.blobs import Blobs, Draft
from wheelfit.server.store.folder import FolderBlobs
from wheelfit.server.upstream.opening import open_mirror
from wheelfit.server.upstream.pulled_files import PulledFiles
from wheelfit.server.upstream.settings import MirrorSettings
from wheelfit.sources.html_links import read_links
from wheelfit.sources.repository import Content
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document

Opener = Callable[..., Mirroring]
LARGE = "large-1.0-py3-none-any.whl"
SMALL = "small-1.0-py3-none-any.whl"


class TestPages:
    """Pages of a mirror."""

    def test_file_entries(self, mirror: Opener, upstream: RecordingIndex, wheels: Path) -> None:
        """Hash, size, Python, yank and metadata are the upstream's, the link is the mirror's."""
        upstream.faults.yanked[SMALL] = "broken"
        entry = mirror().page("small")[SMALL]
        data = (wheels / SMALL).read_bytes()
        assert entry["hashes"] == {"sha256": hashlib.sha256(data).hexdigest()}
        assert entry["size"] == len(data)
        assert entry["requires-python"] == ">=3.8"
        assert entry["yanked"] == "broken"
        assert list(entry["core-metadata"]) == ["sha256"]
        assert entry["url"] == f"../../files/{SMALL}"

    @pytest.mark.parametrize("form", [JSON, "text/html"])
    def test_project_status(self, mirror: Opener, upstream: RecordingIndex, form: str) -> None:
        """PEP 792: the status is passed on; a quarantined project has no files."""
        one = mirror(max_age=0.0)
        assert one.file(SMALL)
        files: list[object] = [{"filename": SMALL, "url": f"../../files/{SMALL}", "hashes": {}}]
        for status, left in (("archived", 1), ("quarantined", 0)):
            document = {"meta": {"api-version": "1.4"}, "name": "small", "files": files}
            document["project-status"] = {"status": status, "reason": "so & so"}
            upstream.faults.content["/simple/small/"] = json.dumps(document).encode()
            body = b"".join(one.ask("/simple/small/", {"accept": form}).body).decode()
            assert body.count(f"{SMALL}<" if form != JSON else f'"{SMALL}"') == left
            if form == JSON:
                served = json.loads(body)
                assert served["project-status"] == document["project-status"]
                assert served["meta"] == {"api-version": "1.4"}
            else:
                assert f'<meta name="pypi:project-status" content="{status}">' in body
                assert '<meta name="pypi:project-status-reason" content="so &amp; so">' in body
                assert '<meta name="pypi:repository-version" content="1.4">' in body
        assert one.ask(f"/files/{SMALL}").status == 404

    def test_upload_times_and_attestations(self, mirror: Opener) -> None:
        """They are passed on, the attestations under a URL of the mirror."""
        page = {
            "meta": {"api-version": "1.3"},
            "name": "some",
            "files": [
                {
                    "filename": "some-1.0-py3-none-any.whl",
                    "url": "some-1.0-py3-none-any.whl",
                    "hashes": {"sha256": "0" * 64},
                    "size": 3,
                    "upload-time": "2026-01-02T03:04:05.678901Z",
                    "provenance": "/integrity/some.json",
                }
            ],
        }

        def answer(request: Request) -> Response:
            if request.path == "/simple/some/":
                return Response.of(200, json.dumps(page).encode(), {"content-type": JSON})
            if request.path == "/integrity/some.json":
                return Response.of(200, b'{"version":1}', {"content-type": "application/json"})
            return Response.text(404, "none")

        with RecordingIndex(answer) as upstream:
            one = mirror(upstream.url)
            entry = one.page("some")["some-1.0-py3-none-any.whl"]
            assert entry["upload-time"] == "2026-01-02T03:04:05.678901Z"
            assert entry["provenance"] == "../../files/some-1.0-py3-none-any.whl.provenance"
            assert one.file("some-1.0-py3-none-any.whl.provenance") == b'{"version":1}'
            assert one.file("some-1.0-py3-none-any.whl.provenance") == b'{"version":1}'
            assert len(upstream.requests_for("/integrity/some.json")) == 1
        # Another process has them without the upstream.
        assert mirror(upstream.url).file("some-1.0-py3-none-any.whl.provenance") == b'{"version":1}'

    def test_html_only_upstream(self, mirror: Opener, upstream: RecordingIndex) -> None:
        """The mirror serves JSON for an HTML upstream, and HTML for a JSON one."""
        upstream.faults.html_only = True
        one = mirror()
        assert set(one.page("small")) == {SMALL, "small-2.0-py3-none-any.whl"}
        html = one.ask("/simple/small/", {"accept": "text/html"})
        links = read_links(read(html).decode()).links
        assert [link.text for link in links] == [SMALL, "small-2.0-py3-none-any.whl"]

    def test_fresh_pages(self, mirror: Opener, upstream: RecordingIndex) -> None:
        """The upstream is asked once, later with the entity tag, without a body in return."""
        one = mirror(max_age=10)
        for _ in range(3):
            one.page("small")
        assert len(upstream.requests_for("/simple/small/")) == 1
        one.clock.now += 11
        one.page("small")
        first, second = upstream.requests_for("/simple/small/")
        assert (first.status, second.status, second.sent) == (200, 304, 0)

    def test_new_file(self, mirror: Opener, wheels: Path) -> None:
        """After the page expires a new file is listed, also on cached pages."""
        one = mirror(max_age=10)
        assert len(one.page("small")) == 2
        build_wheel(wheels, "small", "3.0")
        assert len(one.page("small")) == 2
        one.clock.now += 11
        assert len(one.page("small")) == 3

    def test_missing_projects(self, mirror: Opener, upstream: RecordingIndex, wheels: Path) -> None:
        """One request is sent until the project may have appeared."""
        one = mirror(not_found_max_age=10)
        for _ in range(3):
            assert one.ask("/simple/none/").status == 404
        assert len(upstream.requests_for("/simple/none/")) == 1
        build_wheel(wheels, "none", "1.0")
        assert one.ask("/simple/none/").status == 404
        one.clock.now += 11
        assert one.ask("/simple/none/").status == 200

    def test_unavailable_upstream(self, mirror: Opener, upstream: RecordingIndex) -> None:
        """An old page is served and marked as stale; an unknown project is an error."""
        one = mirror(max_age=10, stale_if_error=1000)
        before = one.page("small")
        upstream.faults.status["*"] = 500
        one.clock.now += 60 * 5
        assert one.page("small") == before
        assert any("small is served as" in note and "5 minutes ago" in note for note in one.notes)
        assert one.index.last_error is not None
        assert one.ask("/simple/large/").status == 502
        one.clock.now += 1000
        assert one.ask("/simple/small/").status == 502
        upstream.faults.status.clear()
        assert one.ask("/simple/small/").status == 200
        assert one.index.last_error is None

    def test_returning_upstream(self, mirror: Opener, tmp_path: Path) -> None:
        """An upstream that refused connections is tried again after a second."""
        (tmp_path / "simple/small").mkdir(parents=True)
        link = f'<a href="{SMALL}">{SMALL}</a>'
        (tmp_path / "simple/small/index.html").write_text(f"<!DOCTYPE html>{link}")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = taken.getsockname()
        one = mirror(f"http://127.0.0.1:{address[1]}/simple/")
        assert one.ask("/simple/small/").status == 502
        handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
        with ThreadingHTTPServer(address, handler) as server:
            threading.Thread(target=server.serve_forever).start()
            time.sleep(1.1)
            answer = one.ask("/simple/small/")
            server.shutdown()
        assert answer.status == 200

    def test_pages_after_a_restart(
        self, mirror: Opener, upstream: RecordingIndex, tmp_path: Path
    ) -> None:
        """A mirror that starts without its upstream has the earlier pages."""
        before = mirror().page("small")
        upstream.faults.status["*"] = 503
        again = mirror(max_age=0)
        again.clock.now += 60
        assert again.page("small") == before
        assert tmp_path.joinpath("mirror/cache").is_dir()

    def test_revoked_access(self, mirror: Opener, upstream: RecordingIndex) -> None:
        """After a refusal no old page is served."""
        upstream.faults.login = ("me", "secret")
        one = mirror(upstream.url_with_login("me", "secret"), max_age=10)
        assert one.page("small")
        upstream.faults.login = ("me", "changed")
        one.clock.now += 11
        answer = one.ask("/simple/small/")
        assert answer.status == 502
        assert b"secret" not in read(answer)

    def test_concurrent_requests(self, mirror: Opener, upstream: RecordingIndex) -> None:
        """Requests for a page that is being fetched wait for it."""
        upstream.faults.delay["/simple/small/"] = 0.2
        one = mirror()
        with ThreadPoolExecutor(8) as pool:
            assert len(list(pool.map(one.page, ["small"] * 8))) == 8
        assert len(upstream.requests_for("/simple/small/")) == 1

    def test_allowed_names(self, mirror: Opener, upstream: RecordingIndex) -> None:
        """Names that are not allowed are unknown, and the upstream is not asked."""
        one = mirror(allow=("sm*",), deny=("small_2",))
        assert one.ask("/simple/small/").status == 200
        assert one.ask("/simple/large/").status == 404
        assert one.ask(f"/files/{LARGE}").status == 404
        assert one.ask("/simple/small-2/").status == 404
        assert {request.path for request in upstream.requests} == {"/simple/small/"}

    def test_project_list(self, mirror: Opener) -> None:
        """It has the requested projects, or all if so configured."""
        one = mirror()
        assert tuple(one.index.projects()) == ()
        one.page("small")
        assert tuple(one.index.projects()) == ("small",)
        assert tuple(mirror(list_all=True).index.projects()) == ("large", "small")
        assert tuple(mirror(list_all=True, deny=("l*",)).index.projects()) == ("small",)


class TestFiles:
    """Files of a mirror."""

    def test_first_request(self, mirror: Opener, upstream: RecordingIndex, wheels: Path) -> None:
        """Pages fetch no files, and the second request is served from the store."""
        one = mirror()
        one.page("large")
        assert not upstream.requests_for("/files/")
        data = (wheels / LARGE).read_bytes()
        assert one.file(LARGE) == data
        assert one.file(LARGE) == data
        assert upstream.bytes_sent(LARGE) == len(data)
        assert one.kept() == {hashlib.sha256(data).hexdigest(): len(data)}

    def test_stored_file_without_upstream(
        self, mirror: Opener, upstream: RecordingIndex, wheels: Path
    ) -> None:
        """With an old page and a stored file a mirror works without its upstream."""
        mirror().file(LARGE)
        upstream.faults.status["*"] = 500
        assert mirror(max_age=0).file(LARGE) == (wheels / LARGE).read_bytes()

    def test_concurrent_requests(
        self, mirror: Opener, upstream: RecordingIndex, wheels: Path
    ) -> None:
        """Each gets the whole file from a single download."""
        upstream.faults.delay[LARGE] = 0.2
        one = mirror()
        with ThreadPoolExecutor(8) as pool:
            got = list(pool.map(one.file, [LARGE] * 8))
        assert got == [(wheels / LARGE).read_bytes()] * 8
        assert len(upstream.requests_for(LARGE)) == 1

    def test_streaming(self, mirror: Opener, upstream: RecordingIndex, wheels: Path) -> None:
        """A client gets bytes before the download is complete."""
        upstream.faults.stall[LARGE] = 600_000
        answer = mirror().ask(f"/files/{LARGE}")
        first = next(piece for piece in answer.body if piece)  # empty: nothing for a moment
        assert (wheels / LARGE).read_bytes().startswith(first)

    def test_wrong_hash(self, mirror: Opener, upstream: RecordingIndex, wheels: Path) -> None:
        """The response is cut, nothing is stored, and the operator is notified."""
        upstream.faults.wrong_hash.add(LARGE)
        upstream.faults.trickle[LARGE] = 0.0001
        one = mirror()
        answer = one.ask(f"/files/{LARGE}")
        assert answer.status == 200
        got = read(answer)
        assert len(got) <= answer.length - (1 << 16)
        assert (wheels / LARGE).read_bytes().startswith(got)
        assert one.kept() == {}
        assert any(LARGE in note for note in one.notes)

    def test_wrong_hash_of_a_small_file(self, mirror: Opener, upstream: RecordingIndex) -> None:
        """Nothing is sent, as it would be complete before the check."""
        upstream.faults.wrong_hash.add(SMALL)
        assert mirror().ask(f"/files/{SMALL}").status == 502

    @pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "none"])
    def test_interrupted_download(
        self, upstream: RecordingIndex, mirror: Opener, wheels: Path, *, ranges: bool
    ) -> None:
        """It resumes with a range, or restarts without ranges; clients do not notice."""
        data = (wheels / LARGE).read_bytes()
        upstream.faults.ranges = ranges
        upstream.faults.truncate[LARGE] = 400_000
        one = mirror()
        answer = one.ask(f"/files/{LARGE}")
        pieces = iter(answer.body)
        got = next(pieces)
        upstream.faults.truncate.clear()
        assert got + b"".join(pieces) == data
        last = upstream.requests_for(LARGE)[-1]
        assert last.sent == (len(data) - 400_000 if ranges else len(data))

    def test_missing_file(self, mirror: Opener, upstream: RecordingIndex) -> None:
        """404 is passed on, and a failing upstream is an error of its own."""
        one = mirror()
        one.page("small")
        upstream.faults.status[SMALL] = 404
        assert one.ask(f"/files/{SMALL}").status == 404
        upstream.faults.status[SMALL] = 500
        assert one.ask(f"/files/{SMALL}").status == 502

    def test_wrong_size(self, mirror: Opener, upstream: RecordingIndex) -> None:
        """It is refused before a byte is sent."""
        upstream.faults.content[SMALL] = b"something else"
        assert mirror().ask(f"/files/{SMALL}").status == 502

    def test_ranges_and_conditions(self, mirror: Opener, wheels: Path) -> None:
        """A range of a file that is not stored is sent after the whole file is verified."""
        data = (wheels / LARGE).read_bytes()
        one = mirror()
        answer = one.ask(f"/files/{LARGE}", {"range": "bytes=-100"})
        assert (answer.status, read(answer)) == (206, data[-100:])
        etag = f'"{hashlib.sha256(data).hexdigest()}"'
        assert one.ask(f"/files/{LARGE}", {"if-none-match": etag}).status == 304
        assert one.ask(f"/files/{LARGE}", {"range": f"bytes={len(data)}-"}).status == 416

    def test_unlisted_files(self, mirror: Opener, upstream: RecordingIndex) -> None:
        """A valid file name that no page lists is not available."""
        one = mirror()
        for name in ("small-9.9-py3-none-any.whl", "..%2f..%2fetc%2fpasswd", "small", ""):
            assert one.ask(f"/files/{name}").status == 404
        assert one.ask(f"/files/{SMALL}.metadata.provenance").status == 404
        assert one.ask(f"/files/{SMALL}.provenance.metadata").status == 404
        assert {request.path for request in upstream.requests} <= {"/simple/small/"}

    def test_eviction(self, mirror: Opener, wheels: Path) -> None:
        """Above the limit in bytes the least recently used files are removed."""
        size = (wheels / LARGE).stat().st_size
        for version in ("2.0", "3.0", "4.0"):
            path = build_wheel(wheels, "large", version, files={"x": (wheels / LARGE).read_bytes()})
            assert path.stat().st_size > 1000
        names = sorted(path.name for path in wheels.glob("large-*.whl"))
        one = mirror(max_size=size * 7 // 2)
        for name in names[:3]:
            one.file(name)
            assert one.kept()
            one.clock.now += 1000
        one.file(names[0])
        one.clock.now += 1000
        one.file(names[3])
        kept = set(one.kept())
        digests = [hashlib.sha256((wheels / name).read_bytes()).hexdigest() for name in names]
        assert digests[0] in kept
        assert digests[3] in kept
        assert digests[1] not in kept
        assert one.file(names[1]) == (wheels / names[1]).read_bytes()


class FullBlobs:
    """Blobs that store nothing, like a full disk."""

    def __init__(self, blobs: Blobs) -> None:
        self.draft = blobs.draft
        self.size = blobs.size
        self.parts = blobs.parts
        self.delete = blobs.delete
        self.all_blobs = blobs.all_blobs
        self.remove_old_drafts = blobs.remove_old_drafts

    def save(self, draft: Draft) -> None:
        """Refuse."""
        raise StorageUnavailable("no space left", where=str(draft.path))


class ForgetfulBlobs(FullBlobs):
    """Blobs that silently store nothing, as if others deleted each new file."""

    def __init__(self, blobs: Blobs) -> None:
        super().__init__(blobs)
        self.is_read = threading.Event()

    def save(self, draft: Draft) -> None:
        """Wait until somebody has the file."""
        assert self.is_read.wait(20), draft.path


class TestStorage:
    """Storages that fail."""

    def test_file_that_cannot_be_stored(
        self, upstream: RecordingIndex, wheels: Path, tmp_path: Path
    ) -> None:
        """Clients get the file, and the operator is notified."""
        notes: list[str] = []
        blobs = FullBlobs(FolderBlobs(tmp_path / "blobs"))
        settings = MirrorSettings(upstream.url)
        index = open_mirror(settings, PulledFiles(blobs), None, environ={}, note=notes.append)
        for _ in range(2):
            content = index.content(LARGE)
            assert isinstance(content, Content)
            time.sleep(0.1)  # the storage fails before the client begins to read
            data = b"".join(content.parts(0, content.size))
            assert data == (wheels / LARGE).read_bytes()
            join_pulls()
        assert len(upstream.requests_for(LARGE)) == 2
        assert notes == [f"{LARGE} is not stored: no space left"] * 2
        index.close()

    @pytest.mark.parametrize("hashes", [True, False])
    def test_prefetched_file_that_is_not_stored(
        self, upstream: RecordingIndex, tmp_path: Path, *, hashes: bool
    ) -> None:
        """A downloaded file that is not stored is an error, also after its download ended."""
        upstream.faults.hashes = hashes
        blobs = ForgetfulBlobs(FolderBlobs(tmp_path / "blobs"))
        index = open_mirror(MirrorSettings(upstream.url), PulledFiles(blobs), None, environ={})
        with pytest.raises(StorageUnavailable):
            index.fetch_and_store(SMALL, lambda count: blobs.is_read.set() if count else None)
        index.close()

    def test_unwritable_folder(self, mirror: Opener, tmp_path: Path) -> None:
        """It is an error of the storage, not of the upstream."""
        one = mirror()
        (tmp_path / "mirror").mkdir(exist_ok=True)
        (tmp_path / "mirror/blobs").write_text("a file")
        with pytest.raises(StorageUnavailable):
            one.ask(f"/files/{LARGE}")


class TestMetadata:
    """Metadata beside a wheel (PEP 658)."""

    def test_metadata_of_the_upstream(self, mirror: Opener, upstream: RecordingIndex) -> None:
        """It is fetched separately and verified."""
        one = mirror()
        entry = one.page("small")[SMALL]
        data = one.file(f"{SMALL}.metadata")
        assert hashlib.sha256(data).hexdigest() == entry["core-metadata"]["sha256"]
        assert not upstream.requests_for(SMALL)

    def test_metadata_from_the_wheel(
        self, mirror: Opener, upstream: RecordingIndex, wheels: Path
    ) -> None:
        """It is read with a few range requests, and listed metadata is always available."""
        upstream.faults.metadata = False
        one = mirror()
        entry = one.page("large")[LARGE]
        assert entry["core-metadata"] is True
        assert b"Name: large" in one.file(f"{LARGE}.metadata")
        assert upstream.bytes_sent(LARGE) < 100_000 < (wheels / LARGE).stat().st_size

    def test_no_ranges(self, mirror: Opener, upstream: RecordingIndex) -> None:
        """Without ranges no metadata is listed, and no wheel is fetched for it."""
        upstream.faults.metadata = upstream.faults.ranges = False
        one = mirror()
        assert "core-metadata" not in one.page("large")[LARGE]
        assert one.ask(f"/files/{LARGE}.metadata").status == 404
        one.file(LARGE)
        assert one.kept()
        assert b"Name: large" in one.file(f"{LARGE}.metadata")

    def test_one_probe_for_ranges(
        self, mirror: Opener, upstream: RecordingIndex, wheels: Path
    ) -> None:
        """One probe per server, however many files a page has, also if it fails."""
        for number in range(3, 9):
            build_wheel(wheels, "small", f"{number}.0")
        upstream.faults.metadata = False
        upstream.faults.status["/files/"] = 404
        one = mirror()
        assert not any("core-metadata" in entry for entry in one.page("small").values())
        assert len(upstream.requests_for("/files/")) == 1

    def test_wrong_hash(self, mirror: Opener, upstream: RecordingIndex) -> None:
        """Metadata with a wrong hash is replaced by that of the wheel, with its hash."""
        upstream.faults.wrong_metadata_hash.add(SMALL)
        one = mirror()
        assert "sha256" in one.page("small")[SMALL]["core-metadata"]
        assert b"Name: small" in one.file(f"{SMALL}.metadata")
        assert one.page("small")[SMALL]["core-metadata"] is True
        assert len(upstream.requests_for(f"{SMALL}.metadata")) == 1

    def test_wrong_hash_without_ranges(self, mirror: Opener, upstream: RecordingIndex) -> None:
        """Clients fetch the wheel instead."""
        upstream.faults.wrong_metadata_hash.add(SMALL)
        upstream.faults.ranges = False
        one = mirror()
        assert one.ask(f"/files/{SMALL}.metadata").status == 404
        assert "core-metadata" not in one.page("small")[SMALL]
        assert one.file(SMALL)


DOCUMENT = release_document(
    {"null": {}, "mkl": {"blas": {"library": ["mkl"]}}},
    static={"blas": {"library": ["mkl"]}},
)


def put_variants(folder: Path, *, listed: bool = True, **more: Any) -> None:
    """Put a release with variants into a folder."""
    for label in ("null", "mkl", None):
        build_wheel(folder, "fast", "1.0", label=label, document=DOCUMENT if label else None)
    if listed:
        (folder / "fast-1.0-variants.json").write_text(json.dumps({**DOCUMENT, **more}, indent=7))


class TestDocuments:
    """The ``-variants.json`` of a release."""

    def test_unchanged_document(self, mirror: Opener, wheels: Path) -> None:
        """F-128: its bytes are the upstream's, and only its identity is listed."""
        put_variants(wheels)
        one = mirror()
        data = (wheels / "fast-1.0-variants.json").read_bytes()
        entry = one.page("fast")["fast-1.0-variants.json"]
        assert entry["hashes"] == {"sha256": hashlib.sha256(data).hexdigest()}
        assert "core-metadata" not in entry
        assert one.file("fast-1.0-variants.json") == data

    def test_changed_document(self, mirror: Opener, wheels: Path) -> None:
        """F-73: the page is read again before an error is reported."""
        put_variants(wheels)
        one = mirror(max_age=1000)
        one.page("fast")
        path = wheels / "fast-1.0-variants.json"
        path.write_text(json.dumps(DOCUMENT))
        assert one.file(path.name) == path.read_bytes()
        entry = one.page("fast")[path.name]
        assert entry["hashes"] == {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}

    def test_no_document(self, mirror: Opener, wheels: Path) -> None:
        """F-128: without a document of the upstream there is none."""
        put_variants(wheels, listed=False)
        one = mirror()
        assert "fast-1.0-variants.json" not in one.page("fast")
        assert one.ask("/files/fast-1.0-variants.json").status == 404
