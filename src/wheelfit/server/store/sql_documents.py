"""The documents of releases in the database: read from wheels, and made anew (F-70, F-74)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.version import Version

from wheelfit.core.labels import Label
from wheelfit.server.store.records import PUBLISHED
from wheelfit.server.store.release_documents import WheelDocument, disagreements, make_document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packaging.utils import NormalizedName

    from wheelfit.server.store.database import Execute
    from wheelfit.server.store.records import ReleaseDocument


def renew(execute: Execute, project: NormalizedName, version: str) -> None:
    """Make the document of a release anew (F-74)."""
    execute("DELETE FROM release_document WHERE project = ? AND version = ?", (project, version))
    wheels = wheels_of(execute, project, version, PUBLISHED)
    if not wheels:
        return
    spelling = _spelling(execute, wheels)
    document = make_document(project, spelling, wheels)
    if document is not None:
        execute(
            "INSERT INTO release_document (filename, project, version, content, sha256, size)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (
                document.filename,
                project,
                version,
                document.content,
                document.sha256,
                len(document.content),
            ),
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
