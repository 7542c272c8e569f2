"""Serve an index from which any installer takes the variant that fits.

The proxy stands in front of the indexes that are configured. It lists variants under names that
installers understand, each in the build that fits this machine, or the one that the URL names:
/simple/ is for this machine, /for/cuda-12.8-sm90/simple/ for another one. It runs until it is
interrupted.

By default it knows projects with variants only, and is named beside the usual index. Whoever sets
WHEELFIT_PROXY_SECRET has a secret in the path, before everything else.

To listen at another address than one of this machine it needs the extra `server`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from wheelfit.cli.options.table.environment import INTERPRETER
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.proxying import PROXIED, PROXY
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.variants import VARIANTS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping

    from wheelfit.cli.output import Output
    from wheelfit.server.messages import Application

_PORT = 8941
SECRET = "WHEELFIT_PROXY_SECRET"  # noqa: S105 - the name of a variable


OPTIONS = (PROXY, PROXIED, INTERPRETER, SOURCES, MACHINE, VARIANTS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Serve until interrupted."""
    import re

    from wheelfit.cli.proxying import open_proxy
    from wheelfit.errors import InvalidConfiguration
    from wheelfit.operations.indexes import read_settings
    from wheelfit.server.proxy.mounting import Guarded
    from wheelfit.sources.urls import is_loopback

    secret = environ.get(SECRET, "")
    if secret and not re.fullmatch(r"[A-Za-z0-9_-]{16,200}", secret):
        raise InvalidConfiguration(
            f"{SECRET} needs 16 letters or digits and more, nothing else but - and _"
        )
    settings = read_settings(arguments, environ)
    with open_proxy(arguments, settings, environ, output) as opened:
        if not secret and opened.has_logins:
            output.warn(
                "an index behind the proxy is asked with your login, so whoever reaches the "
                f"proxy sees what you see there; {SECRET} keeps others out"
            )
        if not is_loopback(arguments.listen_at):
            output.warn(
                f"others may reach the proxy at {arguments.listen_at}; it speaks plain HTTP, so "
                "put a server with TLS in front of it where the network is not yours"
            )
        application = Guarded(opened.application, secret) if secret else opened.application

        def ready(origin: str) -> None:
            base = f"{origin}/{secret}" if secret else origin
            output.result_json(
                {
                    "version": 1,
                    "url": f"{base}/simple/",
                    "full": arguments.full,
                    "catalogue": arguments.catalogue,
                }
            )
            output.result(f"{base}/simple/")
            output.flush()
            output.say(f"for another machine: {base}/for/PRESET/simple/", "dim")

        try:
            _serve(application, arguments, ready, output, opened.cut)
        finally:
            opened.cut()
    output.say("stopped", "dim")
    return 0


def _serve(
    application: Application,
    arguments: Namespace,
    ready: Callable[[str], None],
    output: Output,
    cut: Callable[[], None],
) -> None:
    """Serve until interrupted; without the extra, for this machine only, by a small server."""
    import threading

    from wheelfit.cli.proxying import serving
    from wheelfit.errors import NeedsExtra
    from wheelfit.server.proxy.serving import serve_to_others
    from wheelfit.sources.urls import is_loopback

    host, port = arguments.listen_at, arguments.port
    try:
        serve_to_others(
            application,
            host=host,
            port=port,
            names=arguments.answer_to,
            ready=ready,
            failed=output.warn,
            give_up=cut,
        )
    except NeedsExtra:
        if not is_loopback(host):
            raise
        with serving(application, port=port, names=arguments.answer_to) as server:
            ready(server.origin)
            with suppress(KeyboardInterrupt):
                threading.Event().wait()
            cut()
