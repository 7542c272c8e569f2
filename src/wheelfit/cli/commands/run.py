"""Run a command whose pip, uv or pdm gets the right variants.

A proxy is started on this machine, for this command only, in front of the indexes that are
configured; variables tell pip, uv and pdm of it. Projects with variants come from there, each
in the build that fits; all others come from where they always do.

Everything after -- is the command: wheelfit run -- uv pip install torch
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.environment import INTERPRETER
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.proxying import PROXIED, RUN
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.variants import VARIANTS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (RUN, PROXIED, INTERPRETER, SOURCES, MACHINE, VARIANTS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Run the command; its exit code is that of this one."""
    import secrets
    from pathlib import Path

    from wheelfit.cli.installers import installers_of, read_command
    from wheelfit.cli.proxying import open_proxy, serving
    from wheelfit.cli.stand_in import run_in_our_place
    from wheelfit.errors import UsageError
    from wheelfit.operations.indexes import read_settings
    from wheelfit.operations.user_folders import home
    from wheelfit.server.proxy.environment import environment_for
    from wheelfit.server.proxy.mounting import Guarded

    if not arguments.command:
        raise UsageError("there is no command to run", hint="wheelfit run -- uv pip install NAME")
    if output.json:
        raise UsageError("--json cannot be used here: what is printed is the command's")
    settings = read_settings(arguments, environ)
    installers = installers_of(
        read_command(arguments.command),
        settings,
        environ,
        home=home(),
        folder=Path.cwd(),
        is_asked=arguments.index_url is not None,
    )
    for note in installers.notes:
        output.warn(note)
    with open_proxy(arguments, settings, environ, output, below=installers.by_name()) as opened:
        secret = "" if arguments.port is not None else secrets.token_urlsafe(24)
        application = Guarded(opened.application, secret) if secret else opened.application
        with serving(application, port=arguments.port or 0) as server:
            base = f"{server.origin}/{secret}/" if secret else f"{server.origin}/"
            output.detail(f"proxy: {server.origin}/{'…/' * bool(secret)}simple/")
            changed = environment_for(
                environ,
                base,
                whole=arguments.full,
                extra_index_urls=settings.extra_index_urls,
                pip_index=installers.pip_index,
                uv_index=installers.uv_index,
                in_project=installers.in_project,
            )
            try:
                return run_in_our_place(arguments.command, changed)
            finally:
                opened.cut()
