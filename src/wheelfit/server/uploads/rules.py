"""Everything that keeps a file from an index: the rules of the public registry, and ours.

Pure but for reading the file: nothing here knows an index. All that is wrong with a file is
found at once (F-131). What `wheelfit check` knows of wheels is not looked for again but taken
from there, with the names it has for it.
"""

from __future__ import annotations

import configparser
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.metadata import InvalidMetadata, Metadata, parse_email

from wheelfit.checking.findings import Severity
from wheelfit.checking.wheels.wheel import check_wheel
from wheelfit.core.labels import writer_faults
from wheelfit.core.versions import is_endless
from wheelfit.errors import AttestationProblem
from wheelfit.server.store.records import NewFile, Violation
from wheelfit.server.uploads.sdists import check_sdist, license_files
from wheelfit.sources.attestations import make_provenance
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.dist_info import header_value
from wheelfit.wheels.paths import path_fault, windows_fault
from wheelfit_runtime.errors import UserError, WheelfitError
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import TypeAlias

    from wheelfit.checking.findings import Finding
    from wheelfit.core.filename import WheelFilename

    Checked: TypeAlias = tuple[bytes | None, tuple[Violation, ...]]


_LONGEST_NAME = 255
_NAME = pattern(r"[A-Za-z0-9_.+!-]+")
_DATA_DESCRIPTOR = 0x0008
_ARCHITECTURE = "(?:x86_64|i[36]86|aarch64|armv[67]l|ppc64(?:le)?|s390x|riscv64|loongarch64)"
# Beside those of the public registry `linux_…`, which a registry for the own machines may have.
_PLATFORM = pattern(
    rf"any|win32|win_(?:amd64|arm64|ia64)"
    rf"|(?:manylinux(?:1|2010|2014|_[0-9]+_[0-9]+)|musllinux_[0-9]+_[0-9]+|linux)_{_ARCHITECTURE}"
    r"|macosx_[0-9]+_[0-9]+_(?:x86_64|arm64|i386|ppc|ppc64|intel|fat|fat3|fat64|universal2?)"
    r"|ios_[0-9]+_[0-9]+_(?:arm64|x86_64)_(?:iphoneos|iphonesimulator)"
    r"|android_[0-9]+_(?:armeabi_v7a|arm64_v8a|x86|x86_64)"
    r"|(?:pyodide|emscripten|pyemscripten)_[0-9]+_[0-9]+(?:_[0-9]+)?_wasm32|wasi_[0-9_]+_wasm32"
)
_NEVER_AGREED = "2.0"  # and yet in the wheels of five years
_NEW_FIELD = "introduced in metadata version"
_LONGEST_FIELD = 5_000


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a file, with what is known of it."""

    violations: tuple[Violation, ...]
    """Any of these keeps it out; in the order in which they were found."""
    warnings: tuple[Violation, ...]
    """Allowed, and most likely mistakes."""
    file: NewFile | None
    """What would be recorded, without provenance; None if too little could be found out."""


def check_file(path: Path, filename: str, *, sha256: str, size: int, uploaded: str = "") -> Verdict:
    """Look for everything that is wrong with a wheel or a source distribution.

    Every member of a wheel is unpacked and compared with RECORD, and a source distribution
    is unpacked beside the file.

    :param filename: how it shall be called; may be anything.
    :param uploaded: now, in RFC 3339.
    :raises StorageUnavailable: there is no room to unpack it.
    """
    if wrong := check_name(filename):
        return Verdict(wrong, (), None)
    if filename.endswith(".whl"):
        return _check_wheel(path, filename, sha256=sha256, size=size, uploaded=uploaded)
    violations, facts = check_sdist(path, filename)
    if facts is None:
        return Verdict(violations, (), None)
    more, warnings = _metadata_violations(facts.metadata, f"{filename}: PKG-INFO")
    violations = (*violations, *more)
    new = NewFile(
        filename=filename,
        project=facts.name,
        version=facts.version,
        sha256=sha256,
        size=size,
        uploaded=uploaded,
        folded=facts.usual_name.lower(),
        requires_python=header_value(facts.metadata, "Requires-Python"),
    )
    return Verdict(violations, warnings, new)


def check_name(filename: str) -> tuple[Violation, ...]:
    """Return why a name cannot be that of a file of an index, before anything is done with it."""

    def wrong(message: str) -> tuple[Violation, ...]:
        return (Violation("invalid-filename", message, filename[:_LONGEST_NAME]),)

    if len(filename) > _LONGEST_NAME:
        return wrong(f"the name has {len(filename)} characters, more than {_LONGEST_NAME}")
    if _NAME.fullmatch(filename) is None:
        return wrong("the name has characters that no file of an index has")
    if (fault := path_fault(filename) or windows_fault(filename)) is not None:
        return wrong(fault)
    if not filename.endswith((".whl", ".tar.gz", ".zip")):
        return wrong("it is neither a wheel nor a source distribution (.tar.gz or .zip)")
    return ()


# --- wheels -------------------------------------------------------------------------------


def _check_wheel(path: Path, filename: str, *, sha256: str, size: int, uploaded: str) -> Verdict:
    findings, facts = check_wheel(path, filename, where=filename, full=True)
    violations = [_violation(one) for one in findings if one.severity is Severity.ERROR]
    warnings = [_violation(one) for one in findings if one.severity is Severity.WARNING]
    if facts is None:
        return Verdict(tuple(violations), tuple(warnings), None)
    name = facts.filename
    violations += _platform_violations(name)
    if name.label is not None:
        violations += [
            Violation("reserved-label", f"{fault} (F-4)", filename)
            for fault in writer_faults(name.label)
        ]
    document = None
    try:
        with WheelArchive(path, name, where=filename) as wheel:
            violations += _archive_violations(wheel)
            if facts.document is not None:  # it can be read
                document = wheel.variant_document()
    except WheelfitError as error:
        if not violations:  # else it was found above, in more words
            violations.append(Violation("unsound-archive", error.message, filename))
    if facts.metadata:
        more, doubts = _metadata_violations(facts.metadata, f"{filename}: METADATA")
        violations += more
        warnings += doubts
    new = NewFile(
        filename=filename,
        project=name.name,
        version=name.version,
        sha256=sha256,
        size=size,
        uploaded=uploaded,
        folded=str(name).lower(),
        label=name.label,
        requires_python=header_value(facts.metadata, "Requires-Python"),
        metadata=facts.metadata,
        document=document,
    )
    return Verdict(tuple(dict.fromkeys(violations)), tuple(dict.fromkeys(warnings)), new)


def _violation(finding: Finding) -> Violation:
    places = (finding.where, finding.member, finding.path)
    rule = f" ({finding.rule})" if finding.rule else ""
    where = ": ".join(place for place in places if place)
    return Violation(finding.code, f"{finding.message}{rule}", where)


def _platform_violations(name: WheelFilename) -> Iterator[Violation]:
    for platform in sorted({tag.platform for tag in name.tags}):
        if _PLATFORM.fullmatch(platform) is None:
            message = f"no installer knows the platform {platform}"
            yield Violation("unknown-platform", message, name.text)


def _archive_violations(wheel: WheelArchive) -> Iterator[Violation]:
    """Yield what the public registry refuses, and installers let pass."""
    filename = wheel.filename.text
    usual = "-".join(filename.split("-")[:2]) + ".dist-info"
    if wheel.dist_info != usual:
        message = f"its folder is {wheel.dist_info}, and not {usual} as in the file name"
        yield Violation("dist-info-spelling", message, filename)
    described = [one.name for one in wheel.members if one.flags & _DATA_DESCRIPTOR]
    if described:
        message = f"{described[0]} has its size behind its data (a data descriptor)"
        yield Violation("data-descriptor", message, filename)
    for path in license_files(wheel.metadata()):
        if f"{wheel.dist_info}/licenses/{path}" not in wheel:
            message = f"METADATA names the licence {path}, and there is no licenses/{path}"
            yield Violation("missing-license", message, f"{filename}: METADATA")
    if f"{wheel.dist_info}/entry_points.txt" in wheel:
        text = wheel.read(f"{wheel.dist_info}/entry_points.txt")
        yield from _entry_point_violations(text, f"{filename}: entry_points.txt")


_POINT = pattern(r"[\w.-]+")
_GROUPS = frozenset({"console_scripts", "gui_scripts"})


def _entry_point_violations(text: bytes, where: str) -> Iterator[Violation]:
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # as documented
    try:
        parser.read_string(text.decode("utf-8"))
    except (configparser.Error, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        yield Violation("bad-entry-points", f"it is no INI file: {reason[:300]}", where)
        return
    for group in parser.sections():
        for name in parser[group]:
            # Names of scripts have been looked at already.
            if group not in _GROUPS and _POINT.fullmatch(name) is None and not name.isprintable():
                yield Violation("bad-entry-points", f"{name!r} is no name in {group}", where)


# --- metadata -----------------------------------------------------------------------------


def _metadata_violations(
    data: bytes, where: str
) -> tuple[tuple[Violation, ...], tuple[Violation, ...]]:
    """Hold metadata against its specification; return what is wrong, and what is doubtful."""
    if (control := _CONTROL.search(data)) is not None:
        line = data.count(b"\n", 0, control.start()) + 1
        sign = ord(control[0].decode())
        message = f"the metadata has the control character U+{sign:04X} in line {line}"
        return (Violation("invalid-metadata", message, where),), ()
    try:
        raw, unparsed = parse_email(data)
    except RecursionError:  # messages within messages, thousands of them
        return (Violation("invalid-metadata", "the metadata cannot be read", where),), ()
    violations = [
        Violation("invalid-metadata", f"the field {name[:80]!r} cannot be read", where)
        for name in sorted(unparsed)
        if name in _SINGLE
    ]
    # Dependencies were read already, of wheels by rules that know variant markers.
    raw.pop("requires_dist", None)
    warnings: list[Violation] = []
    if raw.get("metadata_version") == _NEVER_AGREED:
        message = f"the metadata has version {_NEVER_AGREED}, which was never agreed on"
        warnings.append(Violation("invalid-metadata", message, where))
        raw["metadata_version"] = "2.1"
    if is_endless(raw.get("requires_python", "")):
        message = "a number in Requires-Python has too many digits for installers"
        violations.append(Violation("invalid-metadata", message, where))
    for field in ("requires_python", "description_content_type"):
        # Before it is read: the time and memory for that grow faster than the text.
        if len(str(raw.get(field, ""))) > _LONGEST_FIELD:
            name = field.replace("_", "-")
            message = f"{name} has more than {_LONGEST_FIELD} characters"
            violations.append(Violation("invalid-metadata", message, where))
            raw.pop(field)  # type: ignore[misc]  # of its fields
    try:
        Metadata.from_raw(raw, validate=True)
    except ExceptionGroup as group:
        for error in group.exceptions:
            if not isinstance(error, InvalidMetadata):
                raise
            one = Violation("invalid-metadata", str(error)[:500], where)
            # Usual in wheels of a few years ago, and read by everybody as it is meant.
            (warnings if _NEW_FIELD in str(error) else violations).append(one)
    return tuple(violations), tuple(warnings)


_CONTROL = pattern(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|\xc2[\x80-\x9f]")
"""What terminals obey when metadata is shown there, and what some readers take for the end of a
line and others do not: C0 but tab and ends of lines, DEL, and C1 in UTF-8."""
_SINGLE = frozenset(
    {"metadata-version", "name", "version", "summary", "description", "requires-python",
     "description-content-type", "license-expression"}
)  # fmt: skip
"""Fields that may be there once, and must be text."""


def provenance_of(text: str, filename: str, sha256: str) -> Checked:
    """Verify attestations, and make of them what is served as ``.provenance``.

    What cannot be verified is refused and never served: whoever reads it takes it as checked.

    :param text: the field of the form, a list of attestations as JSON; empty: there are none.
    :return: the document, None without attestations; and what is wrong.
    """
    if not text:
        return None, ()
    try:
        return make_provenance(text.encode(), filename, sha256), ()
    except (AttestationProblem, UserError) as error:
        return None, (Violation("bad-attestation", error.message, filename),)
