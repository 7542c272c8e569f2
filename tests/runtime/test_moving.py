"""The guide to leaving suffixes is followed: to variant wheels, and to variants of a loader."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import Runner
from projects.writing import write_project
from python_runs import RUNTIME_SOURCE, plain_environ, printed_by
from runtime.declaring import declaration
from web_servers import served

from wheelfit.testing.wheels import build_wheel
from wheelfit_runtime.loader.declaration_files import FOLDER
from wheelfit_runtime.platforms.system_view import architecture_of_this_process

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "move-from-suffix-packages.md"
CU12 = "nvidia :: cuda_version_lower_bound :: 12.0"
ARCHITECTURES = ["nvidia :: sm_arch :: 70_real", "nvidia :: sm_arch :: 90_real"]
NEEDS = {"cu12": [CU12, *ARCHITECTURES], "avx2": ["x86_64 :: level :: v3"], "generic": []}
DRIVER = "WHEELFIT_OVERRIDE_NVIDIA_CUDA_VERSION_LOWER_BOUND"
GPU_CODE = "WHEELFIT_OVERRIDE_NVIDIA_SM_ARCH"
LEVEL = "WHEELFIT_OVERRIDE_X86_64_LEVEL"
WHICH = "import spam; print(spam.which)"
_BACKEND = """
def build_wheel(folder, config_settings=None, metadata_directory=None):
    lines = "from wheelfit_runtime import load\\nload(__name__, into=__name__)\\n"
    return write(folder, STEM + "-py3-none-any.whl", {"spam/__init__.py": lines, **records()})
"""

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform == "win32", reason="environments are those of POSIX"),
    pytest.mark.skipif(architecture_of_this_process() != "x86_64", reason="it is about AVX2"),
]


def _block(section: str, number: int = 0) -> str:
    """Return a block of TOML of the guide, as its readers copy it."""
    (text,) = re.findall(
        rf"^## {section}$(.*?)(?=^## |\Z)", GUIDE.read_text(), re.MULTILINE | re.DOTALL
    )
    found: str = re.findall(r"^```toml$\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[number]
    return found


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """Return a folder of wheels that is going to be an index."""
    # What runs is this checkout; its wheel only has to be there for those who resolve.
    build_wheel(tmp_path / "dist", "wheelfit", "1.0", files={"no_code_here.txt": ""})
    return tmp_path / "dist"


@pytest.fixture
def url(dist: Path) -> Iterator[str]:
    """Serve the folder of wheels as any plain server does, and give the URL of its index."""
    with served(dist) as origin:
        yield f"{origin}/simple/"


class Machine:
    """Be a machine with an environment, and whatever installs into it.

    :param folder: of the environment.
    :param found: what the machine supports, as variables.
    """

    def __init__(self, folder: Path, **found: str) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        self.python = folder / "bin" / "python"
        self._environ = {**plain_environ(), "PYTHONPATH": str(RUNTIME_SOURCE), **found}

    def pip(self, pip: Path, url: str, *words: str) -> None:
        """Install something with pip, which knows nothing of variants."""
        command = [str(pip), "--isolated", f"--python={self.python}", "install", "-q", "-i", url]
        completed = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
        assert completed.returncode == 0, completed.stderr

    def imports(self, **more: str) -> str:
        """Return which implementation is imported."""
        environ = {**self._environ, **more}
        return printed_by("-c", WHICH, python=self.python, environ=environ).strip()

    def has(self) -> set[str]:
        """Return the distributions that are installed."""
        return {
            path.name.split("-")[0] for path in self.python.parents[1].glob("lib/*/*/*.dist-info")
        }


GPU = {DRIVER: "12.8,12.4,12.0", GPU_CODE: "90_real,90_virtual", LEVEL: "v3,v2,v1"}
NEW_GPU = {**GPU, DRIVER: "13.0,12.8,12.4,12.0"}
V100 = {**NEW_GPU, GPU_CODE: "70_real,70_virtual"}
MAXWELL = {**GPU, GPU_CODE: "50_real,50_virtual"}
NO_GPU = {DRIVER: "", GPU_CODE: "", LEVEL: "v3,v2,v1"}
OLD = {DRIVER: "", GPU_CODE: "", LEVEL: "v1"}


def _set(monkeypatch: pytest.MonkeyPatch, found: dict[str, str]) -> None:
    for name, value in found.items():
        monkeypatch.setenv(name, value)


def test_to_variant_wheels(
    run: Runner,
    dist: Path,
    url: str,
    tmp_path: Path,
    pip: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Packages that are all `import spam` become one, of which each machine gets its build."""
    for suffix in ("cu13", "cu12", "cpu"):
        files = {"spam/__init__.py": f"which = {suffix!r}\n"}
        build_wheel(tmp_path / "wheels", f"spam-{suffix}", "2.0", files=files)
    (tmp_path / "repack.toml").write_text(_block("To variant wheels"))
    run(
        *("wheel", "repack", "--config", "repack.toml", "--provider", "nvidia"),
        *("-o", "dist", "wheels"),
    )
    run("index", "generate", dist)
    machines = (
        (GPU, "cu12"),
        (NEW_GPU, "cu13"),
        (V100, "cu12"),  # for which CUDA 13 has no code, whatever its driver is
        (MAXWELL, "cpu"),
        (NO_GPU, "cpu"),
    )
    for number, (found, which) in enumerate(machines):
        _set(monkeypatch, found)
        machine = Machine(tmp_path / f"machine-{number}", **found)
        run("install", "--python", machine.python, "-i", url, "spam")
        assert machine.imports() == which
    machine = Machine(tmp_path / "pip")
    machine.pip(pip, url, "spam")
    assert machine.imports() == "cpu"


def test_loader_and_variants(
    run: Runner,
    dist: Path,
    url: str,
    tmp_path: Path,
    pip: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Variants of the loader bring what suits the machine; pip brings what runs everywhere."""
    for name, needs in NEEDS.items():
        files = {
            f"spam_{name}/__init__.py": f"which = {name!r}\n",
            f"{FOLDER}/spam-{name}.json": json.dumps(declaration(f"spam-{name}", *needs)),
        }
        build_wheel(dist, f"spam-{name}", "3.0", files=files, requires=["spam>=3"])
    project = write_project(
        tmp_path / "spam", "spam", "3.0", dependencies=["wheelfit"], backend=_BACKEND
    )
    words = [f"--variant={name}={', '.join(needs)}" for name, needs in NEEDS.items() if needs]
    run("init", project, *words)
    with (project / "pyproject.toml").open("a") as file:
        file.write(_block("From the loader to variants"))
    run(*("build", project, "--all", "-o", dist, "--no-isolation", "--python", sys.executable))
    run("check", dist)
    run("index", "generate", dist)

    # Each machine gets the implementation that suits it, and no other.
    machines = ((MAXWELL, "avx2"), (GPU, "cu12"), (NO_GPU, "avx2"), (OLD, "generic"))
    for number, (found, which) in enumerate(machines):
        _set(monkeypatch, found)
        machine = Machine(tmp_path / f"machine-{number}", **found)
        run("install", "--python", machine.python, "-i", url, "spam")
        assert machine.has() == {"spam", f"spam_{which}", "wheelfit"}
        assert machine.imports() == which

    # Back to plain pip in such an environment: what is there stays, more may come.
    machine = Machine(tmp_path / "machine-1", **GPU)
    machine.pip(pip, url, "spam", "spam-generic")
    assert machine.has() == {"spam", "spam_cu12", "spam_generic", "wheelfit"}
    assert (machine.imports(), machine.imports(**OLD)) == ("cu12", "generic")

    # The machine lost its driver: that is told, and mended if somebody wants it.
    run("doctor", "--python", machine.python, code=13)
    run("install", "--refit", "--python", machine.python, "-i", url)
    run("doctor", "--python", machine.python)
    assert machine.imports(**OLD) == "generic"

    # And pip alone.
    machine = Machine(tmp_path / "pip", **GPU)
    machine.pip(pip, url, "spam")
    assert (machine.has(), machine.imports()) == ({"spam", "spam_generic", "wheelfit"}, "generic")
