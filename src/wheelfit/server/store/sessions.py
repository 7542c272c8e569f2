"""Publishing sessions in the records (PEP 694): stages for one release, and the uploads to them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal, cast

from packaging.utils import NormalizedName, canonicalize_version
from packaging.version import Version

from wheelfit.server.store.audit import Actor, add_entries
from wheelfit.server.store.database import Database, Execute, insert
from wheelfit.server.store.records import PUBLISHED, Stage, Violation, refusal, single_refusal
from wheelfit.server.store.release_documents import owners_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


SessionStatus = Literal["open", "published", "canceled"]
"""There is neither ``processing`` nor ``error``: publishing completes before its response."""
UploadStatus = Literal["pending", "received", "completed", "error", "canceled"]
"""``received``: the content was received and checked; clients see it as ``pending``."""
_LIVE = "status <> 'canceled'"
_UPLOAD = "id, session, filename, size, hashes, status"


@dataclass(frozen=True, slots=True)
class Session:
    """A publishing session."""

    id: str
    """That of its stage."""
    project: NormalizedName
    version: Version
    status: SessionStatus
    token: str
    """Opens the preview of the stage; stored unhashed, since it is shown again."""
    created: str
    """RFC 3339, UTC."""
    expires: str
    """RFC 3339, UTC."""


@dataclass(frozen=True, slots=True)
class SessionUpload:
    """The upload of one file to a session."""

    id: str
    session: str
    filename: str
    size: int
    """Bytes that were announced."""
    hashes: Mapping[str, str]
    """Digests that were announced, hexadecimal, by algorithm."""
    status: UploadStatus = "pending"


class Sessions:
    """The publishing sessions of an index, in its database; as `Records`, for concurrent use."""

    def __init__(self, database: Database, actor: Actor = Actor()) -> None:
        self._database = database
        self._actor = actor

    def with_actor(self, actor: Actor) -> Sessions:
        """Return these sessions with an actor for their changes."""
        return Sessions(self._database, actor)

    def create(self, session: Session, stage: Stage, secret: bytes, uploader: str) -> Session:
        """Create a session with its stage, and reserve the name of a new project.

        :param secret: the digest of the token.
        :param uploader: an owner of the project; a project without an owner gets this one.
        :return: the session; or the session already open for this release.
        :raises UploadRefused: ``not-an-owner``.
        """
        version = canonicalize_version(session.version)
        with self._database.writing() as execute:
            owners = owners_of(execute, session.project)
            if owners and uploader not in owners:
                message = f"{session.project} belongs to others than {uploader}"
                raise single_refusal("not-an-owner", message, session.project)
            rows = execute(
                "SELECT id FROM session WHERE project = ? AND version = ? AND status = 'open'",
                (session.project, version),
            )
            if rows:
                return cast("Session", _session(execute, rows[0][0]))
            if not owners:
                insert(execute, "owner", project=session.project, name=uploader)
            insert(execute, "stage", **asdict(stage), secret=secret)
            spelling = {"version": version, "spelling": str(session.version)}
            insert(execute, "session", **{**asdict(session), **spelling})
            add_entries(execute, self._actor, "open-stage", [(session.project, session.id)],
                 f"session for {session.version}")  # fmt: skip
        return session

    def session(self, id_: str) -> Session | None:
        """Return a session, also one that ended recently."""
        with self._database.reading() as execute:
            return _session(execute, id_)

    def uploads(self, session: str) -> tuple[SessionUpload, ...]:
        """Return the uploads to a session that were not cancelled, by file name."""
        with self._database.reading() as execute:
            rows = execute(f"SELECT {_UPLOAD} FROM upload WHERE session = ? AND {_LIVE}",  # noqa: S608
                           (session,))  # fmt: skip
        return tuple(sorted((_upload(*row) for row in rows), key=lambda upload: upload.filename))

    def upload(self, id_: str) -> SessionUpload | None:
        """Return an upload, also a cancelled one."""
        with self._database.reading() as execute:
            rows = execute(f"SELECT {_UPLOAD} FROM upload WHERE id = ?", (id_,))  # noqa: S608
        return _upload(*rows[0]) if rows else None

    def begin(self, upload: SessionUpload) -> None:
        """Start an upload, which replaces a finished one of the same name.

        :raises UploadRefused: ``session-ended``; ``upload-unfinished``, one of this name is in
            progress; ``name-taken``, the file is published.
        """
        name, session = upload.filename, upload.session
        with self._database.writing() as execute:
            _require_stage(execute, upload)
            if execute("SELECT 1 FROM file WHERE filename = ? AND stage = ?", (name, PUBLISHED)):
                raise single_refusal("name-taken", "a file of this name is published already", name)
            rows = execute(
                f"SELECT status FROM upload WHERE session = ? AND filename = ? AND {_LIVE}",  # noqa: S608
                (session, name),
            )
            if any(status in ("pending", "received") for (status,) in rows):
                message = "an upload of this file is under way; cancel it first"
                raise single_refusal("upload-unfinished", message, name)
            execute("UPDATE upload SET status = 'canceled' WHERE session = ? AND filename = ?",
                    (session, name))  # fmt: skip
            execute("DELETE FROM file WHERE filename = ? AND stage = ?", (name, session))
            values = {**asdict(upload), "hashes": json.dumps(dict(upload.hashes))}
            insert(execute, "upload", **values)

    def move(self, upload: SessionUpload, status: UploadStatus) -> bool:
        """Change the status of an upload; return False if it was changed meanwhile."""
        with self._database.writing() as execute:
            where = "WHERE id = ? AND status = ?"
            rows = execute(f"SELECT 1 FROM upload {where}", (upload.id, upload.status))  # noqa: S608
            execute(f"UPDATE upload SET status = ? {where}",  # noqa: S608
                    (status, upload.id, upload.status))  # fmt: skip
        return bool(rows)

    def attest(self, upload: SessionUpload, provenance: bytes) -> None:
        """Store the provenance of a file that waits in a session."""
        with self._database.writing() as execute:
            execute("UPDATE file SET provenance = ? WHERE filename = ? AND stage = ?",
                    (provenance, upload.filename, upload.session))  # fmt: skip

    def cancel(self, upload: SessionUpload) -> None:
        """Cancel an upload, and delete its file, unless another upload has sent it again.

        :raises UploadRefused: ``session-ended``.
        """
        name, session = upload.filename, upload.session
        with self._database.writing() as execute:
            _require_stage(execute, upload)
            execute("UPDATE upload SET status = 'canceled' WHERE id = ?", (upload.id,))
            sent_again = execute(
                "SELECT 1 FROM upload WHERE session = ? AND filename = ?"
                " AND status IN ('received', 'completed')",
                (session, name),
            )
            if sent_again:
                return
            execute("DELETE FROM file WHERE filename = ? AND stage = ?", (name, session))
            (project,) = project_of_session(execute, session)
            add_entries(execute, self._actor, "delete", [(project, name)],
                 f"from stage {session}")  # fmt: skip

    def extend(self, id_: str, expires: str) -> None:
        """Extend the life of a session; an earlier time changes nothing."""
        with self._database.writing() as execute:
            for table in ("stage", "session"):
                execute(f"UPDATE {table} SET expires = ? WHERE id = ? AND expires < ?",  # noqa: S608
                        (expires, id_, expires))  # fmt: skip

    def prune(self, before: str) -> None:
        """Delete the ended sessions whose expiry is not after a time (RFC 3339)."""
        with self._database.writing() as execute:
            where = "status <> 'open' AND expires <= ?"
            execute(f"DELETE FROM upload WHERE session IN (SELECT id FROM session WHERE {where})",  # noqa: S608
                    (before,))  # fmt: skip
            execute(f"DELETE FROM session WHERE {where}", (before,))  # noqa: S608


def _session(execute: Execute, id_: str) -> Session | None:
    rows = execute(
        "SELECT id, project, spelling, status, token, created, expires FROM session WHERE id = ?",
        (id_,),
    )
    if not rows:
        return None
    session_id, project, spelling, *rest = rows[0]
    return Session(session_id, NormalizedName(project), Version(spelling), *rest)


def _upload(
    id_: str, session: str, filename: str, size: int, hashes: str, status: UploadStatus
) -> SessionUpload:
    return SessionUpload(id_, session, filename, size, json.loads(hashes), status)


def _require_stage(execute: Execute, upload: SessionUpload) -> None:
    if not execute("SELECT 1 FROM stage WHERE id = ?", (upload.session,)):
        message = "the session was published or cancelled"
        raise single_refusal("session-ended", message, upload.filename)


def end_session(execute: Execute, stage: str, status: SessionStatus) -> None:
    """Close the session of a stage, if it has one."""
    execute("UPDATE session SET status = ? WHERE id = ?", (status, stage))


def check_finished(execute: Execute, stage: str) -> None:
    """Raise ``UploadRefused`` (``upload-unfinished``) while a session has unfinished uploads."""
    rows = execute(
        f"SELECT filename, status FROM upload WHERE session = ? AND {_LIVE}"  # noqa: S608
        " AND status <> 'completed'",
        (stage,),
    )
    violations = [
        Violation("upload-unfinished", f"its upload is {shown_status(status)}", filename)
        for filename, status in sorted(rows)
    ]
    if violations:
        raise refusal(violations)


def shown_status(status: UploadStatus) -> str:
    """Return the status of an upload as clients see it."""
    return "pending" if status == "received" else status


def project_of_session(execute: Execute, stage: str) -> set[str]:
    """Return the project of a publishing session by its stage; an empty set for other stages."""
    return {name for (name,) in execute("SELECT project FROM session WHERE id = ?", (stage,))}


def register_names(execute: Execute, projects: Iterable[str]) -> None:
    """Register projects without published files: from now on they belong here."""
    for project in projects:
        if not execute("SELECT 1 FROM project WHERE name = ?", (project,)):
            insert(execute, "project", name=project, serial=0)


def free_names(execute: Execute, projects: Iterable[str]) -> None:
    """Delete the owners of projects without published or waiting files."""
    for project in projects:
        if not (
            execute("SELECT 1 FROM project WHERE name = ?", (project,))
            or execute("SELECT 1 FROM file WHERE project = ? LIMIT 1", (project,))
            or execute("SELECT 1 FROM session WHERE project = ? AND status = 'open'", (project,))
        ):
            execute("DELETE FROM owner WHERE project = ?", (project,))
