"""Run ``python -m wheelfit.runtime``: say what would be chosen, or care for the library store.

Each subcommand is a module with ``run(arguments, environ, out, err)``, which returns the exit
status; it is imported when it is asked for.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

__all__ = ["SUBCOMMANDS", "main"]

SUBCOMMANDS = {
    "explain": "wheelfit.runtime.explaining",
    "store": "wheelfit.runtime.libraries.store_command",
    "table": "wheelfit.runtime.writing_table",
}
"""Modules that carry out the subcommands, by name."""

_USAGE = """usage: python -m wheelfit.runtime explain [GROUP ...] [--json]
       python -m wheelfit.runtime table
       python -m wheelfit.runtime store COMMAND [...]
"""


def __dir__() -> list[str]:
    return __all__


def main(arguments: list[str]) -> int:
    """Carry out a subcommand and return the exit status.

    :param arguments: what follows ``python -m wheelfit.runtime``.
    """
    name = arguments[0] if arguments else ""
    if name in ("-h", "--help"):
        sys.stdout.write(_USAGE)
        return 0
    home = SUBCOMMANDS.get(name)
    if home is None:
        sys.stderr.write(_USAGE)
        return 2
    status: int = import_module(home).run(arguments[1:], os.environ, sys.stdout, sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
