"""The records over a database: one set of statements for SQLite and PostgreSQL."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, cast

from packaging.utils import NormalizedName, canonicalize_version

from wheelfit.core.filename import parse_index_file_name
from wheelfit.server.store.records import (
    PUBLISHED,
    Change,
    ListedDocument,
    Listing,
    ReleaseDocument,
    Stage,
    StoredFile,
    Token,
    refusal,
)
from wheelfit.server.store.release_documents import disagreements
from wheelfit.server.store.schema import migrate
from wheelfit.server.store.sql_admission import (
    admit,
    folded_name,
    owners_of,
    source_faults,
    spelling_faults,
)
from wheelfit.server.store.sql_documents import documents_of, renew, wheels_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wheelfit.server.store.database import Database, Execute, Row
    from wheelfit.server.store.records import NewFile, Scope


_FILE = (
    "filename, project, spelling, label, sha256, size, uploaded, requires_python,"
    " metadata_sha256, CASE WHEN provenance IS NULL THEN 0 ELSE 1 END, yanked, stage"
)


class SqlRecords:
    """Know projects and files, in the tables of `wheelfit.server.store.schema`: `Records`.

    :raises InvalidConfiguration: a newer wheelfit has been there.
    :raises StorageUnavailable: it cannot be read or written.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        migrate(database)

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    # --- reading ---------------------------------------------------------------------

    def projects(self, stage: str = PUBLISHED) -> tuple[NormalizedName, ...]:
        """Return the names of all projects with a visible file."""
        with self._database.reading() as execute:
            rows = execute("SELECT DISTINCT project FROM file WHERE stage IN ('', ?)", (stage,))
        # By code point: databases may sort in other ways.
        return tuple(sorted(cast("NormalizedName", name) for (name,) in rows))

    def listing(self, project: NormalizedName, stage: str = PUBLISHED) -> Listing | None:
        """Return what is visible of a project."""
        with self._database.reading() as execute:
            rows = execute(
                f"SELECT {_FILE} FROM file WHERE project = ? AND stage IN ('', ?)",  # noqa: S608
                (project, stage),
            )
            if not rows:
                return None
            if stage == PUBLISHED:
                documents = [
                    ListedDocument(*row)
                    for row in execute(
                        "SELECT filename, sha256, size FROM release_document WHERE project = ?",
                        (project,),
                    )
                ]
            else:
                documents = [
                    ListedDocument(one.filename, one.sha256, len(one.content))
                    for one in documents_of(execute, project, stage)
                ]
        files = sorted(map(_stored, rows), key=lambda file: file.filename)
        documents.sort(key=lambda document: document.filename)
        return Listing(tuple(files), tuple(documents))

    def file(self, filename: str, stage: str = PUBLISHED) -> StoredFile | None:
        """Return what is known of a visible file."""
        with self._database.reading() as execute:
            rows = execute(
                f"SELECT {_FILE} FROM file WHERE filename = ? AND stage IN ('', ?)",  # noqa: S608
                (filename, stage),
            )
        return _stored(rows[0]) if rows else None

    def metadata(self, filename: str, stage: str = PUBLISHED) -> bytes | None:
        """Return METADATA of a visible wheel."""
        return self._part(
            "SELECT metadata FROM file WHERE filename = ? AND stage IN ('', ?)", filename, stage
        )

    def provenance(self, filename: str, stage: str = PUBLISHED) -> bytes | None:
        """Return what was attested about a visible file."""
        return self._part(
            "SELECT provenance FROM file WHERE filename = ? AND stage IN ('', ?)", filename, stage
        )

    def _part(self, sql: str, filename: str, stage: str) -> bytes | None:
        with self._database.reading() as execute:
            rows = execute(sql, (filename, stage))
        return bytes(rows[0][0]) if rows and rows[0][0] is not None else None

    def release_document(self, filename: str, stage: str = PUBLISHED) -> ReleaseDocument | None:
        """Return what is said of the variants of a release."""
        release = parse_index_file_name(filename)
        if release is None:
            return None
        with self._database.reading() as execute:
            if stage == PUBLISHED:
                rows = execute(
                    "SELECT filename, sha256, content FROM release_document WHERE filename = ?",
                    (filename,),
                )
                found = [ReleaseDocument(name, sha, bytes(content)) for name, sha, content in rows]
            else:
                found = documents_of(execute, release[0], stage)
        return next((one for one in found if one.filename == filename), None)

    def serial(self, project: NormalizedName | None = None) -> int:
        """Return the number of the last visible change."""
        with self._database.reading() as execute:
            if project is None:
                rows = execute("SELECT value FROM counter")
            else:
                rows = execute("SELECT serial FROM project WHERE name = ?", (project,))
        return int(rows[0][0]) if rows else 0

    def claims(self, project: NormalizedName) -> bool:
        """Return whether a project was published once, or waits in a stage."""
        with self._database.reading() as execute:
            rows = execute("SELECT 1 FROM project WHERE name = ?", (project,)) or execute(
                "SELECT 1 FROM stage JOIN file ON file.stage = stage.id"
                " WHERE file.project = ? LIMIT 1",
                (project,),
            )
        return bool(rows)

    def changes(self, after: int, most: int = 1000) -> tuple[Change, ...]:
        """Return the log behind a number."""
        with self._database.reading() as execute:
            last = execute(
                "SELECT serial FROM change WHERE serial > ? ORDER BY serial LIMIT 1 OFFSET ?",
                (after, max(0, most - 1)),
            )
            rows = execute(
                "SELECT serial, project, action, filename, time FROM change"
                " WHERE serial > ? AND serial <= ?",
                (after, last[0][0] if last else _END),
            )
        return tuple(Change(*row) for row in sorted(rows, key=lambda row: (row[0], row[3])))

    # --- files -----------------------------------------------------------------------

    def check(self, new: NewFile, *, stage: str = PUBLISHED, by: str | None = None) -> bool:
        """Say whether a file could be added now."""
        with self._database.reading() as execute:
            return admit(execute, new, stage, by)

    def add(
        self,
        new: NewFile,
        *,
        keep: Callable[[], None],
        stage: str = PUBLISHED,
        by: str | None = None,
    ) -> bool:
        """Add a file, and make the document of its release anew."""
        with self._database.writing() as execute:
            if not admit(execute, new, stage, by):
                return False
            keep()
            execute(
                "INSERT INTO file (filename, folded, project, version, spelling, label, sha256,"
                " size, uploaded, requires_python, metadata, metadata_sha256, document,"
                " provenance, yanked, stage)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    new.filename,
                    folded_name(new),
                    new.project,
                    canonicalize_version(new.version),
                    str(new.version),
                    new.label,
                    new.sha256,
                    new.size,
                    new.uploaded,
                    new.requires_python,
                    new.metadata,
                    None if new.metadata is None else hashlib.sha256(new.metadata).hexdigest(),
                    new.document,
                    new.provenance,
                    None,
                    stage,
                ),
            )
            if by is not None and not owners_of(execute, new.project):
                execute("INSERT INTO owner (project, name) VALUES (?, ?)", (new.project, by))
            if stage == PUBLISHED:
                touched = [(new.project, "upload", new.filename)]
                _log(execute, touched, new.uploaded)
                renew(execute, new.project, canonicalize_version(new.version))
            return True

    def yank(self, filenames: Iterable[str], reason: str | None, *, time: str) -> int:
        """Yank published files, or take that back."""
        touched = []
        with self._database.writing() as execute:
            for filename in dict.fromkeys(filenames):
                rows = execute(
                    "SELECT project, yanked FROM file WHERE filename = ? AND stage = ''",
                    (filename,),
                )
                if not rows:
                    continue
                execute("UPDATE file SET yanked = ? WHERE filename = ?", (reason, filename))
                touched.append((rows[0][0], "unyank" if reason is None else "yank", filename))
            _log(execute, touched, time)
        return len(touched)

    def delete(self, filenames: Iterable[str], *, time: str) -> int:
        """Delete files; published ones never come back."""
        count, touched, releases = 0, [], set()
        with self._database.writing() as execute:
            for filename in dict.fromkeys(filenames):
                rows = execute(
                    "SELECT project, version, sha256, folded, stage FROM file WHERE filename = ?",
                    (filename,),
                )
                if not rows:
                    continue
                project, version, sha256, folded, stage = rows[0]
                execute("DELETE FROM file WHERE filename = ?", (filename,))
                count += 1
                if stage != PUBLISHED:
                    continue
                execute(
                    "INSERT INTO tombstone (folded, filename, project, sha256, deleted)"
                    " VALUES (?, ?, ?, ?, ?)",
                    (folded, filename, project, sha256, time),
                )
                touched.append((project, "delete", filename))
                releases.add((project, version))
            _log(execute, touched, time)
            for project, version in sorted(releases):
                renew(execute, project, version)
        return count

    # --- stages ----------------------------------------------------------------------

    def open_stage(self, stage: Stage, secret: bytes) -> None:
        """Make a stage."""
        with self._database.writing() as execute:
            execute(
                "INSERT INTO stage (id, secret, owner, created, expires) VALUES (?, ?, ?, ?, ?)",
                (stage.id, secret, stage.owner, stage.created, stage.expires),
            )

    def stage(self, secret: bytes) -> Stage | None:
        """Return the stage that a token opens."""
        with self._database.reading() as execute:
            rows = execute(
                "SELECT id, owner, created, expires FROM stage WHERE secret = ?", (secret,)
            )
        return Stage(*rows[0]) if rows else None

    def stages(self) -> tuple[Stage, ...]:
        """Return all stages, oldest first."""
        with self._database.reading() as execute:
            rows = execute("SELECT id, owner, created, expires FROM stage")
        return tuple(sorted((Stage(*row) for row in rows), key=lambda one: (one.created, one.id)))

    def staged_projects(self, stage: str) -> frozenset[NormalizedName]:
        """Return the projects of which files wait in a stage."""
        if stage == PUBLISHED:
            return frozenset()
        with self._database.reading() as execute:
            rows = execute("SELECT DISTINCT project FROM file WHERE stage = ?", (stage,))
        return frozenset(cast("NormalizedName", name) for (name,) in rows)

    def publish(self, stage: str, *, time: str) -> tuple[StoredFile, ...]:
        """Show all files of a stage, as one act, and end it."""
        if stage == PUBLISHED:
            return ()
        with self._database.writing() as execute:
            rows = execute(
                f"SELECT {_FILE} FROM file WHERE stage = ?",  # noqa: S608
                (stage,),
            )
            files = sorted(map(_stored, rows), key=lambda file: file.filename)
            execute(
                "UPDATE file SET stage = '', uploaded = ? WHERE stage = ?",
                (time, stage),
            )
            execute("DELETE FROM stage WHERE id = ?", (stage,))
            _log(execute, [(one.project, "upload", one.filename) for one in files], time)
            releases = {(one.project, canonicalize_version(one.version)) for one in files}
            names = [one.filename for one in files]
            violations = [
                violation
                for project, version in sorted(releases)
                for violation in (
                    *disagreements(wheels_of(execute, project, version, PUBLISHED)),
                    *spelling_faults(execute, project, version),
                    *source_faults(execute, project, version, frozenset(names)),
                )
            ]
            if violations:
                raise refusal(violations)  # which undoes all of it
            for project, version in sorted(releases):
                renew(execute, project, version)
            return tuple(_one(execute, name) for name in names)

    def drop(self, stage: str) -> int:
        """End a stage and forget its files."""
        if stage == PUBLISHED:
            return 0
        with self._database.writing() as execute:
            count = len(execute("SELECT filename FROM file WHERE stage = ?", (stage,)))
            execute("DELETE FROM file WHERE stage = ?", (stage,))
            execute("DELETE FROM stage WHERE id = ?", (stage,))
        return count

    # --- tokens and owners --------------------------------------------------------------

    def add_token(self, token: Token, secret: bytes) -> None:
        """Let a token be known."""
        with self._database.writing() as execute:
            _add_token(execute, token, secret)

    def add_first_token(self, token: Token, secret: bytes, keep: Callable[[], None]) -> bool:
        """Store a token if there is none at all."""
        with self._database.writing() as execute:
            if execute("SELECT 1 FROM token LIMIT 1"):
                return False
            _add_token(execute, token, secret)
            keep()
        return True

    def token(self, secret: bytes) -> Token | None:
        """Return what a token allows."""
        with self._database.reading() as execute:
            rows = execute(f"SELECT {_TOKEN} FROM token WHERE secret = ?", (secret,))  # noqa: S608
        return _token(rows[0]) if rows else None

    def tokens(self) -> tuple[Token, ...]:
        """Return all tokens, oldest first."""
        with self._database.reading() as execute:
            rows = execute(f"SELECT {_TOKEN} FROM token")  # noqa: S608
        return tuple(sorted(map(_token, rows), key=lambda one: (one.created, one.id)))

    def revoke(self, token: str) -> bool:
        """Forget a token."""
        with self._database.writing() as execute:
            found = execute("SELECT id FROM token WHERE id = ?", (token,))
            execute("DELETE FROM token WHERE id = ?", (token,))
        return bool(found)

    def owners(self, project: NormalizedName) -> frozenset[str]:
        """Return who owns a project."""
        with self._database.reading() as execute:
            return owners_of(execute, project)

    # --- cleaning up -------------------------------------------------------------------

    def forget_unused(
        self, digests: Sequence[str], forget: Callable[[str], None]
    ) -> tuple[str, ...]:
        """Forget bytes that no file has."""
        forgotten = []
        with self._database.writing() as execute:
            for digest in digests:
                if not execute("SELECT 1 FROM file WHERE sha256 = ? LIMIT 1", (digest,)):
                    forget(digest)
                    forgotten.append(digest)
        return tuple(forgotten)


_END = (1 << 63) - 1
_TOKEN = "id, owner, scopes, created, projects, expires, note"  # noqa: S105 - columns


def _stored(row: Row) -> StoredFile:
    (name, project, spelling, label, sha256, size, uploaded, python, metadata, proven, yanked,
     stage) = row  # fmt: skip
    return StoredFile(
        filename=name,
        project=project,
        version=spelling,
        label=label,
        sha256=sha256,
        size=size,
        uploaded=uploaded,
        requires_python=python,
        metadata_sha256=metadata,
        has_provenance=bool(proven),
        yanked=yanked,
        stage=stage,
    )


def _add_token(execute: Execute, token: Token, secret: bytes) -> None:
    projects = None if token.projects is None else json.dumps(sorted(token.projects))
    execute(
        "INSERT INTO token (id, secret, owner, scopes, projects, created, expires, note)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            token.id,
            secret,
            token.owner,
            json.dumps(sorted(token.scopes)),
            projects,
            token.created,
            token.expires,
            token.note,
        ),
    )


def _token(row: Row) -> Token:
    id_, owner, scopes, created, projects, expires, note = row
    return Token(
        id=id_,
        owner=owner,
        scopes=frozenset(cast("list[Scope]", json.loads(scopes))),
        created=created,
        projects=None if projects is None else frozenset(json.loads(projects)),
        expires=expires,
        note=note,
    )


def _one(execute: Execute, filename: str) -> StoredFile:
    rows = execute(f"SELECT {_FILE} FROM file WHERE filename = ?", (filename,))  # noqa: S608
    return _stored(rows[0])


def _log(execute: Execute, touched: Sequence[tuple[str, str, str]], time: str) -> None:
    """Give one number to all that was changed: project, action, and name of each file."""
    if not touched:
        return
    execute("UPDATE counter SET value = value + 1")
    serial = execute("SELECT value FROM counter")[0][0]
    for project in sorted({project for project, _, _ in touched}):
        execute(
            "INSERT INTO project (name, serial) VALUES (?, ?)"
            " ON CONFLICT (name) DO UPDATE SET serial = excluded.serial",
            (project, serial),
        )
    for project, action, filename in touched:
        execute(
            "INSERT INTO change (serial, filename, project, action, time) VALUES (?, ?, ?, ?, ?)",
            (serial, filename, project, action, time),
        )
