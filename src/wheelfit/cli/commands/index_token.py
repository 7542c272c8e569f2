"""Make, list and revoke the tokens that allow uploads, or to read a private index.

`create` shows the token once; nobody can look it up afterwards. `list` shows what each is for,
`revoke` forgets one.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from wheelfit.cli.index_places import add_place, open_administration
from wheelfit.cli.typed import check_action, given

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output
    from wheelfit.server.hosting.administration import Administration

_ACTIONS = ("create", "list", "revoke")


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("action", metavar="ACTION", help="create, list or revoke")
    parser.add_argument("token", nargs="?", metavar="ID", help="what `list` calls it")
    parser.add_argument(
        "--project",
        type=given,
        action="append",
        default=[],
        metavar="NAME",
        help="good for this project only",
    )
    parser.add_argument(
        "--scope",
        choices=("read", "upload", "admin"),
        default="upload",
        help="only to read an index with --read tokens; to upload, yank and publish (default); or "
        "also to delete and manage",
    )
    parser.add_argument(
        "--owner",
        type=given,
        default="admin",
        metavar="NAME",
        help="whose projects it is for, and who owns new ones (default: admin)",
    )
    parser.add_argument(
        "--expires", type=given, metavar="TIME", help="good for so long, as 90d (default: always)"
    )
    parser.add_argument("--note", default="", metavar="TEXT", help="what it is for, in lists")
    add_place(parser)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Do what was asked."""
    from wheelfit.errors import UsageError

    check_action(arguments.action, _ACTIONS)
    if (arguments.token is None) == (arguments.action == "revoke"):
        raise UsageError(f"{arguments.action} takes {'an' if arguments.token is None else 'no'} ID")
    with closing(open_administration(arguments, environ)) as acts:
        _act(acts, arguments, output)
    return 0


def _act(acts: Administration, arguments: Namespace, output: Output) -> None:
    from wheelfit.errors import FileProblem
    from wheelfit.server.hosting.administration import seconds_of

    if arguments.action == "create":
        token = acts.create_token(
            arguments.owner,
            ("upload", "admin") if arguments.scope == "admin" else (arguments.scope,),
            arguments.project or None,
            None if arguments.expires is None else seconds_of(arguments.expires),
            arguments.note,
        )
        output.result_json({"version": 1, **token})
        output.result(token["secret"])
        output.say(f"its ID is {token['id']}; it is shown this once", "dim")
    elif arguments.action == "list":
        tokens = acts.tokens()
        output.result_json({"version": 1, "tokens": tokens})
        for one in tokens:
            projects = "every project" if one["projects"] is None else ", ".join(one["projects"])
            until = f"until {one['expires']}" if one["expires"] else "always"
            parts = [one["id"], one["owner"], "+".join(one["scopes"]), projects, until, one["note"]]
            output.result("  ".join(part for part in parts if part))
    elif acts.revoke(arguments.token):
        output.result_json({"version": 1, "revoked": arguments.token})
        output.result(f"{arguments.token} is revoked")
    else:
        raise FileProblem("there is no such token", where=arguments.token)
