"""Rules that select the proxy for a URL."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.sources.urls import is_loopback, origin

if TYPE_CHECKING:
    from collections.abc import Mapping


class ProxyRules(Struct, frozen=True):
    """The proxies by scheme, and the hosts without one; loopback addresses never have one."""

    by_scheme: Mapping[str, str]
    """Proxy URL for ``http``, ``https`` and ``all``."""
    exceptions: tuple[str, ...] = ()
    """Hosts, domains and networks, each with an optional port; ``*`` for all."""

    @classmethod
    def for_all(cls, proxy: str) -> ProxyRules:
        """Return the rules of an explicit proxy.

        As in pip, it serves every host: ``NO_PROXY`` belongs to the proxies of the environment.

        :param proxy: its URL; the scheme is optional, and empty text means no proxy.
        """
        return cls({"all": _with_scheme(proxy)} if proxy else {})

    @classmethod
    def from_environ(
        cls, environ: Mapping[str, str], system: Mapping[str, str] | None = None
    ) -> ProxyRules:
        """Read ``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``.

        Names in lower case come first. Under CGI, ``HTTP_PROXY`` may be a header that the client
        sent, so only ``http_proxy`` is read.

        :param system: the proxies of the operating system, used if the environment has none.
        """
        by_scheme: dict[str, str] = {}
        for scheme in ("http", "https", "all"):
            value = environ.get(f"{scheme}_proxy")
            if value is None and not (scheme == "http" and "REQUEST_METHOD" in environ):
                value = environ.get(f"{scheme.upper()}_PROXY")
            if value:
                by_scheme[scheme] = _with_scheme(value)
        if not by_scheme and system:
            by_scheme = {
                scheme: _with_scheme(url)
                for scheme, url in system.items()
                if scheme in {"http", "https", "all"}
            }
        text = environ.get("no_proxy", environ.get("NO_PROXY", ""))
        exceptions = tuple(part.strip().lower() for part in text.split(",") if part.strip())
        return cls(by_scheme, exceptions)

    def proxy_for(self, url: str) -> str | None:
        """Return the URL of the proxy for a URL, with any credentials; None without a proxy."""
        target = origin(url)
        proxy = self.by_scheme.get(target.scheme) or self.by_scheme.get("all")
        if proxy is None or is_loopback(target.host):
            return None
        is_excepted = any(
            _matches(exception, target.host, target.port) for exception in self.exceptions
        )
        return None if is_excepted else proxy


def is_proxy_url(url: str) -> bool:
    """Return whether a text is an http, https or SOCKS URL with a host."""
    try:
        return origin(url).scheme in {"http", "https", "socks4", "socks4a", "socks5", "socks5h"}
    except ValueError:
        return False


def _with_scheme(proxy: str) -> str:
    return proxy if "://" in proxy else f"http://{proxy}"


def _matches(exception: str, host: str, port: int) -> bool:
    if exception == "*":
        return True
    name, colon, port_text = exception.rpartition(":")
    is_ipv6 = ":" in name and not name.endswith("]")  # without brackets, hence without a port
    if colon and port_text.isdecimal() and not is_ipv6:
        if int(port_text) != port:
            return False
        exception = name
    exception = exception.strip("[]")
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(exception, strict=False)
    except ValueError:
        domain = exception.removeprefix("*").lstrip(".")
        return host == domain or host.endswith(f".{domain}")
