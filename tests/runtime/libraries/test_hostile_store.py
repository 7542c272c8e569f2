"""Stores that others have their hands in, wheels that mean harm, and moments that are bad."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from python_runs import printed_by, run_python
from runtime.libraries.stored import CUDART
from sampled_cases import sampled

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.libraries import compile_library
from wheelfit_runtime.libraries.files import read_fields, write_fields
from wheelfit_runtime.libraries.store import Store
from wheelfit_runtime.libraries.store_changes import locked
from wheelfit_runtime.libraries.verifying import sha256_of

Program = Callable[..., Any]
Command = Callable[..., tuple[int, Any]]
PREFETCH = ("prefetch", "cuda", "12", "cudart", "--json")
ONLY_CUDART = "answer = tell(initialize_cuda('12', ['cudart']))"


def selection_of(tmp_path: Path) -> Path:
    """Return the only selection of the store."""
    (path,) = (tmp_path / "store" / "selections").iterdir()
    return path


def rewrite(path: Path, change: Callable[[list[str]], Iterable[str]]) -> None:
    """Change the lines of a file of ours."""
    lines = read_fields(str(path)) or []
    write_fields(str(path), [tuple(change(line)) for line in lines])


def with_path(path: str, line: list[str]) -> list[str]:
    """Return a line of a selection with another path of a library."""
    return [*line[:2], path, *line[3:]] if line[0] == "load" else line


# --- what others may have changed -----------------------------------------------------------------


def test_a_selection_that_leads_elsewhere(program: Program, tmp_path: Path) -> None:
    """A selection whose path leads out of the store is none."""
    library = Path(program(ONLY_CUDART)["paths"]["libcudart.so.12"])
    evil = tmp_path / "evil.so"
    shutil.copy(library, evil)
    for path in (str(evil), f"../../../../{evil.name}"):
        rewrite(selection_of(tmp_path), partial(with_path, path))
        assert program(ONLY_CUDART)["paths"]["libcudart.so.12"] == str(library)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives files away")
def test_a_store_of_another_user(program: Program, tmp_path: Path) -> None:
    """A store of another user is not loaded from, unless it is named as one of the site."""
    program(ONLY_CUDART)
    store = tmp_path / "store"
    for folder in (store / "selections", store / "store", store):
        os.chown(folder, 12345, -1)
        error = program(ONLY_CUDART)["error"]
        assert (error["code"], error["where"]) == ("store-unavailable", str(folder))
        os.chown(folder, 0, -1)
    os.chown(store, 12345, -1)
    extra = {"WHEELFIT_LIBRARY_SITES": str(store), "WHEELFIT_LIBRARY_STORE": str(tmp_path / "own")}
    assert program(ONLY_CUDART, extra)["cudart"] == 12090
    assert not list((tmp_path / "own").rglob("*.so*"))


@pytest.mark.integration
def test_whoever_has_no_umask(program: Program, tmp_path: Path) -> None:
    """Even with umask 000, as daemons have it, nobody else may write to what is made."""
    root = "initialize_cuda('12', ['cudart']).root()"
    program(f"import os; os.umask(0)\n{ONLY_CUDART}; {root}")
    made = [tmp_path / "store", *(tmp_path / "store").rglob("*")]
    assert not [one for one in made if one.stat().st_mode & stat.S_IWOTH]
    assert program(ONLY_CUDART)["cudart"] == 12090


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs Linux")
def test_a_place_where_nothing_can_be_made(command: Command, environ: dict[str, str]) -> None:
    """A store where the system lets nobody make a folder is said to be none."""
    environ["WHEELFIT_LIBRARY_STORE"] = "/proc/wheelfit/libraries"
    status, told = command(*PREFETCH)
    assert (status, told["error"]["code"]) == (6, "store-unavailable")


def test_a_home_of_several_machines(
    command: Command, tmp_path: Path, index: RecordingIndex
) -> None:
    """What was chosen for another architecture is not taken."""
    command(*PREFETCH)
    rewrite(
        selection_of(tmp_path), lambda line: ["machine", "sparc"] if line[0] == "machine" else line
    )
    index.clear_requests()
    command(*PREFETCH)
    assert index.requests


def test_what_a_later_version_wrote(command: Command, tmp_path: Path) -> None:
    """What a selection of an unknown form names stays, and is not read otherwise."""
    command(*PREFETCH)
    selection = selection_of(tmp_path)
    rewrite(selection, lambda line: ["selection", "2"] if line[0] == "selection" else line)
    (entry,) = (tmp_path / "store" / "store").iterdir()
    os.utime(entry, (0, 0))
    assert command("gc", "--json")[1]["removed"] == []
    selection.write_text(selection.read_text()[:-5])
    assert len(command("gc", "--json")[1]["removed"]) == 1


@pytest.mark.parametrize(
    "text",
    sampled(
        ["", "file\tx\nend\n", "file\ta\tb\tc\nend\n", "file\t../x\t1\tc\nproject\nend\n", "\0"],
        fast={0, 3},
    ),
)
def test_a_list_of_files_that_is_none(command: Command, tmp_path: Path, text: str) -> None:
    """What is written of a wheel may be nonsense: commands say so, and it is fetched again."""
    command(*PREFETCH)
    (entry,) = (tmp_path / "store" / "store").iterdir()
    (entry / "wheel.txt").write_text(text)
    (entry.parent / "lost+found").mkdir()
    status, told = command("list", "--json")
    assert (status, len(told["wheels"])) == (0, 1)
    assert command("list")[0] == 0
    assert command("verify")[0] == 4
    assert command("gc")[0] == 0
    selection_of(tmp_path).unlink()
    assert command(*PREFETCH)[0] == 0
    assert command("verify")[0] == 0


@pytest.mark.integration
def test_a_store_that_is_taken_away_meanwhile(program: Program) -> None:
    """Libraries that go between choosing and loading, as with `gc`, are fetched again."""
    program(ONLY_CUDART)
    remove = (
        "import shutil, os\n"
        "def away(event, arguments, left=[1]):\n"
        "    if event == 'ctypes.dlopen' and 'libcudart' in str(arguments[0]) and left:\n"
        "        left.pop(); shutil.rmtree(os.environ['WHEELFIT_LIBRARY_STORE'] + '/store')\n"
        "sys.addaudithook(away)\n"
    )
    assert program(remove + ONLY_CUDART)["cudart"] == 12090


@pytest.mark.parametrize("name", sampled(["a store", "größe", "new\nline", "link"], fast={2}))
def test_names_of_stores(program: Program, tmp_path: Path, name: str) -> None:
    """A store may have any name, and be a link."""
    store = tmp_path / name
    if name == "link":
        (tmp_path / "real").mkdir()
        store.symlink_to("real")
    for _ in range(2):
        answer = program(ONLY_CUDART, {"WHEELFIT_LIBRARY_STORE": str(store)})
        assert (answer["cudart"], answer["foreign_paths"]) == (12090, {})


@pytest.mark.integration
def test_the_same_build_is_there_once(program: Program, tmp_path: Path) -> None:
    """The very same library from elsewhere is used, and not mapped a second time; so two stores."""
    library = Path(program(ONLY_CUDART)["paths"]["libcudart.so.12"])
    other = tmp_path / "environment" / "libcudart.so.12"
    other.parent.mkdir()
    shutil.copy(library, other)
    count = (
        "\nmapped = {line.split()[-1] for line in open('/proc/self/maps') if 'libcudart' in line}\n"
        "answer = [sorted(mapped), answer['paths']['libcudart.so.12']]"
    )
    load = f"ctypes.CDLL({str(other)!r})\n"
    assert program(load + ONLY_CUDART + count) == [[str(other)], str(other)]
    again = f"\nanswer = tell(initialize_cuda('12', ['cudart'], store={str(tmp_path / 'b')!r}))"
    assert program(ONLY_CUDART + again + count) == [[str(library)], str(library)]


# --- locks of wheels ------------------------------------------------------------------------------


@pytest.mark.integration
def test_offline_a_lock_still_counts(
    program: Program, index: RecordingIndex, cuda_wheels: Path, tmp_path: Path
) -> None:
    """Offline nothing else is taken than what a lock names; a wheel on this machine may be."""
    program(ONLY_CUDART)
    (wheel,) = cuda_wheels.glob("nvidia_cuda_runtime_cu12-12.4*")
    (tmp_path / "some wheels #1").mkdir()
    shutil.copy(wheel, tmp_path / "some wheels #1")
    lock = tmp_path / "pylock.toml"
    ask = f"answer = tell(initialize_cuda('12', ['cudart'], lock={str(lock)!r}))"
    index.clear_requests()
    places = {
        "url": (index.file_url(wheel.name), "not-in-store"),
        "path": (f"some wheels #1/{wheel.name}", None),
    }
    for key, (place, code) in places.items():
        lock.write_text(
            f"lock-version = '1.0'\n[[packages]]\nname = '{CUDART}'\nversion = '12.4.7'\n"
            f"[[packages.wheels]]\n{key} = '{place}'\nhashes = {{sha256 = '{sha256_of(wheel)}'}}\n"
        )
        answer = program(ask, {"WHEELFIT_OFFLINE": "1"})
        assert answer["error"]["code"] == code if code else answer["cudart"] == 12040
    assert not index.requests
    # What a lock named is nobody else's choice.
    assert program(ONLY_CUDART)["cudart"] == 12090


def test_a_lock_without_the_right_hash(program: Program, tmp_path: Path) -> None:
    """A wheel of which no SHA-256 is written is not taken, and it is said why."""
    lock = tmp_path / "pylock.toml"
    lock.write_text(
        f"[[packages]]\nname = '{CUDART}'\nversion = '12.9.7'\n[[packages.wheels]]\n"
        "url = 'https://me:secret@index.example/nvidia_cuda_runtime_cu12-12.9.7-py3-none-any.whl'\n"
        "hashes = {sha512 = '00'}\n"
    )
    error = program(f"initialize_cuda('12', ['cudart'], lock={str(lock)!r})")["error"]
    assert (error["code"], error["exit_code"]) == ("integrity", 4)
    assert "secret" not in str(error)


# --- indexes without the table --------------------------------------------------------------------


def test_a_mirror_without_the_table(
    command: Command, monkeypatch: pytest.MonkeyPatch, cuda_wheels: Path, tmp_path: Path
) -> None:
    """An index without the table is an error that names it."""
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    for wheel in cuda_wheels.glob("nvidia_*"):
        shutil.copy(wheel, mirror)
    with RecordingIndex(mirror) as index:
        monkeypatch.setenv("WHEELFIT_LIBRARY_INDEX", index.url)
        told = command("prefetch", "cuda", "12", "--json")[1]
    assert told["error"]["code"] == "project-not-found"
    assert "cuda-toolkit" in told["error"]["message"]


# --- the user's installer -------------------------------------------------------------------------


@pytest.mark.integration
def test_what_may_confuse_pip(
    environ: dict[str, str], index: RecordingIndex, tmp_path: Path
) -> None:
    """Neither the current folder, nor settings for people, nor warnings confuse pip."""
    (tmp_path / "json.py").write_text("raise SystemExit('taken from the current folder')")
    extra = {
        "PIP_VERBOSE": "3",
        "PIP_REQUIRE_VIRTUALENV": "1",
        "PYTHONWARNINGS": "error",
        "WHEELFIT_LIBRARY_TRANSPORT": "pip",
    }
    code = "from wheelfit_runtime import initialize_cuda; initialize_cuda('12', ['cudart'])"
    script = tmp_path / "scripts" / "program.py"
    script.parent.mkdir()
    script.write_text(code)
    printed_by(script, environ={**environ, **extra}, cwd=tmp_path)
    index.faults.login = ("me", "secret")
    asked = ("-m", "wheelfit_runtime", "store", "prefetch", "cuda", "12.4", "cudart")
    extra["WHEELFIT_LIBRARY_INDEX"] = index.url_with_login("me", "wr0ng")
    completed = run_python(*asked, environ={**environ, **extra})
    assert completed.returncode not in (0, 1)
    assert "wr0ng" not in completed.stdout + completed.stderr
    assert "Traceback" not in completed.stderr


@pytest.mark.parametrize("transport", ["http", pytest.param("pip", marks=pytest.mark.integration)])
def test_interrupted_from_the_keyboard(
    environ: dict[str, str],
    index: RecordingIndex,
    cuda_wheels: Path,
    tmp_path: Path,
    transport: str,
) -> None:
    """Interrupted in a download it ends with 130, without children and without leftovers."""
    wheel = next(cuda_wheels.glob("nvidia_cuda_runtime_cu12-12.9*")).name
    index.faults.stall[wheel] = 10
    asked = [sys.executable, "-m", "wheelfit_runtime", "store", "prefetch", "cuda", "12", "cudart"]
    environ["WHEELFIT_LIBRARY_TRANSPORT"] = transport
    with subprocess.Popen(asked, env=environ, stderr=subprocess.PIPE, text=True) as running:
        while not index.bytes_sent(wheel):
            assert running.poll() is None
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert said.splitlines()[-1] == "error: interrupted from the keyboard [interrupted]"
    assert "Traceback" not in said
    assert not list((tmp_path / "store" / "partial").iterdir())


# --- places without locks -------------------------------------------------------------------------

FAR_AWAY = """
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>
int flock(int file, int how) { errno = ENOLCK; return -1; }
int rename(const char *from, const char *to) {
    if (!syscall(SYS_renameat2, -100, from, -100, to, 0)) errno = ENOENT;
    return -1;
}
"""


@pytest.mark.integration
def test_a_file_system_far_away(environ: dict[str, str], command: Command, tmp_path: Path) -> None:
    """Without locks and with lost answers, as on some network file systems, all come through."""
    shim = tmp_path / "far.so"
    shim.write_bytes(compile_library(shim.name, FAR_AWAY))
    code = "from wheelfit_runtime import initialize_cuda; initialize_cuda('12', ['cudart'])"
    extra = {**environ, "LD_PRELOAD": str(shim)}
    running = [subprocess.Popen([sys.executable, "-c", code], env=extra) for _ in range(4)]
    assert [one.wait(60) for one in running] == [0] * 4
    assert command("verify")[0] == 0
    assert not list((tmp_path / "store" / "partial").iterdir())


def test_a_lock_ends_though_a_child_has_it(tmp_path: Path) -> None:
    """A process that was forked while a lock was held does not hold it on."""
    store = Store(str(tmp_path))
    reading, writing = os.pipe()
    with locked(store, "some", lambda: None):
        child = os.fork()
        if not child:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
    with (tmp_path / "locks" / "some.lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(writing)
    os.close(reading)
    assert os.waitpid(child, 0)[1] == 0
