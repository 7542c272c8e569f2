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

OPTIONS = (SERVE, STORE, SERVER)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Serve until asked to end."""
    import sys

    from wheelfit.cli.render.live_index import show_served_index
    from wheelfit.operations.context import Context
    from wheelfit.operations.serve import ServeRequest, serve

    given: dict[str, str | None] = {"folder": arguments.folder}
    for option in (*STORE.options, *SERVER.options):
        value = getattr(arguments, option.destination)
        given[option.key] = " ".join(value) if isinstance(value, list) else value
    serve(
        ServeRequest(options=given, settings=arguments.settings),
        Context(environ, output),
        started=lambda index: show_served_index(index, output),
        log_to=sys.stderr,
    )
    return 0
