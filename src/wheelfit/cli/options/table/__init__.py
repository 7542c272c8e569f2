"""All options, positional arguments and settings: one module for each area.

A command in `wheelfit.cli.commands` names its option groups. An option that is added to a group
becomes an option of these commands, and its value becomes the field of the same name in the request
of the operation. An option with ``project=`` is a setting of configuration files and environment
variables as well.
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
