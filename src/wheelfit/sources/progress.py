"""The progress of transfers: the protocol ``Progress``, which progress bars implement."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A receiver of the progress of one transfer.

    The calls come in the order ``start``, any number of ``advance``, from any thread, ``done``. A
    transfer that must start again calls ``start`` again. A failed transfer never calls ``done``.
    """

    def start(self, total: int | None) -> None:
        """Begin, or begin again.

        :param total: bytes to come; None if unknown.
        """

    def set_full_size(self, size: int) -> None:
        """Set, after ``start``, the bytes of a file of which only a part is transferred."""

    def advance(self, count: int) -> None:
        """Count bytes received since the last call."""

    def done(self) -> None:
        """Report that the transfer is complete."""

    def unpacking(self, total: int) -> Progress:
        """Return the progress of unpacking the file, which may go on at the same time.

        :param total: bytes that will be unpacked.
        """


class NoProgress:
    """A receiver that ignores progress."""

    def start(self, total: int | None) -> None:
        """Do nothing."""

    def set_full_size(self, size: int) -> None:
        """Do nothing."""

    def advance(self, count: int) -> None:
        """Do nothing."""

    def done(self) -> None:
        """Do nothing."""

    def unpacking(self, total: int) -> Progress:  # noqa: ARG002
        """Return this receiver."""
        return self


NO_PROGRESS = NoProgress()
"""The default of every transfer."""
