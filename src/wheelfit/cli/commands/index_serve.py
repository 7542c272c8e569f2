"""Serve a live index: installers read it, publishing tools upload to it.

All it keeps is in DIR: a SQLite database, and the files. Nothing has to be set up; with the first
start comes a token for uploads. Several machines share one index when each is given the same
--database and --storage.

Every option can be set by a variable, as WHEELFIT_SERVER_PUBLIC_URL, and by a file; flags
count most. It runs until it is asked to end (SIGTERM), and then finishes what is under way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.indexes import SERVE, SERVER, STORE

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output
    from wheelfit.server.hosting.serving import Started

OPTIONS = (SERVE, STORE, SERVER)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Serve until asked to end."""
    import sys

    from wheelfit.server.hosting.serving import run_server
    from wheelfit.server.hosting.settings import read_settings, unknown_variables
    from wheelfit.sources.urls import is_loopback

    said: dict[str, str | None] = {"folder": arguments.folder}
    for option in (*STORE.options, *SERVER.options):
        value = getattr(arguments, option.destination)
        said[option.key] = " ".join(value) if isinstance(value, list) else value
    for name in unknown_variables(environ):
        output.warn(f"{name} sets nothing: there is no such setting")
    settings = read_settings(said, environ, arguments.settings)
    if settings.fd is None and not is_loopback(settings.host) and settings.public_url is None:
        output.warn(
            f"others may reach the index at {settings.host}; it speaks plain HTTP, so put a "
            "server with TLS in front of it, and say with --public-url where that is"
        )
    run_server(settings, environ, started=lambda started: _tell(started, output), log_to=sys.stderr)
    return 0


def _tell(started: Started, output: Output) -> None:
    """Say where it is, and how to upload."""
    file = None if started.token_file is None else str(started.token_file)
    index, upload = f"{started.origin}/simple/", f"{started.origin}/legacy/"
    output.result_json({"version": 1, "url": index, "upload": upload, "token_file": file})
    output.result(index)
    output.flush()
    if file is not None:
        from shlex import quote

        token = f'"$(cat {quote(file)})"'
        output.say(f"a token for uploads is in {file}; with it", "dim")
        output.say(f"  uv publish --publish-url {upload} --token {token}", "dim")
        output.say(
            f"  twine upload --repository-url {upload} -u __token__ -p {token} dist/*", "dim"
        )
