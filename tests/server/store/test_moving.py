"""Export and import of indexes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from error_codes import raises_code
from server.uploading import upload

from wheelfit.server.store.moving import (
    RECORDS,
    MovedIndex,
    _tables,
    check_export,
    export_index,
    import_index,
)
from wheelfit.server.store.opening import Store, open_store
from wheelfit.server.store.tokens import issue_token, open_stage, valid_token
from wheelfit.server.uploads.accepting import AcceptedUpload
from wheelfit.sources.progress import NO_PROGRESS
from wheelfit.testing.wheels import build_wheel, release_document
from wheelfit_runtime.errors import FileProblem

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
LIBRARY = {"blas": {"library": ["mkl"]}}
DOCUMENT = release_document({"mkl": LIBRARY}, static=LIBRARY)


def fill(store: Store, folder: Path) -> str:
    """Upload variants, yank and delete files, and open a stage; return a token."""
    for version in ("1.0", "2.0", "3.0"):
        upload(store, build_wheel(folder, "some", version, label="mkl", document=DOCUMENT))
    upload(store, build_wheel(folder, "other", "1.0"))
    store.records.yank(["some-1.0-py3-none-any-mkl.whl"], "broken")
    store.records.delete(["some-3.0-py3-none-any-mkl.whl"], time="2026-11-22T12:00:00Z")
    open_stage(store.records, "admin", now=NOW, lifetime=timedelta(days=7))
    return issue_token(store.records, "acme", ["upload"], now=NOW, note="for CI")[1]


def contents(store: Store) -> list[object]:
    """Return the complete contents of a store."""
    with store.records.database.reading() as execute:
        rows = [sorted(map(repr, execute(f"SELECT {', '.join(columns)} FROM {table}")))
                for table, columns in _tables().items()]  # fmt: skip
        digests = [row[0] for row in execute("SELECT DISTINCT sha256 FROM file ORDER BY sha256")]
    files = [
        b"".join(store.blobs.parts(digest, 0, store.blobs.size(digest) or 0)) for digest in digests
    ]
    return [rows, files]


def export_store(store: Store, folder: Path) -> MovedIndex:
    """Export an index."""
    return export_index(store.records.database, store.blobs, folder, NO_PROGRESS)


def import_store(folder: Path, store: Store) -> MovedIndex:
    """Import an index."""
    wanted = check_export(folder)
    return import_index(folder, wanted, store.records.database, store.blobs, NO_PROGRESS)


def test_export_and_import(records_url: str, blobs_url: str, tmp_path: Path) -> None:
    """Any kind of store can be exported and imported, and continues to work."""
    with open_store(tmp_path / "one") as one:
        secret = fill(one, tmp_path / "wheels")
        before = contents(one)
        export_store(one, tmp_path / "there")
    with open_store(tmp_path / "two", records=records_url, blobs=blobs_url) as two:
        import_store(tmp_path / "there", two)
        assert contents(two) == before
        token = valid_token(two.records, secret, now=NOW)
        assert token is not None
        assert (token.owner, token.note) == ("acme", "for CI")
        export_store(two, tmp_path / "back")
    assert (tmp_path / "back" / RECORDS).read_bytes() == (tmp_path / "there" / RECORDS).read_bytes()
    with open_store(tmp_path / "three") as three:
        import_store(tmp_path / "back", three)
        assert contents(three) == before
        deleted = tmp_path / "wheels" / "some-3.0-py3-none-any-mkl.whl"
        assert not isinstance(upload(three, deleted), AcceptedUpload)  # its name never comes back
        newer = build_wheel(tmp_path / "wheels", "some", "4.0", label="mkl", document=DOCUMENT)
        assert isinstance(upload(three, newer), AcceptedUpload)


def test_second_export(tmp_path: Path) -> None:
    """A second export copies only new files."""
    with open_store(tmp_path / "one") as one:
        fill(one, tmp_path / "wheels")
        first = export_store(one, tmp_path / "there")
        upload(one, build_wheel(tmp_path / "wheels", "new", "1.0"))
        second = export_store(one, tmp_path / "there")
    assert (first.files, first.copied) == (3, 3)
    assert (second.files, second.copied) == (4, 1)


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a disk")
def test_small_disk(small_disk: Callable[[Path, str], Path], tmp_path: Path) -> None:
    """An import onto a disk that is too small works as soon as there is space."""
    with open_store(tmp_path / "one") as one:
        fill(one, tmp_path / "wheels")
        export_store(one, tmp_path / "there")
        before = contents(one)
    disk = small_disk(tmp_path / "disk", "900k")
    (disk / "filler").write_bytes(bytes(850_000))
    with raises_code("storage-unavailable"), open_store(disk / "two") as two:
        import_store(tmp_path / "there", two)
    (disk / "filler").unlink()
    with open_store(disk / "two") as two:
        import_store(tmp_path / "there", two)
        assert contents(two) == before


def test_interrupted_export(tmp_path: Path) -> None:
    """An incomplete export cannot be imported."""
    with open_store(tmp_path / "one") as one:
        fill(one, tmp_path / "wheels")
        delete_bytes(one)
        with raises_code("integrity"):
            export_store(one, tmp_path / "there")
    assert not (tmp_path / "there" / RECORDS).exists()
    with open_store(tmp_path / "two") as two:
        before = contents(two)
        with raises_code("file-problem"):
            import_store(tmp_path / "there", two)
        assert contents(two) == before


def test_interrupted_second_export(tmp_path: Path) -> None:
    """An incomplete second export leaves the first one intact."""
    with open_store(tmp_path / "one") as one:
        fill(one, tmp_path / "wheels")
        export_store(one, tmp_path / "there")
        records = (tmp_path / "there" / RECORDS).read_bytes()
        before = contents(one)
        upload(one, build_wheel(tmp_path / "wheels", "new", "1.0"))
        delete_bytes(one, "new-1.0-py3-none-any.whl")
        with raises_code("integrity"):
            export_store(one, tmp_path / "there")
    assert (tmp_path / "there" / RECORDS).read_bytes() == records
    with open_store(tmp_path / "two") as two:
        import_store(tmp_path / "there", two)
        assert contents(two) == before


def delete_bytes(store: Store, filename: str = "other-1.0-py3-none-any.whl") -> None:
    """Delete the bytes of a recorded file."""
    file = store.records.file(filename)
    assert file is not None
    store.blobs.delete(file.sha256)


def test_damaged_export(tmp_path: Path) -> None:
    """Other content under a digest is an error before any record is written."""
    with open_store(tmp_path / "one") as one:
        fill(one, tmp_path / "wheels")
        export_store(one, tmp_path / "there")
    path = next(path for path in (tmp_path / "there" / "files").rglob("*") if path.is_file())
    path.chmod(0o640)
    path.write_bytes(bytes(path.stat().st_size))
    with open_store(tmp_path / "two") as two:
        with raises_code("integrity"):
            import_store(tmp_path / "there", two)
        assert two.records.projects() == ()


def test_import_into_a_store_with_an_index(tmp_path: Path) -> None:
    """A store with an index is not changed by an import."""
    with open_store(tmp_path / "one") as one:
        fill(one, tmp_path / "wheels")
        export_store(one, tmp_path / "there")
        before = contents(one)
        with raises_code("file-problem"):
            import_store(tmp_path / "there", one)
        assert contents(one) == before


@pytest.mark.parametrize(
    "line",
    [
        b"", b"x", b"[]", b"{}", b"\xff", b"5",
        b'{"format":1,"schema":2}\n{"table":"file; DROP TABLE token","row":{}}',
        b'{"format":1,"schema":2}\n{"table":"file","row":{"sha256) --":1}}',
        b'{"format":1,"schema":2}\n{"table":"token","row":{"secret":"?"}}',
        b'{"format":1,"schema":2}\n{"table":"file","row":{"size":[1]}}',
        b'{"format":1,"schema":2}\n{"table":"owner","row":{"name":"x"}}',
        b'{"format":1,"schema":2}\n{"table":"file","row":{"sha256":"../x","size":1}}',
        b'{"format":1,"schema":2}\n{"table":"file","row":{"size":1}}',
        b'{"format":1,"schema":2}\n{"table":"counter","row":{"value":1' + b"0" * 30 + b"}}",
        b"[" * 200_000,
        b'{"format":1,"schema":2}\n{"table":"counter","row":{"value":"x"}}',
        b'{"format":2,"schema":2}', b'{"format":1,"schema":99}',
    ],
)  # fmt: skip
def test_invalid_exports(line: bytes, tmp_path: Path) -> None:
    """Invalid and newer exports are refused."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / RECORDS).write_bytes(line)
    with open_store(tmp_path / "one") as one:
        before = contents(one)
        with raises_code("file-problem"):
            import_store(tmp_path / "there", one)
        assert contents(one) == before


def test_unreadable_export(tmp_path: Path) -> None:
    """Records that cannot be read are not reported as an unfinished export."""
    (tmp_path / "there" / RECORDS).mkdir(parents=True)
    with pytest.raises(FileProblem, match="the file cannot be read: "):
        check_export(tmp_path / "there")


def test_import_into_a_store_with_tokens(tmp_path: Path) -> None:
    """A store with tokens is not changed by an import."""
    with open_store(tmp_path / "one") as one:
        fill(one, tmp_path / "wheels")
        export_store(one, tmp_path / "there")
    with open_store(tmp_path / "two") as two:
        secret = issue_token(two.records, "acme", ["upload"], now=NOW)[1]
        with raises_code("file-problem"):
            import_store(tmp_path / "there", two)
        assert valid_token(two.records, secret, now=NOW) is not None


def test_every_table_is_exported(tmp_path: Path) -> None:
    """Every table and column of the database is exported."""
    with open_store(tmp_path / "one") as one, one.records.database.reading() as execute:
        names = {row[0] for row in execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert names == {*_tables(), "schema_version"}
        for table, columns in _tables().items():
            there = {row[1] for row in execute(f"PRAGMA table_info({table})")}
            assert there == set(columns), table
