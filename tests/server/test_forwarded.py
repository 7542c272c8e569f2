"""The client of a request behind trusted proxies."""

from __future__ import annotations

from typing import Literal

import pytest

from wheelfit.server.forwarded import ForwardedRequest, TrustedProxies

PEER = "10.0.0.1"
NETWORKS = ("10.0.0.0/8", "2001:db8:cafe::/48", "192.0.2.1")


def origin(text: str, peer: str = PEER, **more: str) -> ForwardedRequest:
    """Return the origin of a request with ``Forwarded``."""
    headers = {"forwarded": text, **{name.replace("_", "-"): more[name] for name in more}}
    return TrustedProxies(NETWORKS, "forwarded")(peer, headers)


def x_origin(for_: str, peer: str = PEER, **more: str) -> ForwardedRequest:
    """Return the origin of a request with ``X-Forwarded-For`` and related headers."""
    headers = {"x-forwarded-for": for_}
    headers |= {f"x-forwarded-{name}": more[name] for name in more}
    return TrustedProxies(NETWORKS, "x-forwarded")(peer, headers)


@pytest.mark.parametrize(
    ("text", "client"),
    [
        ("for=203.0.113.7", "203.0.113.7"),
        ("For=203.0.113.7;Proto=https;by=10.0.0.1", "203.0.113.7"),
        ('for="203.0.113.7:4711"', "203.0.113.7"),
        ('for="[2001:DB8::7]"', "2001:db8::7"),
        ('for="[2001:db8::7]:4711";host="a,b"', "2001:db8::7"),
        ("for=unknown", "unknown"),
        ("for=_hidden", "_hidden"),
        ('for="_hidden:_port"', "_hidden"),
        ('for="\\203.0.113.7"', "203.0.113.7"),  # each character of a quoted value may be escaped
        ("for=203.0.113.7, , ", "203.0.113.7"),  # lists may have empty elements
        ("for=198.51.100.1, for=203.0.113.7", "203.0.113.7"),
        ("for=198.51.100.1,for=203.0.113.7 ,\tfor=10.9.9.9", "203.0.113.7"),
        ('for=198.51.100.1, for=192.0.2.1, for="[2001:db8:cafe::9]"', "198.51.100.1"),
        ("for=10.0.0.3, for=10.0.0.2", "10.0.0.3"),  # all are trusted
        ("for=198.51.100.1, for=_hidden", "_hidden"),
        ("for=198.51.100.1, proto=https", PEER),
        ("for=198.51.100.1, for=unknown, for=10.0.0.2", "unknown"),
    ],
)
def test_client(text: str, client: str) -> None:
    """The client is the first untrusted address from the right."""
    assert origin(text).client == client


@pytest.mark.parametrize(
    "text",
    [
        "", ",", ";", "for", "for=", "=203.0.113.7", "for=203.0.113.7;", ";for=203.0.113.7",
        "for=203.0.113.7;for=203.0.113.8", "for = 203.0.113.7", "for=203.0.113.7; proto=http",
        "for=203.0.113.7:4711", "for=[2001:db8::7]", 'for="2001:db8::7', 'for="2001:db8::7"x',
        "for=host.example", "for=203.0.113", 'for="203.0.113.7:port"', 'for="[203.0.113.7"',
        'for="[2001:db8::7]:123456"', "for=_", "for=_hid/den", 'for="_hid den"', 'for=""',
        "for=٢٠٣.0.113.7", 'for="203.0.113.7\x00"', "for=fe80::1%eth0",
    ],
)  # fmt: skip
def test_invalid_headers(text: str) -> None:
    """With an invalid header the proxy counts as the client."""
    assert origin(text) == ForwardedRequest(PEER)


@pytest.mark.parametrize(
    "lie",
    [
        "for=198.51.100.1", 'for="', "for=198.51.100.1;", "\\", "for=198.51.100.1, for=10.0.0.1",
        'for="198.51.100.1, for=10.0.0.1', "for=10.0.0.1, garbage", "=", '",', "for=unknown",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "genuine",
    [
        "for=203.0.113.7;proto=https;host=wheels.example",
        'host="wheels.example";for="203.0.113.7:80";proto=https',
        "for=203.0.113.7;proto=https;host=wheels.example, for=10.0.0.9;proto=http;host=inner",
    ],
)
def test_forged_headers(lie: str, genuine: str) -> None:
    """Values of trusted proxies override what the client sent."""
    expected = ForwardedRequest("203.0.113.7", "https", "wheels.example")
    assert origin(f"{lie}, {genuine}") == expected
    assert origin(f"{lie},{genuine}", x_forwarded_for="198.51.100.1") == expected


@pytest.mark.parametrize("peer", ["203.0.113.7", "2001:db8::1", "", "11.0.0.1", "::ffff:b00:1"])
def test_untrusted_proxies(peer: str) -> None:
    """An untrusted proxy is the client."""
    assert origin("for=198.51.100.1;proto=https;host=evil", peer) == ForwardedRequest(peer)
    assert x_origin("198.51.100.1", peer, proto="https", host="evil") == ForwardedRequest(peer)


@pytest.mark.parametrize("peer", ["10.0.0.1", "::ffff:10.0.0.1", "2001:db8:cafe:1::2", "192.0.2.1"])
def test_forms_of_addresses(peer: str) -> None:
    """Proxies are trusted by network, also with IPv4 inside IPv6."""
    assert origin("for=198.51.100.1", peer).client == "198.51.100.1"


@pytest.mark.parametrize(
    ("text", "client"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("198.51.100.1, 203.0.113.7", "203.0.113.7"),
        ("198.51.100.1,203.0.113.7,10.0.0.2", "203.0.113.7"),
        ("203.0.113.7:4711", "203.0.113.7"),
        ("[2001:db8::7]:4711", "2001:db8::7"),
        ("2001:db8::7", "2001:db8::7"),
        ("garbage, 203.0.113.7", "203.0.113.7"),
        ("garbage, 10.0.0.2", "10.0.0.2"),
        ("garbage", PEER),
        ("203.0.113.7, ", PEER),
        ("unknown", "unknown"),
        ("", PEER),
    ],
)
def test_x_forwarded_for(text: str, client: str) -> None:
    """``X-Forwarded-For`` is read from the right, without ``Forwarded``."""
    assert x_origin(text).client == client
    headers = {"x-forwarded-for": text, "forwarded": "for=198.51.100.9"}
    assert TrustedProxies(NETWORKS, "x-forwarded")(PEER, headers).client == client


def test_scheme_and_host() -> None:
    """Of ``X-Forwarded-Proto`` and ``-Host`` the last value counts, and schemes are those of HTTP.

    Of ``Forwarded`` the element counts that the farthest trusted server wrote.
    """
    found = x_origin("203.0.113.7", proto="http, HTTPS", host="evil.example, wheels.example")
    assert found == ForwardedRequest("203.0.113.7", "https", "wheels.example")
    assert x_origin("203.0.113.7", proto="gopher").scheme == ""
    assert x_origin("", proto="https", host="a") == ForwardedRequest(PEER, "https", "a")
    assert origin("proto=gopher;host=a") == ForwardedRequest(PEER, "", "a")
    assert origin("for=198.51.100.1;proto=https, for=203.0.113.7;proto=http").scheme == "http"
    assert origin("for=203.0.113.7;proto=https, for=10.0.0.2;proto=http").scheme == "https"


@pytest.mark.parametrize("kind", ["x-forwarded", "forwarded"])
@pytest.mark.parametrize("piece", ['for="', "for=1.2.3.4,", '"\\', ",", "a=b;", 'a="b,c";'])
def test_long_headers(kind: Literal["x-forwarded", "forwarded"], piece: str) -> None:
    """A header of 32 kB is read in milliseconds."""
    import time

    text = piece * (32_000 // len(piece))
    began = time.process_time()
    TrustedProxies(("0.0.0.0/0",), kind)(PEER, {"forwarded": text, "x-forwarded-for": text})
    assert time.process_time() - began < 0.5
