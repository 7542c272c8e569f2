"""Make a folder from a lock that installs with no network.

It has exactly the wheels that the machines named with --for need, each once, with a lock, an index
and the host files. It is read back before it gets its name, so it is complete or not there at all.
`--verify DIR` checks one later: whether something is missing, changed or extra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheelfit.cli.options.table.environment import BOUNDS, INTERPRETER
from wheelfit.cli.options.table.locking import BUNDLE
from wheelfit.cli.options.table.machine import MACHINES
from wheelfit.cli.options.table.requirements import LOCK_FILE
from wheelfit.cli.options.table.sources import SOURCES
from wheelfit.cli.options.table.variants import VARIANTS

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from wheelfit.cli.output import Output


OPTIONS = (LOCK_FILE, BUNDLE, INTERPRETER, SOURCES, MACHINES, BOUNDS, VARIANTS)


def run(arguments: Namespace, output: Output, environ: Mapping[str, str]) -> int:
    """Make a bundle, or check one."""
    from wheelfit.cli.render.bundles import show_bundle, show_verified
    from wheelfit.cli.requests import request_of
    from wheelfit.errors import UsageError
    from wheelfit.operations.bundle import BundleRequest, VerifyRequest, bundle, verify
    from wheelfit.operations.context import Context

    context = Context(environ, output)
    if arguments.verify:
        if arguments.output or arguments.hosts or arguments.all or arguments.lock != "pylock.toml":
            raise UsageError(
                "--verify checks a bundle, and takes no lock and neither -o, --for nor --all"
            )
        show_verified(verify(request_of(VerifyRequest, arguments), context), output)
        return 0
    if not arguments.output:
        raise UsageError("nothing says where the bundle goes", hint="give -o DIR")
    show_bundle(bundle(request_of(BundleRequest, arguments), context), output)
    return 0
