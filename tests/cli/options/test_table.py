"""The table of options: rows, groups, and what follows from a row."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
from cli.running import arguments

from wheelfit.cli.command import make_parser
from wheelfit.cli.commands import working_commands
from wheelfit.cli.configuration import clear_defaults, complete, read_layers
from wheelfit.cli.options import table
from wheelfit.cli.options.option import Option, OptionGroup, ProjectAccess
from wheelfit.cli.options.settings import SETTINGS, every_group
from wheelfit.cli.options.values import FLAG, OneOf
from wheelfit.errors import UsageError
from wheelfit_runtime.errors import InvalidConfiguration

COMMANDS = working_commands()


def test_every_module_is_listed() -> None:
    """Every module of the option table is listed."""
    folder = Path(table.__file__).parent
    assert sorted(table.AREAS) == sorted(
        path.stem for path in folder.glob("*.py") if path.stem != "__init__"
    )


def test_every_group_is_used() -> None:
    """Every group belongs to a command."""
    used = {id(group) for command in COMMANDS.values() for group in command.groups}
    assert [group for group in every_group() if id(group) not in used] == []


def test_keys_are_unique() -> None:
    """A settings key has the same row in every command."""
    rows: dict[str, Option] = {}
    for group in every_group():
        for option in group.options:
            if option.project is not None and option.is_on_command_line:
                assert rows.setdefault(option.key, option) == option
                assert SETTINGS[option.key] == option


def test_every_option_has_help() -> None:
    """Each option has a help text without a full stop, and names its value."""
    groups = {group for row in COMMANDS.values() for group in row.groups}
    for option in (option for group in groups for option in group.options):
        if option.is_on_command_line:
            assert option.help, option
            assert not option.help.endswith(".") or option.help.endswith("..."), option
            assert (
                option.metavar or option.is_positional or option.kind.choices
            ) or option.kind.default_value() in (True, False), option


def test_lists_are_not_shared() -> None:
    """Values that one run adds to a list are not in the next run."""
    first, second = (make_parser("list", COMMANDS["install"]) for _ in range(2))
    assert first.parse_args(["--prefer", "a", "x"]).prefer == ["a"]
    assert first.parse_args(["x"]).prefer == []
    assert second.parse_args(["x"]).prefer == []


def parsed(command: str, words: list[str], user: Path) -> Namespace:
    """Parse words as the program does, with a user's settings file."""
    parser = make_parser(command, COMMANDS[command])
    own = clear_defaults(parser)
    arguments = parser.parse_args(words)
    variables = {"WHEELFIT_CONFIG_FILE": str(user)}
    complete(
        parser,
        arguments,
        own,
        lambda: read_layers(arguments, variables, user.parent / "none"),
    )
    return arguments


def test_options_with_the_name_of_a_setting(tmp_path: Path) -> None:
    """An option is not set by the key of another option with the same name."""
    user = tmp_path / "wheelfit.toml"
    user.write_text('strict = true\nlabel = ["torch=cu128"]\nvariant = ["cuda"]\n')
    assert parsed("install", ["x"], user).label == ["torch=cu128"]
    assert parsed("check", [], user).strict is False
    assert parsed("wheel relabel", ["a.whl"], user).label is None
    assert parsed("wheel make", ["a.whl"], user).label is None
    assert parsed("abi bounds", ["a.whl"], user).label is None
    assert parsed("wheel repack", ["a.whl"], user).variant is None
    assert parsed("init", [], user).variant == []


def test_platforms_and_named_machines(tmp_path: Path) -> None:
    """A project's ``platform`` has no effect with named machines."""
    (tmp_path / "pyproject.toml").write_text('[tool.wheelfit]\nplatform = ["linux-x86_64"]\n')
    user = tmp_path / "wheelfit.toml"
    user.touch()
    words = ["--project", str(tmp_path)]
    assert parsed("lock", words, user).platform == ["linux-x86_64"]
    assert parsed("lock", [*words, "--for", "cuda-12.8-sm90"], user).platform == []


@pytest.mark.parametrize(
    ("key", "word", "fault"),
    [
        ("devices", "some", "'some' is none of all, highest, lowest, any, min"),
        ("plugin-timeout", "-1", "'-1' is not a number of seconds"),
        ("connections", "99", "is not a number from 1 to 64"),
    ],
)
def test_messages_about_wrong_values(key: str, word: str, fault: str, tmp_path: Path) -> None:
    """A wrong value has the same message from command line, variable and file."""
    user = tmp_path / "wheelfit.toml"
    user.touch()
    with pytest.raises(UsageError, match=fault):
        parsed("install", ["x", f"--{key}={word}"], user)
    with pytest.raises(InvalidConfiguration, match=f"{key}: .*{fault}"):
        read_layers(
            Namespace(),
            {"WHEELFIT_CONFIG_FILE": str(user), SETTINGS[key].variable: word},
            tmp_path / "none",
        )
    user.write_text(f"{key} = {word if key == 'plugin-timeout' else repr(word)}\n")
    with pytest.raises(InvalidConfiguration, match=f"{key}: .*{fault}"):
        parsed("install", ["x"], user)


def test_group_without_options() -> None:
    """A command may have the settings of options that it does not offer."""
    row = Option(
        "--colour", OneOf("red", "blue"), "paint", default="red", project=ProjectAccess.SET
    )
    flag = Option("--wet", FLAG, "with water", stored_as="is_wet")
    group = OptionGroup("paint", row, flag).off_command_line()
    assert [option.name for option in group.options] == ["colour", "wet"]
    assert [option.destination for option in group.options] == ["colour", "is_wet"]
    assert not any(option.is_on_command_line for option in group.options)
    assert group.options[0].variable == "WHEELFIT_COLOUR"
    assert group.options[1].variable == ""


@pytest.mark.parametrize(
    "words",
    [
        ["--timeout", "0"],
        ["--timeout", "-1"],
        ["--timeout", "nan"],
        ["--timeout", "inf"],
        ["--timeout", "soon"],
        ["--retries", "-1"],
        ["--retries", "1.5"],
        *(["--connections", word] for word in ("0", "65", "-1", "4.0", "four", "9" * 30, "²")),
    ],
)
def test_invalid_numbers(words: list[str]) -> None:
    """A timeout must be positive, and retries a whole number."""
    with pytest.raises(UsageError):
        arguments("install", *words)
