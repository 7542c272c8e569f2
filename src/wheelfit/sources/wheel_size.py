"""How large a wheel is, found out without fetching it."""

from __future__ import annotations

from msgspec import Struct


class FileSize(Struct, frozen=True):
    """The size of a wheel, as far as it is known."""

    file: int | None
    """Bytes of the file; None where neither index nor server says it."""
    unpacked: int | None = None
    """Bytes of all files inside; None where nobody asked, or nobody can tell."""
    is_here: bool = False
    """Whether nothing need be fetched: it is kept in the cache, or lies in a folder."""
    why_unknown: str = ""
    """Why something that was asked for is not known, in words; empty if all is."""

    @property
    def download(self) -> int | None:
        """Bytes that an installation would fetch."""
        return 0 if self.is_here else self.file
