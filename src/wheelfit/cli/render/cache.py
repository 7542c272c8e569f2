"""Reports about the cache, as text."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from wheelfit.core.sizes import size_in_words
from wheelfit.operations.cache_reports import WHEELS

if TYPE_CHECKING:
    from wheelfit.cli.output import Output
    from wheelfit.operations.cache_reports import (
        CacheContents,
        CacheRemoval,
        CacheVerification,
        KeptWheels,
        RemovedEntry,
    )

_WORDS = {
    "wheels": "wheel files",
    "unpacked": "unpacked wheels",
    "pages": "index pages",
    "parsed": "parsed index pages",
    "files": "metadata files",
    "members": "parts of wheels",
    "built": "what was built",
    "locks": "what locks depend on",
    "interpreters": "answers of interpreters",
    "hashes": "hashes of files whose index gives none",
    "plugins": "environments of plugins",
    "probes": "answers of drivers",
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
    output.result_json(report.to_json())
    output.result(f"folder: {report.folder}" + ("" if report.exists else " (none yet)"))
    order = list(_WORDS)
    kinds = sorted(report.kinds.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
    rows = [
        (
            _WORDS[kind] + ("" if layout == report.layout else f" (layout {layout})"),
            str(one.entries),
            size_in_words(one.size),
            size_in_words(one.linked) if kind in WHEELS else "",
            _day(one.newest),
        )
        for (kind, layout), one in kinds
    ]
    rows += [
        (_WORDS[name], str(files), size_in_words(size), "", "")
        for name, files, size in report.others
    ]
    if report.leftovers:
        left = (str(len(report.leftovers)), size_in_words(sum(report.leftovers)))
        rows.append(("left by killed processes", *left, "", ""))
    rows.append(("together", "", size_in_words(report.size), "", ""))
    output.table(("kept", "count", "size", "linked", "last used"), rows)
    if report.links is not None:
        output.result(f"environments on this file system are made by {_LINKS[report.links]}")
    if report.unknown:
        output.warn(f"not of wheelfit, and left alone: {', '.join(report.unknown)}")
    if any(layout != report.layout for _, layout in report.kinds):
        output.note("note: `wheelfit cache prune` removes entries of other versions of wheelfit")


def show_wheels(report: KeptWheels, output: Output, *, of_names: bool) -> None:
    """Print the wheels that are kept.

    :param of_names: whether only those of some packages were wanted.
    """
    output.result_json(report.to_json())
    rows = [
        (
            wheel.which.name if wheel.which else f"? {wheel.sha256[:12]}",
            wheel.which.version if wheel.which else "",
            (wheel.which.label or "") if wheel.which else "",
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
        output.result("no wheels are kept" + (" of these names" if of_names else ""))


def show_removal(report: CacheRemoval, output: Output) -> None:
    """Print the entries that were removed, or would be."""
    output.result_json(report.to_json())
    verb = "would remove" if report.dry_run else "removed"
    for row in report.wheels:
        output.report(f"{verb} {_called(row)}: {size_in_words(row.entry.size)}")
    for (kind, reason), (entries, size) in report.others.items():
        what = _WORDS.get(kind, kind)
        output.report(f"{verb} {entries} {what} ({reason}): {size_in_words(size)}")
    for row in report.in_use:
        output.say(f"note: {_called(row)} is in use and stays")
    if not report.wheels and not report.others:
        output.report("nothing to remove")
    else:
        conditional = "would be " if report.dry_run else ""
        output.report(f"{size_in_words(report.freed)} {conditional}freed")
        if report.still_linked:
            output.note(
                f"note: {size_in_words(report.still_linked)} more belong to environments too, "
                "and stay with them"
            )
    left, limit = report.left, report.limit
    if left is not None and limit is not None and left > limit and report.in_use:
        output.warn(f"{size_in_words(left)} are left, for the rest is in use")


def show_verification(report: CacheVerification, output: Output) -> int:
    """Print the damaged entries; 4 if there are any."""
    output.result_json(report.to_json())
    for row in report.damaged:
        called = f"{row.which.name} {row.which.version}: " if row.which else ""
        end = "removed" if row.is_removed else "still there"
        output.result(f"damaged: {called}{row.entry.path}: {row.reason} ({end})", "bad")
    if not report.damaged:
        output.result(f"{report.entries} entries are sound", "good")
    return DAMAGED if report.damaged else 0


def _called(row: RemovedEntry) -> str:
    what = "unpacked" if row.entry.kind == "unpacked" else "wheel file of"
    return f"{what} {row.which or row.entry.key[:12]}"


def _day(when: float | None) -> str:
    """Return the day of a time where the user is."""
    return "" if when is None else time.strftime("%Y-%m-%d", time.localtime(when))
