"""What the proxy adds to a page of a project without variants, and to a wheel that it rewrites.

    python benchmarks/proxy.py [--rounds N] [--wheel MB]

An index on this machine serves pages of several sizes; they are asked for in turn there, from
the proxy while the index calls them fresh, and from the proxy while it has to ask the index
whether they are still the same. Prints medians in milliseconds and their ratios. Then a wheel is
fetched from the index, through a redirect, and rewritten.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import http.client
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from measuring import peak_memory, plain_environ

from wheelfit.server.folder import FolderIndex
from wheelfit.server.loopback import LoopbackServer
from wheelfit.server.messages import Request, Response, content_response
from wheelfit.testing.wheels import build_wheel, release_document

if TYPE_CHECKING:
    from collections.abc import Callable

JSON = "application/vnd.pypi.simple.v1+json"
SIZES = {"8 KB": 20, "69 KB": 180, "1.5 MB": 4000, "3.8 MB": 10000}


def page(files: int) -> bytes:
    """Return a page with that many files, about as large as those of PyPI."""
    entries = []
    for number in range(files):
        digest = hashlib.sha256(str(number).encode()).hexdigest()
        name = f"some-1.{number}-cp313-cp313-manylinux_2_28_x86_64.whl"
        entries.append(
            {
                "filename": name,
                "url": f"https://files.example/packages/{digest[:2]}/{digest[2:4]}/{name}",
                "hashes": {"sha256": digest},
                "requires-python": ">=3.10",
                "size": number,
                "upload-time": "2026-01-01T00:00:00.000000Z",
                "core-metadata": {"sha256": digest},
            }
        )
    content = {"meta": {"api-version": "1.1"}, "name": "some", "files": entries}
    return json.dumps(content, separators=(",", ":")).encode()


def serve(folder: str, line: multiprocessing.connection.Connection) -> None:
    """Serve pages and the wheels of a folder, until the process is ended."""
    wheels = FolderIndex(Path(folder))
    pages = {
        f"p{number}": gzip.compress(page(files)) for number, files in enumerate(SIZES.values())
    }

    def answer(request: Request) -> Response:
        _, *parts = request.path.split("/")
        if parts[0] in ("fresh", "asked") and parts[2] in pages:
            body = pages[parts[2]]
            control = "max-age=600" if parts[0] == "fresh" else "no-cache"
            headers = {"content-type": JSON, "content-encoding": "gzip", "cache-control": control}
            etag = f'"{hashlib.sha256(body).hexdigest()}"'
            return content_response(request, body, len(body), etag=etag, headers=headers)
        return wheels(request)

    with LoopbackServer(answer) as server:
        line.send(server.origin)
        line.recv()


class Proxy:
    """Run `wheelfit proxy` in front of an index."""

    def __init__(self, url: str, cache: Path) -> None:
        words = ["proxy", "--port", "0", "--full", "--index-url", url, "--cache-dir", str(cache)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "wheelfit", *words, "--for", "cuda-12.9-sm90"],
            env=plain_environ(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()

    @property
    def peak(self) -> float:
        """Megabytes of memory at most."""
        return peak_memory(self._process.pid) / (1 << 20)

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()


def asking(url: str) -> Callable[[], float]:
    """Return what asks for a page over one connection, and how long that takes."""
    parts = urlsplit(url)
    line = http.client.HTTPConnection(parts.netloc)
    headers = {"Accept": JSON, "Accept-Encoding": "gzip"}

    def ask() -> float:
        begin = time.perf_counter()
        line.request("GET", parts.path, headers=headers)
        answer = line.getresponse()
        answer.read()
        assert answer.status == 200
        return 1000 * (time.perf_counter() - begin)

    return ask


def fetch(url: str) -> float:
    """Return how long a file takes, redirects followed."""
    begin = time.perf_counter()
    subprocess.run(["curl", "-sSfL", "-o", os.devnull, url], check=True)
    return time.perf_counter() - begin


def compare_pages(origin: str, cache: Path, rounds: int) -> None:
    """Print medians for pages of each size."""
    proxies = {kind: Proxy(f"{origin}/{kind}/simple/", cache / kind) for kind in ("fresh", "asked")}
    print(f"{'page':>8} {'index':>8} {'fresh':>8} {'ratio':>6} {'asked':>8} {'ratio':>6}   (ms)")
    for number, size in enumerate(SIZES):
        askers = [asking(f"{origin}/fresh/simple/p{number}/")]
        askers += [asking(f"{proxy.url}p{number}/") for proxy in proxies.values()]
        for ask in askers:
            ask()
        times: list[list[float]] = [[], [], []]
        for _ in range(rounds):
            for ask, seconds in zip(askers, times, strict=True):
                seconds.append(ask())
        index, fresh, revalidated = map(statistics.median, times)
        print(
            f"{size:>8} {index:8.2f} {fresh:8.2f} {fresh / index:6.2f} "
            f"{revalidated:8.2f} {revalidated / index:6.2f}"
        )
    for proxy in proxies.values():
        proxy.close()


def compare_wheels(origin: str, cache: Path, rounds: int) -> None:
    """Print medians for a wheel that is redirected to, and for one that is rewritten."""
    proxy = Proxy(f"{origin}/simple/", cache / "wheels")
    pages = {}
    for name in ("plain", "marked"):
        done = subprocess.run(
            ["curl", "-sSf", "-H", f"Accept: {JSON}", f"{proxy.url}{name}/"],
            check=True,
            capture_output=True,
        )
        (file,) = json.loads(done.stdout)["files"]
        pages[name] = urljoin(f"{proxy.url}{name}/", file["url"])
    urls = {
        "index": f"{origin}/files/plain-1.0-py3-none-any-cu129.whl",
        "redirect": pages["plain"],
        "rewritten": pages["marked"],
    }
    times: dict[str, list[float]] = {name: [] for name in urls}
    for _ in range(rounds):
        for name, url in urls.items():
            times[name].append(fetch(url))
    for name, seconds in times.items():
        print(f"{name:>10} {statistics.median(seconds):6.2f} s")
    print(f"memory of the proxy: {proxy.peak:.0f} MB at most")
    proxy.close()


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--wheel", type=int, default=400, metavar="MB")
    arguments = parser.parse_args()
    provider = {
        "requires": ["nvidia-variant-provider"],
        "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
    }
    document = release_document(
        {"cu129": {"nvidia": {"cuda_version_lower_bound": ["12.9"]}}},
        providers={"nvidia": provider},
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "index")
        noise = os.urandom(1 << 20) * arguments.wheel
        for project, needs in (("plain", ()), ("marked", ('x; variant_label == "cu129"',))):
            build_wheel(
                folder,
                project,
                "1.0",
                label="cu129",
                document=document,
                requires=needs,
                files={f"{project}/data.bin": noise, f"{project}/__init__.py": ""},
            )
            (folder / f"{project}-1.0-variants.json").write_text(json.dumps(document))
        del noise
        here, there = multiprocessing.Pipe()
        server = multiprocessing.Process(target=serve, args=(str(folder), there), daemon=True)
        server.start()
        origin = here.recv()
        compare_pages(origin, Path(name), arguments.rounds)
        compare_wheels(origin, Path(name), 5)
        here.send("end")
        server.join()


if __name__ == "__main__":
    main()
