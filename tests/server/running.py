"""Processes of a live index."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from programs import run_program
from server.uploading import CONTENT_TYPE, fields_of, form


def clean_environ(folder: Path) -> dict[str, str]:
    """Return an environment without the user's settings."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return kept | {
        "HOME": str(folder),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "UV_NO_CONFIG": "1",
        "UV_CACHE_DIR": str(folder / "uv-cache"),
        "WHEELFIT_CONFIG_FILE": os.devnull,
        "WHEELFIT_CACHE_DIR": str(folder / "wheelfit-cache"),
        "NO_PROXY": "127.0.0.1",
    }


class RunningIndex:
    """Run `wheelfit index serve` in a process of its own; a context manager that ends it.

    :param folder: of the index.
    :param options: further words of the command line.
    :param environ: further variables.
    :param pass_fds: descriptors that it gets.
    :param names: what else it goes by; requests that tests write by hand are for ``x``.
    :param files: how many files it may open, as the soft and the hard limit say.
    """

    def __init__(
        self,
        folder: Path,
        *options: str,
        environ: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        names: Sequence[str] = ("x",),
        files: tuple[int, int] | None = None,
    ) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / f"log-{time.monotonic_ns()}"
        command = [sys.executable, "-m", "wheelfit", "index", "serve", str(folder), "--json"]
        if files is not None:
            command = ["prlimit", "--nofile={}:{}".format(*files), *command]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--port", "0", *(f"--allowed-host={name}" for name in names), *options],
                stdout=subprocess.PIPE,
                stderr=log,
                env=clean_environ(folder) | dict(environ or {}),
                pass_fds=pass_fds,
            )
        assert self.process.stdout is not None
        result = self.process.stdout.readline()
        assert result, self.log
        self.said: dict[str, Any] = json.loads(result)
        self.url = str(self.said["url"])
        self.origin = self.url.removesuffix("/simple/")
        self.upload_url = str(self.said["upload"])
        parts = urlsplit(self.origin)
        self.address = (str(parts.hostname), int(parts.port or 0))

    @property
    def log(self) -> str:
        """The output on standard error so far."""
        return self._log.read_text()

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the logged events of a name, after the end."""
        lines = [line for line in self.log.splitlines() if line.startswith("{")]
        return [one for one in map(json.loads, lines) if one["event"] == name]

    @property
    def token(self) -> str:
        """The secret of the first start."""
        return (self.folder / "admin-token").read_text().strip()

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Send a GET request; header names have ``_`` for ``-``."""
        return self.ask("GET", path, None, **headers)

    def ask(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request; return status, headers by lower-case name, and body."""
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, found, answer.read()
        finally:
            connection.close()

    def upload(self, path: Path, *, token: str | None = None, at: str = "/legacy/") -> int:
        """Upload a file as publishing tools do; return the status."""
        return post(self.address, path, token=self.token if token is None else token, at=at)[0]

    def memory(self) -> int:
        """Return the peak memory in bytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
        raise AssertionError

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End the process; return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop(signal.SIGKILL if kind else signal.SIGTERM)


def bearer(token: str) -> str:
    """Return the Authorization header of a token for the API."""
    return f"Bearer {token}"


def basic(token: str) -> str:
    """Return the Authorization header of a token for uploads."""
    import base64

    return "Basic " + base64.b64encode(f"__token__:{token}".encode()).decode()


def post(
    address: tuple[str, int], path: Path, *, token: str, at: str = "/legacy/"
) -> tuple[int, str, str]:
    """Upload a file; return status, reason and body."""
    content = path.read_bytes()
    body = form(path.name, content, fields_of(path.name, content))
    connection = http.client.HTTPConnection(*address, timeout=120)
    try:
        headers = {"content-type": CONTENT_TYPE, "authorization": basic(token)}
        connection.request("POST", at, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.reason, answer.read().decode()
    finally:
        connection.close()


def raw(address: tuple[str, int], data: bytes, *, patience: float = 30) -> bytes:
    """Send bytes unchanged; return everything until the server closes."""
    with socket.create_connection(address, timeout=patience) as connection:
        connection.sendall(data)
        received = b""
        try:
            while piece := connection.recv(1 << 16):
                received += piece
        except ConnectionResetError:
            pass
        return received


def run_client(folder: Path, *command: object, code: int = 0) -> str:
    """Run a program in a folder, without the user's settings; return its output.

    :param code: the expected exit code.
    """
    words = map(str, command)
    completed = run_program(*words, code=code, env=clean_environ(folder), cwd=folder)
    return completed.stdout + completed.stderr
