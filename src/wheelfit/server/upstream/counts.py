"""Counts of requests and bytes of mirrors, for monitoring."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping


Counted: TypeAlias = Literal[
    "file hit", "file miss", "file failed",
    "page fetched", "page revalidated", "page missing", "page failed",
    "bytes fetched", "bytes served",
]  # fmt: skip


class MirrorCounts:
    """The counts of a mirror since its server started. Called from several threads at once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._counts: Counter[Counted] = Counter()
        self._lock = threading.Lock()

    def add(self, key: Counted, count: int = 1) -> None:
        """Add to a count."""
        with self._lock:
            self._counts[key] += count

    def read(self) -> Mapping[Counted, int]:
        """Return all counts; those that are missing are 0."""
        with self._lock:
            return dict(self._counts)
