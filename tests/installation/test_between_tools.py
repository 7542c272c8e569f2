"""Claims about environments whose change was killed, with the other tools as judges."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from installation.bench import Bench, Pip

from wheelfit.installation.interruption import find_interruption, recover_environment
from wheelfit.installation.recovery import RecoveryOutcome
from wheelfit.testing.file_systems import Killed, KillingFileSystem, ObservedFileSystem

pytestmark = pytest.mark.integration

if TYPE_CHECKING:
    from wheelfit.installation.environment import Environment


def wheel(bench: Bench, version: str) -> Path:
    """Build a version of a package, some of it in a folder that others share."""
    files = {
        "demo/__init__.py": f"__version__ = {version!r}\n",
        f"demo/only_{version[0]}/x.py": version,
        f"family/member_{version[0]}.py": version,
        "family/demo.py": version,
    }
    scripts = {"console_scripts": {"demo": "demo:main"}}
    return bench.wheel("demo", version, files=files, entry_points=scripts)


@pytest.fixture
def old(bench: Bench) -> dict[str, str]:
    """Install the old version and another package, and return what is there then."""
    other = bench.wheel("other", "1", files={"family/other.py": "", "other.py": ""})
    bench.install(wheel(bench, "1.0"), other)
    return bench.tree()


@pytest.fixture
def moments(bench: Bench, old: dict[str, str], tmp_path: Path) -> list[int]:
    """Return a few moments of the upgrade: before, among and after its renames."""
    assert old
    copy = tmp_path / "copy"
    shutil.copytree(bench.site, copy)
    done: list[str] = []
    bench.install(wheel(bench, "2.0"), file_system=ObservedFileSystem(done.append))
    shutil.rmtree(bench.site)
    shutil.move(copy, bench.site)
    (bench.environment.schemes.scripts / "demo").unlink()
    bench.install(wheel(bench, "1.0"), reinstall=True, replace=True)
    renames = [number for number, what in enumerate(done) if what in {"move", "exchange"}]
    # The last two renames are those of the records.
    return [renames[0], renames[len(renames) // 2], renames[-1], len(done) - 4]


def kill(bench: Bench, moment: int) -> None:
    """Upgrade, and be killed."""
    with pytest.raises(Killed):
        bench.install(wheel(bench, "2.0"), file_system=KillingFileSystem(moment))


def packages(pip: Pip, environment: Environment) -> dict[str, str]:
    """Return what pip finds, and check that it finds nothing wrong."""
    python = environment.interpreter.executable
    listed = pip("--python", python, "list", "--format=json")
    checked = pip("--python", python, "check")
    assert checked.returncode == 0, checked.stdout
    assert listed.stderr == ""
    return {package["name"]: package["version"] for package in json.loads(listed.stdout)}


def imported(environment: Environment) -> str:
    """Return which version Python finds."""
    command = "import demo, family.demo; print(demo.__version__)"
    python = environment.interpreter.executable
    return subprocess.run(
        [python, "-B", "-c", command], capture_output=True, check=True, text=True
    ).stdout.strip()


def test_pip_sees_old_or_new(bench: Bench, pip: Pip, moments: list[int]) -> None:
    """After recovery pip and Python find one version, the same, and nothing wrong."""
    found = set()
    for moment in moments:
        kill(bench, moment)
        assert find_interruption(bench.environment) is not None
        recover_environment(bench.environment)
        version = packages(pip, bench.environment)["demo"]
        assert version == imported(bench.environment)
        assert not list(bench.site.glob(".wheelfit*"))
        found.add(version)
        bench.install(wheel(bench, "1.0"), reinstall=True)
    assert found == {"1.0", "2.0"}


@pytest.mark.parametrize("action", ["install", "uninstall"])
def test_pip_in_between(
    action: str,
    bench: Bench,
    pip: Pip,
    moments: list[int],
) -> None:
    """What pip does to the very package before recovery is what stays."""
    python = bench.environment.interpreter.executable
    newest = wheel(bench, "3.0")
    for moment in moments:
        kill(bench, moment)
        words = ["--no-deps", "--no-index", newest] if action == "install" else ["-y", "demo"]
        done = pip("--python", python, action, *words)
        assert done.returncode == 0, done.stderr
        recover_environment(bench.environment)
        site = bench.site
        left = {path.name for path in site.iterdir() if path.name != "__pycache__"}
        if action == "install":
            assert packages(pip, bench.environment) == {"demo": "3.0", "other": "1"}
            assert imported(bench.environment) == "3.0"
            assert left == {"demo", "demo-3.0.dist-info", "family", "other-1.dist-info", "other.py"}
            inside = {path.name for path in (site / "family").iterdir()} - {"__pycache__"}
            assert inside == {"demo.py", "member_3.py", "other.py"}
        else:
            assert packages(pip, bench.environment) == {"other": "1"}
            assert left == {"family", "other-1.dist-info", "other.py"}
            assert not (bench.environment.schemes.scripts / "demo").exists()
        shutil.rmtree(site)
        site.mkdir()
        (bench.environment.schemes.scripts / "demo").unlink(missing_ok=True)
        other = bench.home / "other-1-py3-none-any.whl"
        bench.install(wheel(bench, "1.0"), other)


def test_what_is_told(bench: Bench, moments: list[int]) -> None:
    """A change that was interrupted says what it was, and what becomes of it."""
    kill(bench, moments[1])
    interruption = find_interruption(bench.environment)
    assert interruption is not None
    assert (interruption.outcome, interruption.changes) == (
        RecoveryOutcome.UNDONE,
        ("install demo 2.0",),
    )
    assert "wheelfit recover" in str(interruption)
    done = recover_environment(bench.environment)
    assert done is not None
    assert str(done) == "an interrupted change was undone: install demo 2.0"
    assert recover_environment(bench.environment) is None
