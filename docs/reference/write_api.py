"""Write ``docs/reference/api.md`` from the docstrings of the public names of wheelfit.

``--check`` writes nothing and fails where the page would change.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

import wheelfit
from wheelfit.cli.commands import working_commands
from wheelfit.operations.requests import ValidatedRequest, field_types

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wheelfit.cli.options.option import Option

PAGE = Path(__file__).with_name("api.md")
HEAD = """# Python API

`import wheelfit` offers what the commands do: functions from a request and a context to a report.

```python
from wheelfit import Context, InstallRequest, install

report = install(InstallRequest(requirements=("numpy",), dry_run=True), Context())
print([str(pin) for pin in report.decision.planned.install])
```

Every request has the options of its [command](commands.md), by the same names: `--find-links` is
`find_links`. Lists are tuples. A request is frozen: its `with_options()` returns a copy with other
values. An operation raises a `WheelfitError`, whose `reference` is a row of
[errors](errors.md); a report has `to_json()`, the object that the command prints with
[`--json`](json.md). Settings of files and of `WHEELFIT_*` variables count on the command line only.
The names on this page, their fields and their parameters change only with a new major version.
[A tutorial](../tutorial/use-from-python.md) leads through it.

<!-- From here on written by write_api.py. -->
"""
_TABLE = ("| Field | Type | Default | Meaning |", "| --- | --- | --- | --- |")
_BAR = "\\|"
"""A bar in a cell."""
_FIELD = re.compile(r":(param|raises|returns?) ?(\w*):")


def main() -> int:
    """Write the page, or compare it; return the exit code."""
    text = "\n".join((HEAD, *_sections()))
    if "--check" not in sys.argv:
        PAGE.write_text(text)
        return 0
    if PAGE.exists() and PAGE.read_text() == text:
        return 0
    sys.stderr.write(f"{PAGE} is not up to date: run {Path(__file__).name}\n")
    return 1


def _sections() -> Iterator[str]:
    """Yield operations, then their requests, then everything else."""
    names = [name for name in sorted(wheelfit.__all__) if not name.startswith("_")]
    kinds = {
        "Operations": [name for name in names if name[0].islower()],
        "Requests": [name for name in names if name.endswith("Request")],
    }
    kinds["Values"] = [name for name in names if not any(name in one for one in kinds.values())]
    for title, members in kinds.items():
        yield f"## {title}\n"
        for name in members:
            yield from _described(name, getattr(wheelfit, name))
    yield "## Options\n\nFields that several requests have; they derive from these classes.\n"
    requests = [getattr(wheelfit, name) for name in kinds["Requests"]]
    bases = {base for one in requests for base in one.__mro__[1:-1]} - {ValidatedRequest}
    for base in sorted(bases, key=lambda one: one.__name__):
        yield f"### {base.__name__}\n\n{_text(inspect.getdoc(base))}\n"
        yield from _fields(base, next(one for one in requests if base in one.__mro__))


def _described(name: str, thing: Any) -> Iterator[str]:
    if inspect.isfunction(thing):
        yield from _function(name, thing, "###")
        return
    yield f"### {name}\n"
    yield f"{_text(inspect.getdoc(thing))}\n"
    if isinstance(thing, type) and _defaults(thing):
        yield from _fields(thing, thing)
    for key, one in vars(thing).items():
        if key.startswith("_"):
            continue
        if isinstance(one, classmethod | staticmethod):
            yield from _function(f"{name}.{key}", one.__func__, "####")
        elif inspect.isfunction(one):
            yield from _function(f"{name}.{key}", one, "####")
        elif isinstance(one, property):
            yield f"#### {name}.{key}\n\n{_text(inspect.getdoc(one))}\n"


def _function(name: str, function: Any, level: str) -> Iterator[str]:
    names = [one for one in inspect.signature(function).parameters if one not in ("self", "cls")]
    yield f"{level} {name}({', '.join(names)})\n"
    text, *fields = _lines(inspect.getdoc(function))
    yield f"{_text(text)}\n"
    for one in fields:
        match = _FIELD.match(one)
        if match is None:
            continue
        words = _text(one[match.end() :])
        kind, of = match.groups()
        said = {"param": f"`{of}`", "raises": f"raises `{of}`"}.get(kind, "returns")
        yield f"- {said}: {words}"
    if fields:
        yield ""


def _lines(doc: str | None) -> list[str]:
    """Return the text of a docstring, and each of its fields as one line."""
    head, *fields = re.split(r"\n(?=:\w)", doc or "")
    return [head.strip(), *(" ".join(one.split()) for one in fields)]


def _text(words: str | None) -> str:
    """Return words of a docstring as Markdown."""
    return re.sub(r"``([^`]*)``", r"`\1`", (words or "").strip())


def _fields(thing: type, request: type) -> Iterator[str]:
    """Yield a table of the fields of a class, and links to the classes that have the others.

    :param thing: a class of values, or of options.
    :param request: one that derives from it; the options of its command have the meanings.
    """
    rows = []
    meanings = _meanings(thing)
    bases = [base for base in thing.__bases__ if base.__module__.startswith("wheelfit")]
    inherited = {name for base in bases for name in field_types(base)}
    kinds = field_types(thing)
    for name, default in _defaults(request).items():
        if name in inherited or name not in kinds:
            continue
        made = default is inspect.Parameter.empty or repr(default) == "<factory>"
        shown = "" if made else f"`{default!r}`"
        meaning = meanings.get(name) or _row_help(request, name)
        cells = (f"`{name}`", f"`{kinds[name]}`", shown, meaning)
        rows.append(f"| {' | '.join(cell.replace('|', _BAR) for cell in cells)} |")
    if rows:
        yield "\n".join((*_TABLE, *rows, ""))
    others = [
        f"[{base.__name__}](#{base.__name__.lower()})"
        for base in bases
        if issubclass(base, ValidatedRequest) and base is not ValidatedRequest
    ]
    if others:
        yield f"It has the fields of {', '.join(others)}{' as well' if rows else ''}.\n"


def _defaults(kind: type) -> dict[str, object]:
    """Return the public fields of a class of values, with the defaults of those that have one."""
    if issubclass(kind, ValidatedRequest):
        return {name: getattr(kind, name, inspect.Parameter.empty) for name in field_types(kind)}
    if issubclass(kind, msgspec.Struct):  # its signature needs the types of its fields
        names, defaults = kind.__struct_fields__, kind.__struct_defaults__
        needed = [inspect.Parameter.empty] * (len(names) - len(defaults))
        return dict(zip(names, (*needed, *defaults), strict=True))
    if not dataclasses.is_dataclass(kind):
        return {}
    parameters = inspect.signature(kind).parameters.items()
    return {name: one.default for name, one in parameters if not name.startswith("_")}


def _row_help(thing: type, name: str) -> str:
    row = _rows(thing.__name__).get(name)
    return "" if row is None else row.help


def _meanings(thing: type) -> dict[str, str]:
    """Return what stands below each field of a class or of those that it derives from."""
    found: dict[str, str] = {}
    for one in reversed(thing.__mro__):
        if one.__module__.startswith("wheelfit"):
            found |= _own_meanings(one)
    return found


@cache
def _own_meanings(thing: type) -> dict[str, str]:
    """Return what stands below each field of a class."""
    found: dict[str, str] = {}
    for field, below in pairwise(_classes(thing.__module__)[thing.__name__].body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match below:
                case ast.Expr(ast.Constant(str() as words)):
                    found[field.target.id] = " ".join(_text(words).split())
    return found


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """Return the classes of a module by their names."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {one.name: one for one in tree.body if isinstance(one, ast.ClassDef)}


@cache
def _rows(request: str) -> dict[str, Option]:
    """Return the rows of the table of options for the command of a request, by their fields."""
    command = request.removesuffix("Request").lower()
    if command == "makevariant":
        command = "wheel make"
    commands = working_commands()
    groups = commands.get(command, commands["install"]).options
    return {option.destination: option for group in groups for option in group.options}


if __name__ == "__main__":
    sys.exit(main())
