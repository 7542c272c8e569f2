"""Wrong arguments of commands: error code, hint, and no changes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cli.running import Runner, tree

from wheelfit.testing.wheels import build_wheel

LOCK = f"""\
lock-version = "1.0"
requires-python = ">={sys.version_info.major}.{sys.version_info.minor}"
created-by = "test"
packages = []
"""


@pytest.mark.parametrize(
    ("words", "code", "reference", "hint"),
    [
        (["uninstall", "some==1.0"], 1, "invalid-requirement", "write only the name"),
        (["install", "-r", "none.txt"], 1, "file-problem", "check the path"),
        (["install", "./none"], 1, "file-problem", "the folder of a project"),
        (["install", "-U"], 2, "usage", "name a requirement"),
        (["download", "some", "-d", "file/inner"], 1, "file-problem", "name a folder"),
        (["venv", "file"], 1, "file-problem", "name another path"),
        (["venv", "file/inner"], 1, "file-problem", "name another path"),
        (["sync", "--extra", "none"], 1, "user-error", "`wheelfit lock`"),
        (["sync", "none.toml"], 1, "file-problem", "pylock.NAME.toml"),
        (["show", "none"], 1, "not-installed", "`wheelfit list`"),
        (["why", "none"], 1, "not-installed", "`wheelfit list`"),
        (["list", "--target", "none"], 1, "file-problem", "name one that exists"),
        (["freeze", "some"], 2, "usage", "`wheelfit freeze --help`"),
        (["lock"], 1, "file-problem", "correct its syntax"),
        (["add", "some"], 1, "file-problem", "correct its syntax"),
        (["remove", "some"], 1, "file-problem", "correct its syntax"),
        (["add", "~nobody-of-this-name/some"], 1, "file-problem", "name one that exists"),
        (
            ["download", "some", "--cert", "~nobody-of-this-name/ca"],
            1,
            "invalid-configuration",
            "correct or remove the setting",
        ),
    ],
)
def test_hint_of_a_wrong_argument(
    words: list[str],
    code: int,
    reference: str,
    hint: str,
    run: Runner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each wrong argument is an error with a code and a hint, and changes nothing."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[project\n")
    (tmp_path / "pylock.toml").write_text(LOCK)
    (tmp_path / "file").touch()
    (tmp_path / "target").mkdir()
    build_wheel(tmp_path / "wheels", "some", "1.0")
    sources = ["--no-index", "-f", "wheels"]
    more = {
        "install": [*sources, "--target", "target"],
        "sync": [*sources, "--target", "target"],
        "download": sources,
        **{name: ["--target", "target"] for name in ("uninstall", "show", "why")},
    }
    monkeypatch.setenv("WHEELFIT_CACHE_DIR", str(tmp_path.parent / f"{tmp_path.name}-cache"))
    before = tree(tmp_path)
    given = [words[0], *more.get(words[0], []), "--json", *words[1:]]
    error = run(*given, code=code).error
    assert error["code"] == reference
    assert hint in (error["hint"] or "")
    assert tree(tmp_path) == before


def test_a_folder_below_the_home_folder(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell leaves ``--target=~/x`` as it is, and wheelfit finds the folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "target").mkdir()
    assert run("list", "--target=~/target", "--json").object["packages"] == []
