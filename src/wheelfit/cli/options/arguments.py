"""Parsers of the command line, made from the table of options."""

from __future__ import annotations

import sys
from argparse import Action, ArgumentParser, ArgumentTypeError, HelpFormatter
from typing import TYPE_CHECKING, Any, NoReturn, cast

from wheelfit.cli.options.values import Flag, ValueType
from wheelfit.cli.terminal import fill_paragraphs, fold, terminal_width
from wheelfit.errors import UsageError

if TYPE_CHECKING:
    from argparse import Namespace, _ActionsContainer
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from wheelfit.cli.options.option import Option, OptionGroup


class OptionParser(ArgumentParser):
    """A parser of the options of one command.

    :param groups: the options.
    :param description: the text of ``--help`` above the options.
    """

    def __init__(self, name: str, groups: Sequence[OptionGroup], *, description: str = "") -> None:
        super().__init__(
            prog=f"wheelfit {name}",
            description=description,
            formatter_class=_Formatter,
            allow_abbrev=False,
            add_help=False,
        )
        self._name = name
        self._words: Sequence[str] = ()
        self.usage = " ".join([self.prog, "[OPTIONS]", *_usage(groups)])
        self.add_argument("-h", "--help", action=_Help, help=_HELP, metavar="all", nargs="?")
        options = [option for group in groups for option in group.options]
        added = {option.destination for option in options if option.is_on_command_line}
        # Settings that this command has no option for. A setting is left out if an option stores
        # its value in the same attribute.
        file_only = [
            option
            for option in options
            if not option.is_on_command_line and option.destination not in added
        ]
        self.settings: Mapping[str, Option] = {
            option.key: option
            for option in options
            if option.is_setting and (option.is_on_command_line or option in file_only)
        }
        """The rows that files and variables may set, by their keys."""
        for group in groups:
            self._add_group(group)
            self.set_defaults(**group.fixed_values)
        self.set_defaults(**{option.destination: _default(option) for option in file_only})

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

    def format_short_help(self) -> str:
        """Return the help with the options that people use first; all where there are few."""
        from wheelfit.cli.options.first_options import FIRST_OPTIONS

        names = FIRST_OPTIONS.get(self._name)
        if names is None:
            return self.format_help()
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, ())
        formatter.add_text(self.description)
        # Two names may belong to one option.
        first_options = dict.fromkeys(self._option_string_actions[name] for name in names)
        positionals = [action for action in self._actions if not action.option_strings]
        for title, actions in (
            ("arguments", positionals),
            ("options people use first", first_options),
        ):
            formatter.start_section(title)
            formatter.add_arguments(actions)
            formatter.end_section()
        count = sum(bool(action.option_strings) for action in self._actions)
        formatter.add_text(f"`{self.prog} --help all` shows all {count} options.")
        return formatter.format_help()

    def parse_words(self, words: Sequence[str]) -> Namespace:
        """Parse the words of a command line, and exit after ``--help``.

        :raises UsageError: a word is invalid.
        """
        self._words = words
        # As with pip, options may stand between positional arguments, unless ``--`` ends them.
        parse = self.parse_args if "--" in words else self.parse_intermixed_args
        return parse(words)

    def error(self, message: str) -> NoReturn:
        """Raise the error for invalid arguments."""
        hint = f"`wheelfit {self._name} --help` lists the options"
        if message.startswith("the following arguments are required"):
            # The missing argument may be the word after a mistyped option.
            unknown = next(self._unknown(), None)
            if unknown is not None:
                message = f"unrecognized arguments: {unknown}"
        if message.startswith("unrecognized arguments: "):
            hint = self._similar_option(message.split()[2]) or hint
        raise UsageError(message, hint=hint)

    def _unknown(self) -> Iterator[str]:
        """Yield the unknown long options before ``--``."""
        for word in self._words:
            if word == "--":
                return
            if word.startswith("--") and word.partition("=")[0] not in self._option_string_actions:
                yield word

    def _similar_option(self, word: str) -> str:
        """Return the closest known option, as a hint; empty if none is similar."""
        from difflib import get_close_matches

        name = word.partition("=")[0]
        if (replacement := _PIP_OPTIONS.get(name)) is not None:
            return replacement
        # The arguments of `run` may be options of the command that it runs.
        cutoff = 0.8 if self._name == "run" else 0.7
        # Without dashes, which would make all options similar.
        options = {option.lstrip("-"): option for option in self._option_string_actions}
        matches = get_close_matches(name.lstrip("-"), options, n=1, cutoff=cutoff)
        if matches and word.startswith("-"):
            return f"did you mean {options[matches[0]]!r}?"
        if self._name == "run":
            return "options of the command stand after --: `wheelfit run -- uv --version`"
        return ""


class _Help(Action):
    """The option that prints the help: its short form, or with the word ``all`` all of it."""

    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Namespace,  # noqa: ARG002
        values: str | Sequence[Any] | None,
        option_string: str | None = None,  # noqa: ARG002
    ) -> NoReturn:
        """Print the help, and exit."""
        from wheelfit.cli.output import deliver

        options = cast("OptionParser", parser)
        if sys.stdout is not None:
            text = options.format_help() if values == "all" else options.format_short_help()
            deliver(sys.stdout, text)
            deliver(sys.stdout, "")
        parser.exit()


_HELP = "show the options that people use first, or all of them, and exit"


def _usage(groups: Sequence[OptionGroup]) -> Iterator[str]:
    """Yield the usage after ``[OPTIONS]``: required options, and positional arguments."""
    options = [option for group in groups for option in group.options]
    yield from (f"{option.name} {option.metavar}" for option in options if option.is_required)
    for option in options:
        if option.is_positional:
            yield f"{option.name} [{option.name} ...]" if option.nargs == "+" else option.spelling


_PIP_OPTIONS = {
    "--no-binary": "a package with a wheel that fits is never built; --allow-source NAME builds "
    "one without, and a path or URL of a source distribution is always built",
    "--user": "there is no user site for wheelfit; `wheelfit venv` creates an environment, and "
    "--prefix or --target name another folder",
}
"""Options of pip that wheelfit lacks, with their replacements."""


def _default(option: Option) -> Any:
    if option.default is not ...:
        return option.default
    return [] if option.nargs in ("*", "+") else option.kind.default_value()


def _add(container: _ActionsContainer, option: Option) -> None:
    """Add an option or a positional argument to a parser or one of its groups."""
    kind = option.kind
    keywords: dict[str, Any] = {"help": option.help}
    # Without a default, argparse stores several words as a list, also if there are none.
    if not option.nargs or option.default is not ...:
        keywords["default"] = _default(option)
    if isinstance(kind, Flag):
        keywords["action"] = "store_true" if kind.stores else "store_false"
    else:
        keywords["type"] = _type_of(kind)
        is_choice = kind.choices and not option.metavar
        keywords["metavar"] = f"{{{','.join(kind.choices)}}}" if is_choice else option.metavar
        if kind.is_repeated:
            keywords["action"] = "append"
    if option.is_positional:
        if option.nargs:
            keywords["nargs"] = option.nargs
        container.add_argument(option.destination, **{**keywords, "metavar": option.name})
        return
    if option.is_required:
        keywords["required"] = True
    container.add_argument(*option.names, dest=option.destination, **keywords)


def _type_of(kind: ValueType) -> Callable[[str], Any]:
    """Return the converter of a type for argparse, which has its own error class."""

    def read(text: str) -> Any:
        try:
            return kind.parse_word(text)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None

    return read


class _Formatter(HelpFormatter):
    """A formatter of help whose lines are not wider than the terminal."""

    def __init__(self, prog: str) -> None:
        # A formatter is made for every added option; the inherited way to determine the width takes
        # two milliseconds, for modules that no other code needs.
        super().__init__(prog, width=terminal_width() - 2)

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[Action],
        groups: Iterable[Any],
        prefix: str | None = None,
    ) -> None:
        """Add the usage, broken between words."""
        head = "usage: "
        folded = fold(f"{head}{usage}", self._width, len(head)).removeprefix(head)
        super().add_usage(folded, actions, groups, prefix)

    def start_section(self, heading: str | None) -> None:
        """Start a group of options."""
        super().start_section(fold(heading or "", self._width))

    def _format_action_invocation(self, action: Action) -> str:
        """Return the names of an option with one value for all of them, as Python 3.13 does."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        names = ", ".join(action.option_strings)
        text = f"{names} {self._format_args(action, action.dest.upper())}"
        margin = self._current_indent
        return fold(" " * margin + text, self._width, 2).removeprefix(" " * margin)

    def _fill_text(self, text: str, width: int, indent: str) -> str:  # noqa: ARG002 - no indent
        """Wrap paragraphs to the width of the terminal; indented lines stay."""
        return fill_paragraphs(text, width)
