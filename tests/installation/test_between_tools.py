"""Claims about environments whose change was killed, with the other tools as judges."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from wheelfit.installation.apply import Applied
from wheelfit.installation.interruption import find_interruption, recover_environment
from wheelfit.installation.recovery import RecoveryOutcome
from wheelfit.testing.file_systems import Killed, KillingFileSystem, ObservedFileSystem
from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.integration

if TYPE_CHECKING:
    from wheelfit.installation.environment import Environment

Install = Callable[..., Applied]
Pip = Callable[..., subprocess.CompletedProcess[str]]
Tree = Callable[[Path], dict[str, str]]


def wheel(home: Path, version: str) -> Path:
    """Build a version of a package, some of it in a folder that others share."""
    files = {
        "demo/__init__.py": f"__version__ = {version!r}\n",
        f"demo/only_{version[0]}/x.py": version,
        f"family/member_{version[0]}.py": version,
        "family/demo.py": version,
    }
    scripts = {"console_scripts": {"demo": "demo:main"}}
    return build_wheel(home, "demo", version, files=files, entry_points=scripts)


@pytest.fixture
def old(environment: Environment, home: Path, install: Install, tree: Tree) -> dict[str, str]:
    """Install the old version and another package, and return what is there then."""
    other = build_wheel(home, "other", "1", files={"family/other.py": "", "other.py": ""})
    install(environment, wheel(home, "1.0"), other)
    return tree(environment.interpreter.prefix)


@pytest.fixture
def moments(
    environment: Environment, home: Path, install: Install, old: dict[str, str], tmp_path: Path
) -> list[int]:
    """Return a few moments of the upgrade: before, among and after its renames."""
    assert old
    copy = tmp_path / "copy"
    shutil.copytree(environment.schemes.purelib, copy)
    done: list[str] = []
    install(environment, wheel(home, "2.0"), file_system=ObservedFileSystem(done.append))
    shutil.rmtree(environment.schemes.purelib)
    shutil.move(copy, environment.schemes.purelib)
    (environment.schemes.scripts / "demo").unlink()
    install(environment, wheel(home, "1.0"), reinstall=True, replace=True)
    renames = [number for number, what in enumerate(done) if what in {"move", "exchange"}]
    # The last two renames are those of the records.
    return [renames[0], renames[len(renames) // 2], renames[-1], len(done) - 4]


def kill(environment: Environment, home: Path, install: Install, moment: int) -> None:
    """Upgrade, and be killed."""
    with pytest.raises(Killed):
        install(environment, wheel(home, "2.0"), file_system=KillingFileSystem(moment))


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


def test_pip_sees_old_or_new(
    environment: Environment, home: Path, install: Install, pip: Pip, moments: list[int]
) -> None:
    """After recovery pip and Python find one version, the same, and nothing wrong."""
    found = set()
    for moment in moments:
        kill(environment, home, install, moment)
        assert find_interruption(environment) is not None
        recover_environment(environment)
        version = packages(pip, environment)["demo"]
        assert version == imported(environment)
        assert not list(environment.schemes.purelib.glob(".wheelfit*"))
        found.add(version)
        install(environment, wheel(home, "1.0"), reinstall=True)
    assert found == {"1.0", "2.0"}


@pytest.mark.parametrize("action", ["install", "uninstall"])
def test_pip_in_between(
    action: str, environment: Environment, home: Path, install: Install, pip: Pip,
    moments: list[int],
) -> None:  # fmt: skip
    """What pip does to the very package before recovery is what stays."""
    python = environment.interpreter.executable
    newest = wheel(home, "3.0")
    for moment in moments:
        kill(environment, home, install, moment)
        words = ["--no-deps", "--no-index", newest] if action == "install" else ["-y", "demo"]
        done = pip("--python", python, action, *words)
        assert done.returncode == 0, done.stderr
        recover_environment(environment)
        site = environment.schemes.purelib
        left = {path.name for path in site.iterdir() if path.name != "__pycache__"}
        if action == "install":
            assert packages(pip, environment) == {"demo": "3.0", "other": "1"}
            assert imported(environment) == "3.0"
            assert left == {"demo", "demo-3.0.dist-info", "family", "other-1.dist-info", "other.py"}
            inside = {path.name for path in (site / "family").iterdir()} - {"__pycache__"}
            assert inside == {"demo.py", "member_3.py", "other.py"}
        else:
            assert packages(pip, environment) == {"other": "1"}
            assert left == {"family", "other-1.dist-info", "other.py"}
            assert not (environment.schemes.scripts / "demo").exists()
        shutil.rmtree(site)
        site.mkdir()
        (environment.schemes.scripts / "demo").unlink(missing_ok=True)
        other = home / "other-1-py3-none-any.whl"
        install(environment, wheel(home, "1.0"), other)


def test_what_is_told(
    environment: Environment, home: Path, install: Install, moments: list[int]
) -> None:
    """A change that was interrupted says what it was, and what becomes of it."""
    kill(environment, home, install, moments[1])
    interruption = find_interruption(environment)
    assert interruption is not None
    assert (interruption.outcome, interruption.changes) == (
        RecoveryOutcome.UNDONE,
        ("install demo 2.0",),
    )
    assert "wheelfit recover" in str(interruption)
    done = recover_environment(environment)
    assert done is not None
    assert str(done) == "an interrupted change was undone: install demo 2.0"
    assert recover_environment(environment) is None
