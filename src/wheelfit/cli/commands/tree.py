"""Show what needs what in a lock: for every machine, or for one.

Without --for and --here everything is shown that any machine could get, with the labels, markers,
extras and groups on which it depends. With them it is exactly what that machine gets, and why. What
several packages need is told once; further down it says (above).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.environment import ENVIRONMENT
from wheelfit.cli.options.table.locking import TREE
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.requirements import LOCK_FILE
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.variants import VARIANTS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (LOCK_FILE, TREE, ENVIRONMENT, SOURCES, MACHINE, VARIANTS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Show the tree."""
    from wheelfit.cli.render.trees import show_tree
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.tree import TreeRequest, tree

    show_tree(tree(request_of(TreeRequest, arguments), Context(environ, output)), output)
    return 0
