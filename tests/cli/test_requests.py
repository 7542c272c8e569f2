"""Requests of operations and the table of options have one set of names and defaults."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

import pytest

from wheelfit import InstallRequest, operations
from wheelfit.cli.main import every_command, make_parser, module_of
from wheelfit.cli.requests import request_of

if TYPE_CHECKING:
    from collections.abc import Iterator


def requests() -> Iterator[tuple[str, type]]:
    """Yield each command with the request of its operation."""
    commands = {
        command.title().replace(" ", "").replace("-", ""): command for command in every_command()
    }
    for module in iter_modules(operations.__path__):
        for name, kind in inspect.getmembers(import_module(f"{operations.__name__}.{module.name}")):
            command = commands.get(name.removesuffix("Request"))
            if name.endswith("Request") and command and kind.__module__.endswith(module.name):
                yield command, kind


REQUESTS = list(requests())


@pytest.mark.parametrize(("command", "kind"), REQUESTS, ids=[command for command, _ in REQUESTS])
def test_defaults(command: str, kind: Any) -> None:
    """A field that is an option has the default of its row."""
    parser = make_parser(command, import_module(module_of(command)))
    compared = 0
    for one in fields(kind):
        default = parser.get_default(one.name)
        if default is None or one.default is MISSING:
            continue
        assert one.default == (tuple(default) if isinstance(default, list) else default), one.name
        compared += 1
    assert compared


@pytest.mark.parametrize(("command", "kind"), REQUESTS, ids=[command for command, _ in REQUESTS])
def test_every_option_arrives(command: str, kind: Any) -> None:
    """Each option of a command is a field of its request, or of the output alone."""
    parser = make_parser(command, import_module(module_of(command)))
    apart = {"help", "json", "quiet", "verbose", "color", "no_progress", "debug"}
    if command == "install":
        apart |= {  # habits of pip that change nothing
            "prefer_binary", "no_compile", "no_input", "no_warn_script_location",
            "disable_pip_version_check", "progress_bar",
        }  # fmt: skip
    options = {action.dest for action in parser._actions} - apart
    assert options <= {one.name for one in fields(kind)}


def test_arguments_become_a_request() -> None:
    """Lists become tuples, and what a command lacks has its default."""
    parser = make_parser("install", import_module(module_of("install")))
    request = request_of(InstallRequest, parser.parse_args(["spam", "-f", "a", "-f", "b"]))
    assert request.requirements == ("spam",)
    assert request.find_links == ("a", "b")
    assert request.extra_index_url == ()
    assert request.connections == 4
