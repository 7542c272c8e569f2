"""See what is kept between two runs, and remove some of it.

ACTION is one of

  dir                       the folder, and nothing else (the default)
  info                      how much is kept of what, and whether it is linked
  list [NAME...]            the wheels that are kept, packed and unpacked
  remove NAME[==VERSION]..  the wheels of these packages; --all: everything
  prune                     what was used least recently, and leftovers
  verify                    read everything again, remove what is damaged

Other processes may use the cache meanwhile. A wheel that one of them is installing is left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.upkeep import CACHE, REMOVED, VERIFIED
from wheelfit.cli.typed import check_action

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output

_ACTIONS = ("dir", "info", "list", "remove", "prune", "verify")
_OPTIONS = {
    "all": ("remove",),
    "max_size": ("prune",),
    "older_than": ("prune",),
    "dry_run": ("remove", "prune"),
    "keep_damaged": ("verify",),
}
"""Which options belong to which actions."""
DAMAGED = 4
"""The exit code where bytes are not what was promised."""


OPTIONS = (CACHE, REMOVED, VERIFIED)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Look into the cache, or remove some of it."""
    _check(arguments)
    if arguments.action == "dir":  # scripts ask for it, and need nothing else
        from wheelfit.operations.cache_folder import cache_folder

        folder = str(cache_folder(arguments.cache_dir, environ).absolute())
        output.result_json({"version": 1, "action": "dir", "folder": folder})
        output.result(folder)
        return 0
    from wheelfit.cli.render import cache as render
    from wheelfit.cli.requests import request_of
    from wheelfit.operations import cache
    from wheelfit.operations.context import Context
    from wheelfit.operations.requests import CacheOptions

    context = Context(environ, output)
    match arguments.action:
        case "info":
            contents = cache.inspect_cache(request_of(CacheOptions, arguments), context)
            render.show_contents(contents, output)
        case "list":
            kept = cache.list_cached_wheels(request_of(cache.ListRequest, arguments), context)
            render.show_wheels(kept, output, of_names=bool(arguments.names))
        case "remove":
            gone = cache.remove_from_cache(request_of(cache.RemoveRequest, arguments), context)
            render.show_removal(gone, output)
        case "prune":
            gone = cache.prune_cache(request_of(cache.PruneRequest, arguments), context)
            render.show_removal(gone, output)
        case _:
            found = cache.verify_cache(request_of(cache.VerifyRequest, arguments), context)
            render.show_verification(found, output)
            return DAMAGED if found.damaged else 0
    return 0


def _check(arguments: Namespace) -> None:
    """Refuse what does not go together, before anything is looked at."""
    from wheelfit.errors import UsageError

    action = arguments.action
    check_action(action, _ACTIONS)
    for name, actions in _OPTIONS.items():
        if getattr(arguments, name) not in (None, False) and action not in actions:
            raise UsageError(f"--{name.replace('_', '-')} is for {' and '.join(actions)}")
    if arguments.names and action not in ("list", "remove"):
        raise UsageError(f"{action} takes no name")
    if action == "remove" and bool(arguments.names) is arguments.all:
        raise UsageError(
            "remove needs names, or --all" if arguments.all is False else "names or --all, not both"
        )
