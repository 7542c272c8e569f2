"""See which versions of a library something works with that was built for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Each is a module beside this one, named after both words; only the chosen one is imported.
SUBCOMMANDS: Mapping[str, str] = {
    "bounds": "derive from symbols which releases of a library something works with",
}
"""The subcommands with one line each."""
