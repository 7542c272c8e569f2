"""A live index that is served until the process receives a signal to stop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from wheelfit.operations.plain_data import plain_report
from wheelfit.server.hosting.serving import run_server
from wheelfit.server.hosting.sessions import SESSION_ROOT
from wheelfit.server.hosting.settings import ServerSettings, read_settings, unknown_variables
from wheelfit.sources.urls import is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from wheelfit.operations.context import Context


@dataclass(frozen=True, kw_only=True)
class ServeRequest:
    """The index to serve, and how."""

    options: Mapping[str, str | None] = field(default_factory=dict)
    """Settings by their keys in the file, as text; None: not given."""
    settings: str | None = None


def server_settings(request: ServeRequest, context: Context) -> ServerSettings:
    """Return the settings of a server, and warn of variables that set nothing.

    :raises InvalidConfiguration: a setting cannot be used.
    """
    for name in unknown_variables(context.environ):
        context.reporter.warn(f"{name} has no effect: there is no such setting")
    return read_settings(request.options, context.environ, request.settings)


@dataclass(frozen=True, slots=True)
class ServedIndex:
    """The URLs of a live index that answers requests."""

    index_url: str
    upload_url: str
    sessions_url: str
    """The root endpoint of its publishing sessions (PEP 694)."""
    token_file: Path | None
    """The new file with the first token; None: there were tokens before."""
    bridges: tuple[str, ...] = ()
    """The families that it mirrors, as clients name them: ``pytorch@URL``."""

    def to_json(self) -> dict[str, object]:
        """Return the object of ``--json`` (docs/reference/json.md)."""
        return plain_report(
            self,
            "token_file bridges",
            url=self.index_url,
            upload=self.upload_url,
            sessions=self.sessions_url,
        )


def serve(
    settings: ServerSettings,
    context: Context,
    *,
    started: Callable[[ServedIndex], None],
    log_to: TextIO | None,
) -> None:
    """Serve an index until the process receives a signal to stop.

    :param settings: the result of `server_settings`.
    :param log_to: the stream for the log; None: standard error is closed.
    :raises InvalidConfiguration: a setting cannot be used.
    """
    warn = context.reporter.warn
    if settings.fd is None and not is_loopback(settings.host) and settings.public_url is None:
        warn(
            f"other machines can reach the index at {settings.host} over plain HTTP: put a server "
            "with TLS in front of it, and name its URL with --public-url"
        )
    run_server(
        settings,
        context.environ,
        started=lambda server: started(
            ServedIndex(
                f"{server.origin}/simple/",
                f"{server.origin}/legacy/",
                f"{server.origin}/{SESSION_ROOT}/",
                server.token_file,
                tuple(f"{name}@{server.origin}/bridges/{name}" for name in server.bridges),
            )
        ),
        log_to=log_to,
    )
