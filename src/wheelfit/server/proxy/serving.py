"""Serve a proxy to others: under an ASGI server, with bounds for who does not mean well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.server.asgi import AsgiApplication, ClientLimits
from wheelfit.server.listening import listen_at, origin_of, serve
from wheelfit.server.messages import STRICT
from wheelfit.server.rebinding_guard import RebindingGuard, is_near

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from wheelfit.server.asgi import ServedRequest
    from wheelfit.server.messages import Application


_LIMITS = ClientLimits(body=0, threads=64, answer=300.0)
"""Nobody sends a body. Who waits for an index behind the proxy holds a thread."""
_STOP_WITHIN = 5
"""Somebody is waiting at a terminal, most often."""
_HEADERS = tuple(STRICT.items())


def serve_to_others(
    application: Application,
    *,
    host: str,
    port: int,
    names: Collection[str] = (),
    ready: Callable[[str], None],
    failed: Callable[[str], None],
    give_up: Callable[[], None],
    limits: ClientLimits = _LIMITS,
) -> None:
    """Serve until the process is asked to end (SIGTERM, SIGINT), then finish what is begun.

    :param names: host names to answer to besides those of this machine; if there are none, any at
        an address that other machines reach.
    :param ready: told what URLs begin with, once they are answered.
    :param failed: told of answers that failed, without what was asked for: it may be secret.
    :param give_up: breaks off what is fetched, for nobody waits at the end for a silent index.
    :raises InvalidConfiguration: it cannot listen there.
    :raises NeedsExtra: the libraries are not installed.
    """

    def tell(served: ServedRequest) -> None:
        if served.error is not None:
            failed(f"an answer failed: {type(served.error).__name__}: {served.error}")

    with listen_at(host, port) as listener:
        origin = origin_of(listener)
        if names or is_near(listener):
            application = RebindingGuard(
                application, (*names, host) if is_near(listener) else names
            )
        asgi = AsgiApplication(
            application, limits=limits, origin=origin, tell=tell, headers=_HEADERS
        )
        serve(
            asgi,
            listener,
            limits,
            ready=lambda: ready(origin),
            stop_within=_STOP_WITHIN,
            give_up=give_up,
            note=failed,
        )
