"""A load balancer in front of servers: nginx, configured as in the documentation."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Literal, Self

from server.debian import find_or_install

_DOCUMENTED = Path(__file__).parents[2] / "docs/how-to/run-an-index.md"
_CONFIGURATION = """
worker_processes 1;
daemon off;
pid {folder}/pid;
error_log {folder}/errors;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
    uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
    upstream replicas {{
{servers}
    }}
{around}
    server {{
        listen 127.0.0.1:{port};
{documented}
    }}
}}
"""


def find_nginx() -> Path:
    """Return the program; install Debian's package where that is possible.

    :raises Unavailable: there is none.
    """

    def look() -> Path | None:
        found = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        return None if found is None else Path(found)

    return find_or_install("nginx", look)


def documented_forwarding(kind: Literal["x-forwarded", "forwarded"]) -> tuple[str, str]:
    """Return the documented lines that pass on the client: in ``server``, and around it."""
    blocks = re.findall(r"```nginx\n(.*?)\n```", _DOCUMENTED.read_text("utf-8"), re.DOTALL)
    x_forwarded, forwarded, around = blocks[1:4]
    return (x_forwarded, "") if kind == "x-forwarded" else (forwarded, around)


class Balancer:
    """Give each request to one of several servers in turn; a context manager.

    :param program: nginx.
    :param folder: for what it needs.
    :param servers: host and port of each.
    :param forwarding: the result of `documented_forwarding`, by default nothing.
    :param listener: where it listens, and which it closes; by default at a free port.
    """

    def __init__(
        self,
        program: Path,
        folder: Path,
        *servers: tuple[str, int],
        forwarding: tuple[str, str] = ("", ""),
        listener: socket.socket | None = None,
    ) -> None:
        folder.mkdir(parents=True)
        text = _DOCUMENTED.read_text("utf-8")
        (documented,) = re.findall(r"```nginx\n(location / \{.*?\n\})\n```", text, re.DOTALL)
        documented = documented.replace("http://127.0.0.1:8942", "http://replicas")
        assert "http://replicas" in documented
        with listener or socket.create_server(("127.0.0.1", 0)) as front:
            self.address: tuple[str, int] = front.getsockname()
            configuration = folder / "nginx.conf"
            configuration.write_text(
                _CONFIGURATION.format(
                    folder=folder,
                    servers="\n".join(f"server {host}:{port};" for host, port in servers),
                    port=self.address[1],
                    documented=documented.replace("{", f"{{\n{forwarding[0]}", 1),
                    around=forwarding[1],
                )
            )
            # It takes over the socket that is open already, so nobody else can have its port.
            self._process = subprocess.Popen(
                [program, "-c", configuration, "-e", folder / "errors"],
                env={**os.environ, "NGINX": f"{front.fileno()};"},
                pass_fds=[front.fileno()],
            )
            end = time.monotonic() + 60
            while not (folder / "pid").exists():
                assert self._process.poll() is None, (folder / "errors").read_text()
                assert time.monotonic() < end
                time.sleep(0.01)
        self.origin = f"http://127.0.0.1:{self.address[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
