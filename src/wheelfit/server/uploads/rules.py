"""The rules for files of an index: those of the public registry, and ours.

The rules are independent of an index. All violations of a file are found at once (F-131); those of
wheels come from `wheelfit check`, with its names.
"""

from __future__ import annotations

import configparser
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from packaging.metadata import InvalidMetadata, Metadata, parse_email

from wheelfit.checking.findings import Finding, Severity
from wheelfit.checking.tool_profiles import CheckOptions
from wheelfit.checking.wheels.wheel import check_wheel
from wheelfit.core.core_metadata import CoreMetadata, read_metadata
from wheelfit.core.filename import NEWER_FORMAT, WheelFilename, is_newer_format, sdist_release
from wheelfit.core.labels import writer_faults
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.strict_json import shortened
from wheelfit.core.versions import has_too_many_digits
from wheelfit.errors import (
    AttestationProblem,
    InvalidRequirement,
    InvalidSource,
    StorageUnavailable,
)
from wheelfit.projects.archives import ArchiveLimits, unpack_archive
from wheelfit.server.store.records import NewFile, Violation
from wheelfit.sources.attestations import make_provenance
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.dist_info import MAX_METADATA_SIZE, header_value
from wheelfit.wheels.paths import path_fault, windows_fault
from wheelfit_runtime.errors import FileProblem, InvalidWheel, UserError, WheelfitError
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from packaging.utils import NormalizedName
    from packaging.version import Version

    CheckedProvenance: TypeAlias = tuple[bytes | None, tuple[Violation, ...]]


_LONGEST_NAME = 255
_NAME = pattern(r"[A-Za-z0-9_.+!-]+")
_DATA_DESCRIPTOR = 0x0008  # a flag of ZIP members: the size follows the data
_ARCHITECTURE = "(?:x86_64|i[36]86|aarch64|armv[67]l|ppc64(?:le)?|s390x|riscv64|loongarch64)"
# Those of the public registry, and `linux_…`, since the machines of an organisation may be alike.
_PLATFORM = pattern(
    rf"any|win32|win_(?:amd64|arm64|ia64)"
    rf"|(?:manylinux(?:1|2010|2014|_[0-9]+_[0-9]+)|musllinux_[0-9]+_[0-9]+|linux)_{_ARCHITECTURE}"
    r"|macosx_[0-9]+_[0-9]+_(?:x86_64|arm64|i386|ppc|ppc64|intel|fat|fat3|fat64|universal2?)"
    r"|ios_[0-9]+_[0-9]+_(?:arm64|x86_64)_(?:iphoneos|iphonesimulator)"
    r"|android_[0-9]+_(?:armeabi_v7a|arm64_v8a|x86|x86_64)"
    r"|(?:pyodide|emscripten|pyemscripten)_[0-9]+_[0-9]+(?:_[0-9]+)?_wasm32|wasi_[0-9_]+_wasm32"
)
_UNPUBLISHED_VERSION = "2.0"  # a draft of metadata that tools used for five years
_NEW_FIELD = "introduced in metadata version"  # in messages of `packaging.metadata`
_LONGEST_FIELD = 5_000
_SCRIPT_GROUPS = frozenset({"console_scripts", "gui_scripts"})
_SAFE_SIZE = 64 << 20  # bytes that an archive may unpack to, at any ratio
_LARGEST_RATIO = 50  # beyond that size, the limit of the public registry
_MOST_MEMBERS = 50_000
"""The largest projects have half as many; to write each as a file takes time."""
_LONGEST_SHOWN = 120
_PATHS_SINCE = (2, 4)
"""The first version of metadata whose ``License-File`` names the path of the file."""
_CONTROL = pattern(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|\xc2[\x80-\x9f]")
"""Characters that control terminals, or that only some readers take for the end of a line: C0 but
tab and ends of lines, DEL, and C1 in UTF-8."""
_SINGLE_FIELDS = frozenset(
    {"metadata-version", "name", "version", "summary", "description", "requires-python",
     "description-content-type", "license-expression"}
)  # fmt: skip
"""Fields that may be there once, and must be text."""


@dataclass(frozen=True, slots=True)
class UploadVerdict:
    """The verdict on a file, with its facts."""

    violations: tuple[Violation, ...]
    """The reasons to refuse it."""
    warnings: tuple[Violation, ...]
    """Likely mistakes that are allowed."""
    file: NewFile | None
    """Its record, without provenance; None if too little could be read."""


def check_file(
    path: Path, filename: str, *, sha256: str, size: int, uploaded: str = ""
) -> UploadVerdict:
    """Check a wheel or a source distribution.

    Every member of a wheel is unpacked and compared with RECORD, and a source distribution is
    unpacked beside the file.

    :param filename: its name in the index; may be anything.
    :param uploaded: now, in RFC 3339.
    :raises StorageUnavailable: there is no room to unpack it.
    """
    if name_violations := check_name(filename):
        return UploadVerdict(name_violations, (), None)
    record = partial(NewFile, filename, sha256=sha256, size=size, uploaded=uploaded)
    if filename.endswith(".whl"):
        return _check_wheel(path, filename, record)
    violations, facts = check_sdist(path, filename)
    if facts is None:
        return UploadVerdict(violations, (), None)
    metadata_violations, warnings = _metadata_violations(facts.metadata, f"{filename}: PKG-INFO")
    new = record(
        project=facts.name,
        version=facts.version,
        folded=facts.usual_name.lower(),
        requires_python=header_value(facts.metadata, "Requires-Python"),
    )
    return UploadVerdict((*violations, *metadata_violations), warnings, new)


def check_name(filename: str) -> tuple[Violation, ...]:
    """Return the faults of the name of a file for an index."""

    def violations(message: str) -> tuple[Violation, ...]:
        return (Violation("invalid-filename", message, filename[:_LONGEST_NAME]),)

    if len(filename) > _LONGEST_NAME:
        return violations(f"the name has {len(filename)} characters, more than {_LONGEST_NAME}")
    if _NAME.fullmatch(filename) is None:
        return violations("the name has characters that no file of an index has")
    if (fault := path_fault(filename) or windows_fault(filename)) is not None:
        return violations(fault)
    if is_newer_format(filename):
        return violations(NEWER_FORMAT)
    if not filename.endswith((".whl", ".tar.gz", ".zip")):
        return violations("the file is neither a wheel nor a source distribution (.tar.gz or .zip)")
    return ()


# --- wheels -------------------------------------------------------------------------------


def _check_wheel(path: Path, filename: str, record: partial[NewFile]) -> UploadVerdict:
    """Check a wheel; `record` makes its record from the facts in its metadata."""
    findings, facts = check_wheel(path, filename, where=filename, options=CheckOptions(full=True))
    violations = [_violation(finding) for finding in findings if finding.severity is Severity.ERROR]
    warnings = [_violation(finding) for finding in findings if finding.severity is Severity.WARNING]
    if facts is None:
        return UploadVerdict(tuple(violations), tuple(warnings), None)
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
        if not violations:  # otherwise it was reported above, in more detail
            violations.append(Violation("unsound-archive", error.message, filename))
    if facts.metadata:
        metadata_violations, metadata_warnings = _metadata_violations(
            facts.metadata, f"{filename}: METADATA"
        )
        violations += metadata_violations
        warnings += metadata_warnings
    new = record(
        project=name.name,
        version=name.version,
        folded=str(name).lower(),
        label=name.label,
        requires_python=header_value(facts.metadata, "Requires-Python"),
        metadata=facts.metadata,
        document=document,
    )
    return UploadVerdict(tuple(dict.fromkeys(violations)), tuple(dict.fromkeys(warnings)), new)


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
    """Yield violations of rules that only the public registry has."""
    filename = wheel.filename.text
    expected = "-".join(filename.split("-")[:2]) + ".dist-info"
    if wheel.dist_info != expected:
        message = f"its folder is {wheel.dist_info}, and not {expected} as in the file name"
        yield Violation("dist-info-spelling", message, filename)
    with_descriptor = [member.name for member in wheel.members if member.flags & _DATA_DESCRIPTOR]
    if with_descriptor:
        message = f"{with_descriptor[0]} has its size behind its data (a data descriptor)"
        yield Violation("data-descriptor", message, filename)
    for path in license_files(wheel.metadata()):
        if f"{wheel.dist_info}/licenses/{path}" not in wheel:
            message = f"METADATA names the licence {path}, and there is no licenses/{path}"
            yield Violation("missing-license", message, f"{filename}: METADATA")
    if f"{wheel.dist_info}/entry_points.txt" in wheel:
        text = wheel.read(f"{wheel.dist_info}/entry_points.txt")
        yield from _entry_point_violations(text, f"{filename}: entry_points.txt")


def _entry_point_violations(text: bytes, where: str) -> Iterator[Violation]:
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # as documented
    try:
        parser.read_string(text.decode("utf-8"))
    except (configparser.Error, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        yield Violation("bad-entry-points", f"it is not an INI file: {reason[:300]}", where)
        return
    for group in parser.sections():
        for name in parser[group]:
            # Names of scripts were checked already.
            if group not in _SCRIPT_GROUPS and not name.isprintable():
                yield Violation("bad-entry-points", f"{name!r} is not a name in {group}", where)


# --- metadata -----------------------------------------------------------------------------


def _metadata_violations(
    data: bytes, where: str
) -> tuple[tuple[Violation, ...], tuple[Violation, ...]]:
    """Compare metadata with its specification; return violations and warnings."""
    if (control := _CONTROL.search(data)) is not None:
        line = data.count(b"\n", 0, control.start()) + 1
        code_point = ord(control[0].decode())
        message = f"the metadata has the control character U+{code_point:04X} in line {line}"
        return (Violation("invalid-metadata", message, where),), ()
    try:
        raw, unparsed = parse_email(data)
    except RecursionError:  # messages within messages, thousands of them
        return (Violation("invalid-metadata", "the metadata cannot be read", where),), ()
    violations = [
        Violation("invalid-metadata", f"the field {name[:80]!r} cannot be read", where)
        for name in sorted(unparsed)
        if name in _SINGLE_FIELDS
    ]
    # Dependencies of wheels were read already, by rules for variant markers.
    raw.pop("requires_dist", None)
    warnings: list[Violation] = []
    if raw.get("metadata_version") == _UNPUBLISHED_VERSION:
        message = f"the metadata has version {_UNPUBLISHED_VERSION}, which was never agreed on"
        warnings.append(Violation("invalid-metadata", message, where))
        raw["metadata_version"] = "2.1"
    if has_too_many_digits(raw.get("requires_python", "")):
        message = "a number in Requires-Python has too many digits for installers"
        violations.append(Violation("invalid-metadata", message, where))
    for field in ("requires_python", "description_content_type"):
        # Before it is read: the time and memory for that grow faster than the text.
        if len(str(raw.get(field, ""))) > _LONGEST_FIELD:
            name = field.replace("_", "-")
            message = f"{name} has more than {_LONGEST_FIELD} characters"
            violations.append(Violation("invalid-metadata", message, where))
            raw.pop(field)  # type: ignore[misc]  # a key of the TypedDict
    try:
        Metadata.from_raw(raw, validate=True)
    except ExceptionGroup as group:
        for error in group.exceptions:
            if not isinstance(error, InvalidMetadata):
                raise
            violation = Violation("invalid-metadata", str(error)[:500], where)
            # Usual in wheels of a few years ago, and interpreted by all tools as intended.
            (warnings if _NEW_FIELD in str(error) else violations).append(violation)
    return tuple(violations), tuple(warnings)


def provenance_of(text: str, filename: str, sha256: str) -> CheckedProvenance:
    """Verify attestations, and return the ``.provenance`` of a file.

    Unverifiable attestations are refused and never served, because clients trust the index.

    :param text: a list of attestations as JSON; empty: there are none.
    :return: the document, None without attestations; and violations.
    """
    if not text:
        return None, ()
    try:
        return make_provenance(text.encode(), filename, sha256), ()
    except (AttestationProblem, UserError) as error:
        return None, (Violation("bad-attestation", error.message, filename),)


def license_files(metadata: bytes) -> tuple[str, ...]:
    r"""Return the paths of licences that must exist; before version 2.4 the paths were undefined.

    >>> license_files(b"Metadata-Version: 2.4\nName: x\nVersion: 1\nLicense-File: LICENSE\n")
    ('LICENSE',)
    """
    version = header_value(metadata, "Metadata-Version") or ""
    major, _, minor = version.partition(".")
    if not (major.isdecimal() and minor.isdecimal()) or (int(major), int(minor)) < _PATHS_SINCE:
        return ()
    try:
        return read_metadata(metadata, "").license.files
    except InvalidWheel:
        return ()  # other checks report it


class SdistFacts(NamedTuple):
    """The facts of a source distribution."""

    name: NormalizedName
    version: Version
    usual_name: str
    """The name of the file by PEP 625."""
    metadata: bytes


def check_sdist(path: Path, filename: str) -> tuple[tuple[Violation, ...], SdistFacts | None]:
    """Check a source distribution, which is unpacked beside its file.

    :return: violations and facts; None if too little could be read.
    """
    release = sdist_release(filename)
    if release is None:
        message = "a source distribution is named name-version.tar.gz or name-version.zip"
        return (Violation("invalid-filename", message, filename),), None
    max_size = max(_SAFE_SIZE, _LARGEST_RATIO * path.stat().st_size)
    with tempfile.TemporaryDirectory(dir=path.parent, ignore_cleanup_errors=True) as folder:
        try:
            top = unpack_archive(
                path,
                Path(folder),
                filename,
                where=filename,
                limits=ArchiveLimits(size=max_size, members=_MOST_MEMBERS),
            )
        except InvalidSource as error:
            message = error.message if error.note is None else f"{error.message}: {error.note}"
            return (Violation("unsound-archive", message[:1000], filename),), None
        except FileProblem as error:
            raise StorageUnavailable(error.message, where=filename) from error
        return _check_folder(top, filename, *release)


def _check_folder(
    top: Path, filename: str, name: NormalizedName, version: Version
) -> tuple[tuple[Violation, ...], SdistFacts | None]:
    violations = []
    stem = filename.removesuffix(".zip").removesuffix(".tar.gz")
    if top.name != stem:
        message = f"its folder is {top.name}, and not {stem} as in the file name"
        violations.append(Violation("wrong-folder", message, filename))
    pkg_info = top / "PKG-INFO"
    if pkg_info.is_symlink() or not pkg_info.is_file():
        message = f"it has no {top.name}/PKG-INFO"
        return (*violations, Violation("wrong-metadata", message, filename)), None
    if pkg_info.stat().st_size > MAX_METADATA_SIZE:
        message = f"its PKG-INFO has more than {MAX_METADATA_SIZE} bytes"
        return (*violations, Violation("wrong-metadata", message, filename)), None
    metadata = pkg_info.read_bytes()
    where = f"{filename}: PKG-INFO"
    try:
        core = read_metadata(metadata, filename)
    except InvalidWheel as error:
        return (*violations, Violation("wrong-metadata", error.message, where)), None
    if core.name != name:
        message = f"the name is {core.name}, in the file name {name}"
        violations.append(Violation("wrong-metadata", message, where))
    if core.version != version:
        message = f"the version is {core.version}, in the file name {version}"
        violations.append(Violation("wrong-metadata", message, where))
    violations += _dependency_violations(core, where)
    violations += _license_violations(top, metadata, where)
    ending = filename[len(stem) :]
    expected = f"{name.replace('-', '_')}-{version}{ending}"
    return tuple(violations), SdistFacts(name, version, expected, metadata)


def _dependency_violations(core: CoreMetadata, where: str) -> Iterator[Violation]:
    """Yield dependencies that other installers cannot read, variant markers among them (F-109)."""
    for text in core.requires_texts:
        try:
            parse_requirement(text, allow_variant_markers=False)
        except InvalidRequirement as error:
            message = f"{shortened(text, _LONGEST_SHOWN)!r}: {error.message}"
            yield Violation("invalid-requirement", message, where)


def _license_violations(top: Path, metadata: bytes, where: str) -> Iterator[Violation]:
    for path in license_files(metadata):
        # A path that leads elsewhere is not followed, not even for a check.
        fault = path_fault(path) or windows_fault(path)
        if fault or not (top / path).is_file():
            yield Violation("missing-license", f"unknown licence {path[:300]!r}", where)
