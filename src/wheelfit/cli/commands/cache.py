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
    from pathlib import Path

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


OPTIONS = (CACHE, REMOVED, VERIFIED)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Do what ACTION says."""
    _check(arguments)
    from pathlib import Path

    from wheelfit.platforms.cache_folder import cache_folder_of

    folder = Path(arguments.cache_dir or cache_folder_of(environ)).absolute()
    if arguments.action == "dir":
        return _dir(folder, output)
    _check_safe(folder, arguments, output)
    from wheelfit.cli import cache_report
    from wheelfit.sources.inventory import Inventory

    inventory = Inventory(folder)
    match arguments.action:
        case "info":
            return cache_report.info(inventory, output)
        case "list":
            return cache_report.show(inventory, arguments.names, output)
        case "remove":
            return cache_report.remove(inventory, arguments, output)
        case "prune":
            return cache_report.prune(inventory, arguments, output)
        case _:
            return cache_report.verify(inventory, output, keep=arguments.keep_damaged)


def _dir(folder: Path, output: Output) -> int:
    output.result_json({"version": 1, "action": "dir", "folder": str(folder)})
    output.result(str(folder))
    return 0


def _check_safe(folder: Path, arguments: Namespace, output: Output) -> None:
    """Refuse to remove files from a folder that another user can write to; warn otherwise.

    :raises FileProblem: another user could put a link in it meanwhile, which leads elsewhere.
    """
    from wheelfit.errors import FileProblem
    from wheelfit.platforms.cache_folder import unsafe_cache_folder

    found = unsafe_cache_folder(str(folder))
    if found is None:
        return
    if arguments.action in ("info", "list") or arguments.keep_damaged or arguments.dry_run:
        output.warn(f"the cache {found}")
        return
    raise FileProblem(
        f"nothing is removed from the cache, as {found.reason}", where=found.path, hint=found.remedy
    )


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
