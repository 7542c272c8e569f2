"""Releases that are published by the sessions of PEP 694, at an index that keeps to its states."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from building.publishing.session_index import Session, SessionServer, Upload
from server.legacy import listed_files

from wheelfit.building.publishing.answers import Answer
from wheelfit.building.publishing.release_files import OutgoingFile, collect_files
from wheelfit.building.publishing.sessions import SessionIndex, publish_in_sessions
from wheelfit.errors import AttestationProblem, UploadRefused
from wheelfit.operations.context import Context
from wheelfit.operations.publish import PublishReport, PublishRequest, publish
from wheelfit.sources.progress import NO_PROGRESS
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.errors import InvalidPage, NetworkError

pytest.importorskip("twine", reason="needs the extra `publish`")
pytest.importorskip("python_multipart", reason="needs the extra `server`")

INDEX_FILE = "fast-1.0-variants.json"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SessionServer]:
    """Serve an index with sessions."""
    with SessionServer(tmp_path / "index") as running:
        running.sessions = {}
        yield running


def run(index: SessionServer, files: tuple[OutgoingFile, ...]) -> Any:
    """Publish files."""
    client = SessionIndex(index.root, None, pause=lambda _: None)
    listed = partial(listed_files, index.folder, "fast")
    return publish_in_sessions(files, {files[0].release: b"{}"}, client, listed, NO_PROGRESS)


@pytest.mark.parametrize("is_slow", [False, True])
def test_all_files_are_shown_at_once(
    index: SessionServer,
    files: tuple[OutgoingFile, ...],
    is_slow: bool,  # noqa: FBT001 - a parameter
) -> None:
    """PEP 694: files wait in the session until it is published, at once or after some work."""
    index.is_slow = is_slow
    (files[0].path.with_name(f"{files[0].filename}.publish.attestation")).write_text('{"a": 1}')
    files = collect_files([files[0].path.parent]).files
    act = run(index, files)
    assert act.sent == tuple(file.filename for file in files)
    assert index.names == {*act.sent, INDEX_FILE}
    (session,) = index.sessions.values()
    assert (session.name, session.version, session.status) == ("fast", "1.0", "published")
    assert session.files[files[0].filename].attestations == [{"a": 1}]
    assert run(index, files).sent == ()
    assert len(index.sessions) == 1


def test_an_index_may_not_take_index_files(
    index: SessionServer, files: tuple[OutgoingFile, ...]
) -> None:
    """The wheels are published all the same, and the refusal is told."""
    index.takes_index_files = False
    act = run(index, files)
    assert len(act.sent) == 3
    assert "this is no name of a wheel; see there" in act.refused_index_files[0]


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_refusal_leaves_nothing(
    index: SessionServer,
    files: tuple[OutgoingFile, ...],
    is_slow: bool,  # noqa: FBT001 - a parameter
) -> None:
    """A file that does not pass ends the session, and nothing is seen."""
    index.refuses, index.is_slow = files[1].filename, is_slow
    with pytest.raises(UploadRefused, match="it did not pass"):
        run(index, files)
    assert [session.status for session in index.sessions.values()] == ["canceled"]
    assert index.names == set()


def test_a_damaged_attestation_leaves_nothing(
    index: SessionServer, files: tuple[OutgoingFile, ...]
) -> None:
    """A file that cannot be sent ends the session too."""
    last = files[-1].path
    last.with_name(f"{last.name}.publish.attestation").write_text("no JSON")
    with pytest.raises(AttestationProblem, match="is not an attestation"):
        run(index, collect_files([last.parent]).files)
    assert [session.status for session in index.sessions.values()] == ["canceled"]
    assert index.names == set()


def test_releases_are_published_when_all_have_come(
    index: SessionServer, files: tuple[OutgoingFile, ...], tmp_path: Path
) -> None:
    """PEP 694: what one release lacks keeps the others back too."""
    other = build_wheel(tmp_path / "dist", "other", "1.0")
    both = collect_files([tmp_path / "dist"]).files
    index.refuses = other.name
    with pytest.raises(UploadRefused, match="it did not pass"):
        run(index, both)
    assert {session.status for session in index.sessions.values()} == {"canceled"}
    assert index.names == set()
    index.refuses = ""
    assert set(run(index, both).sent) == {one.filename for one in both}
    assert [session.status for session in index.sessions.values()][2:] == ["published"] * 2
    assert len(files) < len(both)


def test_what_was_interrupted_is_taken_up(
    index: SessionServer, files: tuple[OutgoingFile, ...]
) -> None:
    """A session of ours that was left is gone on with; its files are sent anew."""
    index.fails_at = files[2].filename
    with pytest.raises(NetworkError) as excinfo:
        run(index, files)
    assert "resumes the open session" in str(excinfo.value.hint)
    (session,) = index.sessions.values()
    assert session.status == "open"
    assert index.names == set()
    index.fails_at = ""
    assert len(run(index, files).sent) == 3
    assert list(index.sessions.values()) == [session]
    assert session.status == "published"


def test_a_session_of_others_is_left_alone(
    index: SessionServer, files: tuple[OutgoingFile, ...]
) -> None:
    """A session with other files is not published along with ours, and not ended."""
    theirs = Session("fast", "1.0", files={"fast-1.0.tar.gz": Upload({}, status="completed")})
    index.sessions["theirs"] = theirs
    with pytest.raises(UploadRefused, match="an open session for fast"):
        run(index, files)
    assert theirs.status == "open"


def test_links_to_other_servers_are_not_followed(
    index: SessionServer, files: tuple[OutgoingFile, ...]
) -> None:
    """The login is for the server that was asked."""
    index.elsewhere = "https://other.example/"
    with pytest.raises(InvalidPage, match="is missing, or of another server: https://other"):
        run(index, files)
    client = SessionIndex(index.root, None, pause=lambda _: None)
    faulty: tuple[Any, ...] = ({}, ["publish"], "publish")
    for links in faulty:
        with pytest.raises(InvalidPage, match=r"is missing, or of another server \["):
            client.publish({"links": links}, "fast 1.0")


def test_notices_that_are_no_list(index: SessionServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that failed is told by its status if the notices cannot be read."""
    client = SessionIndex(index.root, None, pause=lambda _: None)
    failed = b'{"status": "error", "notices": 5}'
    answers = iter([Answer(202, "", {}, b""), Answer(200, "", {}, failed)])
    monkeypatch.setattr(client, "_request", lambda *_, **__: next(answers))
    links = {"publish": "publish", "session": "status"}
    with pytest.raises(UploadRefused, match="it failed: its status is 'error'"):
        client.publish({"links": links}, "fast 1.0")


def test_a_page_for_people(index: SessionServer, files: tuple[OutgoingFile, ...]) -> None:
    """An address that has no sessions is told with what it has, and what to name instead."""
    index.is_page = True
    with pytest.raises(InvalidPage, match="the answer has the type text/html") as excinfo:
        run(index, files)
    assert "--session-url" in str(excinfo.value.hint)


def published(index: SessionServer, folder: Path, **options: Any) -> PublishReport:
    """Publish by the operation."""
    context = Context({"WHEELFIT_CACHE_DIR": str(folder / "cache")})
    request = PublishRequest(
        paths=(str(folder / "dist"),), to=index.url, session_url=index.root, **options
    )
    return publish(request, context)


def test_the_operation(
    index: SessionServer, files: tuple[OutgoingFile, ...], tmp_path: Path
) -> None:
    """A conflict that is lost to somebody else is the finding that it would have been before."""
    report = published(index, tmp_path)
    assert report.method == "session"
    assert report.result is not None
    assert index.names == {*(file.filename for file in files), INDEX_FILE}
    again = published(index, tmp_path)
    assert {again.state(file.filename) for file in again.outgoing.files} == {"existing"}
    build_wheel(tmp_path / "dist", "fast", "1.0", tag="py2-none-any")
    index.refuses = "fast-1.0-py2-none-any.whl"
    refused = published(index, tmp_path)
    assert [finding.code for finding in refused.checks.findings] == ["refused-by-index"]
    (index.folder / index.refuses).write_bytes(b"other")  # which its pages do not show yet
    index.pages["/simple/fast/"] = index.pages.get("/simple/fast/") or _without(index)
    taken = published(index, tmp_path)
    assert [finding.code for finding in taken.checks.findings] == ["name-taken"]


def _without(index: SessionServer) -> Any:
    """Return the page of the index without the file that it refuses."""
    import json

    from wheelfit.server.messages import Response

    listed = [
        {"filename": file.filename, "url": f"../../files/{file.filename}",
         "hashes": dict(file.hashes)}
        for file in listed_files(index.folder, "fast").values()
        if file.filename != index.refuses
    ]  # fmt: skip
    said = {"meta": {"api-version": "1.0"}, "name": "fast", "files": listed}
    kind = {"content-type": "application/vnd.pypi.simple.v1+json"}
    return Response.of(200, json.dumps(said).encode(), kind)
