"""An unpacked wheel held against what was resolved, and where each of its files goes.

That the files are what RECORD promises was seen when the wheel was unpacked
(`wheelfit.wheels.unpacking`). `check_wheel` reads the small ones.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING

from wheelfit.core.core_metadata import read_metadata, without_variant_markers
from wheelfit.core.index_metadata import read_wheel_document
from wheelfit.errors import InvalidRequirement, InvalidWheel, MetadataDisagreement
from wheelfit.install.choice import CHOICE_FILE, Choice, Circumstances, format_choice
from wheelfit.values import dataclass, field
from wheelfit.wheels.archive import SIGNATURES
from wheelfit.wheels.dist_info import DATA_FOLDERS, data_folder, header_value
from wheelfit.wheels.entry_points import Command, parse_commands

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wheelfit.core.core_metadata import CoreMetadata
    from wheelfit.resolve.resolution import Pin
    from wheelfit.wheels.record import RecordRow
    from wheelfit.wheels.unpacked import UnpackedWheel

__all__ = ["INSTALLER", "CheckedWheel", "Part", "check_wheel"]


def __dir__() -> list[str]:
    return __all__


INSTALLER = "wheelfit"
"""What is written to INSTALLER (PEP 376)."""

_OURS = frozenset({"INSTALLER", "REQUESTED", "direct_url.json", CHOICE_FILE})
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
    """Its content as a row of RECORD."""


@dataclass(frozen=True, slots=True)
class CheckedWheel:
    """Hold a wheel that may be installed."""

    pin: Pin
    """What was resolved."""
    unpacked: UnpackedWheel
    """Its files."""
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
    """Bytes of all members together."""
    notes: tuple[str, ...]
    """What a user may want to know, one sentence each."""


def check_wheel(
    pin: Pin,
    wheel: UnpackedWheel,
    circumstances: Circumstances = Circumstances(),
) -> CheckedWheel:
    """Check a wheel against what was resolved, and lay out where its members go.

    :param pin: what was resolved.
    :param wheel: the wheel.
    :param circumstances: what it was chosen by.
    :raises InvalidWheel: the wheel is not sound.
    :raises MetadataDisagreement: it is another wheel than the one that was chosen.
    """
    where = pin.filename.text
    root = _root(wheel)
    original = wheel.metadata()
    _check_identity(pin, original, where)
    _check_variant(pin, wheel, where)
    commands: tuple[Command, ...] = ()
    if f"{wheel.dist_info}/entry_points.txt" in wheel.files:
        text = wheel.read(f"{wheel.dist_info}/entry_points.txt").decode("utf-8", "replace")
        commands = parse_commands(text, where=where)
    base = _Base(root, wheel.dist_info, data_folder(wheel.names(), wheel.dist_info), where)
    notes: list[str] = []
    # RECORD changes on installation: it is written anew, and signatures of it would be wrong.
    without = {f"{wheel.dist_info}/{name}" for name in ("RECORD", *SIGNATURES)}
    rows = (file.row for name, file in wheel.files.items() if name not in without)
    parts = tuple(_parts(rows, base, commands, notes))
    return CheckedWheel(
        pin=pin,
        unpacked=wheel,
        dist_info=wheel.dist_info,
        data=base.data,
        root=root,
        parts=parts,
        commands=commands,
        metadata=without_variant_markers(original, pin.context, where=where),
        generated=MappingProxyType(_generated(pin, wheel, circumstances)),
        size=sum(wheel.files[part.member].size for part in parts),
        notes=tuple(f"{where}: {note}" for note in notes),
    )


@dataclass(frozen=True, slots=True)
class _Base:
    """Hold what decides where a member goes."""

    root: str
    dist_info: str
    data: str
    where: str


def _root(wheel: UnpackedWheel) -> str:
    pure = header_value(wheel.read(f"{wheel.dist_info}/WHEEL"), "Root-Is-Purelib")
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


def _check_variant(pin: Pin, wheel: UnpackedWheel, where: str) -> None:
    """Compare the wheel's own document with what drove the selection (F-93)."""
    if pin.label is None:
        return  # F-10
    # Whether an unknown draft may be used was decided when the wheel was chosen.
    own = read_wheel_document(
        wheel.variant_document(), pin.label, where=where, accept_unknown_drafts=True
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
            if folder.lower().endswith(".data") and folder != row.path:
                # Other installers would take it for a folder of places as well.
                raise InvalidWheel(f"{row.path} belongs to another wheel", where=base.where)
            yield Part(row.path, base.root, row.path, row)
            continue
        scheme, _, path = rest.partition("/")
        if scheme not in DATA_FOLDERS or not path:
            raise InvalidWheel(f"{row.path} belongs to no known place", where=base.where)
        if scheme == "scripts" and path in wrappers:
            continue  # generated instead, for this interpreter
        yield Part(row.path, scheme, path, row)


def _generated(pin: Pin, wheel: UnpackedWheel, circumstances: Circumstances) -> dict[str, bytes]:
    choice = Choice(pin.filename.text, pin.label, pin.file.hashes, circumstances)
    files = {"INSTALLER": f"{INSTALLER}\n".encode(), CHOICE_FILE: format_choice(choice)}
    if pin.requested:
        files["REQUESTED"] = b""
    if pin.is_given:
        files["direct_url.json"] = _direct_url(pin, wheel)
    return files


def _direct_url(pin: Pin, wheel: UnpackedWheel) -> bytes:
    """Return where a wheel came from that the user named (PEP 610)."""
    hashes = {**pin.file.hashes, "sha256": wheel.sha256}
    if pin.file.origin is not None and pin.file.origin.direct_url is not None:
        return json.dumps(pin.file.origin.direct_url, sort_keys=True).encode()
    archive = {"hash": f"sha256={hashes['sha256']}", "hashes": hashes}
    return json.dumps({"archive_info": archive, "url": pin.file.url}, sort_keys=True).encode()
