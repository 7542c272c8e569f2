"""The model of a disk that writes late: it loses what it may lose, and nothing else."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from faults.disk import Disk, NotFollowed
from faults.scene import Scene, Step, snapshot

pytestmark = pytest.mark.usefixtures("stepping")

WRITE = "file = open('new', 'w'); file.write('content' * 200); file.flush()\n"
SYNC = "os.fsync(file.fileno())\n"
RENAME = "os.rename('new', 'final')\n"
SYNC_FOLDER = "os.fsync(os.open('.', os.O_RDONLY))\n"
SYNC_ALL = "ctypes.CDLL(None).syncfs(os.open('.', os.O_RDONLY))\n"

Cuts = Callable[..., set[str]]


@pytest.fixture
def cuts(tmp_path: Path) -> Cuts:
    """Return a function that says what a file may hold after the power went."""
    scene = Scene(tmp_path / "scene")
    shutil.rmtree(scene.environment)
    (scene.state / "final").write_text("old")
    scene.keep("before")

    def possible(program: str, *, ordered: bool = True, at: int | None = None) -> set[str]:
        scene.back_to("before")
        numbers = scene.numbers()
        data = tmp_path / "data"
        words = [sys.executable, "-c", f"import ctypes, os\nos.chdir({str(scene.state)!r})\n"]
        words[2] += program
        ended = scene.run_line(words, Step(data=data))
        assert ended.code == 0, ended
        disk = Disk(scene.kept("before"), scene.state, ended.calls, data, numbers)
        found = set()
        for seed in range(250):
            target = tmp_path / "after"
            when = disk.calls if at is None else at
            disk.after_a_cut(target, when, Random(seed), ordered=ordered)
            final = target / "final"
            found.add(final.read_text() if final.exists() else "missing")
            shutil.rmtree(target)
        return found

    return possible


def test_renamed_before_it_was_written(cuts: Cuts) -> None:
    """Without a sync, the new name may have an empty file, a part, or zeros."""
    found = cuts(WRITE + RENAME)
    assert {"old", "", "content" * 200, "\0" * 1400} < found
    assert "content" * 200 > max(found - {"old", "content" * 200, "\0" * 1400}) > ""


@pytest.mark.parametrize("ordered", [True, False])
def test_written_before_it_was_renamed(cuts: Cuts, *, ordered: bool) -> None:
    """With a sync of the file, the name has the old content or the new."""
    assert cuts(WRITE + SYNC + RENAME, ordered=ordered) == {"old", "content" * 200}


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("sync", [SYNC_FOLDER, SYNC_ALL])
def test_waited_for(cuts: Cuts, sync: str, *, ordered: bool) -> None:
    """After a sync of the folder, or of everything, it is there."""
    program = WRITE + SYNC + RENAME + sync
    assert cuts(program, ordered=ordered) == {"content" * 200}


def test_everything_was_waited_for(cuts: Cuts) -> None:
    """A sync of the file system takes the content with it, a sync of the folder does not."""
    assert cuts(WRITE + RENAME + SYNC_ALL) == {"content" * 200}
    assert "" in cuts(WRITE + RENAME + SYNC_FOLDER)


def test_order_of_names(cuts: Cuts) -> None:
    """In order, nothing is there without what came before it; loose, it may be."""
    program = "os.rename('final', 'kept')\nopen('final', 'x').close()\n" + SYNC_FOLDER
    assert cuts(program, at=1) == {"old", "missing"}
    program = "open('one', 'x').close()\nos.unlink('final')\n"
    assert cuts(program, ordered=False) == {"old", "missing"}


def test_all_is_kept(tmp_path: Path) -> None:
    """What was waited for is there to the last mode and link."""
    scene = Scene(tmp_path / "scene")
    scene.keep("before")
    program = f"""
import ctypes, os
os.chdir({str(scene.state)!r})
os.makedirs("a/b"); os.makedirs("c")
open("a/b/x", "w").write("x"); open("c/y", "w").write("y")
os.chmod("a/b/x", 0o755); os.link("a/b/x", "a/link"); os.symlink("x", "a/b/s")
ctypes.CDLL(None).renameat2(-100, b"a", -100, b"c", 2)
os.rename("c", "d"); os.remove("a/y"); os.rmdir("a")
with open("d/b/x", "r+") as file:
    file.truncate(0); file.write("longer"); file.seek(3); file.write("!")
os.sync()
"""
    numbers, data = scene.numbers(), tmp_path / "data"
    ended = scene.run_line([sys.executable, "-c", program], Step(data=data))
    assert ended.code == 0, ended
    disk = Disk(scene.kept("before"), scene.state, ended.calls, data, numbers)
    for ordered in (True, False):
        target = tmp_path / f"after {ordered}"
        pretended = disk.after_a_cut(target, disk.calls, Random(1), ordered=ordered)
        for path in target.rglob("*"):
            alike = scene.state / path.relative_to(target)
            assert pretended[path.lstat().st_ino] == alike.lstat().st_ino
        assert snapshot(target) == snapshot(scene.state)
        assert (target / "d/link").samefile(target / "d/b/x")
        start = tmp_path / f"before {ordered}"
        disk.after_a_cut(start, 0, Random(1), ordered=ordered)
        assert snapshot(start) == snapshot(scene.kept("before"))


def test_what_it_does_not_know(cuts: Cuts) -> None:
    """A way to write that the model does not follow is an error, not a hole in the test."""
    program = "import mmap\nfile = open('final', 'r+b')\nmmap.mmap(file.fileno(), 0)[0] = 65\n"
    with pytest.raises(NotFollowed, match="mmap"):
        cuts(program)
