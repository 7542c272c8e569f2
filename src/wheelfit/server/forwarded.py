"""The client of a request, by the headers of trusted servers in front.

Every server in front forwards the headers of its client that it does not set itself. So only the
kind that the operator named is read, of servers at addresses that the operator named.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Literal, NamedTuple

from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ForwardingHeaders = Literal["x-forwarded", "forwarded"]
_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_QUOTED = r'"((?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*)"'
_PARAMETER = rf"({_WORD})=(?:({_WORD})|{_QUOTED})"
_PAIR = pattern(_PARAMETER)
_ELEMENT = pattern(rf"{_PARAMETER}(?:;{_PARAMETER})*")
_ESCAPED = pattern(r"\\(.)")
_NODE = pattern(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+))(?::[0-9]{1,5})?")
_HIDDEN = pattern(r"(unknown|_[0-9A-Za-z._-]+)(?::(?:[0-9]{1,5}|_[0-9A-Za-z._-]+))?")
_SCHEMES = ("http", "https")


class ForwardedRequest(NamedTuple):
    """The origin of a request."""

    client: str
    """Its address; of a client that a server in front hides, ``unknown`` or a name with ``_``."""
    scheme: str = ""
    """The scheme that the client used; empty: unknown."""
    host: str = ""
    """The ``Host`` of the client's own request; empty: unknown."""


class TrustedProxies:
    """The servers in front whose headers are trusted.

    :param headers: ``forwarded`` (RFC 7239), or ``x-forwarded`` for ``X-Forwarded-For``,
        ``-Proto`` and ``-Host``.
    """

    def __init__(self, networks: Iterable[str], headers: ForwardingHeaders) -> None:
        self._networks = tuple(map(ip_network, networks))
        self._read = _read_forwarded if headers == "forwarded" else _read_x_forwarded
        self._trusts = lru_cache(1024)(self._is_trusted)

    def __call__(self, peer: str, headers: Mapping[str, str]) -> ForwardedRequest:
        """Return the origin of a request.

        Headers are read from the nearest server to the farthest, as long as each is trusted;
        reading stops at an untrusted server or a malformed element.

        :param peer: the address that connected.
        :param headers: by lower-case name; values of repeated headers are joined by commas.
        """
        request = ForwardedRequest(peer)
        hops = self._read(headers)
        with suppress(ValueError):
            while self._trusts(request.client) and (hop := next(hops, None)) is not None:
                request = ForwardedRequest(
                    hop.client or request.client,
                    hop.scheme or request.scheme,
                    hop.host or request.host,
                )
                if not hop.client:
                    break
        return request

    def _is_trusted(self, client: str) -> bool:
        try:
            address = ip_address(client.partition("%")[0])
        except ValueError:
            return False  # a socket of this machine, or hidden
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in self._networks)


def _read_forwarded(headers: Mapping[str, str]) -> Iterator[ForwardedRequest]:
    """Yield the elements of ``Forwarded``, the nearest server's first.

    :raises ValueError: an element violates RFC 7239.
    """
    for element in _elements(headers.get("forwarded", "")):
        client = element.get("for", "")
        yield ForwardedRequest(
            client and _node(client), _scheme(element.get("proto", "")), element.get("host", "")
        )


def _elements(text: str) -> Iterator[dict[str, str]]:
    """Yield the parameters of each element, by lower-case name, from the right.

    Not from the left: text of a client there, as an open quotation mark, must not hide elements
    that servers wrote behind it.

    >>> list(_elements('for="[2001:db8::1]:80";proto=https, for=_hidden'))
    [{'for': '_hidden'}, {'for': '[2001:db8::1]:80', 'proto': 'https'}]

    :raises ValueError: an element is malformed.
    """
    start = end = len(text)
    while end > 0:
        start = text.rfind(",", 0, start)
        part = text[start + 1 : end].strip(" \t")
        if not part:
            end = start
        elif _ELEMENT.fullmatch(part):
            pairs = [
                (name.lower(), token or _ESCAPED.sub(r"\1", quoted))
                for name, token, quoted in _PAIR.findall(part)
            ]
            if len(dict(pairs)) < len(pairs):
                raise ValueError("an element has a parameter twice")
            yield dict(pairs)
            end = start
        elif start < 0:
            raise ValueError("there is no element")
        # Otherwise the comma is part of a quoted value.


def _read_x_forwarded(headers: Mapping[str, str]) -> Iterator[ForwardedRequest]:
    """Yield the servers and clients of ``X-Forwarded-For``, the nearest server's first.

    Scheme and host are taken from the nearest server only.

    :raises ValueError: an address is invalid.
    """
    scheme, host = (
        headers.get(name, "").rpartition(",")[2].strip()
        for name in ("x-forwarded-proto", "x-forwarded-host")
    )
    first = ForwardedRequest("", _scheme(scheme), host)
    text = headers.get("x-forwarded-for", "")
    for client in reversed(text.split(",")) if text else ():
        yield first._replace(client=_node(client.strip()))
        first = ForwardedRequest("")
    yield first  # without addresses: scheme and host alone


def _node(text: str) -> str:
    """Return the address of a client without its port, or the name by which it is hidden.

    >>> _node("[2001:db8::1]:4711"), _node("192.0.2.43:80"), _node("_hidden:1")
    ('2001:db8::1', '192.0.2.43', '_hidden')

    :raises ValueError: it is neither.
    """
    if hidden := _HIDDEN.fullmatch(text):
        return hidden[1]
    node = _NODE.fullmatch(text)
    address = text if node is None else node[1] or node[2]
    return str(ip_address(address))


def _scheme(text: str) -> str:
    return text.lower() if text.lower() in _SCHEMES else ""
