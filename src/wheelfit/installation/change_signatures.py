"""Signatures by which wheelfit recognises files it wrote into an environment itself.

Files in an environment may come from a clone, an archive or another user. The secret for signatures
is in the state folder of the user, where no other user can read it, so no other user can forge a
change of this user.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final

from wheelfit_runtime.errors import os_reason

if TYPE_CHECKING:
    from pathlib import Path

    from wheelfit.wheels.rooted_folder import RootedFolder

_FILE: Final = "secret"
_BYTES: Final = 32


class Signer:
    """A signer with a secret of the user.

    If no secret can be stored, as without a home folder, a random one is used until the process
    ends: changes are made and undone as usual, but after a kill no other process recognises them.

    :param folder: the folder of the secret, created on first use; None: no secret is stored.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self.storage_problem: str | None = None
        """The reason no secret can be stored, as a sentence; None: one is, or not needed yet."""

    def of(self, *parts: str | bytes | int) -> str:
        """Return the signature of some values, as text."""
        import hmac

        digest = hmac.new(self._secret, digestmod="sha256")
        for part in parts:
            data = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
            digest.update(b"%d:" % len(data) + data)
        return digest.hexdigest()

    def is_of(self, signature: str, *parts: str | bytes | int) -> bool:
        """Return whether a signature is that of some values."""
        import hmac

        return hmac.compare_digest(signature.encode("utf-8", "replace"), self.of(*parts).encode())

    @cached_property
    def _secret(self) -> bytes:
        if self._folder is None:
            self.storage_problem = "there is no folder to store a secret in"
            return os.urandom(_BYTES)
        from wheelfit.wheels.rooted_folder import RootedFolder

        try:
            try:
                opened = RootedFolder(self._folder)
            except FileNotFoundError:
                _create(self._folder)
                opened = RootedFolder(self._folder)
            with opened as folder:
                return self._stored_secret(folder) or os.urandom(_BYTES)
        except OSError as error:
            self.storage_problem = f"no secret can be stored in {self._folder}: {os_reason(error)}"
        return os.urandom(_BYTES)

    def _stored_secret(self, folder: RootedFolder) -> bytes | None:
        """Return the stored secret, or store a new one; None if others can read or replace it."""
        if (reason := _flaw_of(folder.lstat(), 0o022)) is not None:
            self.storage_problem = f"{folder.path} {reason}"
            return None
        if not folder.exists(_FILE):
            _store_new(folder)
        if (reason := _flaw_of(folder.lstat(_FILE), 0o077)) is not None:
            self.storage_problem = f"{folder.path_of(_FILE)} {reason}"
            return None
        data = folder.read(_FILE, _BYTES + 1)
        if len(data) != _BYTES:
            self.storage_problem = f"{folder.path_of(_FILE)} is damaged; delete it"
            return None
        return data


OF_THIS_PROCESS: Final = Signer(None)
"""A signer whose signatures only this process recognises."""


def _create(folder: Path) -> None:
    """Create the folder, but not as root in a folder of another user."""
    from wheelfit.wheels.atomic_write import sync_to_disk

    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if hasattr(os, "geteuid") and nearest.stat().st_uid not in {os.geteuid(), 0}:
        raise PermissionError(0, f"{nearest} belongs to another user", str(nearest))
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        sync_to_disk(path.parent)


def _store_new(folder: RootedFolder) -> None:
    """Write a new secret under a temporary name, and rename the complete file."""
    temporary = f".{os.urandom(8).hex()}.part"
    folder.write(temporary, os.urandom(_BYTES), 0o600)
    try:
        folder.sync_file(temporary)
        folder.move(temporary, _FILE)
        folder.sync_folder("")
    except FileExistsError:  # another process has just stored one
        folder.remove_file(temporary)


def _flaw_of(status: os.stat_result, forbidden_bits: int) -> str | None:
    """Return the reason a file or folder cannot be trusted; None if it can.

    :param forbidden_bits: the permission bits that must not be set.
    """
    if not hasattr(os, "geteuid"):
        return None
    if status.st_uid != os.geteuid():
        return "belongs to another user"
    if stat.S_IMODE(status.st_mode) & forbidden_bits:
        return "is open to others"
    return None
