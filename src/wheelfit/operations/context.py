"""The context of an operation: environment variables, and the receiver of its progress."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

from wheelfit.sources.progress import NO_PROGRESS, Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class WheelProgress(Progress):
    """The progress of one wheel until it is unpacked."""

    def end(self) -> None:
        """Finish: the wheel is unpacked."""


class WheelsProgress(Protocol):
    """The progress of several wheels that are fetched and unpacked."""

    def wheel(self, name: str, size: int | None) -> WheelProgress:
        """Return the progress of one wheel.

        :param size: bytes; None where unknown.
        """


class Transfers(Protocol):
    """The progress of transfers that take place at the same time."""

    def transfer(self, name: str, verb: str = "downloaded", *, is_sum: bool = False) -> Progress:
        """Return the progress of one transfer.

        :param is_sum: whether it stands for several files together.
        """

    def wheels(self, sizes: Iterable[int | None]) -> WheelsProgress:
        """Return the progress of several wheels."""

    def cancel(self) -> None:
        """Stop every transfer at its next report of progress."""


class Reporter:
    """The receiver of remarks and progress of an operation; the base class is silent.

    Subclasses override the methods of interest. Progress may be reported from any thread.
    """

    def warn(self, text: str) -> None:
        """Report a warning."""

    def remark(self, text: str) -> None:
        """Report a remark about progress."""

    def summary(self, text: str) -> None:
        """Report a step's result, such as ``Resolved 3 packages in 0.2 s``; reports have it too."""

    def note(self, text: str) -> None:
        """Report a remark of less importance."""

    def detail(self, text: str) -> None:
        """Report a detail for verbose output."""

    def confirm(self, question: str) -> bool:  # noqa: ARG002 - for subclasses
        """Request confirmation by the user; return whether the answer was yes.

        :param question: a yes-or-no question of one or several lines.
        """
        return False

    @property
    def wants_details(self) -> bool:
        """Whether details, and the output of build backends, are of interest."""
        return False

    def transfers(self, cancel: Callable[[], None]) -> AbstractContextManager[Transfers]:
        """Return the progress of transfers for the length of a ``with`` block.

        :param cancel: aborts transfers in progress, even from a server that sends nothing.
        """
        return nullcontext(_SilentProgress(cancel))

    def steps(self, title: str) -> AbstractContextManager[Callable[[str], None]]:  # noqa: ARG002
        """Return a function that takes each step of work, in words, for a ``with`` block.

        :param title: the work, in words, until its first step.
        """
        return nullcontext(lambda _step: None)

    def work(self, title: str) -> AbstractContextManager[Progress]:  # noqa: ARG002
        """Return the progress of work for the length of a ``with`` block."""
        return nullcontext(NO_PROGRESS)


class Context:
    """The environment variables and the reporter of an operation.

    :param environ: environment variables; default: a copy of those of this process. Nothing else of
        this package reads them.
    :param reporter: receives remarks and progress; default: `Reporter`, which is silent.
    """

    __slots__ = ("environ", "reporter")

    def __init__(
        self, environ: Mapping[str, str] | None = None, reporter: Reporter | None = None
    ) -> None:
        self.environ: Mapping[str, str] = dict(os.environ) if environ is None else environ
        self.reporter = Reporter() if reporter is None else reporter


class _SilentProgress(WheelProgress):
    """The progress of transfers, of wheels and of one wheel that is not shown."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self.cancel = cancel

    def transfer(self, name: str, verb: str = "", *, is_sum: bool = False) -> Progress:  # noqa: ARG002
        return self

    def wheels(self, sizes: Iterable[int | None]) -> WheelsProgress:  # noqa: ARG002
        return self

    def wheel(self, name: str, size: int | None) -> WheelProgress:  # noqa: ARG002
        return self
