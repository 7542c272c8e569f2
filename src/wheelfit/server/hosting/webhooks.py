"""Webhooks: requests that notify other servers of changes of an index.

They follow the audit log, in which a change is recorded in its own transaction: each change is
delivered at least once, in order, also after a restart, and no upload waits for it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import ssl
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from wheelfit.core.project_patterns import fits
from wheelfit.errors import StorageUnavailable
from wheelfit.server.allowed_addresses import AddressRules
from wheelfit.server.store.database import timestamp
from wheelfit.server.store.webhook_cursors import Cursor, WebhookCursors
from wheelfit.sources.urls import is_loopback
from wheelfit_runtime import __version__
from wheelfit_runtime.errors import InvalidConfiguration

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from wheelfit.server.store.audit import AuditEntry
    from wheelfit.server.store.sql_records import Records


EVENTS = ("upload", "publish", "yank", "unyank", "delete", "status")
"""The default events of a webhook: changes that readers of the index see."""
_TIMEOUT = 10.0
_POLL_INTERVAL = 1.0
_BATCH_SIZE = 100
_LEASE = timedelta(seconds=120)
"""The time after which another server may retry a delivery that one has started."""
_MAX_ATTEMPTS = 12
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 3600.0


@dataclass(frozen=True, slots=True)
class Webhook:
    """A server that is notified of changes."""

    url: str = field(repr=False)
    """May have a secret in its path."""
    secret: str = field(repr=False)
    """The key of the signatures."""
    events: tuple[str, ...] = EVENTS
    """Actions of the audit log."""
    projects: tuple[str, ...] = ("*",)
    """Names and patterns of its projects."""
    may_be_private: bool = False
    """Whether its host may have a private address, and be requested without TLS."""

    @property
    def id(self) -> str:
        """The name of its state in the database."""
        return hashlib.sha256(self.url.encode()).hexdigest()[:16]

    @property
    def host(self) -> str:
        """The host, for logs."""
        return urlsplit(self.url).hostname or ""

    def matches(self, entry: AuditEntry) -> bool:
        """Return whether the server is notified of an entry of the audit log."""
        return (
            entry.outcome == "done"
            and entry.action in self.events
            and ("*" in self.projects or fits(entry.project, self.projects))  # type: ignore[arg-type]
        )


def check_webhook(webhook: Webhook) -> None:
    """Raise if the messages of a webhook could be read by others, or cannot be sent.

    :raises InvalidConfiguration: its URL cannot be used.
    """
    host = ""
    with suppress(ValueError):
        parts, host = urlsplit(webhook.url), webhook.host
        is_safe = parts.scheme == "https" or webhook.may_be_private or is_loopback(host)
        _ = parts.port  # which raises if it is invalid
        AddressRules.of_target(webhook.url, may_be_private=webhook.may_be_private)
        is_plain = webhook.url.isascii() and webhook.url.isprintable() and " " not in webhook.url
        has_login = "@" in parts.netloc
        if parts.scheme in ("http", "https") and is_safe and is_plain and not has_login:
            return
    raise InvalidConfiguration(
        "the url of a webhook must be an https URL without a login",
        where=host[:200],
        hint="private-address = true also allows http, and private addresses",
    )


class WebhookDelivery:
    """The deliveries to one webhook.

    :param log: called for each attempt.
    :param count: called with its outcome: ``delivered``, ``failed`` (tried again) or ``lost``.
    """

    def __init__(
        self,
        webhook: Webhook,
        records: Records,
        *,
        log: Callable[..., None],
        count: Callable[[str], None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._webhook = webhook
        self._audit = records.audit
        self._cursors = WebhookCursors(records.database)
        self._log = log
        self._count = count
        self._now = now
        self._admits = AddressRules.of_target(webhook.url, may_be_private=webhook.may_be_private)
        # Created here: otherwise changes before the first step would not be delivered.
        self._cursors.cursor(webhook.id, now=timestamp(now()))

    def run(self, stop: threading.Event) -> None:
        """Deliver until an event is set."""
        while not stop.is_set():
            is_busy = False
            with suppress(StorageUnavailable):  # `Dependency` logs it
                is_busy = self.step()
            if not is_busy:
                stop.wait(_POLL_INTERVAL)

    def step(self) -> bool:
        """Deliver the next message if it is due; return whether there may be more."""
        webhook, now = self._webhook, self._now()
        cursor = self._cursors.cursor(webhook.id, now=timestamp(now))
        if cursor.due > timestamp(now):
            return False
        entries = self._audit.after(cursor.serial, _BATCH_SIZE)
        entry = next(filter(webhook.matches, entries), None)
        if entry is None:
            if not entries:
                return False
            last_cursor = Cursor(entries[-1].serial, 0, cursor.due)
            return self._cursors.move(webhook.id, cursor, last_cursor)
        claimed = cursor._replace(due=timestamp(now + _LEASE))
        if not self._cursors.move(webhook.id, cursor, claimed):
            return False
        problem = self._send(entry)
        fields = {"host": webhook.host, "action": entry.action, "serial": entry.serial}
        next_cursor = Cursor(entry.serial, 0, timestamp(now))
        if problem is None:
            outcome = "delivered"
        elif cursor.attempts + 1 < _MAX_ATTEMPTS:
            outcome = "failed"
            pause = min(_FIRST_PAUSE * 3**cursor.attempts, _LONGEST_PAUSE)
            due = timestamp(self._now() + timedelta(seconds=pause))
            next_cursor = Cursor(cursor.serial, cursor.attempts + 1, due)
        else:
            outcome = "lost"
        self._log("webhook", outcome=outcome, attempt=cursor.attempts + 1, reason=problem, **fields)
        self._count(outcome)
        self._cursors.move(webhook.id, claimed, next_cursor)
        return outcome != "failed"

    def _send(self, entry: AuditEntry) -> str | None:
        """Send a message, and return the fault; None if it was delivered."""
        content = {
            "version": 1,
            "event": entry.action,
            "serial": entry.serial,
            "time": entry.time,
            "project": entry.project,
            "subject": entry.subject,
            "owner": entry.owner,
            "note": entry.note,
            "detail": entry.detail,
        }
        body = json.dumps(content).encode()
        signature = hmac.new(self._webhook.secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "content-type": "application/json",
            "user-agent": f"wheelfit/{__version__}",
            "x-wheelfit-event": entry.action,
            "x-wheelfit-delivery": f"{entry.serial}",
            "x-hub-signature-256": f"sha256={signature}",
        }
        try:
            status = _post(self._webhook.url, body, headers, self._admits)
        except (OSError, HTTPException, ValueError) as error:
            return str(error) or type(error).__name__
        # Redirects are not followed: they would send the message to another server.
        return None if 200 <= status < 300 else f"it answered {status}"


def _post(url: str, body: bytes, headers: dict[str, str], admits: AddressRules) -> int:
    """Send a request, and return the status of the response.

    :raises OSError: the server cannot be reached, or its address is not allowed.
    :raises HTTPException: its response is not valid HTTP.
    """
    parts = urlsplit(url)
    host, is_secure = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if is_secure else 80)
    connection = (HTTPSConnection if is_secure else HTTPConnection)(host, port, timeout=_TIMEOUT)
    with closing(connection):
        raw_socket = socket.create_connection((host, port), timeout=_TIMEOUT)
        connection.sock = raw_socket
        # Checked before anything is sent: the name may resolve to an address of a private network.
        if not admits(host, raw_socket.getpeername()[0]):
            raise OSError("its name leads to a private address; private-address = true allows that")
        if is_secure:
            context = ssl.create_default_context()
            connection.sock = context.wrap_socket(raw_socket, server_hostname=host)
        path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        connection.request("POST", path, body, headers)
        return connection.getresponse().status
