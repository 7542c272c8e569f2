"""The table of all commands; each area has a module, and only one is imported."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.cli.command import Command

COMMANDS: Mapping[str, tuple[str, str]] = {
    "install": ("packages", "install packages, each in the build that fits"),
    "lock": ("packages", "write a lock from which every machine takes its own wheels"),
    "sync": ("packages", "make an environment equal to a lock, in the builds that fit"),
    "add": ("dependencies", "add dependencies to a project, lock it and install them"),
    "remove": ("dependencies", "remove dependencies from a project and its environment"),
    "uninstall": ("packages", "remove packages"),
    "venv": ("packages", "create a virtual environment to install into"),
    "recover": ("packages", "repair an environment after an interrupted change"),
    "list": ("packages", "list installed packages, with variant labels"),
    "download": ("packages", "download the wheels for a machine into a folder"),
    "show": ("packages", "show an installed package, its variant and the reason for it"),
    "why": ("packages", "show which requirements bring a package in"),
    "freeze": ("packages", "print installed packages as requirements"),
    "explain": ("packages", "show which wheel would be chosen, and why not the others"),
    "tree": ("packages", "show the dependency tree of a lock, for every machine or for one"),
    "bundle": ("packages", "make a folder from a lock that installs with no network"),
    "export": ("packages", "export a lock for a machine: requirements, SBOM, licences"),
    "init": ("projects", "write and explain the [variant] table of a project"),
    "build": ("projects", "build the wheels of a project, as variants and plain"),
    "test": ("projects", "run a project's tests with each of its wheels"),
    "matrix": ("projects", "show which wheels a release has, for people and for CI services"),
    "wheel": ("wheels", "make variant wheels from existing wheels, and inspect them"),
    "abi": ("projects", "see which versions of a library a build works with"),
    "check": ("wheels", "check wheels, index files and releases"),
    "publish": ("indexes", "check a release as an index would, and publish all or nothing"),
    "index": ("indexes", "publish wheels as an index, for every installer"),
    "proxy": ("indexes", "serve an index from which any installer takes fitting variants"),
    "run": ("indexes", "run a command so that pip, uv or pdm install fitting variants"),
    "probe": ("machines", "show the supported properties of this machine, with evidence"),
    "host": ("machines", "list, show, compare and write descriptions of other machines"),
    "providers": ("machines", "list providers of properties, and trust plugins"),
    "bridges": ("machines", "see which distributions can be presented as variants, and how"),
    "cache": ("tool", "show and clean the cache"),
    "config": ("settings", "show which settings are in effect, and who set them"),
    "completion": ("tool", "print a script that completes commands and options in your shell"),
    "doctor": ("machines", "diagnose the machine and the environment"),
    "demo": ("tool", "demonstrate wheelfit in a throw-away environment"),
}
"""The top-level commands in the order of ``--help``, each with its module and a summary.

The module is beside this one, and defines the command in its ``COMMANDS``.
"""

OTHER_NAMES: Mapping[str, str] = {
    "check-env": "doctor",
    "compile": "lock",
    "exec": "run",
    "new": "init",
    "outdated": "list --outdated",
    "update": "lock --upgrade",
    "upgrade": "install --upgrade",
    "upload": "publish",
}
"""Names of removed commands, and of those in other tools, each with the command's name here."""

FIRST_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "Install": ("install", "uninstall", "list", "venv"),
    "Work on a project": ("add", "lock", "sync"),
    "Understand": ("explain", "probe", "doctor"),
}
"""The commands that people use first, by the headings of ``--help``."""


def find_command(name: str) -> Command:
    """Return a top-level command."""
    area, summary = COMMANDS[name]
    commands: Mapping[str, Command] = import_module(f"{__name__}.{area}").COMMANDS
    return commands[name]._replace(brief=summary)


def every_command() -> Mapping[str, Command]:
    """Return every top-level command by its name."""
    return {name: find_command(name) for name in COMMANDS}


def working_commands() -> Mapping[str, Command]:
    """Return every command with an operation, by all words of its name."""
    from wheelfit.cli.command import leaf_commands

    return dict(leaf_commands(every_command()))
