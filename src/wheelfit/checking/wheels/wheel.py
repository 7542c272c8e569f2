"""Checks of a single wheel."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, BinaryIO

from wheelfit.checking import checks, tool_profiles
from wheelfit.checking.documents.classifiers import classifier_findings
from wheelfit.checking.findings import Check, Finding, Location, Severity
from wheelfit.checking.tool_profiles import CheckOptions, Profile
from wheelfit.checking.wheels.contents import content_findings, is_library
from wheelfit.checking.wheels.dependencies import abi_findings, check_dependencies
from wheelfit.core.core_metadata import CoreMetadata, read_metadata, repeated_fields
from wheelfit.core.filename import WheelFilename, parse_wheel_filename
from wheelfit.errors import InvalidFilename
from wheelfit.wheels.archive import SIGNATURES, WheelArchive
from wheelfit.wheels.dist_info import DATA_FOLDERS, data_folder
from wheelfit.wheels.entry_points import parse_commands
from wheelfit.wheels.paths import target_faults
from wheelfit.wheels.reserved_files import (
    why_reserved,
    why_reserved_below_prefix,
    why_reserved_in_prefix,
    why_reserved_in_scripts,
)
from wheelfit.wheels.zstandard import ZSTANDARD
from wheelfit_runtime.errors import Fault, InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wheelfit.core.document import VariantDocument
    from wheelfit.wheels.binaries.facts import Binaries
    from wheelfit.wheels.bytes_source import ByteSource

_MAX_NAME_SIZE = 255
"""Bytes of a file name in common file systems."""


@dataclass(frozen=True, slots=True)
class LibraryFacts:
    """A native library in a wheel, by its row in RECORD."""

    path: str
    hash: str
    """As ``sha256=…``."""
    size: int
    """In bytes."""


@dataclass(frozen=True, slots=True)
class WheelFacts:
    """The facts about a wheel, for comparisons with others of its release."""

    where: str
    filename: WheelFilename
    document: VariantDocument | None = None
    """Its variant document; None for a plain wheel, or if it is unknown."""
    core: CoreMetadata | None = None
    """Its METADATA; None if it could not be read."""
    metadata: bytes = field(default=b"", repr=False)
    """The bytes of METADATA; empty if it is missing or was not read."""
    libraries: tuple[LibraryFacts, ...] = ()
    """The native libraries of a variant wheel; none if they are unknown."""


def check_wheel(
    source: Path | BinaryIO | ByteSource,
    filename: str,
    *,
    where: str,
    options: CheckOptions = CheckOptions(),
) -> tuple[list[Finding], WheelFacts | None]:
    """Check a wheel on disk or in memory, in the same way before and after an upload (B-54).

    :return: the findings, and the facts of the wheel; None if its name is invalid.
    :raises FileProblem: it cannot be read.
    :raises NeedsExtra: binaries are to be checked, and the library for that is not installed.
    """
    location = Location(where)
    try:
        name = parse_wheel_filename(filename)
    except InvalidFilename as error:
        return [location.finding(checks.INVALID_FILENAME, error.message)], None
    findings = list(filename_findings(name, location))
    try:
        with WheelArchive(source, name, where=where, lenient=True) as archive:
            findings += tool_profiles.wheel_findings(name, archive.size, location, options.profiles)
            findings += _archive_findings(archive, location, full=options.full)
            findings += _member_findings(archive, location, options.profiles)
            findings += content_findings(archive, location)
            has_metadata = f"{archive.dist_info}/METADATA" in archive
            metadata = archive.metadata() if has_metadata else None
            document = archive.variant_document()
            libraries = _libraries(archive) if name.is_variant else ()
            native = None
            if options.binaries:
                try:
                    native = _read_binaries(archive, instructions=options.instructions)
                except InvalidWheel as error:
                    findings.append(location.finding(checks.DAMAGED_CONTENT, error.message))
    except InvalidWheel as error:
        findings.append(location.finding(checks.UNSOUND_ARCHIVE, error.message))
        return findings, WheelFacts(where, name)
    part_findings, facts = check_parts(name, metadata, document, location, options.profiles)
    if native is not None:
        from wheelfit.checking.wheels.binaries import claim_findings

        part_findings += claim_findings(native, name, facts.document, location)
    return findings + part_findings, replace(facts, libraries=libraries)


def _libraries(archive: WheelArchive) -> tuple[LibraryFacts, ...]:
    """Return the native libraries in RECORD, each with hash and size."""
    try:
        rows = archive.record.rows if f"{archive.dist_info}/RECORD" in archive else ()
    except InvalidWheel:
        return ()  # an earlier check reports it
    return tuple(
        LibraryFacts(row.path, row.hash, int(row.size))
        for row in rows
        if is_library(row.path) and row.hash and row.size.isascii() and row.size.isdecimal()
    )


def _read_binaries(archive: WheelArchive, *, instructions: bool) -> Binaries:
    # Imported here, as few users need these.
    from msgspec.structs import replace

    from wheelfit.checking.wheels.stable_abi import oldest_stable
    from wheelfit.wheels.binaries.build_paths import build_paths
    from wheelfit.wheels.binaries.facts import Binaries, Format
    from wheelfit.wheels.binaries.reading import (
        code_sections,
        python_symbols,
        read_binary,
        unpacked_binaries,
    )

    is_stable = oldest_stable(archive.filename) is not None
    binaries = []
    for member, file in unpacked_binaries(archive):
        binary = read_binary(file, member.name)
        if binary is None:
            continue
        if instructions:
            from wheelfit.wheels.binaries.instructions import with_instructions

            binary = with_instructions(binary, file)
        symbols = python_symbols(file) if is_stable and binary.format is Format.ELF else ()
        paths = build_paths(file, code_sections(file, binary))
        binaries.append(replace(binary, build_paths=paths, python_symbols=symbols))
    return Binaries(tuple(binaries))


def check_parts(
    name: WheelFilename,
    metadata: bytes | None,
    document: bytes | None,
    location: Location,
    profiles: frozenset[Profile] = frozenset(),
) -> tuple[list[Finding], WheelFacts]:
    """Check METADATA and ``variant.json`` of a wheel.

    :param metadata: METADATA; None if it is missing or was not read.
    :param document: ``variant.json``; None if it is missing or was not read.
    """
    findings: list[Finding] = []
    core = parsed = None
    if metadata is not None:
        member_location = location.inside("METADATA")
        for field_name in repeated_fields(metadata):
            message = f"it has {field_name} more than once"
            findings.append(member_location.finding(checks.REPEATED_METADATA, message))
        try:
            core = read_metadata(metadata, location.where)
        except InvalidWheel as error:
            findings.append(member_location.finding(checks.WRONG_METADATA, error.message))
        else:
            findings += _identity_findings(name, core, member_location)
            findings += classifier_findings(core.classifiers, member_location)
            findings += check_dependencies(core, name.label, member_location, profiles)
    member_location = location.inside("variant.json")
    if document is not None and name.label is None:
        findings.append(
            member_location.finding(checks.DOCUMENT_IN_PLAIN_WHEEL, "the file name has no label")
        )
    elif document is not None:
        from wheelfit.checking.documents.document import check_variant_document

        variant_findings, parsed = check_variant_document(
            document, member_location, label=name.label, profiles=profiles
        )
        findings += variant_findings
    if core is not None and parsed is not None and name.label is not None:
        findings += abi_findings(core, name.label, parsed, location.inside("METADATA"))
    return findings, WheelFacts(location.where, name, parsed, core, metadata or b"")


def filename_findings(name: WheelFilename, location: Location) -> Iterator[Finding]:
    """Yield findings about a valid file name (F-3, F-17)."""
    if str(name) != name.text:
        yield location.finding(checks.UNUSUAL_FILENAME, f"the normalised name is {name}")
    if (size := len(name.text.encode())) > _MAX_NAME_SIZE:
        yield location.finding(
            checks.LONG_FILENAME, f"the name has {size} bytes, more than {_MAX_NAME_SIZE}"
        )


def _identity_findings(
    name: WheelFilename, core: CoreMetadata, location: Location
) -> Iterator[Finding]:
    for field_name, value, expected in (
        ("name", core.name, name.name),
        ("version", core.version, name.version),
    ):
        if value != expected:
            message = f"the {field_name} is {value}, but {expected} in the file name"
            yield location.finding(checks.WRONG_METADATA, message)


def _archive_findings(
    archive: WheelArchive, location: Location, *, full: bool
) -> Iterator[Finding]:
    for fault in archive.faults(contents=full, identity=False):
        yield location.inside(fault.path).finding(_check_for(fault), fault.message, rule=fault.rule)
    zstandard_member = next(
        (member.name for member in archive.members if member.method == ZSTANDARD), None
    )
    if zstandard_member is not None:
        message = (
            f"{zstandard_member!r} is compressed with Zstandard, which pip reads since Python 3.14"
        )
        yield location.finding(checks.UNSOUND_ARCHIVE, message)
    names = [member.name for member in archive.members]
    reported = {fault.message for fault in archive.tolerated}  # they are among the faults above
    is_for_windows_only = all(tag.platform.startswith("win") for tag in archive.filename.tags)
    severity = Severity.ERROR if is_for_windows_only else Severity.WARNING
    for message in target_faults(names, is_windows=True):
        if message not in reported:
            yield location.finding(checks.UNPORTABLE_NAME, message, severity=severity)


def _check_for(fault: Fault) -> Check:
    match fault.path, fault.rule:
        case "METADATA", _:
            return checks.WRONG_METADATA
        case _, "F-27":
            return checks.MISSING_DOCUMENT
        case "RECORD", "":  # the only fault of RECORD without a rule
            return checks.RECORD_LEADS_OUT
        case _, "B-35" | "B-36":
            return checks.BAD_RECORD
        case _, "B-38":
            return checks.DAMAGED_CONTENT
        case _:
            return checks.UNSOUND_ARCHIVE


_STARTUP_FILE = re.compile(r"[^/]+\.pth|(?:site|user)customize\.py")
_DATA_DESCRIPTOR = 0x0008


def _member_findings(
    archive: WheelArchive, location: Location, profiles: frozenset[Profile]
) -> Iterator[Finding]:
    for name in SIGNATURES:
        if f"{archive.dist_info}/{name}" in archive:
            yield location.inside(name).finding(checks.SIGNED_RECORD, f"the wheel has a {name}")
    for name in archive.names():
        if _STARTUP_FILE.fullmatch(name):
            yield location.finding(checks.STARTUP_CODE, f"{name} runs whenever Python starts")
    yield from _destination_findings(archive, location)
    if Profile.PYPI in profiles:
        expected = "-".join(str(archive.filename).split("-")[:2]) + ".dist-info"
        if archive.dist_info != expected:
            yield location.finding(
                checks.PYPI_ARCHIVE, f"its folder is {archive.dist_info}, not {expected}"
            )
        with_descriptor = [
            member.name for member in archive.members if member.flags & _DATA_DESCRIPTOR
        ]
        if with_descriptor:
            yield location.finding(
                checks.PYPI_ARCHIVE, f"{with_descriptor[0]} has a data descriptor"
            )


def _destination_findings(archive: WheelArchive, location: Location) -> Iterator[Finding]:
    """Yield members without a valid destination, and those that installers refuse."""
    data = data_folder(archive.names(), archive.dist_info)
    for name in archive.names():
        folder, _, rest = name.partition("/")
        scheme, _, path = rest.partition("/")
        if "__pycache__" in name.split("/")[:-1]:
            continue  # such files are not installed
        if folder != data:
            if (reason := _why_reserved_in_target(name)) is not None:
                message = f"{name} cannot be installed with --target: {reason}"
                yield location.finding(checks.RESERVED_FILE, message, severity=Severity.WARNING)
        elif scheme not in DATA_FOLDERS or not path:
            yield location.finding(checks.BAD_SCRIPT, f"{name} has no known destination")
        elif (reason := why_reserved(scheme, path)) is not None:
            message = f"{name} cannot be installed: {reason}"
            yield location.finding(checks.RESERVED_FILE, message)
    text = f"{archive.dist_info}/entry_points.txt"
    if text in archive:
        member_location = location.inside("entry_points.txt")
        try:
            commands = parse_commands(
                archive.read(text).decode("utf-8", "replace"), where=location.where
            )
        except InvalidWheel as error:
            yield member_location.finding(checks.BAD_SCRIPT, error.message)
        else:
            for command in commands:
                if (reason := why_reserved_in_scripts(command.name)) is not None:
                    message = f"the command {command.name} cannot be installed: {reason}"
                    yield member_location.finding(checks.RESERVED_FILE, message)


def _why_reserved_in_target(name: str) -> str | None:
    """Return the reason to refuse a member with --target, where packages are in the prefix."""
    folder, _, name = name.rpartition("/")
    if not folder:
        return why_reserved_in_prefix(name)
    if folder == "bin":
        return why_reserved_in_scripts(name)
    return why_reserved_below_prefix(folder)
