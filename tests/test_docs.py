"""The documentation is true where a test can tell."""

from __future__ import annotations

import doctest
import re
from functools import cache
from pathlib import Path

import pytest
from python_runs import run_python

from wheelfit.cli.commands import working_commands

REPOSITORY = Path(__file__).parent.parent
PAGES = [
    *sorted(REPOSITORY.glob("*.md")),
    REPOSITORY / "changelog.d/README.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@cache
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


@pytest.mark.parametrize(
    "script",
    [
        "reference/write_api.py",
        "reference/write_messages.py",
        "reference/write_option_tables.py",
        "draw_demo.py",
        "draw_figures.py",
    ],
)
def test_what_is_generated_is_as_it_would_be_written(script: str) -> None:
    """Scripts write the API, messages and tables of options from the code, and draw pictures."""
    completed = run_python(REPOSITORY / "docs" / script, "--check")
    assert (completed.returncode, completed.stderr) == (0, "")


def test_readme_is_short_and_its_test_command_is_the_one_of_ci() -> None:
    """The README has fewer than 100 lines, and CI runs the tests by the command that it names."""
    readme = (REPOSITORY / "README.md").read_text()
    assert len(readme.splitlines()) < 100
    (command,) = re.findall(r"^python3 .*nox$", readme, re.MULTILINE)
    assert f"({command})" in (REPOSITORY / ".ci/run").read_text()


INSTALLS = re.compile(r"(?:\bpip|\bpipx|\buv tool|\buv|\bpoetry|\bpdm) (?:install|add|run) |\buvx ")
BY_NAME = re.compile(
    r"""(?<!host )(?<=[\s"'])wheelfit(?:-runtime)?(?:\[[\w,-]+\])?(?=["'\s),]|[=<>~]|$)(?! @)"""
)
INSTALLING = [
    *PAGES,
    *sorted((REPOSITORY / "src").rglob("*.py")),
    *sorted((REPOSITORY / "examples").rglob("*.md")),
    *sorted((REPOSITORY / "changelog.d").glob("*.*.md")),
    *sorted((REPOSITORY / ".github").rglob("*.yml")),
    *(REPOSITORY / name for name in ("action.yml", "Dockerfile", "runtime/README.md")),
]


def installed_by_name(line: str) -> list[str]:
    """Return where a line installs wheelfit by its bare name, as a registry would resolve it."""
    commands = (line[found.end() - 1 :] for found in INSTALLS.finditer(line))
    words = (re.split(r"`|&&|\||;", command)[0] for command in commands)
    return [found.group() for text in words for found in BY_NAME.finditer(text)]


@pytest.mark.parametrize(
    ("line", "by_name"),
    [
        ("pip install 'wheelfit[build]'", True),
        ("pipx install wheelfit", True),
        ("(uv tool install wheelfit, or another)", True),
        ("RUN python -m pip install torch wheelfit-runtime==0.1.0", True),
        ("uvx wheelfit probe", True),
        ("pip install ./runtime '.[build]' && wheelfit demo", False),
        ("pip install 'wheelfit[build] @ git+https://example.org/wheelfit'", False),
        ("RUN pip install --trusted-host wheelfit torch", False),
        ("`pip install torch` beside wheelfit", False),
        ("wheelfit run -- uv pip install torch", False),
    ],
)
def test_what_installs_by_name(line: str, *, by_name: bool) -> None:
    """A bare name is found, and nothing else is."""
    assert bool(installed_by_name(line)) is by_name


def test_nothing_installs_by_the_bare_name() -> None:
    """No page, message or workflow takes from a registry what is there under our name."""
    lines = [
        f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()}"
        for path in INSTALLING
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if "wheelfit" in line and installed_by_name(line)
    ]
    assert not lines


@pytest.mark.integration
def test_site(tmp_path: Path) -> None:
    """The site is built without a warning, and its search knows the words of the pages."""
    words = ("-m", "sphinx", "--fail-on-warning", "--quiet", REPOSITORY / "docs", tmp_path)
    completed = run_python(*words, deadline=600)
    assert (completed.returncode, completed.stderr) == (0, "")
    assert "variant-shorthands" in (tmp_path / "searchindex.js").read_text()


def test_every_command_is_in_the_reference() -> None:
    """``docs/reference/commands.md`` has a section for each command, with its options."""
    page = (REPOSITORY / "docs/reference/commands.md").read_text()
    for command in working_commands():
        assert f"## `wheelfit {command}`" in page
        if command != "wheel check":  # the same as check
            assert f"<!-- options of wheelfit {command} -->" in page


def test_every_page_is_reachable() -> None:
    """Each page is linked from the overview of the documentation."""
    overview = REPOSITORY / "docs" / "index.md"
    linked = {(overview.parent / link).resolve() for link in LINK.findall(overview.read_text())}
    missing = [
        page
        for page in PAGES
        if page.is_relative_to(overview.parent)
        and page != overview
        and page.resolve() not in linked
    ]
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
    if toml:
        (tmp_path / "pylock.toml").write_text(toml)
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert tried
    assert not failed
