"""Serve a live index: installers read it, publishing tools upload to it.

All it keeps is in DIR: a SQLite database, and the files. Nothing has to be set up; with the first
start comes a token for uploads. Several machines share one index when each is given the same
--database and --storage.

Every option can be set by a variable, as WHEELFIT_SERVER_PUBLIC_URL, and by a file; flags
count most. It runs until it is asked to end (SIGTERM), and then finishes what is under way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.index_places import add_store
from wheelfit.cli.typed import given, host

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output
    from wheelfit.server.hosting.serving import Started

_FLAGS = (
    ("--host", "ADDRESS", "listen at this address (default: 127.0.0.1: this machine only)"),
    ("--port", "N", "listen at this port (default: 8942; 0: any that is free)"),
    ("--fd", "N", "take connections from this open socket, which outlives the server"),
    ("--public-url", "URL", "where clients find the server, if another one stands in front"),
    ("--max-file", "SIZE", "take no larger files (default: 10GiB)"),
    ("--max-connections", "N", "hold at most so many connections (default: 2000)"),
    ("--read", "WHO", "who sees pages and files: everybody (default), or tokens: who shows one"),
    (
        "--delete",
        "WHO",
        "never, admin (tokens of that scope; default), or for how long whoever uploaded may too",
    ),
    ("--stage-lasts", "TIME", "how long a stage waits to be published (default: 7d)"),
    ("--metrics", "WHO", "who sees the metrics: operator (default) or everybody"),
    ("--log", "FORM", "json, plain, or auto (default): words on a terminal, else JSON"),
    ("--log-requests", "yes/no", "write down every request (default: yes)"),
    ("--stop-within", "SECONDS", "time for what is under way when it ends (default: 60)"),
    ("--mirror-most", "SIZE", "keep so much of mirrored files (default: as much as there is)"),
    ("--mirror-storage", "URL", "where mirrored files are kept, as --storage (default: in DIR)"),
)


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "folder",
        type=given,
        nargs="?",
        metavar="DIR",
        help="the folder of the index (default: the current one)",
    )
    parser.add_argument(
        "--settings", type=given, metavar="FILE", help="read settings from a TOML file"
    )
    add_store(parser)
    group = parser.add_argument_group("server")
    for flag, metavar, text in _FLAGS:
        name = flag.removeprefix("--").replace("-", "_")
        group.add_argument(flag, dest=f"serve_{name}", type=given, metavar=metavar, help=text)
    group.add_argument(
        "--answer-to",
        type=host,
        action="append",
        metavar="HOST",
        help="answer requests for this host name (default: any; on a loopback address, the names "
        "of this machine and the host of --public-url)",
    )
    group.add_argument(
        "--mirror",
        type=given,
        action="append",
        metavar="[NAME=]URL",
        help="serve what this index has too; uploads and earlier ones count more",
    )
    group.add_argument(
        "--reserved",
        type=given,
        action="append",
        metavar="PATTERN",
        help="projects that no mirror may supply, as acme-*",
    )


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Serve until asked to end."""
    import sys

    from wheelfit.server.hosting.serving import run_server
    from wheelfit.server.hosting.settings import read_settings, unknown_variables
    from wheelfit.sources.urls import is_loopback

    said: dict[str, str | None] = {
        flag.removeprefix("--"): getattr(
            arguments, "serve_" + flag.removeprefix("--").replace("-", "_")
        )
        for flag, _, _ in _FLAGS
    }
    said |= {
        "folder": arguments.folder,
        "database": arguments.database,
        "storage": arguments.storage,
        "mirror": " ".join(arguments.mirror) if arguments.mirror else None,
        "answer-to": " ".join(arguments.answer_to) if arguments.answer_to else None,
        "reserved": " ".join(arguments.reserved) if arguments.reserved else None,
    }
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
