"""Decide in the database who may come in: whether a file goes with all that is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packaging.utils import canonicalize_version

from wheelfit.server.store.records import PUBLISHED, Violation, refusal
from wheelfit.server.store.release_documents import WheelDocument, disagreements, wheels_of

if TYPE_CHECKING:
    from packaging.utils import NormalizedName

    from wheelfit.server.store.database import Execute, Row
    from wheelfit.server.store.records import NewFile


def admit(execute: Execute, new: NewFile, stage: str, by: str | None) -> bool:
    """Look whether a file may be added; False if it is there already.

    :raises UploadRefused: it may not.
    """
    violations: list[Violation] = []
    if stage != PUBLISHED and not execute("SELECT 1 FROM stage WHERE id = ?", (stage,)):
        violations.append(
            Violation("no-such-stage", "the stage was published or dropped", new.filename)
        )
    owners = owners_of(execute, new.project)
    if by is not None and owners and by not in owners:
        message = f"{new.project} belongs to others than {by}"
        violations.append(Violation("not-an-owner", message, new.filename))
    others = execute(
        "SELECT filename, sha256, stage FROM file WHERE filename = ? OR folded = ?",
        (new.filename, folded_name(new)),
    )
    if others and not violations and (new.filename, new.sha256, stage) in others:
        return False
    violations += [_taken(new, other, stage) for other in others]
    for (deleted,) in execute(
        "SELECT filename FROM tombstone WHERE folded = ?", (folded_name(new),)
    ):
        message = f"{deleted} was deleted, and the name of a deleted file never comes back"
        violations.append(Violation("name-deleted", message, new.filename))
    version = canonicalize_version(new.version)
    spellings = execute(
        "SELECT DISTINCT spelling FROM file WHERE project = ? AND version = ? AND stage IN ('', ?)",
        (new.project, version, stage),
    )
    violations += [
        Violation(
            "other-spelling",
            f"the release is there as {spelling}, and may not be {new.version} too",
            new.filename,
        )
        for (spelling,) in spellings
        if spelling != str(new.version)
    ]
    if not new.filename.endswith(".whl"):
        violations += [
            Violation("second-sdist", f"the release has a source already: {other}", new.filename)
            for other in _sources(execute, new.project, version, stage)
            if other != new.filename
        ]
    if new.document is not None and new.label is not None:
        own = WheelDocument(new.filename, new.label, new.document)
        wheels = wheels_of(execute, new.project, version, stage)
        violations += disagreements([*(one for one in wheels if one.filename != own.filename), own])
    if violations:
        raise refusal(violations)
    return True


def _taken(new: NewFile, other: Row, stage: str) -> Violation:
    filename, sha256, waits = other
    if filename != new.filename:
        message = f"{filename} is there, and is the same name on systems that ignore case"
        return Violation("name-collision", message, new.filename)
    if waits not in (PUBLISHED, stage):
        message = "a file of this name waits to be published"
    elif sha256 == new.sha256:
        message = "this very file is published already"
    else:
        message = f"a file of this name with other content is there, with SHA-256 {sha256}"
    return Violation("name-taken", message, new.filename)


def owners_of(execute: Execute, project: NormalizedName) -> frozenset[str]:
    """Return who owns a project."""
    return frozenset(
        name for (name,) in execute("SELECT name FROM owner WHERE project = ?", (project,))
    )


def folded_name(new: NewFile) -> str:
    """Return what no other file name may be equal to."""
    return new.folded or new.filename.lower()


def spelling_faults(execute: Execute, project: NormalizedName, version: str) -> list[Violation]:
    """Return what is wrong with a release that came by several stages, each in its spelling."""
    rows = execute(
        "SELECT spelling, MIN(filename) FROM file WHERE project = ? AND version = ?"
        " AND stage = '' GROUP BY spelling",
        (project, version),
    )
    (first, _), *others = sorted(rows)
    return [
        Violation("other-spelling", f"the release is there as {first}, and as {other} too", name)
        for other, name in others
    ]


def source_faults(
    execute: Execute, project: NormalizedName, version: str, new: frozenset[str]
) -> list[Violation]:
    """Return what is wrong with a release whose source distributions came by several stages.

    :param new: the names of the files that were published just now.
    """
    names = _sources(execute, project, version, PUBLISHED)
    others = [name for name in names if name not in new]
    own = [name for name in names if name in new]
    return [
        Violation("second-sdist", f"the release has a source already: {other}", name)
        for name in own
        for other in others
    ]


def _sources(execute: Execute, project: NormalizedName, version: str, stage: str) -> list[str]:
    """Return the source distributions of a release that a stage sees, by name."""
    rows = execute(
        "SELECT filename FROM file WHERE project = ? AND version = ? AND stage IN ('', ?)",
        (project, version, stage),
    )
    return sorted(name for (name,) in rows if not name.endswith(".whl"))
