"""Acceptance of uploads, with all violations of those refused."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging.specifiers import InvalidSpecifier
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from wheelfit.core.filename import parse_index_file_name
from wheelfit.core.versions import parse_specifiers, parse_version
from wheelfit.errors import AttestationProblem, UploadRefused
from wheelfit.server.store.database import timestamp
from wheelfit.server.store.project_rules import NO_RULES
from wheelfit.server.store.records import PUBLISHED, Violation, violations_of
from wheelfit.server.uploads.rules import check_file, check_name, provenance_of
from wheelfit.sources.attestations import verify_provenance
from wheelfit.sources.page import time_of_upload
from wheelfit_runtime.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from typing import TypeAlias

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.server.store.blobs import Draft
    from wheelfit.server.store.opening import Store
    from wheelfit.server.store.project_rules import ProjectRules
    from wheelfit.server.store.records import NewFile
    from wheelfit.server.uploads.form import Upload
    from wheelfit.sources.page import File

    _Compared: TypeAlias = tuple[bytes | None, tuple[Violation, ...]]


_MOST = 100
"""Violations in an answer; a hostile archive may have a million."""


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


def accept(
    upload: Upload,
    store: Store,
    *,
    now: datetime,
    stage: str = PUBLISHED,
    by: str | None = None,
    rules: ProjectRules = NO_RULES,
) -> AcceptedUpload | tuple[Violation, ...]:
    """Check an upload, keep its bytes, and record it; or return all violations.

    First the bytes, durably, then the record: a process that is killed in between leaves bytes
    that `wheelfit.server.store.opening.clean` removes. Permissions were checked before.

    :param stage: where it waits; by default it is published at once.
    :param rules: the rules for its project, which the form names.
    :return: the accepted upload; or at least one violation, and nothing has changed.
    :raises StorageUnavailable: it cannot be kept now; repeating the upload is right.
    """
    violations = tuple(_form_violations(upload))
    if wrong := check_name(upload.filename):
        if parse_index_file_name(upload.filename) is not None and not violations:
            return _index_file(upload, store, stage)
        return (*violations, *wrong)
    if rules.max_file_size is not None and upload.draft.size > rules.max_file_size:
        message = f"it has more than the {rules.max_file_size} bytes that its project allows"
        return (*violations, Violation("too-large", message, upload.filename))

    def compare(new: NewFile) -> _Compared:
        provenance, more = provenance_of(upload.first("attestations"), new.filename, new.sha256)
        return provenance, (*_metadata_violations(upload, new), *more)

    return _accept(
        upload.draft,
        upload.filename,
        store,
        violations,
        compare,
        uploaded=timestamp(now),
        stage=stage,
        by=by,
        rules=rules,
    )


def accept_listed(
    draft: Draft,
    file: File,
    store: Store,
    *,
    provenance: bytes | None = None,
    now: datetime,
    by: str | None = None,
) -> AcceptedUpload | tuple[Violation, ...]:
    """Accept a file of another index like an upload, with its time of upload and its yank.

    :param draft: its content.
    :param file: its entry in that index, which has to agree with it.
    :param provenance: the provenance of the file on that index; None: nothing.
    :param by: an owner of the project, as for `accept`.
    :return: as `accept`.
    :raises StorageUnavailable: it cannot be kept now.
    """

    def compare(new: NewFile) -> _Compared:
        return provenance, (*_entry_violations(file, new), *_provenance_violations(provenance, new))

    uploaded = min(time_of_upload(file) or now, now)
    result = _accept(draft, file.filename, store, (), compare, uploaded=timestamp(uploaded), by=by)
    if isinstance(result, AcceptedUpload) and file.yanked is not None:
        store.records.yank([file.filename], file.yanked, time=timestamp(now))
    return result


def _accept(
    draft: Draft,
    filename: str,
    store: Store,
    violations: tuple[Violation, ...],
    compare: Callable[[NewFile], _Compared],
    *,
    uploaded: str,
    stage: str = PUBLISHED,
    by: str | None,
    rules: ProjectRules = NO_RULES,
) -> AcceptedUpload | tuple[Violation, ...]:
    """Check a file, store its bytes, and record it; or return all violations.

    :param violations: violations found before.
    :param compare: returns the provenance of a file, and its differences from the form.
    :param uploaded: the time of its upload, in RFC 3339.
    """
    verdict = check_file(
        draft.path, filename, sha256=draft.sha256, size=draft.size, uploaded=uploaded
    )
    violations += verdict.violations
    new = verdict.file
    if new is None:
        return _bounded(violations)
    provenance, more = compare(new)
    violations += more
    new = replace(new, provenance=provenance)
    is_new = True
    try:
        is_new = store.records.check(new, stage=stage, by=by, rules=rules)
    except UploadRefused as error:
        violations += violations_of(error)
    if violations:
        return _bounded(violations)
    try:
        is_new = is_new and _keep(draft, new, store, stage, by, rules)
    except UploadRefused as error:  # another upload was quicker
        return violations_of(error)
    return AcceptedUpload(new.filename, new.project, new.version, is_new, verdict.warnings)


def _keep(
    draft: Draft, new: NewFile, store: Store, stage: str, by: str | None, rules: ProjectRules
) -> bool:
    def keep() -> None:
        # It may have been cleaned up in this very moment, as the leftover of another upload.
        if store.blobs.size(new.sha256) != new.size:
            store.blobs.keep(draft)

    store.blobs.keep(draft)
    return store.records.add(new, keep=keep, stage=stage, by=by, rules=rules)


def _bounded(violations: tuple[Violation, ...]) -> tuple[Violation, ...]:
    """Return the first of many violations, and one with the number of the others."""
    left_out = len(violations) - _MOST
    if left_out <= 0:
        return violations
    where = violations[_MOST].where
    return (*violations[:_MOST], Violation("and-more", f"{left_out} more violations", where))


def _index_file(upload: Upload, store: Store, stage: str) -> AcceptedUpload | tuple[Violation, ...]:
    """Accept the document of a release if it is equal to that of its wheels (F-74)."""
    release = parse_index_file_name(upload.filename)
    document = store.records.release_document(upload.filename, stage)
    if release is None or document is None or document.sha256 != upload.draft.sha256:
        message = (
            "it differs from what the index makes of the wheels; "
            "it need not be uploaded, only the wheels (F-74)"
        )
        return (Violation("differs-from-wheels", message, upload.filename[:255]),)
    return AcceptedUpload(upload.filename, *release, is_new=False)


_HASHES = ("sha256", "sha384", "sha512")
_KINDS = {"bdist_wheel": (".whl",), "sdist": (".tar.gz", ".zip")}


def _form_violations(upload: Upload) -> Iterator[Violation]:
    """Yield violations of the form itself."""
    for name, wanted in ((":action", "file_upload"), ("protocol_version", "1")):
        if upload.first(name) != wanted:
            yield Violation("bad-form", f"it should be {wanted}", f"the form: {name}")
    kind = upload.first("filetype")
    endings = _KINDS.get(kind)
    if endings is None:
        message = f"{kind[:40]!r} is neither bdist_wheel nor sdist"
        yield Violation("wrong-filetype", message, "the form: filetype")
    elif not upload.filename.endswith((*endings, "-variants.json")):
        message = f"a file of the type {kind} ends with {' or '.join(endings)}"
        yield Violation("wrong-filetype", message, "the form: filetype")
    yield from _digest_violations(upload)


def _digest_violations(upload: Upload) -> Iterator[Violation]:
    draft = upload.draft
    promised = {"sha256_digest": draft.sha256, "blake2_256_digest": draft.blake2_256}
    if not any(upload.first(name) for name in promised):
        message = "there is neither a sha256_digest nor a blake2_256_digest to compare"
        yield Violation("no-digest", message, "the form")
    if upload.first("md5_digest"):
        promised["md5_digest"] = _md5(upload)
    for name, actual in promised.items():
        for digest in upload.fields.get(name, ()):
            if digest.strip() and not hmac.compare_digest(
                digest.strip().lower().encode(), actual.encode()
            ):
                message = f"it promises {digest.strip()[:128]!r}, what came has {actual}"
                yield Violation("hash-mismatch", message, f"the form: {name}")


def _md5(upload: Upload) -> str:
    # It proves nothing, but a wrong one indicates a broken transfer or client.
    with upload.draft.path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _metadata_violations(upload: Upload, new: NewFile) -> Iterator[Violation]:
    """Yield differences between the form and the file, which would be used silently."""
    name, version = upload.first("name"), upload.first("version")
    if canonicalize_name(name) != new.project:
        message = f"the form says {name[:80]!r}, the file {new.project!r}"
        yield Violation("form-disagrees", message, "the form: name")
    try:
        same = parse_version(version) == new.version
    except InvalidVersion:
        same = False
    if not same:
        message = f"the form says {version[:80]!r}, the file {str(new.version)!r}"
        yield Violation("form-disagrees", message, "the form: version")
    python = upload.first("requires_python")
    if python and not _same_specifiers(python, new.requires_python or ""):
        message = f"the form says {python[:80]!r}, the file {new.requires_python!r}"
        yield Violation("form-disagrees", message, "the form: requires_python")


def _entry_violations(file: File, new: NewFile) -> Iterator[Violation]:
    """Yield differences between the entry of another index and the file."""
    python = (file.requires_python or "").strip()
    if python and not _same_specifiers(python, new.requires_python or ""):
        message = f"the page has Requires-Python {python[:80]!r}, the file {new.requires_python!r}"
        yield Violation("page-disagrees", message, new.filename)
    for name, promised in (file.metadata_hashes or {}).items():
        if new.metadata is None or name not in _HASHES:
            continue
        if hashlib.new(name, new.metadata, usedforsecurity=False).hexdigest() != promised:
            message = f"the page promises METADATA with {name} {promised[:128]}, which it has not"
            yield Violation("page-disagrees", message, new.filename)


def _provenance_violations(provenance: bytes | None, new: NewFile) -> Iterator[Violation]:
    try:
        if provenance is not None:
            verify_provenance(provenance, new.filename, new.sha256)
    except (AttestationProblem, UserError) as error:
        yield Violation("bad-attestation", error.message, new.filename)


def _same_specifiers(one: str, other: str) -> bool:
    try:
        return parse_specifiers(one) == parse_specifiers(other)
    except InvalidSpecifier:
        return one == other.strip()
