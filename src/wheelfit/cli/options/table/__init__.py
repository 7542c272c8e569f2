"""Every option, positional argument and setting, a module for each area.

A command's row in `wheelfit.cli.commands` names its groups; a row that is added to one of them
is an option of that command, and arrives in the field of its name in the request of the operation.
A row with ``project=`` is a setting too, which files and variables may set.
"""

from __future__ import annotations

AREAS = (
    "requirements",
    "environment",
    "sources",
    "machine",
    "variants",
    "installing",
    "locking",
    "dependencies",
    "building",
    "wheels",
    "checking",
    "indexes",
    "proxying",
    "hardware",
    "workers",
    "upkeep",
    "output",
)
"""The modules of the table."""
