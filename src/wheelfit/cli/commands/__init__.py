"""Every command: a table of contents, and a module for each area, of which only one is imported."""

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
    "recover": ("packages", "put an environment right whose change was interrupted"),
    "list": ("packages", "show what is installed, with variant labels"),
    "download": ("packages", "put the wheels that a machine gets into a folder"),
    "show": ("packages", "show what an installed package is, and which variant and why"),
    "why": ("packages", "show which requirements bring a package in"),
    "freeze": ("packages", "print what is installed as requirements"),
    "explain": ("packages", "show which wheel would be chosen, and why not the others"),
    "tree": ("packages", "show what needs what in a lock, for every machine or for one"),
    "bundle": ("packages", "make a folder from a lock that installs with no network"),
    "export": ("packages", "write what a machine gets: requirements, SBOM, list of licences"),
    "init": ("projects", "write and explain the [variant] table of a project"),
    "build": ("projects", "build the wheels of a project, as variants and plain"),
    "test": ("projects", "run a project's tests with each of its wheels"),
    "matrix": ("projects", "show which wheels a release has, for people and for CI services"),
    "wheel": ("wheels", "make variant wheels of wheels that exist, and see what is in them"),
    "abi": ("projects", "see which versions of a library a build works with"),
    "check": ("wheels", "find what is wrong with wheels, index files and releases"),
    "publish": ("indexes", "check a release as an index would, and publish all or nothing"),
    "index": ("indexes", "publish wheels as an index, for every installer"),
    "proxy": ("indexes", "serve an index from which any installer takes fitting variants"),
    "run": ("indexes", "let pip, uv or pdm in a command install the variants that fit"),
    "probe": ("machines", "show what this machine supports, and how that was found"),
    "host": ("machines", "list, show, compare and write descriptions of other machines"),
    "providers": ("machines", "see who says what is supported, and which plugins may be asked"),
    "bridges": ("machines", "see which distributions can be presented as variants, and how"),
    "check-env": ("machines", "say which installed variants do not fit this machine any more"),
    "cache": ("tool", "see what is kept between two runs, and remove some of it"),
    "config": ("settings", "show which settings are in effect, and who set them"),
    "completion": ("tool", "print a script that completes commands and options in your shell"),
    "doctor": ("machines", "find out what is wrong here, and what to do about it"),
    "demo": ("tool", "see it all work in a throw-away environment"),
}
"""The top-level commands in the order of ``--help``: the module of each beside this one, which has
it in its own ``COMMANDS``, and one line about it."""

FIRST: Mapping[str, tuple[str, ...]] = {
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
    """Return every command that does something, by all words of its name."""
    return {
        name: command for top, head in every_command().items() for name, command in head.leaves(top)
    }
