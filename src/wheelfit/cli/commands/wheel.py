"""Make variant wheels of wheels that exist, and see what is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Each is a module beside this one, named after both words; only the chosen one is imported.
SUBCOMMANDS: Mapping[str, str] = {
    "make": "make variant wheels of wheels, or other variants of variant wheels",
    "relabel": "call variant wheels otherwise; their properties stay",
    "unmake": "make plain wheels of variant wheels",
    "convert": "write the current layout into variant wheels of old ones",
    "repack": "edit name, version and dependencies of wheels, and make variants of them",
    "show": "show label, properties and providers of wheels, here or at a URL",
    "inspect": "show what the binaries in wheels are made for",
    "check": "find everything that is wrong with wheels",
}
"""The subcommands with one line each."""
