"""Attacks through folders that somebody else prepared, by the command line of who uses them."""

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
from wheelfit.testing.file_systems import Killed, Killing
from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="plays with links of POSIX")


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the secret of these tests apart."""
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
    """Return a folder of the user's that is nobody else's business."""
    folder = tmp_path / "victim"
    (folder / "deep").mkdir(parents=True)
    (folder / "thesis.txt").write_text("years of work")
    (folder / "deep" / "thesis.txt").write_text("years of work")
    return folder


def forge(vendor: Path, victim: Path) -> None:
    """Do as the attacker: a list of workplaces, one of them a link."""
    (vendor / WORKPLACE).mkdir(parents=True)
    document = {"workplaces": [f"purelib/x/{WORKPLACE}"], "made": {}}
    (vendor / WORKPLACE / "folders").write_text(json.dumps(document))
    (vendor / "x").mkdir()
    (vendor / "x" / WORKPLACE).symlink_to(victim)


CHANGES: list[tuple[str, ...]] = [("install", "--no-index"), ("uninstall", "nosuch"), ("recover",)]


@pytest.mark.parametrize("words", CHANGES, ids=lambda words: words[0])
@pytest.mark.parametrize("cloned", [False, True], ids=["here", "cloned"])
def test_workplaces_elsewhere(
    run: Runner, tmp_path: Path, wheel: Path, victim: Path, words: tuple[str, ...], *, cloned: bool
) -> None:
    """A folder that came with a forged list of workplaces empties no other folder."""
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


def test_a_link_in_its_place(run: Runner, tmp_path: Path, wheel: Path, victim: Path) -> None:
    """A workplace that is a link is followed by nobody, the one who trusts it included."""
    vendor = tmp_path / "vendor"
    vendor.mkdir()
    (vendor / WORKPLACE).symlink_to(victim)
    theirs = tree(victim)
    for words in (*CHANGES, ("recover", "--trust-journal")):
        what: tuple[str | Path, ...] = (*words, wheel) if words[0] == "install" else words
        result = run(*what, "--target", vendor, "--json", code=6)
        assert result.error["code"] == "not-recoverable"
    assert tree(victim) == theirs
    assert "wheelfit recover" in run("list", "--target", vendor).err


def test_by_hand(run: Runner, tmp_path: Path, wheel: Path, victim: Path) -> None:
    """When what was found is deleted, as the hint says, all works again."""
    vendor = tmp_path / "vendor"
    forge(vendor, victim)
    result = run("recover", "--dry-run", "--target", vendor, "--json", code=6)
    assert "delete it" in result.error["hint"]
    (vendor / WORKPLACE / "folders").unlink()
    (vendor / WORKPLACE).rmdir()
    run("install", "--no-index", wheel, "--target", vendor)
    assert (vendor / "demo").is_dir()


def test_lock(run: Runner, tmp_path: Path, wheel: Path, victim: Path) -> None:
    """A lock that is a link is neither followed nor emptied."""
    vendor = tmp_path / "vendor"
    vendor.mkdir()
    (vendor / LOCK_FILE).symlink_to(victim / "thesis.txt")
    result = run("install", "--no-index", wheel, "--target", vendor, "--json", code=1)
    assert result.error["code"] == "link-in-the-way"
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
def test_linked_out(
    run: Runner,
    tmp_path: Path,
    wheel: Path,
    victim: Path,
    option: str,
    part: str,
    code: int,
    kind: str,
) -> None:
    """A part of the environment that is a link which leads out is refused before any change."""
    place = tmp_path / "place"
    prefix = Path(sys.prefix).relative_to("/")
    link = place / part
    if option == "--root":
        link = place / prefix / part if part else place / prefix.parts[0]
    link.parent.mkdir(parents=True)
    link.symlink_to(victim if kind == "there" else victim / "new")
    before, theirs = tree(place), tree(victim)
    result = run("install", "--no-index", wheel, option, place, "--json", code=code)
    assert result.error["code"] == ("link-in-the-way" if code == 1 else "invalid-wheel")
    assert tree(victim) == theirs
    assert tree(place) == before


@pytest.mark.parametrize("option", ["--target", "--prefix", "--root"])
def test_scripts_linked_out(
    run: Runner, tmp_path: Path, wheel: Path, victim: Path, option: str
) -> None:
    """The folder of commands is the usual one to be linked; it is named with where it leads."""
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
    assert result.error["code"] == "link-in-the-way"
    assert result.error["where"] == str(scripts)
    assert str(victim) in result.error["note"]
    assert tree(victim) == theirs


def test_links_within(run: Runner, tmp_path: Path, wheel: Path) -> None:
    """Links that stay within the environment, or lead to it, are as good as folders."""
    place = tmp_path / "place"
    (place / "scripts").mkdir(parents=True)
    (place / "bin").symlink_to("scripts")
    (tmp_path / "named").symlink_to(place)
    run("install", "--no-index", wheel, "--target", tmp_path / "named")
    assert (place / "scripts" / "demo").exists()
    run("uninstall", "demo", "--target", tmp_path / "named")
    assert not (place / "scripts" / "demo").exists()
    assert not (place / "demo").exists()


def test_record_that_leads_out(run: Runner, tmp_path: Path, wheel: Path, victim: Path) -> None:
    """RECORD of what is installed removes nothing outside; the row is named."""
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
def test_wheel_whose_record_leads_out(run: Runner, tmp_path: Path, row: str) -> None:
    """A wheel with such a row is refused."""
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


def interrupted(place: Path) -> None:
    """Kill a change that takes the package away."""
    environment = open_environment(None, environ=os.environ, target=place)
    gone = {
        str(place / name): {path.name: "demo" for path in (place / name).iterdir()}
        for name in ("demo", "demo-1.0.dist-info")
    }
    with (
        pytest.raises(Killed),
        Transaction(
            EnvironmentFolders.of(environment.schemes, environment.signer), file_system=Killing(8)
        ) as transaction,
    ):
        transaction.switch(gone, changes=["remove demo 1.0"])


def test_another_home(
    run: Runner, tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under another home it is reported; who knows what it is may have it followed."""
    place = tmp_path / "place"
    run("install", "--no-index", wheel, "--target", place)
    before = tree(place)
    interrupted(place)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    result = run("recover", "--target", place, "--json", code=6)
    assert "--trust-journal" in result.error["hint"]
    assert not (place / "demo").exists()
    run("recover", "--trust-journal", "--target", place)
    assert tree(place) == before


def test_no_home(run: Runner, tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no secret can be kept, installing goes on as ever."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    run("install", "--no-index", wheel, "--target", tmp_path / "place")
    run("uninstall", "demo", "--target", tmp_path / "place")
    assert (tmp_path / "file").read_text() == ""
