"""Commands whose pip, uv or pdm gets the variants that fit, from a proxy of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.operations.proxies import ProxiedRequest

if TYPE_CHECKING:
    from wheelfit.operations.context import Context


@dataclass(frozen=True, kw_only=True)
class RunRequest(ProxiedRequest):
    """The command to run, and the proxy that it gets."""

    command: tuple[str, ...] = ()
    port: int | None = None


def run(request: RunRequest, context: Context) -> int:
    """Run a command behind a proxy, and return its exit code.

    :param request: the command.
    :param context: the surroundings; the command gets its environment.
    :raises UsageError: there is no command.
    :raises FileProblem: the command cannot be started.
    """
    import secrets
    from pathlib import Path

    from wheelfit.errors import UsageError
    from wheelfit.operations.child_command import run_in_place
    from wheelfit.operations.indexes import read_settings
    from wheelfit.operations.installers import installers_of, read_command
    from wheelfit.operations.proxies import open_proxy, serving
    from wheelfit.operations.user_folders import home
    from wheelfit.server.proxy.environment import environment_for
    from wheelfit.server.proxy.mounting import Guarded

    if not request.command:
        raise UsageError("there is no command to run", hint="wheelfit run -- uv pip install NAME")
    settings = read_settings(request, context.environ)
    installers = installers_of(
        read_command(request.command),
        settings,
        context.environ,
        home=home(),
        folder=Path.cwd(),
        is_asked=request.index_url is not None,
    )
    for note in installers.notes:
        context.reporter.warn(note)
    with open_proxy(request, settings, context, below=installers.by_name()) as opened:
        secret = "" if request.port is not None else secrets.token_urlsafe(24)
        application = Guarded(opened.application, secret) if secret else opened.application
        with serving(application, port=request.port or 0) as server:
            base = f"{server.origin}/{secret}/" if secret else f"{server.origin}/"
            context.reporter.detail(f"proxy: {server.origin}/{'…/' * bool(secret)}simple/")
            changed = environment_for(
                context.environ,
                base,
                whole=request.full,
                extra_index_urls=settings.extra_index_urls,
                pip_index=installers.pip_index,
                uv_index=installers.uv_index,
                in_project=installers.in_project,
            )
            try:
                return run_in_place(request.command, changed)
            finally:
                opened.cut()
