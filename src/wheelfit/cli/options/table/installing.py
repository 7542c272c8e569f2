"""Options of the commands that change or explain an environment."""

from __future__ import annotations

from wheelfit.cli.options.option import Option, OptionGroup
from wheelfit.cli.options.table.environment import ATTESTATIONS, CHANGES, CONSENT, ENVIRONMENT
from wheelfit.cli.options.table.machine import MACHINE
from wheelfit.cli.options.table.requirements import PRE
from wheelfit.cli.options.table.sources import SOURCES, UPLOADS
from wheelfit.cli.options.table.variants import VARIANTS
from wheelfit.cli.options.values import ANY_TEXT, ANY_TEXTS, FILE, FLAG, FOLDER, REPLACED_TEXTS

INSTALLATION = OptionGroup(
    "installation",
    Option(
        "-U, --upgrade",
        FLAG,
        "take the newest versions of what is named; none is older than what is installed",
    ),
    Option(
        "-P, --upgrade-package NAME",
        ANY_TEXTS,
        "take the newest version of this package, named or not",
    ),
    Option("--force-reinstall", FLAG, "replace even what is the same"),
    Option("--require-hashes", FLAG, "every package must have a --hash"),
    Option("--no-input", FLAG, "ask nothing, on a terminal either"),
    *CHANGES,
)

PIP_HABITS = OptionGroup(
    "accepted for pip's sake; they change nothing",
    Option("--no-compile", FLAG, "bytecode is written on request only"),
    Option("--no-warn-script-location", FLAG, "nothing is said of PATH"),
    Option("--disable-pip-version-check", FLAG, "pip is not used"),
    Option("--progress-bar KIND", ANY_TEXT, "see --no-progress"),
)

SYNC = OptionGroup(
    "installation",
    Option("--inexact", FLAG, "keep what the lock does not name, too"),
    *CHANGES,
)

UNINSTALL = OptionGroup(
    "",
    Option("NAME ...", ANY_TEXT, "name of an installed package", stored_as="names"),
    Option("--dry-run", FLAG, "only say what would be removed"),
    Option("-y, --yes", FLAG, "accepted for pip's sake; nothing is ever asked"),
    Option("--break-system-packages", FLAG, "even in a managed environment"),
)

RECOVER = OptionGroup(
    "",
    Option("--dry-run", FLAG, "only say what would be done"),
    Option(
        "--trust-journal",
        FLAG,
        "follow a change that another user left there, or you with another home",
    ),
)

LIST = OptionGroup(
    "",
    Option("--variants", FLAG, "only packages installed as a variant"),
    Option(
        "-o, --outdated",
        FLAG,
        "only packages with a newer release that fits this machine, and its variant",
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
    Option("NAME", ANY_TEXT, "name of a package", stored_as="name"),
    Option("--lock FILE", FILE, "why it is in this lock, for any machine"),
)

FREEZE = OptionGroup(
    "",
    Option("--all", FLAG, "also pip, and before Python 3.12 setuptools and wheel"),
    Option("-l, --local", FLAG, "without what lies outside of the environment"),
    Option("--exclude NAME", ANY_TEXTS, "leave this package out"),
    Option("--exclude-editable", FLAG, "leave out what points to a source tree"),
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
    Option("--dry-run", FLAG, "only say what would be downloaded"),
)

EXPLAIN = OptionGroup(
    "",
    Option(
        "--with-deps",
        FLAG,
        "resolve as install would where nothing is installed, and explain all of it",
    ),
    Option(
        "--all",
        FLAG,
        "show every label of the release, whatever the machine, and which machines take it",
    ),
)

CHECK_ENV = OptionGroup("", Option("--strict", FLAG, "let warnings count as faults"))

INSTALLING = (CONSENT, ATTESTATIONS, ENVIRONMENT, SOURCES, UPLOADS, MACHINE, VARIANTS)
"""The groups of every command that chooses packages and puts them into an environment."""
