"""The store: how wheels come to it whole, and what may be wrong with the place where it lies."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from programs import run_program
from python_runs import run_python
from runtime.libraries.stored import CUDART

from wheelfit_runtime.libraries.files import read_fields, write_fields
from wheelfit_runtime.libraries.store import Store
from wheelfit_runtime.libraries.store_changes import add_wheel, locked, working_folder
from wheelfit_runtime.libraries.verifying import damage_of


def test_who_comes_second_finds_it(tmp_path: Path) -> None:
    """A wheel that another process has put in its place meanwhile stays."""
    store = Store(str(tmp_path / "store"))
    for content in ("first", "second"):
        with working_folder(store) as folder:
            entry = Path(folder, "entry")
            entry.mkdir()
            (entry / "file").write_text(content)
            add_wheel(store, str(entry), "a" * 64)
    found = store.find("a" * 64)
    assert found is not None
    assert Path(found.folder, "file").read_text() == "first"
    assert not list((tmp_path / "store" / "partial").iterdir())


def test_what_the_killed_left_is_swept(tmp_path: Path) -> None:
    """What was left behind goes after a day, and what is under way stays."""
    store = Store(str(tmp_path))
    old, young = tmp_path / "partial" / "old", tmp_path / "partial" / "young"
    old.mkdir(parents=True)
    young.mkdir()
    os.utime(old, (time.time() - 100_000,) * 2)
    with working_folder(store):
        assert not old.exists()
        assert young.exists()


def test_half_a_file_of_ours_is_none(tmp_path: Path) -> None:
    """A file of fields is read whole or not at all."""
    path = tmp_path / "some.txt"
    write_fields(str(path), [("a", "b"), ("c",)])
    assert read_fields(str(path)) == [["a", "b"], ["c"]]
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert read_fields(str(path)) is None
    assert [path.name for path in tmp_path.iterdir()] == ["some.txt"]


# --- places that are not as they should be -------------------------------------------------------


def test_hashes_that_lead_elsewhere(
    command: Callable[..., Any], cuda_wheels: Path, tmp_path: Path
) -> None:
    """A lock whose hash is a path, or another one, ends with status 4 and leads nowhere."""
    (tmp_path / "store" / "store").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (wheel,) = cuda_wheels.glob("nvidia_cuda_runtime_cu12-12.9*")
    lock = tmp_path / "pylock.toml"
    for told in ("../../elsewhere", "0" * 64):
        lock.write_text(
            f"[[packages]]\nname = '{CUDART}'\nversion = '12.9.7'\n"
            f"[[packages.wheels]]\nurl = '{wheel.as_uri()}'\nhashes = {{sha256 = '{told}'}}\n"
        )
        asked = ("prefetch", "cuda", "12", "cudart", "--lock", str(lock), "--json")
        status, error = command(*asked)
        assert (status, error["error"]["code"]) == (4, "hash-mismatch")
    assert not list((tmp_path / "elsewhere").iterdir())
    assert not list((tmp_path / "store" / "store").iterdir())


def test_locks_that_cannot_be(program: Callable[..., Any], tmp_path: Path) -> None:
    """Where no lock can be had, all is done without."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "locks").write_text("in the way")
    assert program("answer = tell(initialize_cuda('12', ['cudart']))")["cudart"] == 12090


@pytest.mark.integration
def test_a_disk_that_is_full(environ: dict[str, str], tmp_path: Path) -> None:
    """On a full disk it is said, nothing half-written stays, and with space it works."""
    inner = (
        f"mount -t tmpfs -o size=48k,mode=755 none {tmp_path / 'store'} && "
        f"{sys.executable} -m wheelfit_runtime store prefetch cuda 12; "
        f"echo status $?; find {tmp_path / 'store' / 'partial'} -type f | wc -l; "
        f"mount -o remount,size=8m {tmp_path / 'store'} && "
        f"{sys.executable} -m wheelfit_runtime store prefetch cuda 12; echo status $?"
    )
    (tmp_path / "store").mkdir()
    unshare = shutil.which("unshare")
    usable = unshare and not subprocess.run([unshare, "-rm", "true"], check=False).returncode
    if not usable:
        pytest.skip("needs a user namespace, for a disk of its own")
    completed = run_program(unshare, "-rm", "sh", "-c", inner, code=None, env=environ)
    lines = [line for line in completed.stdout.splitlines() if not line.startswith((" ", "cuda"))]
    assert lines == ["status 6", "0", "status 0"], completed
    assert "no space left" in completed.stderr


def test_a_file_that_may_not_grow(environ: dict[str, str], tmp_path: Path) -> None:
    """A write that the system refuses is said, and leaves nothing behind."""
    code = (
        "import resource, signal, sys; from wheelfit_runtime.__main__ import main\n"
        # Python would cut off what it compiles, and all later tests would read that.
        "sys.dont_write_bytecode = True\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "sys.exit(main(['store', 'prefetch', 'cuda', '12']))"
    )
    completed = run_python("-c", code, environ=environ)
    assert completed.returncode == 6, completed.stderr
    assert "store-unavailable" in completed.stderr
    assert not list((tmp_path / "store").rglob("*.so*"))
    assert not list((tmp_path / "store" / "partial").iterdir())


def test_who_waits_is_told(tmp_path: Path) -> None:
    """Who waits for another process hears so, and goes on when that one is done."""
    store = Store(str(tmp_path))
    order = []

    def second() -> None:
        with locked(store, "some", lambda: order.append("waiting")):
            order.append("second")

    thread = threading.Thread(target=second)
    with locked(store, "some", lambda: None):
        thread.start()
        while not order:
            time.sleep(0.01)
        order.append("first")
    thread.join()
    assert order[0] == "waiting"
    assert order[-1] == "second"
    assert "first" in order


def test_damage_of_what_is_no_wheel(tmp_path: Path) -> None:
    """A folder without its list of files is damaged."""
    (tmp_path / "store" / ("b" * 64)).mkdir(parents=True)
    entry = Store(str(tmp_path)).find("b" * 64)
    assert entry is not None
    assert damage_of(entry) == ["wheel.txt is missing or truncated"]
