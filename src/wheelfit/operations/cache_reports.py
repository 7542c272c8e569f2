"""Reports about the cache."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.operations.plain_data import plain_fields, plain_report

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from wheelfit.sources.cache_inventory import CachedWheelName, InventoryEntry

WHEEL_KINDS = ("wheels", "unpacked")
"""The kinds of entries that are wheels, packed and unpacked."""


@dataclass(frozen=True, slots=True)
class CacheTotal:
    """The sum of some entries."""

    entries: int = 0
    size: int = 0
    linked: int = 0
    """Bytes that environments share with the cache."""
    oldest: float | None = None
    """The last use of the least recently used entry, in seconds since 1970."""
    newest: float | None = None

    @classmethod
    def of(cls, entries: Iterable[InventoryEntry]) -> CacheTotal:
        """Add up entries."""
        entries = list(entries)
        used = [entry.used for entry in entries]
        return cls(
            len(entries),
            sum(entry.size for entry in entries),
            sum(entry.linked for entry in entries),
            min(used, default=None),
            max(used, default=None),
        )


@dataclass(frozen=True, slots=True)
class CacheContents:
    """The entries and bytes of the cache."""

    folder: Path
    exists: bool
    kinds: Mapping[str, CacheTotal]
    """The sums by kind."""
    others: tuple[tuple[str, int, int], ...]
    """Folders without entries: name, files and bytes of each."""
    leftovers: tuple[int, ...]
    """The sizes of leftovers of killed processes."""
    links: str | None
    """The way files of the cache are shared: ``hardlink``, ``reflink`` or ``copy``."""

    @property
    def size(self) -> int:
        """Bytes in all."""
        entries = sum(total.size for total in self.kinds.values())
        return sum(self.leftovers) + entries + sum(size for _, _, size in self.others)

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(
            self,
            "folder exists links size",
            action="info",
            linked_size=sum(total.linked for total in self.kinds.values()),
            kinds=[
                {
                    "kind": kind,
                    "entries": total.entries,
                    "size": total.size,
                    "linked_size": total.linked,
                    "oldest": _stamp(total.oldest),
                    "newest": _stamp(total.newest),
                }
                for kind, total in self.kinds.items()
            ],
            others=[
                {"name": name, "files": files, "size": size} for name, files, size in self.others
            ],
            leftovers={"entries": len(self.leftovers), "size": sum(self.leftovers)},
        )


@dataclass(frozen=True, slots=True)
class CachedWheel:
    """A wheel of the cache."""

    sha256: str
    release: CachedWheelName | None
    """Its name, version and label; None where they cannot be read."""
    archive: InventoryEntry | None
    tree: InventoryEntry | None
    """The unpacked wheel."""

    @property
    def entries(self) -> list[InventoryEntry]:
        """The archive and the unpacked wheel, as far as they are cached."""
        return [entry for entry in (self.archive, self.tree) if entry is not None]

    @property
    def used(self) -> float:
        """The time of its last use, in seconds since 1970."""
        return max(entry.used for entry in self.entries)

    def to_json(self) -> dict[str, object]:
        """Return its object in ``--json``."""
        return {
            **_release_json(self.release),
            "sha256": self.sha256,
            "packed_size": self.archive.size if self.archive else None,
            "unpacked_size": self.tree.size if self.tree else None,
            "files": self.tree.files if self.tree else None,
            "linked_size": sum(entry.linked for entry in self.entries),
            "last_used": _stamp(self.used),
        }


@dataclass(frozen=True, slots=True)
class CachedWheels:
    """The wheels of the cache."""

    folder: Path
    wheels: tuple[CachedWheel, ...]

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(self, "folder wheels", action="list")


@dataclass(frozen=True, slots=True)
class RemovedEntry:
    """An entry that was removed, or would be."""

    entry: InventoryEntry
    release: CachedWheelName | None
    reason: str

    def to_json(self) -> dict[str, object]:
        """Return its object in ``--json``."""
        return {
            **plain_fields(self.entry, "kind size", sha256=self.entry.key),
            **_release_json(self.release),
            "last_used": _stamp(self.entry.used),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class CacheRemoval:
    """The entries that were removed, or would be."""

    action: str
    """``remove`` or ``prune``."""
    folder: Path
    dry_run: bool
    wheels: tuple[RemovedEntry, ...]
    others: Mapping[tuple[str, str], tuple[int, int]]
    """The number and bytes of other removals, by kind and reason."""
    in_use: tuple[RemovedEntry, ...]
    """Entries kept because another process uses them."""
    freed: int
    """Bytes that are free now."""
    still_linked: int
    """Bytes that environments keep."""
    left: int | None = None
    """Remaining bytes; None where they were not counted."""
    limit: int | None = None
    """The highest number of bytes that should remain; None: any."""

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(
            self,
            "action folder dry_run in_use",
            removed=self.wheels,
            others=[
                {"kind": kind, "reason": reason, "entries": entries, "size": size}
                for (kind, reason), (entries, size) in self.others.items()
            ],
            freed_size=self.freed,
            linked_size=self.still_linked,
            **({} if self.left is None else {"left_size": self.left}),
        )


@dataclass(frozen=True, slots=True)
class DamagedEntry:
    """An entry whose content is not the one that was cached."""

    entry: InventoryEntry
    release: CachedWheelName | None
    reason: str
    is_removed: bool

    def to_json(self) -> dict[str, object]:
        """Return its object in ``--json``."""
        return {
            **plain_fields(self.entry, "kind path"),
            **_release_json(self.release),
            "reason": self.reason,
            "removed": self.is_removed,
        }


@dataclass(frozen=True, slots=True)
class CacheVerification:
    """The result of reading every entry again."""

    folder: Path
    entries: int
    size: int
    """Bytes that were read."""
    damaged: tuple[DamagedEntry, ...]

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(self, "folder entries size damaged", action="verify")


def _release_json(release: CachedWheelName | None) -> dict[str, object]:
    if release is None:
        return {"name": None, "version": None, "label": None}
    return plain_fields(release, "name version label")


def _stamp(when: float | None) -> str | None:
    """Return a time in UTC, as ISO 8601."""
    return None if when is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when))
