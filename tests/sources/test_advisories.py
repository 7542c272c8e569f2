"""OSV records in folders and archives, which others replace while a server runs."""

from __future__ import annotations

import json
import threading
import zipfile
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelfit.sources.advisories import Advisories
from wheelfit_runtime.errors import FileProblem

SOME = canonicalize_name("some")


def record(identifier: str, **more: object) -> str:
    """Return a record about all versions of a project before 2."""
    events = [{"introduced": "0"}, {"fixed": "2"}]
    affected = {
        "package": {"ecosystem": "PyPI", "name": "some"},
        "ranges": [{"type": "ECOSYSTEM", "events": events}],
    }
    return json.dumps({"id": identifier, "affected": [affected], **more})


def ids(advisories: Advisories, version: str = "1") -> list[str]:
    """Return the IDs of the vulnerabilities of a release, once nothing is read any more."""
    advisories.may_affect(SOME)
    for thread in threading.enumerate():
        if thread.name == "vulnerabilities":
            thread.join()
    return [one.id for one in advisories.affecting(SOME, Version(version))]


def test_a_folder_that_changes(tmp_path: Path) -> None:
    """Records in folders are found; new ones count after a minute, and bad ones never."""
    notes: list[str] = []
    now = [0.0]
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.json").write_text(record("B"))
    (tmp_path / "a.json").write_text(record("A"))
    (tmp_path / "wrong.json").write_text("no JSON")
    (tmp_path / "README").write_text("not a record")
    advisories = Advisories(tmp_path, notes.append, clock=lambda: now[0])
    assert ids(advisories) == ["A", "B"]
    assert ids(advisories, "2.0") == []
    assert len(notes) == 1
    assert "wrong.json" in notes[0]
    (tmp_path / "a.json").unlink()
    assert ids(advisories) == ["A", "B"]
    now[0] = 61.0
    assert (ids(advisories), advisories.generation) == (["B"], 1)
    for file in tmp_path.rglob("*.json"):
        file.unlink()
    now[0] = 122.0
    assert (ids(advisories), advisories.generation) == (["B"], 1)
    assert "the old ones stay in use" in notes[-1]


def test_an_archive(tmp_path: Path) -> None:
    """Records are read out of a zip, as osv.dev exports them."""
    path = tmp_path / "all.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("A.json", record("A", withdrawn="2026-01-01T00:00:00Z"))
        archive.writestr("bomb.json", b" " * (8 << 20))
    notes: list[str] = []
    assert ids(Advisories(path, notes.append)) == ["A"]
    assert "bomb.json" in notes[0]


def test_releases_that_pages_name_again(tmp_path: Path) -> None:
    """Another build has the same vulnerabilities, and no answer is that of another release."""
    (tmp_path / "a.json").write_text(record("A"))
    advisories = Advisories(tmp_path)
    for _ in range(2):
        assert ids(advisories, "1.0+cu128") == ids(advisories, "1.0") == ["A"]
        assert ids(advisories, "2.0+cu128") == ids(advisories, "2.0") == []
    first = advisories.affecting(SOME, Version("1.0"))
    assert advisories.affecting(SOME, Version("1.0")) is first  # of some there are hundreds


@pytest.mark.parametrize(
    "kind",
    ["missing", "empty folder", "empty file", "text", "damaged", "lzma", "name", "NUL in the path"],
)
def test_what_has_no_records(tmp_path: Path, kind: str) -> None:
    """It is an error that names the place, not silence."""
    path = tmp_path / "records"
    if kind == "empty folder":
        path.mkdir()
    elif kind == "NUL in the path":
        path = tmp_path / "a\0b"
    elif kind == "lzma":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
            archive.writestr("A.json", record("A"))
    elif kind == "name":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("A\xe9.json", record("A"))
        path.write_bytes(path.read_bytes().replace("\xe9".encode(), b"\xff\xfe"))
    elif kind == "damaged":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("A.json", record("A") * 50)
        data = bytearray(path.read_bytes())
        data[40:50] = b"0123456789"
        path.write_bytes(data)
    elif kind != "missing":
        path.write_text("" if kind == "empty file" else "text")
    with pytest.raises(FileProblem) as excinfo:
        Advisories(path)
    assert str(tmp_path) in str(excinfo.value)
