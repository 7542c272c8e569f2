"""What a server does while others keep it busy, or what it needs does not answer."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest
from server.running import RunningIndex

from wheelfit.testing.wheels import build_wheel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux does")
pytest.importorskip("uvicorn", reason="needs the extra `server`")


def open_files(index: RunningIndex) -> int:
    """Return how many files a server has open."""
    return len(list(Path(f"/proc/{index.process.pid}/fd").iterdir()))


def test_half_open_connections_keep_nobody_out(tmp_path: Path) -> None:
    """More connections than files: others are answered all the time, and the log stays short."""
    wheel = build_wheel(tmp_path / "dist", "busy", "1.0", files={"busy/data": bytes(1 << 20)})
    with RunningIndex(tmp_path / "index", files=(128, 400)) as index:
        assert index.upload(wheel) == 200
        half_open = []
        for number in range(600):
            half_open.append(socket.create_connection(index.address, timeout=30))
            half_open[-1].sendall(b"GET /simple/ HTTP/1.1\r\n")
            if number % 50 == 0:
                assert index.get("/simple/busy/")[0] == 200
                assert index.get(f"/files/{wheel.name}")[2] == wheel.read_bytes()
                assert index.get("/-/health/ready")[0] == 200
        assert index.upload(wheel) == 200
        assert open_files(index) < 400
        for one in half_open:
            one.close()
        assert index.get("/simple/busy/")[0] == 200
        assert index.stop() == 0
        (told,) = index.events("connections")
        assert "100 connections are taken at once instead of 2000" in told["message"]
        assert "400 files" in told["message"]  # the soft limit of 128 was raised
        assert "Traceback" not in index.log
        assert len(index.log) < 30_000
