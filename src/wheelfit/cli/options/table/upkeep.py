"""Options of the commands for caches and settings."""

from __future__ import annotations

from wheelfit.cli.options.option import Option, OptionGroup
from wheelfit.cli.options.values import (
    AGE,
    ANY_TEXT,
    BYTES_OR_LETTER,
    FILE,
    FLAG,
    FOLDER,
    Action,
    OneOf,
)

CACHE = OptionGroup(
    "",
    (
        Option(
            "ACTION",
            Action("dir", "info", "list", "remove", "prune", "verify"),
            "dir, info, list, remove, prune, verify",
            default="dir",
            number="?",
        ),
        Option(
            "NAME",
            ANY_TEXT,
            "a package; for remove also NAME==VERSION",
            number="*",
            stored_as="names",
        ),
        Option("--cache-dir", FOLDER, "this folder instead of the usual one", metavar="DIR"),
    ),
)

REMOVED = OptionGroup(
    "remove and prune",
    (
        Option("--all", FLAG, "everything"),
        Option(
            "--max-size",
            BYTES_OR_LETTER,
            "leave at most this much, as 20GB or 500MiB",
            metavar="SIZE",
        ),
        Option(
            "--older-than",
            AGE,
            "what was not used for this long, as 30d, 12h or 2w",
            metavar="TIME",
        ),
        Option("--dry-run", FLAG, "only say what would be removed"),
    ),
)

VERIFIED = OptionGroup("verify", (Option("--keep-damaged", FLAG, "only say what is damaged"),))

CONFIG = OptionGroup(
    "",
    (
        Option("ACTION", Action("show", "path"), "show or path", default="show", number="?"),
        Option(
            "COMMAND",
            ANY_TEXT,
            "show what concerns this command, and what it falls back on",
            number="?",
        ),
        Option("--origin", FLAG, "say of each setting who set it, with the line"),
        Option("--project", FILE, "a pyproject.toml, or the folder of one", metavar="PATH"),
    ),
)

COMPLETION = OptionGroup("", (Option("SHELL", OneOf("bash", "zsh", "fish"), "bash, zsh or fish"),))
