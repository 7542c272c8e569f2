"""The progress of transfers: the class ``Progress``, from which progress bars derive."""

from __future__ import annotations


class Progress:
    """A receiver of the progress of one transfer; this base class ignores it.

    The calls come in the order ``start``, any number of ``advance``, from any thread, ``done``. A
    transfer that must start again calls ``start`` again. A failed transfer never calls ``done``.
    """

    def start(self, total: int | None) -> None:
        """Begin, or begin again.

        :param total: bytes to come; None if unknown.
        """

    def copying(self) -> None:
        """Report, before ``start``, that the file is on this machine and is copied."""

    def set_full_size(self, size: int) -> None:
        """Set, after ``start``, the bytes of a file of which only a part is transferred."""

    def advance(self, count: int) -> None:
        """Count bytes received since the last call."""

    def done(self) -> None:
        """Report that the transfer is complete."""

    def unpacking(self, total: int) -> Progress:  # noqa: ARG002
        """Return the progress of unpacking the file, which may go on at the same time.

        :param total: bytes that will be unpacked.
        """
        return NO_PROGRESS


NO_PROGRESS = Progress()
"""The default of every transfer."""
