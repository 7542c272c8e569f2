"""The records of an index, in one set of statements for SQLite and PostgreSQL."""

from __future__ import annotations

import hashlib
import json
from copy import copy
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Literal, cast

from packaging.utils import NormalizedName, canonicalize_version

from wheelfit.core.filename import parse_index_file_name
from wheelfit.server.store.audit import Action, Actor, AuditLog, add_entries
from wheelfit.server.store.database import Database, Execute, Row, Value, insert, migrate
from wheelfit.server.store.project_rules import NO_RULES, ProjectRules
from wheelfit.server.store.records import (
    ONE_TIME_PREFIX,
    PUBLISHED,
    ListedDocument,
    RecentUpload,
    ReleaseDocument,
    Stage,
    StoredFile,
    StoredListing,
    Token,
    refusal,
)
from wheelfit.server.store.release_documents import (
    check_new_file,
    documents_of,
    folded_name,
    owners_of,
    release_document,
    rewrite_document,
    sdist_violations,
    spelling_violations,
    status_of,
    status_violations,
    wheels_of,
)
from wheelfit.server.store.sessions import (
    check_finished,
    end_session,
    free_names,
    project_of_session,
    register_names,
)
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Self

    from wheelfit.server.store.records import NewFile, Scope
    from wheelfit.sources.page import Status


_FILE = (
    "filename, project, spelling, label, sha256, size, uploaded, requires_python,"
    " metadata_sha256, yanked, stage, CASE WHEN provenance IS NULL THEN 0 ELSE 1 END"
)
_TOKEN = "id, owner, scopes, created, projects, expires, note"  # noqa: S105 - columns


class Records:
    """The projects, files, stages, tokens and owners of an index, in a database.

    Every method may be called by several threads, processes and machines at once. A change is
    durable and visible to all when its method returns; a method that raises has changed nothing.
    After ``StorageUnavailable`` a change may have happened or not; every method can be repeated.

    A file is *visible* in a stage if it is published or waits in that very stage. Every ``secret``
    is the digest of a secret, and every ``time`` is now, in RFC 3339. Every change is noted in the
    audit log, in its transaction.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._actor = Actor()
        self.audit = AuditLog(database)
        """The audit log."""
        migrate(database)

    def with_actor(self, actor: Actor) -> Self:
        """Return these records with an actor for their changes."""
        records = copy(self)
        records._actor = actor  # noqa: SLF001 - a new object of this class
        return records

    @property
    def database(self) -> Database:
        """The database with all tables of the index."""
        return self._database

    def close(self) -> None:
        """Close the connections to the database; may be called more than once."""
        self._database.close()

    def record_action(self, action: Action, detail: str) -> None:
        """Record a change of the index as a whole in the audit log."""
        self.audit.add(self._actor, action, detail)

    # --- reading ---------------------------------------------------------------------

    def _query(self, sql: str, *values: Value) -> list[Row]:
        with self._database.reading() as execute:
            return execute(sql, values)

    def projects(self, stage: str = PUBLISHED) -> tuple[NormalizedName, ...]:
        """Return the names of all projects with a visible file, sorted."""
        rows = self._query("SELECT DISTINCT project FROM file WHERE stage IN ('', ?)", stage)
        # By code point: databases may sort in other ways.
        return tuple(sorted(cast("NormalizedName", name) for (name,) in rows))

    def listing(self, project: NormalizedName, stage: str = PUBLISHED) -> StoredListing | None:
        """Return the visible files of a project at one moment; None if there are none."""
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
                    ListedDocument(document.filename, document.sha256, len(document.content))
                    for document in documents_of(execute, project, stage)
                ]
            status = status_of(execute, project)
        files = sorted(map(_stored, rows), key=lambda file: file.filename)
        documents.sort(key=lambda document: document.filename)
        return StoredListing(tuple(files), tuple(documents), status)

    def status(self, project: NormalizedName) -> Status:
        """Return the status of a project (PEP 792)."""
        with self._database.reading() as execute:
            return status_of(execute, project)

    def set_status(self, project: NormalizedName, status: Status) -> None:
        """Set the status of a project (PEP 792)."""
        with self._database.writing() as execute:
            execute("DELETE FROM project_status WHERE project = ?", (project,))
            if status:
                texts = {"marker": status.marker, "reason": status.reason}
                insert(execute, "project_status", project=project, **texts)
            _renew_serials(execute, [project])
            add_entries(execute, self._actor, "status", [(project, status.marker)], status.reason)

    def file(self, filename: str, stage: str = PUBLISHED) -> StoredFile | None:
        """Return the record of a visible file."""
        rows = self._query(
            f"SELECT {_FILE} FROM file WHERE filename = ? AND stage IN ('', ?)",  # noqa: S608
            filename,
            stage,
        )
        return _stored(rows[0]) if rows else None

    def metadata(self, filename: str, stage: str = PUBLISHED) -> bytes | None:
        """Return METADATA of a visible wheel."""
        return self._part("metadata", filename, stage)

    def provenance(self, filename: str, stage: str = PUBLISHED) -> bytes | None:
        """Return the provenance of a visible file."""
        return self._part("provenance", filename, stage)

    def _part(self, column: str, filename: str, stage: str) -> bytes | None:
        rows = self._query(
            f"SELECT {column} FROM file WHERE filename = ? AND stage IN ('', ?)",  # noqa: S608
            filename,
            stage,
        )
        return bytes(rows[0][0]) if rows and rows[0][0] is not None else None

    def release_document(self, filename: str, stage: str = PUBLISHED) -> ReleaseDocument | None:
        """Return the variants document of a release, by its exact file name."""
        release = parse_index_file_name(filename)
        if release is None:
            return None
        with self._database.reading() as execute:
            if stage == PUBLISHED:
                rows = execute(
                    "SELECT filename, sha256, content FROM release_document WHERE filename = ?",
                    (filename,),
                )
                documents = [
                    ReleaseDocument(name, sha, bytes(content)) for name, sha, content in rows
                ]
            else:
                documents = documents_of(execute, release[0], stage)
        return next((document for document in documents if document.filename == filename), None)

    def serial(self, project: NormalizedName | None = None) -> int:
        """Return the number of the last visible change of a project, or of any; 0: none."""
        if project is None:
            rows = self._query("SELECT value FROM counter")
        else:
            rows = self._query("SELECT serial FROM project WHERE name = ?", project)
        return int(rows[0][0]) if rows else 0

    def owns_name(self, project: NormalizedName) -> bool:
        """Return whether a project was published once, or waits in a stage: it belongs here."""
        with self._database.reading() as execute:
            rows = execute("SELECT 1 FROM project WHERE name = ?", (project,)) or execute(
                "SELECT 1 FROM stage JOIN file ON file.stage = stage.id"
                " WHERE file.project = ? LIMIT 1",
                (project,),
            )
        return bool(rows)

    def recent_uploads(self, limit: int) -> tuple[RecentUpload, ...]:
        """Return the releases of the last published files that are offered, newest first.

        Yanked files and quarantined projects are left out.

        :param limit: number of files to examine.
        """
        rows = self._query(
            "SELECT project, spelling, uploaded FROM file WHERE stage = '' AND yanked IS NULL"
            " AND project NOT IN (SELECT project FROM project_status WHERE marker = 'quarantined')"
            " ORDER BY uploaded DESC LIMIT ?",
            limit,
        )
        uploads: dict[tuple[str, str], RecentUpload] = {}
        for row in rows:
            uploads.setdefault(row[:2], RecentUpload(*row))
        return tuple(uploads.values())

    # --- files -----------------------------------------------------------------------

    def check(
        self,
        new: NewFile,
        *,
        stage: str = PUBLISHED,
        uploader: str | None = None,
        rules: ProjectRules = NO_RULES,
    ) -> bool:
        """Return whether `add` would add a file; False if it exists already."""
        with self._database.reading() as execute:
            return check_new_file(execute, new, stage, uploader, rules)

    def add(
        self,
        new: NewFile,
        *,
        save: Callable[[], None],
        stage: str = PUBLISHED,
        uploader: str | None = None,
        rules: ProjectRules = NO_RULES,
    ) -> bool:
        """Add a file, and rewrite the document of its release (F-70, F-74).

        Of several callers with the same name exactly one succeeds; for another one with the same
        bytes that is success too.

        :param save: stores the bytes if they were deleted meanwhile; called under the write lock,
            so that no file without bytes is ever recorded.
        :param stage: the stage it waits in; by default it is published at once.
        :param uploader: an owner of the project, or the first one; None: not checked.
        :return: False if the very same file was there before.
        :raises UploadRefused: ``name-taken``, ``name-collision``, ``name-deleted``,
            ``other-spelling`` of the version, ``second-sdist``, ``not-an-owner``, ``over-quota``,
            ``closed-project``, ``inconsistent-variants``, or ``no-such-stage``; all that apply.
        """
        with self._database.writing() as execute:
            if not check_new_file(execute, new, stage, uploader, rules):
                return False
            save()
            metadata, version = new.metadata, canonicalize_version(new.version)
            insert(
                execute,
                "file",
                filename=new.filename,
                folded=folded_name(new),
                project=new.project,
                version=version,
                spelling=str(new.version),
                label=new.label,
                sha256=new.sha256,
                size=new.size,
                uploaded=new.uploaded,
                requires_python=new.requires_python,
                metadata=metadata,
                metadata_sha256=None if metadata is None else hashlib.sha256(metadata).hexdigest(),
                document=new.document,
                provenance=new.provenance,
                stage=stage,
            )
            if uploader is not None and not owners_of(execute, new.project):
                insert(execute, "owner", project=new.project, name=uploader)
            is_staged = stage != PUBLISHED
            add_entries(execute, self._actor, "stage" if is_staged else "upload",
                 [(new.project, new.filename)], f"stage {stage}" if is_staged else "")  # fmt: skip
            if not is_staged:
                _renew_serials(execute, [new.project])
                rewrite_document(execute, new.project, version)
            return True

    def yank(self, filenames: Iterable[str], reason: str | None) -> int:
        """Yank those of the files that are published; return how many there were (PEP 592).

        :param reason: None: undo the yank.
        """
        subjects: list[tuple[str, str]] = []
        action: Action = "unyank" if reason is None else "yank"
        with self._database.writing() as execute:
            for filename in dict.fromkeys(filenames):
                rows = execute(
                    "SELECT project, yanked FROM file WHERE filename = ? AND stage = ''",
                    (filename,),
                )
                if not rows:
                    continue
                execute("UPDATE file SET yanked = ? WHERE filename = ?", (reason, filename))
                subjects.append((rows[0][0], filename))
            _renew_serials(execute, [project for project, _ in subjects])
            add_entries(execute, self._actor, action, subjects, reason or "")
        return len(subjects)

    def delete(self, filenames: Iterable[str], *, time: str, reason: str = "") -> int:
        """Delete those of the files that exist; return how many there were.

        The name of a published one can never be used again, in any spelling.

        :param reason: for the audit log.
        """
        count, subjects, releases = 0, [], set()
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
                tombstone = {"folded": folded, "filename": filename, "project": project}
                insert(execute, "tombstone", **tombstone, sha256=sha256, deleted=time)
                subjects.append((project, filename))
                releases.add((project, version))
            _renew_serials(execute, [project for project, _ in subjects])
            add_entries(execute, self._actor, "delete", subjects, reason)
            for project, version in sorted(releases):
                rewrite_document(execute, project, version)
        return count

    # --- stages ----------------------------------------------------------------------

    def open_stage(self, stage: Stage, secret: bytes) -> None:
        """Store a stage."""
        with self._database.writing() as execute:
            insert(execute, "stage", **asdict(stage), secret=secret)
            add_entries(execute, self._actor, "open-stage", [("", stage.id)])

    def stage(self, secret: bytes) -> Stage | None:
        """Return the stage that a secret opens."""
        rows = self._query("SELECT id, owner, created, expires FROM stage WHERE secret = ?", secret)
        return Stage(*rows[0]) if rows else None

    def stages(self) -> tuple[Stage, ...]:
        """Return all stages that were neither published nor dropped, oldest first."""
        rows = self._query("SELECT id, owner, created, expires FROM stage")
        return tuple(
            sorted((Stage(*row) for row in rows), key=lambda stage: (stage.created, stage.id))
        )

    def staged_projects(self, stage: str) -> frozenset[NormalizedName]:
        """Return the projects with files in a stage."""
        if stage == PUBLISHED:
            return frozenset()
        rows = self._query("SELECT DISTINCT project FROM file WHERE stage = ?", stage)
        return frozenset(cast("NormalizedName", name) for (name,) in rows)

    def publish(self, stage: str, *, time: str) -> tuple[StoredFile, ...]:
        """Publish all files of a stage at once, and close it; return them as published.

        :param time: the time of upload that the files get.
        :raises UploadRefused: ``inconsistent-variants`` with files published meanwhile,
            ``other-spelling``, ``second-sdist`` or ``closed-project``; or ``upload-unfinished`` of
            a publishing session. The stage is unchanged.
        """
        if stage == PUBLISHED:
            return ()
        with self._database.writing() as execute:
            if not execute("SELECT 1 FROM stage WHERE id = ?", (stage,)):
                return ()  # it was published or dropped before
            check_finished(execute, stage)
            rows = execute(f"SELECT {_FILE} FROM file WHERE stage = ?", (stage,))  # noqa: S608
            files = sorted(map(_stored, rows), key=lambda file: file.filename)
            execute("UPDATE file SET stage = '', uploaded = ? WHERE stage = ?", (time, stage))
            execute("DELETE FROM stage WHERE id = ?", (stage,))
            register_names(execute, project_of_session(execute, stage))
            end_session(execute, stage, "published")
            _renew_serials(execute, [file.project for file in files])
            add_entries(execute, self._actor, "publish",
                 [(file.project, file.filename) for file in files], f"stage {stage}")  # fmt: skip
            releases = {(file.project, canonicalize_version(file.version)) for file in files}
            names = frozenset(file.filename for file in files)
            violations = [
                violation
                for project, version in sorted(releases)
                for violation in (
                    *release_document(wheels_of(execute, project, version, PUBLISHED))[1],
                    *spelling_violations(execute, project, version),
                    *sdist_violations(execute, project, version, names),
                    *status_violations(execute, project, project),
                )
            ]
            if violations:
                raise refusal(violations)  # which undoes all of it
            for project, version in sorted(releases):
                rewrite_document(execute, project, version)
            return tuple(replace(file, stage=PUBLISHED, uploaded=time) for file in files)

    def drop(self, stage: str) -> int:
        """Close a stage and delete its files; return their number. Their names are free again."""
        if stage == PUBLISHED:
            return 0
        with self._database.writing() as execute:
            return self._drop(execute, stage)

    def drop_empty(self, before: str) -> int:
        """Close the stages without files that were opened before a time in RFC 3339; count them."""
        with self._database.writing() as execute:
            empty = execute(
                "SELECT id FROM stage WHERE created <= ?"
                " AND NOT EXISTS (SELECT 1 FROM file WHERE file.stage = stage.id)"
                " AND NOT EXISTS (SELECT 1 FROM upload WHERE upload.session = stage.id)",
                (before,),
            )
            for (stage,) in empty:
                self._drop(execute, stage)
        return len(empty)

    def _drop(self, execute: Execute, stage: str) -> int:
        if not execute("SELECT 1 FROM stage WHERE id = ?", (stage,)):
            return 0  # it was published or dropped before
        rows = execute("SELECT project FROM file WHERE stage = ?", (stage,))
        execute("DELETE FROM file WHERE stage = ?", (stage,))
        execute("DELETE FROM stage WHERE id = ?", (stage,))
        projects = project_of_session(execute, stage)
        end_session(execute, stage, "canceled")
        free_names(execute, {name for (name,) in rows} | projects)
        subjects = [(next(iter(projects), ""), stage)]
        add_entries(execute, self._actor, "drop-stage", subjects, count_of(len(rows), "file"))
        return len(rows)

    # --- tokens and owners --------------------------------------------------------------

    def add_token(self, token: Token, secret: bytes) -> None:
        """Store a token."""
        with self._database.writing() as execute:
            _add_token(execute, self._actor, token, secret)

    def add_first_token(self, token: Token, secret: bytes, save: Callable[[], None]) -> bool:
        """Store a token if there is none at all; of several callers at once, one succeeds.

        :param save: stores the secret before the token is valid; if it raises, there is no token.
        """
        with self._database.writing() as execute:
            if execute("SELECT 1 FROM token LIMIT 1"):
                return False
            _add_token(execute, self._actor, token, secret)
            save()
        return True

    def add_token_once(self, token: Token, secret: bytes, *, expired: str) -> bool:
        """Store a token unless there is or was one of its identifier; of several, one is stored.

        :param expired: one-time tokens that expired before this time are forgotten.
        """
        with self._database.writing() as execute:
            execute(
                "DELETE FROM token WHERE id LIKE ? AND expires < ?",
                (f"{ONE_TIME_PREFIX}%", expired),
            )
            if execute("SELECT 1 FROM token WHERE id = ?", (token.id,)):
                return False
            actor = replace(self._actor, owner=token.owner, token=token.id, note=token.note)
            _add_token(execute, actor, token, secret, "mint-token")
        return True

    def token(self, secret: bytes) -> Token | None:
        """Return the token of a secret, expired or not."""
        rows = self._query(f"SELECT {_TOKEN} FROM token WHERE secret = ?", secret)  # noqa: S608
        return _token(rows[0]) if rows else None

    def tokens(self) -> tuple[Token, ...]:
        """Return all tokens, oldest first."""
        rows = self._query(f"SELECT {_TOKEN} FROM token")  # noqa: S608
        return tuple(sorted(map(_token, rows), key=lambda token: (token.created, token.id)))

    def revoke(self, token: str) -> bool:
        """End a token by its identifier; return False if it does not exist, or was ended before."""
        change, where = "DELETE FROM token", "WHERE id = ?"
        if token.startswith(ONE_TIME_PREFIX):
            # It is kept, so that its credential cannot be exchanged again.
            change, where = "UPDATE token SET expires = created", f"{where} AND expires > created"
        with self._database.writing() as execute:
            rows = execute(f"SELECT 1 FROM token {where}", (token,))  # noqa: S608 - ours
            execute(f"{change} {where}", (token,))
            if rows:
                add_entries(execute, self._actor, "revoke-token", [("", token)])
        return bool(rows)

    def owners(self, project: NormalizedName) -> frozenset[str]:
        """Return the owners of a project; none if it is new."""
        with self._database.reading() as execute:
            return owners_of(execute, project)

    # --- cleaning up -------------------------------------------------------------------

    def delete_unused(
        self, digests: Sequence[str], delete: Callable[[str], None]
    ) -> tuple[str, ...]:
        """Call a function with those of the digests that no file has; return them.

        :param digests: few, because other writers wait meanwhile.
        """
        deleted = []
        with self._database.writing() as execute:
            for digest in digests:
                if not execute("SELECT 1 FROM file WHERE sha256 = ? LIMIT 1", (digest,)):
                    delete(digest)
                    deleted.append(digest)
        return tuple(deleted)


def _stored(row: Row) -> StoredFile:
    values: Row = (*row[:-1], bool(row[-1]))  # SQLite has no booleans
    return StoredFile(*values)


def _add_token(
    execute: Execute,
    actor: Actor,
    token: Token,
    secret: bytes,
    action: Literal["create-token", "mint-token"] = "create-token",
) -> None:
    projects = None if token.projects is None else json.dumps(sorted(token.projects))
    scopes = json.dumps(sorted(token.scopes))
    lists = {"scopes": scopes, "projects": projects}
    insert(execute, "token", **{**asdict(token), **lists}, secret=secret)
    rights = f"{token.owner}: {', '.join(sorted(token.scopes))}; {projects or 'all projects'}"
    add_entries(execute, actor, action, [("", token.id)], rights)


def _token(row: Row) -> Token:
    id_, owner, scopes, created, projects, expires, note = row
    allowed = frozenset(cast("list[Scope]", json.loads(scopes)))
    patterns = None if projects is None else frozenset(json.loads(projects))
    return Token(id_, owner, allowed, created, patterns, expires, note)


def _renew_serials(execute: Execute, projects: Sequence[str]) -> None:
    """Give all changed projects the next serial number of the index."""
    if not projects:
        return
    execute("UPDATE counter SET value = value + 1")
    serial = execute("SELECT value FROM counter")[0][0]
    for project in sorted(set(projects)):
        execute(
            "INSERT INTO project (name, serial) VALUES (?, ?)"
            " ON CONFLICT (name) DO UPDATE SET serial = excluded.serial",
            (project, serial),
        )
