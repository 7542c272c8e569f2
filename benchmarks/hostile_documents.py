"""Measure what it costs to refuse metadata that means harm: milliseconds and megabytes.

    python benchmarks/hostile_documents.py            every document, best of 5 runs
    python benchmarks/hostile_documents.py --runs 20

Each document is read from memory, as it is after it came from a server. What comes from a server
is bounded besides: of a document that announces more than 4 MiB nothing is read, of any other no
more than 4 MiB. Times are those of the processor; memory is the peak of what Python allocates on
top of the document itself. The promise is less than 50 ms and 20 MB for whatever exceeds a limit.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import tracemalloc
from contextlib import suppress

from wheelfit.core.metadata import read_document
from wheelfit.testing.wheels import release_document
from wheelfit_runtime.errors import InvalidDocument

SOUND = release_document(
    {"mkl": {"blas": {"library": ["mkl"]}}}, static={"blas": {"library": ["mkl"]}}
)


def with_variants(text: bytes) -> bytes:
    """Return the sound document with other variants."""
    rest = json.dumps({key: value for key, value in SOUND.items() if key != "variants"})
    return rest[:-1].encode() + b', "variants": {' + text + b"}}"


def documents() -> dict[str, bytes]:
    """Return every document by name."""
    text = json.dumps(SOUND).encode()
    many = b",".join(b'"l%d":{}' % number for number in range(200_000))
    full = b",".join(b'"l%d":{"blas":{"library":["mkl"]}}' % number for number in range(100_000))
    values = b'"mkl":{"blas":{"library":["v"' + b',"v"' * 1_000_000 + b"]}}"
    return {
        "sound, for comparison": text,
        "60 MB": text + b" " * 60_000_000,
        "200,000 empty labels": with_variants(many),
        "100,000 labels": with_variants(full),
        "200,000 labels and one wide character": with_variants('"é😀":{},'.encode() + many),
        "1,000,000 values": with_variants(values),
        "1,000,000 values, behind 1,000,000 colons": b'{"'
        + b":" * 500_000
        + b'":0,'
        + with_variants(values)[1:3_600_000],
        "depth 3,000,000": b"[" * 3_000_000,
        "a string that does not end": b'{"a":"' + b'\\"' * 2_000_000,
        "a number of 4,000,000 digits": b'{"a":' + b"9" * 4_000_000 + b"}",
        "a key of 4,000,000 characters": b'{"' + b"a" * 4_000_000 + b'":' + text + b"}",
        "closing brackets": b"{" + b"]" * 4_000_000,
        "duplicate keys at the end": text[:-1] + b',"variants":{}}',
    }


def measure(data: bytes, runs: int) -> tuple[float, float, str]:
    """Return the best time in ms, the peak of memory in MB, and what was said."""
    outcome = "read"
    times = []
    for _ in range(runs):
        start = time.process_time()
        try:
            read_document(data, where="document")
        except InvalidDocument as error:
            outcome = error.message
        times.append(time.process_time() - start)
    tracemalloc.start()
    with suppress(InvalidDocument):
        read_document(data, where="document")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return min(times) * 1e3, peak / 1e6, outcome


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5, help="how often each is read (5)")
    runs = parser.parse_args().runs
    print(f"Python {platform.python_version()} on {platform.machine()}, best of {runs} runs\n")
    print(f"{'document':<42} {'size':>10} {'ms':>8} {'MB':>6}  what is said")
    for name, data in documents().items():
        milliseconds, peak, outcome = measure(data, runs)
        print(f"{name:<42} {len(data):>10,} {milliseconds:>8.2f} {peak:>6.2f}  {outcome[:70]}")


if __name__ == "__main__":
    main()
