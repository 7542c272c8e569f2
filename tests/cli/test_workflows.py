"""Workflows of the documentation, without services and containers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from cli.running import Runner
from ruamel.yaml import YAML

from wheelfit.building.matrix import platform_of
from wheelfit.testing.wheels import build_wheel
from wheelfit.wheels.archive import WheelArchive

pytestmark = pytest.mark.integration

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "build-a-matrix.md").read_text()
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="repairs as on Linux")
PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "native"
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
labels = ["v3", "null"]
"""


def block(mark: str) -> str:
    """Return a block of the page by its comment."""
    (found,) = re.findall(rf"<!-- {mark} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
    assert isinstance(found, str)
    return found


def schema(name: str) -> Any:
    """Return the schema of a service."""
    folder = files("check_jsonschema") / "builtin_schemas" / "vendor"
    return json.loads((folder / f"{name}.json").read_bytes())


@pytest.mark.parametrize(
    ("mark", "service"),
    [
        ("github: build", "github-workflows"),
        ("github: cibuildwheel", "github-workflows"),
        ("gitlab", "gitlab-ci"),
        ("gitlab: template", "gitlab-ci"),
    ],
)
def test_workflows_follow_the_schemas(mark: str, service: str) -> None:
    """Each example follows the schema of its service."""
    document = YAML(typ="safe", pure=True).load(block(mark))
    jsonschema.validate(document, schema(service))


def test_workflows_use_existing_values(tmp_path: Path, run: Runner) -> None:
    """Each value that an example uses is in the matrix."""
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (job, *_) = json.loads(run("matrix", tmp_path, "--format", "github").out)["include"]
    used = set(re.findall(r"\$\{\{ matrix\.(\w+) \}\}", PAGE))
    assert used
    assert used <= job.keys()


# --- cibuildwheel -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a project, and the wheel that a build in a container would leave."""
    folder = tmp_path_factory.mktemp("native")
    text = f"{PROJECT}\n{block('cibuildwheel')}"
    (folder / "pyproject.toml").write_text(text)
    code = Path(msgspec._core.__file__ or "")  # some compiled code
    tag = f"cp{PYTHON.replace('.', '')}"
    build_wheel(
        folder / "built",
        "native",
        "1",
        tag=f"{tag}-{tag}-linux_{os.uname().machine}",
        files={f"native{code.suffix}": code.read_bytes()},
    )
    return folder


def test_identifiers(native: Path, run: Runner) -> None:
    """The identifiers of jobs are those of cibuildwheel."""
    jobs = json.loads(run("matrix", native, "--format", "github", "--job-per", "target").out)[
        "include"
    ]
    assert len(jobs) == 4
    for job in jobs:
        asked = ["--print-build-identifiers", "--only", job["identifier"], "."]
        command = [sys.executable, "-m", "cibuildwheel", *asked]
        completed = subprocess.run(command, cwd=native, check=True, capture_output=True, text=True)
        assert completed.stdout == f"{job['identifier']}\n"


@ON_LINUX
@pytest.mark.parametrize("label", ["v3", "null"])
def test_repair_command(native: Path, tmp_path: Path, label: str) -> None:
    """The repair command leaves the variant of auditwheel's wheel."""
    from cibuildwheel.options import CommandLineArguments, compute_options
    from cibuildwheel.util.helpers import prepare_command

    arguments = CommandLineArguments.defaults()
    arguments.package_dir = native
    machine = platform_of("Linux", os.uname().machine)
    identifier = f"cp{PYTHON.replace('.', '')}-{machine}"
    arguments.only = identifier
    options = compute_options("linux", arguments, env={})
    asked = options.build_options(identifier)
    assert (asked.audit_command, asked.test_selector(identifier)) == ([], False)
    (wheel,) = (native / "built").iterdir()
    made = tmp_path / "repaired"
    made.mkdir()
    command = prepare_command(
        asked.repair_command, wheel=wheel, dest_dir=made, package=native, project=native
    )
    programs = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "LABEL": label, "PATH": programs}
    subprocess.run(["sh", "-c", command], env=environ, check=True, capture_output=True)
    (variant,) = made.iterdir()
    assert variant.name.endswith(f"_{os.uname().machine}-{label}.whl")
    assert "manylinux" in variant.name
    with WheelArchive(variant) as archive:
        assert f"{archive.dist_info}/variant.json" in archive


@ON_LINUX
def test_variants_after_cibuildwheel(native: Path, tmp_path: Path) -> None:
    """The workflow step makes each label of a repaired wheel, and keeps the plain one."""
    workflow = YAML(typ="safe", pure=True).load(block("github: cibuildwheel"))
    (script,) = [
        step["run"]
        for step in workflow["jobs"]["build"]["steps"]
        if step.get("name") == "make the variants"
    ]
    shutil.copy(native / "pyproject.toml", tmp_path)
    auditwheel = [sys.executable, "-m", "auditwheel", "repair", "-w", str(tmp_path / "wheelhouse")]
    (wheel,) = (native / "built").iterdir()
    programs = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": programs}
    subprocess.run([*auditwheel, str(wheel)], env=environ, check=True, capture_output=True)
    script = script.replace("${{ matrix.labels }}", "- v3 null")
    bash = ["bash", "-eo", "pipefail", "-c", script]
    subprocess.run(bash, cwd=tmp_path, env=environ, check=True, capture_output=True)
    names = sorted(path.name for path in (tmp_path / "dist").iterdir())
    ends = [name.rpartition(os.uname().machine)[2] for name in names]
    assert ends == ["-null.whl", "-v3.whl", ".whl"]
