"""Make, list and revoke the tokens that allow uploads, or to read a private index.

`create` shows the token once; nobody can look it up afterwards. `list` shows what each is for,
`revoke` forgets one.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from wheelfit.cli.index_places import open_administration
from wheelfit.cli.options.table.indexes import PLACE, STORE, TOKEN
from wheelfit.cli.typed import check_action

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output
    from wheelfit.server.hosting.administration import Administration

_ACTIONS = ("create", "list", "revoke")


OPTIONS = (TOKEN, PLACE, STORE)


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
