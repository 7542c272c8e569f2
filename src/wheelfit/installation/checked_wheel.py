"""An unpacked wheel checked against the resolution, with the destination of each of its files.

The files were compared with RECORD when the wheel was unpacked (`wheelfit.wheels.unpacking`).
`check_wheel` reads only files of ``.dist-info``.
"""

from __future__ import annotations

import hashlib
import json
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.core.core_metadata import CoreMetadata, read_metadata, without_variant_markers
from wheelfit.core.index_metadata import read_wheel_document
from wheelfit.errors import InvalidRequirement
from wheelfit.installation.choice_record import (
    CHOICE_FILE,
    HostAndOverrides,
    RecordedChoice,
    format_choice,
)
from wheelfit.wheels.archive import SIGNATURES
from wheelfit.wheels.dist_info import DATA_FOLDERS, data_folder, header_value
from wheelfit.wheels.entry_points import Command, parse_commands
from wheelfit_runtime.errors import IntegrityError, InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wheelfit.resolution.resolution import Pin
    from wheelfit.wheels.unpacked import UnpackedWheel

INSTALLER = "wheelfit"
"""The content of INSTALLER (PEP 376)."""

_WRITTEN_BY_INSTALLERS = frozenset({"INSTALLER", "REQUESTED", "direct_url.json", CHOICE_FILE})
_WRAPPER_ENDINGS = ("", ".exe", "-script.py", "-script.pyw")
"""The endings of scripts for entry points, which old build tools put into wheels as well."""


class WheelFolder(Struct, frozen=True):
    """The destination of the files of one folder of a wheel, all of them or some."""

    source: str
    """The folder in the wheel, with ``/``; empty for its root."""
    scheme: str
    """The scheme of its destination, such as ``purelib``."""
    path: str
    """The folder within that of the scheme, with ``/``; empty for that folder itself."""
    names: tuple[str, ...]
    indexes: tuple[int, ...]
    """The positions of these names in the table of the unpacked wheel."""


class CheckedWheel(Struct, frozen=True):
    """A wheel that was checked and may be installed."""

    pin: Pin
    unpacked: UnpackedWheel
    dist_info: str
    data: str
    """Name of its ``.data`` folder, whether there is one or not."""
    root: str
    """Where members outside ``.data`` go: ``purelib`` or ``platlib``."""
    parts: tuple[WheelFolder, ...]
    """The files to install, by folder since there may be ten thousands."""
    commands: tuple[Command, ...]
    """Scripts to generate."""
    metadata: bytes
    """METADATA without variant markers (F-107)."""
    is_rewritten: bool
    """Whether METADATA differs from that of the wheel."""
    generated: Mapping[str, bytes]
    """Files to add to ``.dist-info``, by name."""
    size: int
    """Bytes of all members together."""
    notes: tuple[str, ...]
    """Notes for the user, one sentence each."""

    @property
    def schemes(self) -> set[str]:
        """The schemes of the folders that it is installed into."""
        return {part.scheme for part in self.parts} | ({"scripts"} if self.commands else set())


def check_wheel(
    pin: Pin,
    wheel: UnpackedWheel,
    host_and_overrides: HostAndOverrides = HostAndOverrides(),
) -> CheckedWheel:
    """Check a wheel against the resolution, and return the places of its members.

    :raises InvalidWheel: the wheel is not valid.
    :raises IntegrityError: ``metadata-disagreement``; it is not the chosen wheel.
    """
    where = pin.filename.text
    root = _root(wheel)
    original = wheel.metadata()
    # The resolver read the metadata with the requirements that a bridge adds.
    _check_identity(pin, pin.file.with_added_requirements(original), where)
    _check_variant(pin, wheel, where)
    commands: tuple[Command, ...] = ()
    if f"{wheel.dist_info}/entry_points.txt" in wheel.files:
        text = wheel.read(f"{wheel.dist_info}/entry_points.txt").decode("utf-8", "replace")
        # Console and window scripts share a folder; as with pip, the last of one name is installed.
        by_name = {command.name: command for command in parse_commands(text, where=where)}
        commands = tuple(by_name.values())
    data = data_folder(wheel.names(), wheel.dist_info)
    notes: list[str] = []
    parts = tuple(_parts(wheel, root, data, commands, notes))
    metadata = without_variant_markers(original, pin.context, where=where)
    return CheckedWheel(
        pin=pin,
        unpacked=wheel,
        dist_info=wheel.dist_info,
        data=data,
        root=root,
        parts=parts,
        commands=commands,
        metadata=metadata,
        is_rewritten=metadata != original,
        generated=MappingProxyType(_generated(pin, wheel, host_and_overrides)),
        size=sum(sum(map(wheel.files.sizes.__getitem__, part.indexes)) for part in parts),
        notes=tuple(f"{where}: {note}" for note in notes),
    )


def _root(wheel: UnpackedWheel) -> str:
    pure = header_value(wheel.read(f"{wheel.dist_info}/WHEEL"), "Root-Is-Purelib")
    return "purelib" if pure is not None and pure.lower() == "true" else "platlib"


def _check_identity(pin: Pin, metadata: bytes, where: str) -> None:
    if pin.core is not None and pin.core.digest == hashlib.sha256(metadata).digest():
        core = pin.core  # parsing takes a tenth of the time to check a hundred wheels
    else:
        core = read_metadata(metadata, where)
    for field, expected, actual in (
        ("name", pin.name, core.name),
        ("version", pin.version, core.version),  # by value: 1.0 is 1.0.0
    ):
        if expected != actual:
            raise IntegrityError(
                f"the metadata inside the wheel has the {field} '{actual}', not '{expected}'",
                code="metadata-disagreement",
                where=where,
                hint="nothing was installed; report it to the index operator",
            )
    if pin.core is not None and not _has_same_requirements(core, pin.core):
        lines = [
            f"{owner}:\n"
            f"  Python {core_metadata.requires_python or 'any'}\n"
            + "\n".join(f"  {text}" for text in core_metadata.requires_texts)
            for owner, core_metadata in (("the index", pin.core), ("the wheel", core))
        ]
        raise IntegrityError(
            "the requirements of the wheel differ from those in the index",
            code="metadata-disagreement",
            where=where,
            note="\n".join(text.rstrip() for text in lines),
            hint="nothing was installed; report it to the index operator",
        )


def _has_same_requirements(one: CoreMetadata, other: CoreMetadata) -> bool:
    """Return whether two files of metadata have the same requirements (PEP 658)."""
    if one.requires_python != other.requires_python:
        return False
    if one.requires_texts == other.requires_texts:
        return True
    try:
        # A tool that extracts metadata may write the same requirement in another form.
        return sorted(map(str, one.requires)) == sorted(map(str, other.requires))
    except InvalidRequirement:
        return False


def _check_variant(pin: Pin, wheel: UnpackedWheel, where: str) -> None:
    """Compare the wheel's own document with the one used for the selection (F-93)."""
    if pin.label is None:
        return  # F-10
    # Whether an unknown draft may be used was decided when the wheel was chosen.
    data = wheel.variant_document()
    if data is None:
        data = pin.file.declared_document
    own = read_wheel_document(data, pin.label, where=where, accept_unknown_drafts=True)
    properties = own.properties(pin.label)
    if properties != pin.properties:
        index_properties = "\n".join(f"  {prop}" for prop in pin.properties) or "  none"
        wheel_properties = "\n".join(f"  {prop}" for prop in properties or ()) or "  none"
        raise IntegrityError(
            "the properties of the wheel differ from those in the index",
            code="metadata-disagreement",
            where=where,
            note=f"the index:\n{index_properties}\nthe wheel:\n{wheel_properties}",
            hint="nothing was installed; report it to the index operator",
        )


def _parts(
    wheel: UnpackedWheel, root: str, data: str, commands: Iterable[Command], notes: list[str]
) -> Iterator[WheelFolder]:
    """Yield the folders of files to install; notes on files left out are added to `notes`."""
    # RECORD is rewritten, so signatures of it would be wrong.
    excluded = {"RECORD", *SIGNATURES, *_WRITTEN_BY_INSTALLERS}
    # Wrappers are generated for the interpreter instead.
    wrappers = {command.name + ending for command in commands for ending in _WRAPPER_ENDINGS}
    for source, files in wheel.files.folders.items():
        segments = source.split("/")
        if "__pycache__" in segments:
            members = [f"{source}/{name}" for name in files]
            notes += [f"bytecode in the wheel is not installed: {member}" for member in members]
            continue
        scheme, path, kept = root, source, files
        if source == wheel.dist_info:
            skipped = [f"{source}/{name}" for name in files if name in _WRITTEN_BY_INSTALLERS]
            notes += [f"a file that installers write is not installed: {path}" for path in skipped]
            kept = {name: number for name, number in files.items() if name not in excluded}
        elif segments[0] == data:
            scheme = segments[1] if len(segments) > 1 else ""
            path = "/".join(segments[2:])
            if scheme not in DATA_FOLDERS:
                raise InvalidWheel(
                    f"{source}/{next(iter(files))} belongs to no known scheme",
                    where=wheel.filename.text,
                )
            if scheme == "scripts" and not path:
                kept = {name: number for name, number in files.items() if name not in wrappers}
            elif scheme == root and (root_files := wheel.files.folders.get(path)):
                # A file at the root of the wheel has the same destination. If both are equal, this
                # one is skipped; if they differ, `lay_out` refuses the wheel.
                hashes = wheel.files.hashes
                kept = {
                    name: number
                    for name, number in files.items()
                    if name not in root_files or hashes[root_files[name]] != hashes[number]
                }
        elif segments[0].lower().endswith(".data"):
            # Other installers would treat it as the wheel's own .data folder.
            raise InvalidWheel(
                f"{source}/{next(iter(files))} belongs to another wheel", where=wheel.filename.text
            )
        if kept:
            yield WheelFolder(source, scheme, path, tuple(kept), tuple(kept.values()))


def _generated(
    pin: Pin, wheel: UnpackedWheel, host_and_overrides: HostAndOverrides
) -> dict[str, bytes]:
    choice = RecordedChoice(pin.filename.text, pin.label, pin.file.hashes, host_and_overrides)
    files = {"INSTALLER": f"{INSTALLER}\n".encode(), CHOICE_FILE: format_choice(choice)}
    if pin.file.declared_document is not None and wheel.variant_document() is None:
        files["variant.json"] = pin.file.declared_document
    if pin.requested:
        files["REQUESTED"] = b""
    if pin.is_direct:
        files["direct_url.json"] = _direct_url(pin, wheel)
    return files


def _direct_url(pin: Pin, wheel: UnpackedWheel) -> bytes:
    """Return the origin of a wheel the user named (PEP 610)."""
    hashes = {**pin.file.hashes, "sha256": wheel.sha256}
    if pin.file.origin is not None and pin.file.origin.direct_url is not None:
        return json.dumps(pin.file.origin.direct_url, sort_keys=True).encode()
    archive = {"hash": f"sha256={hashes['sha256']}", "hashes": hashes}
    return json.dumps({"archive_info": archive, "url": pin.file.url}, sort_keys=True).encode()
