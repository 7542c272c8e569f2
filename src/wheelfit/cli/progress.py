"""Progress of transfers and installations: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Self

from wheelfit.core.sizes import size_in_words

if TYPE_CHECKING:
    from types import TracebackType

    from rich.progress import Progress as RichProgress
    from rich.progress import ProgressColumn, TaskID

    from wheelfit.cli.output import Output

__all__ = ["Bars", "Cancelled", "Transfer", "start_bars"]


def __dir__() -> list[str]:
    return __all__


def start_bars(output: Output, *columns: ProgressColumn) -> RichProgress:
    """Start drawing on the terminal; rich is imported only then.

    :param output: decides about colour.
    :param columns: what stands behind each bar.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    bars = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        *columns,
        console=Console(stderr=True, no_color=not output.error_colour),
        transient=True,
        # Results never end up among the bars; remarks stand above them.
        redirect_stdout=False,
    )
    bars.start()
    return bars


_PAUSE = 0.05
"""Seconds between two movements of a bar; bytes come more often than anybody can see."""


class Cancelled(Exception):
    """Somebody else failed, so this transfer is not wanted any more."""


class Bars:
    """Draw a bar for each transfer while the block runs.

    Where nothing can be drawn, each finished transfer is one line instead. Rich is imported only
    when a bar is really drawn.

    :param output: decides whether to draw.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._rich: RichProgress | None = None
        self._cancelled = threading.Event()

    def __enter__(self) -> Self:
        if self._output.animate:
            from rich.progress import DownloadColumn, TimeRemainingColumn, TransferSpeedColumn

            columns = (DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
            self._rich = start_bars(self._output, *columns)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._rich is not None:
            self._rich.stop()
            self._rich = None

    def transfer(self, what: str, verb: str = "downloaded", *, is_sum: bool = False) -> Transfer:
        """Return what follows one transfer (it implements ``sources.progress.Progress``).

        :param what: name of the file.
        :param verb: what has happened to it at the end, for the plain line.
        :param is_sum: whether it is told at the end where bars are drawn, too.
        """
        return Transfer(what, verb, self._output, self._rich, self._cancelled, is_sum=is_sum)

    def cancel(self) -> None:
        """End every transfer at its next sign of life."""
        self._cancelled.set()


class Transfer:
    """Follow one transfer."""

    def __init__(
        self,
        what: str,
        verb: str,
        output: Output,
        rich: RichProgress | None,
        cancelled: threading.Event,
        *,
        is_sum: bool = False,
    ) -> None:
        self._what = what
        self._is_sum = is_sum
        self._verb = verb
        self._output = output
        self._rich = rich
        self._cancelled = cancelled
        self._task: TaskID | None = None
        self._count = 0
        self._unseen = 0
        self._drawn = 0.0
        self._lock = threading.Lock()

    def start(self, total: int | None) -> None:
        """Begin, or begin anew."""
        self._count = self._unseen = 0
        if self._rich is not None:
            if self._task is None:
                self._task = self._rich.add_task(self._what, total=total)
            else:
                self._rich.reset(self._task, total=total)

    def advance(self, count: int) -> None:
        """Add bytes.

        :raises Cancelled: they are not wanted any more.
        """
        if self._cancelled.is_set():
            raise Cancelled
        with self._lock:
            self._count += count
            self._unseen += count
            now = time.monotonic()
            if self._rich is None or self._task is None or now - self._drawn < _PAUSE:
                return
            unseen, self._unseen, self._drawn = self._unseen, 0, now
        self._rich.advance(self._task, unseen)

    def done(self) -> None:
        """End well: the bar goes away, a line says what happened."""
        if self._rich is not None and self._task is not None:
            self._rich.remove_task(self._task)
            self._task = None
        if (self._rich is None or self._is_sum) and self._count:
            self._output.say(f"  {self._verb} {self._what} ({size_in_words(self._count)})", "dim")
