"""``wheelfit matrix``."""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path

import pytest
from cli.running import Runner, arguments

PROJECT = """
[build-system]
requires = ["setuptools"]
[project]
name = "quick"
version = "1"
[variant.default-priorities]
namespace = ["x86_64"]
[variant.providers.x86_64]
requires = ["x86-64-variant-provider<1"]
[variant.variants.v3]
x86_64.level = ["v3"]
[tool.wheelfit.matrix]
pythons = ["3.12", "3.13"]
platforms = ["manylinux_x86_64", "macosx_arm64"]
exclude = [{ label = "v3", platform = "macosx_*" }]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Write a project with a matrix."""
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    return tmp_path


def test_text_output(project: Path, run: Runner) -> None:
    """Each target has a line with its wheels."""
    result = run("matrix", project)
    assert result.out.splitlines() == [
        "Platform          Python  Wheels",
        "----------------  ------  -----------",
        "manylinux_x86_64  3.12    (plain), v3",
        "manylinux_x86_64  3.13    (plain), v3",
        "macosx_arm64      3.12    (plain)",
        "macosx_arm64      3.13    (plain)",
    ]
    assert result.err == "6 wheels of quick\n"


def test_json_report(project: Path, run: Runner) -> None:
    """The JSON object lists every wheel."""
    result = run("matrix", project, "--json", "--only-python", "3.13")
    assert [(job["label"], job["identifier"]) for job in result.object["jobs"]] == [
        (None, "cp313-manylinux_x86_64"),
        ("v3", "cp313-manylinux_x86_64"),
        (None, "cp313-macosx_arm64"),
    ]


@pytest.mark.parametrize("by", ["wheel", "target"])
def test_arguments_of_jobs(project: Path, run: Runner, by: str) -> None:
    """The arguments of each job make `wheelfit build` build exactly its wheels."""
    result = run("matrix", project, "--format", "github", "--job-per", by)
    wanted: list[list[str]] = []
    for job in json.loads(result.out)["include"]:
        words = arguments("build", *shlex.split(job["arguments"]))
        wanted.append([*(["plain"] if words.plain else []), *words.labels])
    assert (
        wanted
        == {
            "wheel": [["plain"], ["v3"], ["plain"], ["v3"], ["plain"], ["plain"]],
            "target": [["plain", "v3"], ["plain", "v3"], ["plain"], ["plain"]],
        }[by]
    )


def test_project_in_a_subfolder(
    project: Path, run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs build the named project of a repository, however its path is written."""
    monkeypatch.chdir(project.parent)
    for named in (project, project.name, f"{project.name}/"):
        result = run("matrix", named, "--format", "github")
        for job in json.loads(result.out)["include"]:
            words = arguments("build", *shlex.split(job["arguments"]))
            assert Path(words.source) == Path(project.name)
    monkeypatch.chdir(project)
    assert project.name not in run("matrix", project, "--format", "github").out


def test_gitlab_pipeline(project: Path, run: Runner) -> None:
    """A GitLab pipeline is written."""
    result = run("matrix", project, "--format", "gitlab", "--template", "ci/build.yml")
    assert '  - local: "ci/build.yml"\n' in result.out
    assert result.out.count("- ARGUMENTS:") == 6


def test_empty_matrix(project: Path, run: Runner) -> None:
    """A missing matrix and an empty selection are usage errors."""
    assert ("no wheel of the matrix matches") in run(
        "matrix", project, "--only-python", "3.9", code=2
    ).err
    (project / "pyproject.toml").write_text(PROJECT.partition("[tool")[0])
    assert "[tool.wheelfit.matrix]" in run("matrix", project, code=2).err


def test_conflicting_options(project: Path, run: Runner) -> None:
    """Conflicting options are refused."""
    run("matrix", project, "--json", "--format", "github", code=2)
    run("matrix", project, "--template", "x", code=2)
    run("matrix", project, "--job-per", "target", code=2)


def test_invalid_matrix(project: Path, run: Runner) -> None:
    """Every fault of the table is reported with its path."""
    text = PROJECT.replace('"3.12"', '"cp312"').replace("exclude", "excludes")
    (project / "pyproject.toml").write_text(text)
    result = run("matrix", project, "--json", code=1)
    assert result.error["code"] == "invalid-project"
    assert "tool.wheelfit.matrix.excludes" in result.error["message"]
    assert "tool.wheelfit.matrix.pythons[0]" in result.error["note"]


def test_matrix_is_a_known_setting(
    project: Path, run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that read project settings accept the matrix table."""
    monkeypatch.chdir(project)
    run("config", "show")
    assert tomllib.loads(PROJECT)["tool"]["wheelfit"]["matrix"]
