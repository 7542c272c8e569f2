"""The command that cares for the store."""

from __future__ import annotations

import io
import os
import platform
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runtime.libraries.stored import CUDART

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.libraries import build_cuda_wheels
from wheelfit_runtime.libraries.store_command import run


def test_prefetch_list_and_path(command: Callable[..., Any], tmp_path: Path) -> None:
    """What is fetched ahead is listed, with its place."""
    status, told = command("prefetch", "cuda", "12", "--driver", "12.5", "--json")
    assert status == 0
    assert told["version"] == "12.4.1"
    assert [wheel["project"] for wheel in told["wheels"]] == [CUDART, "nvidia-cuda-nvrtc-cu12"]
    assert Path(told["root"], "include", "cuda_fp16.h").read_text() == "// 12.4\n"
    status, told = command("list", "--json")
    assert {wheel["project"] for wheel in told["wheels"]} == {CUDART, "nvidia-cuda-nvrtc-cu12"}
    assert told["bytes"] == sum(wheel["bytes"] for wheel in told["wheels"]) > 0
    assert "nvidia-cuda-nvrtc-cu12 12.4.7" in command("list")[1]
    assert command("path") == (0, f"{tmp_path / 'store'}\n")


def test_prefetch_of_what_the_site_has(
    command: Callable[..., Any],
    environ: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the site has is not fetched again, and it is said where it is."""
    command("prefetch", "cuda", "12", "cudart")
    (tmp_path / "store").rename(tmp_path / "site")
    environ["WHEELFIT_LIBRARY_SITES"] = str(tmp_path / "site")
    monkeypatch.setenv("WHEELFIT_LIBRARY_SITES", str(tmp_path / "site"))
    told = command("prefetch", "cuda", "12", "cudart")[1]
    assert told.startswith(f"cuda 12.9.1 is in {tmp_path / 'site'}:")
    assert command("list")[1].endswith(f" MB in {tmp_path / 'site'}\n")


def test_upgrade(
    command: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    cuda_wheels: Path,
) -> None:
    """What was chosen stays chosen until somebody looks for newer ones."""
    assert command("prefetch", "cuda", "12", "cudart", "--json")[1]["version"] == "12.9.1"
    newer = tmp_path / "newer"
    shutil.copytree(cuda_wheels, newer)
    build_cuda_wheels(newer, ["12.9"], machine=platform.machine(), patch=2)
    with RecordingIndex(newer) as index:
        monkeypatch.setenv("WHEELFIT_LIBRARY_INDEX", index.url)
        asked = ("prefetch", "cuda", "12", "cudart", "--json")
        assert command(*asked)[1]["version"] == "12.9.1"
        assert command(*asked, "--upgrade")[1]["version"] == "12.9.2"


def test_prefetch_takes_nothing_older(
    command: Callable[..., Any], program: Callable[..., Any], index: RecordingIndex
) -> None:
    """Where the newest cannot be had a program takes what is there; fetching ahead has failed."""
    asked = ("prefetch", "cuda", "12", "cudart", "--json")
    command(*asked, "--driver", "12.4")
    index.faults.status["*"] = 403
    status, told = command(*asked, "--driver", "12.9")
    assert (status, told["error"]["code"]) == (5, "unexpected-status")
    assert program("answer = tell(initialize_cuda('12', ['cudart']))")["version"] == "12.4.1"


def test_verify(command: Callable[..., Any], tmp_path: Path) -> None:
    """A library that is not what it was is found, and removed on request."""
    command("prefetch", "cuda", "12")
    assert command("verify")[0] == 0
    (library,) = (tmp_path / "store" / "store").rglob("libcudart.so.12")
    library.write_bytes(bytes(library.stat().st_size))
    status, told = command("verify", "--json")
    assert status == 4
    assert [one["project"] for one in told["damaged"]] == [CUDART]
    assert "1 damaged\nhint: verify --remove" in command("verify")[1]
    assert command("verify", "--remove", "--json") == (
        4,
        {**told, "damaged": [{**told["damaged"][0], "removed": True}]},
    )
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
        (("prefetch", "cuda", "12", "--driver", "12.²"), 1, "user-error"),
        (("prefetch", "cuda", "12.1"), 3, "no-compatible-wheel"),
        (("prefetch", "cuda", "12", "cudnn"), 3, "project-not-found"),
        (("prefetch", "cuda", "11", "nvjitlink"), 1, "user-error"),
        (("prefetch", "cuda", "12", "--lock", "/not/there"), 1, "file-problem"),
        (("gc", "--days", "-1"), 1, "user-error"),
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


@pytest.mark.parametrize("transport", ["http", "pip"])
def test_prefetch_without_network(
    command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    """The hint names another command than the one that failed, and the reason is in words."""
    monkeypatch.setenv("WHEELFIT_LIBRARY_INDEX", "https://127.0.0.1:9/simple/")
    monkeypatch.setenv("WHEELFIT_LIBRARY_TRANSPORT", transport)
    monkeypatch.setenv("PIP_RETRIES", "0")
    status, told = command("prefetch", "cuda", "12", "cudart", "--json")
    assert status == 5
    assert (
        told["error"]["hint"] == "check the network, or set WHEELFIT_LIBRARY_INDEX to another index"
    )
    assert "Errno" not in told["error"]["message"]


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    """The help names the variables of the store."""
    assert run(["--help"], {}, io.StringIO(), io.StringIO()) == 0
    assert "WHEELFIT_LIBRARY_STORE" in capsys.readouterr().out


def test_wrong_command_line() -> None:
    """A command that does not exist ends with status 2."""
    assert run(["banana"], {}, io.StringIO(), io.StringIO()) == 2
