"""Upload a release out of sight, look at it, and publish all of it at once.

`open` makes a stage, and says where to upload to and which index URL shows it; `publish` shows all
of its files in one moment, or none if anything is wrong; `drop` forgets them; `list` shows the
stages that are open. Only the server has the URLs of a stage: --at names it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.indexes import PLACE, STAGE, STORE
from wheelfit.cli.typed import check_action

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output

_ACTIONS = ("open", "list", "publish", "drop")


OPTIONS = (STAGE, PLACE, STORE)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Do what the action says, and show the result."""
    from wheelfit.cli.render import live_index as render
    from wheelfit.cli.requests import request_of
    from wheelfit.errors import UsageError
    from wheelfit.operations import index_stages as stages
    from wheelfit.operations.context import Context
    from wheelfit.operations.live_index import LiveIndexRequest

    action = arguments.action
    check_action(action, _ACTIONS)
    if (arguments.stage is None) != (action in ("open", "list")):
        raise UsageError(f"{action} takes {'a' if arguments.stage is None else 'no'} STAGE")
    context = Context(environ, output)
    if action == "open":
        request = request_of(stages.OpenStageRequest, arguments)
        render.show_opened_stage(stages.open_stage(request, context), output)
    elif action == "list":
        listed = stages.list_stages(request_of(LiveIndexRequest, arguments), context)
        render.show_stages(listed, output)
    elif action == "publish":
        named = request_of(stages.StageRequest, arguments)
        render.show_files(stages.publish_stage(named, context), output)
    else:
        named = request_of(stages.StageRequest, arguments)
        render.show_dropped_stage(stages.drop_stage(named, context), output)
    return 0
