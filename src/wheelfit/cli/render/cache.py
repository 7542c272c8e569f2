"""Reports about the cache, as text."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from wheelfit.core.sizes import size_in_words
from wheelfit.operations.cache_reports import WHEEL_KINDS
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from wheelfit.cli.output import Output
    from wheelfit.operations.cache_reports import (
        CacheContents,
        CachedWheels,
        CacheRemoval,
        CacheVerification,
        RemovedEntry,
    )

_KIND_NAMES = {
    "wheels": "wheel files",
    "unpacked": "unpacked wheels",
    "pages": "index pages",
    "parsed": "parsed index pages",
    "files": "metadata files",
    "members": "parts of wheels",
    "built": "built wheels",
    "locks": "inputs of locks",
    "interpreters": "facts about interpreters",
    "hashes": "computed hashes of files",
    "builds": "records of finished builds",
    "plugins": "environments of plugins",
    "probes": "results of driver queries",
}
"""The kinds of entries, in the order in which they are shown."""
_LINKS = {
    "reflink": "copies that share their space (reflinks)",
    "hardlink": "hard links",
    "copy": "copies",
}

DAMAGED = 4
"""The exit code for corrupt files."""


def show_contents(report: CacheContents, output: Output) -> None:
    """Print the entries and bytes of the cache by kind."""
    output.result(f"folder: {report.folder}" + ("" if report.exists else " (none yet)"))
    order = list(_KIND_NAMES)
    kinds = sorted(report.kinds.items(), key=lambda item: order.index(item[0]))
    rows = [
        (
            _KIND_NAMES[kind],
            str(usage.entries),
            size_in_words(usage.size),
            size_in_words(usage.linked) if kind in WHEEL_KINDS else "",
            _day(usage.newest),
        )
        for kind, usage in kinds
    ]
    rows += [
        (_KIND_NAMES[name], str(files), size_in_words(size), "", "")
        for name, files, size in report.others
    ]
    if report.leftovers:
        leftover_cells = (str(len(report.leftovers)), size_in_words(sum(report.leftovers)))
        rows.append(("left by killed processes", *leftover_cells, "", ""))
    rows.append(("total", "", size_in_words(report.size), "", ""))
    output.table(("kind", "count", "size", "linked", "last used"), rows)
    if report.links is not None:
        output.result(f"environments on this file system are installed as {_LINKS[report.links]}")


def show_wheels(report: CachedWheels, output: Output, *, of_names: bool) -> None:
    """Print the wheels in the cache.

    :param of_names: whether the request named packages.
    """
    rows = [
        (
            wheel.release.name if wheel.release else f"? {wheel.sha256[:12]}",
            wheel.release.version if wheel.release else "",
            (wheel.release.label or "") if wheel.release else "",
            size_in_words(wheel.archive.size) if wheel.archive else "",
            size_in_words(wheel.tree.size) if wheel.tree else "",
            "yes" if wheel.tree is not None and wheel.tree.linked else "",
            _day(wheel.used),
        )
        for wheel in report.wheels
    ]
    head = ("Package", "Version", "Variant", "Packed", "Unpacked", "Linked", "Last used")
    output.table(head, rows)
    if not report.wheels:
        output.result("the cache has no wheels" + (" of these packages" if of_names else ""))


def show_removal(report: CacheRemoval, output: Output) -> None:
    """Print the entries that were removed, or would be."""
    verb = "would remove" if report.dry_run else "removed"
    for row in report.wheels:
        output.report(f"{verb} {_entry_in_words(row)}: {size_in_words(row.entry.size)}")
    for (kind, reason), (entries, size) in report.others.items():
        what = _KIND_NAMES.get(kind, kind)
        output.report(f"{verb} {what} ({reason}): {entries}, {size_in_words(size)}")
    for row in report.in_use:
        output.remark(f"note: {_entry_in_words(row)} is in use and stays")
    if not report.wheels and not report.others:
        output.report("nothing to remove")
    else:
        conditional = "would be " if report.dry_run else ""
        output.report(f"{size_in_words(report.freed)} {conditional}freed")
        if report.still_linked:
            output.note(
                f"note: {size_in_words(report.still_linked)} more are hard links of environments, "
                "and stay there"
            )
    left, limit = report.left, report.limit
    if left is not None and limit is not None and left > limit and report.in_use:
        output.warn(f"{size_in_words(left)} remain, more than the limit, because they are in use")


def show_verification(report: CacheVerification, output: Output) -> int:
    """Print the damaged entries, and return the exit code."""
    for row in report.damaged:
        package = f"{row.release.name} {row.release.version}: " if row.release else ""
        end = "removed" if row.is_removed else "still there"
        output.result(f"damaged: {package}{row.entry.path}: {row.reason} ({end})", "bad")
    if not report.damaged:
        output.result(f"{count_of(report.entries, 'entry', 'entries')}, none damaged", "good")
    return DAMAGED if report.damaged else 0


def _entry_in_words(row: RemovedEntry) -> str:
    what = "unpacked" if row.entry.kind == "unpacked" else "wheel file of"
    return f"{what} {row.release or row.entry.key[:12]}"


def _day(when: float | None) -> str:
    """Return the local date of a time."""
    return "" if when is None else time.strftime("%Y-%m-%d", time.localtime(when))
