"""Bridge files of families that are newer than this program, as ``bridges update`` stores them.

They come as a wheel of the distribution ``wheelfit-families``, which has no code. They are stored
in one file, so that an update is always complete.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import msgspec
from packaging.utils import canonicalize_name

from wheelfit.core.bridge_file import MAX_SIZE, newer_format, parse_family
from wheelfit.core.core_metadata import read_metadata
from wheelfit.errors import reporting_os_errors
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.atomic_write import write_file
from wheelfit_runtime.errors import FileProblem, InvalidWheel
from wheelfit_runtime.platforms.cache_folder import is_own, make_folders, unsafe_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wheelfit.core.filename import WheelFilename

DISTRIBUTION = canonicalize_name("wheelfit-families")
"""The name of the distribution whose wheels have the files."""
LARGEST_WHEEL = 4 << 20
"""Bytes of the largest wheel; the first one had 50 kB."""
REMOVE_HINT = "`wheelfit bridges update --remove` restores the families that wheelfit ships"
_MAX_CONTENT_SIZE = 16 << 20
_VERSION = re.compile(r"\d{1,6}(\.\d{1,6}){2,3}")
_FILE = re.compile(r"wheelfit_families/(indexes/)?([a-z0-9]+(?:-[a-z0-9]+)*)\.toml")
_DIST_INFO_FILE = re.compile(r"METADATA|WHEEL|RECORD|licenses/[A-Za-z0-9.-]+")
"""Files of the dist-info folder that no installer acts on."""


class FamilyUpdate(msgspec.Struct, frozen=True):
    """An update of the files of families."""

    version: str
    """The version of the distribution, a date such as ``2026.11.29``."""
    sha256: str
    """Of the wheel."""
    source: str
    """The index that the wheel is from, without credentials."""
    signers: tuple[str, ...]
    """The signer of the wheel, as ``github:owner/repository``; empty: not known to be signed."""
    files: dict[str, str]
    """The content of each file by the name of its family."""
    left_out: dict[str, str] = {}
    """The reasons that families of it cannot be read here, by name."""


def release_of(version: str) -> tuple[int, ...]:
    """Return the sort key of a version of the distribution; empty: it is not valid."""
    return tuple(map(int, version.split("."))) if _VERSION.fullmatch(version) else ()


def read_update(path: Path) -> FamilyUpdate | None:
    """Return the stored update; None if there is none, or its folder cannot be read.

    :raises FileProblem: it is damaged, or another user could have written it.
    """
    try:
        with path.open("rb") as file:
            reason = _why_unusable(path)
            data = file.read()
    except OSError:
        return None
    if not reason:
        try:
            return msgspec.json.decode(data, type=FamilyUpdate)
        except (msgspec.DecodeError, RecursionError):
            reason = "it is damaged"
    raise FileProblem(
        f"the update of the families cannot be used: {reason}", where=str(path), hint=REMOVE_HINT
    )


def write_update(path: Path, update: FamilyUpdate) -> None:
    """Write an update, in place of an earlier one.

    :raises FileProblem: it cannot be written.
    """
    with reporting_os_errors("the file cannot be written", where=str(path)):
        make_folders(str(path.parent))
        write_file(path, msgspec.json.encode(update), private=True)


def _why_unusable(path: Path) -> str:
    """Return the reason to ignore a stored update; empty: there is none."""
    unsafe = unsafe_folder(str(path.parent), link_allowed=True)
    if unsafe is not None:
        return f"its folder is unsafe: {unsafe.reason}"
    return "" if is_own(path.stat()) else "it belongs to another user"


def read_families(data: bytes, filename: WheelFilename) -> tuple[dict[str, str], dict[str, str]]:
    """Return the files of families in a wheel, and the reasons against others, by name.

    Nothing is installed. Other files in the wheel are refused, for they could be code.

    :raises InvalidWheel: it is not sound, or not a wheel of families only.
    :raises InvalidDocument: ``invalid-bridge``; a file breaks its rules.
    """
    files: dict[str, str] = {}
    left_out: dict[str, str] = {}
    with WheelArchive(io.BytesIO(data), filename) as archive:
        _check_contents(archive)
        archive.verify()
        for is_of_indexes, name, content in _contents(archive):
            where = f"{name}.toml in {filename.text}"
            if name in files or name in left_out:
                raise InvalidWheel(f"it has the family {name} twice", where=filename.text)
            written = newer_format(content)
            if written is not None:
                left_out[name] = f"its format is {written}, for a newer wheelfit than this one"
                continue
            family = parse_family(content, where=where)
            if family.name != name or family.is_of_indexes != is_of_indexes:
                raise InvalidWheel(f"{name}.toml is of another family", where=filename.text)
            files[name] = content.decode()
    if not files:
        raise InvalidWheel("no family in the wheel can be read", where=filename.text)
    return files, left_out


def _check_contents(archive: WheelArchive) -> None:
    """Check that there is nothing but files of families.

    :raises InvalidWheel: there is something else, or something that is too large.
    """
    where = archive.where
    if sum(member.size for member in archive.members) > _MAX_CONTENT_SIZE:
        raise InvalidWheel("the wheel is too large for files of families", where=where)
    for member in archive.members:
        name = member.name.removeprefix(f"{archive.dist_info}/")
        is_in_dist_info = name != member.name and _DIST_INFO_FILE.fullmatch(name)
        if not (member.is_folder or is_in_dist_info or _FILE.fullmatch(member.name)):
            raise InvalidWheel(
                f"the wheel contains {member.name[:100]!r}, but may contain families only",
                where=where,
            )
        if member.size > MAX_SIZE:
            raise InvalidWheel(f"{member.name} has {member.size} bytes", where=where)
    if read_metadata(archive.metadata(), where).requires_texts:
        raise InvalidWheel(
            "the wheel requires packages, but may contain families only", where=where
        )


def _contents(archive: WheelArchive) -> Iterator[tuple[bool, str, bytes]]:
    """Yield for each family: whether its members are indexes, its name, and its file."""
    for name in archive.names():
        match = _FILE.fullmatch(name)
        if match is not None:
            yield match[1] is not None, match[2], archive.read(name)
