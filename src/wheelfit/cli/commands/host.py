"""List, show, compare and write descriptions of machines, for `--for` of any command.

ACTION is one of

  list [WORD]       your own host files, and the parts of presets (the default)
  show HOST         everything that is known of a machine
  diff HOST HOST    what differs between two machines
  new -o FILE PART  write a host file for a machine that cannot be probed

HOST is a host file, the name of one of your own, a preset as cuda-12.8-sm90+cpu-x86_64-v3, or
`this` for this machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.hardware import HOST, NEW_HOST
from wheelfit.cli.typed import check_action

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output
    from wheelfit.operations.context import Context

_ACTIONS = ("list", "show", "diff", "new")
DIFFERENT = 30
"""Exit code of `diff --exit-code` for machines that differ."""


OPTIONS = (HOST, NEW_HOST)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """List, show, compare or write descriptions of machines."""
    from wheelfit.errors import UsageError

    action, names = arguments.action, tuple(arguments.names)
    check_action(action, _ACTIONS)
    for option in NEW_HOST.options if action != "new" else ():
        if getattr(arguments, option.destination):
            raise UsageError(f"{option.name} belongs to `wheelfit host new`")
    if arguments.exit_code and action != "diff":
        raise UsageError("--exit-code belongs to `wheelfit host diff`")
    wanted = {"show": 1, "diff": 2}.get(action)
    if wanted is not None and len(names) != wanted:
        what = "one machine" if wanted == 1 else "two machines"
        raise UsageError(
            f"`wheelfit host {action}` takes {what}, not {len(names)}",
            hint="wheelfit host list shows what there is; `this` is this machine",
        )
    from wheelfit.cli.render.hosts import show_comparison, show_host_list, show_host_report
    from wheelfit.operations.context import Context
    from wheelfit.operations.host_descriptions import compare_hosts, list_hosts, show_host

    context = Context(environ, output)
    if action == "new":
        _new(arguments, output, context)
    elif action == "list":
        show_host_list(list_hosts(names, context), output, names)
    elif action == "show":
        show_host_report(show_host(names[0], context), output)
    else:
        found = compare_hosts(names[0], names[1], context)
        show_comparison(found, output)
        return DIFFERENT if found.differences and arguments.exit_code else 0
    return 0


def _new(arguments: Namespace, output: Output, context: Context) -> None:
    from wheelfit.cli.render.hosts import show_new_host
    from wheelfit.cli.requests import request_of
    from wheelfit.errors import UsageError
    from wheelfit.operations.hosts import host_text
    from wheelfit.operations.new_host import NewHostRequest, describe_host, write_host

    if bool(arguments.output) == bool(arguments.save):
        raise UsageError("`wheelfit host new` needs either -o FILE or --save NAME")
    if arguments.output == "-" and arguments.json:
        raise UsageError(
            "-o - and --json cannot both have standard output", hint="name a file after -o"
        )
    request = request_of(NewHostRequest, arguments)
    if arguments.output == "-":
        output.result(host_text(describe_host(request, context).file).rstrip("\n"))
    else:
        show_new_host(write_host(request, context), output)
