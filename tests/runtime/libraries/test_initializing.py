"""A program asks for libraries, and has them; each in a process of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from python_runs import printed_by, run_python
from sampled_cases import sampled

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.libraries import compile_library

Program = Callable[..., Any]
WithDriver = Callable[..., dict[str, str]]
ASK_12 = "answer = tell(initialize_cuda('12'))"
ONLY_CUDART = "answer = tell(initialize_cuda('12', ['cudart']))"


def test_has_the_newest_without_a_driver(program: Program) -> None:
    """Without a driver the newest minor version is loaded, what is needed before who needs it."""
    answer = program(ASK_12)
    assert (answer["version"], answer["cudart"]) == ("12.9.1", 12090)
    assert list(answer["paths"]) == [
        "libcudart.so.12",
        "libnvrtc-builtins.so.12.9",
        "libnvrtc.so.12",
    ]
    assert answer["foreign_paths"] == {}


def test_a_later_start_asks_nobody(program: Program, index: RecordingIndex) -> None:
    """The second process makes no request."""
    program(ASK_12)
    index.clear_requests()
    assert program(ASK_12)["cudart"] == 12090
    assert index.requests == []


def test_a_start_imports_little(environ: dict[str, str]) -> None:
    """A later start imports nothing that takes long, and nothing that is not ours."""
    code = """
import sys
before = set(sys.modules)
from wheelfit_runtime import initialize_cuda
initialize_cuda("12")
print(*sorted(set(sys.modules) - before))
"""
    printed_by("-S", "-c", code, environ=environ)
    imported = set(printed_by("-S", "-c", code, environ=environ).split())
    heavy = {"re", "json", "typing", "dataclasses", "pathlib", "hashlib", "subprocess", "urllib"}
    heavy |= {"collections", "contextlib", "functools", "shutil"}
    assert not heavy & imported
    top_level = {name.partition(".")[0] for name in imported}
    assert top_level <= {*sys.stdlib_module_names, "wheelfit_runtime"}


def test_a_later_call_gives_the_same(program: Program) -> None:
    """In one process the second call returns what the first did, whatever the components are in."""
    assert program(
        "answer = initialize_cuda('12', ['cudart']) is initialize_cuda('12', ('cudart',))"
    )


def test_one_process_has_one_major(program: Program) -> None:
    """Another major version in the same process is refused; with a word more it is not."""
    both = "initialize_cuda('12', ['cudart'])\nanswer = tell(initialize_cuda('13', ['cudart']{}))"
    error = program(both.format(""))["error"]
    assert (error["code"], error["exit_code"]) == ("another-library-loaded", 6)
    assert "12" in error["note"]
    assert program(both.format(", several_majors=True"))["cudart"] == 13010


def test_what_is_loaded_is_used(program: Program, tmp_path: Path) -> None:
    """Another build of the same name is used where a major version is asked for, with a warning."""
    other = tmp_path / "libcudart.so.12"
    source = "int cudaRuntimeGetVersion(int *v) { *v = 12010; return 0; }"
    other.write_bytes(compile_library("libcudart.so.12", source))
    load = f"import warnings; ctypes.CDLL({str(other)!r}); warnings.simplefilter('always')\n"
    answer = program(load + ONLY_CUDART)
    assert answer["cudart"] == 12010
    assert answer["foreign_paths"] == {"libcudart.so.12": str(other)}
    error = program(load + "answer = tell(initialize_cuda('12.4', ['cudart']))")["error"]
    assert error["code"] == "another-library-loaded"
    assert str(other) in error["note"]


def test_majors_with_a_name_in_common(program: Program, tmp_path: Path) -> None:
    """What two major versions have under one name is refused, and no order of loading advised."""
    load = ""
    for name in ("libcudart.so.13", "libcudart.so.12"):
        (tmp_path / name).write_bytes(compile_library(name, "int other(void) { return 1; }"))
        load += f"ctypes.CDLL({str(tmp_path / name)!r})\n"
    error = program(load + "initialize_cuda('12', ['cudart'], several_majors=True)")["error"]
    assert error["code"] == "another-library-loaded"
    assert error["hint"].startswith("use one major version")


def test_scope(program: Program) -> None:
    """Symbols are found without a handle in the global scope, and not in the local one."""
    look = "\nanswer = hasattr(ctypes.CDLL(None), 'cudaRuntimeGetVersion')"
    assert not program("initialize_cuda('12', ['cudart'])" + look)
    assert program("initialize_cuda('12', ['cudart'], scope='global')" + look)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("12", ["a version must be a string, not 12", 'hint: ask for "12"']),
        ("'12', 'nvrtc'", ["components must be a list of names", 'hint: ask for ["nvrtc"]']),
        ("'12', ['nvrt']", ["CUDA has no component 'nvrt'", "known: cudart, nvrtc"]),
        ("'14'", ["there is no CUDA 14", "known: 11, 12, 13", "hint: a newer wheelfit"]),
        (
            "'12', ['cccl']",
            ["has only headers", "hint: ask for it with others: cudart nvrtc cccl"],
        ),
        ("'12', scope='banana'", ["the scope must be local or global, not 'banana'"]),
        ("'banana'", ["'banana' is not a version of CUDA", "hint: ask for 12, 12.8 or 12.8.1"]),
        ("'12', offline=True", ["hint: with a network", "store prefetch cuda 12 cudart nvrtc"]),
        ("'12', offline=True, store='/x'", ["WHEELFIT_LIBRARY_STORE=/x python -m"]),
    ],
)
def test_a_traceback_has_all_parts(
    asked: str, words: list[str], environ: dict[str, str], index: RecordingIndex
) -> None:
    """In a traceback, which is what most people see, stands what to do next; nobody was asked."""
    code = f"from wheelfit_runtime import initialize_cuda; initialize_cuda({asked})"
    completed = run_python("-c", code, environ=environ)
    assert completed.returncode == 1
    for each in words:
        assert completed.stderr.count(each) == 1
    assert index.requests == []


def test_a_component_that_was_not_asked_for(program: Program) -> None:
    """Whoever wants the library of another component is told which there are."""
    ask = "try:\n    initialize_cuda('12', ['cudart']).handle('nvrtc')\n"
    told = program(f"{ask}except KeyError as error:\n    answer = str(error)")
    assert "no library of nvrtc was requested, but of cudart" in told


# --- the driver -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("driver", "asked", "version"),
    sampled(
        fast={1, 5},
        cases=[
            ("12.9", "12", "12.9.1"),
            ("12.8", "12", "12.4.1"),
            ("12.4", "12", "12.4.1"),
            ("13.5", "12", "12.9.1"),
            ("13.5", "13", "13.1.1"),
            ("12.4", "12.9", "12.9.1"),
        ],
    ),
)
def test_takes_what_the_driver_runs(
    program: Program, with_driver: WithDriver, driver: str, asked: str, version: str
) -> None:
    """P-92: a major version is capped to the driver's own minor; a minor that is named is not."""
    ask = f"answer = tell(initialize_cuda({asked!r}, ['cudart']))"
    answer = program(ask, with_driver(driver))
    assert answer["version"] == version


@pytest.mark.parametrize(("driver", "asked"), [("11.8", "12"), ("12.9", "13")])
def test_a_driver_that_is_too_old(
    program: Program, with_driver: WithDriver, index: RecordingIndex, driver: str, asked: str
) -> None:
    """P-92: a driver of an older major version is refused before anything is asked for."""
    error = program(f"answer = tell(initialize_cuda({asked!r}))", with_driver(driver))["error"]
    assert error["code"] == "driver-too-old"
    assert driver in error["message"]
    assert index.requests == []


@pytest.mark.integration
def test_another_driver_another_choice(
    program: Program, with_driver: WithDriver, index: RecordingIndex
) -> None:
    """When the driver changes it is chosen anew; a driver that allows the same asks nobody."""
    old, new, newer = map(with_driver, ("12.4", "13.0", "13.1"))
    assert program(ONLY_CUDART, old)["cudart"] == 12040
    assert program(ONLY_CUDART, new)["cudart"] == 12090
    index.clear_requests()
    assert program(ONLY_CUDART, newer)["cudart"] == 12090
    assert program(ONLY_CUDART, old)["cudart"] == 12040
    assert index.requests == []


def test_asking_the_driver_initialises_nothing(
    program: Program, with_driver: WithDriver, tmp_path: Path
) -> None:
    """The driver is asked for its version and nothing else, so that forks stay possible."""
    trace = tmp_path / "trace"
    program(ONLY_CUDART, with_driver(trace=trace))
    assert set(trace.read_text().split()) == {"cuDriverGetVersion"}


# --- accidents --------------------------------------------------------------------------------


@pytest.mark.integration
def test_several_first_starts(
    environ: dict[str, str], index: RecordingIndex, cuda_wheels: Path
) -> None:
    """Processes that start together download each wheel once, and all have it."""
    index.faults.delay["/files/"] = 0.3
    code = "from wheelfit_runtime import initialize_cuda; initialize_cuda('12', ['cudart'])"
    running = [subprocess.Popen([sys.executable, "-c", code], env=environ) for _ in range(4)]
    assert [one.wait(60) for one in running] == [0] * 4
    wheel = next(cuda_wheels.glob("nvidia_cuda_runtime_cu12-12.9*")).name
    assert len(index.requests_for(wheel)) == 1


def test_threads_and_forks(environ: dict[str, str]) -> None:
    """Threads that ask at once get one answer, and forks have it too, whenever they are made."""
    code = """
import os, threading
from concurrent.futures import ThreadPoolExecutor
from wheelfit_runtime import initialize_cuda
def forked(ask):
    child = os.fork()
    if not child:
        os._exit(ask())
    assert os.waitpid(child, 0)[1] == 0
def ask(number):
    if number % 8 == 7:  # while the others import, fetch and load
        forked(lambda: not initialize_cuda("12", ["cudart"]))
    return initialize_cuda("12", ["cudart"])
with ThreadPoolExecutor(30) as threads:
    found = list(threads.map(ask, range(30)))
assert len(set(map(id, found))) == 1
forked(lambda: initialize_cuda("12", ["cudart"]) is not found[0])
"""
    printed_by("-W", "error", "-c", code, environ=environ)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda content: content[:100], id="cut off"),
        pytest.param(
            lambda content: bytes(len(content)), id="overwritten", marks=pytest.mark.integration
        ),
    ],
)
def test_a_file_that_was_spoilt(program: Program, spoil: Callable[[bytes], bytes]) -> None:
    """A library of another size, or of the same that cannot be loaded, is fetched again."""
    path = Path(program(ONLY_CUDART)["paths"]["libcudart.so.12"])
    path.write_bytes(spoil(path.read_bytes()))
    assert program(ONLY_CUDART)["cudart"] == 12090


def test_a_missing_selection(program: Program, tmp_path: Path, index: RecordingIndex) -> None:
    """What is in the store is not fetched again when nobody remembers why it is there."""
    program(ONLY_CUDART)
    shutil.rmtree(tmp_path / "store" / "selections")
    index.clear_requests()
    assert program(ONLY_CUDART)["cudart"] == 12090
    assert not [request for request in index.requests if request.path.endswith("x86_64.whl")]


def test_a_home_that_cannot_be_written(program: Program, tmp_path: Path) -> None:
    """Where the store cannot be made it is said, with the way out."""
    (tmp_path / "file").write_text("in the way")
    answer = program(ONLY_CUDART, {"WHEELFIT_LIBRARY_STORE": str(tmp_path / "file" / "store")})
    assert answer["error"]["code"] == "store-unavailable"
    assert "WHEELFIT_LIBRARY_STORE" in answer["error"]["hint"]


def test_a_store_of_the_site(program: Program, tmp_path: Path, index: RecordingIndex) -> None:
    """What the site has is loaded from there, though nothing of one's own can be written.

    That is chosen at each start, so what makes requests is not even imported.
    """
    program(ONLY_CUDART)
    site = tmp_path / "site"
    (tmp_path / "store").rename(site)
    (tmp_path / "file").write_text("in the way")
    index.clear_requests()
    extra = {
        "WHEELFIT_LIBRARY_SITES": str(site),
        "WHEELFIT_LIBRARY_STORE": str(tmp_path / "file" / "store"),
    }
    answer = program(f"{ONLY_CUDART}; answer['modules'] = [*sys.modules]", extra)
    assert answer["paths"]["libcudart.so.12"].startswith(str(site))
    assert index.requests == []
    assert {"http.client", "zipfile"}.isdisjoint(answer["modules"])


@pytest.mark.integration
def test_a_store_of_an_image(
    program: Program, tmp_path: Path, with_driver: WithDriver, index: RecordingIndex
) -> None:
    """Where nothing can be kept nobody is asked for newer ones than an image has, if they do."""
    program(ONLY_CUDART, with_driver("12.4"))
    image = tmp_path / "image"
    (tmp_path / "store").rename(image)
    (tmp_path / "file").write_text("in the way")
    extra = {
        "WHEELFIT_LIBRARY_SITES": str(image),
        "WHEELFIT_LIBRARY_STORE": str(tmp_path / "file" / "store"),
    }
    index.clear_requests()
    assert program(ONLY_CUDART, extra)["version"] == "12.4.1"
    assert index.requests == []
    exactly = "answer = tell(initialize_cuda('12.9', ['cudart']))"
    assert program(exactly, extra)["error"]["code"] == "store-unavailable"


def test_everybody_may_write(program: Program, tmp_path: Path) -> None:
    """A store in which every user can exchange libraries is not loaded from."""
    program(ONLY_CUDART)
    (tmp_path / "store").chmod(0o777)
    assert program(ONLY_CUDART)["error"]["code"] == "store-unavailable"


def test_offline(program: Program, with_driver: WithDriver, index: RecordingIndex) -> None:
    """Offline the newest that is there and will do is taken, and nothing is asked."""
    offline, extra = {"WHEELFIT_OFFLINE": "1"}, with_driver("12.9")
    assert program(ONLY_CUDART, offline)["error"]["code"] == "not-in-store"
    # Where there is a network the driver may be another.
    missing = program(ONLY_CUDART, {**offline, **extra})["error"]
    assert missing["hint"].endswith("prefetch cuda 12 cudart --driver 12.9")
    program(ASK_12)
    index.clear_requests()
    assert program(ONLY_CUDART, {**offline, **extra})["cudart"] == 12090
    assert index.requests == []


@pytest.mark.integration
def test_a_network_that_is_gone(program: Program, with_driver: WithDriver) -> None:
    """When nobody can be asked for a new driver, the old choice serves if the driver runs it."""
    program(ONLY_CUDART)
    gone = {"WHEELFIT_LIBRARY_INDEX": "http://127.0.0.1:9/simple/"}
    assert program(ONLY_CUDART, {**gone, **with_driver("12.9")})["cudart"] == 12090
    refused = program(ONLY_CUDART, {**gone, **with_driver("12.4")})
    assert refused["error"]["code"] == "unreachable"
