"""Remove what nobody needs: bytes without a file, stages whose time is up, drafts of the dead."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from wheelfit.server.store.tokens import written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, timedelta

    from wheelfit.server.store.blobs import Blob
    from wheelfit.server.store.opening import Store


_TOGETHER = 100
"""Blobs that are looked at while nobody else can write."""


class Cleaned(NamedTuple):
    """Say what was removed."""

    blobs: int = 0
    size: int = 0
    """Bytes of the blobs."""
    stages: int = 0
    drafts: int = 0


def clean(store: Store, *, now: datetime, grace: timedelta) -> Cleaned:
    """Remove what nobody needs; any number may do this at once, while others upload.

    Bytes are kept before their file is recorded, so those of an upload that is under way, or
    that was killed in between, have no file yet. They are left alone for a while, and an
    upload that takes longer notices and keeps them again.

    :param grace: how long what has no file is left alone.
    """
    before = (now - grace).timestamp()
    stages = [stage.id for stage in store.records.stages() if stage.expires <= written(now)]
    for stage in stages:
        store.records.drop(stage)
    count = size = 0
    for some in _some(store, before):
        sizes = {blob.sha256: blob.size for blob in some}
        gone = store.records.forget_unused(tuple(sizes), store.blobs.delete)
        count += len(gone)
        size += sum(sizes[digest] for digest in gone)
    return Cleaned(count, size, len(stages), store.blobs.tidy(before))


def _some(store: Store, before: float) -> Iterator[list[Blob]]:
    """Yield blobs that are old enough, a few at a time."""
    some: list[Blob] = []
    for blob in store.blobs.stored():
        if blob.modified < before:
            some.append(blob)
        if len(some) == _TOGETHER:
            yield some
            some = []
    if some:
        yield some
