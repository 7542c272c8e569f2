"""The real command line, run in this process."""

from __future__ import annotations

import argparse
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from cli.contract import check_object, schema_of

from wheelfit.cli.command import make_parser
from wheelfit.cli.commands import working_commands
from wheelfit.cli.main import main

_REPORTING = (
    "bridges",
    "build",
    "cache",
    "check",
    "demo",
    "doctor",
    "explain",
    "host",
    "index",
    "publish",
    "test",
    "wheel",
)
"""Commands that have a result even where they fail."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def object(self) -> dict[str, Any]:
        """The JSON object on standard output."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value

    @property
    def error(self) -> dict[str, Any]:
        """The error in that object."""
        return cast("dict[str, Any]", self.object["error"])


class Runner:
    """A runner of `wheelfit` that checks the rules of every command.

    :param capsys: catches what is printed.
    """

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str | Path, code: int = 0) -> CommandResult:
        """Run a command line that must exit with ``code``."""
        self._capsys.readouterr()
        status = main([str(word) for word in words])
        captured = self._capsys.readouterr()
        result = CommandResult(status, captured.out, captured.err)
        assert status == code, result
        options = words[: words.index("--")] if "--" in words else words
        if "--debug" not in options:
            assert "Traceback" not in result.out + result.err
        if "--json" in options:
            is_error = result.object.keys() == {"error"}  # one object: more would not be JSON
            check_object("error" if is_error else schema_of([*map(str, words)]), result.object)
            assert not is_error or "error: " not in result.err
            told = {
                "projects",
                "findings",
                "differences",
                "damaged",
                "failed",
                "families",
                "jobs",
                "results",
            } & result.object.keys()
            assert ("error" in result.object) == (status != 0 and not told)
        if status:
            assert result.out == "" or "--json" in options or words[0] in _REPORTING
        return result

    def installed(self, *place: str | Path) -> dict[str, dict[str, Any]]:
        """List the packages of an environment, by name."""
        packages = self("list", *place, "--json").object["packages"]
        return {package["name"]: package for package in packages}

    def labels(self, *place: str | Path) -> dict[str, str | None]:
        """Return the labels of the packages of an environment, by name."""
        return {name: package["label"] for name, package in self.installed(*place).items()}


def arguments(command: str, *words: str | Path) -> argparse.Namespace:
    """Parse the arguments of a command."""
    parser = make_parser(command, working_commands()[command])
    return parser.parse_args([str(word) for word in words])


def tree(folder: Path) -> dict[str, str]:
    """Return the content of a folder: hashes of files and targets of links, by path."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[name] = "folder"
    return found
