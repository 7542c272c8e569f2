"""The cache: its contents, and the removal of old, unwanted or damaged entries.

Other processes may use it at the same time. A wheel that is being installed is left alone.
"""

from __future__ import annotations

import re
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import NormalizedName, canonicalize_name, canonicalize_version

from wheelfit.errors import UsageError
from wheelfit.operations.cache_folder import cache_folder
from wheelfit.operations.cache_reports import (
    WHEEL_KINDS,
    CacheContents,
    CachedWheel,
    CachedWheels,
    CacheRemoval,
    CacheTotal,
    CacheVerification,
    DamagedEntry,
    RemovedEntry,
)
from wheelfit.operations.requests import CacheOptions
from wheelfit.sources.cache_inventory import RECORDS, Inventory, InventoryEntry
from wheelfit.wheels.file_system import NATIVE
from wheelfit.wheels.processors import processor_count
from wheelfit_runtime.errors import FileProblem, UserError
from wheelfit_runtime.platforms.cache_folder import unsafe_cache_folder
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wheelfit.operations.context import Context


class CacheListRequest(CacheOptions):
    """The wheels to list."""

    names: tuple[str, ...] = ()
    """Names of packages; empty: all."""


class CacheRemoveRequest(CacheOptions):
    """The entries to remove."""

    names: tuple[str, ...] = ()
    """As ``NAME`` or ``NAME==VERSION``."""
    all: bool = False
    dry_run: bool = False


class CachePruneRequest(CacheOptions):
    """The entries to remove beside leftovers."""

    max_size: int | None = None
    older_than: float | None = None
    dry_run: bool = False


class CacheVerifyRequest(CacheOptions):
    """The options for verifying all entries."""

    keep_damaged: bool = False


def inspect_cache(request: CacheOptions, context: Context) -> CacheContents:
    """Return the entries and bytes of the cache by kind."""
    inventory = _inventory(request, context, removes=False)
    entries: dict[str, list[InventoryEntry]] = {}
    for entry in inventory.entries():
        entries.setdefault(entry.kind, []).append(entry)
    return CacheContents(
        inventory.folder,
        inventory.folder.is_dir(),
        {kind: CacheTotal.of(group) for kind, group in entries.items()},
        tuple(inventory.other_folders()),
        tuple(leftover.size for leftover in inventory.leftovers()),
        _link_mode(inventory.folder),
    )


def list_cached_wheels(request: CacheListRequest, context: Context) -> CachedWheels:
    """Return the wheels in the cache.

    :raises UserError: a text does not have the form of a name.
    """
    inventory = _inventory(request, context, removes=False)
    names = {_parse_name(name)[0] for name in request.names}
    wheels = tuple(
        wheel
        for wheel in _wheels(inventory)
        if not names or (wheel.release is not None and wheel.release.name in names)
    )
    return CachedWheels(inventory.folder, wheels)


def remove_from_cache(request: CacheRemoveRequest, context: Context) -> CacheRemoval:
    """Remove the wheels of some packages, or everything.

    :raises UserError: a text does not have the form of a name.
    :raises FileProblem: the cache has nothing of one of the packages; nothing is removed then.
    :raises UsageError: neither packages nor ``all`` are given, or both.
    """
    if bool(request.names) is request.all:
        raise UsageError(
            "names and --all exclude each other" if request.all else "no package was given",
            hint="name packages, or give --all",
        )
    inventory = _inventory(request, context, removes=not request.dry_run)
    removal = _Removal(inventory, request.dry_run)
    if not request.all:
        for entry in _entries_named(inventory, request.names):
            removal.remove(entry, _REQUESTED)
        return removal.report("remove")
    for entry in list(inventory.entries()):
        removal.remove(entry, _REQUESTED)
    for name, files, size in inventory.other_folders():
        removal.count(name, _REQUESTED, files, size)
        if not request.dry_run:
            inventory.remove_other(name)
    removal.remove_leftovers()
    return removal.report("remove")


def prune_cache(request: CachePruneRequest, context: Context) -> CacheRemoval:
    """Remove leftovers, old entries, and those over the limit."""
    inventory = _inventory(request, context, removes=not request.dry_run)
    removal = _Removal(inventory, request.dry_run)
    removal.remove_leftovers()
    # Records are facts about files seen before; all else can be fetched or made again.
    removable = (entry for entry in inventory.entries() if entry.kind != RECORDS)
    entries = sorted(removable, key=lambda entry: entry.used)
    left = sum(entry.size for entry in entries)
    limit = float("-inf") if request.older_than is None else time.time() - request.older_than
    for entry in entries:
        reason = ""
        if entry.used < limit:
            reason = "old"
        elif request.max_size is not None and left > request.max_size:
            reason = "over the limit"
        if reason and removal.remove(entry, reason):
            left -= entry.size
    return removal.report("prune", left, request.max_size)


def verify_cache(request: CacheVerifyRequest, context: Context) -> CacheVerification:
    """Read every entry again, and remove the damaged ones."""
    inventory = _inventory(request, context, removes=not request.keep_damaged)
    entries = list(inventory.entries())
    damaged: list[tuple[InventoryEntry, str]] = []
    with (
        context.reporter.transfers(lambda: None) as transfers,
        ThreadPoolExecutor(processor_count(), "verify") as pool,
    ):
        transfer = transfers.transfer(
            count_of(len(entries), "entry", "entries"), "read", is_sum=True
        )
        size = sum(entry.size for entry in entries)
        transfer.start(size)
        damage = partial(inventory.damage, advance=transfer.advance)
        try:
            for entry, reason in zip(entries, pool.map(damage, entries), strict=True):
                if reason is not None:
                    damaged.append((entry, reason))
        except BaseException:
            transfers.cancel()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        transfer.done()
    rows = []
    for entry, reason in damaged:
        release = inventory.wheel_name(entry) if entry.kind in WHEEL_KINDS else None
        is_removed = not request.keep_damaged and inventory.remove(entry)
        rows.append(DamagedEntry(entry, release, reason, is_removed))
    return CacheVerification(inventory.folder, len(entries), size, tuple(rows))


def _inventory(request: CacheOptions, context: Context, *, removes: bool) -> Inventory:
    """Open the cache; warn where another user can write to it.

    :raises FileProblem: files will be removed, and another user could replace folders by links to
        other places.
    """
    folder = cache_folder(request.cache_dir, context.environ).absolute()
    unsafe = unsafe_cache_folder(str(folder))
    if unsafe is not None and removes:
        raise FileProblem(
            f"the cache was not changed: {unsafe.reason}",
            where=unsafe.path,
            hint=unsafe.remedy,
        )
    if unsafe is not None:
        context.reporter.warn(f"the cache {unsafe}")
    return Inventory(folder)


def _link_mode(cache: Path) -> str | None:
    """Return the way the cache's file system shares file contents; None if unknown."""
    with (
        suppress(OSError),
        tempfile.TemporaryDirectory(prefix=".", suffix=".part", dir=cache) as folder,
    ):
        source = Path(folder) / "source"
        source.write_bytes(b"wheelfit")
        for name, link in (("hardlink", NATIVE.link), ("reflink", NATIVE.reflink)):
            with suppress(OSError):
                link(source, Path(folder) / name)
                return name
        return "copy"
    return None


def _wheels(inventory: Inventory) -> list[CachedWheel]:
    archives = {entry.key: entry for entry in inventory.entries(["wheels"])}
    trees = {entry.key: entry for entry in inventory.entries(["unpacked"])}
    wheels = []
    for sha256 in archives.keys() | trees.keys():
        archive, tree = archives.get(sha256), trees.get(sha256)
        releases = (inventory.wheel_name(entry) for entry in (tree, archive) if entry is not None)
        release = next(filter(None, releases), None)
        wheels.append(CachedWheel(sha256, release, archive, tree))
    return sorted(
        wheels, key=lambda wheel: (wheel.release is None, str(wheel.release), wheel.sha256)
    )


def _parse_name(text: str) -> tuple[NormalizedName, str | None]:
    """Return the name and the version in ``NAME`` or ``NAME==VERSION``.

    :raises UserError: it has neither form.
    """
    match = re.fullmatch(
        r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:==(.+))?", text, re.DOTALL
    )
    if match is None:
        raise UserError(f"{text!r} is not a valid package name", hint="write NAME or NAME==VERSION")
    return canonicalize_name(match[1]), match[2]


_REQUESTED = "requested"


@dataclass(slots=True)
class _Removal:
    """A removal of entries, or in a dry run only their count."""

    inventory: Inventory
    dry_run: bool
    wheels: list[RemovedEntry] = field(default_factory=list)
    others: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    in_use: list[RemovedEntry] = field(default_factory=list)
    freed: int = 0
    still_linked: int = 0

    def remove(self, entry: InventoryEntry, reason: str) -> bool:
        """Remove an entry; return whether it was removed."""
        is_wheel = entry.kind in WHEEL_KINDS
        row = RemovedEntry(entry, self.inventory.wheel_name(entry) if is_wheel else None, reason)
        if not self.dry_run and not self.inventory.remove(entry):
            self.in_use.append(row)
            return False
        if is_wheel:
            self.wheels.append(row)
        else:
            self._add(entry.kind, reason, 1, entry.size)
        self.freed += entry.size - entry.linked
        self.still_linked += entry.linked
        return True

    def count(self, kind: str, reason: str, entries: int, freed: int) -> None:
        """Count removals other than entries."""
        self._add(kind, reason, entries, freed)
        self.freed += freed

    def _add(self, kind: str, reason: str, entries: int, size: int) -> None:
        entries_before, size_before = self.others.get((kind, reason), (0, 0))
        self.others[kind, reason] = (entries_before + entries, size_before + size)

    def remove_leftovers(self) -> None:
        """Remove leftovers of killed processes."""
        for leftover in list(self.inventory.leftovers()):
            self.count("leftovers", "left by killed processes", 1, leftover.size)
            if not self.dry_run:
                self.inventory.sweep(leftover)

    def report(
        self, action: str, left: int | None = None, limit: int | None = None
    ) -> CacheRemoval:
        """Return the report; see the fields of `CacheRemoval`."""
        return CacheRemoval(
            action,
            self.inventory.folder,
            self.dry_run,
            tuple(self.wheels),
            self.others,
            tuple(self.in_use),
            self.freed,
            self.still_linked,
            left,
            limit,
        )


def _entries_named(inventory: Inventory, names: Iterable[str]) -> list[InventoryEntry]:
    """Return the entries of some packages.

    :raises FileProblem: the cache has nothing of one of them.
    """
    wheels = _wheels(inventory)
    selected: dict[str, CachedWheel] = {}
    records: dict[str, InventoryEntry] = {}
    for text in names:
        name, version = _parse_name(text)
        matching = [
            wheel
            for wheel in wheels
            if wheel.release is not None
            and wheel.release.name == name
            and (
                version is None
                or canonicalize_version(version) == canonicalize_version(wheel.release.version)
            )
        ]
        records_of_name = {entry.key: entry for entry in inventory.records_of(name)}
        if not matching and not records_of_name:
            raise FileProblem(
                f"{text} is not in the cache; nothing was removed",
                where=str(inventory.folder),
                hint="`wheelfit cache list` shows the cached packages",
            )
        selected |= {wheel.sha256: wheel for wheel in matching}
        records |= records_of_name
    entries = (entry for wheel in selected.values() for entry in wheel.entries)
    return [*entries, *records.values()]
