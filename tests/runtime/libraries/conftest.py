"""An index of small CUDA wheels, and programs that use them in processes of their own."""

from __future__ import annotations

import io
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from python_runs import RUNTIME_SOURCE, printed_by

from wheelfit.testing.drivers import FakeDriver, find_compiler
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.libraries import build_cuda_wheels
from wheelfit_runtime.libraries.store_command import run as run_store

BEGIN = """
import ctypes, json, sys
from wheelfit_runtime import initialize_cuda
def tell(libraries):
    number = ctypes.c_int()
    libraries.handle("cudart").cudaRuntimeGetVersion(ctypes.byref(number))
    return {"version": libraries.version, "cudart": number.value, "paths": libraries.paths,
            "foreign_paths": libraries.foreign_paths}
"""


@pytest.fixture(scope="session")
def cuda_wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of small CUDA wheels, or skip."""
    if find_compiler() is None or sys.platform != "linux":
        pytest.skip("needs Linux and a C compiler")
    folder = tmp_path_factory.mktemp("cuda-wheels")
    build_cuda_wheels(folder, machine=platform.machine())
    return folder


@pytest.fixture
def index(cuda_wheels: Path) -> Iterator[RecordingIndex]:
    """Yield an index that has them."""
    with RecordingIndex(cuda_wheels) as found:
        yield found


@pytest.fixture
def environ(tmp_path: Path, index: RecordingIndex) -> dict[str, str]:
    """Return the environment of a program that takes libraries from the index."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(RUNTIME_SOURCE),
        "PYTHONWARNINGS": "error",
        "PIP_CONFIG_FILE": os.devnull,
        "WHEELFIT_LIBRARY_STORE": str(tmp_path / "store"),
        "WHEELFIT_LIBRARY_INDEX": index.url,
        "WHEELFIT_LIBRARY_TRANSPORT": "http",
    }


@pytest.fixture
def with_driver(fake_driver: FakeDriver) -> Callable[..., dict[str, str]]:
    """Return a function that returns the variables of a machine whose driver is one of these."""
    found = {"LD_LIBRARY_PATH": str(fake_driver.folder)}
    return lambda cuda="12.4", **settings: {**found, **fake_driver.environ(cuda=cuda, **settings)}


@pytest.fixture
def program(environ: dict[str, str]) -> Callable[..., Any]:
    """Return a function that runs a program and returns what its ``answer`` was, or its error."""

    def run(code: str, extra: Mapping[str, str] | None = None) -> Any:
        try_it = "\n".join(f"    {line}" for line in code.splitlines())
        whole = (
            f"{BEGIN}\nfrom wheelfit_runtime.errors import WheelfitError\ntry:\n{try_it}\n"
            "except WheelfitError as error:\n    answer = {'error': error.parts()}\n"
            "print(json.dumps(answer))"
        )
        told = printed_by("-c", whole, environ={**environ, **(extra or {})})
        return json.loads(told.splitlines()[-1])

    return run


@pytest.fixture
def command(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function that carries out ``store …``: exit status, and JSON or an error's text."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    def call(*arguments: str) -> tuple[int, Any]:
        out, err = io.StringIO(), io.StringIO()
        status = run_store(list(arguments), environ, out, err)
        text = out.getvalue()
        return status, json.loads(text) if "--json" in arguments else text + err.getvalue()

    return call
