"""Claims about what a lock need not name to stay."""

from __future__ import annotations

from pathlib import Path

from wheelfit.installation.installed import scan
from wheelfit.operations.sync import environment_tools

ENVIRONMENT = {"python_version": "3.12", "sys_platform": "linux"}


def write(folder: Path, name: str, *requires: str) -> None:
    """Write the record of a distribution."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0"]
    lines += [f"Requires-Dist: {one}" for one in requires]
    (info / "METADATA").write_text("\n".join(lines) + "\n\n")


def test_what_an_environment_is_managed_with(tmp_path: Path) -> None:
    """Pip and its kin stay, there or not, and wheelfit with all that it needs here."""
    write(tmp_path, "wheelfit", "first", "elsewhere; sys_platform == 'win32'", "missing")
    write(tmp_path, "first", "second>=1")
    write(tmp_path, "second", "first")
    write(tmp_path, "elsewhere")
    write(tmp_path, "other", "needed")
    write(tmp_path, "needed")
    found = environment_tools(scan([tmp_path]).installed, ENVIRONMENT)
    assert found == {"pip", "setuptools", "wheel", "wheelfit", "first", "second"}


def test_without_wheelfit(tmp_path: Path) -> None:
    """Where it is not installed nothing is kept for its sake."""
    write(tmp_path, "first")
    assert environment_tools(scan([tmp_path]).installed, ENVIRONMENT) == {
        "pip",
        "setuptools",
        "wheel",
    }


def test_needs_that_cannot_be_read(tmp_path: Path) -> None:
    """They are passed over: no environment is refused for them."""
    write(tmp_path, "wheelfit", "not a requirement !!", "first")
    write(tmp_path, "first")
    assert "wheelfit" in environment_tools(scan([tmp_path]).installed, ENVIRONMENT)
