"""Which proxy serves a URL."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from msgspec import Struct

from wheelfit.sources.urls import is_loopback, origin

if TYPE_CHECKING:
    from collections.abc import Mapping


class ProxyRules(Struct, frozen=True):
    """The choice of a proxy by scheme and host. This machine itself is never behind one."""

    by_scheme: Mapping[str, str]
    """Proxy URL for ``http``, ``https`` and ``all``."""
    exceptions: tuple[str, ...] = ()
    """Hosts, domains, networks, each maybe with a port; ``*`` for all."""

    @classmethod
    def for_all(cls, proxy: str) -> ProxyRules:
        """Return the rules of one explicit proxy; empty for none.

        As in pip, an explicit proxy serves every host: ``NO_PROXY`` belongs to
        the proxies of the environment.
        """
        return cls({"all": _with_scheme(proxy)} if proxy else {})

    @classmethod
    def from_environ(
        cls, environ: Mapping[str, str], system: Mapping[str, str] | None = None
    ) -> ProxyRules:
        """Read ``HTTP_PROXY``, ``HTTPS_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``.

        Lower-case names come first. Under CGI, ``HTTP_PROXY`` is what a stranger
        sent as a header, so only the lower-case one counts there.

        :param system: the operating system's own proxies, used if the environment has none.
        """
        proxies: dict[str, str] = {}
        for scheme in ("http", "https", "all"):
            value = environ.get(f"{scheme}_proxy")
            if value is None and not (scheme == "http" and "REQUEST_METHOD" in environ):
                value = environ.get(f"{scheme.upper()}_PROXY")
            if value:
                proxies[scheme] = _with_scheme(value)
        if not proxies and system:
            proxies = {
                scheme: _with_scheme(url)
                for scheme, url in system.items()
                if scheme in {"http", "https", "all"}
            }
        text = environ.get("no_proxy", environ.get("NO_PROXY", ""))
        exceptions = tuple(part.strip().lower() for part in text.split(",") if part.strip())
        return cls(proxies, exceptions)

    def proxy_for(self, url: str) -> str | None:
        """Return the URL of the proxy, maybe with credentials; None for none."""
        proxy = self.by_scheme.get(url.partition(":")[0]) or self.by_scheme.get("all")
        if proxy is None:
            return None
        target = origin(url)
        if is_loopback(target.host):
            return None
        excepted = any(_matches(each, target.host, target.port) for each in self.exceptions)
        return None if excepted else proxy


def is_proxy(url: str) -> bool:
    """Return whether a proxy can be named so: an http, https or SOCKS URL with a host."""
    try:
        return origin(url).scheme in {"http", "https", "socks4", "socks4a", "socks5", "socks5h"}
    except ValueError:
        return False


def _with_scheme(proxy: str) -> str:
    return proxy if "://" in proxy else f"http://{proxy}"


def _matches(exception: str, host: str, port: int) -> bool:
    if exception == "*":
        return True
    name, colon, number = exception.rpartition(":")
    if colon and number.isdecimal() and (":" not in name or name.endswith("]")):
        if int(number) != port:
            return False
        exception = name
    exception = exception.strip("[]")
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(exception, strict=False)
    except ValueError:
        domain = exception.removeprefix("*").lstrip(".")
        return host == domain or host.endswith(f".{domain}")
