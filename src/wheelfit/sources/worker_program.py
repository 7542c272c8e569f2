"""The program of a worker: tasks come from its input, a line each, and results go to its output."""

from __future__ import annotations

import hashlib
import signal
import sys
from pathlib import Path

import msgspec

from wheelfit.core.filename import parse_wheel_filename
from wheelfit.sources.cache import Store
from wheelfit.sources.unpacking_workers import UnpackingResult, UnpackingTask
from wheelfit.sources.wheel_store import WheelStore
from wheelfit.wheels.bytes_source import BytesInMemory


def main(cache_folder: str) -> None:
    """Carry out tasks until the input ends, which it also does when the other process ends.

    :param cache_folder: the cache that wheels are unpacked into.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process decides what Ctrl-C ends
    tasks, results = sys.stdin.buffer, sys.stdout.buffer
    store = Store(Path(cache_folder))
    for line in tasks:
        result = None
        try:
            result = _carry_out(msgspec.json.decode(line, type=UnpackingTask), store)
        except Exception:  # noqa: BLE001 - the other process tries again, and raises the error
            result = None
        results.write(msgspec.json.encode(result) + b"\n")
        results.flush()


def _carry_out(task: UnpackingTask, store: Store) -> UnpackingResult | None:
    wheels = WheelStore(store, by_content=task.by_content)
    filename, archive = parse_wheel_filename(task.filename), Path(task.archive)
    if task.compared_hashes is not None:
        changed = wheels.differing_file(filename, archive, task.compared_hashes, where=task.where)
        return UnpackingResult(changed)
    data = archive.read_bytes()
    if hashlib.sha256(data).hexdigest() != task.sha256:
        return None
    wheels.unpacked(BytesInMemory(data), filename, task.sha256, None, where=task.where)
    return UnpackingResult()
