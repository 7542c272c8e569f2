"""Claims about folders that are changed without following a link."""

from __future__ import annotations

import os
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from wheelfit.errors import LinkRefused
from wheelfit.wheels.rooted_folder import LookupMode, RootedFolder
from wheelfit.wheels.system_calls import exchange

WAYS = list(LookupMode)
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="plays with links of POSIX")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a folder of somebody else, with a file."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "file").write_text("theirs")
    return folder


@pytest.fixture
def inside(tmp_path: Path, outside: Path) -> Path:
    """Return a folder that has links which lead out of it, and one within."""
    folder = tmp_path / "inside"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "file").write_text("ours")
    (folder / "out").symlink_to(outside)
    (folder / "a" / "out").symlink_to("../../outside")
    (folder / "a" / "within").symlink_to("b")
    (folder / "linked").symlink_to(outside / "file")
    (folder / "nowhere").symlink_to(outside / "new")
    return folder


@pytest.fixture(params=WAYS, ids=lambda way: str(way.value))
def rooted(request: pytest.FixtureRequest, inside: Path) -> Iterator[RootedFolder]:
    """Return it held open, for each way to look names up."""
    with RootedFolder(inside, request.param) as folder:
        yield folder


class TestLinks:
    """Links are never followed."""

    @pytest.mark.parametrize("name", ["out/file", "a/out/file", "a/within/x", "out/deep/er"])
    def test_on_the_way(self, name: str, rooted: RootedFolder, outside: Path) -> None:
        """Whatever is done through a link is refused, with the path of the link."""
        link = name.rpartition("/")[0].removesuffix("/deep")
        for act in (
            lambda: rooted.write(name, b"x"),
            lambda: rooted.make_folder(name),
            lambda: rooted.make_folders(name),
            lambda: rooted.remove_file(name),
            lambda: rooted.remove_folder(name),
            lambda: rooted.remove_tree(name),
            lambda: rooted.move(name, "moved"),
            lambda: rooted.move("a/file", name),
            lambda: rooted.replace("a/file", name),
            lambda: rooted.replace(name, "a/file"),
            lambda: rooted.read(name, 10),
            lambda: rooted.lstat(name),
            lambda: rooted.exists(name),
            lambda: rooted.names(name),
            lambda: rooted.sync_file(name),
            lambda: rooted.open_folder(name),
        ):
            with pytest.raises(LinkRefused) as excinfo:
                act()
            assert excinfo.value.where == rooted.path_of(link)
        assert [path.name for path in outside.iterdir()] == ["file"]
        assert (outside / "file").read_text() == "theirs"

    def test_as_the_thing_itself(self, rooted: RootedFolder, inside: Path, outside: Path) -> None:
        """A link is moved and removed as such, and neither read nor written."""
        for name in ("linked", "nowhere", "out"):
            with pytest.raises(LinkRefused):
                rooted.read(name, 10)
            with pytest.raises(FileExistsError):
                rooted.write(name, b"x")
        with pytest.raises(LinkRefused):
            rooted.names("out")
        with pytest.raises(LinkRefused):
            rooted.make_folders("out")
        with pytest.raises(LinkRefused):
            rooted.open("nowhere", os.O_WRONLY | os.O_CREAT)
        assert stat.S_ISLNK(rooted.lstat("out").st_mode)
        rooted.move("out", "a/moved")
        assert (inside / "a" / "moved").readlink() == outside
        rooted.remove_tree("a")
        rooted.replace("linked", "nowhere")
        rooted.remove_file("nowhere")
        assert not list(inside.iterdir())
        assert (outside / "file").read_text() == "theirs"
        assert not (outside / "new").exists()

    def test_that_come_later(self, rooted: RootedFolder, inside: Path, outside: Path) -> None:
        """A folder that is exchanged for a link meanwhile stays what it was, or is refused."""
        rooted.write("a/b/one", b"")
        (inside / "a").rename(inside / "old")
        (inside / "a").symlink_to(outside)
        try:
            rooted.write("a/b/two", b"")
            rooted.remove_file("a/b/one")
        except LinkRefused:
            assert [path.name for path in (inside / "old" / "b").iterdir()] == ["one"]
        else:
            assert [path.name for path in (inside / "old" / "b").iterdir()] == ["two"]
        assert [path.name for path in outside.iterdir()] == ["file"]

    @pytest.mark.parametrize("way", [LookupMode.AT_ONCE, LookupMode.STEPWISE])
    def test_race(self, way: LookupMode, inside: Path, outside: Path) -> None:
        """However often a folder and a link change places, nothing is written through the link."""
        (inside / "b").symlink_to(outside)
        ended = threading.Event()

        def swap() -> None:
            while not ended.is_set():
                exchange(str(inside / "a"), str(inside / "b"))

        swapping = threading.Thread(target=swap)
        swapping.start()
        refused = written = 0
        try:
            for number in range(500):
                with RootedFolder(inside, way) as folder:
                    try:
                        folder.write(f"a/{number}", b"")
                        written += 1
                    except LinkRefused:
                        refused += 1
        finally:
            ended.set()
            swapping.join()
        assert [path.name for path in outside.iterdir()] == ["file"]
        assert written + refused == 500

    def test_on_the_way_to_it(self, inside: Path, tmp_path: Path) -> None:
        """Links that lead to the folder itself are the user's, and followed once."""
        (tmp_path / "link").symlink_to(inside)
        with RootedFolder(tmp_path / "link") as folder:
            (tmp_path / "link").unlink()
            folder.write("new", b"x")
            assert folder.path == str(inside)
        assert (inside / "new").exists()


class TestNames:
    """What names mean."""

    @pytest.mark.parametrize(
        "name", ["..", "../outside/file", "a/../../outside/file", "/etc/passwd", "a//file", "", "."]
    )
    def test_detours(self, name: str, rooted: RootedFolder) -> None:
        """A name that leaves the folder, or is none, is refused."""
        with pytest.raises(ValueError, match="not a name below"):
            rooted.write(name, b"")

    def test_missing(self, rooted: RootedFolder) -> None:
        """What is not there is said to be so, with its path."""
        with pytest.raises(FileNotFoundError):
            rooted.remove_file("a/b/nothing")
        with pytest.raises(FileNotFoundError) as excinfo:
            rooted.write("a/nothing/x", b"")
        assert excinfo.value.filename == rooted.path_of("a/nothing")
        with pytest.raises(NotADirectoryError) as other:
            rooted.write("a/file/x/y", b"")
        assert other.value.filename == rooted.path_of("a/file")
        assert not rooted.exists("a/nothing")
        assert not rooted.exists("a/nothing/x")
        assert not rooted.exists("a/file/x")

    def test_no_folder(self, inside: Path) -> None:
        """A file, or nothing, cannot be held open as a folder."""
        for way in WAYS:
            with pytest.raises(NotADirectoryError):
                RootedFolder(inside / "a" / "file", way)
            with pytest.raises(FileNotFoundError):
                RootedFolder(inside / "none", way)


class TestChanges:
    """What is done in the folder."""

    def test_files(self, rooted: RootedFolder, inside: Path) -> None:
        """Files are made, read, moved and removed."""
        rooted.write("a/b/new", b"data", 0o600)
        assert (inside / "a/b/new").stat().st_mode & 0o777 == 0o600
        assert rooted.read("a/b/new", 3) == b"dat"
        with pytest.raises(FileExistsError):
            rooted.write("a/b/new", b"")
        with pytest.raises(FileExistsError):
            rooted.move("a/b/new", "a/file")
        rooted.move("a/b/new", "moved")
        assert rooted.exists("moved")
        rooted.replace("moved", "a/file")
        assert rooted.read("a/file", 10) == b"data"
        rooted.sync_file("a/file")
        rooted.sync_folder("a")
        rooted.sync_folder("")
        assert rooted.names("a") == ["b", "file", "out", "within"]
        assert "a" in rooted.names()

    def test_folders(self, rooted: RootedFolder, inside: Path) -> None:
        """Folders are made, moved and removed; a new one of the name is another."""
        rooted.make_folders("x/y/z")
        rooted.make_folders("x/y/z")
        rooted.write("x/y/z/one", b"")
        rooted.move("x", "old")
        rooted.make_folders("x/y/z")
        rooted.write("x/y/z/two", b"")
        assert rooted.names("old/y/z") == ["one"]
        assert rooted.names("x/y/z") == ["two"]
        with pytest.raises(OSError, match="not empty"):
            rooted.remove_folder("x")
        rooted.remove_tree("x")
        rooted.remove_tree("old")
        assert not (inside / "x").exists()
        with pytest.raises(FileExistsError):
            rooted.make_folder("a")
        with pytest.raises(FileExistsError):
            rooted.make_folders("a/file")

    def test_no_file(self, rooted: RootedFolder, inside: Path) -> None:
        """A pipe in the place of a file does not stop whoever reads."""
        os.mkfifo(inside / "pipe")
        with pytest.raises(OSError, match="Invalid"):
            rooted.read("pipe", 10)

    @pytest.mark.skipif(sys.platform != "linux", reason="counts handles by /proc")
    def test_few_handles(self, rooted: RootedFolder, inside: Path) -> None:
        """However many folders are used, few are open, in whatever thread; in the end none."""
        for number in range(80):
            (inside / "a" / f"{number}").mkdir()

        def work(name: str) -> None:
            for number in range(80):
                rooted.write(f"a/{number}/{name}", b"")

        before = len(list(Path("/proc/self/fd").iterdir()))
        work("here")
        for number in range(10):
            thread = threading.Thread(target=work, args=(f"thread{number}",))
            thread.start()
            thread.join()
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 64
        assert len(list(inside.glob("a/[0-9]*/*"))) == 80 * 11
        rooted.close()
        assert len(list(Path("/proc/self/fd").iterdir())) <= before
