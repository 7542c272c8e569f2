"""Downloads of wheels that are named by URL."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import pytest
from cli.running import Runner

from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel, release_document

DOCUMENT = release_document({"a": {"n": {"f": ["a"]}}}, static={"n": {"f": ["a"]}})


class CountingServer:
    """A server with one wheel, which counts requests."""

    def __init__(self, run: Runner, folder: Path, index: RecordingIndex, wheel: Path) -> None:
        self._run = run
        self._folder = folder
        self._index = index
        self.digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        self.url = urljoin(index.url, f"../files/{wheel.name}")

    def run(self, *words: str | Path) -> tuple[int, int]:
        """Run a command, and return the number of complete and partial requests for the wheel."""
        self._index.clear_requests()
        self._run(*words)
        asked = self._index.requests
        assert all(request.path.endswith(".whl") for request in asked)
        parts = sum("range" in map(str.lower, request.headers) for request in asked)
        return len(asked) - parts, parts

    def install(self, *words: str | Path) -> tuple[int, int]:
        """Install into a new folder."""
        place = self._folder / f"place-{len(list(self._folder.iterdir()))}"
        place.mkdir()
        return self.run("install", "--target", place, *words)

    def file(self, *lines: str) -> Path:
        """Write a requirements file."""
        path = self._folder / "requirements.txt"
        path.write_text("\n".join(lines))
        return path


@pytest.fixture(params=[True, False], ids=["ranges", "no ranges"])
def server(run: Runner, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[CountingServer]:
    """Serve a wheel, with and without ranges."""
    wheel = build_wheel(tmp_path / "wheels", "demo", "1.0", files={"demo.py": b"x = 1\n"})
    with RecordingIndex(tmp_path / "wheels") as index:
        index.faults.ranges = request.param
        yield CountingServer(run, tmp_path, index, wheel)


@pytest.mark.parametrize("cache", [(), ("--no-cache-dir",)])
def test_no_hash(server: CountingServer, cache: tuple[str, ...]) -> None:
    """Without a hash the wheel is downloaded once."""
    assert server.install(server.url, *cache) == (1, 0)
    assert server.install(f"demo @ {server.url}", *cache) == (1, 0)
    assert server.install("-r", server.file(f"demo @ {server.url}"), *cache) == (1, 0)


@pytest.mark.parametrize("cache", [(), ("--no-cache-dir",)])
def test_hash(server: CountingServer, cache: tuple[str, ...]) -> None:
    """With a hash the wheel is downloaded once, and then taken from the cache."""
    url = f"{server.url}#sha256={server.digest}"
    assert server.install(url, *cache) == (1, 0)
    if cache:
        return
    for words in ((url,), (f"demo @ {url}",), ("-r", server.file(f"demo @ {url}"))):
        assert server.install(*words, "--offline") == (0, 0)
        assert server.install(*words, "--offline", "--dry-run") == (0, 0)
        assert server.install(*words) == (0, 0)
    assert server.run("explain", url, "--offline") == (0, 0)


def test_read_only_commands(server: CountingServer, tmp_path: Path) -> None:
    """Commands that install nothing read parts of the wheel, or all of it once."""
    looking: list[tuple[str | Path, ...]] = [
        ("explain", server.url),
        ("install", "--dry-run", "--target", tmp_path / "dry", server.url),
    ]
    for words in looking:
        whole, parts = server.run(*words)
        assert whole <= 1
        assert parts >= 1
    url = f"{server.url}#sha256={server.digest}"
    lock = ("lock", "--platform", "linux-x86_64", "-o", tmp_path / "pylock.toml")
    assert server.run(*lock, f"demo @ {url}")[0] <= 1


def test_variant(run: Runner, tmp_path: Path) -> None:
    """Metadata and document are read from the downloaded wheel."""
    wheel = build_wheel(tmp_path / "wheels", "demo", "1.0", label="a", document=DOCUMENT)
    with RecordingIndex(tmp_path / "wheels") as index:
        server = CountingServer(run, tmp_path, index, wheel)
        assert server.install(server.url) == (1, 0)


def test_wrong_hash(server: CountingServer, run: Runner, tmp_path: Path) -> None:
    """A wheel with another hash is refused."""
    url = f"{server.url}#sha256={'0' * 64}"
    error = run("install", "--target", tmp_path / "place", url, "--json", code=4).error
    assert error["code"] == "hash-mismatch"
    assert not (tmp_path / "place").exists()


def test_max_download(server: CountingServer, run: Runner, tmp_path: Path) -> None:
    """``--max-download`` applies before the download."""
    place = ("--target", tmp_path / "place", "--max-download", "1B")
    error = run("install", *place, server.url, "--json", code=7).error
    assert error["code"] == "too-large"
