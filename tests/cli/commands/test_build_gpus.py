"""``wheelfit build`` checks the GPU code of wheels against their labels."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.running import CommandResult, Runner
from projects.writing import write_project
from sampled_cases import sampled

TABLE = """
[variant.default-priorities]
namespace = ["nvidia", "amd"]
[variant.providers.nvidia]
requires = ["nvidia-variant-provider>=0.0.1,<1"]
plugin-api = "nvidia_variant_provider.plugin:NvidiaVariantPlugin"
[variant.providers.amd]
requires = ["amd-variant-provider>=0.0.1,<1"]
[variant.variants.ampere]
nvidia.sm_arch = ["80_real", "90_virtual"]
[variant.variants.hopper]
nvidia.sm_arch = ["90a_real"]
"""
BACKEND = '''
"""Compiles as nvcc does: for the architectures of a variable, or for the oldest one."""
import re
from wheelfit.testing.binaries import elf_file, fat_binary

class Binary(bytes):
    def encode(self):
        return bytes(self)

def code():
    options = os.environ.get("NVCC_APPEND_FLAGS", "")
    return re.findall(",code=([^ ]+)", options) or ["sm_75"]

def build_wheel(folder, config_settings=None, metadata_directory=None):
    with open(os.path.join(HERE, "count"), "a") as file:
        file.write("x")
    images = [f"{one} 8.7" if one.startswith("compute") else one for one in code()]
    library = elf_file(sections={".nv_fatbin": fat_binary(*images)} if images else {})
    files = {"demo/kernel.so": Binary(library), **records()}
    files[INFO + "/WHEEL"] = files[INFO + "/WHEEL"].replace("none-any", "none-linux_x86_64")
    return write(folder, STEM + "-py3-none-linux_x86_64.whl", files)
'''


class Builder:
    """Builds of one project."""

    def __init__(self, run: Runner, folder: Path) -> None:
        self._run = run
        self._folder = folder

    def build(self, *words: str, compiler: str = "", code: int = 0) -> CommandResult:
        """Build a project with a simulated compiler, without isolation."""
        backend = BACKEND + compiler
        project = write_project(self._folder / "demo", "demo", backend=backend)
        with (project / "pyproject.toml").open("a") as file:
            file.write(TABLE)
        fixed = ("--no-index", "--no-isolation", "-o", self._folder / "dist", "--json", "--flags")
        return self._run("build", project, *fixed, *words, code=code)

    @property
    def files(self) -> list[str]:
        """The names of the built wheels."""
        return sorted(path.name for path in self._folder.glob("dist/*.whl"))


@pytest.fixture
def builder(run: Runner, tmp_path: Path) -> Builder:
    """Return a builder in a temporary folder."""
    return Builder(run, tmp_path)


def test_architectures_follow_from_the_label(builder: Builder) -> None:
    """B-60: the compiler gets the architectures of the label, and the wheel has their code."""
    report = builder.build("--all", "--no-plain").object
    assert [wheel["flags"] for wheel in report["wheels"]] == [["sm_80", "compute_90"], ["sm_90a"]]
    assert report["warnings"] == []
    assert len(builder.files) == 2


def test_no_comparison_for_gpus(builder: Builder, tmp_path: Path) -> None:
    """No plain wheel is built to compare GPU variants with."""
    builder.build("--variant", "hopper")
    assert (tmp_path / "demo" / "count").read_text() == "x"


@pytest.mark.integration
def test_label_without_its_code(builder: Builder) -> None:
    """A wheel without code for the GPU of its label is an error."""
    deaf = 'def code():\n    return ["sm_75"]\n'
    error = builder.build("--variant", "hopper", compiler=deaf, code=1).object["error"]
    assert error["code"] == "build-failed"
    assert "it claims 90a_real, but has no code for 9.0, only for sm_75" in error["message"]
    assert builder.files == []


@pytest.mark.parametrize(
    ("architectures", "told"),
    sampled(
        fast={1},
        cases=[
            ([], "it claims sm_arch, but no binary in it has code for GPUs"),
            (["sm_90a", "sm_75"], "it contains sm_75, which no claimed sm_arch covers"),
        ],
    ),
)
def test_unexpected_code(architectures: list[str], told: str, builder: Builder) -> None:
    """Missing or unrequested code causes a warning."""
    report = builder.build(
        "--variant", "hopper", compiler=f"def code():\n    return {architectures}\n"
    ).object
    assert any(told in warning for warning in report["warnings"])
    assert len(builder.files) == 1
