"""Run a command whose pip, uv or pdm gets the right variants.

A proxy is started on this machine, for this command only, in front of the indexes that are
configured; variables tell pip, uv and pdm of it. Projects with variants come from there, each
in the build that fits; all others come from where they always do.

Everything after -- is the command: wheelfit run -- uv pip install torch
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options import add_proxying, port_number

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output
    from wheelfit.sources.settings import SourceSettings


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="what to run, after --")
    parser.add_argument(
        "--port",
        type=port_number,
        metavar="N",
        help="listen at this port, without a secret in the path: for tools whose configuration "
        "names the URL",
    )
    add_proxying(parser)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Run the command; its exit code is that of this one."""
    import secrets

    from wheelfit.cli.indexes import read_settings
    from wheelfit.cli.proxying import open_proxy, serving
    from wheelfit.cli.stand_in import run_in_our_place
    from wheelfit.errors import UsageError
    from wheelfit.server.proxy.application import Guarded
    from wheelfit.server.proxy.environment import environment_for

    if not arguments.command:
        raise UsageError("there is no command to run", hint="wheelfit run -- uv pip install NAME")
    if output.json:
        raise UsageError("--json cannot be used here: what is printed is the command's")
    configured = read_settings(arguments, environ)
    settings = _with_uv(configured, arguments, environ)
    pip_index, uv_index = _main_indexes(configured, arguments, environ)
    with open_proxy(arguments, settings, environ, output) as opened:
        secret = "" if arguments.port is not None else secrets.token_urlsafe(24)
        application = Guarded(opened.application, secret) if secret else opened.application
        with serving(application, port=arguments.port or 0) as server:
            base = f"{server.origin}/{secret}/" if secret else f"{server.origin}/"
            output.detail(f"proxy: {server.origin}/{'…/' * bool(secret)}simple/")
            changed = environment_for(
                environ,
                base,
                whole=arguments.full,
                extra_index_urls=configured.extra_index_urls,
                pip_index=pip_index,
                uv_index=uv_index,
            )
            try:
                return run_in_our_place(arguments.command, changed)
            finally:
                opened.cut()


def _main_indexes(
    settings: SourceSettings, arguments: Namespace, environ: Mapping[str, str]
) -> tuple[str | None, str | None]:
    """Say what pip and uv ask beside the proxy where an index was named: that, never the default.

    A private project whose name is public too would come from the public index.
    """
    from wheelfit.server.proxy.environment import indexes_of_uv
    from wheelfit.sources.settings import SourceSettings

    is_asked = arguments.index_url is not None
    if not is_asked and settings.index_url == SourceSettings().index_url:
        return None, None
    has_own = not is_asked and indexes_of_uv(environ)[1] is not None
    return settings.index_url, None if has_own else settings.index_url


def _with_uv(
    settings: SourceSettings, arguments: Namespace, environ: Mapping[str, str]
) -> SourceSettings:
    """Add the indexes that uv is told of, unless the options say which ones count."""
    from wheelfit.server.proxy.environment import indexes_of_uv
    from wheelfit.sources.settings import SourceSettings
    from wheelfit.values import replace

    first, default = indexes_of_uv(environ)
    if arguments.index_url is not None or arguments.no_index or not (first or default):
        return settings
    is_configured = settings.index_url != SourceSettings().index_url
    last = settings.index_url if default is None or is_configured else default
    others = (*first, *settings.extra_index_urls, last)
    if default is not None:
        others = (*others, default)
    head, *rest = dict.fromkeys(others)
    return replace(settings, index_url=head, extra_index_urls=tuple(rest))
