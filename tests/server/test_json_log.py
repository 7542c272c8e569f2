"""The JSON log of a real server, from the first line to the last."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from sampled_cases import sampled
from server.running import clean_environ, raw

from wheelfit.cli.logged_output import LoggedOutput
from wheelfit_runtime.errors import Fault, InvalidDocument

pytest.importorskip("uvicorn", reason="needs the extra `server`")
SERVE = [sys.executable, "-m", "wheelfit", "index", "serve"]


def parsed(text: bytes) -> list[dict[str, Any]]:
    """Return the objects of lines."""
    return [json.loads(line) for line in text.decode().splitlines()]


def events(text: bytes) -> dict[str, dict[str, Any]]:
    """Return the events by name; each has a time."""
    return {one["event"]: one for one in parsed(text) if one["time"]}


def run_server(
    folder: Path, *options: str, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a server that ends at its start."""
    return subprocess.run(
        [*SERVE, folder / "store", *options], capture_output=True, check=False, timeout=60,
        cwd=folder, env=clean_environ(folder) | dict(environ or {}),
    )  # fmt: skip


@pytest.mark.integration
def test_every_line(tmp_path: Path) -> None:
    """Start-up notes, warnings, tracebacks and the end are JSON."""
    # A library that is loaded with the server, and that does everything it should not.
    (tmp_path / "sitecustomize.py").write_text(LIBRARY)
    environ = clean_environ(tmp_path) | {
        "PYTHONPATH": str(tmp_path),
        "PYTHONWARNINGS": "default",
        "WHEELFIT_SERVER_PROT": "1",
        "LIBRARY_STARTS": str(tmp_path / "go"),
    }
    server = subprocess.Popen(
        [*SERVE, tmp_path / "store", "--port=0", "--log-format=json", "--host=0.0.0.0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        (started,) = parsed(server.stdout.readline())
        port = int(started["url"].split(":")[2].partition("/")[0])
        for request in (b"GET /-/health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                        b"nonsense\r\n\r\n"):  # fmt: skip
            assert raw(("127.0.0.1", port), request)
        (tmp_path / "go").touch()
        for _ in range(300):
            if (tmp_path / "done").exists():
                break
            raw(("127.0.0.1", port), b"GET / HTTP/1.0\r\n\r\n")
        server.send_signal(signal.SIGTERM)
        out, err = server.communicate(timeout=60)
    finally:
        server.kill()
    assert server.returncode == 0
    assert out == b""
    found = events(err)
    assert {"warning", "note", "started", "request", "stopped"} <= found.keys()
    assert "admin-token" in found["note"]["message"]
    library = [one for one in parsed(err) if one["event"] in ("library", "uncaught")]
    assert any("a warning of a library" in one.get("message", "") for one in library)
    assert any(one.get("logger") == "some.library" for one in library)
    assert any("in a thread" in one.get("error", "") and "Traceback" in one["traceback"]
               for one in library)  # fmt: skip
    messages = [one["message"] for one in parsed(err) if one["event"] == "warning"]
    assert any("WHEELFIT_SERVER_PROT" in message for message in messages)


LIBRARY = """
import logging, os, threading, time, warnings

def misbehave():
    go = os.environ["LIBRARY_STARTS"]
    while not os.path.exists(go):
        time.sleep(0.01)
    warnings.warn("a warning of a library")
    logging.getLogger("some.library").error("two\\nlines")
    open(go.replace("go", "done"), "w").close()
    raise RuntimeError("in a thread")

if os.environ.get("LIBRARY_STARTS"):
    threading.Thread(target=misbehave, daemon=True).start()
"""


@pytest.mark.parametrize(
    ("options", "environ", "code", "reference"),
    sampled(
        fast={0, 1, 2, 4},
        cases=[
            (["--log-format=json", "--bogus"], {}, 2, "usage"),
            (["--bogus", "--log-format", "json"], {}, 2, "usage"),
            (["--bogus"], {"WHEELFIT_SERVER_LOG_FORMAT": "json"}, 2, "usage"),
            (["--log-format=json", "--port=none"], {}, 1, "invalid-configuration"),
            (["--port=TAKEN"], {}, 1, "invalid-configuration"),  # not a terminal: JSON as well
            (["--log-format=json", "--database=mysql://x"], {}, 1, "invalid-configuration"),
            (["--log-format=json", "--settings=absent.toml"], {}, 1, "file-problem"),
        ],
    ),
)
def test_errors_at_start(
    options: Sequence[str], environ: dict[str, str], code: int, reference: str, tmp_path: Path
) -> None:
    """An error that prevents the start is one object."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = (option.replace("TAKEN", port) for option in options)
        ended = run_server(tmp_path, *words, environ=environ)
    assert ended.returncode == code
    error = events(ended.stderr)["error"]
    assert error["code"] == reference
    assert error["message"]
    is_explicit = bool(environ) or "json" in " ".join(options)
    results = [one["error"]["code"] for one in parsed(ended.stdout)]
    assert results == ([reference] if is_explicit else [])


def test_faults_of_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    """The faults in an error are objects, not text."""
    LoggedOutput().error(InvalidDocument([Fault("a.b", "is missing"), Fault("c", "is 1", "F-1")]))
    assert events(capsys.readouterr().err.encode())["error"]["faults"] == [
        {"path": "a.b", "message": "is missing", "rule": ""},
        {"path": "c", "message": "is 1", "rule": "F-1"},
    ]


@pytest.mark.integration
def test_traceback(tmp_path: Path) -> None:
    """With --debug an error has its traceback, without the password of a URL in it."""
    database = "--database=mysql://me:hunter2@db.example/x"
    ended = run_server(tmp_path, "--log-format=json", "--debug", "--port=0", database)
    logged = events(ended.stderr)
    assert logged["error"]["exit_code"] == ended.returncode == 1
    assert "Traceback" in logged["traceback"]["message"]
    assert b"hunter2" not in ended.stderr + ended.stdout


@pytest.mark.parametrize(
    ("after", "settings"),
    sampled([([], ""), (["--settings=settings.toml"], 'log-format = "json"\n')], fast={0}),
)
def test_traceback_at_start(after: Sequence[str], settings: str, tmp_path: Path) -> None:
    """With --debug an error at the start has its traceback."""
    (tmp_path / "settings.toml").write_text(settings)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = run_server(tmp_path, f"--port={taken.getsockname()[1]}", "--debug", *after)
    assert "cannot listen" in events(ended.stderr)["error"]["message"]
    assert "Traceback" in events(ended.stderr)["traceback"]["message"]


def test_format_of_a_settings_file(tmp_path: Path) -> None:
    """The settings of a file determine the format of notes and errors."""
    (tmp_path / "settings.toml").write_text('log-format = "plain"\n')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run_server(tmp_path, f"--port={port}", "--settings=settings.toml")
    assert ended.returncode == 1
    assert ended.stderr.startswith(b"error: the server cannot listen")


@pytest.mark.integration
def test_without_standard_error(tmp_path: Path) -> None:
    """A server with closed standard error runs."""
    closed = 'exec "$@" 2>&-'
    server = subprocess.Popen(
        ["bash", "-c", closed, "bash", *SERVE, tmp_path / "store", "--port=0", "--log-format=json"],
        stdout=subprocess.PIPE, env={**os.environ, **clean_environ(tmp_path)},
    )  # fmt: skip
    try:
        assert server.stdout is not None
        assert parsed(server.stdout.readline())[0]["url"]
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    finally:
        server.kill()
        server.communicate()
