"""A home folder that the user may not search, as in a container with another user."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import run_program
from sampled_cases import sampled

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX are meant")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Create a home folder that may not be searched."""
    folder = tmp_path / "closed"
    folder.mkdir(mode=0)
    yield folder
    folder.chmod(0o700)


def run(home: Path, *words: str | Path, code: int, **environ: str) -> str:
    """Run wheelfit without root's permission to search folders; return its output."""
    start: list[str] = []
    if os.geteuid() == 0:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            pytest.skip("root may search every folder, and setpriv is missing")
        rights = "-dac_override,-dac_read_search"
        start = [setpriv, "--bounding-set", rights, "--inh-caps", "-all"]
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PIP_", "WHEELFIT_", "XDG_")) and name != "VIRTUAL_ENV"
    }
    completed = run_program(
        *start, sys.executable, "-m", "wheelfit", *words, code=code, timeout=120, cwd=home.parent,
        env={**kept, "HOME": str(home), **environ},
    )  # fmt: skip
    return " ".join(completed.stderr.split())


@pytest.mark.parametrize(
    ("words", "environ", "place", "hint"),
    sampled(
        fast={0, 3},
        cases=[
            (["probe"], {}, ".config/wheelfit/wheelfit.toml", "WHEELFIT_CONFIG_FILE"),
            (
                ["uninstall", "some", "--target", "."],
                {"WHEELFIT_CONFIG_FILE": os.devnull},
                ".pip/pip.conf",
                "PIP_CONFIG_FILE",
            ),
            (
                ["probe"],
                {"WHEELFIT_CONFIG_FILE": os.devnull},
                ".config/wheelfit/providers.toml",
                "HOME",
            ),
            (["cache", "info"], {}, ".cache/wheelfit", "--cache-dir"),
        ],
    ),
    ids=["configuration", "pip", "trusted plugins", "cache"],
)
def test_unreadable_file(
    home: Path, words: list[str], environ: dict[str, str], place: str, hint: str
) -> None:
    """The error names the file and a variable, and no setting is skipped."""
    result = run(home, *words, code=1, **environ)
    assert "cannot be read: Permission denied" in result
    assert f"where: {home / place}" in result
    assert hint in result.partition("hint: ")[2]


def test_unreadable_cache(home: Path) -> None:
    """An unreadable cache is not used."""
    nothing = {"WHEELFIT_CONFIG_FILE": os.devnull, "PIP_CONFIG_FILE": os.devnull}
    assert "No packages" in run(home, "list", "--target", ".", code=0, **nothing)
