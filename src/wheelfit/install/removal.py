"""Which files leave the environment when a distribution does; nothing is removed here.

RECORD decides (PEP 376), but it is only text that came with a wheel or was edited since.
A row may lead anywhere, so each is checked: what lies outside the folders of the
environment, belongs to the environment itself or is also recorded by another
distribution stays (GHSA-pjjw-68hj-v9mw).
"""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING

from wheelfit.errors import InvalidWheel, NotRemovable
from wheelfit.values import dataclass
from wheelfit.wheels.entry_points import is_interpreter_name
from wheelfit.wheels.record import parse_record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.install.environment import Environment
    from wheelfit.install.installed import Installed

__all__ = [
    "Bounds",
    "RealPaths",
    "Removal",
    "check_removable",
    "files_in_record",
    "plan_removal",
    "recorded_files",
]


def __dir__() -> list[str]:
    return __all__


_BYTECODE = re.compile(r"(.+?)\.[^.]+(?:\.opt-\d+)?\.pyc")
# What an interpreter reads beside itself, or above, before anything else.
_RECORDS = (".dist-info", ".egg-info")
_SETTINGS = re.compile(r"pyvenv\.cfg|.*\._pth", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Removal:
    """List what one distribution leaves behind when it goes."""

    name: NormalizedName
    """Its name."""
    files: tuple[str, ...]
    """Absolute paths of files and links to remove; they exist."""
    notes: tuple[str, ...] = ()
    """What stays and why, one sentence each."""


# Paths are plain strings in this module: there may be tens of thousands of them.


def recorded_files(installed: Installed) -> tuple[str, ...]:
    """Return the files that RECORD names, as absolute paths without ``..``.

    :param installed: any distribution; one without RECORD has no files.
    :raises InvalidWheel: its RECORD cannot be read.
    """
    return files_in_record(installed.path / "RECORD", installed.path)


def files_in_record(record: Path, dist_info: Path) -> tuple[str, ...]:
    """Return the files that a RECORD names, as absolute paths without ``..``.

    :param record: the file; one that is not there names nothing.
    :param dist_info: the folder that it lies in, or will or did.
    :raises InvalidWheel: it cannot be read.
    """
    try:
        data = record.read_bytes()
    except OSError:
        return ()
    location = str(dist_info.parent)
    # Joining with an absolute row gives that row.
    return tuple(
        os.path.abspath(os.path.join(location, row.path))  # noqa: PTH100, PTH118
        for row in parse_record(data, where=str(record)).rows
    )


def plan_removal(
    installed: Installed, environment: Environment, others: Iterable[Installed]
) -> Removal:
    """Find what goes with a distribution.

    :param installed: what is to be removed.
    :param environment: where it is installed.
    :param others: the distributions that stay.
    :raises NotRemovable: it has no RECORD, or none that can be read, or lies where this
        environment only looks.
    """
    check_removable(installed, environment)
    try:
        recorded = recorded_files(installed)
    except InvalidWheel as error:
        raise NotRemovable(
            f"{installed} cannot be removed: {error.message}", where=error.where
        ) from None
    real = RealPaths()
    shared = _shared(recorded, others, real)
    bounds = Bounds(environment, own=installed.path)
    files: dict[str, None] = {}
    notes = []
    # What tools add later is not always recorded.
    for path in dict.fromkeys((*recorded, *_inside(installed.path))):
        reason = bounds.why_not(path)
        if reason is None and real.of(path) in shared:
            reason = "another distribution has it too"
        if reason is not None:
            notes.append(f"{path} stays: {reason}")
        elif _is_file_or_link(path):
            files[path] = None
    for cache in _bytecode(files):
        files[cache] = None
    return Removal(installed.name, tuple(files), tuple(notes))


def check_removable(installed: Installed, environment: Environment) -> None:
    """Refuse what certainly cannot be removed, without a look at its files.

    :param installed: what is to be removed.
    :param environment: where it is installed.
    :raises NotRemovable: it has no RECORD, or lies where this environment only looks.
    """
    if installed.outside:
        raise NotRemovable(
            f"{installed} does not belong to this environment, it is only visible in it",
            where=str(installed.path),
            hint=f"this environment is {environment.name}",
        )
    if installed.legacy:
        raise NotRemovable(
            f"{installed} was installed by a tool that kept no record of its files",
            where=str(installed.path),
            hint="remove it with the tool that installed it",
        )
    if not (installed.path / "RECORD").is_file():
        by = installed.installer
        raise NotRemovable(
            f"{installed} has no RECORD, so nobody knows which files are its own",
            where=str(installed.path),
            note=f"it was installed by {by}" if by else None,
            hint=f"remove it with {by}" if by and by != "pip" else "delete its files by hand",
        )


def _inside(folder: Path) -> list[str]:
    found = []
    for base, _, names in os.walk(folder):
        found += [os.path.join(base, name) for name in names]  # noqa: PTH118
    return found


def _is_file_or_link(path: str) -> bool:
    try:
        return not stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


class RealPaths:
    """Tell whether two paths name one file, whatever links lead there; ask once a folder."""

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}

    def of(self, path: str) -> str:
        """Return a path with the links among its folders followed; it may be a link itself.

        :param path: absolute, without ``..``.
        """
        folder, name = os.path.split(path)
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder)
        return os.path.join(self._folders[folder], name)  # noqa: PTH118


def _shared(
    recorded: Collection[str], others: Iterable[Installed], real: RealPaths
) -> frozenset[str]:
    """Return the recorded files that others have in their RECORD too, as real paths."""
    mine = frozenset(map(real.of, recorded))
    shared: set[str] = set()
    for other in others:
        try:
            shared.update(mine.intersection(map(real.of, recorded_files(other))))
        except InvalidWheel:
            continue  # then nobody can say
    return frozenset(shared)


class Bounds:
    """Know which files of an environment a distribution may own; ask the disk once a folder.

    :param environment: where it is, or will be, installed.
    :param own: the ``.dist-info`` folder of the distribution.
    """

    def __init__(self, environment: Environment, own: Path) -> None:
        self._verdicts: dict[str, str | None] = {}
        self._special: set[str] = set()
        self._own = os.path.realpath(own)
        self._beside = os.path.realpath(own.parent) + os.sep
        schemes = environment.schemes
        self.roots = tuple(dict.fromkeys(map(os.path.realpath, schemes.folders().values())))
        """The folders of the environment, links followed."""
        self._libraries = tuple(map(os.path.realpath, schemes.libraries()))
        self._scripts = os.path.realpath(schemes.scripts)
        self._prefix = os.path.realpath(environment.interpreter.prefix)
        self._interpreters = self._prefix, self._scripts
        self._stdlib = os.path.realpath(environment.interpreter.stdlib)

    def why_not(self, path: str) -> str | None:
        """Say why a file cannot belong to the distribution; None if it can.

        :param path: absolute, without ``..``.
        """
        folder, name = os.path.split(path)
        if self.takes_any(folder) or self._verdicts[folder] is not None:
            return self._verdicts[folder]
        if name.lower().endswith(_RECORDS) and os.path.realpath(folder) + os.sep == self._beside:
            return "it is a record of another distribution"
        if is_interpreter_name(name) and os.path.realpath(folder) == self._scripts:
            return "it is the Python interpreter"
        if _SETTINGS.fullmatch(name) and os.path.realpath(folder) in {self._prefix, self._scripts}:
            return "it tells the Python interpreter where to look"
        return None

    def takes_any(self, folder: str) -> bool:
        """Tell whether a file may lie in a folder whatever its name is.

        :param folder: absolute, without ``..``.
        """
        if folder not in self._verdicts:
            self._verdicts[folder] = self._why_not_in(folder)
            if os.path.realpath(folder) in (self._beside[: -len(os.sep)], *self._interpreters):
                self._special.add(folder)
        return self._verdicts[folder] is None and folder not in self._special

    def _why_not_in(self, folder: str) -> str | None:
        # The file itself may be a link anywhere, only the link would be removed; but the
        # folder that holds it must be one of the environment.
        real = os.path.realpath(folder)
        if not any(_is_below(real, root) for root in self.roots):
            return "it lies outside the environment"
        # Only beside its own: deeper ones are vendored copies of other projects.
        if real.startswith(self._beside) and not _is_below(real, self._own):
            beside = real[len(self._beside) :].partition(os.sep)[0]
            if beside.lower().endswith(_RECORDS):  # Python looks for them in any case
                return "it is a record of another distribution"
        if _is_below(real, self._stdlib) and not any(
            _is_below(real, library) for library in self._libraries
        ):
            return "it belongs to the standard library"
        return None


def _is_below(folder: str, root: str) -> bool:
    # Never by characters alone: /env-other is not below /env (GHSA-6vgw-5pg2-w6jp).
    return folder == root or folder.startswith(root.rstrip(os.sep) + os.sep)


def _bytecode(files: Collection[str]) -> list[str]:
    """Return the bytecode that Python keeps of the modules among some files."""
    modules: dict[str, set[str]] = {}
    for path in files:
        if path.endswith(".py"):
            folder, name = os.path.split(path)
            modules.setdefault(folder, set()).add(name.removesuffix(".py"))
    found = []
    for folder, stems in modules.items():
        cache = os.path.join(folder, "__pycache__")  # noqa: PTH118
        try:
            names = sorted(os.listdir(cache))  # noqa: PTH208
        except OSError:
            continue
        for name in names:
            match = _BYTECODE.fullmatch(name)
            path = os.path.join(cache, name)  # noqa: PTH118
            if match is not None and match[1] in stems and path not in files:
                found.append(path)
    return found
