"""The dist-info folder of a wheel: which one it is, the headers of its files, and its twin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from wheelfit.core.versions import parse_version
from wheelfit_runtime.errors import InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wheelfit.core.filename import WheelFilename


_SUFFIX = ".dist-info"
MOST_METADATA = 16 << 20
"""Bytes of METADATA that are read: a small archive may unpack to a thousand times its size, and to
understand that takes long."""
_LARGEST = {
    "METADATA": MOST_METADATA,
    "WHEEL": 1 << 20,
    "entry_points.txt": 1 << 20,
    "abi-exports.json": 1 << 20,
}


def check_text_size(name: str, size: int, dist_info: str, *, where: str) -> None:
    """Refuse a file of dist-info that is too large to be understood.

    :raises InvalidWheel: it is.
    """
    folder, _, rest = name.partition("/")
    largest = _LARGEST.get(rest)
    if largest is not None and size > largest and folder == dist_info:
        raise InvalidWheel(f"{name!r} has {size} bytes, more than {largest}", where=where)


def dist_info_folder(names: Iterable[str], filename: WheelFilename, *, where: str) -> str | None:
    """Find the dist-info folder among the names of members.

    :param filename: the file name, with the same name and version in any spelling (F-27).
    :return: the folder without a slash, None if there is none.
    :raises InvalidWheel: there are several, or the folder is that of another release.
    """
    tops = {name.partition("/")[0] for name in names if "/" in name}
    # Python finds what is installed by this ending in any case.
    folders = sorted(folder for folder in tops if folder.lower().endswith(_SUFFIX))
    if not folders:
        return None
    if len(folders) > 1:
        raise InvalidWheel(
            f"the wheel has several .dist-info folders: {', '.join(folders)}", where=where
        )
    name, dash, version = folders[0].removesuffix(_SUFFIX).rpartition("-")
    fits = bool(dash) and canonicalize_name(name) == filename.name
    fits = fits and folders[0].endswith(_SUFFIX)
    try:
        fits = fits and parse_version(version) == filename.version
    except InvalidVersion:
        fits = False
    if not fits:
        raise InvalidWheel(
            f"its folder {folders[0]!r} does not fit the name and version of the file", where=where
        )
    return folders[0]


DATA_FOLDERS = frozenset({"purelib", "platlib", "headers", "scripts", "data"})
"""What may stand in the ``.data`` folder of a wheel: the places of an environment."""


def data_folder(names: Iterable[str], dist_info: str) -> str:
    """Return the ``.data`` folder that goes with a dist-info folder, there or not."""
    stem = dist_info.removesuffix(_SUFFIX)
    name, _, version = stem.rpartition("-")
    for folder in sorted({name.partition("/")[0] for name in names if ".data/" in name}):
        if not folder.endswith(".data"):
            continue
        other_name, _, other_version = folder.removesuffix(".data").rpartition("-")
        if canonicalize_name(other_name) == canonicalize_name(name) and other_version == version:
            return folder
    return f"{stem}.data"


def header_value(text: bytes, name: str) -> str | None:
    """Return the first header of a METADATA or WHEEL file that has this name.

    >>> header_value(b"Tag: py3-none-any", "tag")
    'py3-none-any'

    :return: its first line; None if there is none.
    """
    return next(header_values(text, name), None)


def header_values(text: bytes, name: str) -> Iterator[str]:
    r"""Yield the headers of a METADATA or WHEEL file that have this name, each by its first line.

    >>> list(header_values(b"Tag: py2-none-any\nTag: py3-none-any", "tag"))
    ['py2-none-any', 'py3-none-any']
    """
    wanted = name.lower().encode("ascii")
    for line in text.splitlines():
        if not line:
            return  # the body follows
        if line[:1] in b" \t":
            continue  # a licence of many lines goes on, blank ones of it too
        key, colon, value = line.partition(b":")
        if colon and key.strip().lower() == wanted:
            yield value.strip().decode("utf-8", "replace")
