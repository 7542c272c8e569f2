"""A wheel about which everything is known and checked that can be without unpacking it.

`check_wheel` reads the small files of an archive and decides where each member will go.
Contents are compared with RECORD later, while they are unpacked into the stage
(`wheelfit.install.source`), so that a wheel of gigabytes is read once.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from wheelfit.core.core_metadata import read_metadata, without_variant_markers
from wheelfit.core.index_metadata import read_wheel_document
from wheelfit.errors import InvalidRequirement, InvalidWheel, MetadataDisagreement
from wheelfit.install.choice import CHOICE_FILE, Choice, Circumstances, format_choice
from wheelfit.wheels.archive import SIGNATURES
from wheelfit.wheels.dist_info import DATA_FOLDERS, data_folder, header_value
from wheelfit.wheels.entry_points import Command, parse_commands
from wheelfit.wheels.record import DIGEST_SIZES, RecordRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from wheelfit.core.core_metadata import CoreMetadata
    from wheelfit.resolve.resolution import Pin
    from wheelfit.wheels.archive import WheelArchive

__all__ = ["INSTALLER", "CheckedWheel", "Part", "check_wheel"]


def __dir__() -> list[str]:
    return __all__


INSTALLER = "wheelfit"
"""What is written to INSTALLER (PEP 376)."""

_OURS = frozenset({"INSTALLER", "REQUESTED", "direct_url.json", CHOICE_FILE})
_STARTUP = ("sitecustomize.py", "usercustomize.py")
# Wrappers of entry points that old build tools put into wheels as well.
_WRAPPERS = ("", ".exe", "-script.py", "-script.pyw")


@dataclass(frozen=True, slots=True)
class Part:
    """Say where one member of the archive goes."""

    member: str
    """Its name in the archive."""
    scheme: str
    """Which of the five places, as ``purelib``."""
    path: str
    """Path within that place, with ``/``."""
    row: RecordRow
    """What RECORD of the wheel promises about its content."""


@dataclass(frozen=True, slots=True)
class CheckedWheel:
    """Hold a wheel that may be installed."""

    pin: Pin
    """What was resolved."""
    archive: WheelArchive
    """The open archive."""
    dist_info: str
    """Name of its ``.dist-info`` folder."""
    data: str
    """Name of its ``.data`` folder, whether there is one or not."""
    root: str
    """Where members outside ``.data`` go: ``purelib`` or ``platlib``."""
    parts: tuple[Part, ...]
    """Every member that is installed."""
    commands: tuple[Command, ...]
    """Scripts to generate."""
    metadata: bytes
    """METADATA without variant markers (F-107)."""
    generated: Mapping[str, bytes] = field(hash=False)
    """Files to add to ``.dist-info``, by name."""
    size: int
    """Bytes of all members together, as RECORD says."""
    notes: tuple[str, ...]
    """What a user may want to know, one sentence each."""


def check_wheel(
    pin: Pin,
    path: Path,
    archive: WheelArchive,
    circumstances: Circumstances = Circumstances(),  # noqa: B008 - frozen
) -> CheckedWheel:
    """Check a wheel against what was resolved, and lay out where its members go.

    :param pin: what was resolved.
    :param path: the file.
    :param archive: the same, open; stays open as long as the result is used.
    :param circumstances: what it was chosen by.
    :raises InvalidWheel: the wheel is not sound.
    :raises MetadataDisagreement: it is another wheel than the one that was chosen.
    """
    where = pin.filename.text
    root = _root(archive)
    original = archive.metadata()
    _check_identity(pin, original, where)
    _check_variant(pin, archive, where)
    rows = _rows(archive, where)
    commands: tuple[Command, ...] = ()
    if f"{archive.dist_info}/entry_points.txt" in rows:
        text = archive.read(f"{archive.dist_info}/entry_points.txt").decode("utf-8", "replace")
        commands = parse_commands(text, where=where)
    base = _Base(root, archive.dist_info, data_folder(archive.names(), archive.dist_info), where)
    notes: list[str] = []
    parts = tuple(_parts(rows.values(), base, commands, notes))
    unpacked = {part.member for part in parts}
    for member in archive.members:
        if member.name not in unpacked:  # the others are looked at when they are
            archive.data_start(member)
    return CheckedWheel(
        pin=pin,
        archive=archive,
        dist_info=archive.dist_info,
        data=base.data,
        root=root,
        parts=parts,
        commands=commands,
        metadata=without_variant_markers(original, pin.context, where=where),
        generated=MappingProxyType(_generated(pin, path, circumstances)),
        size=sum(int(part.row.size) for part in parts),
        notes=tuple(f"{where}: {note}" for note in notes),
    )


@dataclass(frozen=True, slots=True)
class _Base:
    """Hold what decides where a member goes."""

    root: str
    dist_info: str
    data: str
    where: str


def _root(archive: WheelArchive) -> str:
    pure = header_value(archive.read(f"{archive.dist_info}/WHEEL"), "Root-Is-Purelib")
    return "purelib" if pure is not None and pure.lower() == "true" else "platlib"


def _check_identity(pin: Pin, metadata: bytes, where: str) -> None:
    core = read_metadata(metadata, where)
    for what, expected, found in (
        ("name", pin.name, core.name),
        ("version", pin.version, core.version),  # by value: 1.0 is 1.0.0
    ):
        if expected != found:
            raise MetadataDisagreement(
                f"the metadata inside the wheel has the {what} '{found}', not '{expected}'",
                where=where,
                hint="nothing was installed; tell the index operator",
            )
    if pin.core is not None and not _needs_the_same(core, pin.core):
        shown = [
            f"{whose}:\n"
            f"  Python {each.requires_python or 'any'}\n"
            + "\n".join(f"  {text}" for text in each.requires_texts)
            for whose, each in (("the index", pin.core), ("the wheel", core))
        ]
        raise MetadataDisagreement(
            "the wheel has other needs than the index says",
            where=where,
            note="\n".join(text.rstrip() for text in shown),
            hint="nothing was installed; tell the index operator",
        )


def _needs_the_same(one: CoreMetadata, other: CoreMetadata) -> bool:
    """Compare what was resolved with what will be installed (PEP 658)."""
    if one.requires_python != other.requires_python:
        return False
    if one.requires_texts == other.requires_texts:
        return True
    try:
        # Whoever extracts metadata may write the same requirement in another way.
        return sorted(map(str, one.requires)) == sorted(map(str, other.requires))
    except InvalidRequirement:
        return False


def _check_variant(pin: Pin, archive: WheelArchive, where: str) -> None:
    """Compare the wheel's own document with what drove the selection (F-93)."""
    if pin.label is None:
        return  # F-10
    # Whether an unknown draft may be used was decided when the wheel was chosen.
    own = read_wheel_document(
        archive.variant_document(), pin.label, where=where, accept_unknown_drafts=True
    )
    properties = own.properties(pin.label)
    if properties != pin.properties:
        chosen = "\n".join(f"  {item}" for item in pin.properties) or "  none"
        inside = "\n".join(f"  {item}" for item in properties or ()) or "  none"
        raise MetadataDisagreement(
            "the wheel has other properties than the index says",
            where=where,
            note=f"the index:\n{chosen}\nthe wheel:\n{inside}",
            hint="nothing was installed; tell the index operator",
        )


def _rows(archive: WheelArchive, where: str) -> dict[str, RecordRow]:
    """Return the row of every file; RECORD must name all of them, with a strong hash."""
    dist_info = archive.dist_info
    rows: dict[str, RecordRow] = {}
    faults = []
    for row in archive.record().rows:
        if row.path in rows:
            faults.append(f"{row.path} is in RECORD twice")
        rows[row.path] = row
    # A row without a file does no harm; there are such in well-known wheels. Signatures
    # are left out: RECORD changes on installation, and they would be wrong.
    without = {f"{dist_info}/{name}" for name in ("RECORD", *SIGNATURES)}
    found = {}
    for name in archive.names():
        if name in without:
            continue
        promise = rows.get(name)
        if promise is None:
            faults.append(f"{name} is not in RECORD")
        elif promise.hash.partition("=")[0] not in DIGEST_SIZES:
            faults.append(f"{name} has no strong hash in RECORD")
        elif not (promise.size.isascii() and promise.size.isdigit()):
            faults.append(f"{name} has no size in RECORD")
        elif promise.size != str(archive.member(name).size):
            faults.append(f"{name} has another size than RECORD says")
        else:
            found[name] = promise
    if faults:
        raise InvalidWheel(faults[0], where=where, note="\n".join(faults[1:20]) or None)
    return found


def _parts(
    rows: Iterable[RecordRow], base: _Base, commands: Iterable[Command], notes: list[str]
) -> Iterator[Part]:
    wrappers = {command.name + ending for command in commands for ending in _WRAPPERS}
    for row in rows:
        folder, _, rest = row.path.partition("/")
        if "__pycache__" in row.path.split("/")[:-1]:
            notes.append(f"bytecode in the wheel is not installed: {row.path}")
            continue
        if folder == base.dist_info and rest in _OURS:
            notes.append(f"a file that installers write is not taken over: {row.path}")
            continue
        if folder != base.data:
            if "/" not in row.path and (row.path.endswith(".pth") or row.path in _STARTUP):
                notes.append(f"it runs code whenever Python starts: {row.path}")
            yield Part(row.path, base.root, row.path, row)
            continue
        scheme, _, path = rest.partition("/")
        if scheme not in DATA_FOLDERS or not path:
            raise InvalidWheel(f"{row.path} belongs to no known place", where=base.where)
        if scheme == "scripts" and path in wrappers:
            continue  # generated instead, for this interpreter
        yield Part(row.path, scheme, path, row)


def _generated(pin: Pin, path: Path, circumstances: Circumstances) -> dict[str, bytes]:
    choice = Choice(pin.filename.text, pin.label, pin.file.hashes, circumstances)
    files = {"INSTALLER": f"{INSTALLER}\n".encode(), CHOICE_FILE: format_choice(choice)}
    if pin.requested:
        files["REQUESTED"] = b""
    if pin.is_given:
        files["direct_url.json"] = _direct_url(pin, path)
    return files


def _direct_url(pin: Pin, path: Path) -> bytes:
    """Return where a wheel came from that the user named (PEP 610)."""
    hashes = dict(pin.file.hashes)
    if "sha256" not in hashes:
        with path.open("rb") as stream:
            hashes["sha256"] = hashlib.file_digest(stream, "sha256").hexdigest()
    archive = {"hash": f"sha256={hashes['sha256']}", "hashes": hashes}
    return json.dumps({"archive_info": archive, "url": pin.file.url}, sort_keys=True).encode()
