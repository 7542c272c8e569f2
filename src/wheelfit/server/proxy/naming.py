"""How a variant is called for those who know no labels: the label becomes a build tag.

An installer takes the highest build tag among wheels of equal tags, so the variant goes before
the plain wheel, which has none; and caches that go by file name tell variants apart. A plain
name would let uv install, after a change of the driver, what it cached before it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.errors import InvalidFilename

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wheelfit.core.filename import WheelFilename
    from wheelfit.sources.page import File


_LONGEST = 255


def highest_build(filenames: Iterable[WheelFilename]) -> int:
    """Return the number that build tags of variants begin with, so that none is beaten."""
    return max((int(one.build[0]) for one in filenames if one.build), default=0)


def proxied_name(filename: WheelFilename, number: int) -> str | None:
    """Return the name under which a variant is listed; None if none would be legal.

    >>> wheel = parse_wheel_filename("torch-2.8.0-cp313-cp313-linux_x86_64-cu12.9.whl")
    >>> proxied_name(wheel, 0)
    'torch-2.8.0-0_cu12.9-cp313-cp313-linux_x86_64.whl'
    """
    name, version, *rest = filename.plain.removesuffix(".whl").split("-")
    tags = "-".join(rest[-3:])
    text = f"{name}-{version}-{number}_{filename.label}-{tags}.whl"
    if len(text) > _LONGEST:
        return None
    try:
        parse_wheel_filename(text)
    except InvalidFilename:
        return None
    return text


def original_of(files: Iterable[File], name: str) -> File | None:
    """Return the file of an index that is listed under a name here.

    :param name: from a stranger.
    """
    number = name.split("-")[2].partition("_")[0] if name.count("-") == 5 else ""
    for file in files:
        if file.filename == name:
            return file
        if not (number.isascii() and number.isdecimal() and len(number) < 10):
            continue
        if not file.filename.endswith(".whl"):
            continue
        try:
            filename = parse_wheel_filename(file.filename)
        except InvalidFilename:
            continue
        if filename.is_variant and proxied_name(filename, int(number)) == name:
            return file
    return None


def fingerprint(file: File) -> str:
    """Return what stands in a URL for the bytes of a file of an index."""
    known = file.hashes.get("sha256") or f"{file.url}\n{file.filename}"
    return hashlib.sha256(known.encode()).hexdigest()[:16]
