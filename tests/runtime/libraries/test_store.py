"""The store: what is kept of a wheel, how it is cared for, and what may go wrong with it."""

from __future__ import annotations

import io
import os
import platform
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wheelfit.errors import HashMismatch, InvalidWheel
from wheelfit.runtime.libraries.files import read_fields, write_fields
from wheelfit.runtime.libraries.keeping import keep, working_folder
from wheelfit.runtime.libraries.locks import locked
from wheelfit.runtime.libraries.progress import Progress
from wheelfit.runtime.libraries.store import Store
from wheelfit.runtime.libraries.store_command import run
from wheelfit.runtime.libraries.verifying import damage_of, sha256_of, unpack
from wheelfit.runtime.libraries.wheels import Listed
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.libraries import build_cuda_wheels

CUDART = "nvidia-cuda-runtime-cu12"


def listed(wheel: Path, sha256: str | None = None) -> Listed:
    """Return what an index would say of a file."""
    return Listed(CUDART, "1.0", wheel.name, wheel.as_uri(), sha256 or sha256_of(wheel))


# --- what is kept --------------------------------------------------------------------------------


def test_keeps_libraries_and_licences(cuda_wheels: Path, tmp_path: Path) -> None:
    """Of a wheel the libraries, METADATA and licences are kept; no static and no second builds."""
    (wheel,) = cuda_wheels.glob("nvidia_cuda_nvrtc_cu12-12.9*")
    unpack(wheel, listed(wheel), tmp_path / "entry")
    tree = tmp_path / "entry" / "tree"
    names = {one.relative_to(tree).as_posix() for one in tree.rglob("*") if one.is_file()}
    about = "nvidia_cuda_nvrtc_cu12-12.9.7.dist-info"
    assert names == {
        "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
        "nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.12.9",
        f"{about}/METADATA",
        f"{about}/licenses/License.txt",
    }


def test_another_hash(cuda_wheels: Path, tmp_path: Path) -> None:
    """A wheel with another hash than promised is refused, and nothing is unpacked."""
    (wheel,) = cuda_wheels.glob("nvidia_cuda_nvrtc_cu12-12.9*")
    with pytest.raises(HashMismatch):
        unpack(wheel, listed(wheel, "0" * 64), tmp_path / "entry")
    assert not (tmp_path / "entry").exists()


@pytest.mark.parametrize(
    "member", ["../libevil.so", "/libevil.so", "a/../../libevil.so", "a\\libevil.so", "a\tb.so"]
)
def test_paths_that_lead_out(tmp_path: Path, member: str) -> None:
    """A wheel whose paths lead out of it is refused."""
    wheel = tmp_path / "evil-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(member, b"x")
    with pytest.raises(InvalidWheel):
        unpack(wheel, listed(wheel), tmp_path / "entry")
    assert not (tmp_path / "libevil.so").exists()


def test_links_and_rubbish(tmp_path: Path) -> None:
    """A link in a wheel is refused, and so is what is no archive."""
    wheel = tmp_path / "evil-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        link = zipfile.ZipInfo("lib/liba.so")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(InvalidWheel, match="plain file"):
        unpack(wheel, listed(wheel), tmp_path / "one")
    wheel.write_bytes(b"rubbish")
    with pytest.raises(InvalidWheel):
        unpack(wheel, listed(wheel), tmp_path / "two")


def test_one_library_of_many_names(tmp_path: Path) -> None:
    """A library that a wheel has under several names takes its space once."""
    wheel = tmp_path / "tbb-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("libtbb.so", "libtbb.so.12", "libtbb.so.12.20"):
            archive.writestr(f"tbb-1.0.data/data/lib/{name}", b"the same")
    unpack(wheel, listed(wheel), tmp_path / "entry")
    files = list((tmp_path / "entry" / "tree").rglob("lib*.so*"))
    assert len(files) == 3
    assert len({one.stat().st_ino for one in files}) == 1


def test_who_comes_second_finds_it(tmp_path: Path) -> None:
    """A wheel that another process has put in its place meanwhile stays."""
    store = Store(str(tmp_path / "store"))
    for content in ("first", "second"):
        with working_folder(store) as folder:
            entry = Path(folder, "entry")
            entry.mkdir()
            (entry / "file").write_text(content)
            keep(store, str(entry), "a" * 64)
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
    assert [one.name for one in tmp_path.iterdir()] == ["some.txt"]


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


def test_a_disk_that_is_full(environ: dict[str, str], tmp_path: Path) -> None:
    """On a full disk it is said, nothing half-written stays, and with space it works."""
    inner = (
        f"mount -t tmpfs -o size=48k,mode=755 none {tmp_path / 'store'} && "
        f"{sys.executable} -m wheelfit.runtime store prefetch cuda 12; "
        f"echo status $?; find {tmp_path / 'store' / 'partial'} -type f | wc -l; "
        f"mount -o remount,size=8m {tmp_path / 'store'} && "
        f"{sys.executable} -m wheelfit.runtime store prefetch cuda 12; echo status $?"
    )
    (tmp_path / "store").mkdir()
    unshare = shutil.which("unshare")
    usable = unshare and not subprocess.run([unshare, "-rm", "true"], check=False).returncode
    if not usable:
        pytest.skip("needs a user namespace, for a disk of its own")
    done = subprocess.run(
        [str(unshare), "-rm", "sh", "-c", inner],
        env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if not line.startswith((" ", "cuda"))]
    assert lines == ["status 6", "0", "status 0"], done
    assert "no space left" in done.stderr


def test_a_file_that_may_not_grow(environ: dict[str, str], tmp_path: Path) -> None:
    """A write that the system refuses is said, and leaves nothing behind."""
    code = (
        "import resource, signal, sys; from wheelfit.runtime.__main__ import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "sys.exit(main(['store', 'prefetch', 'cuda', '12']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 6, done.stderr
    assert "store-unavailable" in done.stderr
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


# --- the command ---------------------------------------------------------------------------------


def test_prefetch_list_and_path(command: Callable[..., Any], tmp_path: Path) -> None:
    """What is fetched ahead is listed, with its place."""
    status, told = command("prefetch", "cuda", "12", "--driver", "12.5", "--json")
    assert status == 0
    assert told["version"] == "12.4.1"
    assert [one["project"] for one in told["wheels"]] == [CUDART, "nvidia-cuda-nvrtc-cu12"]
    assert Path(told["root"], "include", "cuda_fp16.h").read_text() == "// 12.4\n"
    status, told = command("list", "--json")
    assert {one["project"] for one in told["wheels"]} == {CUDART, "nvidia-cuda-nvrtc-cu12"}
    assert told["bytes"] == sum(one["bytes"] for one in told["wheels"]) > 0
    assert "nvidia-cuda-nvrtc-cu12 12.4.7" in command("list")[1]
    assert command("path") == (0, f"{tmp_path / 'store'}\n")


def test_upgrade(command: Callable[..., Any], tmp_path: Path, cuda_wheels: Path) -> None:
    """What was chosen stays chosen until somebody looks for newer ones."""
    assert command("prefetch", "cuda", "12", "cudart", "--json")[1]["version"] == "12.9.1"
    newer = tmp_path / "newer"
    shutil.copytree(cuda_wheels, newer)
    build_cuda_wheels(newer, ["12.9"], machine=platform.machine(), patch=2)
    with RecordingIndex(newer) as index:
        asked = ("prefetch", "cuda", "12", "cudart", "--json", "--index-url", index.url)
        assert command(*asked)[1]["version"] == "12.9.1"
        assert command(*asked, "--upgrade")[1]["version"] == "12.9.2"


def test_verify(command: Callable[..., Any], tmp_path: Path) -> None:
    """A library that is not what it was is found, and removed on request."""
    command("prefetch", "cuda", "12")
    assert command("verify")[0] == 0
    (library,) = (tmp_path / "store" / "store").rglob("libcudart.so.12")
    library.write_bytes(bytes(library.stat().st_size))
    status, told = command("verify", "--json")
    assert status == 4
    assert [one["project"] for one in told["damaged"]] == [CUDART]
    assert command("verify", "--remove")[0] == 4
    assert command("verify")[0] == 0
    assert not library.exists()


def test_gc(command: Callable[..., Any], tmp_path: Path) -> None:
    """What nothing chose goes; what was chosen goes only after some time, on request."""
    command("prefetch", "cuda", "12", "cudart")
    (entry,) = (tmp_path / "store" / "store").iterdir()
    (selection,) = (tmp_path / "store" / "selections").iterdir()
    assert command("gc", "--json")[1]["removed"] == []
    assert command("gc", "--days", "1", "--json")[1]["removed"] == []
    old = (time.time() - 200_000,) * 2
    os.utime(selection, old)
    assert len(command("gc", "--days", "1", "--dry-run", "--json")[1]["removed"]) == 1
    assert entry.exists()
    selection.unlink()
    assert command("gc", "--json")[1]["removed"] == []  # fetched a moment ago, chosen soon
    os.utime(entry, old)
    assert len(list((tmp_path / "store" / "folders").iterdir())) == 1
    assert len(command("gc", "--json")[1]["removed"]) == 1
    assert not entry.exists()
    assert not list((tmp_path / "store" / "folders").iterdir())


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (("prefetch", "cuda", "banana"), 1, "user-error"),
        (("prefetch", "cuda", "12", "banana"), 1, "user-error"),
        (("prefetch", "cuda", "13", "--driver", "12.9"), 3, "driver-too-old"),
        (("prefetch", "cuda", "12", "--driver", "banana"), 1, "user-error"),
        (("prefetch", "cuda", "12.1"), 3, "no-compatible-wheel"),
        (("prefetch", "cuda", "12", "cudnn"), 3, "project-not-found"),
        (("prefetch", "cuda", "11", "nvjitlink"), 1, "user-error"),
        (("prefetch", "cuda", "12", "--lock", "/not/there"), 1, "file-problem"),
    ],
)
def test_what_cannot_be_fetched(
    command: Callable[..., Any], arguments: tuple[str, ...], status: int, code: str
) -> None:
    """Each refusal has its code, for programs and for people."""
    found, told = command(*arguments, "--json")
    assert (found, told["error"]["code"]) == (status, code)
    found, text = command(*arguments)
    assert found == status
    assert f"[{code}]" in text


def test_wrong_hash_of_the_index(
    command: Callable[..., Any], index: RecordingIndex, cuda_wheels: Path, tmp_path: Path
) -> None:
    """A wheel that is not what the index promised ends with status 4, and nothing is kept."""
    index.faults.wrong_hash.add(next(cuda_wheels.glob("nvidia_cuda_runtime_cu12-12.9*")).name)
    status, told = command("prefetch", "cuda", "12", "cudart", "--json")
    assert (status, told["error"]["code"]) == (4, "hash-mismatch")
    assert not list((tmp_path / "store").rglob("*.so*"))


def test_wrong_command_line() -> None:
    """A command that does not exist ends with status 2."""
    assert run(["banana"], {}, io.StringIO(), io.StringIO()) == 2


def test_damage_of_what_is_no_wheel(tmp_path: Path) -> None:
    """A folder without its list of files is damaged."""
    (tmp_path / "store" / ("b" * 64)).mkdir(parents=True)
    entry = Store(str(tmp_path)).find("b" * 64)
    assert entry is not None
    assert damage_of(entry) == ["wheel.txt is missing or cut off"]


# --- progress ------------------------------------------------------------------------------------


def test_progress_waits_and_then_tells() -> None:
    """Nothing is said of what is quick; of the rest, each thing once where lines stay."""
    quick, slow = io.StringIO(), io.StringIO()
    Progress(quick).tell("fetching x", 1, 2)
    assert quick.getvalue() == ""
    teller = Progress(slow, patience=0)
    for done in (1_000_000, 2_000_000):
        teller.tell("fetching x", done, 90_000_000)
    teller.tell("fetching y")
    teller.end()
    assert slow.getvalue() == "wheelfit: fetching x (1 of 90 MB)\nwheelfit: fetching y\n"


def test_progress_of_what_says_nothing() -> None:
    """While a child runs that says nothing, people are told all the same."""
    stream = io.StringIO()
    with Progress(stream, patience=0.01).during("asking pip"):
        while not stream.getvalue():
            time.sleep(0.01)
    assert stream.getvalue().startswith("wheelfit: asking pip")
