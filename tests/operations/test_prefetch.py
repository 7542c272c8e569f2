"""Mirrors that are filled ahead of time, and serve without their upstream."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from wheelfit.errors import UsageError
from wheelfit.operations.context import Context
from wheelfit.operations.prefetch import PrefetchReport, PrefetchRequest, prefetch
from wheelfit.server.folder import FolderIndex
from wheelfit.server.messages import Request, Response
from wheelfit.server.simple import SimpleIndex
from wheelfit.server.upstream.opening import open_mirrors_in
from wheelfit.server.upstream.settings import mirror_of_text
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_release, build_wheel, release_document
from wheelfit_runtime.errors import InvalidConfiguration

JSON = "application/vnd.pypi.simple.v1+json"


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[RecordingIndex]:
    """Give an index with two projects, one of them with variants."""
    wheels = tmp_path / "wheels"
    build_wheel(wheels, "some", "1.0", requires=["other"])
    build_wheel(wheels, "some", "2.0")
    build_wheel(wheels, "some", "3.0a1")
    document = release_document({"cu12": {"acme": {"a": ["1"]}}, "cu13": {"acme": {"a": ["2"]}}})
    build_release(wheels, "other", "1.0", document, ("cu12", "cu13"))
    with RecordingIndex(wheels) as index:
        yield index


def fill(upstream: RecordingIndex, folder: Path, *words: str, **more: object) -> PrefetchReport:
    """Fill a mirror of an index."""
    options = {"mirror": f"up={upstream.url}", "folder": str(folder)}
    request = PrefetchRequest(requirements=words, options=options, **more)  # type: ignore[arg-type]
    return prefetch(request, Context(environ={}))


def served(upstream: RecordingIndex, folder: Path, path: str) -> bytes:
    """Return what the mirror of a server answers, opened anew."""
    mirrors = open_mirrors_in(folder, [mirror_of_text(f"up={upstream.url}")], None, environ={})
    try:
        answer = SimpleIndex(mirrors.indexes[0])(Request("GET", path, {"accept": JSON}))
        assert answer.status == 200
        return b"".join(answer.body)
    finally:
        mirrors.close()


def test_a_filled_mirror_needs_no_upstream(upstream: RecordingIndex, tmp_path: Path) -> None:
    """Pages, wheels, their metadata and documents are served once the upstream is gone."""
    report = fill(upstream, tmp_path / "index", "some>=2", "other")
    assert (report.files, report.existing) == (3, 0)
    assert (report.fetched, report.missing, report.failed) == (3, (), ())
    assert report.fetched_size == report.size
    upstream.close()
    wheel = "some-2.0-py3-none-any.whl"
    page = json.loads(served(upstream, tmp_path / "index", "/simple/some/"))
    assert wheel in [file["filename"] for file in page["files"]]
    content = (tmp_path / "wheels" / wheel).read_bytes()
    assert served(upstream, tmp_path / "index", f"/files/{wheel}") == content
    assert b"Name: some" in served(upstream, tmp_path / "index", f"/files/{wheel}.metadata")
    assert b"cu13" in served(upstream, tmp_path / "index", "/files/other-1.0-variants.json")


def test_only_what_is_missing_is_fetched(upstream: RecordingIndex, tmp_path: Path) -> None:
    """A plan costs no file, and a second run fetches what came since."""
    plan = fill(upstream, tmp_path / "index", "some>=2", dry_run=True)
    assert (plan.fetched, plan.files) == (0, 1)
    assert not [one for one in upstream.requests_for("/files/") if one.path.endswith(".whl")]
    assert fill(upstream, tmp_path / "index", "some>=2").fetched == 1
    again = fill(upstream, tmp_path / "index", "some")
    assert (again.fetched, again.existing) == (1, 1)
    wheels = [one for one in upstream.requests_for("/files/") if one.path.endswith(".whl")]
    assert len(wheels) == 2


def test_accelerators(upstream: RecordingIndex, tmp_path: Path) -> None:
    """Of variant wheels only those of the labels come."""
    report = fill(upstream, tmp_path / "index", "other", accelerator=("cu13*",))
    assert report.fetched == 1


def test_a_family(tmp_path: Path) -> None:
    """The builds of a vendor come from the folders that are for an accelerator."""
    folders = {}
    for build in ("cpu", "cu126", "cu128"):
        build_wheel(tmp_path / build, "torch", f"2.8.0+{build}")
        folders[build] = SimpleIndex(FolderIndex(tmp_path / build))

    def vendor(request: Request) -> Response:
        first, _, rest = request.path[1:].partition("/")
        if first == "files":
            first = rest.rpartition("-py3")[0].rpartition("2B")[2]
            return folders[first](request)
        if first in folders:
            return folders[first](replace(request, path=f"/simple/{rest}"))
        return Response.text(404, "none")

    with RecordingIndex(vendor) as upstream:
        options = {"mirror": f"pytorch@{upstream.origin}", "folder": str(tmp_path / "index")}
        request = PrefetchRequest(family=("pytorch",), accelerator=("cu12*",), options=options)
        report = prefetch(request, Context(environ={}))
        assert (report.fetched, report.failed, report.missing) == (2, (), ())
        assert upstream.requests_for("/cu126/torch/")
        assert upstream.requests_for("/cu128/torch/")
        assert not upstream.requests_for("/cpu/torch/")


def test_a_lock(upstream: RecordingIndex, tmp_path: Path) -> None:
    """The files of a lock come, and no other; one with another digest counts as missing."""
    lines = ['lock-version = "1.0"', 'created-by = "test"']
    for version, digest in (("1.0", ""), ("2.0", "0" * 64)):
        name = f"some-{version}-py3-none-any.whl"
        sha256 = digest or hashlib.sha256((tmp_path / "wheels" / name).read_bytes()).hexdigest()
        wheel = f'url = "{upstream.file_url(name)}", hashes = {{ sha256 = "{sha256}" }}'
        lines += ["[[packages]]", 'name = "some"', f"wheels = [{{ {wheel} }}]"]
    lock = tmp_path / "pylock.toml"
    lock.write_text("\n".join(lines))
    report = fill(upstream, tmp_path / "index", lock=str(lock))
    assert (report.fetched, report.missing) == (1, ("some-2.0-py3-none-any.whl",))


def test_what_is_not_right_fails_alone(upstream: RecordingIndex, tmp_path: Path) -> None:
    """A file that is not what was promised, and a name of no project, are reported."""
    wrong = "some-1.0-py3-none-any.whl"
    upstream.faults.content[f"/files/{wrong}"] = b"wrong"
    report = fill(upstream, tmp_path / "index", "some", "nosuch")
    assert ([one.name for one in report.failed], report.missing) == ([wrong], ("nosuch",))
    assert report.fetched == 1


def test_requests_that_make_no_sense(upstream: RecordingIndex, tmp_path: Path) -> None:
    """Each is refused before anything is fetched, with the reason."""
    with pytest.raises(UsageError, match="no projects were given"):
        fill(upstream, tmp_path / "index")
    with pytest.raises(UsageError, match="only projects of an index"):
        fill(upstream, tmp_path / "index", "some @ https://x.example/some-1.0-py3-none-any.whl")
    with pytest.raises(InvalidConfiguration, match="does not mirror the family pytorch"):
        fill(upstream, tmp_path / "index", family=("pytorch",))
    with pytest.raises(InvalidConfiguration, match="no mirrors"):
        prefetch(
            PrefetchRequest(requirements=("some",), options={"folder": str(tmp_path / "none")}),
            Context(environ={}),
        )
