"""Servers that the tests start: PostgreSQL, and an S3-compatible storage."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Self

from server.debian import Unavailable, find_or_install


def find_postgresql() -> Path:
    """Return the folder of PostgreSQL's programs; install Debian's package where that is possible.

    :raises Unavailable: there is none.
    """
    return find_or_install("postgresql", _programs)


def _programs() -> Path | None:
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    on_path = shutil.which("initdb")
    places += [Path(os.path.realpath(on_path)).parent] if on_path is not None else []
    return next(
        (place for place in places if all((place / name).exists() for name in _NEEDED)), None
    )


_NEEDED = ("initdb", "postgres")


class Postgresql:
    """Run a PostgreSQL server of its own, reachable over a socket in a new folder only.

    :param programs: folder of its programs.
    """

    def __init__(self, programs: Path) -> None:
        self.programs = programs
        """Folder of its programs."""
        self._folder = Path(tempfile.mkdtemp(prefix="wheelfit-pg-"))
        self._url = f"postgresql:///postgres?host={self._folder}&user=postgres"
        self._count = itertools.count()
        user = _unprivileged()
        if user is not None:  # PostgreSQL never runs as root
            shutil.chown(self._folder, user)
        data = self._folder / "data"
        command = [str(programs / "initdb"), "--auth=trust", "--no-sync", "-U", "postgres"]
        made = subprocess.run(
            [*command, "--encoding=UTF8", "--no-locale", "-D", str(data)],
            capture_output=True, text=True, check=False, user=user, cwd=self._folder,
        )  # fmt: skip
        if made.returncode:
            self.close()
            raise Unavailable(f"PostgreSQL makes no database: {made.stderr[-300:]}")
        self._command = [str(programs / "postgres"), "-F", "-D", str(data)]
        settings = {"listen_addresses": "", "unix_socket_directories": str(self._folder)}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._command += options
        self._user = user
        self.start()

    def start(self) -> None:
        """Start or restart the server."""
        # Nothing here shall outlive the machine.
        with (self._folder / "log").open("ab") as log:
            self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
                self._command, stdout=log, stderr=log, user=self._user, cwd=self._folder
            )
        self._wait()

    def stop(self) -> None:
        """Stop the server without waiting for connections."""
        assert self._process is not None
        self.send(signal.SIGCONT)
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()

    def send(self, number: int) -> None:
        """Send a signal to all processes of the server."""
        assert self._process is not None
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for one in (pid, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(one, number)

    def database(self) -> str:
        """Return the URL of a new, empty schema."""
        import psycopg

        name = f"test_{next(self._count)}"
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return f"{self._url}&options=-csearch_path%3D{name}"

    def close(self) -> None:
        """Stop the server and remove everything."""
        process = getattr(self, "_process", None)
        if process is not None:
            self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self) -> None:
        import psycopg

        end = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self._url).close()
                return
            except psycopg.OperationalError as error:
                if time.monotonic() > end:
                    self.close()
                    raise Unavailable(f"PostgreSQL does not start: {error}") from None
                time.sleep(0.05)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _unprivileged() -> str | None:
    if os.geteuid() != 0:
        return None
    import pwd

    names = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in names), None)


_MOTO = """
import sys, logging
logging.getLogger("werkzeug").setLevel(logging.ERROR)
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
print(f"http://{host}:{port}", flush=True)
sys.stdin.read()
"""


class ObjectStorage:
    """An S3-compatible server in a separate process, on a free port."""

    def __init__(self) -> None:
        self._count = itertools.count()
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _MOTO],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        self.origin = self._process.stdout.readline().decode().strip()
        """Where it listens."""
        if not self.origin:
            self.close()
            raise Unavailable("moto, of the dependency group `integration`, does not start")

    def bucket(self) -> str:
        """Return the URL of a new bucket."""
        name = f"bucket-{next(self._count)}"
        request = urllib.request.Request(f"{self.origin}/{name}", method="PUT")
        urllib.request.urlopen(request).close()
        keys = "access_key_id=key&secret_access_key=secret&region=us-east-1"
        return f"s3://{name}/files?endpoint={self.origin}&{keys}"

    def send(self, number: int) -> None:
        """Send a signal to the server."""
        self._process.send_signal(number)

    def close(self) -> None:
        """Stop the server."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
