"""The time that the steps of an operation take, for summaries and reports."""

from __future__ import annotations

from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct, field

from wheelfit.core.durations import duration_in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wheelfit.operations.context import Reporter


class StepDurations(Struct):
    """The seconds that each step of an operation took, summed if a step is repeated."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, step: str) -> Iterator[None]:
        """Measure the length of a ``with`` block.

        :param step: its name in reports, such as ``resolve``.
        """
        start = monotonic()
        try:
            yield
        finally:
            self.seconds[step] = self.seconds.get(step, 0.0) + monotonic() - start

    def report(self, words: str, step: str, reporter: Reporter) -> None:
        """Report the result of a step, with its duration.

        :param words: as ``Resolved 3 packages``.
        """
        reporter.summary(f"{words} in {duration_in_words(self.seconds[step])}")

    def to_json(self) -> dict[str, float]:
        """Return the seconds of each step."""
        return {step: round(seconds, 3) for step, seconds in self.seconds.items()}
