"""The entry point of the command line: dispatch, errors, exit codes, start-up."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from cli.running import Runner
from sampled_cases import sampled

from wheelfit.cli.commands import (
    COMMANDS,
    FIRST_COMMANDS,
    OTHER_NAMES,
    find_command,
    working_commands,
)
from wheelfit.cli.main import main
from wheelfit.cli.options.first_options import FIRST_OPTIONS
from wheelfit_runtime import __version__

REPOSITORY = Path(__file__).parent.parent.parent

HEAVY = {
    "urllib3", "msgspec", "installer", "nab_resolver", "rich", "filelock", "truststore", "asyncio",
    "packaging", "http.client", "ssl", "email", "zipfile", "tomli", "ctypes",
}  # fmt: skip

LIST = ["list", "--python", sys.executable]


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """``--version`` prints the version alone."""
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"wheelfit {__version__}\n"


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """``--help all`` lists every command; each has a row in the module of its area."""
    assert main(["--help", "all"]) == 0
    shown = re.findall(r"^  ([\w-]+)  ", capsys.readouterr().out, re.MULTILINE)
    assert shown == list(COMMANDS)
    areas = {path.stem for path in (REPOSITORY / "src/wheelfit/cli/commands").glob("[a-z]*.py")}
    assert areas == {area for area, _ in COMMANDS.values()}
    rows = [
        name for area in areas for name in import_module(f"wheelfit.cli.commands.{area}").COMMANDS
    ]
    assert sorted(rows) == sorted(COMMANDS)


def test_help_shows_ten_commands_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Without arguments the ten most used commands are shown, in groups."""
    assert main([]) == 0
    text = capsys.readouterr().out
    shown = re.findall(r"^  ([\w-]+)  ", text, re.MULTILINE)
    assert shown == [name for names in FIRST_COMMANDS.values() for name in names]
    assert len(shown) == 10
    assert f"`wheelfit --help all` shows all {len(COMMANDS)} commands" in text


@pytest.mark.parametrize("words", [["help", "all"], ["help", "index", "all"], ["help", "index"]])
def test_help_command(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """``wheelfit help NAME`` is ``wheelfit NAME --help``."""
    topic = [word for word in words[1:] if word != "all"]
    assert main([*topic, "--help", *words[1 + len(topic) :]]) == 0
    expected = capsys.readouterr().out
    assert main(words) == 0
    assert capsys.readouterr().out == expected


def test_lists_of_commands_are_narrow(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every list of commands fits into 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    heads = [name.split() for top in COMMANDS for name, _ in find_command(top).parents(top)]
    for words in ([], ["--help", "all"], *heads):
        assert main(words) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_list_of_subcommands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command with subcommands lists them; each has its own help."""
    monkeypatch.setenv("COLUMNS", "120")
    heads = [pair for name in COMMANDS for pair in find_command(name).parents(name)]
    assert len(heads) > 5
    for name, head in heads:
        assert main(name.split()) == 0
        shown = re.findall(r"^  ([\w-]+)  +(.+)$", capsys.readouterr().out, re.MULTILINE)
        assert shown == [(word, one.summary) for word, one in head.subcommands.items()]
    with pytest.raises(SystemExit):
        main(["help", "index", "generate"])
    assert "usage: wheelfit index generate" in capsys.readouterr().out


def help_of(words: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the help of a command line."""
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == 0, words
    return capsys.readouterr().out


def test_help_of_each_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The complete help of every command fits into 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    for command in working_commands():
        text = help_of(f"{command} --help all", capsys)
        assert f"usage: wheelfit {command} [OPTIONS]" in text
        assert "--json" in text, command
        assert max(map(len, text.splitlines())) <= 80, command


def test_help_shows_ten_options_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command with many options shows ten of them, and how to see all."""
    monkeypatch.setenv("COLUMNS", "80")
    for command, row in working_commands().items():
        text = help_of(f"{command} --help", capsys)
        number = sum(not option.is_positional for option in row.command_line_options())
        shown = re.findall(r"^  --?[a-zA-Z]", text, re.MULTILINE)
        assert (command in FIRST_OPTIONS) == (number > 20), command
        if command in FIRST_OPTIONS:
            assert len(shown) == len(FIRST_OPTIONS[command]) <= 10, command
            last = f"`wheelfit {command} --help all` shows all {number + 1} options.\n"
            assert text.endswith(last)
        else:
            assert len(shown) == number + 1, command  # --help itself is one
        assert max(map(len, text.splitlines())) <= 80, command


def test_usage_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The usage line has the required options and arguments."""
    for command in ("index convert", "uninstall", "lock"):
        with pytest.raises(SystemExit):
            main([*command.split(), "-h"])
    usages = [line for line in capsys.readouterr().out.splitlines() if line.startswith("usage")]
    assert usages == [
        "usage: wheelfit index convert [OPTIONS] --to TARGET SOURCE",
        "usage: wheelfit uninstall [OPTIONS] NAME [NAME ...]",
        "usage: wheelfit lock [OPTIONS] [REQUIREMENT ...]",
    ]


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_names_of_other_tools(capsys: pytest.CaptureFixture[str], name: str) -> None:
    """What is offered for a name of another tool exists, and the name does not."""
    assert name not in COMMANDS
    command, *options = OTHER_NAMES[name].split()
    text = help_of(f"{command} --help all", capsys)
    assert all(option in text for option in options)


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["instal"], "unknown command 'instal'", "did you mean 'install'?"),
        (["outdated"], "unknown command 'outdated'", "did you mean 'list --outdated'?"),
        (["check-env"], "unknown command 'check-env'", "did you mean 'doctor'?"),
        (["update"], "unknown command 'update'", "did you mean 'lock --upgrade'?"),
        (["zzz"], "unknown command 'zzz'", "`wheelfit --help` lists the commands"),
        (["index", "generat"], "unknown command 'index generat'", "did you mean 'generate'?"),
        (["index", "token", "lst"], "unknown command 'index token lst'", "did you mean 'list'?"),
        (["help", "cache", "zzz"], "unknown command 'cache zzz'", "`wheelfit cache --help` lists"),
        (["install", "--indx-url", "x"], "arguments: --indx-url", "did you mean '--index-url'?"),
        (["install", "--pyton=3", "x"], "arguments: --pyton=3", "did you mean '--python'?"),
        (["uninstall", "--dryrun"], "arguments: --dryrun", "did you mean '--dry-run'?"),
        (["index", "serve", "--prot=8", "x"], "arguments: --prot=8", "did you mean '--port'?"),
        (["run", "--pyton", "3", "--", "pip"], "arguments: --pyton", "did you mean '--python'?"),
        (["run", "uv", "--version"], "arguments: --version", "stand after --"),
        (["list", "--bogus"], "--bogus", "`wheelfit list --help` lists the options"),
        (["--verion"], "unknown option '--verion'", "did you mean '--version'?"),
        (["index", "--hlep"], "unknown option '--hlep'", "did you mean '--help'?"),
        (
            ["index", "--what"],
            "unknown option '--what'",
            "`wheelfit index --help` lists the commands",
        ),
        (["--what"], "unknown option '--what'", "`wheelfit --help` lists the commands"),
        (["list", "--what"], "unrecognized arguments: --what", "wheelfit list --help"),
        (["uninstall"], "the following arguments are required: NAME", "wheelfit uninstall --help"),
    ],
)
def test_usage_errors(
    words: list[str], message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong command line is an error on standard error, with exit code 2."""
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert hint in captured.err
    assert "[usage]" in captured.err


def test_errors_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """With ``--json`` an error is an object on standard output."""
    assert main(["list", "--json", "--what"]) == 2
    captured = capsys.readouterr()
    assert json.loads(captured.out)["error"]["code"] == "usage"
    assert captured.err == ""


def run_python(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program in a separate process."""
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["install", "--help"], ["index", "generate", "--help"]]
)
def test_start_up_imports(words: list[str]) -> None:
    """Help imports no module that only the work itself needs."""
    program = (
        "import sys\nfrom wheelfit.cli.main import main\n"
        f"try:\n    main({words!r})\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    done = run_python("-c", program)
    assert done.returncode == 0
    assert not HEAVY & set(done.stderr.split())


def test_run_as_a_module() -> None:
    """``python -m wheelfit`` is the same program."""
    done = run_python("-m", "wheelfit", "--version")
    assert (done.returncode, done.stdout) == (0, f"wheelfit {__version__}\n")


def start_wheelfit(*words: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start wheelfit in a separate process with buffered pipes, unless other streams are given."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environ, **options}
    return subprocess.Popen([sys.executable, "-m", "wheelfit", *words], **streams)


@pytest.mark.parametrize(
    ("words", "code"),
    sampled(
        fast={0, 3, 4},
        cases=[
            (["nothing", "--json"], 2),
            (["list", "--what", "--json"], 2),
            (["list", "--python", "/nowhere", "--json"], 1),
            ([*LIST, "--json"], 0),
            (["list", "--help"], 0),
            (["--help"], 0),
        ],
    ),
)
def test_output_is_complete(words: list[str], code: int) -> None:
    """The complete output is in the pipe when the process ends."""
    with start_wheelfit(*words) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (code, b"")
    if "--json" in words:
        assert ("error" in json.loads(out)) == (code != 0)
    else:
        assert out.lower().startswith(b"usage: wheelfit")


@pytest.mark.parametrize(
    "words",
    sampled(
        [LIST, [*LIST, "--json"], ["--help"], ["list", "--help"], ["index", "--help"]], fast={0, 3}
    ),
)
def test_closed_pipe(words: list[str]) -> None:
    """``wheelfit list | head -n 0`` ends without an error."""
    reader, writer = os.pipe()
    os.close(reader)
    with start_wheelfit(*words, stdout=writer) as process:
        os.close(writer)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
@pytest.mark.parametrize(
    "words", sampled([LIST, [*LIST, "--json"], ["list", "--help"], ["--help"]], fast={0, 2})
)
def test_full_disk(words: list[str]) -> None:
    """``wheelfit list > file`` on a full disk is an error."""
    with Path("/dev/full").open("wb") as full, start_wheelfit(*words, stdout=full) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.decode().startswith("error: the output cannot be written: No space left")
    assert err.count(b"\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
@pytest.mark.parametrize("words", [["--version"], ["no-such-command"]])
def test_signal_after_the_end(words: list[str]) -> None:
    """A signal that comes after a command ends the process without a traceback."""
    program = (
        "import atexit, os, signal, sys\n"
        "atexit.register(os.kill, os.getpid(), signal.SIGTERM)\n"
        "from wheelfit.cli.main import main\n"
        "sys.exit(main())\n"
    )
    command = [sys.executable, "-c", program, *words]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == -signal.SIGTERM
    assert "Traceback" not in result.stderr


def test_closed_standard_streams() -> None:
    """A process whose standard streams are closed works."""
    script = f"exec {sys.executable} -m wheelfit {' '.join(LIST)} <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", script], check=False, timeout=60).returncode == 0


@pytest.mark.parametrize("encoding", sampled(["ascii", "latin-1", "utf-8"], fast={0}))
def test_encodings_of_the_terminal(encoding: str) -> None:
    """Characters that the encoding lacks are escaped; JSON remains valid."""
    environ = {**os.environ, "PYTHONIOENCODING": encoding}
    for words in (["probe", "nowhere…"], ["probe", "nowhere…", "--json"]):
        with start_wheelfit(*words, env=environ) as process:
            out, err = process.communicate(timeout=60)
        assert process.returncode == 1
        if "--json" in words:
            assert "nowhere…" in json.loads(out.decode(encoding))["error"]["message"]
        else:
            assert b"[invalid-property]" in err


_PLACES = (
    "-r", "-c", "-i", "--extra-index-url", "-f", "--cert", "--client-cert", "--cache-dir",
    "--python", "--prefix", "--target", "--root", "--for",
)  # fmt: skip


class TestErrors:
    """Error messages and exit codes."""

    def test_debug(self, run: Runner) -> None:
        """``--debug`` adds the traceback to the same error and code."""
        result = run("list", "--python", "no-such-python", "--debug", code=1)
        assert "Traceback (most recent call last)" in result.err
        assert "error: Python interpreter" in result.err

    def test_debug_with_json(self, run: Runner) -> None:
        """With ``--debug`` standard output is still a single object."""
        result = run("list", "--python", "no-such-python", "--debug", "--json", code=1)
        assert result.error["code"] == "unusable-interpreter"
        assert "Traceback" in result.err

    @pytest.mark.parametrize(
        "words",
        [
            ["list", "--json", "--python", "no-such-python"],
            ["list", "--python=no-such-python", "--json"],
            ["nothing", "--json"],
            ["--what", "--json"],
            ["list", "--color", "sometimes", "--json"],
        ],
    )
    def test_position_of_json(self, words: list[str], run: Runner) -> None:
        """``--json`` works in any position, also with wrong arguments."""
        result = run(*words, code=2 if "sometimes" in words or words[0] != "list" else 1)
        assert set(result.error) == {"code", "exit_code", "message", "where", "note", "hint"}
        assert result.err == ""

    @pytest.mark.parametrize(
        "words",
        [
            *(["install", "some", option, ""] for option in _PLACES),
            ["install", "some", "--target="],
            ["probe", "-o", ""],
            ["uninstall", "some", "--target", ""],
        ],
    )
    def test_empty_values(self, words: list[str], run: Runner) -> None:
        """An empty value, as of an unset shell variable, is an error."""
        assert "the value is empty" in run(*words, "--json", code=2).error["message"]

    def test_options_between_names(self, run: Runner, tmp_path: Path) -> None:
        """Names and options can be in any order, as in pip."""
        words = ["uninstall", "one", "--target", str(tmp_path), "two", "--json", "three"]
        message = run(*words, code=1).error["message"]
        assert all(name in message for name in ("one", "two", "three"))
        found = run("probe", "aarch64", "--json", "x86_64").object["namespaces"]
        assert list(found) == ["aarch64", "x86_64"]

    def test_two_hyphens(self, run: Runner) -> None:
        """Words after ``--`` are names."""
        result = run("uninstall", "--target", ".", "--", "--json", code=1)
        assert result.out == ""
        assert "[invalid-requirement]" in result.err

    @pytest.mark.parametrize(
        ("words", "instead"),
        [(["--no-binary", ":all:"], "--allow-source NAME"), (["--user"], "wheelfit venv")],
    )
    def test_options_of_pip(self, words: list[str], instead: str, run: Runner) -> None:
        """The error about an unsupported option of pip names a replacement."""
        assert instead in run("install", "x", *words, "--json", code=2).error["hint"]

    @pytest.mark.parametrize("words", [["-qv"], ["-q", "-v"], ["--quiet"], ["-vq"]])
    def test_joined_switches(self, words: list[str], run: Runner, tmp_path: Path) -> None:
        """Short options can be joined; quiet takes precedence."""
        result = run("probe", "openmp", "-o", tmp_path / "host.toml", *words)
        assert result.err == ""
        assert result.out

    def test_internal_error(self) -> None:
        """An unexpected exception exits with 70 and a hint to report it."""
        program = (
            "import sys\nfrom wheelfit.cli.command import Command\n"
            "from wheelfit.cli.commands.packages import COMMANDS\n"
            "from wheelfit.cli.main import main\n"
            "def run(*_): raise RuntimeError('https://me:s3cret@host.example is odd')\n"
            "COMMANDS['list'] = Command('List.', (), run)\n"
            "sys.exit(main(['list', *sys.argv[1:]]))"
        )
        for words in ([], ["--debug"], ["--json"]):
            done = run_python("-c", program, *words)
            assert done.returncode == 70
            assert "internal-error" in done.stdout + done.stderr
            assert "s3cret" not in done.stdout + done.stderr
            assert ("Traceback" in done.stderr) is ("--debug" in words)


@pytest.mark.parametrize("command", ["wheel make --null", "wheel show", "build", "init", "matrix"])
def test_path_that_is_too_long(command: str, run: Runner, tmp_path: Path) -> None:
    """A path longer than the system allows is a file problem."""
    path = tmp_path / f"{'x' * 300}.whl"
    result = run(*command.split(), path, code=1)
    is_absent = sys.version_info >= (3, 14) and "does not exist" in result.err
    assert is_absent or "File name too long [file-problem]" in result.err
    assert "[file-problem]" in result.err
    assert str(path) in result.err


@pytest.mark.parametrize(
    "command",
    ["doctor", "list", "recover", "uninstall some"],
)
@pytest.mark.parametrize("option", ["--target", "--prefix", "--root"])
def test_missing_folder(command: str, option: str, run: Runner, tmp_path: Path) -> None:
    """A missing environment is an error."""
    result = run(*command.split(), option, tmp_path / "none", code=1)
    assert f"the folder does not exist [file-problem]\n  where: {tmp_path / 'none'}" in result.err
    assert not (tmp_path / "none").exists()
