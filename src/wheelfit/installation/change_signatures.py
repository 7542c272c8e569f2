"""Signatures by which wheelfit recognises files it wrote into an environment itself.

What lies in an environment may have come with a clone or an archive, or from another user. The
secret that signatures are made with lies in the folder of the user's state, where no other user can
read it, so no other user can forge a change of this user.
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

_FILE: Final = "secret"
_BYTES: Final = 32


class Signer:
    """The signatures that are made with one secret.

    Where no secret can be stored, as without a home folder, a random one serves until the process
    ends: changes are made and undone as usual, but after a kill no process recognises them.

    :param folder: the folder of the secret, which is created on first use. None: no secret is
        stored.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self.flaw: str | None = None
        """Why no secret is stored, as a sentence; None before it is needed, and where one is."""

    def of(self, *parts: str | bytes | int) -> str:
        """Return the signature of some values, as text."""
        import hmac

        signing = hmac.new(self._secret, digestmod="sha256")
        for part in parts:
            data = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
            signing.update(b"%d:" % len(data) + data)
        return signing.hexdigest()

    def is_of(self, signature: str, *parts: str | bytes | int) -> bool:
        """Return whether a signature is that of some values."""
        import hmac

        return hmac.compare_digest(signature.encode("utf-8", "replace"), self.of(*parts).encode())

    @cached_property
    def _secret(self) -> bytes:
        if self._folder is None:
            self.flaw = "there is no folder in which a secret could be kept"
            return os.urandom(_BYTES)
        from wheelfit.wheels.rooted_folder import RootedFolder

        try:
            try:
                opened = RootedFolder(self._folder)
            except FileNotFoundError:
                _make(self._folder)
                opened = RootedFolder(self._folder)
            with opened as folder:
                return self._kept(folder) or os.urandom(_BYTES)
        except OSError as error:
            self.flaw = f"no secret can be kept in {self._folder}: {error.strerror}"
        return os.urandom(_BYTES)

    def _kept(self, folder: RootedFolder) -> bytes | None:
        """Return the stored secret, or store a new one; None if others could know it."""
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


OF_THIS_PROCESS: Final = Signer(None)
"""The signatures of this process, which no other one recognises."""


def _make(folder: Path) -> None:
    """Create the folder, but not as root in a folder of another user."""
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
    """Write a new secret; its file is complete from when it has its name."""
    temporary = f".{os.urandom(8).hex()}.part"
    folder.write(temporary, os.urandom(_BYTES), 0o600)
    try:
        folder.sync_file(temporary)
        folder.move(temporary, _FILE)
        folder.sync_folder()
    except FileExistsError:  # of another process, a moment ago
        folder.remove_file(temporary)


def _why_not(status: os.stat_result, others: int) -> str | None:
    """Return the reason a file or folder cannot be trusted; None if it can.

    :param others: the permissions that only its owner may have.
    """
    if not hasattr(os, "geteuid"):
        return None
    if status.st_uid != os.geteuid():
        return "belongs to another user"
    if stat.S_IMODE(status.st_mode) & others:
        return "is open to others"
    return None
