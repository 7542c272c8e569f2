"""``explain`` reads METADATA only where pages and documents are not sufficient."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import CommandResult, Runner

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_release, release_document

DOCUMENT = release_document({"a": {"n": {"f": ["a"]}}}, static={"n": {"f": ["a"]}})
NOWHERE = "http://127.0.0.1:9/"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RecordingIndex]:
    """Serve a project whose page says which Python it requires, and one whose page does not."""
    folder = tmp_path / "index"
    for name, python in (("told", ">=3.8"), ("untold", None)):
        build_release(folder, name, "1.0", DOCUMENT, ["a"], requires_python=python)
    with RecordingIndex(folder) as served:
        yield served


def explain(run: Runner, index: RecordingIndex, *words: str) -> CommandResult:
    """Explain without retries."""
    return run("explain", "-i", index.url, "--no-cache-dir", "--retries", "0", *words)


def requested_files(index: RecordingIndex) -> list[str]:
    """Return the requested paths other than pages and documents."""
    paths = [request.path for request in index.requests]
    return [path for path in paths if path.startswith("/files/") and not path.endswith(".json")]


def test_no_metadata_request(run: Runner, index: RecordingIndex) -> None:
    """No part of a wheel is read where the page has its Requires-Python."""
    report = explain(run, index, "told", "--json").object
    assert report["projects"][0]["chosen"]["label"] == "a"
    assert requested_files(index) == []


def test_metadata_request(run: Runner, index: RecordingIndex) -> None:
    """METADATA is read where the page has no Requires-Python."""
    explain(run, index, "untold")
    assert [path.rpartition(".")[2] for path in requested_files(index)] == ["metadata"]


@pytest.mark.parametrize("how", ["nowhere", "refused", "gone"])
def test_unreachable_file_host(run: Runner, index: RecordingIndex, how: str) -> None:
    """An unreachable file host causes one note, and the explanation is complete."""
    for suffix in ("", ".metadata"):
        name = f"untold-1.0-py3-none-any-a.whl{suffix}"
        if how == "nowhere":
            index.faults.redirect[name] = NOWHERE
        else:
            index.faults.status[name] = {"refused": 403, "gone": 404}[how]
    (project,) = explain(run, index, "untold", "--json").object["projects"]
    assert project["chosen"]["label"] == "a"
    notes = [note for note in project["notes"] if "METADATA" in note]
    assert len(notes) == 1
    assert "it is not known whether the wheel is for this Python" in notes[0]
    result = explain(run, index, "untold")
    assert (result.out + result.err).count("the METADATA of ") == 1
