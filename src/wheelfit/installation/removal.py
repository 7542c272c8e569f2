"""The plan of a removal: the files to remove with a distribution.

RECORD lists them (PEP 376), but it came with a wheel or was edited since, and a row may lead
anywhere. So each row is checked: files of the environment itself, and files that another
distribution also records, stay (GHSA-pjjw-68hj-v9mw), and a row for a file outside the folders of
the environment is an error. Nothing is removed here.

Paths are plain strings in this module: there may be tens of thousands of them.
"""

from __future__ import annotations

import csv
import io
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from wheelfit.errors import NotRemovable
from wheelfit.installation.environment_folders import LOCK_FILE, WORKPLACE, is_below
from wheelfit.installation.steps import FolderListing
from wheelfit.wheels.file_system import NATIVE
from wheelfit.wheels.paths import fold_name
from wheelfit.wheels.record import parse_record
from wheelfit.wheels.reserved_files import (
    why_reserved_below_prefix,
    why_reserved_beside_library,
    why_reserved_in_prefix,
    why_reserved_in_scripts,
)
from wheelfit_runtime.errors import InvalidWheel, os_reason
from wheelfit_runtime.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.installation.environment import Environment
    from wheelfit.installation.installed import Installed
    from wheelfit.installation.steps import FolderReader

_BYTECODE = pattern(r"(.+?)\.[^.]+(?:\.opt-\d+)?\.pyc")
# The folder of a row that names a file below the library folder, without ``..`` and the like.
_DIRECT_FOLDER = pattern(r"(?:[^/\\.][^/\\]*/)*")
_INDIRECT_NAMES = frozenset({"", ".", ".."})
_METADATA_SUFFIXES = (".dist-info", ".egg-info")
_OUTSIDE = "it lies outside the environment"
# Installers that cannot remove distributions without RECORD either.
_UNHELPFUL_INSTALLERS = frozenset({"", "pip", "wheelfit"})
_IN_WORKPLACE = "it is where changes of the environment are prepared"


class Removal(NamedTuple):
    """The files to remove with one distribution."""

    name: NormalizedName
    files: Mapping[str, Collection[str]]
    """Names of existing files and links to remove, by folder (absolute path)."""
    notes: tuple[str, ...] = ()
    """The files that stay, with the reasons, one sentence each."""


def recorded_files(installed: Installed) -> tuple[str, ...]:
    """Return the files that the RECORD of a distribution lists, as absolute paths without ``..``.

    :raises InvalidWheel: its RECORD cannot be read.
    """
    return files_in_record(installed.path / "RECORD", installed.path)


_Folders: TypeAlias = "dict[str, dict[str, None]]"
"""The names in each folder, each once and in their order; folders are absolute."""


def files_in_record(record: Path, dist_info: Path) -> tuple[str, ...]:
    """Return the files that a RECORD file lists, as absolute paths without ``..``.

    :param record: the file; a missing one names nothing.
    :param dist_info: the folder that its rows are relative to; RECORD may lie elsewhere.
    """
    folders = _folders_in_record(record, dist_info)
    return tuple(f"{folder}{os.sep}{name}" for folder, names in folders.items() for name in names)


def _folders_in_record(record: Path, dist_info: Path) -> _Folders:
    """Return the result of `files_in_record` by folder, resolving each folder once."""
    try:
        data = record.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise InvalidWheel(
            f"RECORD cannot be read: {os_reason(error)}", where=str(record)
        ) from None
    names_by_prefix: dict[str, list[str]] = {}
    previous, names = "", names_by_prefix.setdefault("", [])
    for path in _rows(data, str(record)):
        name_start = path.rfind("/") + 1
        prefix = path[:name_start]
        if prefix != previous:  # the rows of a folder mostly follow each other
            previous, names = prefix, names_by_prefix.setdefault(prefix, [])
        names.append(path[name_start:])
    location = str(dist_info.parent)
    folders: _Folders = {}
    for prefix, names in names_by_prefix.items():
        if os.sep == "/" and _DIRECT_FOLDER.fullmatch(prefix) and _INDIRECT_NAMES.isdisjoint(names):
            folder = f"{location}/{prefix}".rstrip("/")
            folders.setdefault(folder, {}).update(dict.fromkeys(names))
        else:
            for name in names:
                # Joining with an absolute row gives that row.
                path = os.path.abspath(os.path.join(location, prefix + name))  # noqa: PTH100, PTH118
                folder, _, name = path.rpartition(os.sep)  # noqa: PLW2901  # without `..`
                folders.setdefault(folder, {})[name] = None
    return folders


def _rows(data: bytes, where: str) -> list[str]:
    """Return the paths in a RECORD; faster than `parse_record` if RECORD has no faults."""
    with suppress(UnicodeDecodeError, csv.Error):
        text = data.decode()
        if '"' in text or "\r" in text:
            rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
            paths = [row[0] for row in rows if len(row) == 3]
            count = len(rows)
        else:
            lines = [line for line in text.split("\n") if line]
            paths = [line[: line.index(",")] for line in lines if line.count(",") == 2]
            count = len(lines)
        if len(paths) == count and all(paths):
            return paths
    return [row.path for row in parse_record(data, where=where).rows]


def plan_removal(
    installed: Installed,
    environment: Environment,
    others: Iterable[Installed],
    real: RealPaths,
    read_folder: FolderReader,
) -> Removal:
    """Return the files to remove with a distribution.

    :param others: the distributions that stay; files that they record too are not removed.
    :param real: resolves links; like `read_folder` shared by the removals of a plan.
    :raises NotRemovable: it has no readable RECORD, or one that leads out of the environment, or is
        in a folder that this environment only reads.
    """
    check_removable(installed, environment)
    try:
        recorded = _folders_in_record(installed.path / "RECORD", installed.path)
    except InvalidWheel as error:
        raise NotRemovable(
            f"{installed} cannot be removed: {error.message}",
            where=error.where,
            hint=_replacement_hint(installed),
        ) from None
    # On file systems that ignore case, another distribution may have the file in another spelling.
    key = str if NATIVE.is_case_sensitive(installed.location) else fold_name
    shared = _shared_with_others(recorded, others, real, key)
    rules = OwnershipRules(environment, own=installed.path, real=real)
    files: dict[str, set[str]] = {}
    notes = []
    # Tools add files to dist-info without recording them.
    for folder, _, filenames in os.walk(installed.path):
        if filenames:
            recorded.setdefault(folder, {}).update(dict.fromkeys(filenames))
    for folder, names in recorded.items():
        is_free = rules.accepts_any_name(folder)
        shared_names = shared.get(key(real.folder(folder)), set())
        listing = read_folder(folder) or FolderListing()
        staying = set()
        # Without restrictions no name needs a check of its own.
        for name in () if is_free and not shared_names else names:
            path = f"{folder}{os.sep}{name}"
            reason = None if is_free else rules.reason_against(path)
            if reason is None and key(name) in shared_names:
                reason = "another distribution has it too"
            if reason is _OUTSIDE and os.path.lexists(path):
                # Skipping such a row would hide other faults of this RECORD.
                raise NotRemovable(
                    f"{installed} cannot be removed: its RECORD lists {path}, which lies outside "
                    "the environment",
                    where=str(installed.path / "RECORD"),
                    hint="nothing was changed; delete that row from RECORD, and the file yourself "
                    "if it belongs to the package",
                )
            if reason is not None:
                staying.add(name)
                notes.append(
                    f"RECORD lists {path}, which lies outside the environment and does not exist"
                    if reason is _OUTSIDE
                    else f"{path} stays: {reason}"
                )
        removed = files.setdefault(folder, set())
        if not staying and names.keys() <= listing.files.keys():
            removed.update(names)
        else:
            removable = names.keys() - staying
            removed |= removable & listing.files.keys()
            # On file systems that ignore case, a file may be listed in another case.
            unlisted = removable - listing.files.keys() - listing.folders
            removed |= {name for name in unlisted if _is_file_or_link(f"{folder}{os.sep}{name}")}
        if "__pycache__" in listing.folders:
            cache = f"{folder}{os.sep}__pycache__"
            files.setdefault(cache, set()).update(
                _bytecode_names(read_folder(cache) or FolderListing(), names.keys() - staying)
            )
    return Removal(installed.name, files, tuple(notes))


def check_removable(installed: Installed, environment: Environment) -> None:
    """Check that a distribution can be removed, without reading its files.

    :raises NotRemovable: it has no RECORD, or is in a folder that this environment only reads.
    """
    if installed.outside:
        raise NotRemovable(
            f"{installed} is visible in this environment, but installed in another one",
            where=str(installed.path),
            hint=f"this environment is {environment.name}",
        )
    if installed.legacy:
        raise NotRemovable(
            f"{installed} was installed by a tool that did not record its files",
            where=str(installed.path),
            hint="remove it with the tool that installed it",
        )
    if not (installed.path / "RECORD").is_file():
        installer = installed.installer
        raise NotRemovable(
            f"{installed} has no RECORD, so its files are unknown",
            where=str(installed.path),
            note=f"it was installed by {installer}" if installer else None,
            hint=_replacement_hint(installed)
            if installer in _UNHELPFUL_INSTALLERS
            else f"remove it with {installer}",
        )


def how_to_replace(dist_info: str, project: str) -> str:
    """Return how to replace a package whose files are unknown, as a clause.

    :param dist_info: the name of its ``.dist-info`` folder.
    """
    return f"delete the folder {dist_info}, then `wheelfit install --replace-files {project}`"


def _replacement_hint(installed: Installed) -> str:
    return f"{how_to_replace(installed.path.name, installed.name)} installs it over its files"


def _is_file_or_link(path: str) -> bool:
    try:
        return not stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def is_real_folder(path: str) -> bool:
    """Return whether a path is that of a folder, not of a link to one."""
    return os.path.isdir(path) and not os.path.islink(path)  # noqa: PTH112, PTH114


class RealPaths:
    """Paths with their links followed; each folder is resolved once."""

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}
        self._resolved: dict[str, str] = {}
        self._missing: set[str] = set()

    def of(self, path: str) -> str:
        """Return a path with the links among its folders followed; it may be a link itself."""
        folder, _, name = path.rpartition(os.sep)
        return f"{self.folder(folder)}{os.sep}{name}"

    def resolved(self, path: Path) -> str:
        """Return any path with all links followed."""
        text = str(path)
        if text not in self._resolved:
            self._resolved[text] = os.path.realpath(text)
        return self._resolved[text]

    def folder(self, folder: str) -> str:
        """Return a folder with all links followed, as `os.path.realpath` does."""
        if folder not in self._folders:
            parent, _, name = folder.rpartition(os.sep)
            # On Windows there are also short names and junctions to resolve.
            if parent and os.sep == "/" and not self._is_link(folder, parent):
                self._folders[folder] = f"{self.folder(parent).rstrip(os.sep)}{os.sep}{name}"
            else:
                self._folders[folder] = os.path.realpath(folder)
        return self._folders[folder]

    def _is_link(self, folder: str, parent: str) -> bool:
        if parent not in self._missing:
            try:
                return stat.S_ISLNK(os.lstat(folder).st_mode)
            except FileNotFoundError:
                pass
            except (OSError, ValueError):  # as for a name with a zero byte
                return False
        self._missing.add(folder)  # nothing below it exists either
        return False


def _shared_with_others(
    recorded: _Folders, others: Iterable[Installed], real: RealPaths, key: Callable[[str], str]
) -> Mapping[str, set[str]]:
    """Return the names of files that others record too, by folder with links followed.

    :param key: returns a name or path as it is compared, also for the result.
    """
    own_files: dict[str, set[str]] = {}
    shared: dict[str, set[str]] = {}
    for other in others:
        if not own_files:
            for folder, names in recorded.items():
                own_files.setdefault(key(real.folder(folder)), set()).update(map(key, names))
        try:
            other_files = _folders_in_record(other.path / "RECORD", other.path)
        except InvalidWheel:
            continue  # its files are unknown
        for folder, names in other_files.items():
            real_folder = key(real.folder(folder))
            own_names = own_files.get(real_folder)
            if own_names and (common_names := own_names.intersection(map(key, names))):
                shared.setdefault(real_folder, set()).update(common_names)
    return shared


class OwnershipRules:
    """The rules on files that a distribution may own; each folder is judged once.

    :param own: the dist-info folder of the distribution.
    """

    def __init__(self, environment: Environment, own: Path, real: RealPaths) -> None:
        self._real = real
        self._verdicts: dict[str, str | None] = {}
        self._restricted: set[str] = set()
        resolved = real.resolved
        self._library_prefix = resolved(own.parent) + os.sep
        self._dist_info = (
            os.path.realpath(own) if own.is_symlink() else self._library_prefix + own.name
        )
        schemes = environment.schemes
        roots = dict.fromkeys(map(resolved, schemes.folders().values()))
        # One `startswith` for all of them: it is called for thousands of folders.
        self._root_prefixes = tuple(map(_folder_prefix, roots))
        self._libraries = tuple(
            _folder_prefix(resolved(library)) for library in schemes.libraries()
        )
        self._scripts = resolved(schemes.scripts)
        self._prefixes = {resolved(environment.interpreter.prefix), resolved(schemes.data)}
        self._stdlib = _folder_prefix(resolved(environment.stdlib))
        self._above_stdlib = resolved(environment.stdlib.parent)
        self._restricted_folders = {
            self._library_prefix.removesuffix(os.sep),
            *self._prefixes,
            self._scripts,
            self._above_stdlib,
        }

    def reason_against(self, path: str) -> str | None:
        """Return the reason a file cannot belong to the distribution; None if it can."""
        folder, name = os.path.split(path)
        if self.accepts_any_name(folder) or self._verdicts[folder] is not None:
            return self._verdicts[folder]
        real_folder = self._real.folder(folder)
        if (
            name.lower().endswith(_METADATA_SUFFIXES)
            and real_folder + os.sep == self._library_prefix
        ):
            return "it is a record of another distribution"
        reason = None
        if real_folder == self._scripts:
            reason = why_reserved_in_scripts(name)
        if reason is None and real_folder in self._prefixes:
            reason = why_reserved_in_prefix(name)
        if reason is None and real_folder == self._above_stdlib:
            reason = why_reserved_beside_library(name)
        if reason is not None:
            return reason
        if name.casefold() in {LOCK_FILE, WORKPLACE}:
            return _IN_WORKPLACE
        return None

    def accepts_any_name(self, folder: str) -> bool:
        """Return whether files of any name may be in a folder."""
        if folder not in self._verdicts:
            self._verdicts[folder] = self._why_not_in(folder)
            if self._real.folder(folder) in self._restricted_folders:
                self._restricted.add(folder)
        return self._verdicts[folder] is None and folder not in self._restricted

    def _why_not_in(self, folder: str) -> str | None:
        """Return the reason no file in a folder can belong to the distribution; None if one can."""
        # The file itself may be a link to anywhere, since only the link is removed; but its folder
        # must be in the environment.
        real_folder = self._real.folder(folder)
        folder_prefix = real_folder + os.sep
        if not folder_prefix.startswith(self._root_prefixes):
            return _OUTSIDE
        # The files of a change in progress.
        if f"{os.sep}{WORKPLACE}{os.sep}" in f"{real_folder}{os.sep}".casefold():
            return _IN_WORKPLACE
        # Deeper dist-info folders are vendored copies of other projects.
        if real_folder.startswith(self._library_prefix) and not is_below(
            real_folder, self._dist_info
        ):
            top_folder = real_folder[len(self._library_prefix) :].partition(os.sep)[0]
            if top_folder.lower().endswith(_METADATA_SUFFIXES):  # Python looks for them in any case
                return "it is a record of another distribution"
        if folder_prefix.startswith(self._stdlib) and not folder_prefix.startswith(self._libraries):
            return "it belongs to the standard library"
        for prefix in map(_folder_prefix, self._prefixes):
            if folder_prefix.startswith(prefix):
                relative_path = real_folder[len(prefix) :].replace(os.sep, "/")
                if (reason := why_reserved_below_prefix(relative_path)) is not None:
                    return reason
        return None


def _folder_prefix(root: str) -> str:
    """Return the common prefix of all paths below a folder: it ends with a separator."""
    # Without the separator /env-other would be below /env (GHSA-6vgw-5pg2-w6jp).
    return root.rstrip(os.sep) + os.sep


def _bytecode_names(cache: FolderListing, names: Collection[str]) -> list[str]:
    """Return the bytecode files of modules in a listing of their ``__pycache__``.

    :param names: files of the folder above; modules are those ending in ``.py``.
    """
    stems = {name.removesuffix(".py") for name in names if name.endswith(".py")}
    bytecode = []
    for name in cache.files:
        match = _BYTECODE.fullmatch(name)
        if match is not None and match[1] in stems:
            bytecode.append(name)
    return bytecode
