"""Mirrors behind `wheelfit index serve`, with real clients."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from programs import until
from server.running import RunningIndex, bearer, clean_environ, run_client

from wheelfit.sources.open import open_sources
from wheelfit.sources.settings import DEFAULT_INDEX, SourceSettings
from wheelfit.sources.urls import origin
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_release, build_wheel, release_document

pytestmark = pytest.mark.integration

pytest.importorskip("uvicorn", reason="needs the extra `server`")

JSON = "application/vnd.pypi.simple.v1+json"


def installed(target: Path) -> set[str]:
    """Return the installed packages."""
    return {path.name.removesuffix(".dist-info") for path in target.glob("*.dist-info")}


@pytest.fixture
def serving(upstream: RecordingIndex, tmp_path: Path) -> Iterator[RunningIndex]:
    """Run a server that mirrors the upstream; ``acme-*`` is reserved."""
    options = (
        "--mirror",
        f"up={upstream.url}",
        "--reserved",
        "acme-*",
        "--mirror-max-size",
        "1GiB",
    )
    with RunningIndex(tmp_path / "index", *options) as server:
        yield server


def files_of(server: RunningIndex, project: str) -> set[str]:
    """Return the file names of a page; empty if there is none."""
    status, _, body = server.get(f"/simple/{project}/", accept=JSON)
    return {file["filename"] for file in json.loads(body)["files"]} if status == 200 else set()


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_installers(
    serving: RunningIndex,
    upstream: RecordingIndex,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    tool: str,
) -> None:
    """Packages are installed through the mirror, and again without the upstream."""
    program: Path = request.getfixturevalue(tool)
    words: list[str | Path] = (
        [program, "install", "--no-cache-dir"]
        if tool == "pip"
        else [program, "pip", "install", "--no-cache", "--python", sys.executable]
    )
    words += ["--index-url", serving.url, "small", "--target"]
    run_client(tmp_path, *words, tmp_path / "first")
    assert installed(tmp_path / "first") == {"small-2.0", "large-1.0"}
    upstream.faults.status["*"] = 503
    run_client(tmp_path, *words, tmp_path / "second")
    assert installed(tmp_path / "second") == {"small-2.0", "large-1.0"}
    wheel = "small-2.0-py3-none-any.whl"
    assert [one.status for one in upstream.requests_for(wheel)] == [200]


def test_prefetched_files(upstream: RecordingIndex, pip: Path, tmp_path: Path) -> None:
    """Pip installs files fetched by `index prefetch` without the upstream."""
    folder, mirror = tmp_path / "index", ("--mirror", f"up={upstream.url}")
    words: list[str | Path] = [sys.executable, "-m", "wheelfit", "index", "prefetch", "--at"]
    run_client(tmp_path, *words, folder, *mirror, "small", "large")
    upstream.close()
    with RunningIndex(folder, *mirror) as server:
        words = [pip, "install", "--no-cache-dir", "--index-url", server.url, "small", "--target"]
        run_client(tmp_path, *words, tmp_path / "installed")
    assert installed(tmp_path / "installed") == {"small-2.0", "large-1.0"}


def test_variants(serving: RunningIndex, wheels: Path, uv: Path, tmp_path: Path) -> None:
    """F-128: uv's preview and wheelfit get the upstream's variants."""
    document = release_document(
        {"null": {}, "open": {"blas": {"library": ["openblas"]}}},
        static={"blas": {"library": ["openblas"]}},
    )
    build_release(wheels, "fast", "1.0", document, (None, "null", "open"))
    words: list[str | Path] = [uv, "pip", "install", "--no-cache", "--python", sys.executable]
    words += ["--preview-features", "wheel-variants", "--index-url", serving.url, "fast"]
    run_client(tmp_path, *words, "--target", tmp_path / "uv")
    words = [sys.executable, "-m", "wheelfit", "install", "--index-url", serving.url, "fast"]
    run_client(tmp_path, *words, "--target", tmp_path / "wheelfit")
    for target in ("uv", "wheelfit"):
        assert "'open'" in (tmp_path / target / "fast/__init__.py").read_text()


def test_uploads_and_reserved_names(
    serving: RunningIndex, upstream: RecordingIndex, wheels: Path, tmp_path: Path
) -> None:
    """An upload takes over a project at once, and a deleted project does not go back."""
    build_wheel(wheels, "acme-tools", "99")
    assert files_of(serving, "acme-tools") == set()
    assert not any("acme" in request.path for request in upstream.requests)
    assert files_of(serving, "large") == {"large-1.0-py3-none-any.whl"}
    own = build_wheel(tmp_path / "dist", "large", "0.1")
    assert serving.upload(own) == 200
    assert files_of(serving, "large") == {own.name}
    assert serving.get("/files/large-1.0-py3-none-any.whl")[0] == 404
    environ = {**clean_environ(tmp_path), "WHEELFIT_INDEX_TOKEN": serving.token}
    words = [sys.executable, "-m", "wheelfit", "index", "delete", "--yes", own.name]
    subprocess.run([*words, "--at", str(serving.folder)], check=True, env=environ)
    # What another process changes is seen within a tenth of a second.
    until(lambda: not files_of(serving, "large"))


def test_staged_names(serving: RunningIndex, wheels: Path, tmp_path: Path) -> None:
    """F-126: a staged name is not supplied by the upstream; dropping the stage frees it."""
    build_wheel(wheels, "secret", "99")
    wheel = build_wheel(tmp_path / "dist", "secret", "1.0")
    me = {"authorization": bearer(serving.token), "content_type": "application/json"}
    _, _, said = serving.ask("POST", "/-/api/stages", b"{}", **me)
    stage = json.loads(said)["id"]
    assert files_of(serving, "secret") == {"secret-99-py3-none-any.whl"}  # and is kept written
    assert serving.upload(wheel, at=f"/stage/{stage}/legacy/") == 200
    until(lambda: not files_of(serving, "secret"))
    assert serving.get("/files/secret-99-py3-none-any.whl")[0] == 404
    assert serving.get("/files/secret-99-py3-none-any.whl.metadata")[0] == 404
    status, _, page = serving.get(f"/stage/{stage}/simple/secret/", accept=JSON, **me)
    assert status == 200
    assert [file["filename"] for file in json.loads(page)["files"]] == [wheel.name]
    assert serving.ask("DELETE", f"/-/api/stages/{stage}", None, **me)[0] == 200
    assert files_of(serving, "secret") == {"secret-99-py3-none-any.whl"}


def test_changed_upstream(serving: RunningIndex, wheels: Path, tmp_path: Path) -> None:
    """Cached pages are updated after they expire."""
    del serving
    settings = tmp_path / "settings.toml"
    with RecordingIndex(wheels) as upstream:
        settings.write_text(f'[[mirror]]\nurl = "{upstream.url}"\nmax-age = 0\n')
        with RunningIndex(tmp_path / "other", "--settings", str(settings)) as server:
            assert len(files_of(server, "small")) == 2
            build_wheel(wheels, "small", "3.0")
            until(lambda: len(files_of(server, "small")) == 3)


def test_unavailable_upstream(
    serving: RunningIndex, upstream: RecordingIndex, tmp_path: Path
) -> None:
    """An unknown project is a server error, with the reason in the log."""
    upstream.faults.status["*"] = 404
    assert serving.get("/simple/none/")[0] == 404
    upstream.faults.status["*"] = 500
    assert serving.get("/simple/small/")[0] == 502
    del tmp_path


def test_shutdown_with_a_silent_upstream(tmp_path: Path) -> None:
    """The shutdown does not wait for time-outs of an upstream."""
    settings = tmp_path / "settings.toml"
    with RecordingIndex(tmp_path) as silent:
        silent.faults.delay["*"] = 200
        lines = ["[[mirror]]", f'url = "{silent.url}"', "timeout = 300", "page-timeout = 300"]
        settings.write_text("\n".join(lines))
        words = ("--settings", str(settings), "--shutdown-timeout", "1")
        with RunningIndex(tmp_path / "other", *words) as server:

            def ask(server: RunningIndex = server) -> None:
                with suppress(OSError, http.client.HTTPException):
                    server.get("/simple/x/")

            asking = threading.Thread(target=ask)
            asking.start()
            until(lambda: silent.requests)
            assert server.stop() == 0  # within a minute
    asking.join()


def test_kill_during_a_mirrored_download(tmp_path: Path) -> None:
    """After kill -9 a partial file is not served, and the next request gets all of it."""
    wheels = tmp_path / "wheels"
    content = random.Random(3).randbytes(1 << 20)
    wheel = build_wheel(wheels, "large", "1.0", files={"large/data": content})
    whole = wheel.read_bytes()
    folder = tmp_path / "store"
    incoming = folder / "mirrored/files/.incoming"
    with RecordingIndex(wheels) as upstream:
        mirror = ("--mirror", f"up={upstream.url}")
        upstream.faults.stall[wheel.name] = len(whole) // 2
        with RunningIndex(folder, *mirror) as index:
            connection = http.client.HTTPConnection(*index.address, timeout=60)
            connection.request("GET", f"/files/{wheel.name}")
            answer = connection.getresponse()
            assert answer.status == 200
            came = answer.read(1000)
            assert whole.startswith(came)
            until(
                lambda: sum(path.stat().st_size for path in incoming.iterdir()) >= len(whole) // 2
            )
            assert index.stop(signal.SIGKILL) == -signal.SIGKILL
            with pytest.raises((http.client.IncompleteRead, ConnectionError)):
                answer.read()
            connection.close()
        assert not list((folder / "mirrored/files").glob("??/*"))
        del upstream.faults.stall[wheel.name]
        with RunningIndex(folder, *mirror) as index:
            status, _, page = index.get("/simple/large/", accept=JSON)
            (listed,) = json.loads(page)["files"]
            assert (status, listed["hashes"]["sha256"]) == (200, hashlib.sha256(whole).hexdigest())
            assert index.get(f"/files/{wheel.name}")[2] == whole
            assert index.get(f"/files/{wheel.name}", range="bytes=5-9")[2] == whole[5:10]
            # What the dead one left goes with a start a day later.
            for left in incoming.glob("*.part"):
                os.utime(left, (1, 1))
    with RunningIndex(folder, *mirror) as index:
        assert not list(incoming.glob("*.part"))
        assert index.get(f"/files/{wheel.name}")[2] == whole  # kept: nobody answers upstream


def test_package_registry(registry: None, uv: Path, pip: Path, tmp_path: Path) -> None:
    """Installers use a mirror of the registry twice, the second time from its store."""
    del registry
    index = os.environ.get("PIP_INDEX_URL") or DEFAULT_INDEX
    cert = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
    sources = open_sources(
        SourceSettings(index_url=index, cert=cert), cache_folder=None, environ=os.environ
    )
    page = sources.project(canonicalize_name("six"))
    assert page is not None
    # Where this runs the registry may stand in a private network, as a mirror itself.
    hosts = sorted({origin(file.url).host for file in page.files} - {origin(index).host})
    lines = ["[[mirror]]", f"url = {json.dumps(index)}", f"hosts = {json.dumps(hosts)}"]
    lines += [f"cert = {json.dumps(cert)}"] if cert else []
    settings = tmp_path / "settings.toml"
    settings.write_text("\n".join(lines))
    with RunningIndex(tmp_path / "index", "--settings", str(settings)) as server:
        for turn in ("first", "second"):
            target = tmp_path / turn
            words = ["install", "--no-cache-dir", "--index-url", server.url, "--target"]
            run_client(tmp_path, pip, *words, target / "pip", "six==1.16.0")
            words = ["pip", "install", "--no-cache", "--index-url", server.url, "--target"]
            run_client(
                tmp_path, uv, *words, target / "uv", "--python", sys.executable, "six==1.16.0"
            )
            assert installed(target / "pip") == installed(target / "uv") == {"six-1.16.0"}
    kept = [path for path in (tmp_path / "index/mirrored/files").rglob("*") if path.is_file()]
    assert len(kept) == 1
