"""See which families of distributions can be presented as variants, and by what rule.

ACTION is one of

  list         every family that wheelfit knows (the default)
  show FAMILY  its members, best first, with what a machine must support

FAMILY is a name, or the path of a FAMILY.toml of your own, which is checked that way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.hardware import BRIDGES
from wheelfit.cli.typed import check_action

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output

_ACTIONS = ("list", "show")


OPTIONS = (BRIDGES,)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Show families of distributions."""
    from wheelfit.cli.render.bridges import show_bridge_members, show_bridge_table
    from wheelfit.errors import UsageError
    from wheelfit.operations.bridges import list_bridges, show_bridges

    del environ
    check_action(arguments.action, _ACTIONS)
    if arguments.action == "show":
        if not arguments.names:
            raise UsageError("show needs a family", hint="wheelfit bridges list names them")
        show_bridge_members(show_bridges(arguments.names), output)
        return 0
    if arguments.names:
        raise UsageError("list takes no family", hint="wheelfit bridges show FAMILY")
    show_bridge_table(list_bridges(), output)
    return 0
