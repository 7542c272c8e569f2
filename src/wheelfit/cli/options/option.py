"""Rows of the table of options, and groups of them.

They are named tuples, for a command makes a hundred of them before it starts.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wheelfit.cli.options.values import ValueType

PREFIX = "WHEELFIT_"
"""The beginning of the environment variable of every setting."""


class ProjectAccess(Enum):
    """The access of a project's own file to a setting.

    A project may come from another author: it may choose packages, but never weaken the user's
    decisions about trust or bounds.
    """

    SET = "yes"
    TIGHTEN = "if it is stricter"
    EMPTY = "only to `[]`"
    NONE = "no"
    PROJECT_ONLY = "only there"


class Spelling(NamedTuple):
    """The parts of an option's spelling."""

    names: tuple[str, ...]
    """``-o`` and ``--output``, ``REQUIREMENT``, or ``provider``."""
    name: str
    """The first long one of them."""
    metavar: str
    """The value in ``--help``; empty for switches and choices."""
    nargs: str
    """The number of words of a positional argument, as argparse has it; empty for one."""


@cache
def read_spelling(text: str) -> Spelling:
    """Return the parts of an option's spelling."""
    if not text.startswith("-"):
        name = text.strip("[]").removesuffix(" ...")
        is_repeated = text.strip("[]") != name
        if text.startswith("["):
            nargs = "*" if is_repeated else "?"
        else:
            nargs = "+" if is_repeated else ""
        return Spelling((name,), name, "", nargs)
    words = text.split(" ")
    names = [word.rstrip(",") for word in words if word.startswith("-")]
    name = next((name for name in names if name.startswith("--")), names[0])
    return Spelling(tuple(names), name, " ".join(words[len(names) :]), "")


class Option(NamedTuple):
    """A row of the table: an option, a positional argument, or a key that only files have."""

    spelling: str
    """As usage shows it: ``-f, --find-links PLACE`` for an option, whose first long name is its
    key; ``REQUIREMENT``, ``[DIR]``, ``NAME ...`` or ``[NAME ...]`` for a positional argument;
    ``provider`` for a key without an option.
    """
    kind: ValueType
    """The type of the value."""
    help: str = ""
    """One line for ``--help``, the reference pages and shell completion."""
    default: Any = ...
    """The value without the option; ``...``: as `ValueType.default_value`."""
    is_required: bool = False
    alternative: str = ""
    """Options of a group with the same word exclude each other."""
    setting: str = ""
    """The key in configuration files; default: the name."""
    stored_as: str = ""
    """The attribute of the parsed arguments; default: the name with underscores."""
    project: ProjectAccess | None = None
    """The access of a project's file; None: neither files nor variables can set it."""
    refusal_reason: str = "it decides what is trusted or done on this machine"
    """The reason why a project may not set it."""
    disabled_by: str = ""
    """The attribute of the arguments that makes the setting have no effect, if it has a value."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every spelling of its name."""
        return read_spelling(self.spelling).names

    @property
    def name(self) -> str:
        """The name in messages, and in files without dashes."""
        return read_spelling(self.spelling).name

    @property
    def metavar(self) -> str:
        """The value in ``--help``; empty for switches and choices."""
        return read_spelling(self.spelling).metavar

    @property
    def nargs(self) -> str:
        """The number of words of a positional argument, as argparse has it; empty for one."""
        return read_spelling(self.spelling).nargs

    @property
    def is_setting(self) -> bool:
        """Whether configuration files or variables can set it."""
        return self.project is not None

    @property
    def is_positional(self) -> bool:
        """Whether it is an argument without a name."""
        return self.name.isupper()

    @property
    def is_on_command_line(self) -> bool:
        """Whether the command line can set it."""
        return self.is_positional or self.name.startswith("-")

    @property
    def destination(self) -> str:
        """The attribute of the parsed arguments."""
        return self.stored_as or self._bare_name.replace("-", "_")

    @property
    def key(self) -> str:
        """The key in configuration files."""
        return self.setting or self._bare_name

    @property
    def _bare_name(self) -> str:
        return self.name.lstrip("-").lower()

    @property
    def variable(self) -> str:
        """The environment variable; empty if there is none, or only projects may set it."""
        if self.project in (None, ProjectAccess.PROJECT_ONLY):
            return ""
        return f"{PREFIX}{self.key.upper().replace('-', '_')}"

    def off_command_line(self) -> Option:
        """Return the row without its option: the command has only its default and its setting."""
        return self._replace(spelling=self.key, stored_as=self.destination)


class OptionGroup:
    """A group of options in ``--help``.

    :param title: the heading; empty: among the options without one.
    :param note: a remark in brackets behind the heading, as the default of the whole group.
    :param description: a sentence below the heading.
    :param fixed_values: values of arguments that commands read and that have no option here.
    """

    def __init__(
        self,
        title: str,
        *options: Option,
        note: str = "",
        description: str = "",
        fixed_values: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.title = title
        self.options = options
        self.note = note
        self.description = description
        self.fixed_values = fixed_values

    def off_command_line(self) -> OptionGroup:
        """Return the group for a command that has its defaults and settings without options."""
        options = (option.off_command_line() for option in self.options)
        return OptionGroup(self.title, *options, fixed_values=self.fixed_values)
