"""The audit log in SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest
from server.uploading import NOW

from wheelfit.server.store.audit import Actor, AuditFilter, AuditLog
from wheelfit.server.store.database import MIGRATIONS, insert, timestamp
from wheelfit.server.store.opening import open_database
from wheelfit.server.store.sql_records import Records

ANN = Actor("ann", "11", "CI of 100% spam", "192.0.2.1", timestamp(NOW))
BOB = Actor("bob", "22", "trusted publishing: repo:acme/eggs", "::1", timestamp(NOW + timedelta(1)))


@pytest.fixture
def log(records_url: str) -> Iterator[AuditLog]:
    """Yield an audit log with a few entries."""
    with closing(Records(open_database(records_url))) as records:
        log = records.audit
        log.refuse(ANN, "upload", "spam", "spam-1.0.tar.gz", "name-taken")
        log.add(ANN, "clean", "3 blobs")
        log.refuse(BOB, "yank", "eggs", "eggs", "not allowed")
        log.refuse(BOB, "delete", "spam", "spam", "not allowed")
        yield log


@pytest.mark.parametrize(
    ("wanted", "serials"),
    [
        (AuditFilter(), [4, 3, 2, 1]),
        (AuditFilter(max_count=2), [4, 3]),
        (AuditFilter(project="spam"), [4, 1]),
        (AuditFilter(actor="ann"), [2, 1]),
        (AuditFilter(actor="22"), [4, 3]),
        (AuditFilter(actor="::1"), [4, 3]),
        (AuditFilter(actor="ACME/eggs"), [4, 3]),
        (AuditFilter(actor="100%"), [2, 1]),
        (AuditFilter(actor="%"), [2, 1]),
        (AuditFilter(actor="_"), []),
        (AuditFilter(actor="' OR 1=1 --"), []),
        (AuditFilter(action="yank"), [3]),
        (AuditFilter(outcome="done"), [2]),
        (AuditFilter(since=timestamp(NOW + timedelta(hours=1))), [4, 3]),
        (AuditFilter(until=timestamp(NOW + timedelta(hours=1))), [2, 1]),
        (AuditFilter(project="spam", actor="bob", action="delete"), [4]),
    ],
)
def test_filters(log: AuditLog, wanted: AuditFilter, serials: list[int]) -> None:
    """Entries are filtered by every field, newest first."""
    assert [entry.serial for entry in log.entries(wanted)] == serials


def test_fields_of_an_entry(log: AuditLog) -> None:
    """An entry has the time, actor, address, action and reason."""
    entry = log.after(0, 1)[0]
    assert entry.time == ANN.time
    assert (entry.owner, entry.token, entry.note) == ("ann", "11", "CI of 100% spam")
    assert entry.address == "192.0.2.1"
    assert (entry.action, entry.outcome, entry.project) == ("upload", "refused", "spam")
    assert (entry.subject, entry.detail) == ("spam-1.0.tar.gz", "name-taken")


def test_retention(log: AuditLog) -> None:
    """Old entries are deleted, refusals earlier; serial numbers are not reused."""
    log.prune(timestamp(NOW + timedelta(hours=1)))
    assert [entry.serial for entry in log.entries(AuditFilter())] == [4, 3]
    log.prune(timestamp(NOW), refusals=1)
    assert [entry.serial for entry in log.entries(AuditFilter())] == [4]
    log.prune(timestamp(NOW + timedelta(days=9)))
    log.add(ANN, "clean", "")
    assert [entry.serial for entry in log.entries(AuditFilter())] == [5, 4]


def test_escaped_texts(log: AuditLog) -> None:
    """Control characters and characters that databases refuse are escaped."""
    log.refuse(ANN, "upload", "x", "a\0b\ud800\x1b[2J\nc" + "x" * 5000, "")
    subject = log.entries(AuditFilter(project="x"))[0].subject
    assert subject.isprintable()
    assert subject.startswith(r"a\x00b\ud800\x1b[2J\nc")
    assert len(subject) < 1100


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
def test_migration(version: int, records_url: str) -> None:
    """A database of any earlier version is migrated."""
    with closing(open_database(records_url)) as database:
        with database.writing() as execute:
            execute("CREATE TABLE schema_version (version INTEGER NOT NULL)")
            execute("INSERT INTO schema_version (version) VALUES (?)", (version,))
            for statement in (one for step in MIGRATIONS[:version] for one in step):
                execute(statement.format_map(database.column_types))
            insert(execute, "owner", project="spam", name="ann")
            stage = {"owner": "ann", "created": timestamp(NOW), "expires": timestamp(NOW)}
            insert(execute, "stage", id="1", secret=b"x", **stage)
        records = Records(database)
        assert records.audit.entries(AuditFilter()) == ()
        assert [stage.id for stage in records.stages()] == ["1"]
        records.with_actor(ANN).drop("1")
        (entry,) = records.audit.entries(AuditFilter())
        assert (entry.action, entry.subject, entry.owner) == ("drop-stage", "1", "ann")
