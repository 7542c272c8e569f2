"""A proxy that chooses variants for installers, until the process is asked to end."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.operations.proxies import ProxiedRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from wheelfit.operations.context import Context
    from wheelfit.operations.proxies import OpenedProxy

SECRET = "WHEELFIT_PROXY_SECRET"  # noqa: S105 - the name of a variable
"""The environment variable with a secret that stands in the path of every URL."""


@dataclass(frozen=True, kw_only=True)
class ProxyRequest(ProxiedRequest):
    """The proxy to serve."""

    listen_at: str = "127.0.0.1"
    port: int = 8941
    answer_to: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServedProxy:
    """A proxy that answers requests."""

    base: str
    """The beginning of its URLs, with the secret."""
    full: bool
    catalogue: bool

    @property
    def index_url(self) -> str:
        """The URL for installers on this machine."""
        return f"{self.base}/simple/"

    def to_json(self) -> dict[str, object]:
        """Return the report as plain data."""
        return {
            "version": 1,
            "url": self.index_url,
            "full": self.full,
            "catalogue": self.catalogue,
        }


def proxy(
    request: ProxyRequest, context: Context, *, started: Callable[[ServedProxy], None]
) -> None:
    """Serve a proxy until the process is interrupted.

    :param request: the proxy.
    :param context: the surroundings.
    :param started: called when requests are answered.
    :raises InvalidConfiguration: it cannot listen there, or has no index behind it.
    :raises NeedsExtra: it is to be reached by other machines, and the libraries are missing.
    """
    import re

    from wheelfit.operations.indexes import read_settings
    from wheelfit.operations.proxies import open_proxy
    from wheelfit.server.proxy.mounting import Guarded
    from wheelfit.sources.urls import is_loopback
    from wheelfit_runtime.errors import InvalidConfiguration

    secret = context.environ.get(SECRET, "")
    if secret and not re.fullmatch(r"[A-Za-z0-9_-]{16,200}", secret):
        raise InvalidConfiguration(
            f"{SECRET} needs 16 letters or digits and more, nothing else but - and _"
        )
    settings = read_settings(request, context.environ)
    with open_proxy(request, settings, context) as opened:
        if not secret and opened.has_logins:
            context.reporter.warn(
                "an index behind the proxy is asked with your login, so whoever reaches the "
                f"proxy sees what you see there; {SECRET} keeps others out"
            )
        if not is_loopback(request.listen_at):
            context.reporter.warn(
                f"others may reach the proxy at {request.listen_at}; it speaks plain HTTP, so "
                "put a server with TLS in front of it where the network is not yours"
            )
        if secret:
            opened.application = Guarded(opened.application, secret)

        def ready(origin: str) -> None:
            base = f"{origin}/{secret}" if secret else origin
            started(ServedProxy(base, request.full, request.catalogue))

        try:
            _serve(opened, request, context, ready)
        finally:
            opened.cut()


def _serve(
    opened: OpenedProxy, request: ProxyRequest, context: Context, ready: Callable[[str], None]
) -> None:
    """Serve until interrupted; without the extra, for this machine only, by a small server."""
    import threading

    from wheelfit.errors import NeedsExtra
    from wheelfit.operations.proxies import serving
    from wheelfit.server.proxy.serving import serve_to_others
    from wheelfit.sources.urls import is_loopback

    host, port = request.listen_at, request.port
    try:
        serve_to_others(
            opened.application,
            host=host,
            port=port,
            names=request.answer_to,
            ready=ready,
            failed=context.reporter.warn,
            give_up=opened.cut,
        )
    except NeedsExtra:
        if not is_loopback(host):
            raise
        with serving(opened.application, port=port, names=request.answer_to) as server:
            ready(server.origin)
            with suppress(KeyboardInterrupt):
                threading.Event().wait()
            opened.cut()
