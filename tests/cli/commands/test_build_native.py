"""``wheelfit build`` warns of code that needs a newer processor than the wheel claims."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cli.running import Runner
from projects.writing import write_project
from wheels.binaries.extension_modules import DISPATCHING, MODULE, compiled

pytestmark = pytest.mark.integration

BACKEND = """
class Content(str):
    def encode(self):
        with open(os.path.join(HERE, "fast.so"), "rb") as file:
            return file.read()


def build_wheel(folder, config_settings=None, metadata_directory=None):
    files = {NAME + "/fast.so": Content(), **records()}
    return write(folder, STEM + "-py3-none-any.whl", files)
"""
TABLE = """
[variant.default-priorities]
namespace = ["x86_64"]
[variant.providers.x86_64]
requires = ["x86-64-variant-provider<1"]
[variant.variants.v2]
x86_64.level = ["v2"]
[variant.variants.v3]
x86_64.level = ["v3"]
"""


@pytest.mark.parametrize(
    ("source", "march", "options", "standing"),
    [
        (MODULE, "x86-64-v3", [], "claims no level"),
        (MODULE, "x86-64-v3", ["--variant", "v2"], "claims v2"),
        (MODULE, "x86-64-v3", ["--variant", "v3"], None),
        (MODULE, "x86-64-v4", ["--variant", "v3"], "claims v3"),
        (MODULE, "x86-64", [], None),
        (MODULE + DISPATCHING, "x86-64", [], None),
    ],
    ids=["plain", "lower", "as claimed", "higher", "baseline", "chosen"],
)
def test_native_code_causes_a_warning(
    source: str, march: str, options: list[str], standing: str | None, tmp_path: Path, run: Runner
) -> None:
    """P-102: code of -march=native causes a warning with counts at build time."""
    project = write_project(tmp_path / "demo", "demo", backend=BACKEND)
    with (project / "pyproject.toml").open("a") as file:
        file.write(TABLE)
    (project / "fast.so").write_bytes(compiled(tmp_path / "sources", source, march=march))
    words = ("--no-isolation", "--python", sys.executable, "-o", tmp_path / "dist")
    result = run("build", project, *options, *words)
    warnings = [line for line in result.err.splitlines() if "illegal instruction" in line]
    assert len(warnings) == (standing is not None), result.err
    for line in warnings:
        assert "demo/fast.so has" in line
        assert f"the wheel {standing}" in line
        assert "-march=native" in line
