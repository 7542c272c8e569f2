"""Read the commands that a wheel declares in ``entry_points.txt``.

Names become file names in the folder of scripts and values become Python code, so both are checked
(GHSA-4gg8-gxpx-9rph). Other groups are ignored.
"""

from __future__ import annotations

import keyword
import re
from typing import NamedTuple

from wheelfit_runtime.errors import InvalidWheel
from wheelfit_runtime.patterns import pattern

_GROUPS = {"console_scripts": "console", "gui_scripts": "gui"}
_NAME = pattern(r"[\w.-]+")
_VALUE = pattern(r"([\w.]++)\s*+(?::\s*+([\w.]++))?+\s*+(?:\[[^\]]*+\])?")
# ``pythonw``, ``python3.11``, ``python3t``, and ``python_d`` of debug builds, also with suffixes
# that Windows and PowerShell append to a command.
_INTERPRETER = pattern(
    r"(?:python|pypy|graalpy)w?[\d.]*[dmtu]*w?(?:_d)?"
    r"(?:\.(?:exe|com|bat|cmd|vbs|vbe|js|jse|wsf|wsh|msc|cpl|ps1|lnk|py|pyw))?\.*",
    re.IGNORECASE,
)


class Command(NamedTuple):
    """A script that calls a function."""

    name: str
    """File name, without the suffix of Windows."""
    module: str
    attribute: str
    section: str
    """``console`` or ``gui``."""


def is_interpreter_name(name: str) -> bool:
    """Return whether a script of this name would shadow the interpreter in any spelling."""
    return _INTERPRETER.fullmatch(name) is not None


def parse_commands(text: str, *, where: str) -> tuple[Command, ...]:
    """Read the two groups of scripts; the last of several equal names counts.

    :raises InvalidWheel: a name is not a plain file name or shadows the interpreter, or a value
        does not name a function of a module.
    """
    commands: dict[tuple[str, str], Command] = {}
    section = None
    for raw in re.split(r"\r\n|\r|\n", text):  # str.splitlines would split at more characters
        line = raw.strip()
        if not line or line.startswith(("#", ";")):
            continue
        if line.startswith("[") and line.endswith("]"):
            section = _GROUPS.get(line[1:-1].strip())
            continue
        if section is None:
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals:
            raise InvalidWheel(f"the entry point {line!r} names no function", where=where)
        commands[section, name] = _command(name, value, section, where)
    return tuple(commands.values())


def _command(name: str, value: str, section: str, where: str) -> Command:
    if not _NAME.fullmatch(name) or not name.strip("."):
        raise InvalidWheel(f"the entry point {name!r} is not a valid script name", where=where)
    if is_interpreter_name(name):
        raise InvalidWheel(f"the script {name!r} would shadow the Python interpreter", where=where)
    match = _VALUE.fullmatch(value)
    if match is None or not (_is_dotted_name(match[1]) and _is_dotted_name(match[2] or "")):
        raise InvalidWheel(
            f"the entry point {name!r} does not name a function of a module: {value!r}",
            where=where,
        )
    return Command(name, match[1], match[2], section)


def _is_dotted_name(text: str) -> bool:
    return all(part.isidentifier() and not keyword.iskeyword(part) for part in text.split("."))
