"""Write a lock: versions and files for every machine, from which each takes its own wheels.

Nothing is looked at on this machine but its Python's version, and only if no other is named. With
--for the lock is for the machines that are named, with their wheels and no others.

What an older lock has stays as long as it will do; --upgrade starts anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.environment import INTERPRETER
from wheelfit.cli.options.table.locking import LOCKING
from wheelfit.cli.options.table.machine import MACHINES
from wheelfit.cli.options.table.requirements import PROJECT, REQUIREMENTS
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.variants import VARIANTS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (REQUIREMENTS, PROJECT, LOCKING, INTERPRETER, SOURCES, MACHINES, VARIANTS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Resolve for every environment or machine, and write the lock."""
    from wheelfit.cli.render.locks import show_lock
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.lock import LockRequest, lock

    show_lock(lock(request_of(LockRequest, arguments), Context(environ, output)), output)
    return 0
