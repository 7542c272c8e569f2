"""Make an environment equal to a lock, each package in the build that fits the machine.

Nothing is resolved and no index is asked: only the files that the lock names are fetched, and
each must have the hash that it promises. Of each package the best build that is listed is taken
for this machine, or for that of --for; an installed build that is listed and fits stays. What the
lock does not name is removed, except pip, setuptools, wheel, wheelfit with what it needs, and what
points to a source tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.environment import ATTESTATIONS, BOUNDS, CONSENT, ENVIRONMENT
from wheelfit.cli.options.table.installing import SYNC
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.requirements import LOCK_FILE
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.variants import VARIANTS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (LOCK_FILE, SYNC, BOUNDS, CONSENT, ATTESTATIONS, ENVIRONMENT, SOURCES, MACHINE, VARIANTS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Synchronise and show what changed."""
    from wheelfit.cli.render.changes import show_change
    from wheelfit.cli.requests import request_of
    from wheelfit.operations.context import Context
    from wheelfit.operations.sync import SyncRequest, sync

    show_change(sync(request_of(SyncRequest, arguments), Context(environ, output)), output)
    return 0
