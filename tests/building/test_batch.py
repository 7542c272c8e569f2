"""The same with many items, through executors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from pathlib import Path
from typing import Any

import pytest
from programs import until

from wheelfit.building.batch import Batch, Outcome, is_transient
from wheelfit.building.batch_record import WorkRecord, digest_of
from wheelfit.building.executors import open_workers
from wheelfit.errors import WorkerLost
from wheelfit.sources.progress import Progress
from wheelfit.testing.batch_items import BatchItem, run_item
from wheelfit_runtime.error_codes import Code
from wheelfit_runtime.errors import FileProblem, UnexpectedStatus, Unreachable, UserError


def numbers(outcomes: list[Outcome[BatchItem, Mapping[str, object]]]) -> list[object]:
    """Return the number that came of each, None where nothing did."""
    return [None if outcome.value is None else outcome.value["number"] for outcome in outcomes]


def here(
    errands: list[BatchItem], **options: Any
) -> list[Outcome[BatchItem, Mapping[str, object]]]:
    """Carry out errands in this process."""
    with open_workers() as workers:
        return Batch(
            run_item, errands, executor=workers.executor, pause=lambda _: None, **options
        ).run()


class Counting(Executor):
    """Work in threads, and remember how many items were under way at once."""

    def __init__(self, threads: int) -> None:
        self._inside = ThreadPoolExecutor(threads)
        self.under_way = 0
        self.most = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Begin one, and count it until its result is there."""
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        future = self._inside.submit(fn, *args, **kwargs)
        future.add_done_callback(self._one_less)
        return future

    def _one_less(self, _: Future[Any]) -> None:
        self.under_way -= 1


def test_results_come_in_the_order_of_the_items(tmp_path: Path) -> None:
    """Whoever is done first, results stand where their items do."""
    errands = [BatchItem(n, tmp_path, seconds=0.05 if n % 3 == 0 else 0) for n in range(12)]
    with ThreadPoolExecutor(4) as executor:
        outcomes = Batch(run_item, errands, executor=executor, workers=4).run()
    assert [outcome.item for outcome in outcomes] == errands
    assert numbers(outcomes) == list(range(12))
    assert {outcome.attempts for outcome in outcomes} == {1}
    assert outcomes[0].seconds >= 0.05


@pytest.mark.parametrize("batch", [1, 7])
def test_few_are_under_way_at_once(tmp_path: Path, batch: int) -> None:
    """However many items there are, only what workers need is sent to them."""
    executor = Counting(2)
    errands = [BatchItem(n, tmp_path) for n in range(300)]
    outcomes = Batch(run_item, errands, executor=executor, workers=2, batch_size=batch).run()
    assert numbers(outcomes) == list(range(300))
    assert 2 <= executor.most <= 4


def test_what_may_pass_is_tried_again(tmp_path: Path) -> None:
    """A disk that fails twice costs two attempts."""
    outcomes = here([BatchItem(0, tmp_path), BatchItem(1, tmp_path, "disk", times=2)])
    assert [(outcome.attempts, outcome.error) for outcome in outcomes] == [(1, None), (3, None)]


def test_what_does_not_pass_is_given_up(tmp_path: Path) -> None:
    """A disk that fails each time is the fault of its item after three attempts."""
    good, bad, after = here(
        [BatchItem(0, tmp_path), BatchItem(1, tmp_path, "disk"), BatchItem(2, tmp_path)]
    )
    assert (good.error, after.error) == (None, None)
    assert isinstance(bad.error, FileProblem)
    assert (bad.attempts, bad.error.message) == (3, "the disk failed")
    assert bad.error.where == str(tmp_path / "1.begun")


def test_wrong_input_is_tried_once(tmp_path: Path) -> None:
    """What is wrong with the input will be wrong again."""
    outcomes = here([BatchItem(0, tmp_path, "input"), BatchItem(1, tmp_path)])
    first = outcomes[0].error
    assert first is not None
    assert first.reference == "invalid-label"
    assert [outcome.attempts for outcome in outcomes] == [1, 1]


@pytest.mark.parametrize(
    ("fault", "code", "attempts", "words"),
    [
        ("bug", "work-failed", 1, "ZeroDivisionError"),
        ("unsendable", "work-failed", 1, "local object"),
        ("memory", "environment-unavailable", 3, "memory"),
    ],
)
def test_faults_of_ours(tmp_path: Path, fault: str, code: Code, attempts: int, words: str) -> None:
    """An error nobody thought of is the fault of one item too, and tells where it was."""
    bad, good = here([BatchItem(0, tmp_path, fault), BatchItem(1, tmp_path)])
    assert bad.error is not None
    assert bad.error.reference == code
    assert words in bad.error.message
    assert bad.error.where == "item 0"
    assert bad.attempts == attempts
    assert good.error is None
    if fault == "bug":
        assert "in run_item" in (bad.error.note or "")


@pytest.mark.integration
def test_a_killed_process_costs_its_items_an_attempt(tmp_path: Path) -> None:
    """The work goes on in new processes, and those that were beside it are done."""
    errands = [BatchItem(n, tmp_path, "killed" if n == 5 else "", times=1) for n in range(20)]
    with open_workers("processes", jobs=2) as workers:
        outcomes = Batch(run_item, errands, executor=workers.executor, workers=2).run()
    assert numbers(outcomes) == list(range(20))
    assert outcomes[5].attempts == 2
    assert max(outcome.attempts for outcome in outcomes) == 2


@pytest.mark.integration
def test_who_kills_every_process_is_found_out(tmp_path: Path) -> None:
    """An item that kills its process each time is given up, and takes no other along."""
    errands = [BatchItem(n, tmp_path, "killed" if n in (3, 4) else "") for n in range(20)]
    with open_workers("processes", jobs=2) as workers:
        outcomes = Batch(
            run_item, errands, executor=workers.executor, workers=2, batch_size=2
        ).run()
    assert [n for n, one in enumerate(outcomes) if one.error] == [3, 4]
    error = outcomes[3].error
    assert isinstance(error, WorkerLost)
    assert error.message == "the process that worked on it ended, 3 times"
    assert error.where == "item 3"
    # When 4 ends their process first, that is an attempt of 3 too, though it has not begun.
    assert (tmp_path / "3.begun").read_bytes() in (b"..", b"...")


def test_pool_that_forgets_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is submitted while the pool breaks ends, and so do earlier ones."""
    forgotten: list[Future[int]] = []

    def submit(pool: ProcessPoolExecutor, *_arguments: object) -> Future[int]:
        """Do as Python 3.11 does if a process ends at this moment."""
        forgotten.append(Future())
        pool._broken = len(forgotten) == 2
        return forgotten[-1]

    monkeypatch.setattr(ProcessPoolExecutor, "submit", submit)
    with open_workers("processes", jobs=2) as workers:
        futures = [workers.executor.submit(abs, -1) for _ in range(2)]
        errors = [future.exception(timeout=0) for future in futures]
    assert [type(error) for error in errors] == [BrokenExecutor, BrokenExecutor]


def test_processes_are_other_processes(tmp_path: Path) -> None:
    """With several jobs nothing is done in this process; with one, all is."""
    errands = [BatchItem(n, tmp_path) for n in range(4)]
    with open_workers(jobs=2) as workers:
        assert workers.description == "2 processes"
        there = Batch(run_item, errands, executor=workers.executor, workers=2).run()
    assert os.getpid() not in {one.value["process"] for one in there if one.value}
    assert {one.value["process"] for one in here(errands) if one.value} == {os.getpid()}


def test_progress_and_news(tmp_path: Path) -> None:
    """Each item counts what it weighs, once, failed or not, and is told of when it is done."""

    class Told(Progress):
        total: int | None = 0
        count = 0
        is_done = False

        def start(self, total: int | None) -> None:
            self.total = total

        def advance(self, count: int) -> None:
            self.count += count

        def done(self) -> None:
            self.is_done = True

    told, news = Told(), list[Outcome[BatchItem, Mapping[str, object]]]()
    errands = [BatchItem(n, tmp_path, "disk" if n == 1 else "") for n in range(4)]
    outcomes = here(
        errands, progress=told, size_of=lambda one: one.number + 1, on_outcome=news.append
    )
    assert (told.total, told.count, told.is_done) == (10, 10, True)
    assert sorted(news, key=lambda one: one.item.number) == outcomes
    assert news[-1].item.number == 1  # it was tried again when the others were done


def test_pauses_grow(tmp_path: Path) -> None:
    """Before something is tried again the disk gets time, and more each time."""
    pauses: list[float] = []
    with open_workers() as workers:
        errands = [BatchItem(0, tmp_path, "disk")]
        Batch(run_item, errands, executor=workers.executor, attempts=9, pause=pauses.append).run()
    assert pauses == [0.25, 0.5, 1, 2, 2, 2, 2, 2]


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (Unreachable("no answer"), True),
        (UnexpectedStatus("no", status=503), True),
        (UnexpectedStatus("no", status=404), False),
        (FileNotFoundError(2, "no such file"), False),
        (PermissionError(13, "not allowed"), False),
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (ValueError(), False),
        (UserError("no label", code="invalid-label"), False),
    ],
)
def test_what_may_pass(error: Exception, passes: bool) -> None:  # noqa: FBT001 - a table
    """Faults of networks and disks may pass, wrong input and missing files do not."""
    assert is_transient(error) is passes


def test_what_lies_behind_an_error_decides() -> None:
    """An error of ours passes if the one of the system that it tells of does."""
    for cause, passes in ((OSError(5, "I/O"), True), (OSError(2, "missing"), False)):
        error = FileProblem("the file cannot be read")
        error.__context__ = cause  # as `raise ... from None` leaves it
        assert is_transient(error) is passes


# --- going on where it was ended ------------------------------------------------------------


def _record(path: Path) -> WorkRecord[Path, str]:
    return WorkRecord(
        path,
        key=digest_of,
        to_data=lambda value: {"text": value},
        from_data=lambda data: str(data["text"]),
    )


def shout(path: Path) -> str:
    """Return the text of a file in capitals."""
    return path.read_text().upper()


class Shouting:
    """Shout files, with a record beside them."""

    def __init__(self, folder: Path) -> None:
        self.record = folder / "record"
        self.files = [folder / f"{n}.txt" for n in range(5)]
        for n, file in enumerate(self.files):
            file.write_text(f"text {n}")

    def __call__(self) -> str:
        """Shout all; return `k` for each that was kept and `d` for each that was done."""
        with _record(self.record) as record, open_workers() as workers:
            found = Batch(shout, self.files, executor=workers.executor, record=record).run()
        assert [one.value for one in found] == [shout(file) for file in self.files]
        return "".join("k" if one.is_from_record else "d" for one in found)


def test_done_once(tmp_path: Path) -> None:
    """What was done in an earlier run is kept; what has other content is done again."""
    work = Shouting(tmp_path)
    assert work() == "ddddd"
    assert work() == "kkkkk"
    work.files[2].write_text("other")
    assert work() == "kkdkk"
    assert work() == "kkkkk"


@pytest.mark.parametrize("kept", [7, 30, -7], ids=["begun", "half", "nearly whole"])
def test_ended_while_writing(tmp_path: Path, kept: int) -> None:
    """An incomplete line is what a killed process leaves: its item is done again, no more."""
    work = Shouting(tmp_path)
    work()
    lines = work.record.read_bytes().splitlines(keepends=True)
    work.record.write_bytes(b"".join([*lines[:-1], lines[-1][:kept]]))
    assert sorted(work()) == list("dkkkk")
    assert work() == "kkkkk"


@pytest.mark.parametrize("line", [b"no JSON", b"\xff", b"[]", b'{"key": []}', b'{"key": "a"}'])
def test_damaged_line(tmp_path: Path, line: bytes) -> None:
    """A damaged line is ignored, and its item is done again."""
    work = Shouting(tmp_path)
    work()
    lines = work.record.read_bytes().splitlines()
    work.record.write_bytes(b"\n".join([*lines[:2], line, *lines[3:], b""]))
    assert sorted(work()) == list("dkkkk")
    assert work() == "kkkkk"


def test_failures_are_not_kept(tmp_path: Path) -> None:
    """What failed is done again by the next run."""
    work = Shouting(tmp_path)
    work.files[1].unlink()
    with _record(work.record) as record, open_workers() as workers:
        found = Batch(shout, work.files, executor=workers.executor, record=record).run()
    assert [one.error is None for one in found] == [True, False, True, True, True]
    work.files[1].write_text("now")
    assert work() == "kdkkk"


def test_value_that_does_not_hold(tmp_path: Path) -> None:
    """A record that leads to nothing, as to a file that was removed, has its item done again."""
    work = Shouting(tmp_path)
    work()
    strict = WorkRecord[Path, str](
        work.record,
        key=digest_of,
        to_data=lambda value: {"text": value},
        from_data=lambda data: None if "3" in data["text"] else str(data["text"]),
    )
    with strict, open_workers() as workers:
        found = Batch(shout, work.files, executor=workers.executor, record=strict).run()
    assert [one.is_from_record for one in found] == [True, True, True, False, True]


# --- being interrupted -------------------------------------------------------------------------

PROGRAM = """
import sys
from pathlib import Path
from wheelfit.building.executors import open_workers
from wheelfit.building.batch import Batch
from wheelfit.testing.batch_items import write_slowly

if __name__ == "__main__":
    with open_workers("processes", jobs=2) as workers:
        items = [Path(sys.argv[1]) / f"{n}.txt" for n in range(6)]
        try:
            Batch(write_slowly, items, executor=workers.executor, workers=2).run()
        except KeyboardInterrupt:
            print("interrupted")
            raise SystemExit(130) from None
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of terminals")
@pytest.mark.parametrize("kill", [False, True], ids=["Ctrl-C", "killed"])
def test_interrupted(tmp_path: Path, kill: bool) -> None:  # noqa: FBT001 - a table
    """Ctrl-C, or the end of our process, ends the others, which take back what they write."""
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    program = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        until(lambda: len(list(tmp_path.glob("*.part"))) == 2)
        if kill:
            program.kill()
        else:
            os.killpg(program.pid, signal.SIGINT)  # as a terminal sends it, to all
        out, err = program.communicate(timeout=30)
    finally:
        program.kill()
    until(lambda: not list(tmp_path.glob("*.part")))
    assert not list(tmp_path.glob("*.txt"))
    if not kill:
        assert (program.returncode, out, err) == (130, "interrupted\n", "")
