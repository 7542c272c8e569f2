"""Requests of operations and the option table have the same names and defaults."""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

import pytest

from wheelfit import InstallRequest, operations
from wheelfit.cli.command import Operation, make_parser, request_of
from wheelfit.cli.commands import working_commands
from wheelfit.cli.options.table.indexes import MIRRORS, SERVER, STORE
from wheelfit.cli.options.table.installing import PIP_HABITS, UNINSTALL
from wheelfit.cli.options.table.upkeep import CONFIG
from wheelfit.operations.outdated import OutdatedRequest
from wheelfit.operations.requests import field_types

if TYPE_CHECKING:
    from collections.abc import Iterator


COMMANDS = working_commands()
APART = {"help", "json", "quiet", "verbose", "color", "no_progress", "debug"}
"""Options of the output."""
OTHERS = {
    "bundle": {"verify"},  # another operation
    "check": {"output", "sarif"},
    "doctor": {"strict"},  # it decides the exit code
    "init": {"explain"},
    "install": {  # habits of pip that change nothing
        "no_compile", "no_warn_script_location",
        "disable_pip_version_check", "progress_bar",
    },
    "list": {"outdated"},
    "matrix": {"job_per", "service", "template"},
    "probe": {"output"},
    "uninstall": {"yes"},
}  # fmt: skip
"""Options that renderers, or other operations, need."""
ALSO = {"list": OutdatedRequest}
"""Second requests of a command."""


def requests() -> Iterator[tuple[str, type]]:
    """Yield each command with the request of the operation of its name."""
    for command in COMMANDS:
        name = command.replace("-", "_")
        if name in (module.name for module in iter_modules(operations.__path__)):
            module = import_module(f"{operations.__name__}.{name}")
            kind = getattr(module, f"{name.title().replace('_', '')}Request", None)
            if kind is not None:
                yield command, kind


REQUESTS = list(requests())


@pytest.mark.parametrize(("command", "kind"), REQUESTS, ids=[command for command, _ in REQUESTS])
def test_defaults(command: str, kind: Any) -> None:
    """A request field has the default of its option."""
    parser = make_parser(command, COMMANDS[command])
    defaults: dict[str, Any] = {}
    for action in parser._actions:
        defaults.setdefault(action.dest, action.default)
    shared = [name for name in field_types(kind) if defaults.get(name) is not None]
    assert shared
    for name in shared:
        default = defaults[name]
        given = tuple(default) if isinstance(default, list) else default
        assert getattr(kind, name, given) == given, name


@pytest.mark.parametrize(("command", "kind"), REQUESTS, ids=[command for command, _ in REQUESTS])
def test_options_of_a_command(command: str, kind: Any) -> None:
    """Each option is a field of the command's request, or listed as an exception."""
    parser = make_parser(command, COMMANDS[command])
    options = {action.dest for action in parser._actions} - APART
    taken = {*field_types(kind), *field_types(ALSO.get(command, kind))}
    assert options - taken == OTHERS.get(command, set())


UNREAD = {
    "config path": (CONFIG,),  # read where projects are found
    "config show": (CONFIG,),
    "index prefetch": (STORE, MIRRORS),  # read by their rows
    "index serve": (STORE, SERVER, MIRRORS),  # so, too
    "install": (PIP_HABITS,),
    "uninstall": (UNINSTALL,),  # --yes asks nothing
}
"""Groups of options of which a command names none."""


def test_options_of_all_requests() -> None:
    """Each option is a field of a request that the command makes, or read separately."""
    for command, row in COMMANDS.items():
        run: Any = row.run
        if isinstance(run, Operation):
            taken = set(field_types(run.request))
        else:
            source = inspect.getsource(getattr(run, "func", run))
            taken = set(re.findall(r"arguments\.(\w+)", source))
            for kind in _kinds(ast.parse(source)):
                taken |= field_types(kind).keys()
        options = {
            option.destination
            for group in row.options
            if group not in UNREAD.get(command, ())
            for option in group.options
            if option.is_on_command_line
        }
        assert options <= taken, command


def test_operations_and_renderers() -> None:
    """An operation takes its request and a context, and the renderer takes its report."""
    for command, row in COMMANDS.items():
        run = row.run
        assert run is not None
        if not isinstance(run, Operation):
            continue
        operation = inspect.signature(loaded(run.function))
        show = inspect.signature(loaded(run.show, "wheelfit.cli.render"))
        request, context = (parameter.annotation for parameter in operation.parameters.values())
        assert (request, context) == (run.request.__name__, "Context"), command
        report, output, *_ = (parameter.annotation for parameter in show.parameters.values())
        assert (report, output) == (operation.return_annotation, "Output"), command
        assert show.return_annotation in ("int", "None"), command


def loaded(name: str, package: str = "wheelfit.operations") -> Any:
    """Return the object that a row names."""
    module, _, attribute = name.partition(".")
    return getattr(import_module(f"{package}.{module}"), attribute)


def _kinds(tree: ast.AST) -> Iterator[Any]:
    """Yield the request classes that a command uses."""
    homes = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Name("request_of"), [ast.Name(name), *_]):
                yield getattr(import_module(str(homes[name])), name)


def test_request_of_arguments() -> None:
    """Lists become tuples, and missing options have defaults."""
    parser = make_parser("install", COMMANDS["install"])
    request = request_of(InstallRequest, parser.parse_args(["spam", "-f", "a", "-f", "b"]))
    assert request.requirements == ("spam",)
    assert request.find_links == ("a", "b")
    assert request.extra_index_url == ()
    assert request.connections == 4
