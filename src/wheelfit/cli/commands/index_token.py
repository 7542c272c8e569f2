"""Make, list and revoke the tokens that allow uploads, or to read a private index.

`create` shows the token once; nobody can look it up afterwards. `list` shows what each is for,
`revoke` forgets one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.indexes import PLACE, STORE, TOKEN
from wheelfit.cli.typed import check_action

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output

_ACTIONS = ("create", "list", "revoke")


OPTIONS = (TOKEN, PLACE, STORE)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Do what the action says, and show the result."""
    from wheelfit.cli.render import live_index as render
    from wheelfit.cli.requests import request_of
    from wheelfit.errors import UsageError
    from wheelfit.operations import index_tokens as tokens
    from wheelfit.operations.context import Context
    from wheelfit.operations.live_index import LiveIndexRequest

    action = arguments.action
    check_action(action, _ACTIONS)
    if (arguments.token is None) == (action == "revoke"):
        raise UsageError(f"{action} takes {'an' if arguments.token is None else 'no'} ID")
    context = Context(environ, output)
    if action == "create":
        request = request_of(tokens.CreateTokenRequest, arguments)
        render.show_created_token(tokens.create_token(request, context), output)
    elif action == "list":
        listed = tokens.list_tokens(request_of(LiveIndexRequest, arguments), context)
        render.show_tokens(listed, output)
    else:
        named = request_of(tokens.TokenRequest, arguments)
        render.show_revoked_token(tokens.revoke_token(named, context), output)
    return 0
