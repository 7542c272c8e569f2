"""The files about plugins: those trusted by the user, and those allowed by the site.

The user's is written by ``wheelfit providers``, and may be edited. Only an administrator can write
the site's. Neither is read from the current folder.
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.core.trust import NO_POLICY, NO_TRUST, SitePolicy, Trust
from wheelfit.errors import EnvironmentBusy, reporting_os_errors
from wheelfit.operations.user_folders import VARIABLE as CONFIGURATION_VARIABLE
from wheelfit.operations.user_folders import configuration_file, refuse_pipe, site_folder
from wheelfit_runtime.errors import FileProblem, InvalidConfiguration, PolicyRefusal, os_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

TRUST_VARIABLE = "WHEELFIT_PROVIDERS_FILE"
"""Names another file than ``providers.toml`` of the user; ``/dev/null`` for no file."""
POLICY_VARIABLE = "WHEELFIT_POLICY_FILE"
"""Names a further policy, which can only forbid more."""

_MAX_SIZE = 4 << 20
"""The largest size of a file, in bytes; a larger one is refused."""
_LOCK_TIMEOUT = 30.0
"""Seconds to wait for another process that changes the file."""


def trust_file(environ: Mapping[str, str], platform: str, home: Path) -> Path:
    """Return the path of the user's trust file, whether it exists or not.

    :param platform: as ``sys.platform``.
    """
    if named := environ.get(TRUST_VARIABLE):
        return Path(named)
    others = {name: value for name, value in environ.items() if name != CONFIGURATION_VARIABLE}
    return configuration_file(others, platform, home).with_name("providers.toml")


def read_trust_file(path: Path, note: Callable[[str], None] = lambda _text: None) -> Trust:
    """Return the plugins trusted by the user; none where there is no file.

    :param note: called with the reason why a file of another user is ignored.
    :raises InvalidConfiguration: it cannot be read, is invalid, or others can write to it.
    """
    try:
        data, status = _read(path)
    except (FileNotFoundError, NotADirectoryError):
        return NO_TRUST
    except OSError as error:
        raise InvalidConfiguration(
            f"the file of trusted plugins cannot be read: {os_reason(error)}",
            where=str(path),
            hint="make it readable, or set HOME to a folder of your own",
        ) from None
    if not data:
        return NO_TRUST
    if stat.S_ISREG(status.st_mode) and hasattr(os, "geteuid"):
        if status.st_uid not in (0, os.geteuid()):
            note(f"{path} belongs to another user, so it is ignored")
            return NO_TRUST
        if status.st_mode & 0o022:
            raise InvalidConfiguration(
                "others can write to the file of trusted plugins",
                where=str(path),
                hint=f"check what it trusts, then run: chmod go-w {path}",
            )
    from wheelfit.core.trust_files import read_trust

    return read_trust(data, str(path))


def change_trust(path: Path, change: Callable[[Trust], Trust]) -> Trust:
    """Change the user's trust file; concurrent changes are made in turn.

    :param path: the file; it and its folder are created if missing.
    :param change: returns the new value for the one in the file.
    :raises InvalidConfiguration: the present file cannot be read or is invalid.
    :raises FileProblem: the file cannot be written.
    :raises EnvironmentBusy: another process has been changing it for 30 seconds.
    """
    from wheelfit.core.trust_files import format_trust
    from wheelfit.wheels.atomic_write import write_file

    path = Path(os.path.realpath(path))  # settings are often links into a folder that is synced
    if path.exists() and not path.is_file():
        raise FileProblem(
            "the path of trusted plugins is not a file",
            where=str(path),
            hint=f"see {TRUST_VARIABLE}",
        )
    with reporting_os_errors("the file of trusted plugins cannot be written", where=str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path):
            before = read_trust_file(path)
            after = change(before)
            if after != before:
                write_file(path, format_trust(after).encode(), private=True)
            return after


def policy_file(platform: str) -> Path:
    """Return the path of the site's policy, which no variable of a user changes.

    :param platform: as ``sys.platform``.
    """
    return site_folder(platform) / "policy.toml"


def read_policies(environ: Mapping[str, str], system: Path | None = None) -> SitePolicy:
    """Read the policies in force.

    :param environ: the environment of the process; ``WHEELFIT_POLICY_FILE`` is respected.
    :param system: the path of the site's policy; default: that of this system.
    :raises PolicyRefusal: ``unusable-policy``; one of them cannot be read, or is invalid.
    """
    paths = [(policy_file(sys.platform) if system is None else system, False)]
    if named := environ.get(POLICY_VARIABLE):
        paths.append((Path(named), True))
    files = []
    for path, must_exist in paths:
        try:
            data, status = _read(path)
            # A policy grants trust to all users only if root alone can write it.
            grants = not must_exist and _only_root_can_write(status, path.parent)
        except OSError as error:
            is_absent = isinstance(error, FileNotFoundError | NotADirectoryError)
            if is_absent and not must_exist and not _is_dangling_link(path):
                continue
            raise PolicyRefusal(
                f"the policy cannot be read: {os_reason(error)}",
                code="unusable-policy",
                where=str(path),
                hint=f"it is named by {POLICY_VARIABLE}"
                if must_exist
                else "nothing is done while it cannot be read; ask its author to correct it",
            ) from None
        from wheelfit.core.trust_files import read_policy

        files.append(read_policy(data, str(path), grants_trust=grants))
    return SitePolicy(tuple(files)) if files else NO_POLICY


def _read(path: Path) -> tuple[bytes, os.stat_result]:
    """Return the content of a file, and its ownership.

    :raises OSError: it cannot be read, or is a pipe.
    """
    refuse_pipe(path)
    with path.open("rb") as file:
        return file.read(_MAX_SIZE + 1), os.fstat(file.fileno())


def _is_dangling_link(path: Path) -> bool:
    """Return whether a file or its folder is a dangling link."""
    return any(link.is_symlink() and not link.exists() for link in (path, path.parent))


def _only_root_can_write(file: os.stat_result, folder: Path) -> bool:
    if sys.platform == "win32":  # by default any user may make a folder there
        return False
    return all(
        status.st_uid == 0 and not status.st_mode & 0o022 for status in (file, folder.stat())
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    lock = FileLock(path.with_name(f".{path.name}.lock"), timeout=_LOCK_TIMEOUT, poll_interval=0.05)
    try:
        lock.acquire()
    except Timeout:
        raise EnvironmentBusy(
            f"another process is changing the file (waited {_LOCK_TIMEOUT:g} s)",
            where=str(path),
            hint="try again when it has finished",
        ) from None
    try:
        yield
    finally:
        lock.release()
