"""Write the tables of options into the pages of the reference.

A page has the tables between comments; everything else in it is written by hand:

``<!-- commands -->``, ``<!-- options of wheelfit install -->``, ``<!-- group sources -->`` or
``<!-- settings -->``, then the generated table, then ``<!-- end -->``.

With ``--check`` nothing is written; the exit code is 1 if a page is not as it would be written.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.cli.command import Command, leaf_commands
from wheelfit.cli.commands import every_command
from wheelfit.cli.options.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wheelfit.cli.options.option import Option, OptionGroup

FOLDER = Path(__file__).parent
PAGES = ("commands.md", "configuration.md")
_FILLED = re.compile(
    r"(<!-- (commands|options of wheelfit|group|settings) ?([^\n]*?) -->\n).*?(<!-- end -->)",
    re.DOTALL,
)


def main() -> int:
    """Write the pages, or check them."""
    commands = every_command()
    old = 0
    for name in PAGES:
        path = FOLDER / name
        page = path.read_text(encoding="utf-8")
        filled = fill_page(page, commands, SETTINGS)
        old += filled != page
        if "--check" not in sys.argv[1:]:
            path.write_text(filled, encoding="utf-8")
        elif filled != page:
            sys.stderr.write(f"{path} is not up to date: run {Path(__file__).name}\n")
    return int("--check" in sys.argv[1:] and old > 0)


def fill_page(page: str, commands: Mapping[str, Command], settings: Mapping[str, Option]) -> str:
    """Return a page with its tables regenerated.

    :param settings: the settings of files and variables, by key.
    :raises KeyError: a comment names a command or a group that does not exist.
    """
    commands_by_name = dict(leaf_commands(commands))
    groups: dict[str, OptionGroup] = {}
    for command in commands_by_name.values():
        for group in command.groups:
            groups.setdefault(group.title, group)
    on_page = {
        match[3]: groups[match[3]] for match in _FILLED.finditer(page) if match[2] == "group"
    }

    def filled(match: re.Match[str]) -> str:
        if match[2] == "commands":
            lines = _command_list(commands_by_name)
        elif match[2] == "settings":
            lines = _settings_table(settings)
        elif match[2] == "group":
            lines = _table(option for option in groups[match[3]].options if _is_named(option))
        else:
            lines = _command_tables(commands_by_name[match[3]], on_page)
        return "\n".join([match[1], *lines, "", match[4]])

    return _FILLED.sub(filled, page)


def _is_named(option: Option) -> bool:
    return option.is_on_command_line and not option.is_positional


def _command_list(commands: Mapping[str, Command]) -> Iterator[str]:
    """Yield the table of all commands, with links to their sections."""
    yield "| command | what it does |"
    yield "|---|---|"
    for name, command in commands.items():
        link = f"[`{name}`](#wheelfit-{name.replace(' ', '-')})"
        yield f"| {link} | {_cell(command.summary)} |"


def _command_tables(command: Command, on_page: Mapping[str, OptionGroup]) -> Iterator[str]:
    """Yield the tables of the options of a command, and links to those of groups on the page."""
    options_by_title: dict[str, list[Option]] = {"": []}
    links = []
    for group in command.groups:
        shared = on_page[group.title].options if group.title in on_page else ()
        title = f"{group.title} ({group.note})" if group.note else group.title
        for option in group.options:
            if option.is_positional:
                options_by_title[""].append(option)
            elif option.is_on_command_line and option not in shared:
                options_by_title.setdefault(title, []).append(option)
        if any(option in shared for option in group.options if _is_named(option)):
            links.append(f"[{group.title}](#{group.title.replace(' ', '-')})")
    options_by_title[""].sort(key=lambda option: not option.is_positional)
    parts = []
    for title, options in options_by_title.items():
        if options:
            heading = [f"{title[0].upper()}{title[1:]}:", ""] if title else []
            parts.append([*heading, *_table(options)])
    if links:
        parts.append([f"Shared options: {', '.join(links)}."])
    for number, part in enumerate(parts):
        yield from ([""] if number else [])
        yield from part


def _table(options: Iterable[Option]) -> Iterator[str]:
    yield "| option | meaning |"
    yield "|---|---|"
    for option in options:
        spelled = ", ".join(f"`{name}`" for name in option.names)
        value = f" `{option.metavar}`" if option.metavar else ""
        if option.kind.choices and not option.metavar and not option.is_positional:
            value = f" {' / '.join(f'`{word}`' for word in option.kind.choices)}"
        yield f"| {spelled}{value} | {_cell(option.help)} |"


def _settings_table(settings: Mapping[str, Option]) -> Iterator[str]:
    yield "| key | value | variable | in a project | meaning |"
    yield "|---|---|---|---|---|"
    for key, option in settings.items():
        variable = f"`{option.variable}`" if option.variable and option.kind.is_text else ""
        access = option.project.value if option.project else ""
        yield f"| `{key}` | {option.kind.title} | {variable} | {access} | {_cell(option.help)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
