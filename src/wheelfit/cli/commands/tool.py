"""Commands about wheelfit itself: its cache, its completion, a demonstration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.command import Command, Operation, request_of, show_report
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.upkeep import (
    CACHE,
    COMPLETION,
    DEMO,
    LISTED_WHEELS,
    PRUNED,
    REMOVED,
    VERIFIED,
)

if TYPE_CHECKING:
    from argparse import Namespace

    from wheelfit.cli.output import Output
    from wheelfit.operations.context import Context


def _cache_folder(arguments: Namespace, output: Output, context: Context) -> int:
    """Print the folder, for scripts."""
    from wheelfit.operations.cache_folder import cache_folder

    folder = str(cache_folder(arguments.cache_dir, context.environ).absolute())
    output.result_json({"version": 1, "action": "dir", "folder": folder})
    output.result(folder)
    return 0


def _list_cached(arguments: Namespace, output: Output, context: Context) -> int:
    from wheelfit.cli.render.cache import show_wheels
    from wheelfit.operations.cache import CacheListRequest, list_cached_wheels

    request = request_of(CacheListRequest, arguments)
    return show_report(
        list_cached_wheels(request, context), output, show_wheels, of_names=bool(request.names)
    )


def _completion(arguments: Namespace, output: Output, context: Context) -> int:
    """Print the script of a shell."""
    from wheelfit.cli.commands import every_command
    from wheelfit.cli.completion import completion_script

    del context
    script = completion_script(arguments.shell, every_command())
    output.result_json({"version": 1, "shell": arguments.shell, "script": script})
    output.result(script.rstrip("\n"))
    return 0


def _demo(arguments: Namespace, output: Output, context: Context) -> int:
    """Show each step of the demonstration when it is done."""
    from wheelfit.cli.render.explanations import show_step
    from wheelfit.operations.demo import DemoRequest, DemoStep, demonstrate, demonstrate_machines

    request = request_of(DemoRequest, arguments)
    parts = demonstrate_machines(context) if request.gpu else demonstrate(request, context)
    for part in parts:
        if not isinstance(part, DemoStep):  # the report, which comes last
            output.result_json(part.to_json())
        elif not output.json:
            show_step(part, output)
    return 0


COMMANDS = {
    "cache": Command(
        """\
Show and clean the cache.

Other processes may use the cache meanwhile. A wheel that one of them is installing is left alone.
""",
        subcommands={
            "dir": Command(
                "Print the folder of the cache, and nothing else.",
                (CACHE,),
                _cache_folder,
            ),
            "info": Command(
                "Show the size of each kind of entry, and whether wheels are linked.",
                (CACHE,),
                Operation("cache.inspect_cache", "cache.show_contents"),
            ),
            "list": Command(
                "Show the cached wheels, packed and unpacked.",
                (LISTED_WHEELS, CACHE),
                _list_cached,
            ),
            "remove": Command(
                """\
Remove the wheels of packages, or with --all everything.

A wheel that another process is installing is left alone.
""",
                (REMOVED, CACHE),
                Operation("cache.remove_from_cache", "cache.show_removal"),
            ),
            "prune": Command(
                "Remove the least recently used entries, and leftovers.",
                (PRUNED, CACHE),
                Operation("cache.prune_cache", "cache.show_removal"),
            ),
            "verify": Command(
                "Read all entries, and remove damaged ones; the exit code is 4 if there are any.",
                (VERIFIED, CACHE),
                Operation("cache.verify_cache", "cache.show_verification"),
            ),
        },
    ),
    "completion": Command(
        """\
Print the script that completes commands and options in a shell.

The script contains all words, so completion never starts wheelfit. Print it again after an update,
as it has the options of the version that printed it.

  bash  wheelfit completion bash
        > ~/.local/share/bash-completion/completions/wheelfit

  zsh   wheelfit completion zsh > ~/.zfunc/_wheelfit  (a folder of fpath)

  fish  wheelfit completion fish > ~/.config/fish/completions/wheelfit.fish
""",
        (COMPLETION,),
        _completion,
    ),
    "demo": Command(
        """\
Demonstrate wheelfit in a throw-away environment.

Takes a real wheel from the package registry (numpy), makes a variant of it for every level of this
kind of processor, serves them from a small index on this machine, explains the choice for this
machine and three simulated ones, installs into a throw-away environment, imports the result, and
cleans up. Without a network it builds a wheel itself.

With --gpu it shows which build of torch six machines get, from a small copy of PyTorch's own index;
nothing is fetched or installed.
""",
        (DEMO, SOURCES),
        _demo,
    ),
}
