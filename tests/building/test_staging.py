"""Many results get their names together."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from wheelfit.building.staging import Staging, deliver
from wheelfit_runtime.errors import FileProblem


def staged(staging: Staging, folder: Path, name: str, text: str) -> tuple[Path, Path]:
    """Write a result; return where it is and where it goes."""
    result = staging.new_folder(folder) / name
    result.write_text(text)
    return result, folder / name


def contents(folder: Path) -> dict[str, str]:
    """Return what is in a folder, hidden files too."""
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_all(tmp_path: Path) -> None:
    """B-31: all results are there afterwards, in several folders, and nothing else is."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    (two / "b").write_text("old")
    with Staging() as staging:
        pairs = [staged(staging, one, "a", "1"), staged(staging, two, "b", "2")]
        assert "a" not in contents_of_files(one)
        staging.publish(pairs, overwrite=[two / "b"])
    assert contents(one) == {"a": "1"}
    assert contents(two) == {"b": "2"}


def contents_of_files(folder: Path) -> set[str]:
    """Return the names of the files in a folder."""
    return {path.name for path in folder.iterdir() if path.is_file()}


def test_what_is_in_the_way(tmp_path: Path) -> None:
    """B-31: one file in the way keeps all results from their names."""
    (tmp_path / "b").write_text("old")
    with Staging() as staging:
        pairs = [staged(staging, tmp_path, "a", "1"), staged(staging, tmp_path, "b", "2")]
        with pytest.raises(FileProblem, match="exists"):
            staging.publish(pairs)
    assert contents(tmp_path) == {"b": "old"}


def test_two_of_one_name(tmp_path: Path) -> None:
    """Results that would take the place of each other are refused."""
    with Staging() as staging:
        pairs = [staged(staging, tmp_path, "a", "1"), staged(staging, tmp_path, "a", "2")]
        with pytest.raises(FileProblem, match="have the name a"):
            staging.publish(pairs, overwrite=[tmp_path / "a"])
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("links", [True, False])
def test_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, links: bool) -> None:
    """B-31: if one cannot be moved, those before it are taken back, and old files return."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    if not links:  # as on a file system without hard links
        monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "a").write_text("old")
    (tmp_path / "c").mkdir()  # a file cannot take the place of a folder
    with Staging() as staging:
        pairs = [staged(staging, tmp_path, name, "new") for name in "abc"]
        with pytest.raises(FileProblem, match="cannot be moved"):
            staging.publish(pairs, overwrite=[place for _, place in pairs])
    (tmp_path / "c").rmdir()
    assert contents(tmp_path) == {"a": "old"}


def test_rehearsal(tmp_path: Path) -> None:
    """A rehearsal moves nothing, and tells what would be in the way."""
    with Staging() as staging:
        pairs = [staged(staging, tmp_path, "a", "1")]
        staging.publish(pairs, dry_run=True)
        assert contents_of_files(tmp_path) == set()
        (tmp_path / "a").write_text("old")
        with pytest.raises(FileProblem, match="exists"):
            staging.publish(pairs, dry_run=True)
    assert contents(tmp_path) == {"a": "old"}


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """Where nothing can be written there is an error that names the place."""
    with Staging() as staging, pytest.raises(FileProblem) as excinfo:
        staging.new_folder(tmp_path / "nowhere")
    assert excinfo.value.where == str(tmp_path / "nowhere")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no locks of that kind")
def test_abandoned(tmp_path: Path) -> None:
    """What a process left that was killed goes with the next one; that of a living one stays."""
    script = (
        "import os, sys; from pathlib import Path; from wheelfit.building.staging import Staging\n"
        "room = Staging().new_folder(Path(sys.argv[1])); (room / 'half').touch()\n"
        "print(room.parent, flush=True)\n"
        "os._exit(9) if sys.argv[2] == 'die' else sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    dead = subprocess.run([*command, "die"], capture_output=True, text=True, check=False)
    alive = subprocess.Popen(
        [*command, "live"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with alive:
        assert alive.stdout is not None
        living = Path(alive.stdout.readline().strip())
        assert not Path(dead.stdout.strip()).exists()
        with Staging() as staging:
            staging.new_folder(tmp_path)
            assert (living / "1/half").exists()
        assert alive.stdin is not None
        alive.stdin.close()
    with Staging() as staging:
        staging.new_folder(tmp_path)
    assert contents(tmp_path) == {}


@pytest.mark.skipif(sys.platform == "win32", reason="there are no locks of that kind")
def test_abandoned_before_it_had_a_name(tmp_path: Path) -> None:
    """What was never locked or named goes when nobody can be writing it any more."""
    for number, age in ((1, 7200), (2, 0)):
        folder, file = (tmp_path / f".{letter * 15}{number}.part" for letter in "ab")
        folder.mkdir()
        file.touch()
        for path in (folder, file):
            os.utime(path, (time.time() - age,) * 2)
    with Staging() as staging:
        staging.new_folder(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f".{'a' * 15}2.part", f".{'b' * 15}2.part"}


INTERRUPTED = """
import os, shutil, signal, sys
from pathlib import Path
from wheelfit.building.staging import Staging, deliver

def disturb(event, arguments):
    if event == sys.argv[2]:
        signal.raise_signal(signal.SIGINT)

folder = Path(sys.argv[1])
with Staging() as staging:
    pairs = []
    for name in "ab":
        result = staging.new_folder(folder) / name
        result.touch()
        pairs.append((result, folder / name))
    sys.addaudithook(disturb)
    staging.publish(pairs)
    if sys.argv[3] == "more":
        staging.publish([])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of terminals")
@pytest.mark.parametrize("moment", ["os.link", "shutil.rmtree", "os.remove"])
@pytest.mark.parametrize("more", [False, True])
def test_interrupted_at_the_end(tmp_path: Path, moment: str, *, more: bool) -> None:
    """B-31: Ctrl-C while names are given takes nothing apart; it counts if more was to come."""
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path), moment, "more" if more else ""]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    is_told = "KeyboardInterrupt" in completed.stderr
    assert is_told == (more and moment == "os.link")
    assert (completed.returncode == 0) != is_told
    assert contents(tmp_path) == {"a": "", "b": ""}


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Give files to deliver."""
    paths = [tmp_path / name for name in ("a.whl", "b.whl")]
    for path in paths:
        path.write_text(path.name)
    return paths


def test_delivered_files(files: list[Path], tmp_path: Path) -> None:
    """They lie in the folder, which is made; what was called so before gives way."""
    folder = tmp_path / "new" / "dist"
    for text in ("old", "a.whl"):
        assert deliver(files, folder) == (folder / "a.whl", folder / "b.whl")
        assert {path.name for path in folder.iterdir()} == {"a.whl", "b.whl"}
        assert (folder / "a.whl").read_text() == "a.whl"
        (folder / "a.whl").write_text(text)


def test_delivery_of_all_or_none(files: list[Path], tmp_path: Path) -> None:
    """Where one of them cannot be had, none of the others gets its name."""
    folder = tmp_path / "dist"
    with pytest.raises(FileProblem, match="cannot be written: No such file"):
        deliver([*files, tmp_path / "gone.whl"], folder)
    assert not list(folder.iterdir())
