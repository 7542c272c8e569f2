"""``wheelfit recover``, and what other commands do about a change that was interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli.running import Runner, tree

from wheelfit.installation.environment import open_environment
from wheelfit.installation.environment_folders import LOCK_FILE, WORKPLACE, EnvironmentFolders
from wheelfit.installation.locking import locked
from wheelfit.installation.transaction import Transaction
from wheelfit.testing.file_systems import Killed, Killing
from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.integration


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Return a wheel."""
    return build_wheel(tmp_path, "demo", "1.0")


@pytest.fixture
def target(run: Runner, tmp_path: Path, wheel: Path) -> Path:
    """Return a folder with that wheel."""
    folder = tmp_path / "target"
    run("install", "--no-index", "--target", folder, wheel)
    return folder


def interrupt(target: Path, after: int) -> None:
    """Kill a change that takes the package away, after some changes of the disk."""
    environment = open_environment(None, environ=os.environ, target=target)
    places = EnvironmentFolders.of(environment.schemes, environment.signer)
    gone = {
        str(target / name): {path.name: "demo" for path in (target / name).iterdir()}
        for name in ("demo", "demo-1.0.dist-info")
    }
    with (
        pytest.raises(Killed),
        Transaction(places, file_system=Killing(after)) as transaction,
    ):
        transaction.switch(gone, changes=["remove demo 1.0"])


UNDONE, FINISHED, CLEARED = 8, 13, 3
"""After how many changes of the disk the change is how far."""


def test_nothing(target: Path, run: Runner) -> None:
    """Where no change was interrupted nothing happens."""
    before = tree(target)
    assert run("recover", "--target", target).out == "no change was interrupted\n"
    report = run("recover", "--target", target, "--json").object
    assert (report["outcome"], report["changes"], report["notes"]) == (None, [], [])
    assert tree(target) == before


def test_undone(target: Path, run: Runner) -> None:
    """What was not decided is undone, and said."""
    before = tree(target)
    interrupt(target, UNDONE)
    assert not (target / "demo").exists()
    result = run("recover", "--target", target)
    assert result.out == "an interrupted change was undone: remove demo 1.0\n"
    assert tree(target) == before


@pytest.mark.parametrize(
    ("after", "outcome"), [(UNDONE, "undone"), (FINISHED, "finished"), (CLEARED, "cleared")]
)
def test_for_machines(target: Path, run: Runner, after: int, outcome: str) -> None:
    """The object says what became of it, and a dry run what would."""
    interrupt(target, after)
    before = tree(target)
    report = run("recover", "--target", target, "--json", "--dry-run").object
    assert (report["outcome"], report["dry_run"]) == (outcome, True)
    assert tree(target) == before
    report = run("recover", "--target", target, "--json").object
    assert report["outcome"] == outcome
    assert report["changes"] == ([] if outcome == "cleared" else ["remove demo 1.0"])
    assert not list(target.glob(".wheelfit*"))
    assert (target / "demo").exists() == (outcome != "finished")


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_by_itself(target: Path, run: Runner, wheel: Path, command: str) -> None:
    """A command that changes the environment puts it right first, and says so."""
    interrupt(target, UNDONE)
    what = (wheel, "--no-index", "--force-reinstall") if command == "install" else ("demo",)
    result = run(command, "--target", target, *what)
    assert "note: an interrupted change was undone: remove demo 1.0" in result.err
    assert (target / "demo").exists() == (command == "install")
    assert not list(target.glob(".wheelfit*"))


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("check-env",),
        ("explain", "--no-index", "demo"),
        ("install", "--dry-run", "--no-index"),
        ("uninstall", "--dry-run", "demo"),
    ],
    ids=lambda words: words[0],
)
def test_only_looking(target: Path, run: Runner, wheel: Path, words: tuple[str, ...]) -> None:
    """A command that only looks names the change and leaves it as it is."""
    interrupt(target, UNDONE)
    before = tree(target)
    if words[0] == "install":
        words = (*words, str(wheel))
    result = run(*words, "--target", target, code=3 if words[0] == "explain" else 0)
    assert "wheelfit recover" in result.err
    assert tree(target) == before


def test_at_work(target: Path, run: Runner) -> None:
    """While another process changes the environment, that is what is said."""
    interrupt(target, UNDONE)
    script = (
        "import pathlib, sys, time\n"
        "from wheelfit.installation.locking import locked\n"
        "with locked(pathlib.Path(sys.argv[1])):\n"
        "    print('held', flush=True); time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(target)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        result = run("uninstall", "--dry-run", "--target", target, "demo", code=6)
        assert "[environment-busy]" in result.err
    finally:
        process.kill()
        process.communicate()
    assert (target / LOCK_FILE).exists()
    run("recover", "--target", target)
    assert not list(target.glob(".wheelfit*"))


def test_lock_of_a_killed_process(target: Path, run: Runner) -> None:
    """A lock goes whose process was killed before it began to change anything."""
    before = tree(target)
    for words, code in ((("recover",), 0), (("uninstall", "absent"), 1)):
        (target / LOCK_FILE).touch()
        run(*words, "--target", target, code=code)
        assert tree(target) == before


def test_damaged_journal(target: Path, run: Runner) -> None:
    """A journal that is not whole is not followed; nothing is touched."""
    interrupt(target, UNDONE)
    journal = target / WORKPLACE / "journal"
    journal.write_bytes(journal.read_bytes()[:-1])
    before = tree(target)
    for words in (("recover",), ("uninstall", "demo")):
        result = run(*words, "--target", target, "--json", code=6)
        assert result.error["code"] == "not-recoverable"
        assert tree(target) == before


def test_without_locks(target: Path, run: Runner) -> None:
    """Where nothing can be locked, only somebody who asks for it has it put right."""
    before = tree(target)
    interrupt(target, UNDONE)
    (target / LOCK_FILE).mkdir()
    with locked(target) as held:
        assert not held
    run("recover", "--target", target)
    (target / LOCK_FILE).rmdir()
    assert tree(target) == before


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
def test_asked_to_end(tmp_path: Path) -> None:
    """A command that is asked to end undoes what it has begun, and ends with 143."""
    wheel = build_wheel(tmp_path, "demo", "1", files={f"demo/{i}.py": "x" for i in range(600)})
    target = tmp_path / "target"
    process = subprocess.Popen(
        [sys.executable, "-m", "wheelfit", "install", "--no-index", "--target", target, wheel],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
    )
    while process.poll() is None and not (target / WORKPLACE).exists():
        time.sleep(0.001)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate()
    if process.returncode != 0:  # it may have been quicker than the signal
        assert process.returncode == 143, said
        assert "[terminated]" in said
        # Not half of it, whenever the signal came.
        assert not target.exists() or len(list((target / "demo").iterdir())) == 600
        assert not list(target.glob(".wheelfit*"))


def test_pip_understands(target: Path, run: Runner, tmp_path: Path) -> None:
    """What is left in the environment by a kill hides nothing from other tools."""
    interrupt(target, CLEARED)
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "list", "--path", target, "--format=json"],
        capture_output=True,
        check=False,
        cwd=tmp_path,
    )
    if listed.returncode == 0:
        assert json.loads(listed.stdout) == [{"name": "demo", "version": "1.0"}]
    run("recover", "--target", target)
