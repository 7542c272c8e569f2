"""The cache folder, and the rules for trusting one.

A user who can write to a cache controls the files installed and run from it. So one rule holds for
the cache folder, for every folder in it that is looked up by name, and for the library store: it
belongs to this user or to root, and no other user can write to it. The content of a folder that
breaks the rule is neither read nor changed.
"""

# Imported at every start of a program with shared libraries, so it imports as little as possible.
# ruff: noqa: PTH111, PTH116, PTH117, PTH118

from __future__ import annotations

import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


def default_cache_folder(environ: Mapping[str, str], home: str, platform: str) -> str:
    """Return the default cache folder.

    :param environ: ``WHEELFIT_CACHE_DIR`` overrides the system's folder of caches.
    """
    configured = environ.get("WHEELFIT_CACHE_DIR")
    if configured:
        return configured
    names = ("Cache", "Library/Caches", "XDG_CACHE_HOME", ".cache")
    return _folder_for(environ, home, platform, names)


def _folder_for(
    environ: Mapping[str, str], home: str, platform: str, names: tuple[str, str, str, str]
) -> str:
    """Return a folder of wheelfit.

    :param names: its name on Windows; its parent on macOS; the variable with its parent on other
        systems, and the default of that variable.
    """
    windows, macos, variable, default_parent = names
    if platform == "win32":
        local = environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
        return os.path.join(local, "wheelfit", windows)
    if platform == "darwin":
        return os.path.join(home, macos, "wheelfit")
    base = environ.get(variable, "")
    # The XDG specification requires that relative paths are ignored.
    return os.path.join(
        base if base.startswith("/") else os.path.join(home, default_parent), "wheelfit"
    )


def cache_folder_of(environ: Mapping[str, str]) -> str:
    """Return the cache folder of this user on this system, as an absolute path."""
    return os.path.abspath(default_cache_folder(environ, _home(environ), sys.platform))  # noqa: PTH100


def _home(environ: Mapping[str, str]) -> str:
    home = environ.get("HOME") if sys.platform != "win32" else None
    home = home or os.path.expanduser("~")
    # A container may run as a user without a home.
    return home if os.path.isabs(home) else "/nonexistent"


def default_state_folder(environ: Mapping[str, str], home: str, platform: str) -> str:
    """Return the folder for data that, unlike a cache, cannot be recreated."""
    names = ("State", "Library/Application Support", "XDG_STATE_HOME", ".local/state")
    return _folder_for(environ, home, platform, names)


def state_folder_of(environ: Mapping[str, str]) -> str:
    """Return the state folder of this user on this system, as an absolute path."""
    return os.path.abspath(default_state_folder(environ, _home(environ), sys.platform))  # noqa: PTH100


class UnsafeFolder:
    """A folder that another user may have changed, or can change at any moment.

    :param reason: the fault, as a clause about it.
    :param remedy: the remedy for the user, as an imperative.
    :param is_open: whether others than its owner can write to it.
    """

    def __init__(self, path: str, reason: str, remedy: str, *, is_open: bool = False) -> None:
        self.path = path
        self.reason = reason
        self.remedy = remedy
        self.is_open = is_open

    def __str__(self) -> str:
        return f"{self.path} is not used, as {self.reason}; {self.remedy}"


def own_users() -> frozenset[int]:
    """Return the ids of the users whose files are trusted: this user and root.

    On systems without user ids, every file has that of root.
    """
    return frozenset((0, os.geteuid())) if os.name == "posix" else frozenset((0,))


def is_own(status: os.stat_result) -> bool:
    """Return whether a file or folder belongs to this user or to root."""
    return status.st_uid in own_users()


def unsafe_folder(
    path: str,
    *,
    group_may_write: bool = False,
    any_owner: bool = False,
    link_allowed: bool = False,
) -> UnsafeFolder | None:
    """Return the fault of a cache folder; None if it is safe or missing.

    A group counts as another user, unless it is the private group that many systems give every
    user: named like the user, without another member.

    :param group_may_write: whether other users of its group may write to it.
    :param any_owner: whether it may belong to any user.
    :param link_allowed: whether it may be a link of this user to a folder elsewhere.
    """
    if os.name != "posix":
        return None
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            if not link_allowed:
                return UnsafeFolder(path, "it is a link", f"remove it: rm {_quoted(path)}")
            # A link of another user is not followed: its maker could choose the folder.
            if any_owner or is_own(status):
                status = os.stat(path)
    except OSError:
        return None  # opening it reports the reason
    if not (any_owner or is_own(status)):
        user = os.geteuid()
        if user == 0:
            return UnsafeFolder(
                path, "it belongs to another user", "with sudo, use sudo -H or --no-cache-dir"
            )
        return UnsafeFolder(
            path,
            "it belongs to another user",
            f"name a folder of your own with --cache-dir, or make this one yours if you trust what "
            f"is in it: sudo chown -R {user} {_quoted(path)}",
        )
    if not stat.S_ISDIR(status.st_mode):
        return None
    write_bits = status.st_mode & 0o022
    if write_bits & 0o020 and (group_may_write or _is_private_group(path, status)):
        write_bits &= ~0o020
    if write_bits:
        return UnsafeFolder(
            path,
            "others can write to it",
            f"close it (chmod go-w {_quoted(path)}) and delete what they may have put there, or "
            "name another folder with --cache-dir",
            is_open=True,
        )
    return None


def _is_private_group(path: str, status: os.stat_result) -> bool:
    """Return whether only this user is in the group of a folder, as far as the system knows."""
    if status.st_uid == 0 or status.st_uid != os.geteuid():
        return False
    import grp
    import pwd

    try:
        if "system.posix_acl_access" in os.listxattr(path):
            return False  # the group bits then limit every user in the access list
    except (OSError, AttributeError):
        pass  # a file system or a system without access lists
    try:
        name = pwd.getpwuid(status.st_uid).pw_name
        group = grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    return group.gr_name == name and set(group.gr_mem) <= {name}


def _quoted(path: str) -> str:
    import shlex

    return shlex.quote(path)


def unsafe_cache_folder(folder: str) -> UnsafeFolder | None:
    """Return the reason a cache folder may not be used; None if it may."""
    unsafe = unsafe_folder(folder, link_allowed=True)
    if unsafe is not None or os.name != "posix" or os.geteuid() != 0:
        return unsafe
    # Root leaves no files in a folder of another user, who could not remove them.
    existing = os.path.abspath(folder)  # noqa: PTH100
    while not os.path.exists(existing):  # noqa: PTH110
        existing = os.path.dirname(existing)  # noqa: PTH120
    if os.stat(existing).st_uid == 0:
        return None
    return UnsafeFolder(folder, f"{existing} belongs to another user", "with sudo, use sudo -H")


def make_folders(path: str) -> None:
    """Create a folder and its missing parents, each for this user alone, whatever the umask is."""
    if os.path.isdir(path):  # noqa: PTH112
        return
    parent = os.path.dirname(path)  # noqa: PTH120
    if parent and parent != path:
        make_folders(parent)
    try:
        os.mkdir(path, 0o700)  # noqa: PTH102
    except FileExistsError:
        if not os.path.isdir(path):  # noqa: PTH112
            raise


def usable_cache_folder(folder: Path | None, note: Callable[[str], None]) -> Path | None:
    """Return the cache folder; None if another user could change its content.

    :param folder: the configured folder; None: no cache.
    """
    unsafe = None if folder is None else unsafe_cache_folder(str(folder))
    if unsafe is None:
        return folder
    note(f"the cache {unsafe}")
    return None
