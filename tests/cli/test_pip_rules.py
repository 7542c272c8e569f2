"""What pip is told about installing holds for wheelfit too."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.running import CommandResult, Runner, tree

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel


class Configured:
    """Run commands while pip has a configuration."""

    def __init__(self, run: Runner, folder: Path, index: RecordingIndex) -> None:
        self.run = run
        self.folder = folder
        self.target = folder / "target"
        self.sources = ["-i", index.url, "--no-cache-dir"]

    def say(self, text: str) -> Path:
        """Write pip's file."""
        path = self.folder / "pip.conf"
        path.write_text(text)
        return path

    def install(self, *words: str | Path, code: int = 0) -> CommandResult:
        """Install into a folder."""
        return self.run("install", *self.sources, "--target", self.target, *words, code=code)


@pytest.fixture
def configured(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Configured]:
    """Serve a project with a pre-release, and let pip have a file of its own."""
    for version in ("1.0", "2.0", "3.0rc1"):
        build_wheel(tmp_path / "index", "plain", version)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    with RecordingIndex(tmp_path / "index") as index:
        yield Configured(run, tmp_path, index)


def planned(said: CommandResult) -> str:
    """Return the version of the one package that would be installed."""
    (package,) = said.object["install"]
    return str(package["version"])


def test_constraints(configured: Configured) -> None:
    """They limit what is chosen, together with those of the command line."""
    limits = configured.folder / "limits.txt"
    limits.write_text("plain<2\n")
    configured.say(f"[install]\nconstraint = {limits}\n")
    assert planned(configured.install("--dry-run", "--json", "plain")) == "1.0"
    assert configured.run("explain", *configured.sources, "plain").out.startswith("plain 1.0 ")
    (configured.folder / "more.txt").write_text("plain>1\n")
    result = configured.install("-c", configured.folder / "more.txt", "plain", code=3)
    assert str(limits) in result.err


def test_constraints_that_are_not_there(configured: Configured) -> None:
    """The error says who names the file."""
    path = configured.say("[install]\nconstraint = /nowhere/limits.txt\n")
    result = configured.install("plain", code=1)
    assert "/nowhere/limits.txt" in result.err
    assert f"constraint in {path}" in result.err


def test_pre_releases(configured: Configured, monkeypatch: pytest.MonkeyPatch) -> None:
    """They count when pip takes them."""
    monkeypatch.setenv("PIP_PRE", "1")
    assert planned(configured.install("--dry-run", "--json", "plain")) == "3.0rc1"
    assert configured.run("explain", *configured.sources, "plain").out.startswith("plain 3.0rc1 ")


def test_hashes(configured: Configured) -> None:
    """What has no hash is refused, and the setting is named."""
    path = configured.say("[global]\nrequire-hashes = true\n")
    result = configured.install("plain", code=1)
    assert f"required by require-hashes in {path} [global], and plain has none" in result.err
    assert not configured.target.exists()


def test_virtual_environments(configured: Configured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else is changed, not even in a dry run, and the refusal names the setting."""
    monkeypatch.setenv("PIP_REQUIRE_VIRTUALENV", "true")
    base = getattr(sys, "_base_executable")  # noqa: B009
    if sys.prefix == sys.base_prefix:
        base = sys.executable
    environment = configured.folder / "environment"
    subprocess.run([base, "-m", "venv", "--without-pip", environment], check=True)
    configured.target.mkdir()

    def outside_the_cache() -> dict[str, str]:
        found = tree(configured.folder)
        return {name: what for name, what in found.items() if name.split("/")[0] != "cache"}

    before = outside_the_cache()
    for words in (["install", *configured.sources, "plain"], ["uninstall", "plain"]):
        place = ["--python", base, "--target", configured.target]
        for dry in ((), ("--dry-run",)):
            error = configured.run(*words, *place, *dry, "--json", code=7).error
            assert error["code"] == "refused"
            assert "PIP_REQUIRE_VIRTUALENV" in error["note"]
    assert outside_the_cache() == before
    configured.run("install", *configured.sources, "plain", "--python", environment)
    configured.run("uninstall", "plain", "--python", environment)


@pytest.mark.parametrize("name", ["target", "prefix", "root"])
def test_places(name: str, configured: Configured) -> None:
    """Where pip would install elsewhere, nobody is surprised by files in the environment."""
    path = configured.say(f"[install]\n{name} = {configured.folder / 'there'}\n")
    error = configured.run(
        "install", *configured.sources, "--python", sys.executable, "--json", "plain", code=7
    ).error
    assert error["code"] == "refused"
    assert f"{name} in {path}" in error["note"]
    assert f"--{name} {configured.folder / 'there'}" in error["hint"]
    configured.install("plain")  # the user has said where
    configured.run("explain", *configured.sources, "plain")  # which puts nothing anywhere


def test_times_of_upload(configured: Configured, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an index without times has is not taken where pip is told of a bound."""
    monkeypatch.setenv("PIP_UPLOADED_PRIOR_TO", "P7D")
    result = configured.install("plain", code=3)
    assert "lists no upload times" in result.err
    assert not configured.target.exists()
