"""Write the files a user names: whole, or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from wheelfit.errors import FileProblem

__all__ = ["write_atomically"]


def __dir__() -> list[str]:
    return __all__


def write_atomically(name: str, data: bytes) -> None:
    """Put data into a file; a failure leaves the old content.

    :param name: path of the file; its folder must exist.
    :raises FileProblem: it cannot be written.
    """
    path = Path(name)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            # A temporary file is private; what the user asked for is an ordinary file.
            os.umask(mask := os.umask(0))
            Path(temporary).chmod(0o666 & ~mask)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise FileProblem(f"the file cannot be written: {error.strerror}", where=name) from None
