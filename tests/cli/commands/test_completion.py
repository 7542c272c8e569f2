"""``wheelfit completion``: its scripts in real shells."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
from cli.running import Runner
from programs import run_program
from sampled_cases import sampled

from wheelfit.cli.command import Command
from wheelfit.cli.commands import COMMANDS, every_command
from wheelfit.cli.completion import completion_script
from wheelfit.cli.options.option import Option, OptionGroup
from wheelfit.cli.options.values import OneOf

ANSWER = """
answer() {
    COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=()
    _wheelfit
    echo "${COMPREPLY[*]}"
}
"""


def shell_path(shell: str) -> str:
    """Return the path of a shell, or skip the test."""
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a file and a folder that have a common prefix."""
    path = tmp_path_factory.mktemp("completed")
    (path / "wall paper.toml").touch()
    (path / "walls").mkdir()
    return path


@cache
def script_for(shell: str) -> str:
    """Return the completion script of a shell."""
    return completion_script(shell, every_command())


def complete_in_bash(folder: Path, *lines: list[str]) -> list[str]:
    """Return the completions of bash for each line of words."""
    script = script_for("bash")
    # What bash lacks where nobody presses a key is not missed, as in the bash of macOS.
    calls = [f"answer {' '.join(repr(word) for word in words)}" for words in lines]
    completed = run_program(
        shell_path("bash"), "--norc", "-c",
        "\n".join([script, "compopt() { :; }", ANSWER, *calls]), cwd=folder,
        env={"PATH": "/nonexistent"},
    )  # fmt: skip
    assert completed.stderr == ""
    return completed.stdout.splitlines()


def commands_with_options(commands: Mapping[str, Command]) -> Iterator[tuple[list[str], Command]]:
    """Yield every command with options, with its words."""
    for top, head in commands.items():
        for name, command in head.leaves(top):
            yield name.split(), command


class TestBash:
    """Completion in bash."""

    def test_kinds_of_words(self, folder: Path) -> None:
        """Commands, subcommands, options, choices and paths are completed."""
        table: list[tuple[list[str], str]] = [
            (["ins"], "install"),
            (["wheel", "re"], "relabel repack repair"),
            (["index", "serve", "--por"], "--port"),
            (["install", "--link"], "--link-mode"),
            (["install", "--link-mode", ""], "auto reflink hardlink copy"),
            (["install", "--link-mode", "=", "h"], "hardlink"),
            (["check", "--profile", ""], "conda-forge internal pypi uv"),
            (["install", "--max-download", ""], ""),
            (["sync", "--prefix", "wall"], "walls"),
            (["install", "-r", "wall"], "wall paper.toml walls"),
            (["wheel", "show", "wall"], "wall paper.toml walls"),
            (["config", ""], "show path --help"),
            (["index", "tok"], "token"),
            (["index", "token", "r"], "revoke"),
            (["index", "stage", "open", "--ex"], "--expires"),
            (["cache", "remove", "wall"], ""),
            (["completion", "f"], "fish"),
            (["run", "--", "--no"], ""),
            (["nonsense", "--"], ""),
        ]
        found = complete_in_bash(folder, *(["wheelfit", *words] for words, _ in table))
        for (words, offered), answer in zip(table, found, strict=True):
            assert sorted(answer.split()) == sorted(offered.split()), words

    @pytest.mark.integration
    def test_every_option(self, folder: Path) -> None:
        """Every option and every choice of every command is completed."""
        expected: list[set[str]] = []
        lines: list[list[str]] = []
        for words, command in commands_with_options(every_command()):
            shown = [
                option for option in command.command_line_options() if not option.is_positional
            ]
            lines.append(["wheelfit", *words, "-"])
            expected.append({"--help", *(name for option in shown for name in option.names)})
            for option in shown:
                if option.kind.choices:
                    lines.append(["wheelfit", *words, option.name, ""])
                    expected.append(set(option.kind.choices))
        assert len(lines) > len(COMMANDS)
        found = complete_in_bash(folder, *lines)
        for line, offered, names in zip(lines, found, expected, strict=True):
            assert set(offered.split()) == names, line


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("ins", {"install"}),
        ("wheel re", {"relabel", "repack", "repair"}),
        ("install --link-m", {"--link-mode"}),
        ("install --link-mode ", {"auto", "reflink", "hardlink", "copy"}),
        ("sync --prefix wa", {"walls/"}),
        ("install -r wa", {"wall paper.toml", "walls/"}),
        ("wheel show wa", {"wall paper.toml", "walls/"}),
        ("config ", {"show", "path"}),
        ("index token r", {"revoke"}),
        ("index stage open --ex", {"--expires"}),
        ("install --max-download ", set()),
        ("run -- --no-pl", set()),
    ],
)
def test_fish(folder: Path, words: str, offered: set[str]) -> None:
    """The script for fish completes the same, with descriptions."""
    script = folder / "wheelfit.fish"
    script.write_text(script_for("fish"))
    completed = run_program(
        shell_path("fish"), "--no-config", "-c",
        f"source {script}; complete -C 'wheelfit {words}'", cwd=folder,
        env={**os.environ, "HOME": str(folder)},
    )  # fmt: skip
    assert completed.stderr == ""
    found = {line.partition("\t")[0].replace("\\ ", " ") for line in completed.stdout.splitlines()}
    assert found == offered


class Terminal:
    """A shell in a terminal."""

    def __init__(self, words: list[str], folder: Path, environ: Mapping[str, str]) -> None:
        self._pid, self._file = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            os.execvpe(words[0], words, dict(environ))

    def press_keys(self, text: str) -> None:
        """Press keys."""
        os.write(self._file, text.encode())

    def read_until(self, *words: str) -> str:
        """Return the output until it has every word; at most a minute."""
        shown, end = "", time.monotonic() + 60
        while not all(word in shown for word in words):
            ready, _, _ = select.select([self._file], [], [], max(0, end - time.monotonic()))
            assert ready, (words, shown)
            shown += os.read(self._file, 1 << 16).decode(errors="replace")
            shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x00", "", shown)
        return shown

    def close(self) -> None:
        """End the shell."""
        os.close(self._file)
        os.waitpid(self._pid, 0)


@pytest.mark.parametrize(
    ("words", "shown"),
    sampled(
        fast={0},
        cases=[
            ("wheelfit wheel re", ["relabel", "repack"]),
            ("wheelfit install --link-m", ["wheelfit install --link-mode"]),
            ("wheelfit install --link-mode=", ["auto", "reflink", "hardlink", "copy"]),
            ("wheelfit sync --prefix wa", ["wheelfit sync --prefix walls/"]),
            ("wheelfit install -r wa", [r"wall\ paper.toml", "walls/"]),
            ("wheelfit config ", ["show", "path"]),
            ("wheelfit index token ", ["create", "list", "revoke"]),
            ("wheelfit index stage open --ex", ["wheelfit index stage open --expires"]),
        ],
    ),
)
def test_zsh(folder: Path, tmp_path: Path, words: str, shown: list[str]) -> None:
    """The script for zsh completes the same."""
    zsh = shell_path("zsh")
    (tmp_path / "_wheelfit").write_text(script_for("zsh"))
    (tmp_path / ".zshrc").write_text(
        f"PROMPT='ready> '; fpath=({tmp_path} $fpath); autoload -Uz compinit; compinit -u -D\n"
        "LISTMAX=1000\n"
    )
    environ = {**os.environ, "ZDOTDIR": str(tmp_path), "HOME": str(tmp_path), "TERM": "xterm"}
    terminal = Terminal([zsh, "-i"], folder, environ)
    try:
        terminal.read_until("ready> ")
        terminal.press_keys(f"{words}\t\t")
        terminal.read_until(*shown)
    finally:
        terminal.close()


def test_quoting_of_help_texts() -> None:
    """Help texts are quoted, so that shells execute nothing in them."""
    help_text = 'it\'s 50% [of $HOME], `pwd`: \\ "and" more'
    option = Option("--odd", OneOf("a", "b"), help_text)
    commands = {"paint": Command(help_text, (OptionGroup("", option),))}
    for shell, check in (("bash", ["-n"]), ("zsh", ["-f", "-n"]), ("fish", ["--no-execute"])):
        script = completion_script(shell, commands)
        program = shutil.which(shell)
        if program is None:
            continue
        completed = run_program(program, *check, "/dev/stdin", input=script)
        assert completed.stderr == "", shell


def test_command(run: Runner) -> None:
    """The command prints only the script."""
    for shell in ("bash", "zsh", "fish"):
        script = completion_script(shell, every_command())
        assert run("completion", shell).out == script
    assert run("completion", "zsh", "--json").object["script"].startswith("#compdef wheelfit")
    assert "'csh' is none of bash, zsh, fish" in run("completion", "csh", code=2).err
