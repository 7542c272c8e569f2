"""Which URLs the pages of a mirrored index may send the mirror to.

Where a connection may lead, `wheelfit.server.admission` decides by the address that
answers. That is too late for ports: beside an index on some machine there is much that only
this server can reach, on the same host and another port.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.server.admission import Admission
from wheelfit.sources.urls import origin

if TYPE_CHECKING:
    from collections.abc import Iterable


_USUAL = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Reach:
    """Decide about URLs: those that pages list, and every hop of a redirect."""

    admits: Admission
    """Decides about hosts and addresses."""
    port: int
    """The index's own."""
    ports: frozenset[tuple[str, int]]
    """Further ones that the operator named, each with its host."""

    @classmethod
    def of(cls, url: str, hosts: Iterable[str] = ()) -> Reach:
        """Return what an index may name.

        :param hosts: ``host`` or ``host:port`` that its pages may name as well.
        :raises ValueError: the URL has no host, or a port is none.
        """
        named = [origin(f"http://{host}") for host in hosts]
        ports = frozenset((one.host.rstrip("."), one.port) for one in named)
        return cls(Admission.of(url, (one.host for one in named)), origin(url).port, ports)

    def __call__(self, url: str) -> bool:
        """Tell whether a URL may be asked for.

        :param url: without credentials.
        """
        try:
            where = origin(url)
        except ValueError:
            return False
        host = where.host.rstrip(".")
        is_usual = where.port in (self.port, _USUAL.get(where.scheme))
        if not (is_usual or (host, where.port) in self.ports):
            return False
        return where.scheme in _USUAL and self.admits(host, host)
