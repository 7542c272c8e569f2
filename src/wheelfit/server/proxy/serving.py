"""Serving of a proxy on the network, by an ASGI server with limits against abuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.server.asgi import AsgiApplication, ClientLimits, ServedRequest
from wheelfit.server.listening import listen_at, origin_of, serve
from wheelfit.server.rebinding_guard import RebindingGuard, is_on_loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from wheelfit.server.messages import Application


_LIMITS = ClientLimits(body_size=0, threads=64, response_timeout=300.0)
"""Requests have no bodies. A request that waits for an index behind the proxy blocks a thread."""
_SHUTDOWN_TIMEOUT = 5
"""Seconds; most often a user waits at a terminal."""


def serve_on_network(
    application: Application,
    *,
    host: str,
    port: int,
    host_names: Collection[str] = (),
    ready: Callable[[str], None],
    note: Callable[[str], None],
    cancel: Callable[[], None],
    limits: ClientLimits = _LIMITS,
) -> None:
    """Serve until the process receives a signal (SIGTERM, SIGINT), then finish running requests.

    :param host_names: host names to answer to besides those of this machine. Empty: all names if
        other machines can reach the address, else only those of this machine.
    :param ready: called with the origin, once requests are answered.
    :param note: called with messages for the operator, which omit requests, as these may have
        secrets.
    :param cancel: cancels transfers at the end.
    :raises InvalidConfiguration: the server cannot listen at this address.
    """

    def log_request(served: ServedRequest) -> None:
        if served.error is not None:
            note(f"a request failed: {type(served.error).__name__}: {served.error}")

    with listen_at(host, port) as listener:
        origin = origin_of(listener)
        if host_names or is_on_loopback(listener):
            application = RebindingGuard(
                application, (*host_names, host) if is_on_loopback(listener) else host_names
            )
        asgi = AsgiApplication(application, limits=limits, origin=origin, on_served=log_request)
        serve(
            asgi,
            listener,
            limits,
            ready=lambda: ready(origin),
            shutdown_timeout=_SHUTDOWN_TIMEOUT,
            cancel=cancel,
            note=note,
        )
