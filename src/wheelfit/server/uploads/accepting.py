"""Acceptance of uploads; a refusal lists all violations."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier
from packaging.utils import NormalizedName, canonicalize_name

from wheelfit.core.filename import parse_index_file_name
from wheelfit.core.versions import parse_specifiers, version_of
from wheelfit.errors import AttestationProblem, UploadRefused
from wheelfit.server.store.database import timestamp
from wheelfit.server.store.project_rules import NO_RULES, ProjectRules
from wheelfit.server.store.records import PUBLISHED, NewFile, Violation, violations_of
from wheelfit.server.uploads.rules import check_file, check_name, provenance_of
from wheelfit.sources.attestations import verify_provenance
from wheelfit.sources.page import File, time_of_upload
from wheelfit_runtime.errors import UserError
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from typing import TypeAlias

    from packaging.version import Version

    from wheelfit.server.store.blobs import Draft
    from wheelfit.server.store.opening import Store
    from wheelfit.server.uploads.form import Upload

    _Comparison: TypeAlias = tuple[bytes | None, tuple[Violation, ...]]


_MAX_VIOLATIONS = 100
"""Violations in a response; a hostile archive may have a million."""
_HASHES = ("sha256", "sha384", "sha512")
_SUFFIXES_BY_TYPE = {"bdist_wheel": (".whl",), "sdist": (".tar.gz", ".zip")}


@dataclass(frozen=True, slots=True)
class AcceptedUpload:
    """An accepted upload."""

    filename: str
    project: NormalizedName
    version: Version
    is_new: bool
    """False: the very same file was there already."""
    warnings: tuple[Violation, ...] = ()
    """Likely mistakes that are allowed."""


def accept_upload(
    upload: Upload,
    store: Store,
    *,
    now: datetime,
    stage: str = PUBLISHED,
    uploader: str | None = None,
    rules: ProjectRules = NO_RULES,
) -> AcceptedUpload | tuple[Violation, ...]:
    """Check an upload, store its bytes, and record it; or return all violations.

    First the bytes, durably, then the record: a process that is killed in between leaves bytes
    that `wheelfit.server.store.opening.clean` removes. Permissions were checked before.

    :param stage: the stage for the file; by default it is published at once.
    :param rules: the rules for its project, which the form names.
    :return: the accepted upload; or at least one violation, and nothing has changed.
    :raises StorageUnavailable: it cannot be stored now; the client may repeat the upload.
    """
    violations = tuple(_form_violations(upload))
    if name_violations := check_name(upload.filename):
        if parse_index_file_name(upload.filename) is not None and not violations:
            return _index_file(upload, store, stage)
        return (*violations, *name_violations)
    if rules.max_file_size is not None and upload.draft.size > rules.max_file_size:
        message = f"it has more than the {rules.max_file_size} bytes that its project allows"
        return (*violations, Violation("too-large", message, upload.filename))

    def compare(file: NewFile) -> _Comparison:
        text = upload.first("attestations")
        provenance, faults = provenance_of(text, file.filename, file.sha256)
        return provenance, (*_metadata_violations(upload, file), *faults)

    return _accept(
        upload.draft,
        upload.filename,
        store,
        violations,
        compare,
        uploaded=timestamp(now),
        stage=stage,
        uploader=uploader,
        rules=rules,
    )


def accept_from_index(
    draft: Draft,
    entry: File,
    store: Store,
    *,
    provenance: bytes | None = None,
    now: datetime,
    uploader: str | None = None,
) -> AcceptedUpload | tuple[Violation, ...]:
    """Accept a file of another index like an upload, with its time of upload and its yank.

    :param draft: its content.
    :param entry: its entry in that index, which has to agree with it.
    :param provenance: the provenance of the file on that index; None: there is none.
    :param uploader: an owner of the project, as for `accept_upload`.
    :return: as `accept_upload`.
    :raises StorageUnavailable: it cannot be stored now.
    """

    def compare(file: NewFile) -> _Comparison:
        differences = (*_entry_violations(entry, file), *_provenance_violations(provenance, file))
        return provenance, differences

    time = timestamp(min(time_of_upload(entry) or now, now))
    result = _accept(draft, entry.filename, store, (), compare, uploaded=time, uploader=uploader)
    if isinstance(result, AcceptedUpload) and entry.yanked is not None:
        store.records.yank([entry.filename], entry.yanked)
    return result


def _accept(
    draft: Draft,
    filename: str,
    store: Store,
    violations: tuple[Violation, ...],
    compare: Callable[[NewFile], _Comparison],
    *,
    uploaded: str,
    stage: str = PUBLISHED,
    uploader: str | None,
    rules: ProjectRules = NO_RULES,
) -> AcceptedUpload | tuple[Violation, ...]:
    """Check a file, store its bytes, and record it; or return all violations.

    :param compare: returns the provenance of a file, and its differences from the form.
    :param uploaded: the time of its upload, in RFC 3339.
    """
    verdict = check_file(
        draft.path, filename, sha256=draft.sha256, size=draft.size, uploaded=uploaded
    )
    violations += verdict.violations
    file = verdict.file
    if file is None:
        return _bounded(violations)
    provenance, differences = compare(file)
    violations += differences
    file = replace(file, provenance=provenance)
    is_new = True
    try:
        is_new = store.records.check(file, stage=stage, uploader=uploader, rules=rules)
    except UploadRefused as error:
        violations += violations_of(error)
    if violations:
        return _bounded(violations)
    try:
        is_new = is_new and _store(draft, file, store, stage, uploader, rules)
    except UploadRefused as error:  # another upload was quicker
        return violations_of(error)
    return AcceptedUpload(file.filename, file.project, file.version, is_new, verdict.warnings)


def _store(
    draft: Draft, file: NewFile, store: Store, stage: str, uploader: str | None, rules: ProjectRules
) -> bool:
    def save() -> None:
        # Another process may have cleaned it up just now, as the leftover of an upload.
        if store.blobs.size(file.sha256) != file.size:
            store.blobs.save(draft)

    store.blobs.save(draft)
    return store.records.add(file, save=save, stage=stage, uploader=uploader, rules=rules)


def _bounded(violations: tuple[Violation, ...]) -> tuple[Violation, ...]:
    """Return the first of many violations, and one with the number of the others."""
    others = violations[_MAX_VIOLATIONS:]
    if not others:
        return violations
    summary = Violation("and-more", count_of(len(others), "more violation"), others[0].where)
    return (*violations[:_MAX_VIOLATIONS], summary)


def _index_file(upload: Upload, store: Store, stage: str) -> AcceptedUpload | tuple[Violation, ...]:
    """Accept the document of a release if it is equal to that of its wheels (F-74)."""
    release = parse_index_file_name(upload.filename)
    document = store.records.release_document(upload.filename, stage)
    if release is None or document is None or document.sha256 != upload.draft.sha256:
        message = (
            "it differs from the document that the index makes from the wheels; "
            "upload the wheels alone (F-74)"
        )
        return (Violation("differs-from-wheels", message, upload.filename[:255]),)
    return AcceptedUpload(upload.filename, *release, is_new=False)


def _form_violations(upload: Upload) -> Iterator[Violation]:
    """Yield violations of the form itself."""
    for name, expected in ((":action", "file_upload"), ("protocol_version", "1")):
        if upload.first(name) != expected:
            yield Violation("bad-form", f"it should be {expected}", f"the form: {name}")
    kind = upload.first("filetype")
    endings = _SUFFIXES_BY_TYPE.get(kind)
    if endings is None:
        message = f"{kind[:40]!r} is neither bdist_wheel nor sdist"
        yield Violation("wrong-filetype", message, "the form: filetype")
    elif not upload.filename.endswith((*endings, "-variants.json")):
        message = f"a file of the type {kind} ends with {' or '.join(endings)}"
        yield Violation("wrong-filetype", message, "the form: filetype")
    yield from _digest_violations(upload)


def _digest_violations(upload: Upload) -> Iterator[Violation]:
    draft = upload.draft
    actual_digests = {"sha256_digest": draft.sha256, "blake2_256_digest": draft.blake2_256}
    if not any(upload.first(name) for name in actual_digests):
        message = "there is neither a sha256_digest nor a blake2_256_digest to compare"
        yield Violation("no-digest", message, "the form")
    if upload.first("md5_digest"):
        actual_digests["md5_digest"] = _md5(upload)
    for name, actual in actual_digests.items():
        for digest in upload.fields.get(name, ()):
            if digest.strip() and not hmac.compare_digest(
                digest.strip().lower().encode(), actual.encode()
            ):
                message = f"it is {digest.strip()[:128]!r}, the received file has {actual}"
                yield Violation("hash-mismatch", message, f"the form: {name}")


def _md5(upload: Upload) -> str:
    # It proves nothing, but a wrong one indicates a broken transfer or client.
    with upload.draft.path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _metadata_violations(upload: Upload, file: NewFile) -> Iterator[Violation]:
    """Yield values of the form that differ from the metadata of the file."""
    name, version = upload.first("name"), upload.first("version")
    if canonicalize_name(name) != file.project:
        message = f"the form says {name[:80]!r}, the file {file.project!r}"
        yield Violation("form-disagrees", message, "the form: name")
    if version_of(version) != file.version:
        message = f"the form says {version[:80]!r}, the file {str(file.version)!r}"
        yield Violation("form-disagrees", message, "the form: version")
    requires_python = upload.first("requires_python")
    if requires_python and not _same_specifiers(requires_python, file.requires_python or ""):
        message = f"the form says {requires_python[:80]!r}, the file {file.requires_python!r}"
        yield Violation("form-disagrees", message, "the form: requires_python")


def _entry_violations(entry: File, file: NewFile) -> Iterator[Violation]:
    """Yield differences between the entry of another index and the file."""
    listed = (entry.requires_python or "").strip()
    if listed and not _same_specifiers(listed, file.requires_python or ""):
        message = f"the page has Requires-Python {listed[:80]!r}, the file {file.requires_python!r}"
        yield Violation("page-disagrees", message, file.filename)
    for name, expected in (entry.metadata_hashes or {}).items():
        if file.metadata is None or name not in _HASHES:
            continue
        if hashlib.new(name, file.metadata, usedforsecurity=False).hexdigest() != expected:
            message = f"METADATA does not match the {name} on the page: {expected[:128]}"
            yield Violation("page-disagrees", message, file.filename)


def _provenance_violations(provenance: bytes | None, file: NewFile) -> Iterator[Violation]:
    try:
        if provenance is not None:
            verify_provenance(provenance, file.filename, file.sha256)
    except (AttestationProblem, UserError) as error:
        yield Violation("bad-attestation", error.message, file.filename)


def _same_specifiers(first: str, second: str) -> bool:
    try:
        return parse_specifiers(first) == parse_specifiers(second)
    except InvalidSpecifier:
        return first == second.strip()
