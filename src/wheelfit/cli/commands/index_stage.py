"""Upload a release out of sight, look at it, and publish all of it at once.

`open` makes a stage, and says where to upload to and which index URL shows it; `publish` shows all
of its files in one moment, or none if anything is wrong; `drop` forgets them; `list` shows the
stages that are open. Only the server has the URLs of a stage: --at names it.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from wheelfit.cli.index_places import open_administration, tell_files
from wheelfit.cli.options.table.indexes import PLACE, STAGE, STORE
from wheelfit.cli.typed import check_action

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output
    from wheelfit.server.hosting.administration import Administration

_ACTIONS = ("open", "list", "publish", "drop")


OPTIONS = (STAGE, PLACE, STORE)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Do what was asked."""
    from wheelfit.errors import UsageError

    check_action(arguments.action, _ACTIONS)
    if (arguments.stage is None) != (arguments.action in ("open", "list")):
        raise UsageError(
            f"{arguments.action} takes {'a' if arguments.stage is None else 'no'} STAGE"
        )
    with closing(open_administration(arguments, environ)) as acts:
        _act(acts, arguments, output)
    return 0


def _act(acts: Administration, arguments: Namespace, output: Output) -> None:
    from wheelfit.server.hosting.administration import seconds_of

    if arguments.action == "open":
        stage = acts.open_stage(arguments.owner, seconds_of(arguments.lasts))
        output.result_json({"version": 1, **stage})
        output.result(stage["id"])
        if arguments.at.startswith("http"):
            base = f"{arguments.at.rstrip('/')}/stage/{stage['id']}"
            scheme, _, rest = base.partition("://")
            output.say(f"upload to {base}/legacy/ with your own token", "dim")
            output.say(f"see it at {scheme}://__token__:{stage['secret']}@{rest}/simple/", "dim")
        else:
            output.say(f"its secret is {stage['secret']}", "dim")
        output.say(f"publish it before {stage['expires']}", "dim")
    elif arguments.action == "list":
        stages = acts.stages()
        output.result_json({"version": 1, "stages": stages})
        for one in stages:
            output.result(f"{one['id']}  {one['owner']}  until {one['expires']}")
    elif arguments.action == "publish":
        tell_files(acts.publish(arguments.stage), output)
    else:
        count = acts.drop(arguments.stage)
        output.result_json({"version": 1, "count": count})
        output.result(f"{count} files are forgotten")
