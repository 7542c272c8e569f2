"""Options of the commands that change or explain an environment."""

from __future__ import annotations

from wheelfit.cli.options.option import Option, OptionGroup
from wheelfit.cli.options.table.environment import ATTESTATIONS, CHANGES, CONSENT, ENVIRONMENT
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.requirements import PRE
from wheelfit.cli.options.table.sources import SOURCES, UPLOADS
from wheelfit.cli.options.table.variants import VARIANTS
from wheelfit.cli.options.values import ANY_TEXT, ANY_TEXTS, FLAG, FOLDER, REPLACED_TEXTS

INSTALLATION = OptionGroup(
    "installation",
    Option(
        "-U, --upgrade",
        FLAG,
        "upgrade the named packages to the newest versions; never downgrade",
    ),
    Option(
        "-P, --upgrade-package NAME",
        ANY_TEXTS,
        "upgrade this package, named or not",
    ),
    Option("--force-reinstall", FLAG, "reinstall packages even if they are up to date"),
    Option("--require-hashes", FLAG, "every package must have a --hash"),
    Option("--no-input", FLAG, "do not prompt, not even on a terminal"),
    *CHANGES,
)

PIP_HABITS = OptionGroup(
    "accepted for compatibility with pip; without effect",
    Option("--no-compile", FLAG, "bytecode is written on request only"),
    Option("--no-warn-script-location", FLAG, "PATH is never checked"),
    Option("--disable-pip-version-check", FLAG, "pip is not used"),
    Option("--progress-bar KIND", ANY_TEXT, "see --no-progress"),
)

SYNC = OptionGroup(
    "installation",
    Option("--inexact", FLAG, "keep packages that the lock does not name"),
    *CHANGES,
)

UNINSTALL = OptionGroup(
    "",
    Option("NAME ...", ANY_TEXT, "name of an installed package", stored_as="names"),
    Option("--dry-run", FLAG, "show what would be removed, without removing it"),
    Option(
        "-y, --yes",
        FLAG,
        "accepted for compatibility with pip; this command never asks",
    ),
    Option("--break-system-packages", FLAG, "even in a managed environment"),
)

RECOVER = OptionGroup(
    "",
    Option("--dry-run", FLAG, "show what would be done, without doing it"),
)

LIST = OptionGroup(
    "",
    Option("--variants", FLAG, "only packages installed as a variant"),
    Option(
        "-o, --outdated",
        FLAG,
        "only packages with a newer release that fits this machine; show that release's variant",
    ),
    PRE,
)

SHOW = OptionGroup(
    "",
    Option("NAME ...", ANY_TEXT, "name of an installed package", stored_as="names"),
    Option("-f, --files", FLAG, "list its files too"),
)

WHY = OptionGroup(
    "",
    Option("NAME", ANY_TEXT, "name of an installed package"),
)

FREEZE = OptionGroup(
    "",
    Option("--all", FLAG, "also pip, and before Python 3.12 setuptools and wheel"),
    Option("-l, --local", FLAG, "exclude packages outside of the environment"),
    Option("--exclude NAME", ANY_TEXTS, "leave this package out"),
    Option("--exclude-editable", FLAG, "exclude editable packages"),
)

DOWNLOAD = OptionGroup(
    "download",
    Option(
        "-d, --dest, --destination-directory DIR",
        FOLDER,
        "the folder (default: the current one)",
        default=".",
    ),
    Option(
        "--python-version X.Y",
        REPLACED_TEXTS,
        "for this Python (default: that of the environment); may be given several times",
    ),
    Option(
        "--platform PLATFORM",
        REPLACED_TEXTS,
        "for this platform, as linux-x86_64, without accelerators; may be given several times",
    ),
    Option("--require-hashes", FLAG, "every package must have a --hash"),
    Option("--dry-run", FLAG, "show what would be downloaded, without downloading it"),
)

EXPLAIN = OptionGroup(
    "",
    Option(
        "--with-deps",
        FLAG,
        "resolve as install would in an empty environment, and explain all packages",
    ),
    Option(
        "--all",
        FLAG,
        "show every label of the release and the machines it fits",
    ),
)

INSTALLING = (CONSENT, ATTESTATIONS, ENVIRONMENT, SOURCES, UPLOADS, MACHINE, VARIANTS)
"""The groups of every command that chooses packages and puts them into an environment."""
