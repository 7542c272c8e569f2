"""The harness itself: it sees every call that changes files, and it finds what is broken."""

from __future__ import annotations

import errno
import re
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest
from faults.scene import Scene, Step, snapshot

pytestmark = pytest.mark.usefixtures("stepping")

# All ways that lead to the disk: Python's own, C's, a system call by its number, a child, threads.
EVERYTHING = """
import ctypes, os, shutil, subprocess, sys, threading
os.chdir(sys.argv[1])
os.mkdir("d")
with open("d/a", "wb") as file:
    file.write(b"one")
    file.flush()
    os.fsync(file.fileno())
    os.pwrite(file.fileno(), b"two", 3)
    os.ftruncate(file.fileno(), 5)
folder = os.open("d", os.O_RDONLY)
os.rename("a", "b", src_dir_fd=folder, dst_dir_fd=folder)
os.fsync(folder)
libc = ctypes.CDLL("libc.so.6")
libc.renameat2(-100, b"d/b", -100, b"d/c", 1)
libc.syscall(316, -100, b"d/c", -100, b"d/a", 0)
libc.syncfs(folder)
os.link("d/a", "d/l")
os.symlink("a", "d/s")
os.chmod("d/a", 0o600)
os.utime("d/a", (1, 1))
source = os.open("d/a", os.O_RDONLY)
target = os.open("d/t", os.O_RDWR | os.O_CREAT)
os.copy_file_range(source, target, 2)
os.sendfile(target, source, 0, 2)
subprocess.run(["/bin/sh", "-c", "echo shell > d/shell"], check=True)
threads = [threading.Thread(target=lambda n=n: open(f"d/{n}", "w").close()) for n in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print("not counted")
open("/dev/null", "w").write("neither")
shutil.rmtree("d")
"""

EXPECTED = {
    "mkdir": 1,
    "openat": 1 + 1 + 1 + 4,
    "write": 2,
    "pwrite64": 1,
    "ftruncate": 1,
    "fsync": 2,
    "renameat": 1,
    "renameat2": 2,
    "syncfs": 1,
    "link": 1,
    "symlink": 1,
    "chmod": 1,
    "utimensat": 1,
    "copy_file_range": 1,
    "sendfile": 1,
    "unlinkat": 9,
    "rmdir": 1,
}

# How many installers do it: the old files go, the new ones are unpacked.
NAIVE = """
import pathlib, shutil, sys, zipfile
library = pathlib.Path(sys.argv[1])
for path in library.glob("demo*"):
    shutil.rmtree(path) if path.is_dir() else path.unlink()
zipfile.ZipFile(sys.argv[2]).extractall(library)
"""


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Offer a scene without an index."""
    return Scene(tmp_path / "scene")


def everything(scene: Scene) -> list[str]:
    """Return the command line that does all there is."""
    return [sys.executable, "-c", EVERYTHING, str(scene.state)]


def test_every_call_is_seen(scene: Scene) -> None:
    """No way around the C library, by a child or a thread escapes."""
    ended = scene.run_line(everything(scene), Step())
    assert ended.code == 0, ended
    assert Counter(call["call"] for call in ended.calls) == EXPECTED
    assert not ended.fired


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_strace_sees_the_same(scene: Scene, tmp_path: Path) -> None:
    """What strace counts of one run is what the stepper counts of another."""
    log = tmp_path / "log"
    scene.run_line(["strace", "-f", "-y", "-o", str(log), *everything(scene)])
    seen: Counter[str] = Counter()
    for line in log.read_text().splitlines():
        match = re.match(r"\d+ +(\w+)\((.*)", line)
        if match is None or match[1] not in EXPECTED or "/dev/null" in line:
            continue
        changes = match[1] != "openat" or re.search(r"O_(WRONLY|RDWR|CREAT)", line)
        to_us = match[1] not in {"write", "fsync"} or str(scene.state) in line
        if changes and to_us and "__pycache__" not in line:
            seen[match[1]] += 1
    assert seen == EXPECTED


@pytest.mark.parametrize("act", ["kill", "kill-after"])
def test_a_kill_comes_at_its_call(scene: Scene, act: str) -> None:
    """Killed before the third call, two have happened; killed after it, three."""
    program = "import os, sys\nfor n in range(5): os.mkdir(f'{sys.argv[1]}/{n}')\nprint('done')"
    scene.keep("before")
    ended = scene.run_line([sys.executable, "-c", program, str(scene.state)], Step(3, act))
    made = [path.name for path in scene.state.iterdir() if path.name.isdigit()]
    assert sorted(made) == (["0", "1"] if act == "kill" else ["0", "1", "2"])
    assert (ended.code, ended.fired, ended.out) == (-9, True, "")


@pytest.mark.parametrize("act", ["fail", "fail-from"])
def test_a_call_fails(scene: Scene, act: str) -> None:
    """A call ends with the error and does nothing; the next ones do, or fail too."""
    program = """
import os, sys
for n in range(4):
    try:
        os.mkdir(f'{sys.argv[1]}/{n}')
    except OSError as error:
        print(n, error.errno)
"""
    step = Step(2, act, errno.ENOSPC)
    ended = scene.run_line([sys.executable, "-c", program, str(scene.state)], step)
    failed = [1] if act == "fail" else [1, 2, 3]
    assert ended.out == "".join(f"{n} {errno.ENOSPC}\n" for n in failed)
    assert [(scene.state / str(n)).exists() for n in range(4)] == [
        n not in failed for n in range(4)
    ]


def test_other_file_numbers(scene: Scene) -> None:
    """A program is told of the numbers that it shall believe in, however it asks."""
    path = scene.state / "file"
    path.write_text("")
    program = f"""
import os
path = {str(path)!r}
folder = os.open({str(scene.state)!r}, os.O_RDONLY)
print(os.stat(path).st_ino, os.lstat(path).st_ino, os.fstat(os.open(path, os.O_RDONLY)).st_ino)
print(os.stat("file", dir_fd=folder).st_ino, os.fstat(folder).st_ino > 1 << 40)
"""
    step = Step(numbers={path.stat().st_ino: 42})
    assert scene.run_line([sys.executable, "-c", program], step).out == "42 42 42\n42 True\n"


def test_a_naive_installer_is_found_out(scene: Scene, wheels: Path) -> None:
    """One that deletes and unpacks leaves neither old nor new at nearly every call."""
    line = [sys.executable, "-c", NAIVE, str(scene.library)]
    scene.run_line([*line, str(wheels / "demo-1.0-py3-none-any.whl")])
    scene.keep("before")
    old = snapshot(scene.environment)
    line.append(str(wheels / "demo-2.0-py3-none-any.whl"))
    plain = scene.run_line(line, Step())
    new = snapshot(scene.environment)
    broken = 0
    for number in range(2, len(plain.calls), 5):
        scene.back_to("before")
        scene.run_line(line, Step(number))
        broken += snapshot(scene.environment) not in (old, new)
    assert broken >= len(range(2, len(plain.calls), 5)) - 1
