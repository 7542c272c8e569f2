"""Run one command and measure it: time, processor, memory, bytes; and keep the traps away.

Two traps make file systems of virtual machines slow for minutes, and both come from deleting:
ext4 avoids inodes that were freed lately, and pages that were never touched cost extra. So old
trees are moved aside and only *emptied* (their space is given back, their inodes are not); they
are deleted when everything has been measured.
"""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from measuring import peak_memory

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SECTOR = 512
LARGE = 1 << 16
"""Bytes from which on an old file is emptied."""


@dataclass
class Scratch:
    """A folder on the file system that is measured."""

    folder: Path
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def fresh(self, what: str) -> Path:
        """Return the path of something that does not exist yet."""
        return self.folder / f"{what}-{next(self.numbers)}"

    def put_away(self, *trees: Path, shared: bool = False) -> None:
        """Move trees aside, and give their space back.

        :param trees: what is not needed any more; what does not exist is left out.
        :param shared: whether links to its files lie elsewhere; those keep their content.
        """
        trash = self.folder / "trash"
        trash.mkdir(exist_ok=True)
        for tree in trees:
            if tree.exists():
                aside = tree.rename(trash / f"{tree.name}-{next(self.numbers)}")
                empty(aside, shared=shared)

    @property
    def used(self) -> int:
        """Bytes that are taken on its file system."""
        status = os.statvfs(self.folder)
        return (status.f_blocks - status.f_bfree) * status.f_frsize


def empty(tree: Path, *, shared: bool = False) -> None:
    """Cut the large files of a tree to nothing, which frees no inode."""
    for folder, _, names in os.walk(tree):
        for name in names:
            path = os.path.join(folder, name)  # noqa: PTH118 - there are many
            status = os.lstat(path)
            if status.st_size >= LARGE and not (shared and status.st_nlink > 1):
                os.chmod(path, 0o600)  # noqa: PTH101 - some caches make files read-only
                os.truncate(path, 0)


def kind_of(folder: Path) -> str:
    """Return the name of the file system a folder lies on."""
    best, kind = "", "unknown"
    place = str(folder.resolve())
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mounted, name, *_ = line.split(" ")
        inside = place == mounted or place.startswith(mounted.rstrip("/") + "/")
        if inside and len(mounted) >= len(best):
            best, kind = mounted, name
    return kind


# --- one run ------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """What one run of a command cost."""

    seconds: float
    """From its start to its end."""
    processor: float
    """Seconds of processor time of all its processes."""
    others: float
    """Seconds of processor time that went to neither the command nor the server."""
    memory: int
    """The most bytes of memory that all its processes had at one moment."""
    written: int
    """Bytes that it made the kernel write to a disk; 0 where there is none."""
    kept: int
    """Bytes by which the file system became fuller."""
    sent: int = 0
    """Bytes that the server sent."""
    requests: int = 0
    """How many requests the server got."""

    @property
    def is_disturbed(self) -> bool:
        """Whether other work on the machine may have slowed it down."""
        return self.others > max(0.1, 0.15 * self.seconds)


def run(
    command: list[str], scratch: Scratch, environ: dict[str, str], *, server: int | None = None
) -> Run:
    """Run a command to its end and measure it.

    :param server: number of the process that answers it, which does not count as other work.
    """
    os.sync()  # what was written before must not be written while this runs
    used = scratch.used
    watched = [pid for pid in (server, os.getpid()) if pid is not None]
    before, ours = busy(), sum(map(processor_of, watched))
    log = scratch.folder / "log"
    with log.open("wb") as output:
        begin = time.perf_counter()
        child = subprocess.Popen(
            command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environ
        )
        watch = Watch(child.pid)
        watch.start()
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - begin
    child.returncode = os.waitstatus_to_exitcode(status)
    watch.over.set()
    watch.join()
    processor = usage.ru_utime + usage.ru_stime
    others = busy() - before - processor - (sum(map(processor_of, watched)) - ours)
    if child.returncode:
        text = log.read_text(errors="replace")
        sys.exit(f"{' '.join(command)} ended with {child.returncode}:\n{text}")
    return Run(
        seconds=seconds,
        processor=processor,
        others=max(0.0, others),
        # Of what is over too soon to be looked at, the kernel knows it (but not below our own).
        memory=watch.peak or usage.ru_maxrss << 10,
        written=usage.ru_oublock * SECTOR,
        kept=max(0, scratch.used - used),
    )


class Watch(threading.Thread):
    """Look at the memory of a process and its children some forty times a second."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self.over = threading.Event()
        self.peak = 0

    def run(self) -> None:
        """Look until it is over."""
        while not self.over.wait(0.025):
            tree = processes(self._pid)
            # One process says itself what it had at most; of several it is the sum of now.
            most = [peak_memory(pid) for pid in tree]
            self.peak = max(self.peak, sum(map(resident, tree)), *most, 0)


def processes(pid: int) -> list[int]:
    """Return a process and all its children."""
    pids = [pid]
    for child in pids:
        try:
            for thread in Path(f"/proc/{child}/task").iterdir():
                pids += map(int, (thread / "children").read_text().split())
        except OSError:
            continue
    return pids


def resident(pid: int) -> int:
    """Return how many bytes of memory a process has."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except OSError:
        return 0


def busy() -> float:
    """Return the seconds for which processors were busy, all together."""
    first = Path("/proc/stat").read_text().splitlines()[0]
    user, nice, system, _, _, irq, softirq, steal, *_ = map(int, first.split()[1:])
    return (user + nice + system + irq + softirq + steal) / TICK


def processor_of(pid: int) -> float:
    """Return the processor time of a process in seconds."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICK


# --- many runs ----------------------------------------------------------------------


@dataclass
class Runs:
    """All runs of one tool in one scenario, in the order of the rounds."""

    runs: list[Run] = field(default_factory=list)

    @property
    def calm(self) -> list[Run]:
        """The runs that nobody disturbed; all of them if those are fewer than three."""
        calm = [run for run in self.runs if not run.is_disturbed]
        return calm if len(calm) >= 3 else self.runs

    def median(self, what: str) -> float:
        """Return the median of a figure over the calm runs."""
        return float(statistics.median(getattr(run, what) for run in self.calm))

    def as_json(self) -> list[dict[str, float]]:
        """Return every run."""
        return [asdict(run) for run in self.runs]


def ratio(ours: Runs, theirs: Runs) -> tuple[float, float, float]:
    """Return the median of the ratios of each round, the smallest and the largest.

    Over all rounds that both took part in, disturbed or not: what disturbs a machine for
    longer than a run disturbs both tools of a round.
    """
    pairs = [
        one.seconds / other.seconds for one, other in zip(ours.runs, theirs.runs, strict=False)
    ]
    return statistics.median(pairs), min(pairs), max(pairs)


def copy_tree(source: Path, target: Path) -> None:
    """Copy a tree with its links among themselves, times and modes."""
    subprocess.run(["cp", "-a", "--reflink=auto", source, target], check=True)


def remove(folder: Path) -> None:
    """Delete a folder and everything in it."""
    shutil.rmtree(folder, ignore_errors=True)
