"""Many results get their names together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from wheelfit.build.staging import Staging
from wheelfit.errors import FileProblem


def staged(staging: Staging, folder: Path, name: str, text: str) -> tuple[Path, Path]:
    """Write a result; return where it is and where it goes."""
    result = staging.room_for(folder) / name
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
        with pytest.raises(FileProblem, match="called a"):
            staging.publish(pairs, overwrite=[tmp_path / "a"])
    assert contents(tmp_path) == {}


def test_taken_back(tmp_path: Path) -> None:
    """B-31: if one cannot be moved, those before it are taken back, and old files return."""
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
        staging.publish(pairs, rehearse=True)
        assert contents_of_files(tmp_path) == set()
        (tmp_path / "a").write_text("old")
        with pytest.raises(FileProblem, match="exists"):
            staging.publish(pairs, rehearse=True)
    assert contents(tmp_path) == {"a": "old"}


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """Where nothing can be written there is an error that names the place."""
    with Staging() as staging, pytest.raises(FileProblem) as caught:
        staging.room_for(tmp_path / "nowhere")
    assert caught.value.where == str(tmp_path / "nowhere")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no locks of that kind")
def test_abandoned(tmp_path: Path) -> None:
    """What a process left that was killed goes with the next one; that of a living one stays."""
    script = (
        "import os, sys; from pathlib import Path; from wheelfit.build.staging import Staging\n"
        "room = Staging().room_for(Path(sys.argv[1])); (room / 'half').touch()\n"
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
            staging.room_for(tmp_path)
            assert (living / "1/half").exists()
        assert alive.stdin is not None
        alive.stdin.close()
    with Staging() as staging:
        staging.room_for(tmp_path)
    assert contents(tmp_path) == {}
