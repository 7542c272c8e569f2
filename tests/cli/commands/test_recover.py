"""``wheelfit recover``, and interrupted changes in other commands."""

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
from wheelfit.testing.file_systems import Killed, KillingFileSystem
from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.integration


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Build a wheel."""
    return build_wheel(tmp_path, "demo", "1.0")


@pytest.fixture
def target(run: Runner, tmp_path: Path, wheel: Path) -> Path:
    """Return a folder with the installed wheel."""
    folder = tmp_path / "target"
    run("install", "--no-index", "--target", folder, wheel)
    return folder


def interrupt(target: Path, after: int) -> None:
    """Interrupt the removal of the package after some changes to the disk."""
    environment = open_environment(None, environ=os.environ, target=target)
    places = EnvironmentFolders.of(environment.schemes, environment.signer)
    gone = {
        str(target / name): {path.name: "demo" for path in (target / name).iterdir()}
        for name in ("demo", "demo-1.0.dist-info")
    }
    with (
        pytest.raises(Killed),
        Transaction(places, file_system=KillingFileSystem(after)) as transaction,
    ):
        transaction.switch(gone, changes=["remove demo 1.0"])


UNDONE, FINISHED, CLEARED = 8, 13, 3
"""After how many changes of the disk the change is how far."""


def test_no_interrupted_change(target: Path, run: Runner) -> None:
    """Without an interrupted change nothing happens."""
    before = tree(target)
    assert run("recover", "--target", target).out == "no change was interrupted\n"
    report = run("recover", "--target", target, "--json").object
    assert (report["outcome"], report["changes"], report["notes"]) == (None, [], [])
    assert tree(target) == before


def test_undo(target: Path, run: Runner) -> None:
    """An uncommitted change is undone, with a message."""
    before = tree(target)
    interrupt(target, UNDONE)
    assert not (target / "demo").exists()
    result = run("recover", "--target", target)
    assert result.out == "an interrupted change was undone: remove demo 1.0\n"
    assert tree(target) == before


@pytest.mark.parametrize(
    ("after", "outcome"), [(UNDONE, "undone"), (FINISHED, "finished"), (CLEARED, "cleared")]
)
def test_json_report(target: Path, run: Runner, after: int, outcome: str) -> None:
    """The JSON object has the outcome, and in a dry run the expected one."""
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
def test_automatic_recovery(target: Path, run: Runner, wheel: Path, command: str) -> None:
    """A command that changes the environment recovers it first, with a note."""
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
        ("explain", "--no-index", "demo"),
        ("install", "--dry-run", "--no-index"),
        ("uninstall", "--dry-run", "demo"),
    ],
    ids=lambda words: words[0],
)
def test_read_only_commands(target: Path, run: Runner, wheel: Path, words: tuple[str, ...]) -> None:
    """A read-only command names the interrupted change and leaves it."""
    interrupt(target, UNDONE)
    before = tree(target)
    if words[0] == "install":
        words = (*words, str(wheel))
    result = run(*words, "--target", target, code=3 if words[0] == "explain" else 0)
    assert "wheelfit recover" in result.err
    assert tree(target) == before


def test_change_in_progress(target: Path, run: Runner) -> None:
    """A change in progress in another process is reported as such."""
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
    """The lock file of a process that was killed before any change is deleted."""
    before = tree(target)
    for words, code in ((("recover",), 0), (("uninstall", "absent"), 1)):
        (target / LOCK_FILE).touch()
        run(*words, "--target", target, code=code)
        assert tree(target) == before


def test_damaged_journal(target: Path, run: Runner) -> None:
    """A damaged journal is an error, and nothing changes."""
    interrupt(target, UNDONE)
    journal = target / WORKPLACE / "journal"
    journal.write_bytes(journal.read_bytes()[:-1])
    before = tree(target)
    for words in (("recover",), ("uninstall", "demo")):
        result = run(*words, "--target", target, "--json", code=6)
        assert result.error["code"] == "not-recoverable"
        assert tree(target) == before


def test_no_file_locks(target: Path, run: Runner) -> None:
    """Without file locks only an explicit `recover` acts."""
    before = tree(target)
    interrupt(target, UNDONE)
    (target / LOCK_FILE).mkdir()
    with locked(target) as held:
        assert not held
    run("recover", "--target", target)
    (target / LOCK_FILE).rmdir()
    assert tree(target) == before


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
def test_termination(tmp_path: Path) -> None:
    """A terminated command undoes its change and exits with 143."""
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
    # Not half of it, whenever the signal came.
    assert not target.exists() or len(list((target / "demo").iterdir())) == 600
    assert not list(target.glob(".wheelfit*"))
    if process.returncode in (0, -signal.SIGTERM):  # it was quicker than the signal
        assert target.exists()
        assert "error" not in said
    else:
        assert process.returncode == 143, said
        assert "[terminated]" in said


def test_pip_lists_the_environment(target: Path, run: Runner, tmp_path: Path) -> None:
    """The files of an interrupted change do not affect other tools."""
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
