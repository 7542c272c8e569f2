"""Serve wheels on the loopback interface as fast as it can, or as slowly as it is told to.

    python benchmarks/throttled_server.py FOLDER [FOLDER ...]

prints its origin and serves each folder as an index of its own (``/NAME/simple/``), until its
input ends. It is a process of its own and sends files by ``sendfile``, so that a benchmark neither
shares an interpreter with its server nor pays much for it. Ranges, conditional requests and
connections that are kept open work as at a package registry.

``Server`` starts and steers it from another program:

    with Server([folder]) as server:
        server.reset(rate=40e6, delay=0.02)     # per connection, and before each answer
        ...                                     # server.index(folder) is its URL
        server.count()                          # what was asked for since then
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, field, replace
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode

from wheelfit.server.folder import FolderIndex
from wheelfit.server.messages import FilePart, Request, Response

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType
    from typing import Self

STEERING = "/-/"
FRESH = "max-age=600, public"  # what the public registry says of its pages
FOREVER = "max-age=365000000, immutable, public"
SLICE = 1 << 18
LONGEST_HEAD = 1 << 16
LATE = 0.02


@dataclass(frozen=True)
class Count:
    """What was asked for."""

    requests: int = 0
    """All of them."""
    ranges: int = 0
    """Answers that were parts of files."""
    sent: int = 0
    """Bytes of all bodies."""


@dataclass
class Throttle:
    """The state that a steering program changes."""

    rate: float = 0.0
    """Bytes that a connection carries in a second; 0: as many as it can."""
    delay: float = 0.0
    """Seconds before each answer, and before the first one of a connection."""
    count: Count = field(default_factory=Count)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, **more: int) -> None:
        """Count something."""
        with self.lock:
            now = asdict(self.count)
            self.count = replace(self.count, **{name: now[name] + n for name, n in more.items()})


class Shelves:
    """Answer for several folders; what they hold is read once."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._shelves = {folder.name: FolderIndex(folder) for folder in folders}
        self._pages: dict[tuple[str, str, str], tuple[bytes, dict[str, str]]] = {}

    def __call__(self, request: Request) -> Response:
        """Answer a request."""
        _, name, rest = (*request.path.split("/", 2), "", "")[:3]
        shelf = self._shelves.get(name)
        if shelf is None:
            return Response.text(404, "there is no such index")
        inner = replace(request, path=f"/{rest}", origin=f"{request.origin}/{name}")
        return self._page(shelf, name, inner) if rest.startswith("simple/") else shelf(inner)

    def _page(self, shelf: FolderIndex, name: str, request: Request) -> Response:
        key = (name, request.path, request.headers.get("accept", ""))
        if key not in self._pages:
            plain = {"accept": key[2]} if key[2] else {}
            answer = shelf(replace(request, headers=plain))
            if answer.status != 200:
                return answer
            self._pages[key] = (b"".join(answer.body), dict(answer.headers))
        content, headers = self._pages[key]
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(304, headers)
        return Response.of(200, content, headers)

    def warm_up(self, origin: str) -> None:
        """Hash every wheel now, so that no tool waits for it."""
        for name, shelf in self._shelves.items():
            for project in shelf.projects():
                self(Request("GET", f"/{name}/simple/{project}/", {}, origin))


class Connection:
    """One client: its requests one after the other, at the rate of the throttle."""

    def __init__(self, client: socket.socket, shelves: Shelves, throttle: Throttle) -> None:
        self._client = client
        self._shelves = shelves
        self._throttle = throttle
        self._origin = "http://{}:{}".format(*client.getsockname())
        self._free_at = 0.0  # when the line will have carried what was sent

    def serve(self) -> None:
        """Answer until the client goes away."""
        self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        time.sleep(self._throttle.delay)
        held = b""
        with self._client:
            try:
                while True:
                    while b"\r\n\r\n" not in held:
                        more = self._client.recv(LONGEST_HEAD)
                        if not more or len(held) > LONGEST_HEAD:
                            return
                        held += more
                    head, _, held = held.partition(b"\r\n\r\n")
                    self._answer(head.decode("latin-1"))
            except OSError:
                return  # a client may go away at any time

    def _answer(self, head: str) -> None:
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ", 2)
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        path, _, query = target.partition("?")
        if path.startswith(STEERING):
            self._send(method, self._steered(path, query))
            return
        time.sleep(self._throttle.delay)
        answer = self._shelves(Request(method, path, headers, self._origin, query))
        has_body = method != "HEAD" and answer.status != 304
        ranges, sent = int(answer.status == 206), answer.length if has_body else 0
        self._throttle.add(requests=1, ranges=ranges, sent=sent)
        control = FOREVER if "/files/" in path else FRESH
        self._send(method, replace(answer, headers={**answer.headers, "cache-control": control}))

    def _steered(self, path: str, query: str) -> Response:
        if path == f"{STEERING}reset":
            values = parse_qs(query)
            self._throttle.rate = float(values["rate"][0])
            self._throttle.delay = float(values["delay"][0])
            self._throttle.count = Count()
        content = json.dumps(asdict(self._throttle.count)).encode()
        return Response.of(200, content, {"content-type": "application/json"})

    def _send(self, method: str, answer: Response) -> None:
        lines = [f"HTTP/1.1 {answer.status} -"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        if answer.status != 304:
            lines.append(f"content-length: {answer.length}")
        self._client.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
        if method == "HEAD" or answer.status == 304:
            return
        if isinstance(answer.body, FilePart):
            self._send_file(answer.body)
        else:
            for piece in answer.body:
                self._client.sendall(piece)

    def _send_file(self, part: FilePart) -> None:
        rate = self._throttle.rate
        step = SLICE if rate else part.stop - part.start
        with part.path.open("rb") as file:
            position = part.start
            while position < part.stop:
                if rate:
                    self._wait(min(step, part.stop - position) / rate)
                count = min(step, part.stop - position)
                position += os.sendfile(self._client.fileno(), file.fileno(), position, count)

    def _wait(self, seconds: float) -> None:
        """Wait until the line has carried what came before."""
        now = time.monotonic()
        # A little of what was lost by waking up late may be made good.
        self._free_at = max(now - LATE, self._free_at) + seconds
        time.sleep(max(0.0, self._free_at - now))


def serve(folders: Sequence[Path]) -> None:
    """Serve folders on a free port until the input ends."""
    throttle, shelves = Throttle(), Shelves(folders)
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        origin = "http://{}:{}".format(*listening.getsockname())
        shelves.warm_up(origin)
        threading.Thread(target=accept, args=(listening, shelves, throttle), daemon=True).start()
        print(origin, flush=True)
        sys.stdin.read()


def accept(listening: socket.socket, shelves: Shelves, throttle: Throttle) -> None:
    """Take connections, each into a thread of its own."""
    while True:
        try:
            client, _ = listening.accept()
        except OSError:
            return  # it is over
        connection = Connection(client, shelves, throttle)
        threading.Thread(target=connection.serve, daemon=True).start()


class Server:
    """The server as another program sees it.

    :param folders: what to serve; they need different names.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self.origin = ""

    def __enter__(self) -> Self:
        command = [sys.executable, str(Path(__file__).resolve()), *map(str, self._folders)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.origin = self._process.stdout.readline().strip()
        if not self.origin:
            sys.exit("the server did not start")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.communicate()

    @property
    def pid(self) -> int:
        """Number of its process."""
        return self._process.pid

    def index(self, folder: Path) -> str:
        """Return the URL of the index over a folder."""
        return f"{self.origin}/{folder.name}/simple/"

    def reset(self, *, rate: float = 0.0, delay: float = 0.0) -> None:
        """Count from 0, with another throttle.

        :param rate: bytes that a connection carries in a second; 0: as many as it can.
        :param delay: seconds before each answer.
        """
        self._ask(f"reset?{urlencode({'rate': rate, 'delay': delay})}")

    def count(self) -> Count:
        """Return what was asked for since the last reset."""
        return self._ask("count")

    def _ask(self, what: str) -> Count:
        host = self.origin.removeprefix("http://")
        connection = HTTPConnection(host, timeout=30)
        try:
            connection.request("GET", f"{STEERING}{what}")
            return Count(**json.loads(connection.getresponse().read()))
        finally:
            connection.close()


def main() -> None:
    """Serve what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    serve(parser.parse_args().folders)


if __name__ == "__main__":
    main()
