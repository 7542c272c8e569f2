"""Imports from real servers of other products, each in its own environment."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from server.running import clean_environ, run_client

from wheelfit.operations.context import Context
from wheelfit.operations.import_index import ImportIndexRequest, import_live_index
from wheelfit.server.store.opening import open_store
from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.integration
DEVPI = ("devpi-server==6.20.3", "devpi-client==7.3.0")
PYPISERVER = "pypiserver==2.4.2"


@contextmanager
def serving(folder: Path, command: list[object], port: int) -> Iterator[str]:
    """Run a server until the block ends; yield its URL once it answers."""
    url = f"http://127.0.0.1:{port}/"
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [str(word) for word in command], stdout=log, stderr=log, env=clean_environ(folder)
        )
    try:
        end = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(url, timeout=5).close()
                break
            except (urllib.error.URLError, OSError):
                assert server.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < end
                time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait(60)


def free_port() -> int:
    """Return an unused port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def bring(source: object, at: Path, **more: object) -> object:
    """Import a source into a store without refusals."""
    request = ImportIndexRequest(source=str(source), at=str(at), **more)  # type: ignore[arg-type]
    report = import_live_index(request, Context(environ={}))
    content = report.to_json()
    assert (content["refused"], content["failed"]) == ([], [])
    return content["added"]


def test_devpi(environment_with: Callable[..., Path], tmp_path: Path) -> None:
    """Packages uploaded by devpi's client are imported from its export and from its pages."""
    programs = environment_with(*DEVPI).parent
    home, export, dist = tmp_path / "devpi", tmp_path / "export", tmp_path / "dist"
    for version in ("1.0", "2.0"):
        build_wheel(dist, "some", version)
    build_wheel(dist, "other", "1.0")
    run_client(tmp_path, programs / "devpi-init", "--serverdir", home, "--root-passwd", "x",
        "--no-root-pypi")  # fmt: skip
    port = free_port()
    server = [programs / "devpi-server", "--serverdir", home, "--port", port]
    with serving(tmp_path, server, port) as url:
        devpi = programs / "devpi"
        run_client(tmp_path, devpi, "use", url)
        run_client(tmp_path, devpi, "user", "-c", "acme", "password=secret")
        run_client(tmp_path, devpi, "login", "acme", "--password", "secret")
        run_client(tmp_path, devpi, "index", "-c", "prod", "bases=", "volatile=True")
        run_client(tmp_path, devpi, "use", "acme/prod")
        run_client(tmp_path, devpi, "upload", *sorted(dist.iterdir()))
        pages = f"{url}acme/prod/+simple/"
        assert bring(pages, tmp_path / "one", projects=("some",)) == 2
        assert bring(pages, tmp_path / "one") == 1
    run_client(tmp_path, programs / "devpi-export", "--serverdir", home, export)
    assert bring(export / "acme" / "prod", tmp_path / "two") == 3
    assert bring(export, tmp_path / "one") == 0
    with open_store(tmp_path / "two") as store:
        file = store.records.file("some-1.0-py3-none-any.whl")
        assert file is not None
        assert file.uploaded.endswith(".000000Z")  # the second in which devpi got it


def test_pypiserver(environment_with: Callable[..., Path], tmp_path: Path) -> None:
    """The packages folder and the pages of pypiserver give the same import."""
    python = environment_with(PYPISERVER)
    packages = tmp_path / "packages"
    build_wheel(packages / "nested", "some", "1.0")
    build_wheel(packages, "other", "1.0")
    port = free_port()
    server = [python.parent / "pypi-server", "run", "-i", "127.0.0.1", "-p", port, packages]
    with serving(tmp_path, server, port) as url:
        assert bring(f"{url}simple/", tmp_path / "new") == 2
    assert bring(packages, tmp_path / "new") == 0


def test_registry(registry: None, tmp_path: Path) -> None:
    """A project of the public registry, with a yank and an older file."""
    del registry
    from wheelfit.operations.pip_rules import pip_config_locations
    from wheelfit.sources.pip_configuration import read_pip_configuration

    index = read_pip_configuration(pip_config_locations(os.environ, None)).index_url
    request = ImportIndexRequest(
        source=str(index), at=str(tmp_path / "new"), projects=("iniconfig",)
    )
    content = import_live_index(request, Context(environ=os.environ)).to_json()
    assert content["failed"] == []
    assert isinstance(content["added"], int)
    assert content["added"] >= 5, content
    with open_store(tmp_path / "new") as store:
        file = store.records.file("iniconfig-2.0.0-py3-none-any.whl")
        assert file is not None
        assert file.uploaded.startswith("2023-01-07T") or file.uploaded > "2026"
