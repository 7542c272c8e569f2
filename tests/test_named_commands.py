"""Command lines that messages and pages name: each exists, with its options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from named_commands import fault, messages_of, named_in_messages, named_in_page, unmarked

from wheelfit.cli.commands import every_command, working_commands

REPOSITORY = Path(__file__).parents[1]
COMMANDS = every_command()
SOURCES = [
    path
    for folder in ("src/wheelfit", "runtime/src/wheelfit_runtime")
    for path in sorted((REPOSITORY / folder).rglob("*.py"))
]
PAGES = [
    *sorted((REPOSITORY / "docs").rglob("*.md")),
    *sorted((REPOSITORY / "changelog.d").glob("*.md")),
    *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((REPOSITORY / "examples").rglob("*.md")),
]
OF_OTHERS = {
    "--default-index": "of uv, in the README of a bundle",
    "--index": "of uv, which asks such indexes before the proxy",
    "--no-binary": "of pip, in requirements files",
    "--no-download": "of virtualenv",
    "--no-emit-project": "of uv export",
    "--no-seed": "of virtualenv",
    "--publish-url": "of uv publish",
    "--pyargs": "of pytest",
    "--pypi-url": "of pip, in requirements files",
    "--repository-url": "of twine",
    "--symlinks": "of the module venv",
    "--token": "of uv publish",
    "--without-pip": "of the module venv",
}
"""Options of other programs that messages name."""


def test_messages_name_commands_that_exist() -> None:
    """Every command line in the source has a command and options that exist."""
    named = [message for path in SOURCES for message in named_in_messages(path)]
    assert len(named) > 80
    faults = [(one, wrong) for one in named if (wrong := fault(one.line, COMMANDS))]
    assert faults == []


def test_messages_mark_command_lines() -> None:
    """A command line in a sentence stands between backticks, so that the test above sees it."""
    assert [one for path in SOURCES for one in unmarked(path)] == []


def test_pages_name_commands_that_exist() -> None:
    """Every command line in a page, in the README and in the changelog exists."""
    named = [one for path in PAGES for one in named_in_page(path)]
    assert len(named) > 500
    faults = [(one, wrong) for one in named if (wrong := fault(one.line, COMMANDS))]
    assert faults == []


def test_messages_name_options_that_exist() -> None:
    """Every option that a message names is one of some command, or of a known other program."""
    known = {"--help", "--version"}
    for command in working_commands().values():
        for option in command.command_line_options():
            known |= set(option.names)
    folders = ("resolution", "operations", "installation", "locking", "cli/render")
    named = {
        name: f"{path}:{number}"
        for path in SOURCES
        if any(f"wheelfit/{folder}/" in path.as_posix() for folder in folders)
        for text, number in messages_of(path, "--")
        for name in re.findall(r"(?<![\w-])--[a-z][a-z-]+[a-z]\b", text)
    }
    unknown = {name: where for name, where in named.items() if name not in known | OF_OTHERS.keys()}
    assert unknown == {}
    assert OF_OTHERS.keys() - named.keys() == set()


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("wheelfit instal torch", "no command instal"),
        ("wheelfit host write", "no subcommand write"),
        ("wheelfit install --pyton 3", "unknown option --pyton"),
        ("wheelfit install --for=x -qz", "unknown option -z"),
        ("wheelfit run -- uv --no-such", ""),
        ("wheelfit COMMAND --help", ""),
        ("wheelfit install torch > out.txt --x", ""),
    ],
)
def test_what_is_wrong_is_seen(line: str, wrong: str) -> None:
    """The checks above find a command, a subcommand and an option that do not exist."""
    assert fault(line, COMMANDS) == wrong
