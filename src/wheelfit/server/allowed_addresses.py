"""The hosts, addresses and ports that pages of an untrusted upstream index may name.

A server that fetches untrusted URLs can be made to request servers that only it can reach: the
metadata service of a cloud, a database on this machine (server-side request forgery). So a public
index may name public addresses only. The address of each connection is checked, because a name may
resolve to another one the next time; ports are checked before, in URLs, by `UrlRules`.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.sources.urls import is_loopback, origin

if TYPE_CHECKING:
    from collections.abc import Iterable


# Classes of addresses, the most private last; one in `_NEVER` is never requested.
_PUBLIC, _PRIVATE, _THIS_MACHINE, _NEVER = range(4)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_LEGACY_IPV4 = re.compile(r"(?:0x[0-9a-f]+|[0-9]+)(?:\.(?:0x[0-9a-f]+|[0-9]+)){0,3}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AddressRules:
    """The rules about hosts and addresses."""

    hosts: frozenset[str]
    """Hosts allowed at any address: the index itself, and those that the operator named."""
    max_class: int
    """The most private class of addresses that other hosts may have."""

    @classmethod
    def of(cls, url: str, hosts: Iterable[str] = ()) -> AddressRules:
        """Return the rules for an index.

        An index with a private address, or one of this machine, may name other such addresses; one
        with a host name counts as public, because others may control its DNS entry.

        :param hosts: hosts that its pages may name although their addresses are private.
        :raises ValueError: the URL has no host.
        """
        host = origin(url).host
        host_names = frozenset(name.lower().rstrip(".") for name in (host, *hosts))
        return cls(host_names, min(_address_class(host), _THIS_MACHINE))

    @classmethod
    def of_target(cls, url: str, *, may_be_private: bool) -> AddressRules:
        """Return the rules for a URL of the operator, whose host name others may control.

        A URL with an address may lead to that address, or to less private ones; a metadata
        service is never requested.

        :param may_be_private: whether a host name may lead to a private address.
        :raises ValueError: the URL has no host.
        """
        own_class = min(_address_class(origin(url).host), _THIS_MACHINE)
        return cls(frozenset(), max(own_class, _PRIVATE if may_be_private else _PUBLIC))

    def __call__(self, host: str, address: str) -> bool:
        """Return whether a host may be requested.

        :param address: the address that answered; the host again if it is unknown.
        """
        host = host.strip("[]").lower().rstrip(".")
        return host in self.hosts or _address_class(address) <= self.max_class


def _address_class(address: str) -> int:
    """Return the class of an address; host names are public."""
    if is_loopback(address):
        return _THIS_MACHINE
    bare_address = address.strip("[]").partition("%")[0].rstrip(".")
    try:
        ip = ipaddress.ip_address(bare_address)
    except ValueError:
        ipv4 = _legacy_ipv4(bare_address)
        if ipv4 is None:
            return _PUBLIC
        ip = ipv4
    ip = getattr(ip, "ipv4_mapped", None) or ip
    if ip.is_loopback:
        return _THIS_MACHINE
    if ip.is_link_local or ip.is_unspecified or ip.is_multicast or ip in _METADATA:
        return _NEVER
    # IPv6 addresses that stand for an IPv4 address have it in their last bytes.
    embedded = getattr(ip, "sixtofour", None)
    if embedded is None and ip in _TRANSLATED:
        embedded = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    if embedded is not None:
        return max(_PRIVATE, _address_class(str(embedded)))
    return _PUBLIC if ip.is_global and ip not in _PRIVATE_NETWORKS else _PRIVATE


def _legacy_ipv4(text: str) -> ipaddress.IPv4Address | None:
    """Read a numeric address as resolvers do: ``127.1``, ``0x7f000001``.

    Through a proxy, the address of the connection is unknown, so the text has to be checked.
    """
    if _LEGACY_IPV4.fullmatch(text) is None:
        return None
    try:
        return ipaddress.IPv4Address(socket.inet_aton(text))
    except OSError:
        return None


class _Networks:
    """A set of networks."""

    def __init__(self, *texts: str) -> None:
        self._networks = [ipaddress.ip_network(text) for text in texts]

    def __contains__(self, address: object) -> bool:
        return any(address in network for network in self._networks)


_TRANSLATED = _Networks("64:ff9b::/96", "64:ff9b:1::/96", "::/96", "::ffff:0:0:0/96")
"""IPv6 networks whose last four bytes are an IPv4 address."""
_METADATA = _Networks(
    *("169.254.0.0/16", "fd00:ec2::254/128", "100.100.100.200/32"),
    *("192.0.0.192/32", "168.63.129.16/32"),
)
"""Metadata services of clouds, which return secrets."""
_PRIVATE_NETWORKS = _Networks("64:ff9b:1::/48", "fec0::/10", "192.0.0.0/24")
"""Private networks that older Pythons report as public."""


@dataclass(frozen=True, slots=True)
class UrlRules:
    """The rules about URLs: those that pages list, and every hop of a redirect."""

    address_rules: AddressRules
    port: int
    """The port of the index, allowed for every host."""
    ports: frozenset[tuple[str, int]]
    """Further ports that the operator named, each with its host."""
    only_hosts: frozenset[str] = frozenset()
    """The only hosts that may be requested, with https; empty: all that the other rules admit."""

    @classmethod
    def of(cls, url: str, hosts: Iterable[str] = (), only_hosts: Iterable[str] = ()) -> UrlRules:
        """Return the rules for an index.

        :param hosts: ``host`` or ``host:port`` that its pages may name as well.
        :raises ValueError: the URL has no host, or a port is invalid.
        """
        named_hosts = [origin(f"http://{host}") for host in hosts]
        ports = frozenset((named.host.rstrip("."), named.port) for named in named_hosts)
        rules = AddressRules.of(url, (named.host for named in named_hosts))
        return cls(rules, origin(url).port, ports, frozenset(only_hosts))

    def __call__(self, url: str) -> bool:
        """Return whether a URL may be requested.

        :param url: without credentials.
        """
        try:
            target = origin(url)
        except ValueError:
            return False
        host = target.host.rstrip(".")
        if self.only_hosts and not (target.scheme == "https" and host in self.only_hosts):
            return False
        is_usual_port = target.port in (self.port, _DEFAULT_PORTS.get(target.scheme))
        if not (is_usual_port or (host, target.port) in self.ports):
            return False
        return target.scheme in _DEFAULT_PORTS and self.address_rules(host, host)
