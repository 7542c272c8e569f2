"""The rules for the files of one release, and its document, made from its wheels (F-74)."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import NormalizedName, canonicalize_version
from packaging.version import Version

from wheelfit.core.filename import index_file_name
from wheelfit.core.index_metadata import Contradiction, combine, contradictions, read_wheel_document
from wheelfit.core.labels import Label
from wheelfit.core.metadata import write_document
from wheelfit.errors import UploadRefused
from wheelfit.server.store.database import Execute, Row, insert
from wheelfit.server.store.project_rules import ProjectRules, quota_violations
from wheelfit.server.store.records import PUBLISHED, NewFile, ReleaseDocument, Violation, refusal
from wheelfit.sources.page import ACTIVE, Status
from wheelfit_runtime.errors import InvalidDocument, InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wheelfit.core.document import VariantDocument


class WheelDocument(NamedTuple):
    """The document of one variant wheel."""

    filename: str
    label: Label
    content: bytes
    """Its ``variant.json``."""


def release_document(
    wheels: Sequence[WheelDocument],
) -> tuple[bytes | None, tuple[Violation, ...]]:
    """Return the document of a release, or the violations in its wheels (F-60, F-61, F-62).

    :param wheels: the documents of all its variant wheels; without any there is no document.
    """
    if not wheels:
        return None, ()
    try:
        read = _read(wheels)
    except InvalidWheel as error:
        where = f"{error.where}: variant.json"
        return None, (Violation("invalid-document", error.message, where),)
    violations = tuple(map(_contradiction_violation, contradictions(read)))
    if violations:
        return None, violations
    try:
        return write_document(combine(read)), ()
    except InvalidDocument as error:
        message = f"the documents of the release cannot be written as one: {error.message}"
        return None, (Violation("inconsistent-variants", message, wheels[-1].filename),)


def _contradiction_violation(contradiction: Contradiction) -> Violation:
    values = "; ".join((contradiction.error.note or "").splitlines())
    where = f"{contradiction.second}: variant.json: {contradiction.path}"
    return Violation(
        "inconsistent-variants", f"{contradiction.error.message}; {values}"[:1000], where
    )


def rewrite_document(execute: Execute, project: NormalizedName, version: str) -> None:
    """Rewrite the document of a release (F-74)."""
    execute("DELETE FROM release_document WHERE project = ? AND version = ?", (project, version))
    wheels = wheels_of(execute, project, version, PUBLISHED)
    document = _document_of(execute, project, wheels)
    if document is not None:
        values = {**asdict(document), "project": project, "version": version}
        insert(execute, "release_document", **values, size=len(document.content))


def documents_of(execute: Execute, project: NormalizedName, stage: str) -> list[ReleaseDocument]:
    """Return the documents of a project as they will be when a stage is published."""
    rows = execute(
        "SELECT DISTINCT version FROM file WHERE project = ? AND stage IN ('', ?)"
        " AND document IS NOT NULL",
        (project, stage),
    )
    documents = []
    for (version,) in rows:
        # If a contradicting wheel was published meanwhile, publishing the stage reports it.
        with suppress(UploadRefused):
            document = _document_of(execute, project, wheels_of(execute, project, version, stage))
            if document is not None:
                documents.append(document)
    return documents


def _document_of(
    execute: Execute, project: NormalizedName, wheels: Sequence[WheelDocument]
) -> ReleaseDocument | None:
    """Return the document of a release; None if it has no variant wheel.

    :raises UploadRefused: its wheels contradict each other.
    """
    content, violations = release_document(wheels)
    if violations:
        raise refusal(violations)
    if content is None:
        return None
    # The version is spelled as in the first wheel.
    rows = execute("SELECT spelling FROM file WHERE filename = ?", (wheels[0].filename,))
    name = index_file_name(project, Version(rows[0][0]))
    return ReleaseDocument(name, hashlib.sha256(content).hexdigest(), content)


def wheels_of(
    execute: Execute, project: NormalizedName, version: str, stage: str
) -> list[WheelDocument]:
    """Return the documents of the variant wheels of a release that a stage sees."""
    rows = execute(
        "SELECT filename, label, document FROM file WHERE project = ? AND version = ?"
        " AND stage IN ('', ?) AND document IS NOT NULL AND label IS NOT NULL",
        (project, version, stage),
    )
    return [WheelDocument(name, Label(label), bytes(content)) for name, label, content in rows]


def _read(documents: Sequence[WheelDocument]) -> list[tuple[str, VariantDocument]]:
    """Read documents; equal ones are read once."""
    filenames: dict[tuple[Label, bytes], str] = {}
    for filename, label, content in sorted(documents):
        filenames.setdefault((label, content), filename)
    return [
        (filename, _parsed(content, label, filename))
        for (label, content), filename in filenames.items()
    ]


@lru_cache(512)  # every upload of a release reads all of its wheels again
def _parsed(content: bytes, label: Label, filename: str) -> VariantDocument:
    return read_wheel_document(content, label, where=filename)


def check_new_file(
    execute: Execute, new: NewFile, stage: str, uploader: str | None, rules: ProjectRules
) -> bool:
    """Return whether a file is new; False if it exists already.

    :raises UploadRefused: it may not be added.
    """
    violations: list[Violation] = []
    if stage != PUBLISHED and not execute("SELECT 1 FROM stage WHERE id = ?", (stage,)):
        violations.append(
            Violation("no-such-stage", "the stage was published or dropped", new.filename)
        )
    owners = owners_of(execute, new.project)
    if uploader is not None and owners and uploader not in owners:
        message = f"{new.project} belongs to others than {uploader}"
        violations.append(Violation("not-an-owner", message, new.filename))
    violations += status_violations(execute, new.project, new.filename)
    others = execute(
        "SELECT filename, sha256, stage FROM file WHERE filename = ? OR folded = ?",
        (new.filename, folded_name(new)),
    )
    if others and not violations and (new.filename, new.sha256, stage) in others:
        return False
    violations += [_name_violation(new, other, stage) for other in others]
    violations += quota_violations(execute, new, rules)
    for (deleted,) in execute(
        "SELECT filename FROM tombstone WHERE folded = ?", (folded_name(new),)
    ):
        message = f"{deleted} was deleted, and the name of a deleted file cannot be used again"
        violations.append(Violation("name-deleted", message, new.filename))
    version = canonicalize_version(new.version)
    spellings = execute(
        "SELECT DISTINCT spelling FROM file WHERE project = ? AND version = ? AND stage IN ('', ?)",
        (new.project, version, stage),
    )
    violations += [
        Violation(
            "other-spelling",
            f"the version of the release is spelled {spelling} already, not {new.version}",
            new.filename,
        )
        for (spelling,) in spellings
        if spelling != str(new.version)
    ]
    if not new.filename.endswith(".whl"):
        violations += [
            Violation(
                "second-sdist",
                f"the release has a source distribution: {other}",
                new.filename,
            )
            for other in _sources(execute, new.project, version, stage)
            if other != new.filename
        ]
    if new.document is not None and new.label is not None:
        own = WheelDocument(new.filename, new.label, new.document)
        wheels = wheels_of(execute, new.project, version, stage)
        _, contradicting = release_document(
            [*(wheel for wheel in wheels if wheel.filename != new.filename), own]
        )
        violations += contradicting
    if violations:
        raise refusal(violations)
    return True


def _name_violation(new: NewFile, other: Row, stage: str) -> Violation:
    filename, sha256, other_stage = other
    if filename != new.filename:
        message = f"{filename} exists, and is the same name on systems that ignore case"
        return Violation("name-collision", message, new.filename)
    if other_stage not in (PUBLISHED, stage):
        message = "a file of this name waits to be published"
    elif sha256 == new.sha256:
        message = "the same file is published already"
    else:
        message = f"a file of this name with other content exists, with SHA-256 {sha256}"
    return Violation("name-taken", message, new.filename)


def owners_of(execute: Execute, project: NormalizedName) -> frozenset[str]:
    """Return the owners of a project."""
    return frozenset(
        name for (name,) in execute("SELECT name FROM owner WHERE project = ?", (project,))
    )


def folded_name(new: NewFile) -> str:
    """Return the name as compared with the names of all other files."""
    return new.folded or new.filename.lower()


def status_of(execute: Execute, project: NormalizedName) -> Status:
    """Return the status of a project (PEP 792)."""
    rows = execute("SELECT marker, reason FROM project_status WHERE project = ?", (project,))
    return Status(*rows[0]) if rows else ACTIVE


def status_violations(execute: Execute, project: NormalizedName, filename: str) -> list[Violation]:
    """Return the violation of a new file of a project that takes none (PEP 792)."""
    status = status_of(execute, project)
    if status.marker not in ("archived", "quarantined"):
        return []
    return [Violation("closed-project", f"{project} is {status}", filename)]


def spelling_violations(execute: Execute, project: NormalizedName, version: str) -> list[Violation]:
    """Return the violations of a release whose stages spell the version differently."""
    rows = execute(
        "SELECT spelling, MIN(filename) FROM file WHERE project = ? AND version = ?"
        " AND stage = '' GROUP BY spelling",
        (project, version),
    )
    (first, _), *others = sorted(rows)
    return [
        Violation(
            "other-spelling",
            f"the version of the release is spelled {first}, and {other} too",
            name,
        )
        for other, name in others
    ]


def sdist_violations(
    execute: Execute, project: NormalizedName, version: str, new: frozenset[str]
) -> list[Violation]:
    """Return the violations of a release with source distributions from several stages.

    :param new: the names of the files that were published just now.
    """
    names = _sources(execute, project, version, PUBLISHED)
    return [
        Violation("second-sdist", f"the release has a source distribution: {other}", name)
        for name in names
        for other in names
        if name in new and other not in new
    ]


def _sources(execute: Execute, project: NormalizedName, version: str, stage: str) -> list[str]:
    """Return the source distributions of a release that a stage sees, by name."""
    rows = execute(
        "SELECT filename FROM file WHERE project = ? AND version = ? AND stage IN ('', ?)",
        (project, version, stage),
    )
    return sorted(name for (name,) in rows if not name.endswith(".whl"))
