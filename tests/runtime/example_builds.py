"""The example of a loader, built and installed as its readers would do it."""

from __future__ import annotations

import shutil
from pathlib import Path

from programs import run_program
from python_runs import plain_environ

EXAMPLES = Path(__file__).parents[2] / "examples"
BUILDS = ("generic", "avx2", "avx512")
BACKEND = ("setuptools==80.9.0",)


def clean_environment() -> dict[str, str]:
    """Return the environment without what would decide for the example."""
    return plain_environ("SUMS_", "CFLAGS")


def build_example(python: Path, folder: Path) -> Path:
    """Build the package and its implementations, one after the other in one tree.

    :param python: has the build backend, and pip.
    """
    source = shutil.copytree(EXAMPLES / "loader-c-extension", folder / "source")
    command = [str(python), "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    for project, build in (("sums", ""), *(("implementations", build) for build in BUILDS)):
        words = (*command, f"--wheel-dir={folder}/wheels", source / project)
        run_program(*words, env={**clean_environment(), "SUMS_BUILD": build})
    return folder / "wheels"


def install_builds(python: Path, wheels: Path, place: Path, *builds: str) -> None:
    """Install the package and some implementations, as ``avx2``, into a folder, with pip."""
    command = [str(python), "-m", "pip", "install", "--no-deps", "--no-index"]
    names = ["sums", *(f"sums-{build}" for build in builds)]
    run_program(*command, f"--target={place}", f"--find-links={wheels}", *names)
