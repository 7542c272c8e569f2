"""Options of the commands that write or show locks."""

from __future__ import annotations

from wheelfit.cli.options.option import Option, OptionGroup, ProjectMay
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
        project=ProjectMay.ALONE_SET_IT,
        unless="hosts",
    ),
    Option(
        "--platform PLATFORM",
        REPLACED_TEXTS,
        "lock for this platform, as linux-x86_64; may be given several times (default: "
        "64-bit Linux on x86 and Arm, macOS on Arm, Windows)",
        project=ProjectMay.ALONE_SET_IT,
        unless="hosts",
    ),
    Option("-U, --upgrade", FLAG, "take the newest versions of everything"),
    Option("-P, --upgrade-package NAME", ANY_TEXTS, "take the newest version of this package"),
    Option("--check", FLAG, "write nothing; fail if the lock is out of date"),
    Option("--dry-run", FLAG, "only say what would be written"),
)

TREE = OptionGroup(
    "",
    Option("--here", FLAG, "show what this machine gets"),
    Option("--invert NAME", TEXT, "show who needs this package instead"),
    Option("--depth N", STEPS, "go no more than N steps"),
)

BUNDLE = OptionGroup(
    "bundle",
    Option("-o, --output DIR", FOLDER, "the folder to make; its parent exists"),
    Option("--all", FLAG, "take every wheel of the lock, whoever it fits"),
    Option("--update", FLAG, "make an earlier bundle anew; what is unchanged is not fetched again"),
    Option("--dry-run", FLAG, "only say what would be in it, with sizes"),
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
