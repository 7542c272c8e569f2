"""Claims about how files get from an unpacked wheel to another place."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from wheelfit.testing.wheels import build_wheel, unpack_wheel
from wheelfit.wheels.disk_operations import AnyPath
from wheelfit.wheels.file_system import FileSystem
from wheelfit.wheels.linking import Linker, LinkMode, Move, current_umask
from wheelfit.wheels.unpacked import UnpackedWheel

FILES = {"demo/__init__.py": "1", "demo/data": "2", "demo/deep/tool": "3", "top.py": "4"}


@pytest.fixture
def wheel(tmp_path: Path) -> UnpackedWheel:
    """Return an unpacked wheel."""
    path = build_wheel(tmp_path / "w", "demo", "1", files=FILES, executables=["demo/deep/tool"])
    return unpack_wheel(path)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Return an empty folder."""
    folder = tmp_path / "target"
    folder.mkdir()
    return folder


def moves(wheel: UnpackedWheel, target: Path) -> list[Move]:
    """Return moves of all files of a wheel."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for name, mark in zip(wheel.files.names, wheel.files.executable_flags, strict=True):
        folder, _, base = name.rpartition("/")
        (target / folder).mkdir(parents=True, exist_ok=True)
        names, marks = found.setdefault(folder, ([], []))
        names.append(base)
        marks.append(mark)
    return [Move(folder, str(target / folder), *each) for folder, each in found.items()]


def shared(wheel: UnpackedWheel, target: Path) -> set[bool]:
    """Say whether files are the very ones of the wheel, after comparing their contents."""
    found = set()
    for name in wheel.names():
        assert (target / name).read_bytes() == wheel.read(name)
        assert os.access(target / name, os.X_OK) == wheel.is_executable(name)
        found.add(wheel.path_of(name).samefile(target / name))
    return found


class Disk(FileSystem):
    """Play a file system on which some ways do not work.

    :param failures: by way, the number of the error.
    """

    allows_batches = False

    def __init__(self, **failures: int) -> None:
        self.failures = failures
        self.tried: Counter[str] = Counter()

    def _may(self, way: str, target: AnyPath) -> None:
        self.tried[way] += 1
        if way in self.failures:
            raise OSError(self.failures[way], os.strerror(self.failures[way]), os.fspath(target))

    def link(self, source: AnyPath, target: AnyPath) -> None:
        """Link, or fail."""
        self._may("link", target)
        super().link(source, target)

    def reflink(self, source: AnyPath, target: AnyPath) -> None:
        """Make a file of its own, as this looks like; or fail."""
        self._may("reflink", target)
        super().copy(source, target)

    def copy(self, source: AnyPath, target: AnyPath) -> None:
        """Copy, or fail."""
        self._may("copy", target)
        super().copy(source, target)


class TestWays:
    """Reflinks, hard links and copies."""

    def test_here(self, wheel: UnpackedWheel, target: Path) -> None:
        """On the file systems of this machine each way works, or gives way to the next."""
        for mode, expected in (
            (LinkMode.AUTO, None),
            (LinkMode.HARDLINK, {True}),
            (LinkMode.REFLINK, {False}),
            (LinkMode.COPY, {False}),
        ):
            folder = target / mode
            folder.mkdir()
            Linker(mode).place(wheel, moves(wheel, folder))
            assert shared(wheel, folder) == expected or expected is None
        assert wheel.changed() is None

    @pytest.mark.parametrize(
        ("mode", "failures", "tried"),
        [
            ("auto", {}, {"reflink": 7}),
            ("auto", {"reflink": errno.EOPNOTSUPP}, {"reflink": 1, "link": 7}),
            (
                "auto",
                {"reflink": errno.EXDEV, "link": errno.EXDEV},
                {"reflink": 1, "link": 1, "copy": 7},
            ),
            ("auto", {"reflink": errno.ENOTTY, "link": errno.EPERM}, {"copy": 7}),
            ("auto", {"reflink": errno.EINVAL, "link": errno.EMLINK}, {"link": 7, "copy": 7}),
            ("reflink", {"reflink": errno.ENOSYS}, {"reflink": 1, "copy": 7, "link": 0}),
            ("hardlink", {}, {"link": 7, "reflink": 0}),
            ("hardlink", {"link": errno.ENOTSUP}, {"link": 1, "copy": 7, "reflink": 0}),
            ("copy", {}, {"copy": 7, "link": 0, "reflink": 0}),
        ],
    )
    def test_order(
        self,
        wheel: UnpackedWheel,
        target: Path,
        mode: str,
        failures: dict[str, int],
        tried: dict[str, int],
    ) -> None:
        """A way that fails is not tried again, but where one file has too many links."""
        disk = Disk(**failures)
        Linker(LinkMode(mode), files=disk).place(wheel, moves(wheel, target))
        shared(wheel, target)
        assert {way: disk.tried[way] for way in tried} == tried

    def test_it_is_found_out_once(self, wheel: UnpackedWheel, target: Path) -> None:
        """The next wheel between the same file systems knows."""
        disk = Disk(reflink=errno.EOPNOTSUPP)
        linker = Linker(files=disk)
        for name in ("one", "two"):
            linker.place(wheel, moves(wheel, target / name))
        assert disk.tried == {"reflink": 1, "link": 14}

    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EMFILE, errno.EDQUOT])
    @pytest.mark.parametrize("way", ["reflink", "link", "copy"])
    def test_real_failures(self, wheel: UnpackedWheel, target: Path, way: str, number: int) -> None:
        """Where another way would fail as well the error is raised."""
        ways = ["reflink", "link", "copy"]
        before = dict.fromkeys(ways[: ways.index(way)], errno.EXDEV)
        disk = Disk(**{**before, way: number})
        with pytest.raises(OSError, match=os.strerror(number)):
            Linker(files=disk).place(wheel, moves(wheel, target))

    @pytest.mark.parametrize("mode", list(LinkMode))
    def test_nothing_is_overwritten(
        self, wheel: UnpackedWheel, target: Path, mode: LinkMode
    ) -> None:
        """What is there stays, and is an error."""
        found = moves(wheel, target)
        (target / "top.py").write_text("mine")
        with pytest.raises(FileExistsError):
            Linker(mode).place(wheel, found)
        assert (target / "top.py").read_text() == "mine"

    def test_thousands(self, tmp_path: Path, target: Path) -> None:
        """Many files are placed by two threads, none is left out, and errors are raised."""
        files = {f"demo/{number % 7}/{number}.py": str(number) for number in range(1500)}
        wheel = unpack_wheel(build_wheel(tmp_path, "demo", "1", files=files))
        Linker().place(wheel, moves(wheel, target))
        shared(wheel, target)
        with pytest.raises(FileExistsError) as excinfo:
            Linker(LinkMode.HARDLINK).place(wheel, moves(wheel, target))
        assert Path(excinfo.value.filename).is_relative_to(target)


class TestPermissions:
    """What the umask says."""

    def test_another_umask(self, wheel: UnpackedWheel, target: Path) -> None:
        """A file that was unpacked with another umask is copied, with the right permissions."""
        other = replace(wheel, umask=current_umask() ^ 0o044)
        for name in wheel.names():
            wheel.path_of(name).chmod(0o604)
        Linker().place(other, moves(other, target))
        assert shared(other, target) == {False}
        umask = current_umask()
        for name in wheel.names():
            executable = wheel.is_executable(name)
            expected = (0o777 & ~umask) | 0o111 if executable else 0o666 & ~umask
            assert (target / name).stat().st_mode & 0o777 == expected
            assert wheel.path_of(name).stat().st_mode & 0o777 == 0o604

    @pytest.mark.parametrize("umask", ["0o000", "0o022", "0o077", "0o027"])
    def test_the_umask_is_seen(self, umask: str) -> None:
        """Asking for the umask does not change it."""
        program = (
            f"import os; os.umask({umask}); "
            "from wheelfit.wheels.linking import current_umask; "
            "print(current_umask(), os.umask(0))"
        )
        completed = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, check=True, text=True
        )
        assert completed.stdout.split() == [str(int(umask, 8))] * 2
