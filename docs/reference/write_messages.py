"""Write ``docs/reference/messages.md``: every message in the code, by the code of its error.

Messages are read from the syntax tree: the arguments of errors, of faults of documents, and of
warnings and remarks. ``--check`` writes nothing and fails where the page would change.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from wheelfit import errors
from wheelfit.sources import repository
from wheelfit_runtime import errors as base
from wheelfit_runtime.error_codes import CODES
from wheelfit_runtime.errors import WheelfitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PAGE = Path(__file__).with_name("messages.md")
SOURCES = (PAGE.parents[2] / "src", PAGE.parents[2] / "runtime" / "src")
HEAD = """# Messages

Search this page for the words on your screen: it has the messages of wheelfit by the code of the
error, then the faults of documents, warnings, remarks and lines of results. [Errors](errors.md)
explains the codes, [checks](checks.md) and the [doctor](doctor.md) their own findings. A word in
braces stands for a value, as `{path}`.

<!-- From here on written by write_messages.py. -->
"""
_FAULTS = "Faults of documents and files"
_WARNINGS = "Warnings"
_REMARKS = "Remarks"
_RESULTS = "Results"
_CALLS = {
    "Fault": _FAULTS, "fault": _FAULTS, "fail": _FAULTS, "error": _FAULTS, "Unreadable": _FAULTS,
    "reporting_os_errors": "file-problem", "Interrupted": "unreachable",
}  # fmt: skip
"""Callables that take a message and are no class of an error, with the section of the page."""
_METHODS = {
    "warn": _WARNINGS, "remark": _REMARKS, "note": _REMARKS, "summary": _REMARKS,
    "detail": _REMARKS, "report": _RESULTS, "result": _RESULTS, "folded": _RESULTS,
}  # fmt: skip
"""Methods of a `Reporter` or an `Output` that take a message, with the section of the page."""
_CLASSES = {
    name: kind
    for module in (base, errors, repository)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, WheelfitError)
}
_DEPTH = 3
"""How many names are followed from a call to its text."""

_Names: TypeAlias = "Mapping[str, list[ast.expr]]"
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_Scope: TypeAlias = ast.Module | ast.ClassDef | _Function


@dataclass(frozen=True, order=True)
class Message:
    """A text with the hint that follows it."""

    text: str
    hint: str = ""


@dataclass(frozen=True)
class Contents:
    """The contents of a module, class or function, without those of the scopes in it."""

    nodes: list[ast.Call | ast.ClassDef | _Function] = field(default_factory=list)
    """Calls and inner scopes, in their order."""
    assigned: dict[str, list[ast.expr]] = field(default_factory=lambda: defaultdict(list))
    """The values that names are given."""


class Module:
    """The texts of a module.

    :param source: its source.
    """

    def __init__(self, source: str) -> None:
        self.tree = ast.parse(source)
        self.contents = _contents(self.tree)
        self.constants = self.contents[self.tree].assigned
        self.functions: dict[str, _Function] = {}
        self.calls: dict[str, list[ast.expr]] = defaultdict(list)
        for node in (node for found in self.contents.values() for node in found.nodes):
            if isinstance(node, ast.Call):
                self.calls[_called(node)].append(node)
            elif isinstance(node, _Function) and node.name != "__init__":
                self.functions[node.name] = node
        self._used: set[ast.expr] = set()

    def messages(self) -> Iterator[tuple[str, Message]]:
        """Yield each message with its section."""
        yield from self._below(self.tree, self.constants, None)

    def _below(
        self, scope: _Scope, names: _Names, kind: type[WheelfitError] | None
    ) -> Iterator[tuple[str, Message]]:
        """Yield the messages of a scope.

        :param names: the values that names have there.
        :param kind: the class of an error that the scope belongs to, if any.
        """
        for node in self.contents[scope].nodes:
            if isinstance(node, ast.ClassDef):
                yield from self._below(node, names, _CLASSES.get(node.name))
            elif isinstance(node, _Function):
                for local in self._local(node):
                    yield from self._below(node, {**names, **local}, kind)
            elif node not in self._used:
                yield from self._call(node, names, kind)

    def _call(
        self, call: ast.Call, names: _Names, kind: type[WheelfitError] | None
    ) -> Iterator[tuple[str, Message]]:
        """Yield the messages of a call, if it takes one."""
        name = _called(call)
        words = {word.arg: word.value for word in call.keywords}
        given = call.args[:2]
        section: str
        if name == "__init__" and kind and ast.unparse(call.func) == "super().__init__":
            section = kind.reference
        elif name in _CLASSES:
            kind = _CLASSES[name]
            code = words.get("code")
            section = str(code.value) if isinstance(code, ast.Constant) else kind.reference
            first = next(iter(inspect.signature(kind).parameters))
            given = given[:1] if first in ("message", "faults") else []
        elif name in _METHODS and re.search(r"(output|reporter)\.\w+$", ast.unparse(call.func)):
            section = _METHODS[name]
        elif name in _CALLS:
            section = _CALLS[name]
        else:
            return
        hints = self.texts(words.get("hint"), names) or [""]
        found = [self.texts(node, names) for node in (*given, words.get("message"))]
        # The place of a fault, and the style of a remark, are one word.
        texts = next((texts for texts in found if any(" " in text for text in texts)), [])
        if name == "reporting_os_errors":
            texts = [f"{text}: {{reason}}" for text in texts]
        for text, hint in product(texts, hints):
            if re.search("[a-z]", re.sub(r"{.*?}", "", text)):
                yield section, Message(_line(text), _line(hint))

    def texts(self, node: ast.expr | None, names: _Names, depth: int = _DEPTH) -> list[str]:
        """Return the texts that an expression can have; none where it is only a value.

        :param depth: how many more names are followed.
        """
        match node:
            case ast.Constant(str(text)) if text:
                return [text]
            case ast.JoinedStr(values=parts):
                return _joined([self._part(part, names, depth) for part in parts])
            case ast.IfExp(body=first, orelse=second):
                return [*self.texts(first, names, depth), *self.texts(second, names, depth)]
            case ast.BoolOp(values=values):
                return [text for value in values for text in self.texts(value, names, depth)]
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                sides = (self.texts(side, names, depth) or [_value(side)] for side in (left, right))
                return _joined(list(sides))
            case ast.List(elts=values) | ast.Tuple(elts=values):
                return [text for value in values for text in self.texts(value, names, depth)]
            case ast.Call(func=ast.Name(id="Fault"), args=[_, message, *_]):
                self._used.add(node)
                return self.texts(message, names, depth)
            case ast.Call(func=ast.Name(id="did_you_mean"), args=[_, _, otherwise]):
                return ["did you mean '{name}'?", *self.texts(otherwise, names, depth)]
            case ast.Call(func=ast.Attribute(value=value, attr="format")):
                return self.texts(value, names, depth)
            case _ if depth:
                return self._followed(node, names, depth - 1)
            case _:
                return []

    def _followed(self, node: ast.expr | None, names: _Names, depth: int) -> list[str]:
        """Return the texts that a name stands for, an entry of a table, or a call in the module."""
        match node:
            case ast.Name(id=name):
                values = names.get(name, [])
                return [text for value in values for text in self.texts(value, names, depth)]
            case (
                ast.Subscript(value=ast.Name(id=name))
                | ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="get"))
            ):
                tables = (one for one in names.get(name, []) if isinstance(one, ast.Dict))
                values = [value for table in tables for value in table.values]
                return [text for value in values for text in self.texts(value, names, depth)]
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if (
                function := self.functions.get(name)
            ):
                returned = [one.value for one in ast.walk(function) if isinstance(one, ast.Return)]
                return [
                    text
                    for local in self._local(function, node)
                    for value in returned
                    for text in self.texts(value, {**self.constants, **local}, depth)
                ]
            case _:
                return []

    def _part(self, part: ast.expr, names: _Names, depth: int) -> list[str]:
        """Return the texts that a part of an f-string can have."""
        if isinstance(part, ast.FormattedValue):
            texts = self.texts(part.value, names, min(depth, 1))
            either = isinstance(part.value, ast.IfExp)
            return texts if texts and (either or len(texts) == 1) else [_value(part.value)]
        return [str(part.value)] if isinstance(part, ast.Constant) else []

    def _local(self, function: _Function, call: ast.expr | None = None) -> Iterator[_Names]:
        """Yield the values of the local names of a function for each call of it in the module.

        :param call: the only call that counts; None for all of them.
        """
        calls: list[ast.expr | None] = [call] if call else [*self.calls.get(function.name, [])]
        if function.name == "__init__":
            calls = []  # of which class is not known
        assigned = self.contents[function].assigned
        arguments = function.args
        own = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
        own = own[own[:1] in (["self"], ["cls"]) :]
        defaults = dict(zip(reversed(own), reversed(arguments.defaults), strict=False))
        defaults |= {
            one.arg: value
            for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if value is not None
        }
        for one in calls or [None]:
            passed = dict(defaults)
            if isinstance(one, ast.Call):
                passed |= zip(own, one.args, strict=False)
                passed |= {word.arg: word.value for word in one.keywords if word.arg}
            yield {name: [value] for name, value in passed.items()} | assigned


def main() -> int:
    """Write the page, or compare it; return the exit code."""
    text = "\n".join((HEAD, *_sections(every_message())))
    if "--check" not in sys.argv:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"{PAGE} is not up to date: run {Path(__file__).name}\n")
    return 1


def every_message() -> dict[str, set[Message]]:
    """Return the messages of the code by the code of the error or the title of the section."""
    messages: dict[str, set[Message]] = defaultdict(set)
    for path in (path for folder in SOURCES for path in folder.rglob("*.py")):
        if "testing" not in path.parts:
            for section, message in Module(path.read_text(encoding="utf-8")).messages():
                messages[section].add(message)
    return messages


def _sections(messages: Mapping[str, set[Message]]) -> Iterator[str]:
    """Yield a table for each code that has messages, and for each other section."""
    for section in (*CODES, _FAULTS, _WARNINGS, _REMARKS, _RESULTS):
        if not messages.get(section):
            continue
        title = (
            f"`{section}` (exit code {CODES[section].exit_code})" if section in CODES else section
        )
        yield f"## {title}\n"
        rows = sorted(messages[section])
        columns = 2 if any(row.hint for row in rows) else 1
        yield "| Message | Hint |\n|---|---|" if columns == 2 else "| Message |\n|---|"
        for row in rows:
            yield f"| {' | '.join(map(_cell, (row.text, row.hint)[:columns]))} |"
        yield ""


def _contents(module: ast.Module) -> dict[_Scope, Contents]:
    """Return what each scope of a module contains; each node is visited once."""
    found: dict[_Scope, Contents] = {module: Contents()}
    pending: list[tuple[ast.AST, Contents]] = [(module, found[module])]
    while pending:
        node, inside = pending.pop()
        match node:
            case ast.Call():
                inside.nodes.append(node)
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                inside.nodes.append(node)
                inside = found[node] = Contents()
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                inside.assigned[name].append(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                inside.assigned[name].append(value)
        children = [child for child in ast.iter_child_nodes(node) if child._fields]
        pending.extend((child, inside) for child in reversed(children))
    return found


def _joined(parts: list[list[str]]) -> list[str]:
    """Return every combination of texts that follow each other."""
    return ["".join(words) for words in product(*parts)]


def _called(call: ast.Call) -> str:
    """Return the last name of what is called; empty where it has none."""
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _value(node: ast.expr) -> str:
    """Return the word in braces that stands for an expression."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return f"{{{name.strip('_')}}}"
        case ast.Call(func=ast.Name(id="os_reason")):
            return "{reason}"
        case ast.Call(func=ast.Attribute(attr="join")) if node.args:
            return _value(node.args[0])
        case ast.Call(args=[first, *_]):
            return _value(first)
        case ast.Call(func=function):
            return _value(function)
        case ast.Subscript(value=value) | ast.BoolOp(values=[value, *_]) | ast.Starred(value=value):
            return _value(value)
        case ast.IfExp(body=value) | ast.GeneratorExp(elt=value) | ast.ListComp(elt=value):
            return _value(value)
        case ast.Constant(value=value):
            return str(value)
        case _:
            return "{…}"


def _line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    """Return a text as a cell of a table, with what Markdown would take for markup quoted."""
    spans = re.split(r"(`[^`]*`)", text)
    spans[::2] = [re.sub(r"([*_<\[\]])", r"\\\1", span) for span in spans[::2]]
    return "".join(spans).replace("|", r"\|")


if __name__ == "__main__":
    sys.exit(main())
