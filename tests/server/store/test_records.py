"""Records of projects and files, in SQLite and PostgreSQL."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version
from server.services import Postgresql
from server.uploading import DOCUMENT, NOW

from wheelfit.core.labels import Label
from wheelfit.errors import NeedsExtra, StorageUnavailable, UploadRefused, install_hint
from wheelfit.server.store.audit import Actor, AuditFilter
from wheelfit.server.store.database import MIGRATIONS, timestamp
from wheelfit.server.store.opening import open_blobs, open_database
from wheelfit.server.store.records import NewFile, RecentUpload, Token
from wheelfit.server.store.sql_records import Records
from wheelfit.server.store.sqlite import SqliteDatabase
from wheelfit.server.store.tokens import (
    issue_token,
    open_stage,
    permits,
    stage_of_secret,
    valid_token,
)
from wheelfit.sources.page import Status
from wheelfit.testing.wheels import single_label_document
from wheelfit_runtime.errors import InvalidConfiguration

TIME = timestamp(NOW)
LATER = timestamp(NOW + timedelta(days=1))
SOME = canonicalize_name("some")
OTHER = canonicalize_name("other")


@pytest.fixture
def records(records_url: str) -> Any:
    """Yield empty records."""
    opened = Records(open_database(records_url))
    yield opened
    opened.close()


def new(filename: str = "some-1.0-py3-none-any.whl", content: bytes = b"x", **more: Any) -> NewFile:
    """Return a new file."""
    name, version = filename.split("-")[:2]
    label = filename.removesuffix(".whl").split("-")[5:]
    return NewFile(
        filename=filename,
        project=canonicalize_name(name),
        version=Version(version),
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
        uploaded=TIME,
        label=Label(label[0]) if label else None,
        **more,
    )


def test_recent_uploads(records: Records) -> None:
    """The latest published releases are listed, without staged and yanked ones."""
    stage, _ = open_stage(records, "me", now=NOW, lifetime=timedelta(days=1))
    add(records, new("some-2.0-py3-none-any.whl", b"2"))
    add(records, replace(new(), uploaded=LATER))
    add(records, replace(new("some-1.0-cp312-none-any.whl", b"3.12"), uploaded=TIME))
    add(records, new("other-1.0-py3-none-any.whl", b"yanked"))
    add(records, new("other-2.0-py3-none-any.whl", b"staged"), stage=stage.id)
    records.yank(["other-1.0-py3-none-any.whl"], "")
    recent = [RecentUpload(SOME, "1.0", LATER), RecentUpload(SOME, "2.0", TIME)]
    assert list(records.recent_uploads(10)) == recent
    assert list(records.recent_uploads(1)) == recent[:1]
    records.set_status(SOME, Status("quarantined"))
    assert records.recent_uploads(10) == ()


def test_long_texts(records: Records) -> None:
    """Long texts are truncated to the limits of database indexes."""
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 4_000)))  # which does not pack well
    add(records, new())
    assert records.yank([new().filename], text) == 1
    listing = records.listing(SOME)
    assert listing is not None
    assert listing.files[0].yanked == text
    records.audit.refuse(Actor(), "upload", text, text, text)
    (entry, *_) = records.audit.entries(AuditFilter(outcome="refused"))
    assert text.startswith(entry.project)
    assert text.startswith(entry.detail)


def test_surrogates_in_texts(records: Records) -> None:
    """Texts with surrogates are refused, and nothing changes."""
    add(records, new())
    with pytest.raises(InvalidConfiguration):
        records.yank([new().filename], "a\udcff")
    with pytest.raises(InvalidConfiguration):
        records.file("some\udcff-1.0.tar.gz")
    assert records.file(new().filename) == records.file(new().filename, "x")
    (entry,) = records.audit.after(0, 9)
    assert entry.action == "upload"


def variant(label: str, document: Any = DOCUMENT, version: str = "1.0", **more: Any) -> NewFile:
    """Return a variant wheel with its part of a document."""
    own = json.dumps(single_label_document(document, label)).encode()
    filename = f"some-{version}-py3-none-any-{label}.whl"
    return new(filename, label.encode(), document=own, **more)


def add(records: Records, file: NewFile, **more: Any) -> bool:
    """Add a file with its bytes."""
    return records.add(file, save=lambda: None, **more)


@contextmanager
def refused(*references: str) -> Iterator[pytest.ExceptionInfo[UploadRefused]]:
    """Expect a refusal with exactly these references."""
    with pytest.raises(UploadRefused) as excinfo:
        yield excinfo
    assert {detail["reference"] for detail in excinfo.value.details} == set(references)


def test_added_file(records: Records) -> None:
    """An added file is read with all its fields."""
    file = new(requires_python=">=3.9", metadata=b"Name: some", provenance=b"{}")
    assert records.projects() == ()
    assert add(records, file)
    listing = records.listing(SOME)
    assert listing is not None
    (stored,) = listing.files
    assert (stored.filename, stored.sha256, stored.size) == (file.filename, file.sha256, 1)
    assert (stored.version, stored.uploaded, stored.requires_python) == ("1.0", TIME, ">=3.9")
    assert stored.metadata_sha256 == hashlib.sha256(b"Name: some").hexdigest()
    assert stored.has_provenance
    assert stored.yanked is None
    assert records.metadata(file.filename) == b"Name: some"
    assert records.provenance(file.filename) == b"{}"
    assert records.file(file.filename) == stored
    assert records.projects() == (SOME,)
    assert listing.documents == ()


def test_unknown_objects(records: Records) -> None:
    """Unknown objects are not errors."""
    assert records.listing(SOME) is None
    assert records.file("some-1.0.tar.gz") is None
    assert records.metadata("x") is records.provenance("x") is None
    assert records.release_document("some-1.0-variants.json") is None
    assert records.release_document("../../x") is None
    assert records.serial(SOME) == records.serial() == 0
    assert records.audit.after(0, 9) == ()
    assert records.yank(["x"], "") == records.delete(["x"], time=TIME) == 0
    assert records.publish("x", time=TIME) == ()
    assert records.drop("x") == 0
    assert not records.revoke("x")


def test_add_again(records: Records) -> None:
    """Adding the same file again succeeds and changes nothing."""
    assert add(records, new())
    serial = records.serial(SOME)
    assert not add(records, new())
    assert records.serial(SOME) == serial


def test_name_with_other_bytes(records: Records) -> None:
    """A name cannot get other bytes."""
    add(records, new())
    with refused("name-taken"):
        add(records, new(content=b"y"))
    with pytest.raises(UploadRefused):
        records.check(new(content=b"y"))


def test_colliding_names(records: Records) -> None:
    """Names that differ only in case or normalisation are refused."""
    add(records, new("some-1.0-py3-none-any.whl"))
    for filename, folded in (
        ("Some-1.0-py3-none-any.whl", ""),
        ("so.me-1.0-py3-none-any.whl", "some-1.0-py3-none-any.whl"),
    ):
        with refused("name-collision"):
            add(records, new(filename, b"other", folded=folded))


def test_deleted_name(records: Records) -> None:
    """A deleted name cannot be used again, in any spelling."""
    add(records, new())
    assert records.delete([new().filename], time=LATER) == 1
    assert records.listing(SOME) is None
    assert records.projects() == ()
    for file in (new(), new(content=b"y"), new("Some-1.0-py3-none-any.whl")):
        with refused("name-deleted"):
            add(records, file)


def test_spelling_of_a_release(records: Records) -> None:
    """F-70, F-78: all files of a release spell its version in the same way."""
    add(records, new("some-1.0-py3-none-any.whl"))
    with refused("other-spelling"):
        add(records, new("some-1.0.0-py2-none-any.whl"))


def test_second_sdist(records: Records) -> None:
    """A release has at most one source distribution."""
    add(records, new())
    add(records, replace(new(), filename="some-1.0.tar.gz"))
    assert not add(records, replace(new(), filename="some-1.0.tar.gz"))
    with refused("second-sdist"):
        add(records, replace(new(), filename="some-1.0.zip"))
    add(records, replace(new("some-2.0-py3-none-any.whl"), filename="some-2.0.zip"))


def test_second_sdist_from_a_stage(records: Records) -> None:
    """Of two stages with source distributions only one can be published."""
    stages = [open_stage(records, "ann", now=NOW, lifetime=timedelta(days=1))[0] for _ in range(2)]
    add(records, replace(new(), filename="some-1.0.tar.gz"), stage=stages[0].id)
    add(records, replace(new(), filename="some-1.0.zip"), stage=stages[1].id)
    add(records, new(), stage=stages[1].id)
    assert len(records.publish(stages[0].id, time=LATER)) == 1
    with refused("second-sdist"):
        records.publish(stages[1].id, time=LATER)
    assert records.file(new().filename) is None
    records.delete(["some-1.0.zip"], time=LATER)
    assert len(records.publish(stages[1].id, time=LATER)) == 1


def test_all_reasons_at_once(records: Records) -> None:
    """F-131: all reasons of a refusal are in one error."""
    add(records, new(), uploader="ann")
    add(records, variant("mkl"))
    other = {**DOCUMENT, "variants": {"mkl": {"blas": {"library": ["openblas"]}}}}
    file = replace(variant("mkl", other), sha256="0" * 64)
    with refused("name-taken", "not-an-owner", "no-such-stage"):
        add(records, file, uploader="bob", stage="gone")
    twin = replace(variant("mkl", other), filename="some-1.0-py2-none-any-mkl.whl")
    with refused("inconsistent-variants"):
        add(records, twin)


def test_no_record_without_bytes(records: Records) -> None:
    """If the bytes cannot be stored there is no record."""

    def save() -> None:
        raise StorageUnavailable("there is no room")

    with pytest.raises(StorageUnavailable):
        records.add(new(), save=save)
    assert records.listing(SOME) is None
    assert records.serial() == 0


# --- documents of releases ----------------------------------------------------------------


def test_release_document(records: Records) -> None:
    """F-70, F-74: the document of a release matches its wheels after every change."""
    assert add(records, variant("mkl"))
    first = records.release_document("some-1.0-variants.json")
    assert first is not None
    assert set(json.loads(first.content)["variants"]) == {"mkl"}
    add(records, variant("open"))
    listing = records.listing(SOME)
    assert listing is not None
    (listed,) = listing.documents
    second = records.release_document(listed.filename)
    assert second is not None
    assert (listed.sha256, listed.size) == (second.sha256, len(second.content))
    assert set(json.loads(second.content)["variants"]) == {"mkl", "open"}
    assert second.sha256 == hashlib.sha256(second.content).hexdigest()
    records.delete([variant("open").filename], time=LATER)
    assert records.release_document(second.filename) == first
    records.delete([variant("mkl").filename], time=LATER)
    assert records.release_document(second.filename) is None


def test_inconsistent_variants(records: Records) -> None:
    """F-60, F-61: A label has one set of properties in a release, and priorities agree."""
    add(records, variant("mkl"))
    other = {**DOCUMENT, "variants": {"mkl": {"blas": {"library": ["openblas"]}}}}
    file = replace(variant("mkl", other), filename="some-1.0-py2-none-any-mkl.whl")
    with refused("inconsistent-variants") as excinfo:
        add(records, file)
    assert "variants.mkl" in str(excinfo.value.details)
    add(records, variant("mkl", other, version="2.0"))  # of another release it may mean another


# --- yanking, and the log -------------------------------------------------------------------


def test_yank_and_unyank(records: Records) -> None:
    """A yanked file remains with its reason until it is unyanked."""
    add(records, new())
    name = new().filename
    assert records.yank([name, "other"], "broken") == 1
    stored = records.file(name)
    assert stored is not None
    assert stored.yanked == "broken"
    records.yank([name], None)
    stored = records.file(name)
    assert stored is not None
    assert stored.yanked is None


def test_changes(records: Records) -> None:
    """Each change has an increasing serial; a page has that of its last change."""
    add(records, new())
    before = records.serial(SOME)
    add(records, new("other-1.0-py3-none-any.whl"))
    assert records.serial(SOME) == before
    assert records.serial(OTHER) == records.serial() > before
    records.yank([new().filename], "")
    assert records.serial(SOME) == records.serial()
    records.delete([new().filename], time=LATER)
    assert records.serial(SOME) == records.serial() == 4


# --- stages ----------------------------------------------------------------------------------


def test_staged_files(records: Records) -> None:
    """Staged files are visible with their stage only."""
    stage, secret = open_stage(records, "ann", now=NOW, lifetime=timedelta(days=1))
    file = variant("mkl", metadata=b"m", provenance=b"p")
    add(records, file, stage=stage.id)
    add(records, new(content=b"plain"))
    serial = records.serial(SOME)
    assert [file.filename for file in _files(records)] == [new().filename]
    assert records.file(file.filename) is None
    assert records.metadata(file.filename) is records.provenance(file.filename) is None
    assert records.release_document("some-1.0-variants.json") is None
    assert len(_files(records, stage.id)) == 2
    assert records.metadata(file.filename, stage.id) == b"m"
    seen = records.listing(SOME, stage.id)
    assert seen is not None
    assert [document.filename for document in seen.documents] == ["some-1.0-variants.json"]
    document = records.release_document("some-1.0-variants.json", stage.id)
    assert document is not None
    assert document.sha256 == seen.documents[0].sha256
    assert records.serial(SOME) == serial
    assert stage_of_secret(records, secret, now=NOW) == stage
    assert stage_of_secret(records, secret, now=NOW + timedelta(days=2)) is None
    assert stage_of_secret(records, "wheelfit-stage-guess", now=NOW) is None


def test_claimed_projects(records: Records) -> None:
    """F-126: A project is claimed by published and staged files."""
    assert not records.owns_name(SOME)
    stage, _ = open_stage(records, "me", now=NOW, lifetime=timedelta(days=1))
    add(records, new(), stage=stage.id)
    assert records.owns_name(SOME)
    assert not records.owns_name(OTHER)
    records.drop(stage.id)
    assert not records.owns_name(SOME)
    add(records, new())
    records.delete([new().filename], time=LATER)
    assert records.owns_name(SOME)


def _files(records: Records, stage: str = "") -> tuple[Any, ...]:
    listing = records.listing(SOME, stage)
    return listing.files if listing is not None else ()


def test_publish_a_stage(records: Records) -> None:
    """All files of a stage are published with one serial and time."""
    stage, _ = open_stage(records, "ann", now=NOW, lifetime=timedelta(days=1))
    for file in (variant("mkl"), variant("open"), new("other-1.0-py3-none-any.whl", b"o")):
        add(records, file, stage=stage.id)
    assert records.projects() == ()
    assert records.projects(stage.id) == (OTHER, SOME)
    published = records.publish(stage.id, time=LATER)
    assert len(published) == 3
    assert {one.uploaded for one in published} == {LATER}
    assert records.serial(SOME) == records.serial(OTHER) == records.serial() == 1
    document = records.release_document("some-1.0-variants.json")
    assert document is not None
    assert set(json.loads(document.content)["variants"]) == {"mkl", "open"}
    assert records.stages() == ()
    assert records.publish(stage.id, time=LATER) == ()


def test_conflicting_stage(records: Records) -> None:
    """F-65: A stage with a conflict remains staged completely."""
    stage, _ = open_stage(records, "ann", now=NOW, lifetime=timedelta(days=1))
    add(records, variant("mkl"), stage=stage.id)
    add(records, new("other-1.0-py3-none-any.whl", b"o"), stage=stage.id)
    other = {**DOCUMENT, "variants": {"mkl": {"blas": {"library": ["openblas"]}}}}
    add(records, replace(variant("mkl", other), filename="some-1.0-py2-none-any-mkl.whl"))
    before = (records.projects(), records.serial(), records.stages())
    with refused("inconsistent-variants"):
        records.publish(stage.id, time=LATER)
    assert (records.projects(), records.serial(), records.stages()) == before
    assert len(_files(records, stage.id)) == 2


def test_spelling_of_a_staged_release(records: Records) -> None:
    """F-70, F-78: A stage with another spelling of a published version remains staged."""
    stages = [open_stage(records, "ann", now=NOW, lifetime=timedelta(days=1))[0] for _ in range(2)]
    add(records, variant("mkl"), stage=stages[0].id)
    add(records, variant("open", version="1.0.0"), stage=stages[1].id)
    assert len(records.publish(stages[0].id, time=LATER)) == 1
    with refused("other-spelling"):
        records.publish(stages[1].id, time=LATER)
    assert [file.filename for file in _files(records)] == ["some-1.0-py3-none-any-mkl.whl"]


def test_drop_a_stage(records: Records) -> None:
    """The names of a dropped stage can be used again."""
    stage, _ = open_stage(records, "ann", now=NOW, lifetime=timedelta(days=1))
    add(records, new(), stage=stage.id)
    with refused("name-taken"):
        add(records, new())
    assert records.drop(stage.id) == 1
    assert add(records, new(content=b"y"))
    second, _ = open_stage(records, "ann", now=NOW, lifetime=timedelta(days=1))
    add(records, new("some-2.0-py3-none-any.whl"), stage=second.id)
    assert records.delete(["some-2.0-py3-none-any.whl"], time=LATER) == 1
    assert add(records, new("some-2.0-py3-none-any.whl"), stage=second.id)
    with pytest.raises(UploadRefused):
        add(records, new("some-3.0-py3-none-any.whl"), stage=stage.id)


def test_claim_of_a_dropped_stage(records: Records) -> None:
    """An unpublished project is free once its last stage is dropped."""
    stages = [open_stage(records, "ann", now=NOW, lifetime=timedelta(days=1))[0] for _ in range(2)]
    for number, stage in enumerate(stages, 1):
        add(records, new(f"some-{number}.0-py3-none-any.whl"), stage=stage.id, uploader="ann")
    records.drop(stages[0].id)
    assert records.owners(SOME) == {"ann"}
    records.drop(stages[1].id)
    assert records.owners(SOME) == set()
    add(records, new(), uploader="bob")
    third, _ = open_stage(records, "bob", now=NOW, lifetime=timedelta(days=1))
    add(records, new("some-2.0-py3-none-any.whl"), stage=third.id, uploader="bob")
    records.drop(third.id)
    assert records.owners(SOME) == {"bob"}


# --- tokens and owners --------------------------------------------------------------------------


def test_tokens(records: Records) -> None:
    """A token is valid for its projects and lifetime, until it is revoked."""
    token, secret = issue_token(
        records, "ann", ["upload"], now=NOW, projects=[SOME], lifetime=timedelta(days=1), note="ci"
    )
    assert valid_token(records, secret, now=NOW) == token
    assert records.tokens() == (token,)
    assert secret not in repr(records.tokens())
    assert permits(records, token, "upload", SOME)
    assert not permits(records, token, "upload", OTHER)
    assert not permits(records, token, "admin", SOME)
    assert valid_token(records, secret, now=NOW + timedelta(days=2)) is None
    assert valid_token(records, f"{secret}x", now=NOW) is None
    assert valid_token(records, "\ud800", now=NOW) is None
    assert records.revoke(token.id)
    assert valid_token(records, secret, now=NOW) is None


def test_owners(records: Records) -> None:
    """The first uploader owns a project; tokens apply to projects of their owner."""
    token, _ = issue_token(records, "ann", ["admin"], now=NOW)
    assert permits(records, token, "upload", SOME)
    add(records, new(), uploader="bob")
    assert records.owners(SOME) == {"bob"}
    assert not permits(records, token, "upload", SOME)
    with refused("not-an-owner"):
        add(records, new("some-2.0-py3-none-any.whl"), uploader="ann")
    add(records, new("some-2.0-py3-none-any.whl"), uploader="bob")
    assert records.owners(SOME) == {"bob"}


def test_token_without_projects(records: Records) -> None:
    """A token for no projects permits none."""
    token = Token("id", "ann", frozenset({"admin"}), TIME, frozenset())
    records.add_token(token, b"x" * 32)
    assert records.token(b"x" * 32) == token
    assert not permits(records, token, "upload", SOME)


# --- opening --------------------------------------------------------------------------------


def test_reopened_records(records_url: str) -> None:
    """Records persist, and opening them changes nothing."""
    first = Records(open_database(records_url))
    add(first, variant("mkl"))
    listing = first.listing(SOME)
    second = Records(open_database(records_url))
    assert second.listing(SOME) == listing
    first.close()
    first.close()
    assert second.serial() == 1
    second.close()
    with pytest.raises(StorageUnavailable):
        second.serial()


def test_newer_schema(records_url: str, execute: Callable[[str, str], None]) -> None:
    """A database of a newer version is refused unchanged."""
    Records(open_database(records_url)).close()
    execute(records_url, f"UPDATE schema_version SET version = {len(MIGRATIONS) + 1}")
    with (
        closing(open_database(records_url)) as database,
        pytest.raises(InvalidConfiguration, match="this wheelfit supports"),
    ):
        Records(database)


@pytest.fixture
def execute() -> Callable[[str, str], None]:
    """Return a function that runs a statement directly."""

    def run(url: str, sql: str) -> None:
        if url.startswith("sqlite"):
            import sqlite3

            with closing(sqlite3.connect(url.removeprefix("sqlite://"))) as database:
                database.execute(sql)
                database.commit()
        else:
            import psycopg

            with psycopg.connect(url) as connection:
                connection.execute(sql.encode())

    return run


@pytest.mark.parametrize(
    "url",
    [
        "mysql://host/x",
        "nothing",
        "sqlite://elsewhere.example/x",
        "postgresql://%zz%/a b c=d",
        "postgresql://me:hush@[bad/x",
        "me:hush@host",
        "host=x password=hush",
    ],
)
def test_invalid_urls(url: str) -> None:
    """An invalid URL is a configuration error without the password."""
    with pytest.raises(InvalidConfiguration) as excinfo:
        Records(open_database(url))
    assert "hush" not in repr(excinfo.value.parts())


def test_file_that_is_not_a_database(tmp_path: Path) -> None:
    """Another file is not changed."""
    path = tmp_path / "records.sqlite3"
    path.write_bytes(b"something else entirely" * 100)
    with pytest.raises(StorageUnavailable, match="not a database"):
        Records(open_database(f"sqlite://{path}"))
    assert path.read_bytes().startswith(b"something else")


def test_unreachable_server(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An unreachable server is named without its password, once."""
    from wheelfit.server.store.postgresql import PostgresqlDatabase

    with pytest.raises(StorageUnavailable) as excinfo:
        PostgresqlDatabase(f"postgresql://me:hush@/x?host={tmp_path}", lock_timeout=0.5)
    assert "hush" not in str(excinfo.value)
    assert "No such file or directory" in excinfo.value.message
    assert not caplog.records


def test_broken_connections(postgresql: Postgresql) -> None:
    """Broken connections are replaced."""
    import psycopg

    url = postgresql.database()
    records = Records(open_database(url))
    add(records, new())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
    assert records.serial() == 1
    records.close()


@pytest.mark.parametrize(
    ("library", "open_it"),
    [
        ("psycopg", partial(open_database, "postgresql://host/x")),
        ("obstore.store", partial(open_blobs, "s3://bucket")),
    ],
)
def test_missing_extra(
    library: str, open_it: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing library is an error with the extra in the hint."""
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(NeedsExtra) as excinfo:
        open_it()
    assert excinfo.value.hint == install_hint("server")


def test_lock_timeout(tmp_path: Path) -> None:
    """A writer that waits too long gets an error, and others continue."""
    database = SqliteDatabase(tmp_path / "x.sqlite3", lock_timeout=0.05)
    with database.writing() as execute:
        execute("CREATE TABLE t (x INTEGER)")

        def write() -> None:
            with database.writing() as other:
                other("INSERT INTO t VALUES (1)")

        with ThreadPoolExecutor(1) as pool, pytest.raises(StorageUnavailable):
            pool.submit(write).result()
    write()
    second = SqliteDatabase(tmp_path / "x.sqlite3", lock_timeout=0.05)
    with database.writing(), pytest.raises(StorageUnavailable), second.writing():
        pass
    database.close()
    second.close()
