"""Texts, tables and sizes for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from wheelfit.core.sizes import size_in_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.resolution.resolution import Pin
    from wheelfit.sources.repository import Files, FileSize

    Name = TypeVar("Name", bound=str)


def columns(
    head: Sequence[str], rows: Iterable[Sequence[str]], width: int | None = None
) -> list[str]:
    """Return the lines of a table; none when there are no rows.

    :param rows: cells without line breaks; a column without any text is left out.
    :param width: columns of the terminal. The last column of a wider table is broken into several
        lines, or if there is too little room for that, what does not fit is below its row. None
        breaks nothing.

    >>> columns(("Name", "Empty", "Size"), [("a", "", "10"), ("bcdef", "", "2")])
    ['Name   Size', '-----  ----', 'a      10', 'bcdef  2']
    >>> columns(("Name", "Why"), [("a", "it fits this machine best of all")], width=26)
    ['Name  Why', '----  --------------------', 'a     it fits this machine', '      best of all']
    >>> columns(("Name", "Size", "Why"), [("a", "2 MB", "new, and it fits best")], width=24)
    ['Name  Size  Why', '----  ----  ---', 'a     2 MB', '  new, and it fits best']
    """
    rows = list(rows)
    filled = [number for number in range(len(head)) if any(row[number] for row in rows)]
    if not filled:
        return []
    widths = {number: max(len(row[number]) for row in (head, *rows)) for number in filled}
    *before, last = filled
    room = 0 if width is None else width - sum(widths[number] + 2 for number in before)
    if width is not None and widths[last] > room:
        if before and room < max(_MIN_LAST_WIDTH, *(_longest_word(row[last]) for row in rows)):
            return list(_with_rest_below(head, rows, widths, width))
        rows = [line for row in rows for line in _wrapped(row, last, room)]
        widths[last] = max(len(row[last]) for row in (head, *rows))
    return list(_padded(head, rows, widths))


_MIN_LAST_WIDTH = 20
"""Columns that remain of the last one in a narrow terminal."""


def _padded(
    head: Sequence[str], rows: Iterable[Sequence[str]], widths: Mapping[int, int]
) -> Iterator[str]:
    """Yield the lines of a table, each with its cells below each other."""
    rule = ["-" * widths.get(number, 0) for number in range(len(head))]
    for row in (head, rule, *rows):
        yield "  ".join(f"{row[number]:<{width}}" for number, width in widths.items()).rstrip()


def _with_rest_below(
    head: Sequence[str], rows: Sequence[Sequence[str]], widths: Mapping[int, int], width: int
) -> Iterator[str]:
    """Yield the lines of a table, with the cells that do not fit on lines below their row.

    Such a cell follows the name of its column, but those of the last column need none.

    :param widths: columns of each column that has any text, in order.
    """
    from textwrap import wrap

    *before, last = widths
    while len(before) > 1 and sum(widths[number] + 2 for number in before) - 2 > width:
        before.pop()
    room = width - sum(widths[number] + 2 for number in before)
    if len(before) < len(widths) - 1:
        room = 0
    first_lines = [_without_wide_cell(row, last, room) for row in (head, *rows)]
    shown = {number: widths[number] for number in before}
    shown[last] = max(len(row[last]) for row in first_lines)
    title, rule, *starts = _padded(first_lines[0], first_lines[1:], shown)
    yield from (title, rule)
    for start, row, cells in zip(starts, rows, first_lines[1:], strict=True):
        yield start
        rest = [
            row[number] if number == last else f"{head[number].lower()} {row[number]}"
            for number in widths
            if number not in before and row[number] and not (number == last and cells[last])
        ]
        yield from wrap(
            ", ".join(rest),
            width,
            initial_indent="  ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )


def _without_wide_cell(row: Sequence[str], last: int, room: int) -> Sequence[str]:
    """Return a row without its last cell if that is wider than the room."""
    return row if len(row[last]) <= room else [*row[:last], "", *row[last + 1 :]]


def _longest_word(text: str) -> int:
    return max(map(len, text.split()), default=0)


def _wrapped(row: Sequence[str], last: int, width: int) -> Iterator[Sequence[str]]:
    """Yield the lines of a row whose cell of one column is broken."""
    if len(row[last]) <= width:
        yield row
        return
    from textwrap import wrap

    parts = wrap(row[last], width, break_long_words=False, break_on_hyphens=False)
    for number, part in enumerate(parts):
        cells = list(row) if not number else [""] * len(row)
        cells[last] = part
        yield cells


def in_one_line(text: str) -> str:
    """Return text from outside with escaped control characters, which could forge lines."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


_MAX_REQUESTS = 8
"""Simultaneous requests for sizes, which are small."""


def sizes_of(
    pins: Sequence[Pin], files: Files, *, unpacked: bool
) -> Mapping[NormalizedName, FileSize]:
    """Return the sizes of the wheels of a plan, without fetching whole files.

    :param unpacked: whether sizes on disk are read as well.
    """
    if not pins:
        return {}
    from wheelfit.sources.concurrency import map_concurrently

    sizes = map_concurrently(
        pins, lambda pin: files.size(pin.file, unpacked=unpacked), most=_MAX_REQUESTS
    )
    return {pin.name: size for pin, size in zip(pins, sizes, strict=True)}


def plan_with_sizes(
    plan: Mapping[str, object], sizes: Mapping[NormalizedName, FileSize], *, dry_run: bool
) -> dict[str, object]:
    """Return a plan as plain data with the sizes of its wheels, and their sums.

    :param plan: as `wheelfit.installation.plan.Plan.to_mapping` returns it.
    :param dry_run: whether it was a dry run; only then sizes are added.
    """
    if not dry_run:
        return dict(plan)
    rows = cast("list[dict[str, object]]", plan["install"])
    return {
        **plan,
        "install": [
            {**row, **_to_mapping(sizes[cast("NormalizedName", row["name"])])} for row in rows
        ],
        "download_size": sum(size.download or 0 for size in sizes.values()),
        "installed_size": sum(size.unpacked or 0 for size in sizes.values()),
        "unknown_sizes": sorted(
            name for name, size in sizes.items() if size.download is None or size.unpacked is None
        ),
    }


def _to_mapping(size: FileSize) -> dict[str, object]:
    return {
        "download_size": size.download,
        "installed_size": size.unpacked,
        "cached": size.is_on_disk,
    }


def largest_first(sizes: Mapping[str, FileSize]) -> list[str]:
    """Return a line for each file to download, largest first.

    :param sizes: by names for messages.
    """
    return [
        f"{name}: {size_words(sizes[name].file)}"
        for name in by_size(sizes)
        if not sizes[name].is_on_disk
    ]


def unknown_sizes(sizes: Mapping[NormalizedName, FileSize]) -> list[str]:
    """Return one sentence on unknown sizes for each reason."""
    names_by_sentence: dict[tuple[str, str], list[str]] = {}
    for name, size in sizes.items():
        if size.why_unknown:
            which = "" if size.file is None else " on disk"
            names_by_sentence.setdefault((which, size.why_unknown), []).append(name)
    return [
        f"the size of {', '.join(names)}{which} is not known: {why}"
        for (which, why), names in names_by_sentence.items()
    ]


def by_size(sizes: Mapping[Name, FileSize]) -> list[Name]:
    """Return names, the largest download first."""
    return sorted(sizes, key=lambda name: (-(sizes[name].download or 0), name))


def size_words(size: int | None) -> str:
    """Return a size in words."""
    return "unknown" if size is None else size_in_words(size)
