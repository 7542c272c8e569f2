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
from programs import until

from wheelfit.testing.index import RecordingIndex

pytestmark = pytest.mark.integration

pytest.importorskip("uvicorn", reason="needs the extra `server`")


@pytest.fixture
def index(tmp_path: Path) -> Iterator[RecordingIndex]:
    """Run an empty index."""
    with RecordingIndex(tmp_path) as index:
        yield index


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_shutdown_during_a_request(index: RecordingIndex, tmp_path: Path) -> None:
    """A proxy that waits for an index ends at once; other host names are refused."""
    index.faults.delay["*"] = 100
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
        until(lambda: index.requests)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)
        asking.join()
