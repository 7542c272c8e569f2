"""The cache: its contents, and the removal of old, unwanted or damaged entries.

Other processes may use it meanwhile. A wheel that one of them is installing is left alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wheelfit.errors import UsageError
from wheelfit.operations.cache_folder import cache_folder
from wheelfit.operations.cache_reports import (
    WHEELS,
    CacheContents,
    CacheRemoval,
    CacheTotal,
    CacheVerification,
    DamagedEntry,
    KeptWheel,
    KeptWheels,
    RemovedEntry,
)
from wheelfit.operations.requests import CacheOptions
from wheelfit.sources.cache_inventory import LAYOUT, RECORDS, Inventory
from wheelfit_runtime.errors import FileProblem, UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.operations.context import Context
    from wheelfit.sources.cache_inventory import InventoryEntry


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
    """The options of a check of all entries."""

    keep_damaged: bool = False


def inspect_cache(request: CacheOptions, context: Context) -> CacheContents:
    """Return the entries and bytes of the cache by kind."""
    inventory = _inventory(request, context, removes=False)
    entries: dict[tuple[str, int], list[InventoryEntry]] = {key: [] for key in inventory.layouts()}
    for entry in inventory.entries(others=True):
        entries.setdefault((entry.kind, entry.layout), []).append(entry)
    return CacheContents(
        inventory.folder,
        inventory.folder.is_dir(),
        LAYOUT,
        {key: CacheTotal.of(some) for key, some in entries.items()},
        tuple(inventory.others()),
        tuple(leftover.size for leftover in inventory.leftovers()),
        tuple(inventory.strangers()),
        _link_mode(inventory.folder),
    )


def list_cached_wheels(request: CacheListRequest, context: Context) -> KeptWheels:
    """Return the wheels that are kept.

    :raises UserError: a text does not have the form of a name.
    """
    inventory = _inventory(request, context, removes=False)
    wanted = {_parsed(name)[0] for name in request.names}
    wheels = tuple(
        wheel
        for wheel in _wheels(inventory)
        if not wanted or (wheel.which is not None and wheel.which.name in wanted)
    )
    return KeptWheels(inventory.folder, wheels)


def remove_from_cache(request: CacheRemoveRequest, context: Context) -> CacheRemoval:
    """Remove the wheels of some packages, or everything.

    :raises UserError: a text does not have the form of a name.
    :raises FileProblem: nothing is kept of one of the packages; nothing is removed then.
    :raises UsageError: neither packages nor ``all`` are given, or both.
    """
    if bool(request.names) is request.all:
        raise UsageError(
            "names or --all, not both" if request.all else "remove needs names, or --all"
        )
    removing = _Removing(_inventory(request, context, removes=not request.dry_run), request.dry_run)
    inventory = removing.inventory
    if not request.all:
        for entry in _entries_named(inventory, request.names):
            removing.entry(entry, _ASKED)
        return removing.report("remove")
    for entry in list(inventory.entries()):
        removing.entry(entry, _ASKED)
    removing.layouts()
    for name, files, size in inventory.others():
        removing.count(name, _ASKED, files, size)
        if not request.dry_run:
            inventory.remove_other(name)
    removing.leftovers()
    return removing.report("remove")


def prune_cache(request: CachePruneRequest, context: Context) -> CacheRemoval:
    """Remove leftovers, entries of other versions, old entries, and those over the limit."""
    import time

    removing = _Removing(_inventory(request, context, removes=not request.dry_run), request.dry_run)
    removing.leftovers()
    removing.layouts()
    copies = (one for one in removing.inventory.entries() if one.kind != RECORDS)
    entries = sorted(copies, key=lambda copy: copy.used)
    left = sum(one.size for one in entries)
    limit = float("-inf") if request.older_than is None else time.time() - request.older_than
    for entry in entries:
        reason = ""
        if entry.used < limit:
            reason = "old"
        elif request.max_size is not None and left > request.max_size:
            reason = "too much"
        if reason and removing.entry(entry, reason):
            left -= entry.size
    return removing.report("prune", left, request.max_size)


def verify_cache(request: CacheVerifyRequest, context: Context) -> CacheVerification:
    """Read every entry again, and remove the damaged ones."""
    import os
    from concurrent.futures import ThreadPoolExecutor

    inventory = _inventory(request, context, removes=not request.keep_damaged)
    entries = list(inventory.entries())
    damaged: list[tuple[InventoryEntry, str]] = []
    with (
        context.reporter.transfers(lambda: None) as transfers,
        ThreadPoolExecutor(os.cpu_count() or 1, "verify") as pool,
    ):
        transfer = transfers.transfer(f"{len(entries)} entries", "read", is_sum=True)
        transfer.start(sum(one.size for one in entries))
        look = _looking(inventory, transfer.advance)
        try:
            for entry, reason in zip(entries, pool.map(look, entries), strict=True):
                if reason is not None:
                    damaged.append((entry, reason))
        except BaseException:
            transfers.cancel()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        transfer.done()
    rows = []
    for entry, reason in damaged:
        which = inventory.label(entry) if entry.kind in WHEELS else None
        removed = not request.keep_damaged and inventory.remove(entry)
        rows.append(DamagedEntry(entry, which, reason, removed))
    size = sum(one.size for one in entries)
    return CacheVerification(inventory.folder, len(entries), size, tuple(rows))


def _inventory(request: CacheOptions, context: Context, *, removes: bool) -> Inventory:
    """Open the cache; warn where another user can write to it.

    :param removes: whether files will be removed.
    :raises FileProblem: files will be removed, and another user could put a link into the folder
        meanwhile, which leads elsewhere.
    """
    from wheelfit_runtime.platforms.cache_folder import unsafe_cache_folder

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
    import tempfile
    from pathlib import Path

    from wheelfit.wheels.native_file_system import NATIVE

    try:
        with tempfile.TemporaryDirectory(prefix=".", suffix=".part", dir=cache) as folder:
            source = Path(folder) / "source"
            source.write_bytes(b"wheelfit")
            for name, way in (("hardlink", NATIVE.link), ("reflink", NATIVE.reflink)):
                try:
                    way(source, Path(folder) / name)
                except OSError:
                    continue
                return name
    except OSError:
        return None
    return "copy"


def _wheels(inventory: Inventory) -> list[KeptWheel]:
    archives = {entry.key: entry for entry in inventory.entries(["wheels"])}
    trees = {entry.key: entry for entry in inventory.entries(["unpacked"])}
    wheels = []
    for sha256 in archives.keys() | trees.keys():
        archive, tree = archives.get(sha256), trees.get(sha256)
        names = (inventory.label(one) for one in (tree, archive) if one is not None)
        which = next((name for name in names if name is not None), None)
        wheels.append(KeptWheel(sha256, which, archive, tree))
    return sorted(wheels, key=lambda wheel: (wheel.which is None, str(wheel.which), wheel.sha256))


def _parsed(text: str) -> tuple[NormalizedName, str | None]:
    """Return the name and the version in ``NAME`` or ``NAME==VERSION``.

    :raises UserError: it has neither form.
    """
    from packaging.utils import canonicalize_name

    name, sign, version = text.partition("==")
    if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", name) or (
        sign and not version
    ):
        raise UserError(f"{text!r} is not a valid package name", hint="write NAME or NAME==VERSION")
    return canonicalize_name(name), version or None


_ASKED = "asked for"


@dataclass(slots=True)
class _Removing:
    """A removal under way; nothing is removed in a dry run."""

    inventory: Inventory
    dry_run: bool
    wheels: list[RemovedEntry] = field(default_factory=list)
    others: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    in_use: list[RemovedEntry] = field(default_factory=list)
    freed: int = 0
    still_linked: int = 0

    def entry(self, entry: InventoryEntry, reason: str) -> bool:
        """Remove an entry; return whether it was removed."""
        is_wheel = entry.kind in WHEELS
        row = RemovedEntry(entry, self.inventory.label(entry) if is_wheel else None, reason)
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
        before, size_before = self.others.get((kind, reason), (0, 0))
        self.others[kind, reason] = (before + entries, size_before + size)

    def leftovers(self) -> None:
        """Remove leftovers of killed processes."""
        for leftover in list(self.inventory.leftovers()):
            self.count("leftovers", "left by killed processes", 1, leftover.size)
            if not self.dry_run:
                self.inventory.sweep(leftover)

    def layouts(self) -> None:
        """Remove entries of other versions of wheelfit."""
        for kind, layout in self.inventory.layouts():
            if layout == LAYOUT:
                continue
            entries = [
                entry
                for entry in self.inventory.entries([kind], others=True)
                if entry.layout == layout
            ]
            freed = sum(entry.size - entry.linked for entry in entries)
            self.count(kind, f"layout {layout}", len(entries), freed)
            if not self.dry_run:
                self.inventory.remove_layout(kind, layout)

    def report(
        self, action: str, left: int | None = None, limit: int | None = None
    ) -> CacheRemoval:
        """Return the report of the removal; the arguments are its fields."""
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


def _is_same(one: str, other: str) -> bool:
    """Return whether two texts are the same version, as 1.0 and 1.0.0 are (PEP 440)."""
    from packaging.version import InvalidVersion

    from wheelfit.core.versions import parse_version

    try:
        return parse_version(one) == parse_version(other)
    except InvalidVersion:
        return one == other


def _entries_named(inventory: Inventory, names: Iterable[str]) -> list[InventoryEntry]:
    """Return the entries of some packages.

    :raises FileProblem: there is nothing of one of them.
    """
    wheels = _wheels(inventory)
    kept_wheels: dict[str, KeptWheel] = {}
    records: list[InventoryEntry] = []
    for text in names:
        name, version = _parsed(text)
        some = [
            wheel
            for wheel in wheels
            if wheel.which is not None
            and wheel.which.name == name
            and (version is None or _is_same(version, wheel.which.version))
        ]
        recorded = list(inventory.records_of(name))
        if not some and not recorded:
            raise FileProblem(
                f"{text} is not in the cache; nothing was removed",
                where=str(inventory.folder),
                hint="`wheelfit cache list` shows what is kept",
            )
        kept_wheels |= {one.sha256: one for one in some}
        records += recorded
    return [*(entry for one in kept_wheels.values() for entry in one.entries), *records]


def _looking(
    inventory: Inventory, advance: Callable[[int], None]
) -> Callable[[InventoryEntry], str | None]:
    return lambda entry: inventory.damage(entry, advance=advance)
