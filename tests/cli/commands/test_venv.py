"""``wheelfit venv``, and the environment that commands find without being told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cli.running import Runner
from sampled_cases import sampled

from wheelfit.installation.virtual_environments import empty_folder
from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.errors import FileProblem


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, in which nothing is active."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"):
        monkeypatch.delenv(name, raising=False)
    return folder


def names(run: Runner, *words: str | Path) -> list[str]:
    """Return what is installed."""
    return [package["name"] for package in run("list", "--json", *words).object["packages"]]


def test_install_into_a_new_one(
    run: Runner, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was created is found from the folder and from those below it, and holds what comes."""
    report = run("venv", "--json").object
    assert report["path"] == str(project / ".venv")
    assert report["python_version"] == ".".join(map(str, sys.version_info[:3]))
    run("install", "--no-index", build_wheel(tmp_path, "plain", "1.0"))
    (project / "src").mkdir()
    monkeypatch.chdir(project / "src")
    assert names(run) == ["plain"]
    monkeypatch.setenv("CONDA_PREFIX", sys.prefix)
    assert "pytest" in names(run)
    assert names(run, "--python", project / ".venv") == ["plain"]


@pytest.mark.parametrize(
    "words",
    [
        ["install", "--dry-run", "x"],
        ["list"],
        ["freeze"],
        ["show", "x"],
        ["why", "x"],
        ["uninstall", "x"],
    ],
)
def test_no_environment(words: list[str], run: Runner) -> None:
    """Nobody changes the environment that wheelfit runs from without naming it."""
    error = run(*words, "--json", code=1).error
    assert error["code"] == "no-environment"
    assert "`wheelfit venv` creates one" in error["hint"]
    assert "--system" in error["hint"]


def test_an_empty_environment(run: Runner, project: Path) -> None:
    """What lists packages says that there are none, on standard error, and ends with 0."""
    run("venv")
    for words in (["list"], ["freeze"], ["list", "--variants"], ["list", "--outdated"]):
        result = run(*words)
        assert result.out == ""
        assert result.err.startswith("No ")
        assert str(project / ".venv") in result.err
        result = run(*words, "--json")
        assert (result.object["packages"], result.err) == ([], "")


def test_explain_needs_none(run: Runner, tmp_path: Path) -> None:
    """Where only the Python counts that wheels are chosen for, that of wheelfit does."""
    build_wheel(tmp_path / "wheels", "plain", "1.0")
    run("explain", "--no-index", "--find-links", tmp_path / "wheels", "plain")


def test_what_is_there_stays(run: Runner, project: Path) -> None:
    """Neither an environment nor anything else is overwritten; ``--clear`` takes environments."""
    run("venv", "env")
    (project / "env" / "mark").touch()
    assert "--clear" in run("venv", "env", "--json", code=1).error["hint"]
    assert (project / "env" / "mark").exists()
    run("venv", "env", "--clear")
    assert not (project / "env" / "mark").exists()
    (project / "other").mkdir()
    (project / "other" / "mine").touch()
    assert "not a virtual" in run("venv", "other", "--clear", "--json", code=1).error["message"]
    assert (project / "other" / "mine").exists()


@pytest.mark.parametrize("is_active", sampled([True, False], fast={0}))
def test_the_environment_in_use_is_cleared(
    run: Runner,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_active: bool,  # noqa: FBT001
) -> None:
    """The Python of an environment that gives way, active or found, creates the new one."""
    run("venv")
    (project / ".venv" / "mark").touch()
    if is_active:
        monkeypatch.setenv("VIRTUAL_ENV", str(project / ".venv"))
    run("venv", "--clear")
    assert not (project / ".venv" / "mark").exists()
    assert names(run) == []
    assert [path.name for path in project.iterdir()] == [".venv"]


def test_a_clearing_that_fails(
    run: Runner, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What should give way is back where it was if the new environment cannot be created."""
    run("venv", "env")
    (project / "env" / "mark").touch()
    run("venv", tmp_path / "broken")
    (site,) = (tmp_path / "broken").glob("**/site-packages")
    (site / "no_venv.pth").write_text("import sys; sys.modules['venv'] = None\n")
    monkeypatch.setenv("PATH", str(tmp_path))  # without virtualenv
    words: list[str | Path] = ["venv", "env", "--clear", "--python", tmp_path / "broken", "--json"]
    assert run(*words, code=6).error["code"] == "environment-unavailable"
    assert (project / "env" / "mark").exists()
    assert [path.name for path in project.iterdir()] == ["env"]


def test_the_environment_of_wheelfit_stays(run: Runner) -> None:
    """The environment that wheelfit runs from is not cleared, and no hint says to clear it."""
    error = run("venv", sys.prefix, "--json", code=1).error
    assert error["hint"] == "name another path"
    with pytest.raises(FileProblem, match="runs from"), empty_folder(Path(sys.prefix), clear=True):
        raise AssertionError  # which would bring it back
    assert Path(sys.executable).exists()


def test_a_python_that_cannot(run: Runner, project: Path) -> None:
    """A Python that does not exist or cannot create an environment leaves nothing behind."""
    error = run("venv", "--python", "3.77", "--json", code=1).error
    assert error["code"] == "unusable-interpreter"
    assert "python3.77" in error["message"]
    assert not (project / ".venv").exists()


def test_a_shim_without_a_python(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is on ``PATH`` and does not start is skipped, and ``-v`` says so."""
    shims, pyenv = tmp_path / "shims", tmp_path / "pyenv"
    script = "#!/bin/sh\necho 'pyenv: python3.77: command not found' >&2\nexit 127\n"
    shims.mkdir()
    (shims / "python3.77").write_text(script)
    (shims / "python3.77").chmod(0o755)
    monkeypatch.setenv("PATH", str(shims))
    monkeypatch.setenv("HOME", str(tmp_path))
    error = run("venv", "--python", "3.77", "--json", code=1).error
    assert (error["code"], error["where"]) == ("unusable-interpreter", str(shims / "python3.77"))
    working = pyenv / "versions" / "3.77.1" / "bin"
    working.mkdir(parents=True)
    (working / "python3.77").symlink_to(Path(sys.base_prefix) / "bin" / "python3")
    monkeypatch.setenv("PYENV_ROOT", str(pyenv))
    assert f"skipped {shims / 'python3.77'}: " in run("venv", "-v", "--python", "3.77").err
    assert names(run) == []


def test_a_broken_environment_is_not_skipped(
    run: Runner, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where an active environment is broken, no other one is changed in its place."""
    run("venv", "env")
    first, other = project / "env" / "bin", tmp_path / "other"
    other.mkdir()
    (other / "python3.77").symlink_to(Path(sys.base_prefix) / "bin" / "python3")
    (first / "python3.77").symlink_to("/bin/false")
    monkeypatch.setenv("PATH", f"{first}:{other}")
    error = run("list", "--python", "3.77", "--json", code=1).error
    assert error["where"] == str(first / "python3.77")


def test_both_names(run: Runner) -> None:
    """``--system`` names an environment, as ``--python`` does."""
    assert "not allowed with" in run("list", "--system", "--python", "x", code=2).err
