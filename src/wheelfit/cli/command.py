"""Commands as values: the options of each, and the function it runs.

`wheelfit.cli.commands` has the table of all of them.
"""

from __future__ import annotations

import re
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from wheelfit.cli.options.table.output import OUTPUT

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator, Mapping

    from wheelfit.cli.options.arguments import OptionParser
    from wheelfit.cli.options.option import Option, OptionGroup
    from wheelfit.cli.output import Output
    from wheelfit.operations.context import Context

_Request = TypeVar("_Request")


class Operation:
    """The function of most commands: an operation, whose request is made of the arguments.

    :param function: the operation, such as ``install.install``, below ``wheelfit.operations``; its
        module has the class of its request, too.
    :param show: the function that prints its report, such as ``changes.show_change``, below
        ``wheelfit.cli.render``; it returns the exit code, or None for 0.
    """

    def __init__(self, function: str, show: str) -> None:
        self.function = function
        self.show = show

    def __call__(self, arguments: Namespace, output: Output, context: Context) -> int:
        """Run the operation, show its report, and return the exit code."""
        operation = _import(f"wheelfit.operations.{self.function}")
        show = _import(f"wheelfit.cli.render.{self.show}")
        return show_report(operation(request_of(self.request, arguments), context), output, show)

    @property
    def request(self) -> type[Any]:
        """The class of the operation's request."""
        operation = _import(f"wheelfit.operations.{self.function}")
        name = operation.__annotations__["request"]  # a string, as annotations are not evaluated
        kind: type[Any] = operation.__globals__[name]
        return kind


def _import(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def show_report(
    report: Any, output: Output, show: Callable[..., int | None], **options: Any
) -> int:
    """Print a report, under ``--json`` as an object, and return the exit code.

    :param show: prints the report as text, and its warnings and notes in any case; it returns the
        exit code, or None for 0.
    :param options: further arguments of ``show``.
    """
    if output.json:
        output.result_json(report.to_json())
    return show(report, output, **options) or 0


class Command(NamedTuple):
    """A command, or a group of subcommands."""

    description: str
    """The text of ``--help`` above the options."""
    options: tuple[OptionGroup, ...] = ()
    """Its options and positional arguments."""
    run: Callable[[Namespace, Output, Context], int] | None = None
    """Runs the command and returns the exit code; None for a group of subcommands."""
    subcommands: Mapping[str, Command] = MappingProxyType({})
    brief: str = ""
    """The summary of a top-level command, from ``COMMANDS``."""

    @property
    def summary(self) -> str:
        """One line, for lists of commands: the beginning of the description."""
        first = re.split(r"[.;:\n]", self.description, maxsplit=1)[0]
        return self.brief or f"{first[0].lower()}{first[1:]}"

    @property
    def groups(self) -> tuple[OptionGroup, ...]:
        """The options, those of the output among them."""
        return (*self.options, OUTPUT)

    def leaves(self, name: str) -> Iterator[tuple[str, Command]]:
        """Yield the commands with an operation, with all words of their names.

        :param name: its own name, with the words before it.
        """
        if not self.subcommands:
            yield name, self
        for word, command in self.subcommands.items():
            yield from command.leaves(f"{name} {word}")

    def parents(self, name: str) -> Iterator[tuple[str, Command]]:
        """Yield the commands that have subcommands, with all words of their names.

        :param name: its own name, with the words before it.
        """
        if self.subcommands:
            yield name, self
        for word, command in self.subcommands.items():
            yield from command.parents(f"{name} {word}")

    def command_line_options(self) -> Iterator[Option]:
        """Yield the options and arguments of the command line, once for each name."""
        names = set()
        for group in self.groups:
            for option in group.options:
                if option.is_on_command_line and option.name not in names:
                    names.add(option.name)
                    yield option


def leaf_commands(commands: Mapping[str, Command]) -> Iterator[tuple[str, Command]]:
    """Yield the commands with an operation, with all words of their names."""
    for name, command in commands.items():
        yield from command.leaves(name)


def make_parser(name: str, command: Command) -> OptionParser:
    """Return the parser of one command."""
    from wheelfit.cli.options.arguments import OptionParser

    return OptionParser(name, command.groups, description=command.description.strip())


def request_of(kind: type[_Request], arguments: Namespace, **more: Any) -> _Request:
    """Return a request whose fields have the values of the arguments of the same name."""
    from wheelfit.operations.requests import field_types

    fields = field_types(kind)
    values = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in vars(arguments).items()
        if name in fields and value is not None
    }
    return kind(**values | more)
