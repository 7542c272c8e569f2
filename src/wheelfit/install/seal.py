"""A secret of the user, by which wheelfit knows again what it wrote itself.

What lies in an environment may have come with a clone or an archive, or from another user. Whether
wheelfit began a change there, for this user, nobody can tell who does not know the secret; it
lies in the folder of the user's state, where nobody else can read it.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from wheelfit.wheels.rooted_folder import RootedFolder

__all__ = ["OF_THIS_PROCESS", "Seal"]


def __dir__() -> list[str]:
    return __all__


_FILE: Final = "secret"
_BYTES: Final = 32


class Seal:
    """Sign what is written into environments, and recognise it.

    Where no secret can be kept, as without a home, one serves until the process ends: then
    changes are made and undone as ever, and one that was interrupted is known to nobody.

    :param folder: where the secret is kept, or will be; nothing is done before it is needed.
        None: nowhere.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self.flaw: str | None = None
        """Why no secret is kept, in words, once it was needed; None where one is."""

    def of(self, *parts: str | bytes | int) -> str:
        """Return the signature of some values, as text.

        :param parts: what is signed, in its order.
        """
        import hmac  # noqa: PLC0415 - start-up

        signing = hmac.new(self._secret, digestmod="sha256")
        for part in parts:
            data = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
            signing.update(b"%d:" % len(data) + data)
        return signing.hexdigest()

    def is_of(self, signature: str, *parts: str | bytes | int) -> bool:
        """Tell whether a signature is that of some values.

        :param signature: any text.
        :param parts: what should have been signed.
        """
        import hmac  # noqa: PLC0415 - start-up

        return hmac.compare_digest(signature.encode("utf-8", "replace"), self.of(*parts).encode())

    @cached_property
    def _secret(self) -> bytes:
        if self._folder is None:
            self.flaw = "there is no folder in which a secret could be kept"
            return os.urandom(_BYTES)
        from wheelfit.wheels.rooted_folder import RootedFolder  # noqa: PLC0415 - start-up

        try:
            _make(self._folder)
            with RootedFolder(self._folder) as folder:
                return self._kept(folder) or os.urandom(_BYTES)
        except OSError as error:
            self.flaw = f"no secret can be kept in {self._folder}: {error.strerror}"
        return os.urandom(_BYTES)

    def _kept(self, folder: RootedFolder) -> bytes | None:
        """Return the secret that is kept, or keep a new one."""
        if (reason := _why_not(folder.lstat(), 0o022)) is not None:
            self.flaw = f"{folder.path} {reason}"
            return None
        if not folder.exists(_FILE):
            _keep_new(folder)
        if (reason := _why_not(folder.lstat(_FILE), 0o077)) is not None:
            self.flaw = f"{folder.path_of(_FILE)} {reason}"
            return None
        data = folder.read(_FILE, _BYTES + 1)
        if len(data) != _BYTES:
            self.flaw = f"{folder.path_of(_FILE)} is not whole; delete it"
            return None
        return data


OF_THIS_PROCESS: Final = Seal(None)
"""Knows again what this very process wrote."""


def _make(folder: Path) -> None:
    """Make the folder, unless root would leave files in somebody else's."""
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if hasattr(os, "geteuid") and there.stat().st_uid not in {os.geteuid(), 0}:
        raise PermissionError(0, f"{there} belongs to another user", str(there))
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        with suppress(FileExistsError):
            each.mkdir(mode=0o700)
        _sync(each.parent)


def _sync(folder: Path) -> None:
    with suppress(OSError):  # Windows cannot open folders, and does not need it
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _keep_new(folder: RootedFolder) -> None:
    """Write a new secret, so that its name never stands for half of it."""
    temporary = f".{os.urandom(8).hex()}.part"
    folder.write(temporary, os.urandom(_BYTES), 0o600)
    try:
        folder.sync_file(temporary)
        folder.move(temporary, _FILE)
        folder.sync_folder()
    except FileExistsError:  # of another process, a moment ago
        folder.remove_file(temporary)


def _why_not(found: os.stat_result, others: int) -> str | None:
    """Say why a file or folder cannot be relied on; None if it can."""
    if not hasattr(os, "geteuid"):
        return None
    if found.st_uid != os.geteuid():
        return "belongs to another user"
    if stat.S_IMODE(found.st_mode) & others:
        return "is open to others"
    return None
