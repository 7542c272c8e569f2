"""``wheelfit venv``, and the environment that commands use by default."""

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
    """Change to an empty folder without an active environment."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"):
        monkeypatch.delenv(name, raising=False)
    return folder


def test_new_environment(
    run: Runner, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new environment is used in its folder and below it."""
    report = run("venv", "--json").object
    assert report["path"] == str(project / ".venv")
    assert report["python_version"] == ".".join(map(str, sys.version_info[:3]))
    run("install", "--no-index", build_wheel(tmp_path, "plain", "1.0"))
    (project / "src").mkdir()
    monkeypatch.chdir(project / "src")
    assert run.installed().keys() == {"plain"}
    monkeypatch.setenv("CONDA_PREFIX", sys.prefix)
    assert "pytest" in run.installed()
    assert run.installed("--python", project / ".venv").keys() == {"plain"}


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
    """The environment that wheelfit runs in is not changed unless it is named."""
    error = run(*words, "--json", code=1).error
    assert error["code"] == "no-environment"
    assert "`wheelfit venv` creates one" in error["hint"]
    assert "--system" in error["hint"]


def test_empty_environment(run: Runner, project: Path) -> None:
    """Listing an empty environment prints a message on standard error and exits with 0."""
    run("venv")
    for words in (["list"], ["freeze"], ["list", "--variants"], ["list", "--outdated"]):
        result = run(*words)
        assert result.out == ""
        assert result.err.startswith("No ")
        assert str(project / ".venv") in result.err
        result = run(*words, "--json")
        assert (result.object["packages"], result.err) == ([], "")


def test_explain_without_an_environment(run: Runner, tmp_path: Path) -> None:
    """`explain` uses the Python of wheelfit if there is no environment."""
    build_wheel(tmp_path / "wheels", "plain", "1.0")
    run("explain", "--no-index", "--find-links", tmp_path / "wheels", "plain")


def test_existing_folder(run: Runner, project: Path) -> None:
    """An existing environment needs ``--clear``; other folders are refused."""
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
def test_clear_environment_in_use(
    run: Runner,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_active: bool,  # noqa: FBT001
) -> None:
    """The Python of the cleared environment creates the new one."""
    run("venv")
    (project / ".venv" / "mark").touch()
    if is_active:
        monkeypatch.setenv("VIRTUAL_ENV", str(project / ".venv"))
    run("venv", "--clear")
    assert not (project / ".venv" / "mark").exists()
    assert run.installed() == {}
    assert [path.name for path in project.iterdir()] == [".venv"]


def test_failing_clear(
    run: Runner, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cleared environment is restored if the new one cannot be created."""
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


def test_environment_of_wheelfit(run: Runner) -> None:
    """The environment that wheelfit runs in is not cleared."""
    error = run("venv", sys.prefix, "--json", code=1).error
    assert error["hint"] == "name another path"
    with pytest.raises(FileProblem, match="runs from"), empty_folder(Path(sys.prefix), clear=True):
        raise AssertionError  # which would bring it back
    assert Path(sys.executable).exists()


def test_environment_in_use(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that cannot be moved, as on Windows while it runs, leaves no empty folder."""
    folder = project / "env"
    folder.mkdir()
    (folder / "pyvenv.cfg").touch()

    def refuse(path: Path, _target: Path) -> None:
        raise PermissionError(13, "in use", str(path))

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(FileProblem, match="in use"), empty_folder(folder, clear=True):
        raise AssertionError
    assert [path.name for path in project.iterdir()] == ["env"]


def test_failure_in_an_empty_folder(project: Path) -> None:
    """An empty folder that existed before is empty again, so that another attempt succeeds."""
    folder = project / "env"
    folder.mkdir()

    def fill() -> None:
        (folder / "lib").mkdir()
        (folder / "lib64").symlink_to("lib")
        (folder / "pyvenv.cfg").touch()
        raise ValueError("half")

    with pytest.raises(ValueError, match="half"), empty_folder(folder, clear=False):
        fill()
    assert list(folder.iterdir()) == []


def test_unusable_python(run: Runner, project: Path) -> None:
    """A missing Python leaves no files."""
    error = run("venv", "--python", "3.77", "--json", code=1).error
    assert error["code"] == "unusable-interpreter"
    assert "python3.77" in error["message"]
    assert not (project / ".venv").exists()


def test_unusable_shim(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program on ``PATH`` that does not start is skipped, with a note in verbose output."""
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
    assert run.installed() == {}


def test_broken_active_environment(
    run: Runner, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken active environment is an error; no other one is changed."""
    run("venv", "env")
    first, other = project / "env" / "bin", tmp_path / "other"
    other.mkdir()
    (other / "python3.77").symlink_to(Path(sys.base_prefix) / "bin" / "python3")
    (first / "python3.77").symlink_to("/bin/false")
    monkeypatch.setenv("PATH", f"{first}:{other}")
    error = run("list", "--python", "3.77", "--json", code=1).error
    assert error["where"] == str(first / "python3.77")


def test_conflicting_options(run: Runner) -> None:
    """``--system`` and ``--python`` conflict."""
    assert "not allowed with" in run("list", "--system", "--python", "x", code=2).err
