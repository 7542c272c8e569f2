"""Which files leave the environment when a distribution does; nothing is removed here.

RECORD decides (PEP 376), but it is only text that came with a wheel or was edited since.
A row may lead anywhere, so each is checked: what lies outside the folders of the
environment, belongs to the environment itself or is also recorded by another
distribution stays (GHSA-pjjw-68hj-v9mw).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfit.errors import InvalidWheel, NotRemovable
from wheelfit.install.entry_points import is_interpreter_name
from wheelfit.wheels.record import parse_record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from wheelfit.install.environment import Environment
    from wheelfit.install.installed import Installed

__all__ = ["Removal", "plan_removal", "recorded_files"]


def __dir__() -> list[str]:
    return __all__


_BYTECODE = re.compile(r"(.+?)\.[^.]+(?:\.opt-\d+)?\.pyc")


@dataclass(frozen=True, slots=True)
class Removal:
    """List what one distribution leaves behind when it goes."""

    files: tuple[Path, ...]
    """Files and links to remove; they exist."""
    folders: tuple[Path, ...]
    """Folders to remove if they are empty then, the deepest first."""
    notes: tuple[str, ...] = ()
    """What stays and why, one sentence each."""


def recorded_files(installed: Installed) -> tuple[Path, ...]:
    """Return the files that RECORD names, as absolute paths without ``..``.

    :param installed: any distribution; one without RECORD has no files.
    :raises InvalidWheel: its RECORD cannot be read.
    """
    record = installed.path / "RECORD"
    try:
        data = record.read_bytes()
    except OSError:
        return ()
    location = str(installed.location)
    # Joining with an absolute row gives that row.
    return tuple(
        Path(os.path.abspath(os.path.join(location, row.path)))  # noqa: PTH100, PTH118  # speed
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
    _check_removable(installed, environment)
    try:
        recorded = recorded_files(installed)
    except InvalidWheel as error:
        raise NotRemovable(
            f"{installed} cannot be removed: {error.message}", where=error.where
        ) from None
    shared = _shared(recorded, others)
    bounds = _Bounds(environment)
    files: dict[Path, None] = {}
    notes = []
    # What tools add later is not always recorded.
    for path in (*recorded, *_inside(installed.path)):
        if path in files:
            continue
        reason = bounds.why_not(path, installed.path)
        if reason is None and path in shared:
            reason = "another distribution has it too"
        if reason is not None:
            notes.append(f"{path} stays: {reason}")
        elif os.path.lexists(path) and (path.is_symlink() or not path.is_dir()):
            files[path] = None
    for cache in _bytecode(files):
        files[cache] = None
    return Removal(tuple(files), _folders(files, bounds), tuple(notes))


def _check_removable(installed: Installed, environment: Environment) -> None:
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
            hint=f"remove it with {by}" if by and by != "pip" else "install it again first",
        )


def _inside(folder: Path) -> list[Path]:
    found = []
    for base, _, names in os.walk(folder):
        found += [Path(base, name) for name in names]
    return found


def _shared(recorded: Collection[Path], others: Iterable[Installed]) -> frozenset[Path]:
    """Return the recorded files that others have in their RECORD too."""
    mine = frozenset(recorded)
    shared: set[Path] = set()
    for other in others:
        try:
            shared.update(mine.intersection(recorded_files(other)))
        except InvalidWheel:
            continue  # then nobody can say
    return frozenset(shared)


class _Bounds:
    """Know which files of an environment a distribution may own; ask the disk once a folder."""

    def __init__(self, environment: Environment) -> None:
        self._real: dict[Path, str] = {}
        schemes = environment.schemes
        self.roots = tuple(dict.fromkeys(map(self.real, schemes.folders().values())))
        """The folders of the environment, links followed."""
        self._libraries = tuple(map(self.real, schemes.libraries()))
        self._scripts = self.real(schemes.scripts)
        self._prefix = self.real(environment.interpreter.prefix)
        self._stdlib = self.real(environment.interpreter.stdlib)

    def real(self, folder: Path) -> str:
        """Return where a folder is, links followed."""
        if folder not in self._real:
            self._real[folder] = os.path.realpath(folder)
        return self._real[folder]

    def why_not(self, path: Path, own: Path) -> str | None:
        """Say why a file cannot belong to a distribution; None if it can.

        :param path: absolute, without ``..``.
        :param own: the ``.dist-info`` folder of the distribution.
        """
        # The file itself may be a link anywhere, only the link would be removed; but the
        # folder that holds it must be one of the environment.
        folder = self.real(path.parent)
        if not any(_is_below(folder, root) for root in self.roots):
            return "it lies outside the environment"
        if any(part.endswith(".dist-info") for part in path.parts) and not path.is_relative_to(own):
            return "it is a record of another distribution"
        if folder == self._scripts and is_interpreter_name(path.name):
            return "it is the Python interpreter"
        if folder == self._prefix and path.name == "pyvenv.cfg":
            return "it makes the folder an environment"
        if _is_below(folder, self._stdlib) and not any(
            _is_below(folder, library) for library in self._libraries
        ):
            return "it belongs to the standard library"
        return None


def _is_below(folder: str, root: str) -> bool:
    # Never by characters alone: /env-other is not below /env (GHSA-6vgw-5pg2-w6jp).
    return folder == root or folder.startswith(root.rstrip(os.sep) + os.sep)


def _bytecode(files: Iterable[Path]) -> list[Path]:
    """Return the bytecode that Python keeps of the modules among some files."""
    modules: dict[Path, set[str]] = {}
    for path in files:
        if path.suffix == ".py":
            modules.setdefault(path.parent / "__pycache__", set()).add(path.stem)
    found = []
    for folder, stems in modules.items():
        try:
            names = sorted(os.listdir(folder))  # noqa: PTH208  # names suffice
        except OSError:
            continue
        for name in names:
            match = _BYTECODE.fullmatch(name)
            if match is not None and match[1] in stems and folder / name not in files:
                found.append(folder / name)
    return found


def _folders(files: Iterable[Path], bounds: _Bounds) -> tuple[Path, ...]:
    """Return the folders that may be empty afterwards, never a root or one above it."""
    kept = {str(folder) for root in bounds.roots for folder in (Path(root), *Path(root).parents)}
    folders: set[Path] = set()
    for path in files:
        folder = path.parent
        while folder not in folders and bounds.real(folder) not in kept:
            if folder.is_symlink():
                break
            folders.add(folder)
            folder = folder.parent
    return tuple(sorted(folders, key=lambda folder: (-len(folder.parts), folder)))
