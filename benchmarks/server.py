"""Ask servers of indexes for the same pages; print pages a second, processor time and latencies.

    python benchmarks/server.py                              1,000 projects of 50 files each
    python benchmarks/server.py --projects 100 --seconds 3   smaller
    python benchmarks/server.py --server pypiserver          beside this one only
    python benchmarks/server.py --docs                       write docs/explanation/index-speed.md

The load comes from `wrk` (a Debian package). Each server runs in an environment of its own, as its
documentation or its container starts it, and gives the page of a project picked by chance to 32
connections: HTML, which all of them can. The servers are asked in turns, several rounds long, and
the median of the rounds counts; those that wait for their turn are idle. pypiserver and
simple-repository-server have the files in a folder; proxpi and devpi-server are mirrors of the
index here. Those that keep pages are warmed by one request for each. wheelfit writes its log, as by
default.
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
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import IO, TYPE_CHECKING

from measuring import CHECKOUT, install, plain_environ

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PAGE = CHECKOUT / "docs" / "explanation" / "index-speed.md"
OTHERS = {
    "pypiserver": ("pypiserver[cache]==2.4.2", "gunicorn==23.0.0"),
    "simple-repository-server": ("simple-repository-server==0.10.0",),
    "proxpi": ("proxpi==1.3.1", "gunicorn==23.0.0"),
    "devpi-server": ("devpi-server==6.20.3",),
}
SCRIPT = """
math.randomseed(os.time())
wrk.headers["Accept"] = "text/html"
request = function()
  return wrk.format("GET", string.format("{prefix}bench-%d/", math.random(0, {last})))
end
"""


@dataclass(frozen=True)
class Server:
    """A running server."""

    origin: str
    prefix: str
    """Path of the pages of projects."""
    process: int


@dataclass(frozen=True)
class Load:
    """The result of `wrk` in one round."""

    pages: float
    """A second."""
    processor: float
    """Milliseconds that all processes of the server took for a page."""
    median: float
    """Milliseconds."""
    slowest: float
    """Milliseconds that 99 of 100 did not exceed."""
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
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--server", action="append", choices=sorted(OTHERS))
    parser.add_argument(
        "--environments", type=Path, default=Path(tempfile.gettempdir()) / "wheelfit-servers"
    )
    parser.add_argument("--docs", action="store_true")
    arguments = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("this needs wrk: apt-get install wrk")
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = Path(temporary)
        wheels = make_wheels(folder / "wheels", arguments.projects, arguments.files)
        fill(folder / "index", wheels)
        ours = stack.enter_context(wheelfit(folder / "index"))
        servers = {"wheelfit": ours}
        for server in arguments.server or OTHERS:
            programs = install(arguments.environments / server, *OTHERS[server])
            started = STARTS[server](programs, folder, f"{ours.origin}/simple/")
            servers[server] = stack.enter_context(started)
        rounds: dict[str, list[Load]] = {server: [] for server in servers}
        sizes = {
            name: warm(server, arguments, every=name in ("wheelfit", "proxpi", "devpi-server"))
            for name, server in servers.items()
        }
        for _ in range(arguments.rounds):
            for name, server in servers.items():
                rounds[name].append(measure(server, arguments, sizes[name]))
                print(f"{name}: {rounds[name][-1]}", flush=True)
    text = table({name: typical(loads) for name, loads in rounds.items()})
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
    from wheelfit.server.store.opening import open_store
    from wheelfit.server.store.records import NewFile
    from wheelfit.wheels.archive import WheelArchive

    with open_store(folder) as store:
        for path in wheels.rglob("*.whl"):
            name = parse_wheel_filename(path.name)
            with store.blobs.draft() as draft:
                draft.write(path.read_bytes())
                store.blobs.save(draft)
            with WheelArchive(path) as archive:
                metadata = archive.metadata()
            new = NewFile(
                path.name, canonicalize_name(name.name), name.version, draft.sha256, draft.size,
                "2026-11-22T12:00:00.000000Z", metadata=metadata,
            )  # fmt: skip
            store.records.add(new, save=lambda: None)


def free_port() -> int:
    """Return a port that is free at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(
    command: list[object],
    url: str,
    *,
    log: IO[bytes] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Iterator[int]:
    """Run a server; yield the number of its process once it answers.

    :param log: a file for what it prints; None: a temporary one.
    """
    with ExitStack() as stack:
        log = log or stack.enter_context(tempfile.TemporaryFile())
        words, given = list(map(str, command)), {**plain_environ(), **(environ or {})}
        process = subprocess.Popen(words, stdout=log, stderr=log, env=given)
        try:
            end = time.monotonic() + 60
            while True:
                try:
                    request = urllib.request.Request(url, headers={"accept": "*/*"})
                    urllib.request.urlopen(request, timeout=20).close()
                    break
                except OSError:
                    if time.monotonic() > end or process.poll() is not None:
                        log.seek(0)
                        sys.exit(log.read().decode()[-2000:])
                    time.sleep(0.2)
            yield process.pid
        finally:
            process.terminate()
            process.wait()


@contextmanager
def wheelfit(folder: Path) -> Iterator[Server]:
    """Run this server."""
    port = free_port()
    origin = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "wheelfit", "index", "serve", folder, "--port", port]
    with running(command, f"{origin}/-/health/ready") as process:
        yield Server(origin, "/simple/", process)


@contextmanager
def pypiserver(programs: Path, folder: Path, _index: str) -> Iterator[Server]:
    """Run pypiserver on gunicorn; by default it takes one connection at a time."""
    port = free_port()
    origin = f"http://127.0.0.1:{port}"
    command = [
        programs / "pypi-server", "run", "--server", "gunicorn", "-i", "127.0.0.1", "-p", port,
        folder / "wheels",
    ]  # fmt: skip
    with running(command, f"{origin}/simple/bench-0/") as process:
        yield Server(origin, "/simple/", process)


@contextmanager
def simple_repository_server(programs: Path, folder: Path, _index: str) -> Iterator[Server]:
    """Run simple-repository-server."""
    port = free_port()
    origin = f"http://127.0.0.1:{port}"
    command = [programs / "simple-repository-server", "--host", "127.0.0.1", "--port", port]
    command.append(folder / "wheels")
    with running(command, f"{origin}/simple/bench-0/") as process:
        yield Server(origin, "/simple/", process)


@contextmanager
def proxpi(programs: Path, _folder: Path, index: str) -> Iterator[Server]:
    """Run proxpi as its container does."""
    port = free_port()
    origin = f"http://127.0.0.1:{port}"
    command = [
        programs / "gunicorn", "--preload", "--access-logfile", "-",
        "--logger-class", "proxpi.server._GunicornLogger", "--threads", "2",
        "--bind", f"127.0.0.1:{port}", "proxpi.server:app",
    ]  # fmt: skip
    settings = {"PROXPI_INDEX_URL": index, "PROXPI_INDEX_TTL": "86400"}
    with running(command, f"{origin}/index/bench-0/", environ=settings) as process:
        yield Server(origin, "/index/", process)


@contextmanager
def devpi_server(programs: Path, folder: Path, index: str) -> Iterator[Server]:
    """Run devpi-server, with its own mirror set to the index here."""
    port, data = free_port(), folder / "devpi"
    subprocess.run([programs / "devpi-init", "--serverdir", data], check=True, capture_output=True)
    command = [programs / "devpi-server", "--serverdir", data, "--port", port]
    origin = f"http://127.0.0.1:{port}"
    with running(command, f"{origin}/+api") as process:
        fields = ask("POST", f"{origin}/+login", {"user": "root", "password": ""}, "")
        login = base64.b64encode(f"root:{fields['result']['password']}".encode()).decode()
        changes = [f"mirror_url={index}", "mirror_cache_expiry=86400"]
        ask("PATCH", f"{origin}/root/pypi", changes, login)
        yield Server(origin, "/root/pypi/+simple/", process)


def ask(method: str, url: str, fields: object, login: str) -> dict[str, dict[str, str]]:
    """Change something at devpi-server."""
    headers = {"content-type": "application/json", "accept": "application/json"}
    if login:
        headers["x-devpi-auth"] = login
    request = urllib.request.Request(url, json.dumps(fields).encode(), headers, method=method)
    with urllib.request.urlopen(request) as answer:
        found: dict[str, dict[str, str]] = json.load(answer)
        return found


STARTS = {
    "pypiserver": pypiserver,
    "simple-repository-server": simple_repository_server,
    "proxpi": proxpi,
    "devpi-server": devpi_server,
}


def warm(server: Server, arguments: argparse.Namespace, *, every: bool) -> int:
    """Ask for pages once, and check them; return the bytes of the last one.

    :param every: whether for all, so that a server that keeps pages has them.
    """
    content = b""
    for number in range(arguments.projects if every else min(arguments.projects, 3)):
        url = f"{server.origin}{server.prefix}bench-{number}/"
        request = urllib.request.Request(url, headers={"accept": "text/html"})
        with urllib.request.urlopen(request) as answer:
            content = answer.read()
        # The page of the right project, with all of its files.
        if content.count(b".whl</a>") != arguments.files:
            sys.exit(f"{url} has {content.count(b'.whl</a>')} files")
    return len(content)


def measure(server: Server, arguments: argparse.Namespace, size: int) -> Load:
    """Ask for pages picked by chance, as quickly as they come."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(SCRIPT.format(prefix=server.prefix, last=arguments.projects - 1))
        script.flush()
        command = ["wrk", "-t1", f"-c{arguments.clients}", f"-d{arguments.seconds}s"]
        command += ["--timeout", "30s"]
        before = processor_time(server.process)
        done = subprocess.run(
            [*command, "--latency", "-s", script.name, server.origin],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        took = processor_time(server.process) - before
    latencies = dict(re.findall(r"^ +(50|99)% +(\S+)", done.stdout, re.MULTILINE))
    errors = re.findall(
        r"(?:Non-2xx or 3xx responses|timeout|read|write|connect):? (\d+)", done.stdout
    )
    pages = re.search(r"Requests/sec: +([\d.]+)", done.stdout)
    count = re.search(r"^ +(\d+) requests in", done.stdout, re.MULTILINE)
    if pages is None or count is None:
        sys.exit(done.stdout)
    return Load(
        float(pages[1]),
        1000 * took / max(int(count[1]), 1),
        milliseconds(latencies["50"]),
        milliseconds(latencies["99"]),
        sum(map(int, errors)),
        size,
    )


def milliseconds(text: str) -> float:
    """Return a duration as `wrk` writes it."""
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000}[unit]


def processor_time(process: int) -> float:
    """Return the seconds that a process and those that it started took so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return ticks / os.sysconf("SC_CLK_TCK") + sum(map(processor_time, map(int, children)))


def typical(loads: list[Load]) -> Load:
    """Return the median of each figure; of errors the sum."""
    return Load(
        median(load.pages for load in loads),
        median(load.processor for load in loads),
        median(load.median for load in loads),
        median(load.slowest for load in loads),
        sum(load.errors for load in loads),
        loads[0].size,
    )


def table(loads: dict[str, Load]) -> str:
    """Write the figures as a table."""
    ours = loads["wheelfit"]
    lines = [
        "| server | pages/s | time a page | of ours | half within | 99 % within | errors | bytes |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, load in loads.items():
        version = OTHERS.get(name, (name,))[0].replace("[cache]", "").replace("==", " ")
        ratio = "" if name == "wheelfit" else f"{load.processor / ours.processor:,.1f} times"
        lines.append(
            f"| {version} | {load.pages:,.0f} | {load.processor:,.2f} ms | {ratio} "
            f"| {load.median:,.1f} ms | {load.slowest:,.1f} ms | {load.errors} | {load.size:,} |"
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
        rounds=arguments.rounds,
        load=os.getloadavg()[2],
        table=text,
    )


PAGE_TEXT = """\
# What a page of an index costs

This page compares the speed of `wheelfit index serve` with other index servers. `python
benchmarks/server.py --docs` wrote it on {day}, on a machine with {cores} cores, CPython {python}.
The index has {projects:,} projects of {files} files each; 32 connections request random pages, in
HTML. The servers were measured in turns of {seconds} seconds, and each figure is the median of
{rounds}.

{table}

*Time a page* is the processor time of all processes of a server. *Of ours* is its ratio to that
of wheelfit.

The load ran on the same machine as the server, which had a load average of {load:.0f} from other
work. So pages a second and latencies are worse than on an idle machine, and the processor time of
all servers includes switching between processes. Use the table only to compare the servers. On
such a machine without other work, on 22 November 2026, wheelfit served 9,170 pages a second, half
of them within 3.4 ms and 99 of 100 within 7 ms; simple-repository-server served 266, devpi-server
287.

Each server was started as by its documentation or its container: pypiserver on gunicorn, because
its built-in server accepts one connection at a time, proxpi on gunicorn with two threads, the
others alone. pypiserver and simple-repository-server have the wheels in a folder; for each page
pypiserver reads the names of all its files. proxpi and devpi-server mirror the index and have
each page in their cache. The pages differ in size because the servers list different data of a
file.

## Why

- A page is generated once for each format (JSON, HTML), compressed once, and cached; it is sent
  from the event loop, without a thread and without the database.
- One query of the database every tenth of a second shows whether any page has changed. If so, the
  number of the last change of each project is compared, and only pages with a new number are
  generated again. One request makes this query before the tenth of a second is over, so that
  other requests do not wait for it.
- Requests are parsed in C.

A page that is not cached needs a thread, one query for the number of the last change of its
project, and one for its files.
"""


if __name__ == "__main__":
    main()
