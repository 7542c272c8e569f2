"""Attacks through target folders that an attacker prepared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from cli.running import Runner, tree

from wheelfit.installation.environment import open_environment
from wheelfit.installation.environment_folders import LOCK_FILE, WORKPLACE, EnvironmentFolders
from wheelfit.installation.transaction import Transaction
from wheelfit.testing.file_systems import Killed, KillingFileSystem
from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="plays with links of POSIX")


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a separate secret for these tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Return a wheel with a command and a data file."""
    return build_wheel(
        tmp_path,
        "demo",
        "1.0",
        files={"demo/__init__.py": "", "demo-1.0.data/data/share/demo.txt": "x"},
        entry_points={"console_scripts": {"demo": "demo:main"}},
    )


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a folder of the user with files that must not change."""
    folder = tmp_path / "victim"
    (folder / "deep").mkdir(parents=True)
    (folder / "thesis.txt").write_text("years of work")
    (folder / "deep" / "thesis.txt").write_text("years of work")
    return folder


def forge(vendor: Path, victim: Path) -> None:
    """Write a forged list of work folders, with a link among them."""
    (vendor / WORKPLACE).mkdir(parents=True)
    document = {"workplaces": [f"purelib/x/{WORKPLACE}"], "made": {}}
    (vendor / WORKPLACE / "folders").write_text(json.dumps(document))
    (vendor / "x").mkdir()
    (vendor / "x" / WORKPLACE).symlink_to(victim)


CHANGES: list[tuple[str, ...]] = [("install", "--no-index"), ("uninstall", "nosuch"), ("recover",)]


@pytest.mark.parametrize("words", CHANGES, ids=lambda words: words[0])
@pytest.mark.parametrize("cloned", [False, True], ids=["here", "cloned"])
def test_forged_work_folders(
    run: Runner, tmp_path: Path, wheel: Path, victim: Path, words: tuple[str, ...], *, cloned: bool
) -> None:
    """A forged list of work folders does not empty any other folder."""
    vendor = tmp_path / "project" / "vendor"
    forge(vendor, victim)
    if cloned:
        git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.invalid"]
        for more in (["init", "-q"], ["add", "-Af"], ["commit", "-qm", "x"]):
            subprocess.run([*git, *more], check=True, cwd=tmp_path / "project")
        subprocess.run(["git", "clone", "-q", tmp_path / "project", tmp_path / "c"], check=True)
        vendor = tmp_path / "c" / "vendor"
    before, theirs = tree(vendor), tree(victim)
    what: tuple[str | Path, ...] = (*words, wheel) if words[0] == "install" else words
    result = run(*what, "--target", vendor, "--json", code=6)
    assert result.error["code"] == "not-recoverable"
    assert str(vendor / WORKPLACE) in str(result.error["where"])
    assert tree(victim) == theirs
    assert tree(vendor) == before


def test_linked_work_folder(run: Runner, tmp_path: Path, wheel: Path, victim: Path) -> None:
    """A work folder that is a link is not followed."""
    vendor = tmp_path / "vendor"
    vendor.mkdir()
    (vendor / WORKPLACE).symlink_to(victim)
    theirs = tree(victim)
    for words in CHANGES:
        what: tuple[str | Path, ...] = (*words, wheel) if words[0] == "install" else words
        result = run(*what, "--target", vendor, "--json", code=6)
        assert result.error["code"] == "not-recoverable"
    assert tree(victim) == theirs
    assert "wheelfit recover" in run("list", "--target", vendor).err


def test_manual_cleanup(run: Runner, tmp_path: Path, wheel: Path, victim: Path) -> None:
    """After the deletion that the hint recommends, installing works again."""
    vendor = tmp_path / "vendor"
    forge(vendor, victim)
    result = run("recover", "--dry-run", "--target", vendor, "--json", code=6)
    assert "delete it" in result.error["hint"]
    (vendor / WORKPLACE / "folders").unlink()
    (vendor / WORKPLACE).rmdir()
    run("install", "--no-index", wheel, "--target", vendor)
    assert (vendor / "demo").is_dir()


def test_linked_lock_file(run: Runner, tmp_path: Path, wheel: Path, victim: Path) -> None:
    """A lock file that is a link is neither followed nor emptied."""
    vendor = tmp_path / "vendor"
    vendor.mkdir()
    (vendor / LOCK_FILE).symlink_to(victim / "thesis.txt")
    result = run("install", "--no-index", wheel, "--target", vendor, "--json", code=1)
    assert result.error["code"] == "link-refused"
    assert (victim / "thesis.txt").read_text() == "years of work"
    assert not (vendor / "demo").exists()


@pytest.mark.parametrize(
    ("option", "part", "code"),
    [
        ("--target", "bin", 1),
        ("--target", "share", 4),
        ("--target", "demo", 4),
        ("--target", "demo-1.0.dist-info", 4),
        ("--prefix", "share", 4),
        ("--prefix", "lib", 1),
        ("--root", "lib", 1),
        ("--root", "", 1),
    ],
)
@pytest.mark.parametrize("kind", ["there", "nowhere"])
def test_link_out_of_the_environment(
    run: Runner,
    tmp_path: Path,
    wheel: Path,
    victim: Path,
    option: str,
    part: str,
    code: int,
    kind: str,
) -> None:
    """A folder of the environment that links out of it is refused before any change."""
    place = tmp_path / "place"
    prefix = Path(sys.prefix).relative_to("/")
    link = place / part
    if option == "--root":
        link = place / prefix / part if part else place / prefix.parts[0]
    link.parent.mkdir(parents=True)
    link.symlink_to(victim if kind == "there" else victim / "new")
    before, theirs = tree(place), tree(victim)
    result = run("install", "--no-index", wheel, option, place, "--json", code=code)
    assert result.error["code"] == ("link-refused" if code == 1 else "invalid-wheel")
    assert tree(victim) == theirs
    assert tree(place) == before


@pytest.mark.parametrize("option", ["--target", "--prefix", "--root"])
def test_linked_scripts_folder(
    run: Runner, tmp_path: Path, wheel: Path, victim: Path, option: str
) -> None:
    """A scripts folder that links out is named with its target."""
    place = tmp_path / "place"
    scripts = {
        "--target": place / "bin",
        "--prefix": place / "bin",
        "--root": place / Path(sys.prefix).relative_to("/") / "bin",
    }[option]
    scripts.parent.mkdir(parents=True)
    scripts.symlink_to(victim)
    theirs = tree(victim)
    result = run("install", "--no-index", wheel, option, place, "--json", code=1)
    assert result.error["code"] == "link-refused"
    assert result.error["where"] == str(scripts)
    assert str(victim) in result.error["note"]
    assert tree(victim) == theirs


def test_links_inside_the_environment(run: Runner, tmp_path: Path, wheel: Path) -> None:
    """Links inside the environment, and to it, work as folders do."""
    place = tmp_path / "place"
    (place / "scripts").mkdir(parents=True)
    (place / "bin").symlink_to("scripts")
    (tmp_path / "named").symlink_to(place)
    run("install", "--no-index", wheel, "--target", tmp_path / "named")
    assert (place / "scripts" / "demo").exists()
    run("uninstall", "demo", "--target", tmp_path / "named")
    assert not (place / "scripts" / "demo").exists()
    assert not (place / "demo").exists()


def test_installed_record_with_outside_path(
    run: Runner, tmp_path: Path, wheel: Path, victim: Path
) -> None:
    """An installed RECORD with a path outside removes nothing; the row is named."""
    place = tmp_path / "place"
    run("install", "--no-index", wheel, "--target", place)
    record = place / "demo-1.0.dist-info" / "RECORD"
    record.write_text(record.read_text() + "../victim/thesis.txt,,\n")
    result = run("uninstall", "demo", "--target", place, "--json", code=1)
    assert result.error["code"] == "not-removable"
    assert str(victim / "thesis.txt") in result.error["message"]
    assert (victim / "thesis.txt").exists()
    assert (place / "demo").exists()


@pytest.mark.parametrize("row", ["../../victim", "/etc/passwd", "a/../../b", "C:/x", "..\\x"])
def test_wheel_record_with_outside_path(run: Runner, tmp_path: Path, row: str) -> None:
    """A wheel whose RECORD has a path outside is refused."""
    wheel = tmp_path / "demo-1.0-py3-none-any.whl"
    sound = build_wheel(tmp_path / "sound", "demo", "1.0")
    with zipfile.ZipFile(sound) as one, zipfile.ZipFile(wheel, "w") as other:
        for name in one.namelist():
            more = f"{row},,\n" if name.endswith("/RECORD") else ""
            other.writestr(name, one.read(name) + more.encode())
    result = run("install", "--no-index", wheel, "--target", tmp_path / "place", "--json", code=4)
    assert result.error["code"] == "invalid-wheel"
    assert "leads out" in result.error["message"]
    assert not (tmp_path / "place").exists()


def interrupt_removal(place: Path) -> None:
    """Interrupt the removal of the package."""
    environment = open_environment(None, environ=os.environ, target=place)
    gone = {
        str(place / name): {path.name: "demo" for path in (place / name).iterdir()}
        for name in ("demo", "demo-1.0.dist-info")
    }
    with (
        pytest.raises(Killed),
        Transaction(
            EnvironmentFolders.of(environment.schemes, environment.signer),
            file_system=KillingFileSystem(8),
        ) as transaction,
    ):
        transaction.switch(gone, changes=["remove demo 1.0"])


def test_journal_of_another_home(
    run: Runner, tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A journal of another home is reported, and followed only with that home."""
    place = tmp_path / "place"
    run("install", "--no-index", wheel, "--target", place)
    before = tree(place)
    interrupt_removal(place)
    with monkeypatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
        result = run("recover", "--target", place, "--json", code=6)
    assert "recreate the environment" in result.error["hint"]
    assert not (place / "demo").exists()
    run("recover", "--target", place)
    assert tree(place) == before


def test_no_writable_home(
    run: Runner, tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a writable home, installing works without a secret."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    run("install", "--no-index", wheel, "--target", tmp_path / "place")
    run("uninstall", "demo", "--target", tmp_path / "place")
    assert (tmp_path / "file").read_text() == ""
