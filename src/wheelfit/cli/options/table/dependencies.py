"""Options of the commands that edit the dependencies of a project."""

from __future__ import annotations

from wheelfit.cli.options.option import Option, OptionGroup
from wheelfit.cli.options.table.environment import CHANGES
from wheelfit.cli.options.table.locking import LOCKING
from wheelfit.cli.options.table.requirements import PRE, PROJECT, REQUIREMENTS
from wheelfit.cli.options.values import ANY_TEXT, FILE, FILES, FLAG

ADD = OptionGroup(
    "",
    Option(
        "[REQUIREMENT ...]",
        ANY_TEXT,
        "a requirement (httpx, 'torch>=2.8', 'demo @ https://…'); one without versions gets "
        "the locked one as its lower bound",
        stored_as="requirements",
    ),
    Option(
        "-r, --requirement FILE",
        FILES,
        "add the requirements of a file in pip's format",
        stored_as="requirements_files",
    ),
    Option("--raw", FLAG, "add requirements unchanged, without a lower bound"),
)

REMOVE = OptionGroup("", Option("NAME ...", ANY_TEXT, "a dependency", stored_as="names"))

EDITED_PROJECT = OptionGroup(
    "edited project",
    Option("--project PATH", FILE, "a pyproject.toml, or the folder of one"),
    Option("--group NAME", ANY_TEXT, "the list of this dependency group"),
    Option("--dev", FLAG, "the list of the dependency group dev"),
    Option("--extra, --optional NAME", ANY_TEXT, "the list of this extra"),
    Option("--lock FILE", FILE, "the lock file (default: pylock.toml beside the project)"),
    Option("--no-sync", FLAG, "edit and lock, without changing the environment"),
    Option("--frozen", FLAG, "edit only, without changing the lock or the environment"),
    note="default: that of the current folder or of the nearest above",
    fixed_values={"edits_project": True, "hosts": ()},
)

PROJECT_SETTINGS = OptionGroup(
    "",
    *(
        option.off_command_line()
        for group in (REQUIREMENTS, PROJECT, LOCKING)
        for option in group.options
        if option.is_setting and option != PRE
    ),
)
"""Settings of a project about its lock."""

PROJECT_INSTALLATION = OptionGroup(
    "installation",
    PRE,
    *CHANGES,
)
