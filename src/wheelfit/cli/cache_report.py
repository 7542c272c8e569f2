"""What the actions of ``wheelfit cache`` do, and how they tell it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wheelfit.core.sizes import size_in_words
from wheelfit.errors import FileProblem, UserError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.cli.output import Output
    from wheelfit.sources.inventory import Entry, Inventory, KeptName

_WHEELS = ("wheels", "unpacked")
_WORDS = {
    "wheels": "wheel files",
    "unpacked": "unpacked wheels",
    "pages": "index pages",
    "parsed": "parsed index pages",
    "files": "metadata files",
    "members": "parts of wheels",
    "built": "what was built",
    "interpreters": "answers of interpreters",
    "plugins": "environments of plugins",
    "probes": "answers of drivers",
}
_DAMAGED = 4
"""The exit code: bytes are not what was promised."""


# --- looking -------------------------------------------------------------------------


@dataclass(slots=True)
class _Sum:
    """Add up entries."""

    entries: int = 0
    size: int = 0
    linked: int = 0
    oldest: float | None = None
    newest: float | None = None

    def add(self, entry: Entry) -> None:
        self.entries += 1
        self.size += entry.size
        self.linked += entry.linked
        self.oldest = entry.used if self.oldest is None else min(self.oldest, entry.used)
        self.newest = entry.used if self.newest is None else max(self.newest, entry.used)


def info(inventory: Inventory, output: Output) -> int:
    """Say how much is kept of what."""
    from wheelfit.cli.columns import columns
    from wheelfit.sources.inventory import KINDS, LAYOUT

    sums: dict[tuple[str, int], _Sum] = {key: _Sum() for key in inventory.layouts()}
    for entry in inventory.entries(others=True):
        sums.setdefault((entry.kind, entry.layout), _Sum()).add(entry)
    leftovers = list(inventory.leftovers())
    others = inventory.others()
    strangers = inventory.strangers()
    left = sum(one.size for one in leftovers)
    total = left + sum(one.size for one in sums.values()) + sum(one[2] for one in others)
    links = _links(inventory)
    output.result_json(
        {
            "version": 1,
            "action": "info",
            "folder": str(inventory.folder),
            "exists": inventory.folder.is_dir(),
            "layout": LAYOUT,
            "links": links,
            "size": total,
            "linked_size": sum(one.linked for one in sums.values()),
            "kinds": [
                {
                    "kind": kind,
                    "layout": layout,
                    "entries": one.entries,
                    "size": one.size,
                    "linked_size": one.linked,
                    "oldest": _stamp(one.oldest),
                    "newest": _stamp(one.newest),
                }
                for (kind, layout), one in sums.items()
            ],
            "others": [
                {"name": name, "files": files, "size": bytes_} for name, files, bytes_ in others
            ],
            "leftovers": {"entries": len(leftovers), "size": left},
            "unknown": strangers,
        }
    )
    output.result(
        f"folder: {inventory.folder}" + ("" if inventory.folder.is_dir() else " (none yet)")
    )
    rows = [
        (
            _WORDS[kind] + ("" if layout == LAYOUT else f" (layout {layout})"),
            str(one.entries),
            size_in_words(one.size),
            size_in_words(one.linked) if kind in _WHEELS else "",
            _day(one.newest),
        )
        for (kind, layout), one in sorted(
            sums.items(), key=lambda item: (KINDS.index(item[0][0]), item[0][1])
        )
    ]
    rows += [
        (_WORDS[name], str(files), size_in_words(bytes_), "", "") for name, files, bytes_ in others
    ]
    if leftovers:
        rows.append(("left by killed processes", str(len(leftovers)), size_in_words(left), "", ""))
    rows.append(("together", "", size_in_words(total), "", ""))
    for line in columns(("kept", "count", "size", "linked", "last used"), rows):
        output.result(line)
    if links is not None:
        output.result(f"environments on this file system are made by {_LINKS[links]}")
    if strangers:
        output.warn(f"not of wheelfit, and left alone: {', '.join(strangers)}")
    if any(layout != LAYOUT for _, layout in sums):
        output.say(
            "note: what other versions of wheelfit kept goes with wheelfit cache prune", "dim"
        )
    return 0


_LINKS = {
    "reflink": "copies that share their space (reflinks)",
    "hardlink": "hard links",
    "copy": "copies",
}


def _links(inventory: Inventory) -> str | None:
    """Return how the file system of the cache can give files a second place; None: unknown."""
    import tempfile
    from pathlib import Path

    from wheelfit.wheels.native_file_system import NATIVE

    try:
        with tempfile.TemporaryDirectory(
            prefix=".", suffix=".part", dir=inventory.folder
        ) as folder:
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


def show(inventory: Inventory, names: Sequence[str], output: Output) -> int:
    """List the wheels that are kept."""
    from wheelfit.cli.columns import columns

    wanted = {_parsed(name)[0] for name in names}
    wheels = [one for one in _wheels(inventory) if not wanted or _name(one) in wanted]
    output.result_json(
        {
            "version": 1,
            "action": "list",
            "folder": str(inventory.folder),
            "wheels": [one.to_mapping() for one in wheels],
        }
    )
    rows = [
        (
            one.which.name if one.which else f"? {one.sha256[:12]}",
            one.which.version if one.which else "",
            (one.which.label or "") if one.which else "",
            size_in_words(one.archive.size) if one.archive else "",
            size_in_words(one.tree.size) if one.tree else "",
            "yes" if one.tree is not None and one.tree.linked else "",
            _day(one.used),
        )
        for one in wheels
    ]
    head = ("Package", "Version", "Variant", "Packed", "Unpacked", "Linked", "Last used")
    for line in columns(head, rows):
        output.result(line)
    if not wheels:
        output.result("no wheels are kept" + (" of these names" if names else ""))
    return 0


@dataclass(slots=True)
class _Wheel:
    """Hold what is kept of one wheel."""

    sha256: str
    which: KeptName | None = None
    archive: Entry | None = None
    tree: Entry | None = None

    @property
    def entries(self) -> list[Entry]:
        return [one for one in (self.archive, self.tree) if one is not None]

    @property
    def used(self) -> float:
        return max(one.used for one in self.entries)

    def to_mapping(self) -> dict[str, object]:
        return {
            "name": self.which.name if self.which else None,
            "version": self.which.version if self.which else None,
            "label": self.which.label if self.which else None,
            "sha256": self.sha256,
            "packed_size": self.archive.size if self.archive else None,
            "unpacked_size": self.tree.size if self.tree else None,
            "files": self.tree.files if self.tree else None,
            "linked_size": sum(one.linked for one in self.entries),
            "last_used": _stamp(self.used),
        }


def _wheels(inventory: Inventory) -> list[_Wheel]:
    found: dict[str, _Wheel] = {}
    for entry in inventory.entries(_WHEELS):
        wheel = found.setdefault(entry.key, _Wheel(entry.key))
        if entry.kind == "unpacked":
            wheel.tree = entry
        else:
            wheel.archive = entry
    for wheel in found.values():
        wheel.which = inventory.label(wheel.tree or wheel.entries[0])
        if wheel.which is None and wheel.archive is not None:
            wheel.which = inventory.label(wheel.archive)
    return sorted(found.values(), key=lambda one: (one.which is None, str(one.which), one.sha256))


def _name(wheel: _Wheel) -> NormalizedName | None:
    return wheel.which.name if wheel.which is not None else None


def _parsed(text: str) -> tuple[NormalizedName, str | None]:
    """Return the name and the version that an argument says.

    :raises UserError: it says neither.
    """
    from packaging.utils import canonicalize_name

    name, sign, version = text.partition("==")
    if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", name) or (
        sign and not version
    ):
        raise UserError(f"{text!r} is no name of a package", hint="write NAME or NAME==VERSION")
    return canonicalize_name(name), version or None


# --- removing ------------------------------------------------------------------------


@dataclass(slots=True)
class _Gone:
    """Add up what goes, and remove it unless it is only a rehearsal."""

    inventory: Inventory
    dry_run: bool
    wheels: list[dict[str, object]] = field(default_factory=list)
    small: dict[tuple[str, str], _Sum] = field(default_factory=dict)
    in_use: list[dict[str, object]] = field(default_factory=list)
    freed: int = 0
    still_linked: int = 0

    def entry(self, entry: Entry, reason: str) -> bool:
        """Remove an entry; returns whether it is gone."""
        which = self.inventory.label(entry) if entry.kind in _WHEELS else None
        row: dict[str, object] = {
            "kind": entry.kind,
            "name": which.name if which else None,
            "version": which.version if which else None,
            "label": which.label if which else None,
            "sha256": entry.key,
            "size": entry.size,
            "last_used": _stamp(entry.used),
            "reason": reason,
        }
        if not self.dry_run and not self.inventory.remove(entry):
            self.in_use.append(row)
            return False
        if entry.kind in _WHEELS:
            self.wheels.append(row)
        else:
            self.small.setdefault((entry.kind, reason), _Sum()).add(entry)
        self.freed += entry.size - entry.linked
        self.still_linked += entry.linked
        return True

    def other(self, kind: str, reason: str, entries: int, freed: int) -> None:
        """Count what is no entry."""
        one = self.small.setdefault((kind, reason), _Sum())
        one.entries += entries
        one.size += freed
        self.freed += freed

    def to_mapping(self, action: str) -> dict[str, object]:
        return {
            "version": 1,
            "action": action,
            "folder": str(self.inventory.folder),
            "dry_run": self.dry_run,
            "removed": self.wheels,
            "others": [
                {"kind": kind, "reason": reason, "entries": one.entries, "size": one.size}
                for (kind, reason), one in self.small.items()
            ],
            "in_use": self.in_use,
            "freed_size": self.freed,
            "linked_size": self.still_linked,
        }

    def tell(self, output: Output) -> None:
        verb = "would remove" if self.dry_run else "removed"
        for row in self.wheels:
            output.result(f"{verb} {_called(row)}: {size_in_words(int(str(row['size'])))}")
        for (kind, reason), one in self.small.items():
            what = _WORDS.get(kind, kind)
            output.result(f"{verb} {one.entries} {what} ({reason}): {size_in_words(one.size)}")
        for row in self.in_use:
            output.say(f"note: {_called(row)} is in use and stays")
        if not self.wheels and not self.small:
            output.result("nothing to remove")
            return
        output.result(f"{size_in_words(self.freed)} {'would be ' if self.dry_run else ''}freed")
        if self.still_linked:
            output.say(
                f"note: {size_in_words(self.still_linked)} more belong to environments too, "
                "and stay with them",
                "dim",
            )


def _called(row: dict[str, object]) -> str:
    what = "unpacked" if row["kind"] == "unpacked" else "wheel file of"
    if row["name"] is None:
        return f"{what} {str(row['sha256'])[:12]}"
    return f"{what} {row['name']} {row['version']}" + (f" ({row['label']})" if row["label"] else "")


def remove(inventory: Inventory, arguments: Namespace, output: Output) -> int:
    """Remove the wheels of some packages, or everything."""
    gone = _Gone(inventory, arguments.dry_run)
    if arguments.all:
        for entry in list(inventory.entries()):
            gone.entry(entry, "asked for")
        _remove_layouts(inventory, gone)
        for name, files, bytes_ in inventory.others():
            gone.other(name, "asked for", files, bytes_)
            if not gone.dry_run:
                inventory.remove_other(name)
        _sweep(inventory, gone)
    else:
        for entry in _named(inventory, arguments.names):
            gone.entry(entry, "asked for")
    output.result_json(gone.to_mapping("remove"))
    gone.tell(output)
    return 0


def _is_same(one: str, other: str) -> bool:
    """Tell whether two texts say the same version, as 1.0 and 1.0.0 do (PEP 440)."""
    from packaging.version import InvalidVersion

    from wheelfit.core.versions import parse_version

    try:
        return parse_version(one) == parse_version(other)
    except InvalidVersion:
        return one == other


def _named(inventory: Inventory, names: Iterable[str]) -> list[Entry]:
    """Return the entries of some packages.

    :raises FileProblem: there is nothing of one of them; none shall go then.
    """
    wheels = _wheels(inventory)
    found: dict[str, _Wheel] = {}
    for text in names:
        name, version = _parsed(text)
        some = [
            one
            for one in wheels
            if one.which is not None
            and one.which.name == name
            and (version is None or _is_same(version, one.which.version))
        ]
        if not some:
            raise FileProblem(
                f"nothing of {text} is kept in the cache, so nothing was removed",
                where=str(inventory.folder),
                hint="wheelfit cache list shows what is kept",
            )
        found |= {one.sha256: one for one in some}
    return [entry for one in found.values() for entry in one.entries]


def prune(inventory: Inventory, arguments: Namespace, output: Output) -> int:
    """Remove leftovers, what other versions kept, what is old, and what is too much."""
    import time

    gone = _Gone(inventory, arguments.dry_run)
    _sweep(inventory, gone)
    _remove_layouts(inventory, gone)
    entries = sorted(inventory.entries(), key=lambda one: one.used)
    left = sum(one.size for one in entries)
    limit = float("-inf") if arguments.older_than is None else time.time() - arguments.older_than
    for entry in entries:
        reason = ""
        if entry.used < limit:
            reason = "old"
        elif arguments.max_size is not None and left > arguments.max_size:
            reason = "too much"
        if reason and gone.entry(entry, reason):
            left -= entry.size
    output.result_json({**gone.to_mapping("prune"), "left_size": left})
    gone.tell(output)
    if arguments.max_size is not None and left > arguments.max_size and gone.in_use:
        output.warn(f"{size_in_words(left)} are left, for the rest is in use")
    return 0


def _sweep(inventory: Inventory, gone: _Gone) -> None:
    for leftover in list(inventory.leftovers()):
        gone.other("leftovers", "left by killed processes", 1, leftover.size)
        if not gone.dry_run:
            inventory.sweep(leftover)


def _remove_layouts(inventory: Inventory, gone: _Gone) -> None:
    """Remove what other versions of wheelfit kept."""
    from wheelfit.sources.inventory import LAYOUT

    for kind, layout in inventory.layouts():
        if layout != LAYOUT:
            entries = [
                one for one in inventory.entries([kind], others=True) if one.layout == layout
            ]
            freed = sum(one.size - one.linked for one in entries)
            gone.other(kind, f"layout {layout}", len(entries), freed)
            if not gone.dry_run:
                inventory.remove_layout(kind, layout)


# --- reading again -------------------------------------------------------------------


def verify(inventory: Inventory, output: Output, *, keep: bool) -> int:
    """Read every entry again; returns the exit code."""
    import os
    from concurrent.futures import ThreadPoolExecutor

    from wheelfit.cli.progress import Bars

    entries = list(inventory.entries())
    damaged: list[tuple[Entry, str]] = []
    with Bars(output) as bars, ThreadPoolExecutor(os.cpu_count() or 1, "verify") as pool:
        transfer = bars.transfer(f"{len(entries)} entries", "read", is_sum=True)
        transfer.start(sum(one.size for one in entries))
        look = _looking(inventory, transfer.advance)
        try:
            for entry, reason in zip(entries, pool.map(look, entries), strict=True):
                if reason is not None:
                    damaged.append((entry, reason))
        except BaseException:
            bars.cancel()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        transfer.done()
    rows = []
    for entry, reason in damaged:
        which = inventory.label(entry) if entry.kind in _WHEELS else None
        removed = not keep and inventory.remove(entry)
        rows.append(
            {
                "kind": entry.kind,
                "name": which.name if which else None,
                "version": which.version if which else None,
                "label": which.label if which else None,
                "path": str(entry.path),
                "reason": reason,
                "removed": removed,
            }
        )
    output.result_json(
        {
            "version": 1,
            "action": "verify",
            "folder": str(inventory.folder),
            "entries": len(entries),
            "size": sum(one.size for one in entries),
            "damaged": rows,
        }
    )
    for row in rows:
        called = f"{row['name']} {row['version']}: " if row["name"] else ""
        end = "removed" if row["removed"] else "still there"
        output.result(f"damaged: {called}{row['path']}: {row['reason']} ({end})", "bad")
    if not rows:
        output.result(f"{len(entries)} entries are sound", "good")
    return _DAMAGED if rows else 0


def _looking(inventory: Inventory, advance: Callable[[int], None]) -> Callable[[Entry], str | None]:
    return lambda entry: inventory.damage(entry, advance=advance)


# --- words ---------------------------------------------------------------------------


def _stamp(when: float | None) -> str | None:
    """Return a time as programs read it (UTC, ISO 8601)."""
    import time

    return None if when is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when))


def _day(when: float | None) -> str:
    """Return the day of a time where the user is."""
    import time

    return "" if when is None else time.strftime("%Y-%m-%d", time.localtime(when))
