"""Webhooks: at-least-once delivery, signatures, and permitted receivers."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from programs import until
from server.running import RunningIndex, bearer
from server.uploading import NOW
from web_servers import AnsweringServer

from wheelfit.server.allowed_addresses import AddressRules
from wheelfit.server.hosting.settings import read_settings
from wheelfit.server.hosting.webhooks import Webhook, WebhookDelivery
from wheelfit.server.messages import Request, Response
from wheelfit.server.store.audit import Action, Actor
from wheelfit.server.store.database import timestamp
from wheelfit.server.store.opening import open_database
from wheelfit.server.store.sql_records import Records
from wheelfit.server.store.webhook_cursors import Cursor, WebhookCursors
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.errors import InvalidConfiguration

SECRET = "of the receiver"


class Receiver(AnsweringServer):
    """A server that receives webhooks."""

    def __init__(self) -> None:
        super().__init__()
        self.status = 204
        self.messages: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []

    @property
    def url(self) -> str:
        """The address for messages."""
        return f"{self.origin}/hook?key=hidden"

    def answer(self, request: Request) -> Response:
        """Check the signature, and keep the message."""
        body = request.body.read()
        signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        assert request.headers["x-hub-signature-256"] == f"sha256={signature}"
        self.messages.append(json.loads(body))
        self.headers.append(request.headers)
        return Response.of(self.status, b"", {"location": "http://127.0.0.1:1/"})

    @property
    def told(self) -> list[tuple[str, str]]:
        """The event and subject of each message."""
        return [(message["event"], message["subject"]) for message in self.messages]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Run a receiver."""
    with Receiver() as receiver:
        yield receiver


class Index:
    """The records of an index with a clock that the test sets."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.time = NOW
        self.outcomes: list[str] = []

    def delivery(self, webhook: Webhook) -> WebhookDelivery:
        """Return the deliveries of one server."""
        return WebhookDelivery(
            webhook, self.records, log=lambda *_, **__: None, count=self.outcomes.append,
            now=lambda: self.time,
        )  # fmt: skip

    def change(self, action: Action, detail: str = "") -> None:
        """Record a change of the whole index."""
        self.records.audit.add(Actor("ann"), action, detail)


@pytest.fixture
def index(records_url: str) -> Iterator[Index]:
    """Return new records."""
    with closing(Records(open_database(records_url))) as records:
        yield Index(records)


def test_delivery(index: Index, receiver: Receiver) -> None:
    """One of several servers delivers, in order; earlier and other events are omitted."""
    index.change("clean", "before")
    webhook = Webhook(receiver.url, SECRET, ("clean", "import"))
    one, two = index.delivery(webhook), index.delivery(webhook)
    for action in ("clean", "yank", "import"):
        index.change(action, "now")
    index.records.audit.refuse(Actor("bob"), "clean", "", "", "no")
    while one.step() or two.step():
        pass
    assert [message["event"] for message in receiver.messages] == ["clean", "import"]
    assert receiver.messages[0] == {
        "version": 1, "event": "clean", "serial": 2, "time": receiver.messages[0]["time"],
        "project": "", "subject": "", "owner": "ann", "note": "", "detail": "now",
    }  # fmt: skip
    assert receiver.headers[1]["x-wheelfit-event"] == "import"
    assert receiver.headers[1]["x-wheelfit-delivery"] == "4"
    assert index.outcomes == ["delivered", "delivered"]
    assert not index.delivery(webhook).step()  # after a restart nothing is told again


def test_new_cursor(index: Index) -> None:
    """The cursor of a new webhook is returned as it is stored."""
    index.change("clean")
    cursors = WebhookCursors(index.records.database)
    new = cursors.cursor("new", now=timestamp(NOW))
    assert new == Cursor(1, 0, timestamp(NOW)) == cursors.cursor("new", now="later")


def test_retries(index: Index, receiver: Receiver) -> None:
    """A failed delivery is retried with growing pauses, also by another server, then dropped."""
    webhook = Webhook(receiver.url, SECRET, ("clean",))
    first = index.delivery(webhook)
    for detail in ("one", "two"):
        index.change("clean", detail)
    receiver.status = 302  # nobody is sent elsewhere
    assert not first.step()
    assert not first.step()
    assert len(receiver.messages) == 1
    index.time += timedelta(seconds=6)
    index.delivery(webhook).step()  # of another server, or after a restart
    assert [message["detail"] for message in receiver.messages] == ["one", "one"]
    receiver.status = 500
    for _ in range(10):
        index.time += timedelta(hours=2)
        first.step()
    assert index.outcomes == ["failed"] * 11 + ["lost"]
    receiver.status = 200
    assert first.step()
    assert [message["detail"] for message in receiver.messages][-1] == "two"
    assert index.outcomes[-1] == "delivered"


def test_killed_server(index: Index, receiver: Receiver) -> None:
    """Another server repeats a delivery that was started, rather than losing it."""
    webhook = Webhook(receiver.url, SECRET, ("clean",))
    index.delivery(webhook)
    index.change("clean")

    def die(_outcome: str) -> None:
        raise KeyboardInterrupt

    dying = WebhookDelivery(
        webhook, index.records, log=lambda *_, **__: None, count=die, now=lambda: index.time
    )
    with pytest.raises(KeyboardInterrupt):
        dying.step()
    assert not index.delivery(webhook).step()
    index.time += timedelta(minutes=3)
    assert index.delivery(webhook).step()
    assert len(receiver.messages) == 2


def test_unreachable_receiver(index: Index, receiver: Receiver) -> None:
    """A failed connection is a failed delivery."""
    webhook = Webhook(f"https{receiver.url[4:]}", SECRET, ("clean",))
    delivery = index.delivery(webhook)
    index.change("clean")
    assert not delivery.step()  # it does not speak TLS
    assert index.outcomes == ["failed"]
    assert receiver.messages == []


@pytest.mark.parametrize(
    ("url", "private", "address", "admitted"),
    [
        ("https://hook.example/", False, "93.184.216.34", True),
        ("https://hook.example/", False, "10.0.0.1", False),
        ("https://hook.example/", False, "127.0.0.1", False),
        ("https://hook.example/", False, "::ffff:10.0.0.1", False),
        ("https://hook.example/", True, "10.0.0.1", True),
        ("https://hook.example/", True, "127.0.0.1", False),
        ("https://hook.example/", True, "169.254.169.254", False),
        ("https://10.0.0.1/", False, "10.0.0.1", True),
        ("http://127.0.0.1/", False, "127.0.0.1", True),
        ("http://169.254.169.254/", True, "169.254.169.254", False),
    ],
)
def test_allowed_addresses(
    url: str,
    private: bool,  # noqa: FBT001 - parametrized
    address: str,
    admitted: bool,  # noqa: FBT001 - parametrized
) -> None:
    """The resolved address must not be private, unless configured."""
    rules = AddressRules.of_target(url, may_be_private=private)
    assert rules(url.split("/")[2], address) == admitted


def test_private_address(index: Index) -> None:
    """A connection to a private address is closed before anything is sent."""
    reasons: list[str] = []
    with socket.create_server(("0.0.0.0", 0)) as server:
        try:
            socket.create_connection((socket.gethostname(), server.getsockname()[1])).close()
        except OSError:
            pytest.skip("the name of this machine does not lead to it")
        server.accept()[0].close()
        webhook = Webhook(f"https://{socket.gethostname()}:{server.getsockname()[1]}/", SECRET)
        delivery = WebhookDelivery(
            webhook, index.records, count=index.outcomes.append, now=lambda: index.time,
            log=lambda *_, reason, **__: reasons.append(reason),
        )  # fmt: skip
        index.records.audit.add(Actor("ann"), "yank", "")
        assert not delivery.step()
        with server.accept()[0] as line:
            assert line.recv(100) == b""
    assert "private address" in reasons[0]
    assert index.outcomes == ["failed"]


@pytest.mark.parametrize(
    "table",
    [
        'url = "http://hook.example/"\nsecret = "x"',
        'url = "https://user:x@hook.example/"\nsecret = "x"',
        'url = "ftp://hook.example/"\nsecret = "x"',
        'url = "https://[::1/"\nsecret = "x"',
        'url = "https://hook.example/\\u00e9"\nsecret = "x"',
        'url = "https://hook.example:99999/"\nsecret = "x"',
        'url = "https:///"\nsecret = "x"',
        'url = "https://hook.example/"',
        'url = "https://hook.example/"\nsecret = ""',
        'url = "https://hook.example/"\nsecret = "x"\nevents = ["burn"]',
        'url = "https://hook.example/"\nsecret = "x"\nprojects = ["a/b"]',
        'url = "https://hook.example/"\nsecret = "x"\nurls = []',
        'secret = "x"\nurl = "https://a.example/"\n[[webhook]]\nsecret = "y"\nurl = "https://a.example/"',
    ],
)
def test_invalid_settings(table: str, tmp_path: Path) -> None:
    """A webhook without TLS or with a weak secret is refused."""
    file = tmp_path / "serve.toml"
    file.write_text(f"[[webhook]]\n{table}\n")
    with pytest.raises(InvalidConfiguration):
        read_settings({}, {}, str(file))


@pytest.mark.integration
def test_real_server(receiver: Receiver, tmp_path: Path) -> None:
    """Uploads of the configured projects are delivered, also after a restart."""
    settings = tmp_path / "serve.toml"
    settings.write_text(
        f'[[webhook]]\nurl = "{receiver.url}"\nsecret = "{SECRET}"\nprojects = ["some-*"]\n'
    )
    mine, other = (build_wheel(tmp_path, name, "1.0") for name in ("some-tool", "other"))
    options = ("--settings", str(settings))
    with RunningIndex(tmp_path / "index", *options) as index:
        receiver.status = 503
        began = time.monotonic()
        assert index.upload(other) == index.upload(mine) == 200
        assert time.monotonic() - began < 5
        failed = b'wheelfit_webhooks_total{outcome="failed"} 1.0'
        token = bearer(index.token)
        until(lambda: failed in index.get("/-/metrics", authorization=token)[2])
    assert len(receiver.messages) == 1
    assert "hidden" not in index.log
    assert SECRET not in index.log
    (event,) = index.events("webhook")
    assert (event["host"], event["outcome"]) == ("127.0.0.1", "failed")
    receiver.status = 200
    with RunningIndex(tmp_path / "index", *options):
        until(lambda: len(receiver.messages) == 2)
    assert receiver.told == [("upload", mine.name)] * 2
    assert receiver.messages[0]["serial"] == receiver.messages[1]["serial"]
