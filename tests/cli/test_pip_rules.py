"""Pip's installation settings, which apply to wheelfit too."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import CommandResult, Runner, tree
from cli.workplace import Workplace

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel


class PipSetup(Workplace):
    """Commands with a configuration file of pip."""

    def write_configuration(self, text: str) -> Path:
        """Write pip's configuration file."""
        path = self.folder / "pip.conf"
        path.write_text(text)
        return path


@pytest.fixture
def pip_setup(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PipSetup]:
    """Yield a setup with an index of a project with a pre-release."""
    for version in ("1.0", "2.0", "3.0rc1"):
        build_wheel(tmp_path / "wheels", "plain", version)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    with RecordingIndex(tmp_path / "wheels") as index:
        yield PipSetup(run, tmp_path, index, "--no-cache-dir")


def planned_version(said: CommandResult) -> str:
    """Return the version of the single package that would be installed."""
    (package,) = said.object["install"]
    return str(package["version"])


def test_constraints(pip_setup: PipSetup) -> None:
    """Pip's constraints apply together with those of the command line."""
    limits = pip_setup.folder / "limits.txt"
    limits.write_text("plain<2\n")
    pip_setup.write_configuration(f"[install]\nconstraint = {limits}\n")
    assert planned_version(pip_setup.install("--dry-run", "--json", "plain")) == "1.0"
    assert pip_setup.run("explain", *pip_setup.sources, "plain").out.startswith("plain 1.0 ")
    (pip_setup.folder / "more.txt").write_text("plain>1\n")
    result = pip_setup.install("-c", pip_setup.folder / "more.txt", "plain", code=3)
    assert str(limits) in result.err


def test_newer_release_excluded(pip_setup: PipSetup) -> None:
    """A constraint that the user may not expect is named where it excludes the newest release."""
    limits = pip_setup.folder / "limits.txt"
    limits.write_text("plain<2\n")
    pip_setup.write_configuration(f"[install]\nconstraint = {limits}\n")
    (held_back,) = pip_setup.install("--dry-run", "--json", "plain").object["held_back"]
    reason = f"is excluded by the constraint plain<2 ({limits}:1)"
    assert held_back == {"name": "plain", "version": "1.0", "latest": "2.0", "reason": reason}
    for words in (["plain<2"], ["-c", limits, "plain<1.5"]):  # the user excludes it as well
        assert pip_setup.install("--dry-run", "--json", *words).object["held_back"] == []
    pip_setup.write_configuration("")
    result = pip_setup.install("--dry-run", "--json", "-c", limits, "plain")
    assert result.object["held_back"] == []  # the user named the file


def test_missing_constraints_file(pip_setup: PipSetup) -> None:
    """The error about a missing file names the setting."""
    path = pip_setup.write_configuration("[install]\nconstraint = /nowhere/limits.txt\n")
    result = pip_setup.install("plain", code=1)
    assert "/nowhere/limits.txt" in result.err
    assert f"constraint in {path}" in result.err


def test_pre_releases(pip_setup: PipSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pre-releases are allowed if pip allows them."""
    monkeypatch.setenv("PIP_PRE", "1")
    assert planned_version(pip_setup.install("--dry-run", "--json", "plain")) == "3.0rc1"
    assert pip_setup.run("explain", *pip_setup.sources, "plain").out.startswith("plain 3.0rc1 ")


def test_require_hashes(pip_setup: PipSetup) -> None:
    """A package without a hash is refused, and the setting is named."""
    path = pip_setup.write_configuration("[global]\nrequire-hashes = true\n")
    result = pip_setup.install("plain", code=1)
    assert f"required by require-hashes in {path} [global], and plain has none" in result.err
    assert not pip_setup.target.exists()


def test_require_virtualenv(pip_setup: PipSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only virtual environments are changed; the refusal names the setting."""
    monkeypatch.setenv("PIP_REQUIRE_VIRTUALENV", "true")
    base = getattr(sys, "_base_executable")  # noqa: B009
    if sys.prefix == sys.base_prefix:
        base = sys.executable
    environment = pip_setup.folder / "environment"
    subprocess.run([base, "-m", "venv", "--without-pip", environment], check=True)
    pip_setup.target.mkdir()

    def outside_the_cache() -> dict[str, str]:
        found = tree(pip_setup.folder)
        return {name: what for name, what in found.items() if name.split("/")[0] != "cache"}

    before = outside_the_cache()
    for words in (["install", *pip_setup.sources, "plain"], ["uninstall", "plain"]):
        place = ["--python", base, "--target", pip_setup.target]
        for dry in ((), ("--dry-run",)):
            error = pip_setup.run(*words, *place, *dry, "--json", code=7).error
            assert error["code"] == "refused"
            assert "PIP_REQUIRE_VIRTUALENV" in error["note"]
    assert outside_the_cache() == before
    pip_setup.run("install", *pip_setup.sources, "plain", "--python", environment)
    pip_setup.run("uninstall", "plain", "--python", environment)


@pytest.mark.parametrize("name", ["target", "prefix", "root"])
def test_target_settings(name: str, pip_setup: PipSetup) -> None:
    """A target in pip's settings is refused, with the option in the hint."""
    path = pip_setup.write_configuration(f"[install]\n{name} = {pip_setup.folder / 'there'}\n")
    error = pip_setup.run(
        "install", *pip_setup.sources, "--python", sys.executable, "--json", "plain", code=7
    ).error
    assert error["code"] == "refused"
    assert f"{name} in {path}" in error["note"]
    assert f"--{name} {pip_setup.folder / 'there'}" in error["hint"]
    pip_setup.install("plain")  # the user has said where
    pip_setup.run("explain", *pip_setup.sources, "plain")  # which puts nothing anywhere


def test_uploaded_prior_to(pip_setup: PipSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index without upload times is refused if pip has a limit."""
    monkeypatch.setenv("PIP_UPLOADED_PRIOR_TO", "P7D")
    result = pip_setup.install("plain", code=3)
    assert "lists no upload times" in result.err
    assert not pip_setup.target.exists()
