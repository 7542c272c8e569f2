"""``wheelfit build`` reads the code for GPUs back, and refuses a label that it contradicts."""

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


class Yard:
    """Build one project."""

    def __init__(self, run: Runner, folder: Path) -> None:
        self._run = run
        self._folder = folder

    def build(self, *words: str, compiler: str = "", code: int = 0) -> CommandResult:
        """Build a project whose compiler is another one, without an environment for it."""
        backend = BACKEND + compiler
        project = write_project(self._folder / "demo", "demo", backend=backend)
        with (project / "pyproject.toml").open("a") as file:
            file.write(TABLE)
        fixed = ("--no-index", "--no-isolation", "-o", self._folder / "dist", "--json", "--flags")
        return self._run("build", project, *fixed, *words, code=code)

    @property
    def files(self) -> list[str]:
        """The names of the wheels that are there."""
        return sorted(path.name for path in self._folder.glob("dist/*.whl"))


@pytest.fixture
def yard(run: Runner, tmp_path: Path) -> Yard:
    """Give a place to build in."""
    return Yard(run, tmp_path)


def test_each_label_has_its_code(yard: Yard) -> None:
    """B-60: what compilers are told follows from the label, and is what the wheel has."""
    report = yard.build("--all", "--no-plain").object
    assert [wheel["flags"] for wheel in report["wheels"]] == [["sm_80", "compute_90"], ["sm_90a"]]
    assert report["warnings"] == []
    assert len(yard.files) == 2


def test_no_plain_wheel_is_built_to_compare_with(yard: Yard, tmp_path: Path) -> None:
    """Architectures of GPUs leave the code for processors as it is, and kernels take hours."""
    yard.build("--variant", "hopper")
    assert (tmp_path / "demo" / "count").read_text() == "x"


@pytest.mark.integration
def test_a_label_that_lies(yard: Yard) -> None:
    """A project that names its architectures itself makes a wheel that no such GPU can run."""
    deaf = 'def code():\n    return ["sm_75"]\n'
    error = yard.build("--variant", "hopper", compiler=deaf, code=1).object["error"]
    assert error["code"] == "build-failed"
    assert "it claims 90a_real, and has no code for 9.0: only sm_75" in error["message"]
    assert yard.files == []


@pytest.mark.parametrize(
    ("architectures", "told"),
    sampled(
        fast={1},
        cases=[
            ([], "it claims sm_arch, and no binary in it has code for GPUs"),
            (["sm_90a", "sm_75"], "it contains sm_75, which no claimed sm_arch covers"),
        ],
    ),
)
def test_what_is_not_as_it_was_asked_for(architectures: list[str], told: str, yard: Yard) -> None:
    """Code that is missing altogether, or that was not asked for, is told."""
    report = yard.build(
        "--variant", "hopper", compiler=f"def code():\n    return {architectures}\n"
    ).object
    assert any(told in warning for warning in report["warnings"])
    assert len(yard.files) == 1
