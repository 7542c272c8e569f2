"""Options of the commands for caches and settings."""

from __future__ import annotations

from wheelfit.cli.options.option import Option, OptionGroup
from wheelfit.cli.options.values import AGE, ANY_TEXT, BYTES_OR_LETTER, FILE, FLAG, FOLDER, OneOf

CACHE = OptionGroup(
    "",
    Option("--cache-dir DIR", FOLDER, "the folder of the cache, instead of the default one"),
)

_DRY_RUN = Option("--dry-run", FLAG, "show what would be removed, without removing it")

LISTED_WHEELS = OptionGroup(
    "", Option("[NAME ...]", ANY_TEXT, "a package (default: all)", stored_as="names")
)

REMOVED = OptionGroup(
    "",
    Option("[NAME ...]", ANY_TEXT, "a package, or NAME==VERSION of it", stored_as="names"),
    Option("--all", FLAG, "everything"),
    _DRY_RUN,
)

PRUNED = OptionGroup(
    "",
    Option("--max-size SIZE", BYTES_OR_LETTER, "leave at most this much, as 20GB or 500MiB"),
    Option("--older-than TIME", AGE, "entries not used for this long, as 30d, 12h or 2w"),
    _DRY_RUN,
)

VERIFIED = OptionGroup("", Option("--keep-damaged", FLAG, "report damage, without removing it"))

SETTINGS_SHOWN = OptionGroup(
    "",
    Option("[COMMAND ...]", ANY_TEXT, "show the settings of this command, with their defaults"),
    Option("--origin", FLAG, "show the origin of each setting: file and line, or variable"),
)

CONFIG = OptionGroup("", Option("--project PATH", FILE, "a pyproject.toml, or the folder of one"))

DEMO = OptionGroup(
    "", Option("--gpu", FLAG, "show which build of torch machines with and without GPUs get")
)

COMPLETION = OptionGroup("", Option("SHELL", OneOf("bash", "zsh", "fish"), "bash, zsh or fish"))
