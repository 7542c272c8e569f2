"""Sizes of what would be installed, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.core.sizes import size_in_words
from wheelfit.operations.sizes import by_size, size_words
from wheelfit.operations.text import columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packaging.utils import NormalizedName

    from wheelfit.resolution.resolution import Pin
    from wheelfit.sources.size import FileSize


def size_table(pins: Sequence[Pin], sizes: Mapping[NormalizedName, FileSize]) -> list[str]:
    """Return the lines of a table: every package, the largest download first, and the sums.

    :param pins: what would be installed.
    :param sizes: of each.
    """
    by_name = {pin.name: pin for pin in pins}
    rows = [
        (
            str(by_name[name]),
            _download(by_name[name], sizes[name]),
            size_words(sizes[name].unpacked),
        )
        for name in by_size(sizes)
    ]
    known = sizes.values()
    download = size_in_words(sum(one.download or 0 for one in known))
    disk = size_in_words(sum(one.unpacked or 0 for one in known))
    more = [
        " or more" if any(value is None for value in values) else ""
        for values in ([one.download for one in known], [one.unpacked for one in known])
    ]
    total = ("together", download + more[0], disk + more[1])
    return columns(("package", "download", "on disk"), [*rows, total] if len(rows) > 1 else rows)


def _download(pin: Pin, size: FileSize) -> str:
    if size.is_here:
        return "local" if pin.file.is_local else "cached"
    return size_words(size.file)
