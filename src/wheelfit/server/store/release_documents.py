"""The documents of releases, made from the documents of their wheels (F-70, F-74)."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from packaging.version import Version

from wheelfit.core.filename import index_file_name
from wheelfit.core.index_metadata import combine, contradictions, read_wheel_document
from wheelfit.core.labels import Label
from wheelfit.core.metadata import write_document
from wheelfit.errors import InconsistentDocuments
from wheelfit.server.store.database import insert
from wheelfit.server.store.records import PUBLISHED, ReleaseDocument, Violation
from wheelfit_runtime.errors import InvalidDocument, InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packaging.utils import NormalizedName

    from wheelfit.core.document import VariantDocument
    from wheelfit.server.store.database import Execute


class WheelDocument(NamedTuple):
    """The document of one variant wheel."""

    filename: str
    label: Label
    content: bytes
    """Its ``variant.json``."""


def disagreements(documents: Sequence[WheelDocument]) -> tuple[Violation, ...]:
    """Return everything in which wheels of a release contradict each other (F-60, F-61, F-62)."""
    try:
        read = _read(documents)
    except InvalidWheel as error:
        where = f"{error.where}: variant.json"
        return (Violation("invalid-document", error.message, where),)
    if not read:
        return ()
    found = tuple(
        Violation(
            "inconsistent-variants",
            f"{one.error.message}; {'; '.join((one.error.note or '').splitlines())}"[:1000],
            f"{one.second}: variant.json: {one.path}",
        )
        for one in contradictions(read)
    )
    if not found:
        try:
            write_document(combine(read))
        except InvalidDocument as error:
            message = f"the documents of the release cannot be written as one: {error.message}"
            return (Violation("inconsistent-variants", message, documents[-1].filename),)
    return found


def make_document(
    project: NormalizedName, version: Version, documents: Sequence[WheelDocument]
) -> ReleaseDocument | None:
    """Make the document of a release; None if it has no variant wheel.

    :param documents: of all its variant wheels; `disagreements` has found none.
    :raises InconsistentDocuments: it should have.
    """
    read = _read(documents)
    if not read:
        return None
    try:
        content = write_document(combine(read))
    except InvalidDocument as error:
        raise InconsistentDocuments(error.message, where=documents[-1].filename) from None
    digest = hashlib.sha256(content).hexdigest()
    return ReleaseDocument(index_file_name(project, version), digest, content)


def renew(execute: Execute, project: NormalizedName, version: str) -> None:
    """Make the document of a release anew (F-74)."""
    execute("DELETE FROM release_document WHERE project = ? AND version = ?", (project, version))
    wheels = wheels_of(execute, project, version, PUBLISHED)
    if not wheels:
        return
    document = make_document(project, _spelling(execute, wheels), wheels)
    if document is not None:
        insert(
            execute,
            "release_document",
            filename=document.filename,
            project=project,
            version=version,
            content=document.content,
            sha256=document.sha256,
            size=len(document.content),
        )


def documents_of(execute: Execute, project: NormalizedName, stage: str) -> list[ReleaseDocument]:
    """Make the documents of a project as they will be when a stage is published."""
    rows = execute(
        "SELECT DISTINCT version FROM file WHERE project = ? AND stage IN ('', ?)"
        " AND document IS NOT NULL",
        (project, stage),
    )
    documents = []
    for (version,) in rows:
        wheels = wheels_of(execute, project, version, stage)
        # Published meanwhile what does not go with it: publishing will say so.
        if wheels and not disagreements(wheels):
            document = make_document(project, _spelling(execute, wheels), wheels)
            documents += [document] if document is not None else []
    return documents


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


def _spelling(execute: Execute, wheels: Sequence[WheelDocument]) -> Version:
    rows = execute("SELECT spelling FROM file WHERE filename = ?", (wheels[0].filename,))
    return Version(rows[0][0])


def _read(documents: Sequence[WheelDocument]) -> list[tuple[str, VariantDocument]]:
    """Read documents; of equal ones the first stands for all."""
    first: dict[tuple[Label, bytes], str] = {}
    for filename, label, content in sorted(documents):
        first.setdefault((label, content), filename)
    return [
        (filename, _parsed(content, label, filename))
        for (label, content), filename in first.items()
    ]


@lru_cache(512)  # every upload of a release looks at all of its wheels again
def _parsed(content: bytes, label: Label, filename: str) -> VariantDocument:
    return read_wheel_document(content, label, where=filename)
