"""Measure what an index costs an organisation on a release day, and a cluster; model the rest.

    python benchmarks/organisation.py --docs       write the figures into scale.md
    python benchmarks/organisation.py --machines 50 --nodes 8 --megabytes 20   quickly

*Release day*: 10,000 machines synchronise a lock of 100 packages within five minutes. Real clients
show which requests a machine makes: one that locks anew, one that has nothing, and one that has
everything but the wheel of a new release. The access log of a real index has them. They are
repeated by a sample of machines at the rate of the whole organisation, first against the index,
then against a mirror in front of it, whose requests to the index are counted as well.

*Cluster*: nodes download one large wheel at once, each a real client, through one mirror that does
not have it yet. What the mirror takes for a gigabyte gives the figures for more nodes.

Processor time counts, because machines are shared: the servers' alone, without the clients'.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import server as servers
from install_report import marked
from measuring import CHECKOUT, peak_memory, plain_environ
from wheel import machine

from wheelfit.testing.wheels import build_large_wheel, build_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAGE = CHECKOUT / "docs" / "explanation" / "scale.md"
START, STOP = "<!-- organisation -->", "<!-- end of organisation -->"
PROGRAM = Path(sys.executable).parent / "wheelfit"
ORGANISATION = 10_000
MINUTES = 5
PACKAGES = 100
RELEASES = 20
CLUSTER = 1_000
TORCH = 0.555
"""Gigabytes of the wheel of torch 2.14 for Linux."""
LINK = 1.25
"""Gigabytes a second that a network of 10 Gbit/s carries."""


@dataclass(frozen=True)
class Index:
    """A running index with a JSON access log."""

    url: str
    process: int
    log: Path

    def requests(self, start: int = 0) -> list[dict[str, object]]:
        """Return the requests for pages and files in the log, from one line on."""
        lines = self.log.read_text().splitlines()[start:]
        entries = [json.loads(line) for line in lines if line.startswith("{")]
        return [
            entry
            for entry in entries
            if entry.get("event") == "request" and not str(entry["path"]).startswith("/-/")
        ]

    @property
    def lines(self) -> int:
        """The number of lines in the log."""
        return len(self.log.read_text().splitlines())


@contextmanager
def index(folder: Path, *options: str) -> Iterator[Index]:
    """Run `wheelfit index serve`."""
    port, log = servers.free_port(), folder.with_suffix(".log")
    origin = f"http://127.0.0.1:{port}"
    words = ["index", "serve", folder, "--port", port, "--log-format", "json", *options]
    ready = f"{origin}/-/health/ready"
    with log.open("w+b") as file, servers.running([PROGRAM, *words], ready, log=file) as process:
        yield Index(f"{origin}/simple/", process, log)


def run(folder: Path, *words: object) -> None:
    """Run wheelfit in a folder."""
    command = [str(PROGRAM), *map(str, words)]
    done = subprocess.run(
        command, cwd=folder, env=plain_environ(), check=False, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"wheelfit {' '.join(map(str, words))}\n{done.stderr}")


# --- a release day ---------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One request of a machine."""

    path: str
    unchanged: bool
    """Whether the machine has the page, and asks whether it is still the same."""


def build_index(wheels: Path, stored: Path) -> None:
    """Fill an index with 100 projects of 20 releases."""
    for number in range(PACKAGES):
        for release in range(RELEASES):
            build_release(wheels, number, release)
    servers.fill(stored, wheels)


def build_release(wheels: Path, number: int, release: int) -> None:
    """Build a wheel of about 30 kB."""
    package = f"package_{number}"
    files = {f"{package}/__init__.py": b"", f"{package}/data.bin": os.urandom(30_000)}
    build_wheel(wheels / f"package-{number}", f"package-{number}", f"1.{release}", files=files)


def patterns(folder: Path, served: Index, stored: Path) -> dict[str, list[Step]]:
    """Let real clients lock and synchronise, and return what each asked the index for."""
    folder.mkdir()
    lines = "".join(f"package-{number}\n" for number in range(PACKAGES))
    (folder / "in.txt").write_text(lines)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    common = ["-q", "--python", folder / "env"]
    cache = ["--cache-dir", folder / "cache"]
    locking = ["lock", "-r", "in.txt", "-o", "pylock.toml", "-i", served.url, *common]
    patterns_by_kind: dict[str, list[Step]] = {}

    def steps(start: int) -> list[Step]:
        return [
            Step(str(entry["path"]), entry["status"] == 304) for entry in served.requests(start)
        ]

    run(folder, *locking, *cache)
    start = served.lines
    run(folder, *locking, *cache, "--upgrade")
    patterns_by_kind["locks again, pages in its cache"] = steps(start)
    start = served.lines
    run(folder, "sync", *common, "--cache-dir", folder / "empty")
    patterns_by_kind["synchronises with an empty cache"] = steps(start)
    build_release(folder / "new", 0, RELEASES)
    servers.fill(stored, folder / "new")
    run(folder, *locking, *cache, "--upgrade")
    start = served.lines
    run(folder, "sync", *common, "--cache-dir", folder / "empty")
    patterns_by_kind["synchronises, one release is new"] = steps(start)
    return patterns_by_kind


@dataclass
class Outcome:
    """The answers to a sample of machines."""

    seconds: list[float] = field(default_factory=list)
    received: int = 0
    statuses: Counter[int] = field(default_factory=Counter)


async def one_machine(
    origin: str, steps: Sequence[Step], tags: dict[str, str], out: Outcome
) -> None:
    """Make the requests of one machine over one connection."""
    parts = urlsplit(origin)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    for step in steps:
        accept = "application/vnd.pypi.simple.v1+json"
        head = f"GET {step.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: {accept}, */*\r\n"
        head += "Accept-Encoding: gzip\r\n"
        if step.unchanged:
            head += f"If-None-Match: {tags[step.path]}\r\n"
        start_time = time.perf_counter()
        writer.write(f"{head}\r\n".encode())
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in answer[1:] if ": " in line)
        status = int(answer[0].split()[1])
        size = 0 if status == 304 else int(headers["content-length"])
        await reader.readexactly(size)
        out.seconds.append(time.perf_counter() - start_time)
        out.received += len("\r\n".join(answer)) + size
        out.statuses[status] += 1
    writer.close()
    await writer.wait_closed()


async def sample(origin: str, steps: Sequence[Step], machines: int) -> Outcome:
    """Let machines come at the rate of the whole organisation."""
    tags = {step.path: etag(origin + step.path) for step in steps if step.unchanged}
    out, every = Outcome(), MINUTES * 60 / ORGANISATION
    running = []
    start_time = time.perf_counter()
    for number in range(machines):
        await asyncio.sleep(max(0, start_time + number * every - time.perf_counter()))
        running.append(asyncio.create_task(one_machine(origin, steps, tags, out)))
    await asyncio.gather(*running)
    return out


def etag(url: str) -> str:
    """Return the tag of a page."""
    accept = {"Accept": "application/vnd.pypi.simple.v1+json", "Accept-Encoding": "gzip"}
    with urllib.request.urlopen(urllib.request.Request(url, headers=accept)) as answer:
        return str(answer.headers["etag"])


def release_day(folder: Path, machines: int) -> list[str]:
    """Measure, and return the rows of the table."""
    build_index(folder / "wheels", folder / "stored")
    rows = []
    with (
        index(folder / "stored") as served,
        index(folder / "mirror", "--mirror", served.url) as mirror,
    ):
        patterns_by_kind = patterns(folder / "machine", served, folder / "stored")
        for kind, steps in patterns_by_kind.items():
            for place, target in (("the index", served), ("a mirror", mirror)):
                origin = target.url.removesuffix("/simple/")
                local = on_index(steps, target)
                asyncio.run(sample(origin, local, 1))  # what is kept is kept
                used, line = servers.processor_time(target.process), served.lines
                out = asyncio.run(sample(origin, local, machines))
                used = servers.processor_time(target.process) - used
                behind = len(served.requests(line)) if target is mirror else None
                rows.append(day_row(kind, place, steps, out, used / machines, machines, behind))
                print(rows[-1], flush=True)
    return rows


def on_index(steps: Sequence[Step], target: Index) -> list[Step]:
    """Return the same requests with the addresses of files on another index."""
    files: dict[str, str] = {}
    for step in steps:
        name = step.path.rpartition("/")[2]
        if name and name not in files:
            project = name.split("-")[0].replace("_", "-")
            accept = {"Accept": "application/vnd.pypi.simple.v1+json"}
            request = urllib.request.Request(f"{target.url}{project}/", headers=accept)
            with urllib.request.urlopen(request) as answer:
                base, page = answer.url, json.load(answer)
            for file in page["files"]:
                path = urlsplit(urllib.parse.urljoin(base, file["url"])).path
                files[file["filename"]] = path
                files[f"{file['filename']}.metadata"] = f"{path}.metadata"
    return [
        Step(files.get(step.path.rpartition("/")[2], step.path), step.unchanged) for step in steps
    ]


def day_row(
    kind: str,
    place: str,
    steps: Sequence[Step],
    out: Outcome,
    used: float,
    machines: int,
    behind: int | None,
) -> str:
    """Return one row: what the sample took, and what the whole organisation takes of it."""
    failed = sum(count for status, count in out.statuses.items() if status not in (200, 304))
    ordered = sorted(out.seconds)
    return (
        f"| {kind} | {place} | {len(steps)} ({sum(step.unchanged for step in steps)}) "
        f"| {out.received / machines / 1000:,.0f} kB | {used * 1000:,.1f} ms "
        f"| {len(steps) * ORGANISATION / MINUTES / 60:,.0f}/s "
        f"| {out.received / machines * ORGANISATION / MINUTES / 60 / 1e6:,.1f} MB/s "
        f"| {used * ORGANISATION / MINUTES / 60:.2f} "
        f"| {statistics.median(ordered) * 1000:,.1f}, "
        f"{ordered[int(len(ordered) * 0.99)] * 1000:,.0f} ms | {failed} "
        f"| {'' if behind is None else behind} |"
    )


# --- a cluster -----------------------------------------------------------------------------


def cluster(folder: Path, nodes: int, megabytes: int) -> list[str]:
    """Let nodes download one wheel at once through a mirror, and model more of them."""
    wheels = folder / "large" / "large"
    build_large_wheel(wheels, "large", "1.0", megabytes * 1_000_000)
    servers.fill(folder / "origin", folder / "large")
    with (
        index(folder / "origin") as origin,
        index(folder / "proxy", "--mirror", origin.url) as proxy,
    ):
        line, start_time = origin.lines, time.monotonic()
        used = servers.processor_time(proxy.process)
        started = []
        for number in range(nodes):
            place = folder / f"node-{number}"
            command = [str(PROGRAM), "download", "-q", "large", "--no-deps", "-i", proxy.url]
            command += ["-d", str(place), "--cache-dir", str(folder / f"cache-{number}")]
            started.append(
                subprocess.Popen(
                    command, env=plain_environ(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
                )
            )
        failed = 0
        for number, process in enumerate(started):
            _, problems = process.communicate()
            failed += process.returncode != 0
            print(problems.decode(), end="")
            for part in ("node", "cache"):
                shutil.rmtree(folder / f"{part}-{number}", ignore_errors=True)
        seconds = time.monotonic() - start_time
        used = servers.processor_time(proxy.process) - used
        target = [str(entry["path"]) for entry in origin.requests(line)]
        wheel_fetches = [path for path in target if path.endswith(".whl")]
        gigabytes = nodes * megabytes / 1000
        peak = peak_memory(proxy.process) / (1 << 20)
    each = used / gigabytes
    total = CLUSTER * TORCH
    cores = os.cpu_count() or 1
    until = max((total / LINK, "10 Gbit/s"), (each * total / cores, f"{cores} processors"))
    return [
        "| | measured | modelled |",
        "|---|--:|--:|",
        f"| nodes | {nodes} | {CLUSTER:,} |",
        f"| size of the wheel | {megabytes} MB | {TORCH * 1000:.0f} MB |",
        f"| sent by the mirror | {gigabytes:,.1f} GB | {total:,.0f} GB |",
        f"| requests for the wheel to the upstream index | {len(wheel_fetches)} | 1 |",
        f"| processor time of the mirror | {used:.1f} s | {each * total:,.0f} s |",
        f"| for a gigabyte | {each:.2f} s | {each:.2f} s |",
        f"| peak memory of the mirror | {peak:.0f} MB | |",
        f"| until all nodes have it | {seconds:.0f} s | {until[0]:,.0f} s, bound by {until[1]} |",
        f"| failed | {failed} | |",
    ]


def main() -> None:
    """Measure, print, and write the docs if asked to."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--machines", type=int, default=500)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--megabytes", type=int, default=100, help="size of the large wheel")
    parser.add_argument("--docs", action="store_true", help="write the tables into the docs")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="organisation-") as place:
        rows = release_day(Path(place), arguments.machines)
        second = cluster(Path(place), arguments.nodes, arguments.megabytes)
    heads = (
        "machine", "server", "requests (unchanged pages)", "received", "processor", "requests, all",
        "sent to all", "cores, all", "latency: half, 99 %", "failed", "forwarded to the index",
    )  # fmt: skip
    first = [f"| {' | '.join(heads)} |", f"|---|---|{'--:|' * 9}", *rows]
    sampled = f"A sample of {arguments.machines} machines and {arguments.nodes} nodes, {machine()}."
    text = "\n".join([sampled, "", *first, "", *second])
    print(text)
    if arguments.docs:
        PAGE.write_text(marked(PAGE.read_text(), text, START, STOP))


if __name__ == "__main__":
    main()
