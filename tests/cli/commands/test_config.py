"""``wheelfit config``: effective settings and their origins."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from cli.running import Runner

from wheelfit.cli.options.settings import SETTINGS


@pytest.fixture
def user_settings(user_settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a project, and return the user's settings file."""
    user_settings.write_text('strict = true\nprefer = [\n  "nvidia",\n]\n[limit]\nlabels = 7\n')
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(
        '[project]\nname = "demo"\n[tool.wheelfit]\n'
        'prefer = ["x86_64"]\noverrides = ["numpy==2"]\ndefault-groups = ["dev"]\n'
    )
    monkeypatch.chdir(project)
    return user_settings


def test_show_all_settings(run: Runner, user_settings: Path) -> None:
    """All settings of all commands are shown as TOML."""
    del user_settings
    text = run("config", "show").out
    assert run("config", "show").out == text
    shown = tomllib.loads(text)
    assert shown["strict"] is True
    assert shown["prefer"] == ["x86_64", "nvidia"]
    assert shown["limit"] == {"labels": 7}
    assert shown["devices"] == "all"
    assert shown["plugin-timeout"] == 10
    unset = set(SETTINGS) - shown.keys()
    assert all(f"# {key} is not set" in text for key in unset)


def test_numbers_keep_all_digits(run: Runner, user_settings: Path) -> None:
    """Large and exact numbers are shown as a file states them."""
    user_settings.write_text("plugin-timeout = 1.2345678\n[limit]\nsize = 4194304\n")
    shown = tomllib.loads(run("config", "show").out)
    assert shown["limit"] == {"size": 4194304}
    assert isinstance(shown["limit"]["size"], int)
    assert shown["plugin-timeout"] == 1.2345678


def test_origin(run: Runner, user_settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--origin`` names the file and line, the variable, or the default."""
    monkeypatch.setenv("WHEELFIT_DEVICES", "any")
    lines = run("config", "show", "--origin").out.splitlines()
    assert f"strict = true  # {user_settings}:1" in lines
    assert 'devices = "any"  # WHEELFIT_DEVICES' in lines
    assert 'rocm-compat = "exact"  # default' in lines
    assert f"limit = {{labels = 7}}  # {user_settings}:5" in lines
    index = lines.index('prefer = ["x86_64", "nvidia"]')
    assert lines[index + 1 : index + 3] == [
        '  # ["x86_64"]  pyproject.toml:4',
        f'  # ["nvidia"]  {user_settings}:2',
    ]


def test_show_settings_of_a_command(run: Runner, user_settings: Path) -> None:
    """Only settings of that command are shown, and the project's where it uses a project."""
    del user_settings
    shown = tomllib.loads(run("config", "show", "install").out)
    assert shown["prefer"] == ["nvidia"]
    assert shown["overrides"] == []
    assert "default-groups" not in shown
    shown = tomllib.loads(run("config", "show", "lock").out)
    assert shown["overrides"] == ["numpy==2"]
    assert shown["default-groups"] == ["dev"]
    assert "limit" not in tomllib.loads(run("config", "show", "probe").out)
    assert run("config", "show", "uninstall").out == "no setting concerns uninstall\n"


def test_project_option(run: Runner, user_settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--project`` accepts a folder or a file."""
    folder = Path.cwd()
    monkeypatch.chdir(user_settings.parent)
    assert tomllib.loads(run("config", "show").out)["overrides"] == []
    for path in (folder, folder / "pyproject.toml"):
        assert tomllib.loads(run("config", "show", "--project", path).out)["overrides"] == [
            "numpy==2"
        ]


def test_json_report(run: Runner, user_settings: Path) -> None:
    """The JSON object has values and origins."""
    found = run("config", "show", "lock", "--json").object
    assert found["command"] == "lock"
    assert found["settings"]["prefer"] == {
        "value": ["x86_64", "nvidia"],
        "origin": [
            {"layer": "project", "where": "pyproject.toml:4", "value": ["x86_64"]},
            {"layer": "user", "where": f"{user_settings}:2", "value": ["nvidia"]},
        ],
    }
    assert found["settings"]["pre"] == {"value": False, "origin": []}


def test_path(run: Runner, user_settings: Path) -> None:
    """``path`` lists the files by precedence, and marks missing ones."""
    lines = run("config", "path").out.splitlines()
    assert lines[0] == "project  pyproject.toml"
    assert lines[1] == f"user     {user_settings}"
    assert lines[2].startswith("site     ")
    found = run("config", "path", "--json").object
    assert [file["layer"] for file in found["files"]] == ["project", "user", "site"]
    Path("pyproject.toml").unlink()
    assert run("config", "path").out.splitlines()[0] == "project  pyproject.toml  (not there)"


def test_unknown_variable(
    run: Runner, user_settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A misspelt variable causes a warning with the right name."""
    del user_settings
    monkeypatch.setenv("WHEELFIT_STRIKT", "1")
    monkeypatch.setenv("WHEELFIT_XYZZY", "1")
    monkeypatch.setenv("WHEELFIT_DEFAULT_GROUPS", "dev")
    result = run("config", "show")
    assert "WHEELFIT_STRIKT is not a setting; WHEELFIT_STRICT is one" in result.err
    assert "WHEELFIT_XYZZY is not a setting\n" in result.err
    assert "WHEELFIT_DEFAULT_GROUPS is not a setting; default-groups belongs to a" in result.err


def test_unknown_setting(run: Runner, user_settings: Path) -> None:
    """An unknown setting is the same error as in other commands."""
    user_settings.write_text("\nstrikt = true\n")
    result = run("config", "show", code=1)
    assert f"where: {user_settings}:2\n" in result.err
    assert "did you mean 'strict'?" in result.err
    assert run("install", "demo", "--no-index", code=1).err == result.err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["shwo"], "did you mean 'show'?"),
        (["zzz"], "`wheelfit config --help` lists the commands"),
        (["show", "instal"], "did you mean 'install'?"),
        (["show", "zzz"], "`wheelfit --help` lists the commands"),
        (["path", "install"], "wheelfit config path --help"),
    ],
)
def test_usage_errors(run: Runner, words: list[str], hint: str) -> None:
    """The error about an unknown action or command suggests a similar one."""
    assert hint in run("config", *words, code=2).err


def test_missing_project(run: Runner, user_settings: Path) -> None:
    """A missing project is an error."""
    del user_settings
    assert "the project does not exist" in run("config", "show", "--project", "none", code=1).err
