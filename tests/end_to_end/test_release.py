"""``nox -s release -- --dry-run`` with the files that it has built."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from programs import run_program

pytestmark = [pytest.mark.network]

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def dist(registry: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build and check the distributions, as the session does."""
    del registry
    for program in ("twine", "check_wheel_contents"):
        pytest.importorskip(program, reason="needs the tools of the session")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, ".ci/build_distributions.py", str(folder)]
    completed = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return folder


def test_distributions(dist: Path) -> None:
    """Both distributions and the families are reproducible, and pass every checker."""
    kinds = sorted(re.sub(r"-[\d.]+(-py3-none-any)?\.", ".", path.name) for path in dist.iterdir())
    assert kinds == [
        "wheelfit.tar.gz",
        "wheelfit.whl",
        "wheelfit_families.whl",
        "wheelfit_runtime.tar.gz",
        "wheelfit_runtime.whl",
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="caches are found as on Linux")
def test_rehearsal(dist: Path) -> None:
    """The distributions are signed, published, verified, installed from the index, and run."""
    for library in ("pypi_attestations", "twine", "uvicorn"):
        pytest.importorskip(library, reason="needs the extras of the session")
    script = str(REPOSITORY / ".ci/rehearse_release.py")
    own = ("WHEELFIT_", "COLUMNS")  # a width would fold the lines that are looked for
    environ = {name: text for name, text in os.environ.items() if not name.startswith(own)}
    completed = run_program(
        sys.executable, script, str(dist),
        env=environ | {"NO_PROXY": "127.0.0.1", "WHEELFIT_CONFIG_FILE": os.devnull},
    )  # fmt: skip
    said = completed.stdout + completed.stderr
    assert "5 files published" in said
    assert len(re.findall(r"whl: published by github:\S+/wheelfit$", said, re.MULTILINE)) == 3
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nwheelfit {version}\n" in said
    assert not list(dist.glob("*.attestation")), "files of a rehearsal may not be released"
