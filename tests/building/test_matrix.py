"""The matrix of a project, and what services make of it."""

from __future__ import annotations

import json
import tomllib
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from error_codes import raises_code
from ruamel.yaml import YAML

from wheelfit.building.ci import github_matrix, gitlab_pipeline
from wheelfit.building.matrix import PLATFORMS, Job, Matrix, platform_of, read_matrix
from wheelfit.core.labels import NULL, Label
from wheelfit.errors import UsageError

VARIANTS = (Label("v3"), Label("v4"), Label("cu128"))
SMALL = """
[tool.wheelfit.matrix]
pythons = ["3.12", "3.14t"]
platforms = ["manylinux_x86_64", "macosx_arm64"]
"""


def matrix(text: str) -> Matrix:
    """Read a matrix that is there."""
    found = read_matrix(tomllib.loads(text), VARIANTS)
    assert found is not None
    return found


def faults(text: str) -> list[str]:
    """Return everything that is wrong with a matrix."""
    with raises_code("invalid-project") as excinfo:
        matrix(text)
    assert excinfo.value.where == "pyproject.toml"
    return [str(fault) for fault in excinfo.value.faults]


# --- reading -----------------------------------------------------------------------------------


def test_no_matrix() -> None:
    """A project without the table has no matrix, whatever else it has."""
    for text in ("", "[tool.wheelfit]\n", "[tool]\nwheelfit = 1\n"):
        assert read_matrix(tomllib.loads(text), VARIANTS) is None


def test_product() -> None:
    """The plain wheel and every variant of the table, for each Python on each platform."""
    found = matrix(SMALL).jobs
    assert len(found) == 4 * 2 * 2
    assert found[:4] == (
        Job(None, "3.12", "manylinux_x86_64"),
        Job(Label("v3"), "3.12", "manylinux_x86_64"),
        Job(Label("v4"), "3.12", "manylinux_x86_64"),
        Job(Label("cu128"), "3.12", "manylinux_x86_64"),
    )
    assert {job.identifier for job in found} == {
        "cp312-manylinux_x86_64",
        "cp314t-manylinux_x86_64",
        "cp312-macosx_arm64",
        "cp314t-macosx_arm64",
    }


def test_labels_and_plain() -> None:
    """Labels that are named are built instead, the null variant too; the plain wheel on request."""
    found = matrix(f'{SMALL}labels = ["v3", "null"]\nplain = false\n').jobs
    assert {job.label for job in found} == {Label("v3"), NULL}


def test_exclude_and_include() -> None:
    """What is excluded goes, by any of its parts and with patterns; what is included comes."""
    text = (
        SMALL
        + """
exclude = [
    { label = ["cu128", "v*"], platform = "macosx_*" },
    { label = "", python = "3.14t" },
]
include = [{ label = ["v3", ""], python = "3.13", platform = "win_amd64" }]
"""
    )
    assert [str(job) for job in matrix(text).jobs] == [
        "plain, Python 3.12, manylinux_x86_64",
        "v3, Python 3.12, manylinux_x86_64",
        "v4, Python 3.12, manylinux_x86_64",
        "cu128, Python 3.12, manylinux_x86_64",
        "v3, Python 3.14t, manylinux_x86_64",
        "v4, Python 3.14t, manylinux_x86_64",
        "cu128, Python 3.14t, manylinux_x86_64",
        "plain, Python 3.12, macosx_arm64",
        "v3, Python 3.13, win_amd64",
        "plain, Python 3.13, win_amd64",
    ]


def test_all_faults_at_once() -> None:
    """Everything that is wrong is named with its path."""
    text = """
[tool.wheelfit.matrix]
labels = ["v3", "v5", "v3", ""]
pythons = ["3.12", "cp312", 3.13]
platforms = ["linux_x86_64"]
plain = "yes"
excludes = []
exclude = [{ labels = "v3" }, {}, { python = "3" }, 1]
include = [{ label = "v3" }]
[tool.wheelfit.matrix.runners]
jenkins = {}
github = { linux = "x", win32 = [] }
"""
    version = "must be a version of Python, such as 3.13, or 3.14t for free threading, not"
    named = ", ".join(PLATFORMS)
    top = "tool.wheelfit.matrix"
    assert faults(text) == [
        f'{top}.excludes: is an unknown key (did you mean "exclude"?)',
        f"{top}.labels[1]: is not in [variant.variants], which has v3, v4, cu128: 'v5'",
        f"{top}.labels[2]: is a duplicate: 'v3'",
        f'{top}.labels[3]: must not be empty: the plain wheel has its own key, "plain = true"',
        f"{top}.plain: must be true or false, not 'yes'",
        f"{top}.pythons[1]: {version} 'cp312'",
        f"{top}.pythons[2]: must be a string, not 3.13",
        f"{top}.platforms[0]: must be one of {named}, not 'linux_x86_64'",
        f"{top}.exclude[3]: must be a table, not a number",
        f'{top}.exclude[0].labels: is an unknown key (did you mean "label"?)',
        f"{top}.exclude[1]: must not be empty",
        f"{top}.exclude[2].python[0]: {version} '3'",
        f"{top}.include[0].python: is missing",
        f"{top}.include[0].platform: is missing",
        f"{top}.runners.jenkins: is an unknown key (known keys: github, gitlab)",
        f"{top}.runners.github.linux: must be one of {named}, not 'linux'",
        f"{top}.runners.github.win32: must be a list of strings, not an empty list",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('exclude = [{ label = "v9*" }]', "exclude[0]: excludes nothing"),
        ('exclude = [{ label = "*" }]', ": excludes everything"),
        (
            'include = [{ label = "v3", python = "3.12", platform = "macosx_arm64" }]',
            "include[0]: is in the matrix already: v3, Python 3.12, macosx_arm64",
        ),
        ("plain = false\nlabels = []", "labels: must be a list of strings, not an empty list"),
    ],
)
def test_faults_of_the_whole(text: str, fault: str) -> None:
    """What excludes nothing, or brings what is there, is a slip."""
    found = faults(SMALL + text)
    assert found[0] == f"tool.wheelfit.matrix{'' if fault.startswith(':') else '.'}{fault}"


def test_nothing_to_build() -> None:
    """A table without variants and without the plain wheel builds nothing."""
    with raises_code("invalid-project", match="there is nothing to build"):
        read_matrix(tomllib.loads(SMALL + "plain = false"))


def test_missing_keys_and_no_table() -> None:
    """Pythons and platforms must be said, in a table."""
    assert faults("[tool.wheelfit.matrix]") == [
        "tool.wheelfit.matrix.pythons: is missing",
        "tool.wheelfit.matrix.platforms: is missing",
    ]
    assert faults("[tool.wheelfit]\nmatrix = 1") == [
        "tool.wheelfit.matrix: must be a table, not a number"
    ]


def test_parts_of_a_matrix() -> None:
    """A machine builds the jobs that are its own."""
    jobs = matrix(SMALL).only(labels=[None], pythons=["3.12"], platforms=["macosx_arm64"])
    assert jobs == (Job(None, "3.12", "macosx_arm64"),)


@pytest.mark.parametrize(
    ("system", "machine", "is_musl", "expected"),
    [
        ("Linux", "x86_64", False, "manylinux_x86_64"),
        ("Linux", "aarch64", True, "musllinux_aarch64"),
        ("Darwin", "arm64", False, "macosx_arm64"),
        ("Windows", "AMD64", False, "win_amd64"),
        ("Windows", "x86", False, "win32"),
        ("Windows", "ARM64", False, "win_arm64"),
        ("FreeBSD", "amd64", False, ""),
        ("Linux", "loongarch64", False, ""),
    ],
)
def test_platform_of_a_machine(system: str, machine: str, expected: str, *, is_musl: bool) -> None:
    """Machines are called as a matrix calls them, or not at all."""
    assert platform_of(system, machine, is_musl=is_musl) == expected


# --- GitHub --------------------------------------------------------------------------------------


def schema(name: str) -> Any:
    """Return a schema of what a service reads, as its editors use it."""
    folder = files("check_jsonschema") / "builtin_schemas" / "vendor"
    return json.loads((folder / f"{name}.json").read_bytes())


def test_github() -> None:
    """Each job has its runner and the words for the command, and GitHub's schema holds."""
    found = matrix(f"{SMALL}plain = false\nlabels = ['v3', 'null']")
    text = github_matrix(found, found.jobs)
    assert "\n" not in text  # a line of $GITHUB_OUTPUT
    document = json.loads(text)
    assert len(document["include"]) == 8
    assert document["include"][1] == {
        "name": "null on cp312-manylinux_x86_64",
        "arguments": "--null",
        "labels": "null",
        "python": "3.12",
        "platform": "manylinux_x86_64",
        "identifier": "cp312-manylinux_x86_64",
        "runner": "ubuntu-24.04",
    }
    job = {
        "runs-on": "${{ matrix.runner }}",
        "strategy": {"matrix": document},
        "steps": [{"run": "x"}],
    }
    workflow = {"on": "push", "jobs": {"build": job}}
    jsonschema.validate(workflow, schema("github-workflows"))


def test_github_by_target() -> None:
    """All wheels of one Python and platform may be one job, which builds once if it can."""
    found = matrix(SMALL)
    entries = json.loads(github_matrix(found, found.jobs, by_target=True))["include"]
    assert [entry["arguments"] for entry in entries] == [
        "--plain --variant v3 --variant v4 --variant cu128"
    ] * 4
    assert entries[0]["labels"] == "- v3 v4 cu128"
    assert entries[0]["name"] == "plain, v3, v4, cu128 on cp312-manylinux_x86_64"


def test_a_project_below() -> None:
    """Jobs of a repository of several projects name the folder of theirs."""
    found = matrix(SMALL)
    text = github_matrix(found, found.jobs, by_target=True, project="my packages/left")
    (words,) = {one["arguments"] for one in json.loads(text)["include"]}
    assert words == "'my packages/left' --plain --variant v3 --variant v4 --variant cu128"
    document = pipeline(gitlab_pipeline(found, found.jobs, project="packages/left"))
    jobs = document["build-wheel"]["parallel"]["matrix"]
    assert jobs[0]["ARGUMENTS"] == "packages/left --plain"


def test_github_limit() -> None:
    """More jobs than GitHub takes are refused, with a way out."""
    pythons = ", ".join(f'"3.{n}"' for n in range(100))
    found = matrix(f"[tool.wheelfit.matrix]\npythons = [{pythons}]\nplatforms = ['any']")
    with pytest.raises(UsageError, match="the matrix has 400 jobs") as excinfo:
        github_matrix(found, found.jobs)
    assert "--job-per target" in (excinfo.value.hint or "")
    assert len(json.loads(github_matrix(found, found.jobs, by_target=True))["include"]) == 100


def test_runners_of_ones_own() -> None:
    """A project names its runners, by one label or several."""
    text = SMALL + '[tool.wheelfit.matrix.runners.github]\nmacosx_arm64 = ["self-hosted", "mac"]\n'
    found = matrix(text)
    entries = json.loads(github_matrix(found, found.jobs))["include"]
    assert {json.dumps(entry["runner"]) for entry in entries} == {
        '"ubuntu-24.04"',
        '["self-hosted", "mac"]',
    }


@pytest.mark.parametrize("service", ["github", "gitlab"])
def test_platform_without_runner(service: str) -> None:
    """For a platform for which a service has no runner the project must name one."""
    found = matrix(SMALL.replace("macosx_arm64", "manylinux_s390x"))
    write = github_matrix if service == "github" else gitlab_pipeline
    with raises_code("invalid-project") as excinfo:
        write(found, found.jobs)
    path = f"tool.wheelfit.matrix.runners.{service}.manylinux_s390x"
    assert excinfo.value.faults[0].path == path


# --- GitLab --------------------------------------------------------------------------------------


def pipeline(text: str) -> dict[str, Any]:
    """Read a pipeline, and hold it against GitLab's schema."""
    document = YAML(typ="safe", pure=True).load(text)
    jsonschema.validate(document, schema("gitlab-ci"))
    assert isinstance(document, dict)
    return document


def test_gitlab() -> None:
    """A child pipeline has a job with all its variables for each wheel."""
    found = matrix(SMALL)
    document = pipeline(gitlab_pipeline(found, found.jobs))
    job = document["build-wheel"]
    assert (job["extends"], job["tags"]) == (".build-wheel", ["$RUNNER"])
    assert len(job["parallel"]["matrix"]) == 16
    assert job["parallel"]["matrix"][-1] == {
        "ARGUMENTS": "--variant cu128",
        "LABELS": "cu128",
        "PYTHON": "3.14t",
        "PLATFORM": "macosx_arm64",
        "IDENTIFIER": "cp314t-macosx_arm64",
        "RUNNER": "saas-macos-medium-m1",
    }
    assert "wheelfit build $ARGUMENTS -o dist" in document[".build-wheel"]["script"]


def test_gitlab_template() -> None:
    """What a job does may stand in a file of the repository."""
    found = matrix(SMALL)
    document = pipeline(gitlab_pipeline(found, found.jobs, template="ci/build wheel.yml"))
    assert document["include"] == [{"local": "ci/build wheel.yml"}]
    assert ".build-wheel" not in document


def test_gitlab_tags() -> None:
    """A runner of several tags is asked for with all of them, others with theirs."""
    text = SMALL + '[tool.wheelfit.matrix.runners.gitlab]\nmacosx_arm64 = ["own", "mac"]\n'
    found = matrix(text)
    job = pipeline(gitlab_pipeline(found, found.jobs))["build-wheel"]
    assert job["tags"] == ["$RUNNER", "$RUNNER_1"]
    tags = {(one["RUNNER"], one["RUNNER_1"]) for one in job["parallel"]["matrix"]}
    assert tags == {("own", "mac"), ("saas-linux-small-amd64", "saas-linux-small-amd64")}


def test_gitlab_limits() -> None:
    """More jobs than a matrix of GitLab takes are several matrices; names must not be too long."""
    pythons = ", ".join(f'"3.{n}"' for n in range(60))
    found = matrix(f"[tool.wheelfit.matrix]\npythons = [{pythons}]\nplatforms = ['any']")
    document = pipeline(gitlab_pipeline(found, found.jobs))
    sizes = [len(one["parallel"]["matrix"]) for name, one in document.items() if name[0] != "."]
    assert sizes == [200, 40]
    many = [Job(Label(f"label_number_{n}"), "3.12", "any") for n in range(20)]
    with pytest.raises(UsageError, match="255 characters"):
        gitlab_pipeline(found, many, by_target=True)
