"""Publish wheels as an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Each is a module beside this one, named after both words; only the chosen one is imported.
SUBCOMMANDS: Mapping[str, str] = {
    "generate": "make a static index of a folder of wheels, there or on an object store",
    "check": "find what is wrong with everything that an index has",
    "convert": "write an index of an old layout anew in the current one",
}
"""The subcommands with one line each."""
