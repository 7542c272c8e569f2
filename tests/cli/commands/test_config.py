"""``wheelfit config``: which settings are in effect, and who set them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from cli.running import Runner
from jsonschema import Draft202012Validator

from wheelfit.cli.options.settings import SETTINGS

SCHEMA = json.loads((Path(__file__).parents[3] / "docs/reference/schemas/config.json").read_text())


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a project, and return the user's file."""
    path = tmp_path / "user.toml"
    path.write_text('strict = true\nprefer = [\n  "nvidia",\n]\n[limit]\nlabels = 7\n')
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(
        '[project]\nname = "demo"\n[tool.wheelfit]\n'
        'prefer = ["x86_64"]\noverrides = ["numpy==2"]\ndefault-groups = ["dev"]\n'
    )
    monkeypatch.chdir(project)
    monkeypatch.setenv("WHEELFIT_CONFIG_FILE", str(path))
    return path


def test_every_setting(run: Runner, user: Path) -> None:
    """All settings of all commands are shown, as a file would say them."""
    del user
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


def test_who_set_it(run: Runner, user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--origin`` names the file with the line, the variable, or the default."""
    monkeypatch.setenv("WHEELFIT_DEVICES", "any")
    lines = run("config", "show", "--origin").out.splitlines()
    assert f"strict = true  # {user}:1" in lines
    assert 'devices = "any"  # WHEELFIT_DEVICES' in lines
    assert 'rocm-compat = "exact"  # default' in lines
    assert f"limit = {{labels = 7}}  # {user}:5" in lines
    index = lines.index('prefer = ["x86_64", "nvidia"]')
    assert lines[index + 1 : index + 3] == [
        '  # ["x86_64"]  pyproject.toml:4',
        f'  # ["nvidia"]  {user}:2',
    ]


def test_one_command(run: Runner, user: Path) -> None:
    """Of a command what concerns it; one that works on no project does not see the project."""
    del user
    shown = tomllib.loads(run("config", "show", "install").out)
    assert shown["prefer"] == ["nvidia"]
    assert shown["overrides"] == []
    assert "default-groups" not in shown
    shown = tomllib.loads(run("config", "show", "lock").out)
    assert shown["overrides"] == ["numpy==2"]
    assert shown["default-groups"] == ["dev"]
    assert "limit" not in tomllib.loads(run("config", "show", "probe").out)
    assert run("config", "show", "uninstall").out == "no setting concerns uninstall\n"


def test_another_project(run: Runner, user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--project`` names the project, by its folder or its file."""
    folder = Path.cwd()
    monkeypatch.chdir(user.parent)
    assert tomllib.loads(run("config", "show").out)["overrides"] == []
    for path in (folder, folder / "pyproject.toml"):
        assert tomllib.loads(run("config", "show", "--project", path).out)["overrides"] == [
            "numpy==2"
        ]


def test_as_json(run: Runner, user: Path) -> None:
    """The JSON object holds values and origins, and is valid by its schema."""
    found = run("config", "show", "lock", "--json").object
    Draft202012Validator(SCHEMA).validate(found)
    assert found["command"] == "lock"
    assert found["settings"]["prefer"] == {
        "value": ["x86_64", "nvidia"],
        "origin": [
            {"layer": "project", "where": "pyproject.toml:4", "value": ["x86_64"]},
            {"layer": "user", "where": f"{user}:2", "value": ["nvidia"]},
        ],
    }
    assert found["settings"]["pre"] == {"value": False, "origin": []}


def test_the_files(run: Runner, user: Path) -> None:
    """``path`` names the files, those that count most first, and says which are not there."""
    lines = run("config", "path").out.splitlines()
    assert lines[0] == "project  pyproject.toml"
    assert lines[1] == f"user     {user}"
    assert lines[2].startswith("site     ")
    found = run("config", "path", "--json").object
    Draft202012Validator(SCHEMA).validate(found)
    assert [file["layer"] for file in found["files"]] == ["project", "user", "site"]
    Path("pyproject.toml").unlink()
    assert run("config", "path").out.splitlines()[0] == "project  pyproject.toml  (not there)"


def test_a_variable_that_is_none(run: Runner, user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that is likely misspelt gets a warning that names the right one."""
    del user
    monkeypatch.setenv("WHEELFIT_STRIKT", "1")
    monkeypatch.setenv("WHEELFIT_XYZZY", "1")
    monkeypatch.setenv("WHEELFIT_DEFAULT_GROUPS", "dev")
    result = run("config", "show")
    assert "WHEELFIT_STRIKT is not a setting; WHEELFIT_STRICT is one" in result.err
    assert "WHEELFIT_XYZZY is not a setting\n" in result.err
    assert "WHEELFIT_DEFAULT_GROUPS is not a setting; default-groups belongs to a" in result.err


def test_a_setting_that_is_none(run: Runner, user: Path) -> None:
    """What cannot be read is the same error as for any command."""
    user.write_text("\nstrikt = true\n")
    result = run("config", "show", code=1)
    assert f"where: {user}:2\n" in result.err
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
def test_wrong_usage(run: Runner, words: list[str], hint: str) -> None:
    """An unknown action or command is an error with what may have been meant."""
    assert hint in run("config", *words, code=2).err


def test_a_project_that_is_not_there(run: Runner, user: Path) -> None:
    """Whoever names one is told, and does not read the settings of none."""
    del user
    assert "the project does not exist" in run("config", "show", "--project", "none", code=1).err
