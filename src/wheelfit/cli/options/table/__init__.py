"""Every option, positional argument and setting, a module for each area.

A command names its groups in ``OPTIONS``; a row that is added to one of them is an option of that
command. A row with ``project=`` is a setting too, which files and variables may set.
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
