"""Hand a checked wheel to PyPA's ``installer``; every byte is verified as it passes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO, cast

from installer.sources import WheelSource

from wheelfit.errors import InvalidWheel
from wheelfit.wheels.entry_points import format_commands
from wheelfit.wheels.record import StreamHash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from installer.sources import WheelContentElement

    from wheelfit.install.checked_wheel import CheckedWheel
    from wheelfit.wheels.record import RecordRow

__all__ = ["CheckedSource"]


def __dir__() -> list[str]:
    return __all__


class CheckedSource(WheelSource):
    """Give the members of a wheel, METADATA already free of variant markers.

    Of WHEEL and ``entry_points.txt`` the installer reads only what has been understood
    before, so that there are no two readings of them.
    """

    def __init__(self, wheel: CheckedWheel) -> None:
        super().__init__(distribution=wheel.pin.name, version=str(wheel.pin.version))
        self._wheel = wheel

    @property
    def dist_info_dir(self) -> str:
        """Name of the ``.dist-info`` folder."""
        return self._wheel.dist_info

    @property
    def data_dir(self) -> str:
        """Name of the ``.data`` folder."""
        return self._wheel.data

    @property
    def dist_info_filenames(self) -> list[str]:
        """Names of the files in ``.dist-info`` that decide what the installer does."""
        return ["WHEEL", "entry_points.txt"] if self._wheel.commands else ["WHEEL"]

    def read_dist_info(self, filename: str) -> str:
        """Return one of them."""
        if filename == "entry_points.txt":
            return format_commands(self._wheel.commands)
        pure = "true" if self._wheel.root == "purelib" else "false"
        return f"Wheel-Version: 1.0\nRoot-Is-Purelib: {pure}\n"

    def get_contents(self) -> Iterator[WheelContentElement]:
        """Yield each member to install: its row of RECORD, content, and executable bit.

        :raises InvalidWheel: while a content is read, if it is not what RECORD promises.
        """
        archive = self._wheel.archive
        for part in self._wheel.parts:
            stream = _VerifiedStream(
                archive.chunks(part.member), part.row, self._wheel.pin.filename.text
            )
            if part.member == f"{self._wheel.dist_info}/METADATA":
                stream.drain()
                content: BinaryIO = io.BytesIO(self._wheel.metadata)
            else:
                content = cast("BinaryIO", stream)
            row = (part.row.path, part.row.hash, part.row.size)
            yield row, content, archive.is_executable(part.member)


class _VerifiedStream:
    """Read a member; complain at its end if it was not what RECORD promises."""

    def __init__(self, chunks: Iterator[bytes], row: RecordRow, where: str) -> None:
        self._chunks = chunks
        self._row = row
        self._where = where
        self._rest = b""
        self._seen = StreamHash(row.hash.partition("=")[0])
        self._ended = False

    def read(self, size: int = -1) -> bytes:
        """Read some bytes, at most ``size``; all that are left if it is negative."""
        if size < 0:
            return b"".join(iter(lambda: self.read(1 << 20), b""))
        if not self._rest:
            self._rest = self._next()
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    def drain(self) -> None:
        """Read to the end and forget."""
        while self.read(1 << 20):
            pass

    def _next(self) -> bytes:
        for chunk in self._chunks:
            if chunk:
                self._seen.update(chunk)
                if self._seen.size > int(self._row.size):
                    break
                return chunk
        if not self._ended:
            self._ended = True
            found = self._seen.row(self._row.path)
            # Padding is not wanted but seen; nothing depends on it.
            if found.hash != self._row.hash.rstrip("=") or found.size != self._row.size:
                raise InvalidWheel(
                    f"{self._row.path} is not what RECORD of the wheel promises",
                    where=self._where,
                    note=f"RECORD says {self._row.hash}, {self._row.size} bytes\n"
                    f"found is    {found.hash}, {found.size} bytes",
                    hint="nothing was installed; the wheel was damaged or changed",
                )
        return b""
