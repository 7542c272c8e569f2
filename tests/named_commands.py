"""The command lines that messages and pages name, found mechanically.

In the source a command line stands between backticks, or is a whole string or line of one; in a
page it stands between backticks, or is a line of a block.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from wheelfit.cli.command import Command
from wheelfit.cli.commands import COMMANDS

_SPAN = re.compile(r"`(wheelfit [^`]+)`", re.DOTALL)
_LINE = re.compile(r"^\s*(?:\$ |# |- |\w+ {2,})?(wheelfit .*)$")
_BLOCK = re.compile(r"^( *)```[\w-]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
_END = re.compile(r"\s(?:#|>|\||&&|;).*", re.DOTALL)
_VERBS = {
    *("cannot", "emulates", "failed", "is", "knows", "offers", "requires", "does", "understands"),
    "runs",
}
"""What follows the name in sentences that begin with it."""
_PLACEHOLDER = "PLACEHOLDER"
"""What stands for an expression in an f-string."""


@dataclass(frozen=True, slots=True)
class Named:
    """A command line, and the place that names it."""

    line: str
    where: str


def messages_of(path: Path, word: str) -> tuple[tuple[str, int], ...]:
    """Return the strings of a module that are no docstrings, with their lines.

    :param word: part of any string that matters; a module without it is not parsed.
    """
    return _strings(path) if word in path.read_text(encoding="utf-8") else ()


@cache
def _strings(path: Path) -> tuple[tuple[str, int], ...]:
    found: list[tuple[str, int]] = []
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        match pending.pop():
            case ast.Expr(ast.Constant()):
                pass
            case ast.Constant(str() as text) as node:
                found.append((text, node.lineno))
            case ast.JoinedStr(values) as node:
                parts = (
                    str(part.value) if isinstance(part, ast.Constant) else _PLACEHOLDER
                    for part in values
                )
                found.append(("".join(parts), node.lineno))
                pending += (part for part in values if not isinstance(part, ast.Constant))
            case node:
                pending += ast.iter_child_nodes(node)
    return tuple(found)


def named_in_messages(path: Path) -> Iterator[Named]:
    """Yield the command lines that the strings of a module name."""
    for text, number in messages_of(path, "wheelfit "):
        where = f"{path}:{number}"
        yield from (Named(" ".join(span.split()), where) for span in _SPAN.findall(text))
        lines = (_LINE.fullmatch(line) for line in _SPAN.sub("", text).splitlines())
        yield from (Named(found[1], where) for found in lines if found and _is_command(found[1]))


def unmarked(path: Path) -> Iterator[Named]:
    """Yield the command lines in sentences of a module that are not between backticks."""
    names = "|".join(map(re.escape, COMMANDS))
    pattern = re.compile(rf"(?<![\w./`-])wheelfit (?:{names})(?![\w-])")
    for text, number in messages_of(path, "wheelfit "):
        rest = "\n".join(
            line for line in _SPAN.sub("", text).splitlines() if not _LINE.fullmatch(line)
        )
        yield from (Named(found, f"{path}:{number}") for found in pattern.findall(rest))


def named_in_page(path: Path) -> Iterator[Named]:
    """Yield the command lines of a page: of its blocks, and between backticks."""
    text = path.read_text(encoding="utf-8")
    for block in _BLOCK.finditer(text):
        joined = block[2].replace("\\\n", " ")
        for line in joined.splitlines():
            found = _LINE.fullmatch(line)
            if found and _is_command(found[1]):
                yield Named(found[1], str(path))
    spans = (" ".join(span.split()) for span in _SPAN.findall(_BLOCK.sub("", text)))
    yield from (Named(span, str(path)) for span in spans if _is_command(span))


def _is_command(line: str) -> bool:
    """Return whether a line is a command line, and no sentence that begins with the name."""
    word = line.split()[1]
    return word.startswith("-") or (word.replace("-", "").isalpha() and word not in _VERBS)


def fault(line: str, commands: Mapping[str, Command]) -> str:
    """Return what is wrong with a command line; empty where command and options exist.

    :param line: with placeholders for words, and what a shell makes of it.
    :param commands: every top-level command.
    """
    words = _words(line)
    if not words or words[0] in ("--version", "--help", "help", "-V") or _is_placeholder(words[0]):
        return ""
    command = commands.get(words[0])
    if command is None:
        return f"no command {words[0]}"
    del words[0]
    while command.subcommands and words and not words[0].startswith("-"):
        if _is_placeholder(words[0]) or "|" in words[0]:
            return ""
        if words[0] not in command.subcommands:
            return f"no subcommand {words[0]}"
        command = command.subcommands[words.pop(0)]
    known = {"-h", "--help"}
    for option in command.command_line_options():
        known |= set(option.names)
    for word in words:
        if word == "--":
            break
        name = word.partition("=")[0]
        is_letters = re.fullmatch(r"-[a-zA-Z]{2,}", name) is not None
        names = [f"-{letter}" for letter in name[1:]] if is_letters else [name]
        if name.startswith("-") and (missing := [name for name in names if name not in known]):
            return f"unknown option {missing[0]}"
    return ""


def _words(line: str) -> list[str]:
    line = _END.sub("", line).replace("…", "...")
    try:
        return shlex.split(line)[1:]
    except ValueError:  # a quotation that goes on in the next line
        return line.split()[1:]


def _is_placeholder(word: str) -> bool:
    return word.isupper() or word in ("...", _PLACEHOLDER) or word.startswith("[")
