"""Removal of unused data after a grace period."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from server.uploading import store_bytes, upload

from wheelfit.server.store.audit import AuditFilter
from wheelfit.server.store.database import timestamp
from wheelfit.server.store.opening import CleaningResult, Store, clean
from wheelfit.server.store.stored_index import StoredIndex
from wheelfit.server.store.tokens import open_stage
from wheelfit.testing.wheels import build_wheel

HOUR = timedelta(hours=1)


def test_unused_blobs(opened: Callable[[], Store], tmp_path: Path) -> None:
    """Unused blobs are deleted after the grace period."""
    store, now = opened(), datetime.now(UTC)
    published = build_wheel(tmp_path, "some", "1.0")
    staged = build_wheel(tmp_path, "some", "2.0")
    deleted = build_wheel(tmp_path, "some", "3.0")
    stage, _ = open_stage(store.records, "ann", now=now, lifetime=10 * HOUR)
    upload(store, published, now=now)
    upload(store, staged, now=now, stage=stage.id)
    upload(store, deleted, now=now)
    store.records.delete([deleted.name], time=timestamp(now))
    stray = store_bytes(store.blobs, [b"of a process that was killed"])
    assert clean(store, now=now, grace=HOUR) == CleaningResult()
    size = stray.size + deleted.stat().st_size
    assert clean(store, now=now + 2 * HOUR, grace=HOUR) == CleaningResult(2, size)
    assert len(list(store.blobs.all_blobs())) == 2
    # The stage's time is up: its file goes, and the name is free.
    assert clean(store, now=now + 11 * HOUR, grace=HOUR).stages == 1
    assert len(list(store.blobs.all_blobs())) == 1
    assert store.records.stages() == ()
    assert StoredIndex(store).content(published.name) is not None


def test_abandoned_drafts(opened: Callable[[], Store]) -> None:
    """Abandoned drafts are deleted after the grace period."""
    store, now = opened(), datetime.now(UTC)
    with store.blobs.draft() as draft:
        draft.write(b"x")
        assert clean(store, now=now, grace=HOUR).drafts == 0
        long_ago = (now - 2 * HOUR).timestamp()
        os.utime(draft.path, (long_ago, long_ago))
        assert clean(store, now=now, grace=HOUR).drafts == 1


def test_audit_entry(opened: Callable[[], Store]) -> None:
    """The audit entry counts each kind of removed object, and is omitted for none."""
    store, now = opened(), datetime.now(UTC)
    clean(store, now=now, grace=HOUR)
    assert store.records.audit.entries(AuditFilter(action="clean")) == ()
    for number in range(2):
        store_bytes(store.blobs, [str(number).encode()])
    open_stage(store.records, "ann", now=now, lifetime=HOUR)
    clean(store, now=now + 2 * HOUR, grace=HOUR)
    (entry,) = store.records.audit.entries(AuditFilter(action="clean"))
    assert entry.detail == "2 stored files and 1 stage"


def test_more_than_one_batch(opened: Callable[[], Store]) -> None:
    """More objects than one batch are removed."""
    store, now = opened(), datetime.now(UTC)
    for number in range(110):
        store_bytes(store.blobs, [str(number).encode()])
    assert clean(store, now=now + 2 * HOUR, grace=HOUR).blobs == 110
    assert list(store.blobs.all_blobs()) == []


def test_list_of_projects(opened: Callable[[], Store], tmp_path: Path) -> None:
    """A project is listed from its first file until its last is deleted."""
    store, now = opened(), datetime.now(UTC)
    index = StoredIndex(store)
    assert index.projects() == ()
    wheels = [build_wheel(tmp_path, name, "1.0") for name in ("some", "other")]
    upload(store, wheels[0], now=now)
    assert index.projects() == ("some",)
    upload(store, wheels[1], now=now)
    assert index.projects() == ("other", "some")
    store.records.delete([wheels[0].name], time=timestamp(now))
    assert index.projects() == ("other",)


def test_empty_stages(opened: Callable[[], Store], tmp_path: Path) -> None:
    """Empty stages expire after some hours, others after their lifetime."""
    store, now = opened(), datetime.now(UTC)
    used, _ = open_stage(store.records, "ann", now=now, lifetime=48 * HOUR)
    open_stage(store.records, "ann", now=now, lifetime=48 * HOUR)
    upload(store, build_wheel(tmp_path, "some", "1.0"), now=now, stage=used.id)
    assert clean(store, now=now + 5 * HOUR, grace=HOUR).stages == 0
    assert clean(store, now=now + 7 * HOUR, grace=HOUR).stages == 1
    assert [stage.id for stage in store.records.stages()] == [used.id]
