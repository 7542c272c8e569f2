"""The files that GitHub, pre-commit, Docker and editors read, and what runs because of them."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from python_runs import printed_by, run_python
from ruamel.yaml import YAML
from server.running import clean_environ

import wheelfit
import wheelfit_runtime
from wheelfit.testing.wheels import build_wheel

REPOSITORY = Path(__file__).parent.parent
GITHUB = REPOSITORY / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
RUNTIME = tomllib.loads((REPOSITORY / "runtime/pyproject.toml").read_text("utf-8"))["project"]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
COMMANDS = Path(sys.executable).parent
BASH = shutil.which("bash")
NEEDS_BASH = pytest.mark.skipif(BASH is None or os.name == "nt", reason="needs bash, as on POSIX")
BAD_TABLE = "[variant]\nprovider = 1\n"


def read(path: Path) -> Any:
    """Return a YAML file as plain data."""
    return YAML(typ="safe", pure=True).load(path)


def jobs_of(workflow: Path) -> dict[str, Any]:
    """Return the jobs of a workflow."""
    jobs: dict[str, Any] = read(workflow)["jobs"]
    return jobs


def bash(
    script: str, folder: Path, environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a step as GitHub does, with nothing of this process's environment."""
    command = [str(BASH), "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    given = {**clean_environ(folder), "PATH": f"{COMMANDS}:{os.environ['PATH']}", **(environ or {})}
    given |= {name: text for name, text in os.environ.items() if name.startswith("PIP_")}
    return subprocess.run(
        command, cwd=folder, env=given, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        *((path, "github-workflows") for path in WORKFLOWS),
        *((path, "github-issue-forms") for path in sorted(GITHUB.glob("ISSUE_TEMPLATE/*.yml"))),
        (GITHUB / "dependabot.yml", "dependabot"),
        (REPOSITORY / "action.yml", "github-actions"),
    ],
    ids=lambda given: given.name if isinstance(given, Path) else given,
)
def test_schemas(path: Path, schema: str) -> None:
    """Each file is what its service reads."""
    folder = files("check_jsonschema") / "builtin_schemas" / "vendor"
    document = json.loads((folder / f"{schema}.json").read_bytes())
    jsonschema.validate(read(path), document)


# --- workflows --------------------------------------------------------------------------------


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_are_harmless(workflow: Path) -> None:
    """Jobs may only read, one may sign what it publishes, and no text gets into a script."""
    assert read(workflow)["permissions"] == {}
    for job in jobs_of(workflow).values():
        publishes = any("pypi-publish" in step.get("uses", "") for step in job["steps"])
        assert job["permissions"] == ({"id-token": "write"} if publishes else {"contents": "read"})
        assert not publishes or (workflow.name == "release.yml" and job["environment"] == "pypi")
        for step in job["steps"]:
            assert "${{" not in step.get("run", "")
            if (used := step.get("uses")) is None:
                continue
            assert re.search(r"@[0-9a-f]{40}$", used) or used == (
                "pypa/gh-action-pypi-publish@release/v1"
            )
            if used.startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_declared_pythons_are_tested() -> None:
    """Each Python of the classifiers is tested on three systems, and no other one."""
    versions = [
        classifier.rpartition(" ")[2]
        for classifier in PROJECT["classifiers"]
        if re.search(r":: 3\.\d+$", classifier)
    ]
    matrix = jobs_of(GITHUB / "workflows/tests.yml")["tests"]["strategy"]["matrix"]
    assert matrix["python"] == versions
    assert {name.split("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}
    assert PROJECT["requires-python"] == f">={versions[0]}"


def test_workflows_run_sessions_that_exist() -> None:
    """What workflows ask of nox is there."""
    listing = printed_by("-m", "nox", "--list", "-f", REPOSITORY / "noxfile.py")
    sessions = set(re.findall(r"^[*-] (\S+)", listing, re.MULTILINE))
    asked = set()
    for workflow in WORKFLOWS:
        for job in jobs_of(workflow).values():
            for step in job["steps"]:
                words = shlex.split(step.get("run", ""))
                if "-s" in words:
                    asked.add(words[words.index("-s") + 1])
    pythons = jobs_of(GITHUB / "workflows/tests.yml")["tests"]["strategy"]["matrix"]["python"]
    asked = (asked - {"tests-$PYTHON"}) | {f"tests-{python}" for python in pythons}
    assert {"lint", "release"} < asked <= sessions


@pytest.mark.skipif(sys.platform != "linux", reason="is for Debian")
def test_packages_that_tests_need(tmp_path: Path) -> None:
    """What is missing is installed, one that Debian lacks stops no other, and nothing fails."""
    script = shutil.copy(REPOSITORY / ".ci/install_packages.py", tmp_path)
    (tmp_path / "packages.txt").write_text("# here\nold-one\nnew-one new\nlost\nshell sh\n")
    programs = {
        "apt-get": 'for one; do if [ $one = lost ]; then echo "no $one" >&2; exit 100; fi; done\n'
        'case $* in *install*) echo "$*" >> installed;; esac',
        "dpkg-query": 'for one; do :; done; case "$one $(cat installed)" in old-one*|*" $one"*) '
        "printf installed;; esac",
        "sh": "",
    }
    (tmp_path / "installed").touch()

    def run(path: str) -> str:
        return printed_by("-S", script, cwd=tmp_path, environ={"PATH": path})

    assert "no apt-get" in run(str(tmp_path))
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{text}\n")
        (tmp_path / name).chmod(0o755)
    if os.geteuid() == 0:
        assert run(str(tmp_path)) == "not installed: lost: no lost\ninstalled: new-one\n"
    else:
        assert run(str(tmp_path)).endswith("only root could: new-one, lost\n")


def test_both_ways_install_the_same_packages() -> None:
    """GitHub's machines and others install what one list names."""
    command = "python3? .ci/install_packages.py$"
    steps = jobs_of(GITHUB / "workflows/tests.yml")["tests"]["steps"]
    assert any(re.search(command, step.get("run", "")) for step in steps)
    assert re.search(command, (REPOSITORY / ".ci/run").read_text("utf-8"), re.MULTILINE)


def test_both_distributions_belong_together() -> None:
    """The command needs wheelfit-runtime in its own version, which needs nothing."""
    assert wheelfit.__version__ == wheelfit_runtime.__version__ == PROJECT["version"]
    assert RUNTIME["version"] == PROJECT["version"]
    assert f"wheelfit-runtime=={PROJECT['version']}" in PROJECT["dependencies"]
    assert RUNTIME["dependencies"] == []
    for name in ("requires-python", "license"):
        assert RUNTIME[name] == PROJECT[name]
    assert (REPOSITORY / "runtime/LICENSE").read_bytes() == (REPOSITORY / "LICENSE").read_bytes()


@NEEDS_BASH
def test_release_of_another_version(tmp_path: Path) -> None:
    """A tag that is not the version of the project publishes nothing."""
    steps = jobs_of(GITHUB / "workflows/release.yml")["build"]["steps"]
    (script,) = [step["run"] for step in steps if "GITHUB_REF_NAME" in step.get("run", "")]
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    version = PROJECT["version"]
    assert bash(script, tmp_path, {"GITHUB_REF_NAME": f"v{version}"}).returncode == 0
    assert bash(script, tmp_path, {"GITHUB_REF_NAME": f"v{version}1"}).returncode != 0


# --- the action for others ----------------------------------------------------------------------

INSTALL, RUN = (step["run"] for step in read(REPOSITORY / "action.yml")["runs"]["steps"])


@NEEDS_BASH
@pytest.mark.integration
def test_action_runs_the_command(tmp_path: Path) -> None:
    """The exit code is the command's, and no text that is given is run as code."""
    assert "${{" not in INSTALL + RUN
    (tmp_path / "temp/wheelfit/bin").mkdir(parents=True)
    (tmp_path / "temp/wheelfit/bin/wheelfit").symlink_to(COMMANDS / "wheelfit")
    build_wheel(tmp_path / "dist", "spam", "1")
    (tmp_path / "pyproject.toml").write_text(BAD_TABLE)

    def act(words: str) -> int:
        return bash(RUN, tmp_path, {"RUNNER_TEMP": str(tmp_path / "temp"), "RUN": words}).returncode

    assert act("check --full\n  --strict dist") == 0
    assert act("check pyproject.toml") == 9
    assert act("check $(touch run-as-code) `touch run-as-code` ; touch run-as-code") == 10
    assert act("check *.toml") == 10
    assert not (tmp_path / "run-as-code").exists()


@NEEDS_BASH
@pytest.mark.network
@pytest.mark.corpora
def test_action_installs_itself(tmp_path: Path) -> None:
    """The action runs the wheelfit of its own revision, with the extras that are asked for."""
    (tmp_path / "temp").mkdir()
    environ = {
        "RUNNER_TEMP": str(tmp_path / "temp"),
        "GITHUB_ACTION_PATH": str(REPOSITORY),
        "EXTRAS": "publish",
        "RUN": "--version",
    }
    installed = bash(INSTALL, tmp_path, environ)
    assert installed.returncode == 0, installed.stderr
    assert bash(RUN, tmp_path, environ).stdout.split()[-1] == PROJECT["version"]
    assert (tmp_path / "temp/wheelfit/bin/twine").exists()


# --- pre-commit -----------------------------------------------------------------------------------


def pre_commit(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run pre-commit with a memory of its own."""
    environ = {
        **os.environ,
        "PRE_COMMIT_HOME": str(folder / ".pre-commit-home"),
        "PATH": f"{COMMANDS}{os.pathsep}{os.environ['PATH']}",
    }
    return run_python("-m", "pre_commit", *words, cwd=folder, environ=environ, deadline=1200)


def committed(folder: Path) -> None:
    """Make a folder a repository, and add its files."""
    for words in ("init --quiet", "add --all"):
        subprocess.run(["git", *words.split()], cwd=folder, check=True)


def test_pre_commit_files(tmp_path: Path) -> None:
    """Both files are what pre-commit reads."""
    for command, name in (
        ("validate-config", ".pre-commit-config.yaml"),
        ("validate-manifest", ".pre-commit-hooks.yaml"),
    ):
        result = pre_commit(command, str(REPOSITORY / name), folder=tmp_path)
        assert (result.returncode, result.stderr) == (0, ""), result.stdout


@pytest.mark.integration
def test_hooks_find_faults(tmp_path: Path) -> None:
    """Hooks get the files that they are for, and fail for faults only."""
    hooks = [{**hook, "language": "system"} for hook in read(REPOSITORY / ".pre-commit-hooks.yaml")]
    for hook in hooks:
        del hook["language_version"], hook["additional_dependencies"]
    (tmp_path / ".pre-commit-config.yaml").write_text(
        json.dumps({"repos": [{"repo": "local", "hooks": hooks}]})
    )
    build_wheel(tmp_path / "wheels", "spam", "1")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/pyproject.toml").write_text("[project]\n")
    committed(tmp_path)
    passing = pre_commit("run", "--all-files", folder=tmp_path)
    assert passing.returncode == 0, passing.stdout
    assert passing.stdout.count("Passed") == len(hooks) == 2
    (tmp_path / "sub/pyproject.toml").write_text(BAD_TABLE)
    (tmp_path / "spam-1-variants.json").write_text("{}")
    (tmp_path / "package.json").write_text("{}")
    committed(tmp_path)
    failing = pre_commit("run", "--all-files", folder=tmp_path)
    assert failing.stdout.count("- exit code: 9") == 2, failing.stdout
    assert "package.json" not in failing.stdout


@pytest.mark.network
@pytest.mark.corpora
def test_hooks_install(tmp_path: Path) -> None:
    """A repository that names this one gets the hooks, in an environment of their own."""
    copy, other = tmp_path / "wheelfit", tmp_path / "other"
    ignore = shutil.ignore_patterns(".*", "tests", "fuzz", "conformance", "build", "dist")
    shutil.copytree(REPOSITORY, copy, ignore=ignore)
    shutil.copy(REPOSITORY / ".pre-commit-hooks.yaml", copy)
    committed(copy)
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *author, "commit", "--quiet", "-m", "all"], cwd=copy, check=True)
    other.mkdir()
    (other / "pyproject.toml").write_text(BAD_TABLE)
    committed(other)
    tried = pre_commit("try-repo", str(copy), "wheelfit-project", "--all-files", folder=other)
    assert "variant.provider" in tried.stdout, tried.stdout + tried.stderr
    assert "- exit code: 9" in tried.stdout


# --- the image of the index -----------------------------------------------------------------------


def instructions() -> dict[str, list[str]]:
    """Return what follows each instruction of the last stage of the Dockerfile, in order."""
    text = re.sub(r"\\\n\s*", "", (REPOSITORY / "Dockerfile").read_text())
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name == "FROM":
            found = {}
        if name.isupper():
            found.setdefault(name, []).append(rest)
    return found


@pytest.mark.integration
def test_image_serves_and_is_healthy(tmp_path: Path) -> None:
    """The command of the image serves what its health check asks for, and ends when asked."""
    lines = instructions()
    (folder,) = lines["VOLUME"]
    assert lines["USER"] == ["8942"]
    command = [*json.loads(lines["ENTRYPOINT"][0]), *json.loads(lines["CMD"][0])]
    command = [str(tmp_path) if word == folder else word for word in command]
    command = [str(COMMANDS / command[0]), *command[1:], "--port", "0"]
    server = subprocess.Popen(
        command,
        env=clean_environ(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None
        port = re.search(r":(\d+)", server.stdout.readline())
        assert port is not None
        (health,) = lines["HEALTHCHECK"]
        words = json.loads(health[health.index("[") :])
        assert words[0] == "python"

        def check(port: str) -> int:
            script = words[2].replace(lines["EXPOSE"][0], port)
            asked = [sys.executable, words[1], script]
            return subprocess.run(asked, stderr=subprocess.DEVNULL, check=False).returncode

        assert check(port[1]) == 0
    finally:
        server.terminate()
        assert server.wait(60) == 0
        if server.stdout is not None:
            server.stdout.close()
    assert check(port[1]) != 0


def test_image_has_what_the_wheel_is_built_of() -> None:
    """What Docker sends to the build is what the build backend reads, and no more."""
    ignored, *kept = [
        line
        for line in (REPOSITORY / ".dockerignore").read_text().splitlines()
        if not line.startswith("#")
    ]
    assert ignored == "*"
    assert sorted(line.removeprefix("!") for line in kept) == sorted(
        ["src", "runtime", "pyproject.toml", PROJECT["readme"], *PROJECT["license-files"]]
    )
