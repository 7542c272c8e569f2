"""Keys are removed from TOML documents as text."""

from __future__ import annotations

import tomllib

import pytest

from wheelfit.core.toml_edits import create, key_in_toml, remove_key, text_in_toml

PATH = ("tool", "uv", "sources", "old")
HEAD = "# mine\n[project]\nname = 'demo'\n"
TAIL = "\n# about x\n[tool.x]\na = 1\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('\n[tool.uv.sources]\nold = { path = "../old" }\n', ""),
        (
            '\n[tool.uv.sources]\n# those\nold = { path = "a" }  # why\nnew = { path = "b" }\n',
            '\n[tool.uv.sources]\n# those\nnew = { path = "b" }\n',
        ),
        (
            "\n[tool.uv.sources]\nold = [\n  # one\n  { path = 'a' },\n]\nnew.path = 'b'\n",
            "\n[tool.uv.sources]\nnew.path = 'b'\n",
        ),
        (
            "\n[tool.uv.sources]\nold.git = 'a'\nnew.path = 'b'\nold.rev = 'c'\n",
            "\n[tool.uv.sources]\nnew.path = 'b'\n",
        ),
        (
            '\n[tool.uv.sources.old]\npath = "a"\n\n[tool.uv.sources.new]\npath = "b"\n',
            '\n[tool.uv.sources.new]\npath = "b"\n',
        ),
        ("\n[[tool.uv.sources.old]]\npath = 'a'\n\n[[tool.uv.sources.old]]\npath = 'b'\n", ""),
        (
            "\n[tool.uv]\nsources = { old = { path = 'a' }, new = { path = 'b' } }\n",
            "\n[tool.uv]\nsources = { new = { path = 'b' } }\n",
        ),
        (
            "\n[tool.uv]\nsources = { new = { path = 'b' }, old = { path = 'a' } }\n",
            "\n[tool.uv]\nsources = { new = { path = 'b' } }\n",
        ),
        (
            "\n[tool.uv]\ncache = 1\nsources = { old = { path = 'a' } }\n",
            "\n[tool.uv]\ncache = 1\n",
        ),
        (
            "\n[tool.uv]\nsources.old = { path = 'a' }\nsources.new = { path = 'b' }\n",
            "\n[tool.uv]\nsources.new = { path = 'b' }\n",
        ),
        ("\n[tool.uv.sources]\n# none\nold = 1\n", "\n[tool.uv.sources]\n# none\n"),
    ],
)
def test_every_form(before: str, after: str) -> None:
    """The key goes, its table with it if that is empty; all else is as it was."""
    tomllib.loads(HEAD + before + TAIL)
    assert remove_key(HEAD + before + TAIL, PATH) == HEAD + after + TAIL


def test_at_the_end() -> None:
    """The last table of a file goes with the empty line before it."""
    assert remove_key(HEAD + "\n[tool.uv.sources]\nold = 1\n", PATH) == HEAD


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = {}\n", 'a = {c = ["d"]}\n'),
        ("a = { }\n", 'a = { c = ["d"] }\n'),
        ("a = {b = 1}\n", 'a = {b = 1, c = ["d"]}\n'),
        ("a = { b = 1 }\n", 'a = { b = 1, c = ["d"] }\n'),
    ],
)
def test_a_list_in_an_inline_table(before: str, after: str) -> None:
    """A new list has the spaces of the braces around it."""
    assert create(before, ("a", "c"), "d", after="a") == after


@pytest.mark.parametrize(
    "text", ["plain", 'a "quote"', "back\\slash", "tab\t", "\x00\x1f\x7f", "é"]
)
def test_strings(text: str) -> None:
    """Any text is a valid string or key of TOML."""
    document = f"{key_in_toml(text)} = {text_in_toml(text)}"
    assert tomllib.loads(document) == {text: text}
