"""Shutdown of a proxy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request as Asked
from urllib.request import urlopen

import pytest

from wheelfit.server.messages import Request, Response
from wheelfit.testing.index import RecordingIndex

pytestmark = pytest.mark.integration

pytest.importorskip("uvicorn", reason="needs the extra `server`")


@pytest.fixture
def silent_index() -> Iterator[tuple[RecordingIndex, threading.Event]]:
    """Yield an index that does not answer, and an event that is set by a request."""
    asked, over = threading.Event(), threading.Event()

    def answer(request: Request) -> Response:
        asked.set()
        over.wait(100)
        return Response.text(404, request.path)

    with RecordingIndex(answer) as index:
        yield index, asked
        over.set()


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_shutdown_during_a_request(
    silent_index: tuple[RecordingIndex, threading.Event], tmp_path: Path
) -> None:
    """A proxy that waits for an index ends at once; other host names are refused."""
    index, asked = silent_index
    words = ["proxy", "--index-url", index.url, "--port", "0", "--cache-dir", str(tmp_path)]
    words += ["--timeout", "300", "--allowed-host", "wheels.example"]
    with subprocess.Popen(
        [sys.executable, "-m", "wheelfit", *words], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()

        def ask() -> None:
            with pytest.raises((URLError, OSError)), urlopen(f"{url}some/", timeout=90):
                pass

        # A page of the web that lets its name lead here.
        with pytest.raises(HTTPError, match="421"), urlopen(Asked(url, headers={"Host": "evil"})):
            pass
        with urlopen(Asked(url, headers={"Host": "wheels.example"})) as known:
            assert known.status == 200
        asking = threading.Thread(target=ask)
        asking.start()
        assert asked.wait(30)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)
        asking.join()
