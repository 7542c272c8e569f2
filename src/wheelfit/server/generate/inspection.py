"""Hash and check files, several at a time, and combine documents (F-60 to F-74)."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name, parse_sdist_filename

from wheelfit.checking import checks
from wheelfit.checking.checks import CHECKS
from wheelfit.checking.findings import Finding, Location, Severity
from wheelfit.checking.releases import contradiction_finding
from wheelfit.checking.wheels.wheel import check_wheel
from wheelfit.core.filename import WheelFilename, index_file_name
from wheelfit.core.index_metadata import combine, contradictions, read_wheel_document
from wheelfit.core.labels import NULL
from wheelfit.core.metadata import read_document, write_document
from wheelfit.server.generate.collection import CollectedFile, unreadable_file
from wheelfit.server.generate.file_facts import FileFacts
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.bytes_source import BytesInMemory
from wheelfit.wheels.dist_info import header_value
from wheelfit.wheels.processors import processor_count
from wheelfit_runtime.errors import FileProblem, InvalidDocument, InvalidWheel, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from wheelfit.core.document import VariantDocument
    from wheelfit.sources.progress import Progress


_MAX_THREADS = 8
_LARGE = 1 << 20
"""Bytes from which a file is hashed in pieces, and in parallel to others."""
_MAX_IN_MEMORY = 5_000
"""Files whose METADATA and documents are kept until the index is written."""
_REMEDY = "build the file again with a current build tool"
_MAX_MEMBERS = 5_000
"""Members of a source distribution among which ``PKG-INFO`` is searched."""
_LARGEST_METADATA = 4 << 20


def inspect_all(
    archives: Iterable[CollectedFile], *, check_content: bool, progress: Progress
) -> Iterator[tuple[CollectedFile, FileFacts]]:
    """Inspect files, some at the same time, the largest first."""
    ordered = sorted(archives, key=lambda archive: (-archive.size, archive.name))
    if not ordered:
        return
    progress.start(sum(archive.size for archive in ordered))
    large = [archive for archive in ordered if archive.size >= _LARGE]
    with ThreadPoolExecutor(min(_MAX_THREADS, processor_count())) as pool:
        # Hashing releases the interpreter lock; the rest does not, so threads would not help.
        inspections = chain(
            pool.map(lambda archive: inspect(archive, check_content=check_content), large),
            (inspect(archive, check_content=check_content) for archive in ordered[len(large) :]),
        )
        for count, (archive, facts) in enumerate(zip(ordered, inspections, strict=True)):
            progress.advance(archive.size)
            # They can be read again; those of a hundred thousand wheels would fill the memory.
            is_kept = count < _MAX_IN_MEMORY
            yield archive, facts if is_kept else replace(facts, metadata=None, document=None)
    progress.done()


def inspect(archive: CollectedFile, *, check_content: bool = False) -> FileFacts:
    """Inspect a wheel or a source distribution.

    :param check_content: whether to unpack and hash every member of a wheel; otherwise RECORD is
        compared with the central directory.
    :raises FileProblem: it cannot be read, or changes meanwhile.
    """
    try:
        source: Path | BytesInMemory = archive.path
        with archive.path.open("rb", buffering=0) as file:
            if archive.size < _LARGE:
                data = file.read()
                digest = hashlib.sha256(data).hexdigest()
                source = BytesInMemory(data)
            else:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        if archive.filename.endswith(".whl"):
            facts = _wheel_facts(archive, source, digest, check_content=check_content)
        else:
            facts = _sdist_facts(archive, digest)
    except OSError as error:
        raise unreadable_file(archive.path, error) from error
    if archive.reread().signature != archive.signature:
        raise FileProblem(
            "the file changed while it was read",
            where=str(archive.path),
            hint="generate the index when all files are complete",
        )
    return facts


def _wheel_facts(
    wheel: CollectedFile, source: Path | BytesInMemory, digest: str, *, check_content: bool
) -> FileFacts:
    findings, content = check_wheel(source, wheel.filename, where=wheel.name)
    faults = [finding for finding in findings if finding.severity is Severity.ERROR]
    metadata = b"" if content is None else content.metadata
    if check_content:
        faults = _upload_faults(wheel, digest)
    return FileFacts(
        digest,
        header_value(metadata, "Requires-Python") if metadata else None,
        hashlib.sha256(metadata).hexdigest() if metadata else None,
        len(metadata),
        tuple(faults),
        metadata or None,
        None if content is None or faults else content.document,
    )


def _upload_faults(archive: CollectedFile, digest: str) -> list[Finding]:
    """Return the reasons for which a live index refuses an upload."""
    from wheelfit.server.uploads.rules import check_file

    verdict = check_file(archive.path, archive.filename, sha256=digest, size=archive.size)
    findings = []
    for violation in verdict.violations:
        check = CHECKS.get(violation.reference)
        rule, remedy = (check.rule, check.remedy) if check else ("F-131", _REMEDY)
        findings.append(
            Finding(
                Severity.ERROR, violation.reference, rule, archive.name, violation.message, remedy
            )
        )
    return findings


def _sdist_facts(archive: CollectedFile, digest: str) -> FileFacts:
    import tarfile
    import zipfile
    import zlib

    location = Location(archive.name)
    try:
        # The version of the file name is used: projects write 1.0 and mean 1.0.0.
        name, _ = parse_sdist_filename(archive.filename)
    except ValueError as error:
        fault = location.finding(checks.INVALID_FILENAME, str(error)[:200])
        return FileFacts(digest, findings=(fault,))
    try:
        metadata = _read_package_info(archive)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
        fault = location.finding(checks.UNSOUND_ARCHIVE, f"it is not an archive: {error}")
        return FileFacts(digest, findings=(fault,))
    if metadata is None:
        return FileFacts(digest)  # old ones have none, so the file name is used
    metadata_name = header_value(metadata, "Name")
    if metadata_name is not None and canonicalize_name(metadata_name) != name:
        fault = location.inside("PKG-INFO").finding(
            checks.WRONG_METADATA, f"the name is {metadata_name}, in the file name {name}"
        )
        return FileFacts(digest, findings=(fault,))
    return FileFacts(digest, header_value(metadata, "Requires-Python"))


def _read_package_info(sdist: CollectedFile) -> bytes | None:
    """Read ``PKG-INFO`` at the top of a source distribution; None if it has none."""
    import tarfile
    import zipfile

    if sdist.filename.endswith(".zip"):
        with zipfile.ZipFile(sdist.path) as archive:
            for member in archive.infolist()[:_MAX_MEMBERS]:
                if _is_package_info(member.filename) and member.file_size <= _LARGEST_METADATA:
                    return archive.read(member)
        return None
    with tarfile.open(sdist.path, "r|gz") as archive:
        for entry in islice(archive, _MAX_MEMBERS):
            if _is_package_info(entry.name) and entry.size <= _LARGEST_METADATA:
                with suppress(KeyError):  # a link to a file that the archive does not have
                    file = archive.extractfile(entry)
                    return None if file is None else file.read()
    return None


def _is_package_info(name: str) -> bool:
    return name.removeprefix("./").count("/") == 1 and name.endswith("/PKG-INFO")


def provenance_fault(data: bytes, filename: str, sha256: str) -> str | None:
    """Return the reason why a provenance cannot be published; None if it can.

    Signatures are verified by installers; here it only has to match this file.
    """
    import base64

    try:
        document = json.loads(data)
        attestations = [
            attestation
            for bundle in document["attestation_bundles"]
            for attestation in bundle["attestations"]
        ]
        if document["version"] != 1 or not attestations:
            return "it is not a provenance object with attestations (PEP 740)"
        for attestation in attestations:
            statement = json.loads(base64.b64decode(attestation["envelope"]["statement"]))
            subjects = [(item["name"], item["digest"]["sha256"]) for item in statement["subject"]]
            if (filename, sha256) not in subjects:
                return "an attestation in it is about another file"
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return "it is not a provenance object (PEP 740)"
    return None


@dataclass(frozen=True, slots=True)
class VariantWheel:
    """A wheel with a label."""

    file: CollectedFile
    filename: WheelFilename
    document: VariantDocument | None = None
    """Its ``variant.json``, if that was just read."""


def combined_document(wheels: Sequence[VariantWheel]) -> tuple[bytes | None, tuple[Finding, ...]]:
    """Return the document of a release, or why there can be none (F-65).

    :param wheels: all variant wheels of one release, each sound by itself.
    """
    ordered = sorted(wheels, key=lambda wheel: wheel.file.filename)
    # Equal bytes under the same label have the same meaning; parsing JSON takes longest.
    read: set[tuple[str, bytes]] = set()
    documents: list[tuple[str, VariantDocument]] = []
    findings: list[Finding] = []
    for wheel in ordered:
        where = wheel.file.name
        if wheel.document is not None:
            documents.append((where, wheel.document))
            continue
        with WheelArchive(wheel.file.path, wheel.filename, where=where) as archive:
            data = archive.variant_document() or b""
        label = wheel.filename.label or NULL
        if (label, data) in read:
            continue
        try:
            document = read_wheel_document(data, label, where=where)
        except InvalidWheel as error:
            location = Location(where, "variant.json")
            findings.append(location.finding(checks.WRONG_LABEL, error.message))
            continue
        read.add((label, data))
        documents.append((where, document))
    if findings:
        return None, tuple(findings)
    findings = list(map(contradiction_finding, contradictions(documents)))
    if findings:
        return None, tuple(findings)
    try:
        written = write_document(combine(documents), accept_losses=False)
    except InvalidDocument as error:
        where = index_file_name(ordered[0].filename.name, ordered[0].filename.version)
        return None, (
            Location(where).finding(checks.INCONSISTENT_WHEELS, error_in_one_line(error)),
        )
    return written, ()


def published_findings(index_file: CollectedFile, generated: bytes | None) -> Iterator[Finding]:
    """Yield differences in meaning between a variants document and the wheels (F-74).

    :param generated: the document of the wheels; None if there is none.
    """
    location = Location(index_file.name)
    if generated is None:
        yield location.finding(checks.LABEL_WITHOUT_WHEEL, "the release has no variant wheel")
        return
    try:
        document = read_document(index_file.path.read_bytes(), where=index_file.name)
    except InvalidDocument as error:
        yield location.finding(checks.UNREADABLE_DOCUMENT, error_in_one_line(error))
        return
    expected = read_document(generated, where=index_file.name)
    for key, is_equal in (
        ("default-priorities", document.priorities == expected.priorities),
        ("variants", dict(document.variants) == dict(expected.variants)),
        ("providers", dict(document.providers) == dict(expected.providers)),
    ):
        if not is_equal:
            yield location.finding(
                checks.CLAIMS_DISAGREE, f"{key} differ from those of the wheels", path=key
            )


def error_in_one_line(error: WheelfitError) -> str:
    """Return the message and the note of an error in one line."""
    return " ".join(": ".join(filter(None, (error.message, error.note))).split())
