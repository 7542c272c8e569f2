"""Width of lines: wrapped in terminals, unlimited in pipes."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from cli.running import Runner
from cli.terminal import in_terminal
from sampled_cases import sampled

from wheelfit.cli.commands import working_commands
from wheelfit.cli.main import main
from wheelfit.cli.terminal import fill_paragraphs, fold
from wheelfit.testing.wheels import build_wheel

REASON = "needs " + ", ".join(f"feature_{number}" for number in range(30))


@pytest.mark.parametrize("width", [20, 40, 80, 140])
def test_wrapping(width: int) -> None:
    """Lines are wrapped between words to the width of the terminal."""
    lines = fold(f"  rejected  {REASON}", width, hang=10).split("\n")
    assert max(map(len, lines)) <= width
    assert " ".join(lines).split() == f"rejected {REASON}".split()
    assert all(line.startswith("    ") for line in lines[1:])


def test_pipe() -> None:
    """Without a width nothing is wrapped."""
    assert fold(REASON, None) == REASON


@pytest.mark.parametrize(
    "whole", ["`wheelfit install --index-url https://index.example/simple/ torch`", "a :: b :: c"]
)
def test_unbreakable_texts(whole: str) -> None:
    """Commands in backticks and properties are not broken."""
    assert any(whole in line for line in fold(f"{REASON} {whole} {REASON}", 40).split("\n"))


def test_indented_lines() -> None:
    """Existing line breaks are kept, and each line has its own indent."""
    assert fold("short\n    " + "word " * 6, 24, 2) == (
        "short\n    word word word word\n      word word"
    )


def test_paragraphs() -> None:
    """Paragraphs are rewrapped; indented ones are kept."""
    text = "one\ntwo\n\n  kept\n  as it is"
    assert fill_paragraphs(text, 80) == "one two\n\n  kept\n  as it is"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of wheels."""
    build_wheel(tmp_path / "wheels", "some", "1.0", requires=("other",))
    build_wheel(tmp_path / "wheels", "other", "1.0")
    return tmp_path


def command(folder: Path, *words: str) -> list[str]:
    """Return a command line that installs from the folder."""
    sources = ["--no-index", "-f", str(folder / "wheels"), "--target", str(folder / "target")]
    return ["-m", "wheelfit", *words, *sources]


@pytest.mark.parametrize("width", sampled([60, 80, 140], fast={0}))
def test_error_in_a_terminal(width: int, folder: Path) -> None:
    """Every part of an error fits, with its lines indented."""
    done = in_terminal(command(folder, "install", "some", "other==99"), {}, width=width)
    assert done.code == 3
    lines = done.shown.replace("\r", "").splitlines()
    texts = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines]
    assert [text for text in texts if len(text) > width and len(text.split()) > 2] == []


@pytest.mark.integration
def test_no_color(folder: Path) -> None:
    """With ``NO_COLOR`` there are no escape sequences."""
    coloured = in_terminal(command(folder, "install", "absent"), {"NO_COLOR": ""})
    assert "\x1b[31m" in coloured.shown
    plain = in_terminal(command(folder, "install", "absent"), {"NO_COLOR": "1"})
    assert "\x1b[31m" not in plain.shown


def test_table_in_a_pipe(folder: Path) -> None:
    """A table in a pipe is as wide as its cells."""
    words = command(folder, "install", "--dry-run", "some")
    done = in_terminal(words, {}, width=30)
    head, _, *rows, last = done.out.splitlines()
    assert head == "Package  Version  Download  On disk  Change"
    assert len(rows) == 2
    assert last.startswith("Would install 2 packages: ")


@pytest.mark.parametrize("width", [30, 60, 140])
def test_columns_variable(
    width: int, folder: Path, run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``COLUMNS`` a table in a pipe is wrapped without losing words."""
    name = f"a-{'long-' * 4}name"
    build_wheel(folder / "wheels", name, "1.0.dev123456789")
    words = command(folder, "install", "--dry-run", "--pre", name, "some")[2:]
    rows = run(*words).out.splitlines()[2:]
    monkeypatch.setenv("COLUMNS", str(width))
    stdout = run(*words).out
    assert max(map(len, stdout.splitlines())) <= width
    cells = " ".join(rows).replace(",", "").split()
    assert set(cells) <= {*stdout.replace(",", "").split()}


HELP = [(), ("host",), ("wheel",), *((*name.split(),) for name in working_commands())]


@pytest.mark.parametrize("width", sampled([60, 200], fast={0}))
def test_width_of_help(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Help fits into ``COLUMNS``, except for command lines, and uses the width."""
    monkeypatch.setenv("COLUMNS", str(width))
    lines: list[str] = []
    for words in HELP:
        for more in ("--help", "--help all"):
            with suppress(SystemExit):
                main([*words, *more.split()])
            lines += capsys.readouterr().out.splitlines()
    wide = [line for line in lines if len(line) > width]
    assert [line for line in wide if "> " not in line] == []
    assert max(map(len, lines)) > min(width, 150) - 10


def test_quiet(run: Runner, folder: Path) -> None:
    """``-q`` prints neither warnings nor changes."""
    words = command(folder)[2:]
    for more in (["install", "some"], ["uninstall", "some"]):
        own = words if more[0] == "install" else words[-2:]
        result = run(*more, "-q", *own)
        assert (result.out, result.err) == ("", "")
    listed = run("list", "-q", "--target", folder / "target")
    assert "other" in listed.out
