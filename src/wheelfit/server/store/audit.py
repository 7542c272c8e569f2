"""The audit log of an index: changes and refusals, with actor, time and address."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from wheelfit.server.store.database import Database, Execute, Value, insert, timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable


Action = Literal[
    "upload", "stage", "publish", "yank", "unyank", "delete", "status", "open-stage", "drop-stage",
    "create-token", "mint-token", "revoke-token", "clean", "import",
]  # fmt: skip
ACTIONS: tuple[Action, ...] = get_args(Action)
_MAX_TEXT_LENGTH = 1000
_MAX_PROJECT_LENGTH = 255
"""The limit in characters for a project, an untrusted text that must fit into a database index."""
_KEPT_REFUSALS = 100_000
"""The number of refusals that are kept; any token can cause any number of them."""


@dataclass(frozen=True, slots=True)
class Actor:
    """The origin of a change."""

    owner: str = "local"
    """The owner of the token; ``local``: a user with access to the store; ``server``: the server
    itself.
    """
    token: str = ""
    """The identifier of the token."""
    note: str = ""
    """The note of the token, which names the CI job of trusted publishing; the local user."""
    address: str = ""
    """The address of the client."""
    time: str = ""
    """RFC 3339, UTC; empty: now."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An entry of the audit log."""

    serial: int
    """A number that increases with every entry."""
    time: str
    """RFC 3339, UTC."""
    action: str
    """One of `ACTIONS`."""
    outcome: str
    """``done`` or ``refused``."""
    project: str
    """The normalised name of the project; empty: none, or several."""
    subject: str
    """A file, a stage or a token."""
    owner: str
    token: str
    note: str
    address: str
    detail: str
    """Further facts as text: the reason of a yank or a refusal, the scopes of a token."""


class AuditFilter(NamedTuple):
    """The filters of audit log entries; empty texts match any."""

    project: str = ""
    actor: str = ""
    """An owner, a token, an address, or a part of a note."""
    action: str = ""
    outcome: str = ""
    since: str = ""
    """The first time, in RFC 3339, UTC."""
    until: str = ""
    """The time before which entries match, in RFC 3339, UTC."""
    max_count: int = 100


class AuditLog:
    """The audit log in the database of an index."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def refuse(self, actor: Actor, action: Action, project: str, subject: str, reason: str) -> None:
        """Record a refused change."""
        with self._database.writing() as execute:
            add_entries(execute, actor, action, [(project, subject)], reason, outcome="refused")

    def add(self, actor: Actor, action: Action, detail: str) -> None:
        """Record a change of the index as a whole."""
        with self._database.writing() as execute:
            add_entries(execute, actor, action, [("", "")], detail)

    def entries(self, filters: AuditFilter) -> tuple[AuditEntry, ...]:
        """Return the newest matching entries, newest first."""
        conditions = {
            "project = ?": filters.project,
            "action = ?": filters.action,
            "outcome = ?": filters.outcome,
            "time >= ?": filters.since,
            "time < ?": filters.until,
        }
        clauses = [clause for clause, value in conditions.items() if value]
        values: list[Value] = [value for value in conditions.values() if value]
        if filters.actor:
            clauses.append("(? IN (owner, token, address) OR LOWER(note) LIKE ? ESCAPE '!')")
            values += [filters.actor, f"%{_literal(filters.actor.lower())}%"]
        where = f" WHERE {' AND '.join(clauses)}" if clauses else ""
        return self._entries(f"{where} ORDER BY serial DESC LIMIT ?", *values, filters.max_count)

    def after(self, serial: int, max_count: int) -> tuple[AuditEntry, ...]:
        """Return the entries after a number, oldest first."""
        return self._entries(" WHERE serial > ? ORDER BY serial LIMIT ?", serial, max_count)

    def prune(self, before: str, *, refusals: int = _KEPT_REFUSALS) -> None:
        """Delete entries before a time in RFC 3339, and all but the latest refusals.

        The last entry stays, because the next number is derived from its number.

        :param refusals: the number of refusals to keep.
        """
        with self._database.writing() as execute:
            last = "serial < (SELECT MAX(serial) FROM audit)"
            execute(f"DELETE FROM audit WHERE time < ? AND {last}", (before,))  # noqa: S608 - ours
            execute(
                f"DELETE FROM audit WHERE outcome = 'refused' AND {last}"  # noqa: S608 - ours
                " AND serial <= (SELECT serial FROM audit WHERE outcome = 'refused'"
                " ORDER BY serial DESC LIMIT 1 OFFSET ?)",
                (refusals,),
            )

    def _entries(self, condition: str, *values: Value) -> tuple[AuditEntry, ...]:
        with self._database.reading() as execute:
            rows = execute(f"SELECT {_COLUMNS} FROM audit{condition}", values)  # noqa: S608 - ours
        return tuple(AuditEntry(*row) for row in rows)


_COLUMNS = ", ".join(AuditEntry.__slots__)


def add_entries(
    execute: Execute,
    actor: Actor,
    action: Action,
    about: Iterable[tuple[str, str]],
    detail: str = "",
    *,
    outcome: Literal["done", "refused"] = "done",
) -> None:
    """Add entries to the audit log, within the transaction of a change.

    :param about: project and subject of each.
    """
    time = actor.time or timestamp(datetime.now(UTC))
    actor_fields = asdict(replace(actor, time=time))
    (serial,) = execute("SELECT COALESCE(MAX(serial), 0) FROM audit")[0]
    for number, (project, subject) in enumerate(about, serial + 1):
        names = {"project": project[:_MAX_PROJECT_LENGTH], "subject": subject}
        fields = {**actor_fields, "action": action, "outcome": outcome, **names, "detail": detail}
        texts = {key: _printable(text) for key, text in fields.items()}
        insert(execute, "audit", serial=number, **texts)


def _printable(text: str) -> str:
    """Return an untrusted text in a form for every database and every terminal."""
    shown = text[:_MAX_TEXT_LENGTH]
    if shown.isprintable():
        return shown
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in shown)


def _literal(text: str) -> str:
    """Return a text whose special characters are escaped for LIKE."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")
