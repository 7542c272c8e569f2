"""Members of archives: written as a stream, and unpacked in every way."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable

from wheelfit.wheels.inflate import inflate, inflate_whole
from wheelfit.wheels.zip_directory import DEFLATED, Member
from wheelfit_runtime.errors import InvalidWheel


class Pipe(io.BytesIO):
    """A file of which nobody knows the position, as that of a pipe."""

    def tell(self) -> int:
        """Refuse."""
        raise OSError


def verdict(packed: bytes, content: bytes, *, method: int = DEFLATED, piece: int = 70_001) -> str:
    """Unpack a member that promises ``content``; return why it is refused, or nothing.

    In pieces and at once: both ways must come to the same end.
    """
    place = (zlib.crc32(content), len(packed), len(content), 0, 3, 0)
    member = Member("some/data", method, 0, 0, 0, *place)
    pieces = (packed[start : start + piece] for start in range(0, len(packed), piece))

    def told(way: Callable[[], bytes]) -> str:
        try:
            assert way() == content
        except InvalidWheel as error:
            return error.message
        return ""

    whole = told(lambda: inflate_whole(member, packed, where="some.whl"))
    apart = told(lambda: b"".join(inflate(member, pieces, where="some.whl")))
    assert whole == apart
    return apart
