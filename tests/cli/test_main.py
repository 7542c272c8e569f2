"""The frame of the command line: dispatch, errors, exit codes, start-up."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from wheelfit import __version__
from wheelfit.cli.main import COMMANDS, main

REPOSITORY = Path(__file__).parent.parent.parent

HEAVY = {
    "urllib3", "msgspec", "installer", "nab_resolver", "rich", "filelock", "truststore", "asyncio",
    "packaging", "http.client", "ssl", "email", "zipfile", "tomllib", "ctypes",
}  # fmt: skip


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """``--version`` prints the version alone."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"wheelfit {__version__}\n"


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Without arguments the commands are listed; each has a module."""
    assert main([]) == 0
    shown = re.findall(r"^  (\w+)  ", capsys.readouterr().out, re.MULTILINE)
    assert shown == list(COMMANDS)
    modules = {path.stem for path in (REPOSITORY / "src/wheelfit/cli/commands").glob("[a-z]*.py")}
    assert modules == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``--help`` of a command says what it does and ends well."""
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert f"usage: wheelfit {command}" in text
    assert "--json" in text


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["instal"], "there is no command 'instal'", "did you mean 'install'?"),
        (["zzz"], "there is no command 'zzz'", "wheelfit --help lists the commands"),
        (["--what"], "no option '--what'", "wheelfit --help lists the commands"),
        (["list", "--what"], "unrecognized arguments: --what", "wheelfit list --help"),
        (["uninstall"], "the following arguments are required: NAME", "wheelfit uninstall --help"),
    ],
)
def test_wrong_usage(
    words: list[str], message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong command line is an error of the family with exit code 2, on standard error."""
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert message in said.err
    assert hint in said.err
    assert "[usage]" in said.err


def test_errors_are_json_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """Under ``--json`` an error is one object on standard output."""
    assert main(["list", "--json", "--what"]) == 2
    said = capsys.readouterr()
    assert json.loads(said.out)["error"]["code"] == "usage"
    assert said.err == ""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program in a process of its own."""
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["install", "--help"]])
def test_start_up_imports_little(words: list[str]) -> None:
    """Help appears without importing what only the work itself needs."""
    program = (
        "import sys\nfrom wheelfit.cli.main import main\n"
        f"try:\n    main({words!r})\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    done = run("-c", program)
    assert done.returncode == 0
    assert not HEAVY & set(done.stderr.split())


def test_running_as_a_module() -> None:
    """``python -m wheelfit`` is the same program."""
    done = run("-m", "wheelfit", "--version")
    assert (done.returncode, done.stdout) == (0, f"wheelfit {__version__}\n")


def test_a_reader_that_goes_away_is_no_error() -> None:
    """``wheelfit list | head -c 1`` ends quietly."""
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m wheelfit list 2>&1 >/dev/full | cat; true"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert "Traceback" not in done.stdout
