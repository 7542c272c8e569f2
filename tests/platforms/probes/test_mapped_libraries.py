"""Reading ``/proc/PID/maps``, of real processes and of machines that are folders."""

from __future__ import annotations

import mmap
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from wheelfit_runtime.platforms.probes.mapped_libraries import (
    MappedFile,
    parse,
    read,
    sha256_of,
    soname,
)
from wheelfit_runtime.platforms.system_view import SystemView

MAPS = """\
00400000-00401000 r-xp 00000000 08:01 17 /usr/bin/program with blanks
7f00-7f10 r--p 00000000 08:01 18                         /lib/libdata.so.1
7f20-7f30 r-xp 00000000 08:01 19                         /lib/libcode.so.1
7f30-7f40 rw-p 00000000 08:01 19                         /lib/libcode.so.1
7f40-7f50 r-xp 00000000 08:01 20                         /lib/libold.so.1 (deleted)
7f50-7f60 r-xp 00000000 08:01 19                         /lib/libcode.so.1
7f60-7f70 rwxp 00000000 00:00 0
7f70-7f80 r-xp 00000000 00:00 0                          [vdso]
7f80-7f90 r-xp 00000000 08:01 21                         /lib/two\\012lines.so
garbage
"""


def test_what_is_code() -> None:
    """Files mapped as code are told once each, in order; data, memory and garbage are not."""
    assert parse(MAPS) == (
        MappedFile("/usr/bin/program with blanks", "08:01", 17),
        MappedFile("/lib/libcode.so.1", "08:01", 19),
        MappedFile("/lib/libold.so.1", "08:01", 20, deleted=True),
        MappedFile("/lib/two\nlines.so", "08:01", 21),
    )


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the file")
def test_this_process() -> None:
    """The running interpreter is among the files of this process."""
    here = SystemView()
    found = read(here, None)
    assert found.pid == os.getpid()
    assert found.problem == ""
    executable = os.path.realpath(sys.executable)
    assert any(file.path == executable or "libpython" in file.path for file in found.files)
    assert found == read(here, os.getpid())
    # libc itself or its loader, by its name: others begin with "libc" too, as libcrypto does.
    libc = re.compile(r"(libc|ld-.*)\.so\.\d+|(libc|ld)-[\d.]+\.so|ld-musl-.*\.so\.\d+")
    mapped = [file for file in found.files if libc.fullmatch(file.name)]
    assert mapped
    for file in mapped:
        if not file.deleted:  # an upgrade of the system may have replaced it meanwhile
            assert str(soname(here, found.pid, file)).startswith(("libc.", "ld-"))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the file")
def test_replaced_on_disk(tmp_path: Path) -> None:
    """A file that was replaced since it was mapped has neither a SONAME nor a hash."""
    here = SystemView()
    library = tmp_path / "libcrypto.so.3"
    shutil.copyfile(os.path.realpath(sys.executable), library)
    with library.open("rb") as stream:
        code = mmap.mmap(stream.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
    with code:
        library.unlink()
        library.write_bytes(b"another release")
        (file,) = (file for file in read(here, None).files if file.path == str(library))
    assert file.deleted
    assert soname(here, os.getpid(), file) is None
    assert sha256_of(here, os.getpid(), file) is None


def test_another_root(tmp_path: Path) -> None:
    """P-70: everything is read below the given root, also through the process's own root."""
    folder = tmp_path / "proc/42"
    folder.mkdir(parents=True)
    (folder / "maps").write_text(MAPS)
    (folder / "comm").write_text("trainer\n")
    (folder / "environ").write_bytes(b"CUDA_VISIBLE_DEVICES=0\0HOME=/x\0broken\0")
    machine = SystemView(str(tmp_path), {}, system="Linux")
    found = read(machine, 42)
    assert (found.program, len(found.files)) == ("trainer", 4)
    assert dict(found.environ) == {"CUDA_VISIBLE_DEVICES": "0", "HOME": "/x"}
    file = found.files[1]
    assert sha256_of(machine, 42, file) is None
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libcode.so.1").write_bytes(b"the machine's")
    outside = sha256_of(machine, 42, file)
    (folder / "root/lib").mkdir(parents=True)
    (folder / "root/lib/libcode.so.1").write_bytes(b"the container's")
    inside = sha256_of(machine, 42, file)
    assert outside is not None
    assert inside is not None
    assert inside != outside
    assert soname(machine, 42, file) is None


@pytest.mark.parametrize(
    ("system", "files", "problem"),
    [
        ("Linux", [], "there is no process 42"),
        ("Linux", ["comm"], "this user may not read the files of process 42"),
        ("Linux", ["maps"], "process 42 has no memory"),
        ("Darwin", ["maps"], "Darwin does not list the files of a process"),
        ("Windows", [], "Windows does not list the files of a process"),
    ],
)
def test_no_answer(system: str, files: list[str], problem: str, tmp_path: Path) -> None:
    """P-74: what cannot be told is data with a reason."""
    for name in files:
        (tmp_path / "proc/42").mkdir(parents=True, exist_ok=True)
        (tmp_path / "proc/42" / name).touch()
    found = read(SystemView(str(tmp_path), {}, system=system), 42)
    assert found.files == ()
    assert found.problem.startswith(problem)
