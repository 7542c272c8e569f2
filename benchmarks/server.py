"""Ask servers of indexes for the same pages; print pages a second, latencies and ratios.

    python benchmarks/server.py                              1,000 projects of 50 files each
    python benchmarks/server.py --projects 100 --seconds 3   smaller
    python benchmarks/server.py --server pypiserver          beside this one only
    python benchmarks/server.py --docs                       write docs/explanation/index-speed.md

The load comes from `wrk` (a Debian package). Each server runs alone, in an environment of its own,
as its documentation starts it, and gives the page of a project picked by chance to 32 connections:
HTML, which all of them can. pypiserver and simple-repository-server have the files in a folder;
proxpi and devpi-server are mirrors of the index here, and have seen each page once before.
Those that keep pages are warmed by one request for each. wheelfit writes its log, as by default.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(__file__).resolve().parent.parent
PAGE = CHECKOUT / "docs" / "explanation" / "index-speed.md"
OTHERS = {
    "pypiserver": "pypiserver[cache]==2.4.2",
    "simple-repository-server": "simple-repository-server==0.10.0",
    "proxpi": "proxpi==1.3.1",
    "devpi-server": "devpi-server==6.20.3",
}
SCRIPT = """
math.randomseed(os.time())
wrk.headers["Accept"] = "text/html"
request = function()
  return wrk.format("GET", string.format("{prefix}bench-%d/", math.random(0, {last})))
end
"""


@dataclass(frozen=True)
class Load:
    """Hold what `wrk` found."""

    pages: float
    """A second."""
    median: str
    slowest: str
    """That 99 of 100 did not exceed."""
    errors: int
    size: int
    """Bytes of one page."""


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--projects", type=int, default=1000)
    parser.add_argument("--files", type=int, default=50)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--server", action="append", choices=sorted(OTHERS))
    parser.add_argument(
        "--environments", type=Path, default=Path(tempfile.gettempdir()) / "wheelfit-servers"
    )
    parser.add_argument("--docs", action="store_true")
    arguments = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("this needs wrk: apt-get install wrk")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheels = make_wheels(folder / "wheels", arguments.projects, arguments.files)
        fill(folder / "index", wheels)
        loads: dict[str, Load] = {}
        with wheelfit(folder / "index") as origin:
            loads["wheelfit"] = measure(origin, "/simple/", arguments)
            print(f"wheelfit: {loads['wheelfit']}", flush=True)
            for server in arguments.server or OTHERS:
                program = install(arguments.environments / server, OTHERS[server])
                # Ours stays for those that mirror it, and is asked for nothing meanwhile.
                with STARTS[server](program, folder, f"{origin}/simple/") as (other, prefix):
                    warms = server in ("proxpi", "devpi-server")
                    loads[server] = measure(other, prefix, arguments, warms=warms)
                print(f"{server}: {loads[server]}", flush=True)
    text = table(loads)
    print(text)
    if arguments.docs:
        PAGE.write_text(page(text, arguments))


def make_wheels(folder: Path, projects: int, files: int) -> Path:
    """Build the smallest wheels there are, in one folder for each project."""
    from wheelfit.testing.wheels import build_wheel

    for number in range(projects):
        for version in range(files):
            build_wheel(folder / f"bench-{number}", f"bench_{number}", f"1.{version}")
    return folder


def fill(folder: Path, wheels: Path) -> None:
    """Put wheels into a store as an upload does, without the transfer."""
    from packaging.utils import canonicalize_name

    from wheelfit.core.filename import parse_wheel_filename
    from wheelfit.server.store.blobs import put
    from wheelfit.server.store.opening import open_store
    from wheelfit.server.store.records import NewFile

    with open_store(folder) as store:
        for path in wheels.rglob("*.whl"):
            name = parse_wheel_filename(path.name)
            blob = put(store.blobs, [path.read_bytes()])
            new = NewFile(
                path.name, canonicalize_name(name.name), name.version, blob.sha256, blob.size,
                "2026-11-22T12:00:00.000000Z", metadata=b"Metadata-Version: 2.1\n",
            )  # fmt: skip
            store.records.add(new, keep=lambda: None)


def install(folder: Path, requirement: str) -> Path:
    """Return the folder of programs of an environment that has a server."""
    programs = folder / "bin"
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        command = [programs / "python", "-m", "pip", "install", "--quiet", requirement]
        subprocess.run(command, check=True)
        (folder / "complete").touch()
    return programs


def without_proxies() -> dict[str, str]:
    """Return the environment of a server that shall reach the index here and nothing else."""
    return {name: text for name, text in os.environ.items() if not name.lower().endswith("_proxy")}


def free_port() -> int:
    """Return a port that nobody listens at just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: list[object], url: str, **environ: str) -> Iterator[None]:
    """Run a server until it is no more needed; go on once it answers."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [str(word) for word in command], stdout=log, stderr=log, env=without_proxies() | environ
        )
        try:
            end = time.monotonic() + 60
            while True:
                try:
                    asked = urllib.request.Request(url, headers={"accept": "*/*"})
                    urllib.request.urlopen(asked, timeout=20).close()
                    break
                except OSError:
                    if time.monotonic() > end or process.poll() is not None:
                        log.seek(0)
                        sys.exit(log.read().decode()[-2000:])
                    time.sleep(0.2)
            yield
        finally:
            process.terminate()
            process.wait()


@contextmanager
def wheelfit(folder: Path) -> Iterator[str]:
    """Run this server."""
    port = free_port()
    command = [sys.executable, "-m", "wheelfit", "index", "serve", folder, "--port", port]
    with running(command, f"http://127.0.0.1:{port}/-/health/ready"):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def pypiserver(programs: Path, folder: Path, _index: str) -> Iterator[tuple[str, str]]:
    """Run pypiserver."""
    port = free_port()
    command = [programs / "pypi-server", "run", "-i", "127.0.0.1", "-p", port, folder / "wheels"]
    with running(command, f"http://127.0.0.1:{port}/simple/bench-0/"):
        yield f"http://127.0.0.1:{port}", "/simple/"


@contextmanager
def simple_repository_server(
    programs: Path, folder: Path, _index: str
) -> Iterator[tuple[str, str]]:
    """Run simple-repository-server."""
    port = free_port()
    command = [programs / "simple-repository-server", "--host", "127.0.0.1", "--port", port]
    command.append(folder / "wheels")
    with running(command, f"http://127.0.0.1:{port}/simple/bench-0/"):
        yield f"http://127.0.0.1:{port}", "/simple/"


@contextmanager
def proxpi(programs: Path, _folder: Path, index: str) -> Iterator[tuple[str, str]]:
    """Run proxpi, with the server that its container has."""
    port = free_port()
    command = [programs / "flask", "--app", "proxpi.server", "run", "--port", port]
    url = f"http://127.0.0.1:{port}/index/bench-0/"
    with running(command, url, PROXPI_INDEX_URL=index, PROXPI_INDEX_TTL="86400"):
        yield f"http://127.0.0.1:{port}", "/index/"


@contextmanager
def devpi_server(programs: Path, folder: Path, index: str) -> Iterator[tuple[str, str]]:
    """Run devpi-server, with its own mirror set to the index here."""
    port, data = free_port(), folder / "devpi"
    subprocess.run([programs / "devpi-init", "--serverdir", data], check=True, capture_output=True)
    command = [programs / "devpi-server", "--serverdir", data, "--port", port]
    origin = f"http://127.0.0.1:{port}"
    with running(command, f"{origin}/+api"):
        said = ask("POST", f"{origin}/+login", {"user": "root", "password": ""}, "")
        login = base64.b64encode(f"root:{said['result']['password']}".encode()).decode()
        changes = [f"mirror_url={index}", "mirror_cache_expiry=86400"]
        ask("PATCH", f"{origin}/root/pypi", changes, login)
        yield origin, "/root/pypi/+simple/"


def ask(method: str, url: str, said: object, login: str) -> dict[str, dict[str, str]]:
    """Tell devpi-server something."""
    headers = {"content-type": "application/json", "accept": "application/json"}
    if login:
        headers["x-devpi-auth"] = login
    request = urllib.request.Request(url, json.dumps(said).encode(), headers, method=method)
    with urllib.request.urlopen(request) as answer:
        found: dict[str, dict[str, str]] = json.load(answer)
        return found


STARTS = {
    "pypiserver": pypiserver,
    "simple-repository-server": simple_repository_server,
    "proxpi": proxpi,
    "devpi-server": devpi_server,
}


def measure(origin: str, prefix: str, arguments: argparse.Namespace, *, warms: bool = True) -> Load:
    """Ask for every page once, then for pages picked by chance, as quickly as they come."""
    # Whoever looks at the folder again for every page has nothing to be warmed.
    for number in range(arguments.projects if warms else 3):
        request = urllib.request.Request(
            f"{origin}{prefix}bench-{number}/", headers={"accept": "text/html"}
        )
        with urllib.request.urlopen(request) as answer:
            content = answer.read()
        # The page of the right project, with all of its files.
        if content.count(b".whl</a>") != arguments.files:
            sys.exit(f"{origin}{prefix}bench-{number}/ has {content.count(b'.whl</a>')} files")
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(SCRIPT.format(prefix=prefix, last=arguments.projects - 1))
        script.flush()
        command = ["wrk", "-t1", "-c32", f"-d{arguments.seconds}s", "--timeout", "30s"]
        done = subprocess.run(
            [*command, "--latency", "-s", script.name, origin],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
    found = dict(re.findall(r"^ +(50|99)% +(\S+)", done.stdout, re.MULTILINE))
    errors = sum(
        map(
            int,
            re.findall(
                r"(?:Non-2xx or 3xx responses|timeout|read|write|connect):? (\d+)", done.stdout
            ),
        )
    )
    pages = re.search(r"Requests/sec: +([\d.]+)", done.stdout)
    if pages is None:
        sys.exit(done.stdout)
    return Load(float(pages[1]), found["50"], found["99"], errors, len(content))


def table(loads: dict[str, Load]) -> str:
    """Write the figures as a table."""
    ours = loads["wheelfit"].pages
    lines = [
        "| server | pages/s | wheelfit has | half within | 99 % within | errors | bytes a page |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, load in loads.items():
        version = OTHERS.get(name, name).replace("[cache]", "").replace("==", " ")
        ratio = "" if name == "wheelfit" else f"{ours / load.pages:.1f} times as many"
        lines.append(
            f"| {version} | {load.pages:,.0f} | {ratio} | {load.median} | {load.slowest} "
            f"| {load.errors} | {load.size:,} |"
        )
    return "\n".join(lines)


def page(text: str, arguments: argparse.Namespace) -> str:
    """Write the page of the documentation."""
    return PAGE_TEXT.format(
        day=f"{datetime.now(UTC):%d %B %Y}",
        cores=os.cpu_count(),
        python=platform.python_version(),
        projects=arguments.projects,
        files=arguments.files,
        seconds=arguments.seconds,
        table=text,
    )


PAGE_TEXT = """\
# What a page of an index costs

`wheelfit index serve` beside other servers, on the same page. `python benchmarks/server.py --docs`
wrote this on {day}, on a machine with {cores} cores, CPython {python}. The index has
{projects:,} projects of {files} files each; 32 connections ask for pages picked by chance, in HTML,
for {seconds} seconds.

{table}

The load runs on the same machine as the server. Each server
ran as its documentation starts it: one process. pypiserver and simple-repository-server have the
wheels in a folder; proxpi and devpi-server mirror the index and have each page in their cache.
The pages differ in size because not all servers say the same of a file. The server that pypiserver
starts with takes one connection at a time, so that 32 at once are its worst case.

## Why

- A page is written once for each form (JSON, HTML), compressed once, and kept; it is sent from the
  event loop, without a thread and without the database.
- Whether it is still true is one question to the database in a tenth of a second, for all pages
  together. When something has changed, each page is held against the number of the last change of
  its project, and only those that have another one are written anew.
- Requests are read by a parser in C.

A page that is not at hand takes a thread, one query for the number of the last change of its
project, and one for its files.
"""


if __name__ == "__main__":
    main()
