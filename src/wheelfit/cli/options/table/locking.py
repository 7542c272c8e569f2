"""Options of the commands that write or show locks."""

from __future__ import annotations

from wheelfit.cli.options.option import Option, OptionGroup, ProjectAccess
from wheelfit.cli.options.values import (
    ANY_TEXTS,
    FILE,
    FLAG,
    FOLDER,
    REPLACED_TEXTS,
    STEPS,
    TEXT,
    OneOf,
)

LOCKING = OptionGroup(
    "lock",
    Option(
        "-o, --output FILE",
        FILE,
        "write this file: pylock.toml (the default) or pylock.NAME.toml",
        default="pylock.toml",
    ),
    Option(
        "--python-version X.Y",
        REPLACED_TEXTS,
        "lock for this Python; may be given several times",
        project=ProjectAccess.PROJECT_ONLY,
        disabled_by="hosts",
    ),
    Option(
        "--platform PLATFORM",
        REPLACED_TEXTS,
        "lock for this platform, as linux-x86_64; may be given several times (default: "
        "64-bit Linux on x86 and Arm, macOS on Arm, Windows)",
        project=ProjectAccess.PROJECT_ONLY,
        disabled_by="hosts",
    ),
    Option("-U, --upgrade", FLAG, "upgrade every package to its newest version"),
    Option("-P, --upgrade-package NAME", ANY_TEXTS, "upgrade this package to its newest version"),
    Option("--check", FLAG, "write nothing; fail if the lock is out of date"),
    Option("--dry-run", FLAG, "show what would be written, without writing it"),
)

TREE = OptionGroup(
    "",
    Option("--here", FLAG, "show the packages for this machine"),
    Option("--invert NAME", TEXT, "show the packages that need this one instead"),
    Option("--depth N", STEPS, "go no more than N steps"),
)

BUNDLE = OptionGroup(
    "bundle",
    Option(
        "-o, --output DIR",
        FOLDER,
        "the folder to create, new or empty; its parent folder must exist",
    ),
    Option("--dry-run", FLAG, "show the contents and sizes, without writing it"),
    Option("--verify DIR", FOLDER, "check a bundle, and make none"),
)

EXPORT = OptionGroup(
    "",
    Option(
        "--format",
        OneOf("requirements", "cyclonedx", "licenses"),
        "what to write",
        default="requirements",
    ),
    Option(
        "-o, --output PLACE",
        FILE,
        "write it here: a file, or a folder for one file of each machine",
    ),
    Option(
        "--wheels DIR",
        FOLDER,
        "with requirements: put copies of variant wheels here that pip and uv can install",
    ),
)
