"""The documentation is true where a test can tell."""

from __future__ import annotations

import argparse
import doctest
import importlib
import re
from pathlib import Path

import pytest

from wheelfit.cli.main import every_command, make_parser, module_of

REPOSITORY = Path(__file__).parent.parent
PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "SECURITY.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Return the anchors that the headings of a page make."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file that exists, and a heading that is there."""
    for link in LINK.findall(page.read_text()):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("command", every_command())
def test_every_option_is_in_the_reference(command: str) -> None:
    """``docs/reference/commands.md`` has each option in the words of ``--help``."""
    page = (REPOSITORY / "docs/reference/commands.md").read_text()
    parser = make_parser(command, importlib.import_module(module_of(command)))
    assert f"## `wheelfit {command}`" in page
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        names = ", ".join(f"`{name}`" for name in action.option_strings)
        start = f"| {names or f'`{action.metavar}`'}"
        rows = [line for line in page.splitlines() if line.startswith(start)]
        assert any(f"| {action.help} |" in row for row in rows), action.option_strings


def test_the_reference_has_no_other_options() -> None:
    """An option that is gone is gone from the reference too."""
    known = set()
    for command in every_command():
        parser = make_parser(command, importlib.import_module(module_of(command)))
        known |= {name for action in parser._actions for name in action.option_strings}
    page = (REPOSITORY / "docs/reference/commands.md").read_text()
    assert set(re.findall(r"`(--?[a-zA-Z][\w-]*)`", page)) <= known


def test_every_page_is_reachable() -> None:
    """Each page is linked from the overview of the documentation."""
    overview = REPOSITORY / "docs" / "index.md"
    linked = {(overview.parent / link).resolve() for link in LINK.findall(overview.read_text())}
    missing = [page for page in PAGES[2:] if page != overview and page.resolve() not in linked]
    assert not missing


SHOWN = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_promises_name_tests_that_exist() -> None:
    """Every row of the threat model that makes a promise names a test, and each is there."""
    page = (REPOSITORY / "docs/explanation/security.md").read_text()
    tables = re.findall(r"^\| promise \|.*\n\|.*\n((?:\|.*\n)+)", page, re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()]
    assert rows
    for row in rows:
        named = SHOWN.findall(row)
        assert named, row
        for path, name in named:
            assert f"def {name}(" in (REPOSITORY / path).read_text(), (path, name)


EXAMPLES = [page for page in PAGES if "\n>>> " in page.read_text()]


@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_examples_in_python_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a page shows in Python gives what it shows; its first TOML is ``pylock.toml``."""
    (toml, *_) = (
        *re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL),
        "",
    )
    (tmp_path / "pylock.toml").write_text(toml)
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert tried
    assert not failed
