"""The position of each webhook in the audit log, in the database of an index."""

from __future__ import annotations

from typing import NamedTuple

from wheelfit.server.store.database import Database, insert


class Cursor(NamedTuple):
    """The position of a webhook in the audit log."""

    serial: int
    """The serial of the last entry that was delivered or given up."""
    attempts: int
    """Failed deliveries of the next entry."""
    due: str
    """The time of the next delivery, in RFC 3339, UTC."""


class WebhookCursors:
    """The cursors of webhooks, shared by all servers of an index."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def cursor(self, webhook: str, *, now: str) -> Cursor:
        """Return the cursor of a webhook; that of a new one is after the last entry of the log.

        :param webhook: its id.
        :param now: the time, in RFC 3339, UTC.
        """
        sql = "SELECT serial, attempts, due FROM webhook WHERE id = ?"
        with self._database.reading() as execute:
            rows = execute(sql, (webhook,))
        if not rows:
            with self._database.writing() as execute:
                if not (rows := execute(sql, (webhook,))):
                    (serial,) = execute("SELECT COALESCE(MAX(serial), 0) FROM audit")[0]
                    insert(execute, "webhook", id=webhook, serial=serial, attempts=0, due=now)
                    rows = [(serial, 0, now)]
        return Cursor(*rows[0])

    def move(self, webhook: str, before: Cursor, after: Cursor) -> bool:
        """Change the cursor of a webhook; return False if another server did so meanwhile."""
        with self._database.writing() as execute:
            where = "WHERE id = ? AND serial = ? AND attempts = ? AND due = ?"
            rows = execute(f"SELECT 1 FROM webhook {where}", (webhook, *before))  # noqa: S608 - constant
            execute(f"UPDATE webhook SET serial = ?, attempts = ?, due = ? {where}",  # noqa: S608
                    (*after, webhook, *before))  # fmt: skip
        return bool(rows)
