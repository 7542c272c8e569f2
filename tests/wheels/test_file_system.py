"""Claims about the file systems of this machine, and about those that tests play."""

from __future__ import annotations

import errno
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from wheelfit.testing.file_systems import (
    CaseInsensitiveFileSystem,
    FileSystemWithoutExchange,
    FileSystemWithoutLinks,
    FullFileSystem,
    Killed,
    KillingFileSystem,
    ReadOnlyFileSystem,
    WindowsLikeFileSystem,
)
from wheelfit.wheels.disk_operations import retry_while_in_use
from wheelfit.wheels.file_system import NATIVE, FileSystem, extended_path


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with two files and a folder."""
    monkeypatch.chdir(tmp_path)
    NATIVE.write("one", b"1")
    NATIVE.write("two", b"2")
    NATIVE.make_folder("folder")


def names() -> list[str]:
    """Return what lies here."""
    return sorted(path.name for path in Path().iterdir())


class TestNative:
    """What this machine's file systems do."""

    def test_new_files(self) -> None:
        """A file is created with its content, never written over."""
        NATIVE.write("new", b"x" * 100_000)
        assert Path("new").read_bytes() == b"x" * 100_000
        with pytest.raises(FileExistsError):
            NATIVE.write("one", b"")
        with pytest.raises(FileExistsError):
            NATIVE.make_folder("one")

    def test_move(self) -> None:
        """Nothing is moved onto something; a link is moved and not followed."""
        with pytest.raises(FileExistsError):
            NATIVE.move("one", "two")
        with pytest.raises(FileExistsError):
            NATIVE.move("one", "folder")
        Path("link").symlink_to("nowhere")
        with pytest.raises(FileExistsError):
            NATIVE.move("one", "link")
        NATIVE.move("link", "folder/link")
        assert str(Path("folder/link").readlink()) == "nowhere"
        NATIVE.move("folder", "renamed")
        assert Path("two").read_text() == "2"

    def test_replace(self) -> None:
        """A file may be replaced in one step."""
        NATIVE.replace("one", "two")
        assert (Path("two").read_text(), Path("one").exists()) == ("1", False)

    def test_exchange(self) -> None:
        """Names are exchanged in one step, of whatever kind they are, or it says that it cannot."""
        if not NATIVE.exchange("one", "two"):
            pytest.skip("this file system does not exchange names")
        assert (Path("one").read_text(), Path("two").read_text()) == ("2", "1")
        assert NATIVE.exchange("one", "folder")
        assert Path("one").is_dir()
        with pytest.raises(FileNotFoundError) as excinfo:
            NATIVE.exchange("one", "nothing")
        assert excinfo.value.filename is not None

    def test_removing(self) -> None:
        """Files and empty folders can be removed."""
        NATIVE.write("folder/x", b"")
        with pytest.raises(OSError, match="not empty"):
            NATIVE.remove_folder("folder")
        NATIVE.remove_file("folder/x")
        NATIVE.remove_folder("folder")
        assert not NATIVE.exists("folder")

    def test_exists(self) -> None:
        """A link that leads nowhere is something, too."""
        Path("link").symlink_to("nowhere")
        assert NATIVE.exists("link")
        assert not NATIVE.exists("nowhere")

    def test_links(self) -> None:
        """A second name is the same file; a copy is another one, with its permissions."""
        Path("one").chmod(0o750)
        NATIVE.link("one", "linked")
        NATIVE.copy("one", "copied")
        assert Path("one").samefile("linked")
        assert not Path("one").samefile("copied")
        assert Path("copied").stat().st_mode == Path("one").stat().st_mode
        assert Path("copied").stat().st_mtime_ns == Path("one").stat().st_mtime_ns

    def test_reflink(self) -> None:
        """A file that shares space can be made, or nothing is left."""
        try:
            NATIVE.reflink("one", "cloned")
        except OSError:
            assert not Path("cloned").exists()
        else:
            assert Path("cloned").read_text() == "1"

    def test_devices(self) -> None:
        """Folders of one file system are told from others."""
        assert NATIVE.device_of("folder") == NATIVE.device_of(".")
        if Path("/proc").is_dir():
            assert NATIVE.device_of("/proc") != NATIVE.device_of(".")

    def test_case(self) -> None:
        """Whether case matters is found out without writing."""
        before = names()
        Path("A").mkdir()
        assert NATIVE.is_case_sensitive(".") == (not Path("a").exists())
        assert NATIVE.is_case_sensitive("folder") == (not Path("FOLDER").exists())
        Path("A").rmdir()
        assert names() == before

    def test_on_the_disk(self) -> None:
        """Files, folders and trees can be waited for."""
        NATIVE.write("folder/x", b"x")
        Path("folder/link").symlink_to("nowhere")
        NATIVE.sync_file("one")
        NATIVE.sync_folder("folder")
        NATIVE.sync_tree("folder")
        with pytest.raises(FileNotFoundError):
            NATIVE.sync_tree("nothing")

    @pytest.mark.skipif(sys.platform != "linux", reason="counts handles by /proc")
    def test_open_folders_of_threads(self, tmp_path: Path) -> None:
        """A folder that several threads use first at the same moment is opened once, and closed."""
        handles = Path("/proc/self/fd")
        before = len(list(handles.iterdir()))

        def write(start: threading.Barrier, disk: FileSystem, path: Path) -> None:
            start.wait()
            disk.write(path, b"")

        for attempt in range(20):
            start = threading.Barrier(8)
            paths = [tmp_path.resolve() / f"{attempt}-{number}" for number in range(8)]
            with (
                NATIVE.limited_to([str(tmp_path.resolve())]) as disk,
                ThreadPoolExecutor(8) as threads,
            ):
                list(threads.map(partial(write, start, disk), paths))
        assert len(list(handles.iterdir())) == before


class TestWindows:
    """What is done on Windows only."""

    @pytest.mark.parametrize(
        ("path", "expected"),
        [
            ("C:\\short", "C:\\short"),
            ("C:\\" + "x" * 300, "\\\\?\\C:\\" + "x" * 300),
            ("C:/a/" + "x" * 300, "\\\\?\\C:\\a\\" + "x" * 300),
            ("\\\\server\\share\\" + "x" * 300, "\\\\?\\UNC\\server\\share\\" + "x" * 300),
            ("\\\\?\\C:\\" + "x" * 300, "\\\\?\\C:\\" + "x" * 300),
        ],
    )
    def test_long_paths(self, path: str, expected: str) -> None:
        """A path that is too long for the usual calls is written so that it is not."""
        assert extended_path(path) == expected

    def test_sharing(self) -> None:
        """What another program has just opened is tried again."""
        error = PermissionError(errno.EACCES, "in use")
        error.winerror = 32  # type: ignore[attr-defined]
        tries = iter([error, error, None])

        def step() -> str:
            if (found := next(tries)) is not None:
                raise found
            return "done"

        assert retry_while_in_use(step, first_pause=0) == "done"

    def test_patience_ends(self) -> None:
        """What stays open is an error in the end, and a lack of permission at once."""
        tries: list[int] = []

        def step() -> None:
            error = PermissionError(errno.EACCES, "in use")
            error.winerror = 5 if not tries or tries[0] == 5 else 1  # type: ignore[attr-defined]
            tries.append(5)
            raise error

        with pytest.raises(PermissionError):
            retry_while_in_use(step, first_pause=0)
        assert len(tries) == 10
        tries[:] = [1]
        with pytest.raises(PermissionError):
            retry_while_in_use(step, first_pause=0)
        assert len(tries) == 2


class TestPlayed:
    """What the file systems for tests do otherwise."""

    @pytest.mark.parametrize(
        "kind",
        [
            FileSystemWithoutExchange,
            FileSystemWithoutLinks,
            WindowsLikeFileSystem,
            CaseInsensitiveFileSystem,
            ReadOnlyFileSystem,
            FullFileSystem,
        ],
    )
    def test_interface(self, kind: type[FileSystem]) -> None:
        """Each has what the interface has."""
        played: FileSystem = kind()
        assert played.exists("one")

    def test_refusals(self) -> None:
        """Each refuses what such a system refuses, and nothing has happened then."""
        assert not FileSystemWithoutExchange().exchange("one", "two")
        refusals: list[Callable[[], object]] = [
            lambda: FileSystemWithoutLinks().link("one", "x"),
            lambda: FileSystemWithoutLinks().reflink("one", "x"),
            lambda: WindowsLikeFileSystem({"folder/x"}).move("folder", "x"),
            lambda: WindowsLikeFileSystem({"two"}).replace("one", "two"),
            lambda: WindowsLikeFileSystem({"one"}).remove_file("one"),
            lambda: ReadOnlyFileSystem().remove_file("one"),
            lambda: ReadOnlyFileSystem().move("one", "x"),
            lambda: FullFileSystem().write("x", b""),
            lambda: FullFileSystem().copy("one", "x"),
            lambda: CaseInsensitiveFileSystem().move("one", "TWO"),
        ]
        for refused in refusals:
            with pytest.raises(OSError, match=r"."):
                refused()
        assert names() == ["folder", "one", "two"]
        FullFileSystem().move("one", "x")

    def test_killed(self) -> None:
        """After a kill nothing can be done any more."""
        disk = KillingFileSystem(1)
        disk.remove_file("one")
        for _ in range(2):
            with pytest.raises(Killed):
                disk.remove_file("two")

    def test_case(self) -> None:
        """A name is found in any case, and keeps the one it has."""
        disk = CaseInsensitiveFileSystem()
        assert disk.exists("ONE")
        disk.move("ONE", "Three")
        assert "Three" in names()
        assert not disk.is_case_sensitive(".")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows mounts so")
def test_mounts() -> None:
    """Two mounts of one file system count as two, for nothing can be renamed between them."""
    native = NATIVE.device_of(".")
    assert isinstance(native, tuple)
    assert native[0] == Path().stat().st_dev
    assert native[1].startswith(b"mnt_id:")
