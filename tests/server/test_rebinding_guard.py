"""Host names of a server, and requests that foreign pages cause."""

from __future__ import annotations

import socket

import pytest

from wheelfit.server.messages import Request, Response
from wheelfit.server.rebinding_guard import (
    HostNames,
    RebindingGuard,
    is_cross_origin,
    is_on_loopback,
    parse_host_name,
)

NEAR = "http://127.0.0.1:8942"
PUBLIC = "https://wheels.example.org"


@pytest.mark.parametrize(
    ("origin", "host", "headers", "is_foreign"),
    [
        # Publishing tools, installers and our own client send neither.
        (NEAR, "127.0.0.1:8942", {}, False),
        (NEAR, "127.0.0.1:8942", {"sec-fetch-site": "none"}, False),
        (NEAR, "127.0.0.1:8942", {"sec-fetch-site": "same-origin", "origin": NEAR}, False),
        (NEAR, "localhost:8942", {"origin": "http://localhost:8942"}, False),
        (PUBLIC, "127.0.0.1:8942", {"origin": PUBLIC}, False),
        (PUBLIC, "wheels.example.org", {"origin": f"{PUBLIC}:443"}, False),
        (f"{PUBLIC}/below", "127.0.0.1:8942", {"origin": PUBLIC}, False),
        ("", "wheels.example.org", {"origin": PUBLIC}, False),
        ("http://[::1]:8942", "[::1]:8942", {"origin": "http://[::1]:8942"}, False),
        (NEAR, "127.0.0.1:8942", {"sec-fetch-site": "cross-site"}, True),
        (NEAR, "127.0.0.1:8942", {"sec-fetch-site": "same-site", "origin": NEAR}, True),
        (NEAR, "127.0.0.1:8942", {"sec-fetch-site": "something new"}, True),
        (NEAR, "127.0.0.1:8942", {"sec-fetch-site": ""}, True),
        (NEAR, "127.0.0.1:8942", {"origin": "null"}, True),
        (NEAR, "127.0.0.1:8942", {"origin": ""}, True),
        (NEAR, "127.0.0.1:8942", {"sec-fetch-site": "none", "origin": "null"}, True),
        (NEAR, "127.0.0.1:8942", {"origin": "http://127.0.0.1:3000"}, True),
        (NEAR, "127.0.0.1:8942", {"origin": "http://127.0.0.1"}, True),
        (NEAR, "127.0.0.1:8942", {"origin": "http://evil.test:8942"}, True),
        (NEAR, "127.0.0.1:8942", {"origin": f"{NEAR}, http://evil.test"}, True),
        (NEAR, "127.0.0.1:8942", {"origin": "http://127.0.0.1:8942.evil.test"}, True),
        (NEAR, "127.0.0.1:8942", {"origin": "http://evil.test/http://127.0.0.1:8942"}, True),
        (NEAR, "127.0.0.1:8942", {"origin": "http://127.0.0.1:port"}, True),
        (NEAR, "127.0.0.1:8942", {"origin": "chrome-extension://abcdef"}, True),
        (NEAR, "", {"origin": "http://evil.test"}, True),
        ("", "", {"origin": "http://evil.test"}, True),
        # Who changes what comes without TLS is not the page that came with it.
        (PUBLIC, "wheels.example.org", {"origin": "http://wheels.example.org"}, True),
        (PUBLIC, "wheels.example.org", {"origin": "https://other.example.org"}, True),
    ],
)
def test_foreign_pages(
    origin: str, host: str, headers: dict[str, str], *, is_foreign: bool
) -> None:
    """Only the browser's own headers count, and only where the origin surely differs."""
    request = Request("POST", "/legacy/", {"host": host, **headers}, origin)
    assert is_cross_origin(request) == is_foreign


def test_configured_names() -> None:
    """A name matches in any case, with and without port, dot and brackets; others do not."""
    names = HostNames(["Wheels.Example.org", "[2001:db8::1]", "2001:db8::2"])
    for host, known in (
        ("127.0.0.1:8941", True),
        ("127.0.0.2", True),
        ("LocalHost:1", True),
        ("[::1]:8941", True),
        ("127.0.0.1.evil.test", False),
        ("0.0.0.0:8941", False),
        ("wheels.example.ORG:443", True),
        ("wheels.example.org.", True),
        ("[2001:db8::1]:80", True),
        ("[2001:db8::2]", True),
        ("2001:db8::1", False),
        ("[2001:db8::3]", False),
        ("xwheels.example.org", False),
        ("wheels.example.org.evil.test", False),
        ("wheels.example.org@evil.test", False),
        ("evil.test", False),
        ("evil.test:8941", False),
        ("wheels.example.org:80, evil.test", False),  # two headers
        ("localhost, evil.test", False),
        ("localhost:80:evil.test", False),
        ("localhost:evil.test", False),
        ("[::1].evil.test", False),
        ("[::1", False),
        ("[localhost]", False),
        ("localhost:", True),
        ("", False),
    ):
        for _ in range(2):
            refusal = names.refusal(Request("GET", "/", {"host": host}))
            assert (refusal is None) == known, host
            assert refusal is None or refusal.status == 421


def test_guarded_application() -> None:
    """Requests for other names get nothing of the application; those without a name do."""
    application = RebindingGuard(lambda _: Response.text(200, "private"), ["wheels.example"])
    for headers, status in (
        ({"host": "wheels.example"}, 200),
        ({"host": "evil.test"}, 421),
        ({}, 200),
    ):
        answer = application(Request("GET", "/simple/", headers))
        assert answer.status == status
        assert (b"private" in b"".join(answer.body)) == (status == 200)


@pytest.mark.parametrize(
    ("family", "address", "near"),
    [
        (socket.AF_INET, "127.0.0.1", True),
        (socket.AF_INET, "127.9.9.9", True),
        (socket.AF_INET, "0.0.0.0", False),
        (socket.AF_INET6, "::1", True),
        (socket.AF_INET6, "::", False),
    ],
)
def test_socket_addresses(family: int, address: str, *, near: bool) -> None:
    """The address of the socket counts, not the name it was given by."""
    with socket.socket(family) as listener:
        try:
            listener.bind((address, 0))
        except OSError as error:
            pytest.skip(f"no such address here: {error}")
        listener.listen()
        assert is_on_loopback(listener) == near


@pytest.mark.parametrize("text", ["Wheels.example", "replica", "10.0.0.7", "::1", "[2001:db8::1]"])
def test_valid_hosts(text: str) -> None:
    """Names and addresses are accepted, with or without brackets."""
    name = text if text.startswith("[") or ":" not in text else f"[{text}]"
    request = Request("GET", "/", headers={"host": f"{name.lower()}:8942"})
    assert HostNames([parse_host_name(text)]).refusal(request) is None


@pytest.mark.parametrize(
    "text", ["", "http://wheels.example/", "wheels.example:80", "10.0.0.7:80", "a b", "a,b", "u@h"]
)
def test_invalid_hosts(text: str) -> None:
    """A host that no request can have is an error."""
    with pytest.raises(ValueError, match="is not a host name or address"):
        parse_host_name(text)
