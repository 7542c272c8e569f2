"""The user's own file: where it lies, and how it meets the options."""

from __future__ import annotations

import importlib
from pathlib import Path, PurePath
from typing import cast

import pytest

from wheelfit.cli.configuration import configuration_file, read_configuration, set_defaults
from wheelfit.cli.main import Command, make_parser
from wheelfit.core.provider_table import EmulatedPlugin
from wheelfit.errors import InvalidConfiguration, UsageError

TEXT = """
strict = true
ignore-static = ["nvidia"]
enable-provider = ["amd"]
compare-sources = true
tpu-generation = true
rocm-compat = "same-major"
devices = "highest"

[limit]
labels = 20
lookups = 0

[[provider]]
namespace = "nvidia"
package = "Acme.Nvidia"
versions = ["1.0"]
plugin-api = ["acme : Plugin"]
"""


@pytest.mark.parametrize(
    ("environ", "platform", "path"),
    [
        ({}, "linux", "/home/me/.config/wheelfit/wheelfit.toml"),
        ({"XDG_CONFIG_HOME": "/c"}, "linux", "/c/wheelfit/wheelfit.toml"),
        ({}, "darwin", "/home/me/Library/Application Support/wheelfit/wheelfit.toml"),
        ({"APPDATA": "/roaming"}, "win32", "/roaming/wheelfit/wheelfit.toml"),
        ({"WHEELFIT_CONFIG_FILE": "/x.toml", "XDG_CONFIG_HOME": "/c"}, "linux", "/x.toml"),
        ({"WHEELFIT_CONFIG_FILE": ""}, "linux", "/home/me/.config/wheelfit/wheelfit.toml"),
    ],
)
def test_where(environ: dict[str, str], platform: str, path: str) -> None:
    """Each system's folder for settings, unless a variable names the file."""
    assert configuration_file(environ, platform, Path("/home/me")) == PurePath(path)


def parsed(tmp_path: Path, command: str, *words: str) -> dict[str, object]:
    """Parse the words of a command that starts from `TEXT`."""
    path = tmp_path / "wheelfit.toml"
    path.write_text(TEXT)
    parser = make_parser(
        command, cast(Command, importlib.import_module(f"wheelfit.cli.commands.{command}"))
    )
    set_defaults(parser, read_configuration(path, must_exist=True))
    return vars(parser.parse_args(list(words)))


def test_options_add_to_it(tmp_path: Path) -> None:
    """F-30, P-20, P-64, P-88, P-123, P-153: a command starts from the file.

    Lists grow; of limits and choices the last one counts.
    """
    words = ["demo", "--ignore-static", ":all:", "--limit", "labels=30", "--limit", "size=99"]
    found = parsed(tmp_path, "install", *words)
    assert found["strict"] is True
    assert found["compare_sources"] is True
    assert found["tpu_generation"] is True
    assert found["ignore_static"] == ["nvidia", ":all:"]
    assert found["enable_provider"] == ["amd"]
    assert found["rocm_compat"] == "same-major"
    assert found["devices"] == "highest"
    assert parsed(tmp_path, "install", "demo", "--rocm-compat", "exact")["rocm_compat"] == "exact"
    limits = cast("list[tuple[str, int]]", found["limit"])
    assert dict(limits) == {"labels": 30, "lookups": 0, "size": 99}
    row = EmulatedPlugin("nvidia", "acme-nvidia", ("1.0",), ("acme:Plugin",))
    assert found["provider_table"] == (row,)


def test_min_is_the_lowest(tmp_path: Path) -> None:
    """P-88: the file has the words of ``--devices``, the short one included."""
    path = tmp_path / "wheelfit.toml"
    path.write_text('devices = "min"\n')
    assert read_configuration(path, must_exist=True)["devices"] == "lowest"


def test_a_command_without_such_an_option(tmp_path: Path) -> None:
    """What a command has no option for does not concern it."""
    assert "strict" not in parsed(tmp_path, "list")
    assert parsed(tmp_path, "check")["strict"] is False  # another option of the same name
    assert parsed(tmp_path, "probe")["ignore_static"] == ["nvidia"]


@pytest.mark.parametrize(
    "limit", ["size", "size=", "size=x", "size=1", "depth=0", "depth=201", "what=1", "labels=-1"]
)
def test_a_limit_that_is_none(tmp_path: Path, limit: str) -> None:
    """F-30: a limit is one of the known names with a number in its range."""
    with pytest.raises(UsageError, match=r"is none of size|must be a number from"):
        parsed(tmp_path, "install", "demo", "--limit", limit)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """Nobody needs a file; one that was named must be there."""
    assert read_configuration(tmp_path / "none", must_exist=False) == {}
    assert read_configuration(tmp_path / "none" / "such", must_exist=False) == {}
    with pytest.raises(InvalidConfiguration, match="does not exist"):
        read_configuration(tmp_path / "none", must_exist=True)
    with pytest.raises(InvalidConfiguration, match="cannot be read"):
        read_configuration(tmp_path, must_exist=False)
