"""The number of connections to one server."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from cli.running import Runner
from sampled_cases import sampled

from wheelfit.server.folder import FolderIndex
from wheelfit.server.messages import Request, Response
from wheelfit.testing.index import RecordingIndex
from wheelfit.testing.wheels import build_wheel


class ConcurrentIndex:
    """An index that answers for a wheel when the expected number of requests is waiting."""

    def __init__(self, folder: Path, expected: int) -> None:
        self._index = FolderIndex(folder)
        self._expected = expected
        self._lock = threading.Lock()
        self._is_complete = threading.Event()
        self._now = 0
        self.most = 0

    def __call__(self, request: Request) -> Response:
        """Answer a request."""
        if not request.path.endswith(".whl"):
            return self._index(request)
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            if self._now == self._expected:
                self._is_complete.set()
        self._is_complete.wait(20)
        with self._lock:
            self._now -= 1
        return self._index(request)


@pytest.mark.parametrize("by", ["option", "variable", "file"])
@pytest.mark.parametrize("number", sampled([1, 2], fast={1}))
def test_limit(
    by: str,
    number: int,
    run: Runner,
    tmp_path: Path,
    user_settings: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Option, variable and settings limit the number of connections."""
    wheels = tmp_path / "wheels"
    names = [f"pack{each}" for each in range(5)]
    for name in names:
        build_wheel(wheels, name, "1.0", files={f"{name}/data.bin": os.urandom(1000)})
    more: list[str] = []
    match by:
        case "option":
            more = ["--connections", str(number)]
        case "variable":
            monkeypatch.setenv("WHEELFIT_CONNECTIONS", str(number))
        case "file":
            user_settings.write_text(f"connections = {number}\n")
    concurrent_index = ConcurrentIndex(wheels, number)
    with RecordingIndex(concurrent_index) as index:
        place = ["--target", str(tmp_path / "target"), "--no-cache-dir"]
        done = run("install", "-i", index.url, *place, *more, *names)
    assert done.code == 0
    assert concurrent_index.most == number
