"""Progress of transfers and installations: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol, Self

from wheelfit.core.durations import duration_in_words
from wheelfit.core.sizes import size_in_words
from wheelfit.operations.context import WheelProgress
from wheelfit.sources.progress import Progress
from wheelfit_runtime.wording import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from rich.progress import Progress as RichProgress
    from rich.progress import ProgressColumn, TaskID


class Screen(Protocol):
    """The terminal on which bars are drawn."""

    @property
    def animate(self) -> bool:
        """Whether bars can be drawn; otherwise each transfer gets a line."""

    @property
    def error_colour(self) -> bool:
        """Whether bars are coloured."""

    def note(self, text: str) -> None:
        """Print a dimmed line."""

    def summary(self, text: str) -> None:
        """Print a summary of the transfers."""


def start_bars(screen: Screen, *columns: ProgressColumn) -> RichProgress:
    """Start drawing on the terminal; rich is imported only then."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    bars = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        *columns,
        console=Console(stderr=True, no_color=not screen.error_colour),
        transient=True,
        redirect_stdout=False,  # results do not pass through rich; remarks are printed above bars
    )
    bars.start()
    return bars


_PAUSE = 0.05
"""Seconds between two movements of a bar; faster ones would not be visible."""
_BAR_DELAY = 0.3
"""Seconds before a wheel gets a bar of its own: a shorter one could not be read."""


class Cancelled(Exception):
    """Raised when another transfer failed, so this one is cancelled."""


class Bars:
    """A context manager that draws a bar for each transfer.

    Without a terminal, each finished transfer is one line instead. Rich is imported only when a bar
    is really drawn.

    :param screen: decides whether to draw.
    :param cancel: aborts transfers in progress, even from a server that sends nothing.
    """

    def __init__(self, screen: Screen, cancel: Callable[[], None] = lambda: None) -> None:
        self._screen = screen
        self._cancel = cancel
        self._rich: RichProgress | None = None
        self._cancelled = threading.Event()

    def __enter__(self) -> Self:
        if self._screen.animate:
            from rich.progress import DownloadColumn, TimeRemainingColumn, TransferSpeedColumn

            columns = (DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
            self._rich = start_bars(self._screen, *columns)
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

    def transfer(self, name: str, verb: str = "downloaded", *, is_sum: bool = False) -> Transfer:
        """Return the progress of one transfer (it implements ``sources.progress.Progress``).

        :param verb: the verb of the plain line at the end; empty for none.
        :param is_sum: whether it stands for several files; then the line at the end is printed
            even where bars are drawn.
        """
        return Transfer(_Bar(self._rich, name, self._check), verb, self._screen, is_sum=is_sum)

    def wheels(self, sizes: Iterable[int | None]) -> Wheels:
        """Return the progress of several wheels that are fetched and unpacked."""
        return Wheels(self._rich, self._screen, self._check, list(sizes))

    def cancel(self) -> None:
        """Stop every transfer: at its next report of progress, or by aborting it."""
        self._cancelled.set()
        self._cancel()

    def _check(self) -> None:
        if self._cancelled.is_set():
            raise Cancelled


class _Bar:
    """A count of bytes that is drawn as a bar.

    :param rich: draws the bar; None counts only.
    :param what: the text before the bar.
    :param check: raises if the transfers were cancelled.
    :param delay: seconds in which no bar is drawn yet.
    """

    def __init__(
        self, rich: RichProgress | None, what: str, check: Callable[[], None], delay: float = 0.0
    ) -> None:
        self.what = what
        """The text before the bar."""
        self.count = 0
        """Bytes so far."""
        self._rich = rich
        self._check = check
        self._total: int | None = None
        self._task: TaskID | None = None
        self._next_drawing = time.monotonic() + delay
        self._lock = threading.Lock()

    @property
    def draws(self) -> bool:
        """Whether anything is drawn."""
        return self._rich is not None

    def start(self, total: int | None, count: int = 0, what: str | None = None) -> None:
        """Start, or start again."""
        with self._lock:
            self.what = what or self.what
            self._total, self.count = total, count
            if self._rich is not None and self._task is not None:
                self._rich.reset(self._task, total=total, completed=count, description=self.what)

    def advance(self, count: int) -> None:
        """Add received bytes.

        :raises Cancelled: another transfer failed.
        """
        self._check()
        with self._lock:
            self.count += count
            now = time.monotonic()
            if self._rich is None or now < self._next_drawing:
                return
            self._next_drawing = now + _PAUSE
            if self._task is None:
                self._task = self._rich.add_task(self.what, total=self._total)
            self._rich.update(self._task, completed=self.count)

    def resize(self, total: int, what: str) -> None:
        """Update the total, and the text before the bar."""
        with self._lock:
            self._total, self.what = total, what
            if self._rich is not None and self._task is not None:
                self._rich.update(self._task, total=total, description=what)

    def end(self) -> None:
        """Remove the bar."""
        with self._lock:
            if self._rich is not None and self._task is not None:
                self._rich.remove_task(self._task)
            self._task, self._rich = None, None


class Transfer(Progress):
    """The progress of one transfer."""

    def __init__(self, bar: _Bar, verb: str, screen: Screen, *, is_sum: bool = False) -> None:
        self._bar = bar
        self._verb = verb
        self._screen = screen
        self._prints_line = bool(verb) and (is_sum or not bar.draws)

    def copying(self) -> None:
        """Call the file copied in the line at the end."""
        self._verb = "copied"

    def start(self, total: int | None) -> None:
        """Start, or start again."""
        self._bar.start(total)

    def advance(self, count: int) -> None:
        """Add bytes.

        :raises Cancelled: another transfer failed.
        """
        self._bar.advance(count)

    def done(self) -> None:
        """Finish: remove the bar and print a line."""
        self._bar.end()
        if self._prints_line and self._bar.count:
            size = size_in_words(self._bar.count)
            self._screen.note(f"  {self._verb} {self._bar.what} ({size})")


class Wheels:
    """The progress of several wheels: one bar for all, and one for each that takes a while.

    :param rich: draws the bars; None draws nothing.
    :param screen: gets a line for each finished wheel, where nothing is drawn.
    :param check: raises if the transfers were cancelled.
    :param sizes: bytes of each, as far as they are known.
    """

    def __init__(
        self,
        rich: RichProgress | None,
        screen: Screen,
        check: Callable[[], None],
        sizes: list[int | None],
    ) -> None:
        self._rich = rich
        self._screen = screen
        self._check = check
        self._expected = len(sizes)
        self._finished = self._fetched = self._size = 0
        self._started = time.monotonic()
        self._total = sum(size or 0 for size in sizes)
        self._lock = threading.Lock()
        # One bar is enough for one wheel.
        self._sum = _Bar(rich if self._expected > 1 else None, self._text(), check)
        self._sum.start(self._total)

    def wheel(self, name: str, size: int | None) -> _Wheel:
        """Return the progress of one wheel (it implements ``sources.progress.Progress``).

        :param size: its bytes, if they are known.
        """
        bar = _Bar(self._rich, name, self._check, _BAR_DELAY if self._expected > 1 else 0.0)
        return _Wheel(self, bar, size or 0)

    def resize(self, count: int) -> None:
        """Add bytes to the total; a negative count where there are fewer than expected."""
        with self._lock:
            self._total += count
            self._sum.resize(self._total, self._text())

    def advance(self, count: int) -> None:
        """Add received bytes."""
        self._sum.advance(count)

    def end_wheel(self, what: str, count: int, seconds: float, full_size: int = 0) -> None:
        """Count a finished wheel.

        :param full_size: bytes of the whole wheel, if only a part was downloaded; else 0.
        """
        with self._lock:
            self._finished += 1
            self._sum.resize(self._total, self._text())
            self._fetched += bool(count)
            self._size += count
            is_last = self._finished == self._expected
            if is_last:
                self._sum.end()
        if self._rich is None and count:
            size = size_in_words(count) + (f" of {size_in_words(full_size)}" if full_size else "")
            # One build in exchange for another: only what differs was downloaded.
            verb = "exchanged" if full_size else "downloaded"
            self._screen.note(f"  {verb} {what}: {size} in {duration_in_words(seconds)}")
        if is_last and self._fetched:
            wheels = f"{count_of(self._fetched, 'wheel')} ({size_in_words(self._size)})"
            seconds = time.monotonic() - self._started
            self._screen.summary(f"Downloaded {wheels} in {duration_in_words(seconds)}")

    def _text(self) -> str:
        return f"{self._finished} of {self._expected} wheels"


class _Wheel(WheelProgress):
    """The progress of one wheel until it is unpacked."""

    def __init__(self, wheels: Wheels, bar: _Bar, size: int) -> None:
        self._wheels = wheels
        self._bar = bar
        self._what = bar.what
        self._size = size
        self._started = time.monotonic()
        self._fetched = self._full_size = 0
        self._is_fetched = False
        self._unpacking: _Unpacking | None = None

    def start(self, total: int | None) -> None:
        """Start, or start again."""
        new_size = total or 0
        wasted_count = self._bar.count  # bytes of a failed attempt, which are downloaded once more
        self._wheels.resize(new_size - self._size + wasted_count)
        self._size = new_size
        self._full_size = 0
        self._is_fetched = False
        self._bar.start(total)

    def set_full_size(self, size: int) -> None:
        """Record the size of a partly fetched file."""
        self._full_size = size

    def advance(self, count: int) -> None:
        """Add bytes.

        :raises Cancelled: another transfer failed.
        """
        self._bar.advance(count)
        self._wheels.advance(count)

    def done(self) -> None:
        """Show the unpacking, since all bytes have arrived."""
        self._fetched = self._bar.count
        self._is_fetched = True
        if self._unpacking is not None:
            self._show_unpacking(self._unpacking)

    def unpacking(self, total: int) -> _Unpacking:
        """Return the progress of unpacking; it is shown once all bytes have arrived."""
        self._unpacking = _Unpacking(self, total)
        if self._is_fetched:
            self._show_unpacking(self._unpacking)
        return self._unpacking

    def unpacked(self, count: int) -> None:
        """Add unpacked bytes."""
        if self._is_fetched:
            self._bar.advance(count)

    def _show_unpacking(self, unpacking: _Unpacking) -> None:
        self._bar.start(unpacking.total, unpacking.count, f"unpacking {self._what}")

    def end(self) -> None:
        """Finish the wheel in the progress of all."""
        self._bar.end()
        if not self._fetched:  # it was cached
            self._wheels.resize(-self._size)
        seconds = time.monotonic() - self._started
        self._wheels.end_wheel(self._what, self._fetched, seconds, self._full_size)


class _Unpacking(Progress):
    """The progress of unpacking one wheel."""

    def __init__(self, wheel: _Wheel, total: int) -> None:
        self._wheel = wheel
        self.total = total
        """Bytes of all files together."""
        self.count = 0
        """Bytes unpacked so far."""

    def advance(self, count: int) -> None:
        """Add bytes."""
        self.count += count
        self._wheel.unpacked(count)


class Bar(Progress):
    """A progress bar on a terminal: a ``sources.progress.Progress``.

    :param screen: decides whether to draw.
    :param what: the label of the bar.
    """

    def __init__(self, screen: Screen, what: str) -> None:
        self._screen = screen
        self._what = what
        self._rich: RichProgress | None = None
        self._line: TaskID | None = None

    def __enter__(self) -> Progress:
        if self._screen.animate:
            from rich.progress import TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.percentage:>3.0f}%"), TimeRemainingColumn())
            self._rich = start_bars(self._screen, *columns)
        return self

    def __exit__(self, *_: object) -> None:
        if self._rich is not None:
            self._rich.stop()

    def start(self, total: int | None) -> None:
        """Start the bar."""
        if self._rich is not None:
            self._line = self._rich.add_task(self._what, total=total)

    def advance(self, count: int) -> None:
        """Advance the bar."""
        if self._rich is not None and self._line is not None:
            self._rich.advance(self._line, count)
