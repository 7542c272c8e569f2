"""The ``.dist-info`` and ``.data`` folders of a wheel, and the headers of METADATA and WHEEL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from wheelfit.core.versions import version_of
from wheelfit_runtime.errors import InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wheelfit.core.filename import WheelFilename


_SUFFIX = ".dist-info"
MAX_METADATA_SIZE = 16 << 20
"""Bytes of METADATA, at most: a small archive may unpack to a thousand times its size, which takes
long to parse."""
_MAX_SIZES = {
    "METADATA": MAX_METADATA_SIZE,
    "WHEEL": 1 << 20,
    "entry_points.txt": 1 << 20,
    "abi-exports.json": 1 << 20,
}


def check_text_size(name: str, size: int, dist_info: str, *, where: str) -> None:
    """Check the size of a member, which is limited for the files of dist-info that are parsed.

    :param size: bytes of the member.
    :raises InvalidWheel: it is too large.
    """
    folder, _, rest = name.partition("/")
    limit = _MAX_SIZES.get(rest)
    if limit is not None and size > limit and folder == dist_info:
        raise InvalidWheel(f"{name!r} has {size} bytes, more than {limit}", where=where)


def dist_info_folder(names: Iterable[str], filename: WheelFilename, *, where: str) -> str | None:
    """Return the name of the dist-info folder; None if there is none.

    :param filename: the file name, with the same name and version in any spelling (F-27).
    :raises InvalidWheel: there are several, or the folder is that of another release.
    """
    top_names = {name.partition("/")[0] for name in names if "/" in name}
    # `importlib.metadata` accepts the suffix in any case.
    folders = sorted(folder for folder in top_names if folder.lower().endswith(_SUFFIX))
    if not folders:
        return None
    if len(folders) > 1:
        raise InvalidWheel(
            f"the wheel has several .dist-info folders: {', '.join(folders)}", where=where
        )
    folder = folders[0]
    if not _is_named_like(folder, filename):
        raise InvalidWheel(
            f"its folder {folder!r} does not match the name and version of the file", where=where
        )
    return folder


def _is_named_like(folder: str, filename: WheelFilename) -> bool:
    """Return whether a dist-info folder has the name and version of a wheel."""
    if not folder.endswith(_SUFFIX):
        return False  # the suffix is in another case
    name, _, version = folder.removesuffix(_SUFFIX).rpartition("-")
    return version_of(version) == filename.version and canonicalize_name(name) == filename.name


DATA_FOLDERS = frozenset({"purelib", "platlib", "headers", "scripts", "data"})
"""The folders that the ``.data`` folder of a wheel may contain."""


def data_folder(names: Iterable[str], dist_info: str) -> str:
    """Return the name of the ``.data`` folder of a wheel, whether or not the wheel has one."""
    stem = dist_info.removesuffix(_SUFFIX)
    name, _, version = stem.rpartition("-")
    for folder in sorted({path.partition("/")[0] for path in names if ".data/" in path}):
        if not folder.endswith(".data"):
            continue
        other_name, _, other_version = folder.removesuffix(".data").rpartition("-")
        if canonicalize_name(other_name) == canonicalize_name(name) and other_version == version:
            return folder
    return f"{stem}.data"


def header_value(text: bytes, name: str) -> str | None:
    """Return the value of the first header with a name; None if there is none.

    >>> header_value(b"Tag: py3-none-any", "tag")
    'py3-none-any'

    :param text: content of METADATA or WHEEL.
    :return: the first line of the value.
    """
    return next(header_values(text, name), None)


def header_values(text: bytes, name: str) -> Iterator[str]:
    r"""Yield the values of all headers with a name, each by its first line.

    >>> list(header_values(b"Tag: py2-none-any\nTag: py3-none-any", "tag"))
    ['py2-none-any', 'py3-none-any']
    """
    lower_name = name.lower().encode("ascii")
    for line in text.splitlines():
        if not line:
            return  # the body follows
        if line[:1] in b" \t":
            continue  # a further line of a value, as of a licence
        key, colon, value = line.partition(b":")
        if colon and key.strip().lower() == lower_name:
            yield value.strip().decode("utf-8", "replace")
