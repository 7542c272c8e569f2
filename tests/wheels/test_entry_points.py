"""Claims about the commands a wheel declares."""

from __future__ import annotations

import pytest
from installer.utils import parse_entrypoints

from wheelfit.wheels.entry_points import Command, is_interpreter_name, parse_commands
from wheelfit_runtime.errors import InvalidWheel


def parse(text: str) -> tuple[Command, ...]:
    """Parse with a name for errors."""
    return parse_commands(text, where="x.whl")


def test_commands() -> None:
    """Both groups are read, other groups are not."""
    text = """
    # a comment
    [console_scripts]
    demo = demo.cli:main
    demo-2.0 = demo : Main.run [extra]
    ; another
    [other]
    ../x = whatever it likes %(x)s
    x
    [gui_scripts]
    demo-gui=demo:gui
    """
    assert parse(text) == (
        Command("demo", "demo.cli", "main", "console"),
        Command("demo-2.0", "demo", "Main.run", "console"),
        Command("demo-gui", "demo", "gui", "gui"),
    )


def test_nothing() -> None:
    """An empty file declares nothing."""
    assert parse("") == ()


def test_last_counts() -> None:
    """Of several equal names the last counts."""
    assert parse("[console_scripts]\na = x:y\na = x:z\n")[0].attribute == "z"


@pytest.mark.parametrize(
    "name",
    ["../evil", "/bin/ls", "a/b", "..", ".", "a\\b", "C:x", "a b", "", "a\x00b", "*"],
)
def test_names(name: str) -> None:
    """GHSA-4gg8-gxpx-9rph: a name that is not a plain file name is refused."""
    with pytest.raises(InvalidWheel):
        parse(f"[console_scripts]\n{name} = a:b\n")


@pytest.mark.parametrize(
    "name",
    [
        "python",
        "Python",
        "PYTHON3",
        "python3.11",
        "python.exe",
        "python.",
        "pythonw",
        "python3.13t",
        "python3.14td",
        "python3.8dm",
        "python_d.exe",
        "python.ps1",
        "Python3.JS",
        "pypy3.11",
        "graalpy",
    ],
)
def test_interpreter(name: str) -> None:
    """CVE-2026-8643: a script that shadows the interpreter in any spelling is refused."""
    assert is_interpreter_name(name)
    with pytest.raises(InvalidWheel, match="interpreter"):
        parse(f"[console_scripts]\n{name} = a:b\n")


@pytest.mark.parametrize(
    "name",
    [
        "python-config",
        "pythonic",
        "ipython",
        "pytest",
        "python3-x",
        "pypyr",
        "py.test",
        "pyd",
        "pym",
    ],
)
def test_no_interpreter(name: str) -> None:
    """Names that only begin like the interpreter's are fine."""
    assert not is_interpreter_name(name)


@pytest.mark.parametrize(
    "value",
    [
        "a",
        "a:",
        ":b",
        "a:b()",
        "a;b:c",
        "a:b c",
        "import os:x",
        "a:b\\",
        "1:2",
        "class:x",
        "a..b:c",
    ],
)
def test_values(value: str) -> None:
    """What does not name a function of a module would become foreign code; it is refused."""
    with pytest.raises(InvalidWheel):
        parse(f"[console_scripts]\nname = {value}\n")


def test_line_without_value() -> None:
    """A line that is not an entry is refused in these groups."""
    with pytest.raises(InvalidWheel):
        parse("[console_scripts]\nname\n")


def test_as_installer_does() -> None:
    """PyPA's installer understands the groups of scripts in the same way."""
    text = "[console_scripts]\nb = x.y:z\na=p:q.r[extra]\n[gui_scripts]\nb = x:w\n"
    assert list(parse_entrypoints(text)) == [
        (c.name, c.module, c.attribute, c.section) for c in parse(text)
    ]
