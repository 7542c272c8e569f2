"""What this machine can do at most, for the figures of `install.py` to be held against.

    python benchmarks/install_limits.py WHEEL FOLDER URL

prints JSON: megabytes per second of unpacking the largest member of a wheel, of hashing it, of
writing into a folder, and of fetching the wheel; one thread each, best of a few.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import socket
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from wheelfit.wheels.archive import WheelArchive

if TYPE_CHECKING:
    from collections.abc import Callable

PIECE = 1 << 18
MOST = 256 << 20
"""Bytes after which a measurement ends."""
TIMES = 3


def inflate(packed: bytes, new: Callable[[], Any]) -> int:
    """Unpack raw deflate data; return how many bytes came out."""
    inflater, count = new(), 0
    for start in range(0, len(packed), PIECE):
        count += len(inflater.decompress(packed[start : start + PIECE]))
        if count >= MOST:
            break
    return count


def hash_all(data: bytes) -> int:
    """Hash pieces as large as those of an installation."""
    digest = hashlib.sha256()
    for start in range(0, len(data), PIECE):
        digest.update(memoryview(data)[start : start + PIECE])
    return len(data)


def write(data: bytes, path: Path) -> int:
    """Write a new file."""
    with path.open("wb", buffering=0) as file:
        for start in range(0, len(data), PIECE):
            file.write(memoryview(data)[start : start + PIECE])
    return len(data)


def flush(data: bytes, path: Path) -> int:
    """Write a new file and wait until it is on the disk."""
    with path.open("wb", buffering=0) as file:
        for start in range(0, len(data), PIECE):
            file.write(memoryview(data)[start : start + PIECE])
        os.fsync(file.fileno())
    return len(data)


def fetch(url: str) -> int:
    """Fetch a file and look at nothing of it."""
    parts = urlsplit(url)
    buffer, count = bytearray(PIECE), 0
    with socket.create_connection((parts.hostname or "", parts.port or 80)) as line:
        head = f"GET {parts.path} HTTP/1.1\r\nhost: {parts.netloc}\r\n\r\n"
        line.sendall(head.encode())
        first = line.recv(PIECE)
        lines, _, rest = first.partition(b"\r\n\r\n")
        length = next(
            int(text.partition(b":")[2])
            for text in lines.lower().split(b"\r\n")
            if text.startswith(b"content-length")
        )
        count = len(rest)
        while count < length and (more := line.recv_into(buffer)):
            count += more
    return count


def best(work: Callable[[], int]) -> float:
    """Return how many megabytes a second some work does at its best."""
    rates = []
    for _ in range(TIMES):
        begin = time.perf_counter()
        count = work()
        rates.append(count / (time.perf_counter() - begin) / 1e6)
    return max(rates)


def measure(wheel: Path, folder: Path, url: str) -> dict[str, float]:
    """Measure everything."""
    with WheelArchive(wheel) as archive:
        member = max(archive.members, key=lambda member: member.compressed_size)
        start = archive.data_start(member)
        packed = archive.read_bytes(start, min(member.compressed_size, MOST))
    data = packed[: 128 << 20]
    limits = {}
    if member.method:
        limits["inflate zlib"] = best(lambda: inflate(packed, lambda: zlib.decompressobj(-15)))
        try:
            from isal import isal_zlib
        except ImportError:
            pass
        else:
            new = lambda: isal_zlib.decompressobj(-15)  # noqa: E731 - as above
            limits["inflate isal"] = best(lambda: inflate(packed, new))
    limits["sha256"] = best(lambda: hash_all(data))
    target = folder / "limit"
    limits["write"] = best(lambda: write(data, target))
    limits["write and fsync"] = best(lambda: flush(data, target))
    target.unlink()
    limits["loopback"] = best(lambda: fetch(url))
    return limits


def main() -> None:
    """Measure what was asked for and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("url")
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.wheel, arguments.folder, arguments.url)))


if __name__ == "__main__":
    main()
