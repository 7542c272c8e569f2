"""Parsers of the command line, made from the table of options."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, HelpFormatter
from typing import TYPE_CHECKING, Any, NoReturn

from wheelfit.cli.options.values import Flag
from wheelfit.errors import UsageError

if TYPE_CHECKING:
    from argparse import _ActionsContainer
    from collections.abc import Callable, Mapping, Sequence

    from wheelfit.cli.options.option import Option, OptionGroup
    from wheelfit.cli.options.values import Kind


class OptionParser(ArgumentParser):
    """A parser of the options of one command.

    :param groups: the options.
    :param description: the text of ``--help`` above the options.
    :param add_help: whether ``--help`` is one of them.
    """

    def __init__(
        self,
        name: str,
        groups: Sequence[OptionGroup],
        *,
        description: str = "",
        add_help: bool = True,
    ) -> None:
        super().__init__(
            prog=f"wheelfit {name}",
            description=description,
            formatter_class=_Formatter,
            allow_abbrev=False,
            add_help=add_help,
        )
        self._name = name
        shown = {
            option.destination
            for group in groups
            for option in group.options
            if option.is_on_command_line
        }
        self.settings: Mapping[str, Option] = {
            option.key: option
            for group in groups
            for option in group.options
            if option.project is not None
            and (option.is_on_command_line or option.destination not in shown)
        }
        """The rows that files and variables may set, by their keys."""
        for group in groups:
            self._add_group(group)
            self.set_defaults(
                **group.absent,
                **{
                    option.destination: _default(option)
                    for option in group.options
                    if not option.is_on_command_line and option.destination not in shown
                },
            )

    def _add_group(self, group: OptionGroup) -> None:
        container: _ActionsContainer = self
        if group.title and any(option.name.startswith("-") for option in group.options):
            title = f"{group.title} ({group.note})" if group.note else group.title
            container = self.add_argument_group(title, group.description or None)
        alternatives: dict[str, _ActionsContainer] = {}
        for option in group.options:
            if option.is_positional:
                _add(self, option)
            elif option.is_on_command_line and not option.alternative:
                _add(container, option)
            elif option.is_on_command_line:
                if option.alternative not in alternatives:
                    exclusive = container.add_mutually_exclusive_group()
                    alternatives[option.alternative] = exclusive
                _add(alternatives[option.alternative], option)

    def print_help(self, file: object = None) -> None:  # noqa: ARG002 - always the same
        """Print the help."""
        from wheelfit.cli.output import deliver

        if sys.stdout is not None:
            deliver(sys.stdout, self.format_help())
            deliver(sys.stdout, "")

    def error(self, message: str) -> NoReturn:
        """Raise the error that the arguments are wrong."""
        hint = f"wheelfit {self._name} --help lists the options"
        if message.startswith("unrecognized arguments: "):
            hint = self._meant(message.split()[2]) or hint
        raise UsageError(message, hint=hint)

    def _meant(self, word: str) -> str:
        """Return which option was likely meant, as a hint; empty if none is like the word."""
        from difflib import get_close_matches

        if self._name == "run":
            return "options of the command stand after --: wheelfit run -- uv --version"
        if (instead := _OF_PIP.get(word.partition("=")[0])) is not None:
            return instead
        close = get_close_matches(word.partition("=")[0], self._option_string_actions, n=1)
        return f"did you mean {close[0]!r}?" if close and word.startswith("-") else ""


_OF_PIP = {
    "--no-binary": "a wheel that fits is never passed over for a build; --allow-source NAME builds "
    "what has none, and a path or URL of a source distribution builds that one",
    "--user": "there is no user site for wheelfit; `wheelfit venv` creates an environment, and "
    "--prefix or --target name another folder",
}
"""Options of pip that do not exist here, with what stands for them."""


def _default(option: Option) -> Any:
    if option.default is not ...:
        return option.default
    return [] if option.number in ("*", "+") else option.kind.absent()


def _add(container: _ActionsContainer, option: Option) -> None:
    """Add an option or a positional argument to a parser or one of its groups."""
    kind = option.kind
    more: dict[str, Any] = {"help": option.help}
    if not option.number or option.default is not ...:  # several words are a list without it
        more["default"] = _default(option)
    if isinstance(kind, Flag):
        more["action"] = "store_true" if kind.stores else "store_false"
    else:
        more["type"] = _reader(kind)
        is_choice = kind.choices and not option.metavar
        more["metavar"] = f"{{{','.join(kind.choices)}}}" if is_choice else option.metavar
        if kind.is_repeated:
            more["action"] = "append"
    if option.is_positional:
        if option.number:
            more["nargs"] = option.number
        container.add_argument(option.destination, **{**more, "metavar": option.name})
        return
    if option.is_required:
        more["required"] = True
    names = [name for name in (option.short, option.name, option.alias) if name]
    container.add_argument(*names, dest=option.destination, **more)


def _reader(kind: Kind) -> Callable[[str], Any]:
    """Return a function that reads a word and fails as argparse expects it."""

    def read(text: str) -> Any:
        try:
            return kind.word(text)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None

    return read


class _Formatter(HelpFormatter):
    def __init__(self, prog: str) -> None:
        # One is made for every option that is added; the inherited way to find out the
        # width takes two milliseconds, for modules that nobody else needs.
        super().__init__(prog, width=_columns() - 2)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Break paragraphs anew to the width of the terminal; indented lines stay."""
        from textwrap import fill

        parts = (
            part
            if part.startswith(" ")
            else fill(part, min(width, 100), initial_indent=indent, subsequent_indent=indent)
            for part in text.split("\n\n")
        )
        return "\n\n".join(parts)


_MOST_DIGITS = 6


def _columns() -> int:
    """Return the width of the terminal, as `shutil.get_terminal_size`."""
    named = os.environ.get("COLUMNS", "")
    if named.isdecimal() and len(named) < _MOST_DIGITS and int(named):
        return int(named)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return 80
