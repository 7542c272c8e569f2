"""Detection of foreign files that an installation would overwrite, before anything is written.

A wheel may only write files that do not exist, that belong to a distribution that is replaced, or
that exist with the same content (several distributions share empty ``__init__.py`` files, for
example). pip and uv overwrite silently.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from wheelfit.installation.environment import Environment, nearest_existing
from wheelfit.installation.environment_folders import is_below
from wheelfit.installation.removal import OwnershipRules, RealPaths, is_real_folder, recorded_files
from wheelfit.installation.scripts import script_of
from wheelfit.installation.startup_files import StartupFiles, StartupFolders
from wheelfit.wheels.entry_points import is_interpreter_name
from wheelfit.wheels.file_system import NATIVE
from wheelfit.wheels.paths import fold_name, target_faults
from wheelfit.wheels.record import encode_digest, row_for
from wheelfit.wheels.zip_archive import faults_error
from wheelfit_runtime.errors import IntegrityError, InvalidWheel, PolicyRefusal

if TYPE_CHECKING:
    import io
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from wheelfit.installation.checked_wheel import CheckedWheel
    from wheelfit.installation.installed import Installed
    from wheelfit.installation.steps import FolderReader
    from wheelfit.resolution.resolution import Pin
    from wheelfit.wheels.file_system import FileSystem

_MAX_SHOWN = 10
_NO_NAMES: frozenset[str] = frozenset()


class WheelLayout(Struct, frozen=True):
    """The files of one wheel, compared with the existing ones."""

    wheel: CheckedWheel
    present: frozenset[tuple[str, str]]
    """(scheme, path) of the files that exist already with the same content."""
    startup: tuple[str, ...] = ()
    """Files that run code whenever Python starts, as the wheel names them."""


class _Conflict(Struct, frozen=True):
    """A file that would be overwritten."""

    text: str
    """The file and its owner, as a clause."""
    is_unowned: bool = False
    """Whether no distribution owns it, so that ``--replace-files`` may replace it."""
    is_new: bool = False
    """Whether another wheel to install has it."""


def scheme_folders(folders: Mapping[str, Path], name: str) -> dict[str, Path]:
    """Return the folder of each scheme for one distribution; headers have one of their own."""
    return {**folders, "headers": folders["headers"] / name}


def lay_out(
    wheels: Sequence[CheckedWheel],
    environment: Environment,
    *,
    removed_files: Mapping[str, Collection[str]],
    staying: Iterable[Installed],
    replace: bool = False,
    startup_files: StartupFiles = StartupFiles.WARN,
    file_system: FileSystem = NATIVE,
    real: RealPaths,
    read_folder: FolderReader,
) -> tuple[WheelLayout, ...]:
    """Compare the files to write with existing ones, and with each other.

    :param removed_files: the names of the files that are removed first, by folder (absolute path).
    :param staying: the distributions that are not removed; used only if there is a conflict.
    :param replace: whether files without a distribution may be replaced.
    :param startup_files: whether wheels may have files that run code whenever Python starts.
    :raises IntegrityError: ``file-conflict``; a file would be overwritten; the error lists all
        conflicts of a wheel.
    :raises PolicyRefusal: ``startup-file``; a wheel has such files, and the policy forbids them.
    :raises InvalidWheel: a member would leave the environment through a link, is a path that no
        distribution may own, or has a name that its system cannot have (B-34).
    """
    library = nearest_existing(environment.schemes.purelib)
    ignores_case = library.is_dir() and not file_system.is_case_sensitive(library)
    existing_files = _ExistingFiles(
        removed_files, staying, real, read_folder, replace=replace, ignores_case=ignores_case
    )
    startup_folders = StartupFolders(environment)
    scripts = str(environment.schemes.scripts)
    layouts = []
    for wheel in wheels:
        folders = scheme_folders(environment.schemes.folders(), wheel.pin.name)
        where = wheel.pin.filename.text
        faults = target_faults(
            wheel.unpacked.names(),
            is_windows=environment.is_windows,
            ignores_case=ignores_case or environment.is_for_macos,
        )
        if faults:
            raise faults_error(faults, where)
        rules = OwnershipRules(environment, folders[wheel.root] / wheel.dist_info, real)
        present = set()
        conflicts = []
        startup = []
        for group in _written_files(wheel, environment):
            root = str(folders[group.scheme])
            folder = os.path.normpath(os.path.join(root, group.path))  # noqa: PTH118
            path_prefix = f"{group.path}/" if group.path else ""
            if existing_files.leaves(folder, root):
                raise InvalidWheel(
                    f"{path_prefix}{group.names[0]} would leave the environment by a link",
                    where=where,
                )
            if not rules.accepts_any_name(folder):
                for name in group.names:
                    if folder == scripts and is_interpreter_name(name):
                        raise InvalidWheel(
                            f"{path_prefix}{name} would take the place of the Python interpreter",
                            where=where,
                        )
                    if (reason := rules.reason_against(os.path.join(folder, name))) is not None:  # noqa: PTH118
                        raise InvalidWheel(
                            f"{path_prefix}{name} may not be written: {reason}", where=where
                        )
            if startup_folders.may_contain(real.folder(folder)):
                startup_names = [
                    path_prefix + name
                    for name in group.names
                    if startup_folders.runs(f"{folder}{os.sep}{name}")
                ]
                if startup_names and group.is_data:
                    raise InvalidWheel(
                        f"{startup_names[0]} may not be written: it runs code whenever Python "
                        f"starts, and {wheel.data} is no place for that",
                        where=where,
                    )
                startup += startup_names
            for name, verdict in existing_files.reserve(folder, group, where):
                if isinstance(verdict, _Conflict):
                    conflicts.append(verdict)
                else:
                    present.add((group.scheme, path_prefix + name))
        if conflicts:
            _refuse(conflicts, wheel.pin)
        if startup and startup_files is StartupFiles.DENY:
            raise PolicyRefusal(
                f"the wheel runs code whenever Python starts: {', '.join(startup[:_MAX_SHOWN])}",
                code="startup-file",
                where=where,
                hint="nothing was changed; --startup-files warn installs it",
            )
        layouts.append(WheelLayout(wheel, frozenset(present), tuple(startup)))
    return tuple(layouts)


def _refuse(conflicts: list[_Conflict], pin: Pin) -> None:
    hidden_count = len(conflicts) - _MAX_SHOWN
    lines = [conflict.text for conflict in conflicts[:_MAX_SHOWN]]
    lines += [f"and {hidden_count} more"] if hidden_count > 0 else []
    # If one path cannot be replaced, permission to replace the others would not help.
    if all(conflict.is_unowned for conflict in conflicts):
        remedy = "move it away, or overwrite files that no package owns with --replace-files"
    elif any(conflict.is_new for conflict in conflicts):
        remedy = "install only one of the two"
        if not pin.is_direct:  # no option leaves out a wheel that is named itself
            remedy += f"; `--exclude {pin.name}` leaves this one out"
    else:
        remedy = "uninstall the package that owns it, or move it away"
    raise IntegrityError(
        f"{lines[0]}, and this wheel would overwrite it",
        code="file-conflict",
        where=pin.filename.text,
        note="\n".join(lines) if len(conflicts) > 1 else None,
        hint=f"nothing was changed; {remedy}",
    )


class _Group(Struct, frozen=True):
    """Files that are written into one folder."""

    scheme: str
    path: str
    """The folder, relative to that of the scheme, with ``/``; empty: that folder."""
    names: Sequence[str]
    contents: Sequence[str]
    """For each, ``algorithm=digest`` as in RECORD; empty if it is unknown."""
    is_data: bool = False
    """Whether they come from the ``.data`` folder of the wheel."""


def _written_files(wheel: CheckedWheel, environment: Environment) -> Iterator[_Group]:
    hashes = wheel.unpacked.files.hashes
    for part in wheel.parts:
        contents = list(map(hashes.__getitem__, part.indexes))
        if part.source == wheel.dist_info and wheel.is_rewritten:
            contents[part.names.index("METADATA")] = ""
        is_data = part.source.partition("/")[0] == wheel.data
        yield _Group(part.scheme, part.path, part.names, contents, is_data)
    dist_info_names = (*wheel.generated, "RECORD")
    yield _Group(wheel.root, wheel.dist_info, dist_info_names, [""] * len(dist_info_names))
    options = environment.script_options
    for command in wheel.commands:
        name, data = script_of(command, options.python, options.launcher)
        yield _Group("scripts", "", (name,), (row_for(name, data).hash,))


class _ExistingFiles:
    """The existing files and those that earlier wheels write; each folder is read only once."""

    def __init__(
        self,
        removed_files: Mapping[str, Collection[str]],
        staying: Iterable[Installed],
        real: RealPaths,
        read_folder: FolderReader,
        *,
        replace: bool,
        ignores_case: bool,
    ) -> None:
        self._ignores_case = ignores_case
        self._removed_files = removed_files
        if ignores_case:
            folded: dict[str, set[str]] = {}
            for folder, names in removed_files.items():
                folded.setdefault(fold_name(folder), set()).update(map(fold_name, names))
            self._removed_files = folded
        self._staying = staying
        self._real = real
        self._read_folder = read_folder
        self._replace = replace
        self._existing_names: dict[str, set[str] | None] = {}
        self._reserved_files: dict[str, dict[str, tuple[str, str]]] = {}
        """The wheel and the content of each file, by folder and name."""
        self._reserved_folders: dict[str, str] = {}
        """The first wheel that writes into each folder or below it."""
        self._reserved_subfolders: dict[str, set[str]] = {}
        self._obstacles: dict[str, str | None] = {}

    @cached_property
    def _owners(self) -> Mapping[str, str]:
        """The distributions by the files in their RECORDs, which are read when first needed."""
        owners = {}
        for distribution in self._staying:
            with suppress(InvalidWheel):
                files = recorded_files(distribution)
                owners.update(dict.fromkeys(map(self._real.of, files), str(distribution)))
        return owners

    def reserve(
        self, folder: str, group: _Group, wheel_name: str
    ) -> Iterator[tuple[str, _Conflict | None]]:
        """Reserve the paths of the files in one folder.

        Yield the name of each file whose path is taken, with the conflict; with None if the file
        there has the same content.
        """
        taken = self._reserved_files.setdefault(self._key(folder), {})
        wheel_above = self._file_above(self._key(folder))
        existing_names = self._listing(folder)
        obstacle = None if existing_names is not None else self._obstacle_above(folder)
        if not (taken or wheel_above or obstacle) and self._is_free(folder, group.names):
            taken.update(zip(group.names, zip(repeat(wheel_name), group.contents), strict=False))
            self._reserve_folder(self._key(folder), wheel_name)
            return
        spellings: dict[str, str] = {}
        for name, content in zip(group.names, group.contents, strict=True):
            path = f"{folder}{os.sep}{name}"
            if (
                (earlier := taken.get(self._key(name))) is not None
                and content
                and earlier[1] == content
            ):
                yield name, None
                continue
            # Another wheel may have reserved the path, a file above it, or a folder at it.
            file_owner = wheel_above if earlier is None else earlier[0]
            if owner := file_owner or self._reserved_folders.get(self._key(path), ""):
                yield name, _Conflict(f"{path} is also in {owner}", is_new=True)
                continue
            taken[self._key(name)] = wheel_name, content
            existing_path = obstacle
            if existing_names:
                existing_name = name if name in existing_names else None
                if existing_name is None and self._ignores_case:
                    spellings = spellings or {fold_name(other): other for other in existing_names}
                    existing_name = spellings.get(fold_name(name))
                existing_path = None
                if existing_name is not None:
                    existing_path = self._unless_removed(f"{folder}{os.sep}{existing_name}")
            if existing_path is None:
                continue
            if existing_path == path and _has_content(path, content):
                yield name, None
            elif (conflict := self._conflict_with(existing_path)) is not None:
                yield name, conflict
        self._reserve_folder(self._key(folder), wheel_name)

    def _key(self, path: str) -> str:
        """Return a name or path as it is compared."""
        return fold_name(path) if self._ignores_case else path

    def _is_free(self, folder: str, names: Sequence[str]) -> bool:
        """Return whether no existing file is in the way, which is nearly always true."""
        if self._ignores_case or not self._reserved_subfolders.get(folder, _NO_NAMES).isdisjoint(
            names
        ):
            return False
        existing_names = (self._listing(folder) or _NO_NAMES).intersection(names)
        return existing_names.issubset(self._removed_files.get(folder, _NO_NAMES))

    def _reserve_folder(self, folder: str, wheel_name: str) -> None:
        while folder not in self._reserved_folders:
            self._reserved_folders[folder] = wheel_name
            folder, name = os.path.split(folder)
            self._reserved_subfolders.setdefault(folder, set()).add(name)

    def _conflict_with(self, obstacle: str) -> _Conflict | None:
        """Return the conflict with an existing path; None: it may be replaced."""
        if owner := self._owners.get(self._real.of(obstacle)):
            return _Conflict(f"{obstacle} belongs to {owner}")
        if is_real_folder(obstacle):
            return _Conflict(f"{obstacle} is a folder")
        if self._replace:
            return None
        return _Conflict(f"{obstacle} belongs to no installed distribution", is_unowned=True)

    def leaves(self, folder: str, root: str) -> bool:
        """Return whether a folder below a root leads out of it through a link (CVE-2026-34591)."""
        return not is_below(self._real.folder(folder), self._real.folder(root))

    def _file_above(self, folder: str) -> str:
        """Return the earlier wheel with a file in place of a folder or of one of its parents."""
        while folder not in self._reserved_folders:
            parent, name = os.path.split(folder)
            if name in self._reserved_files.get(parent, ()):
                return self._reserved_files[parent][name][0]
            if parent == folder:
                break
            folder = parent
        return ""

    def _obstacle_above(self, folder: str) -> str | None:
        """Return an existing file in place of a missing folder or of one of its parents."""
        if folder not in self._obstacles:
            parent, name = os.path.split(folder)
            names = self._listing(parent)
            if names is not None:
                spelled = name if name in names else ""
                if not spelled and self._ignores_case:
                    key = self._key(name)
                    spelled = next((other for other in names if self._key(other) == key), "")
                path = os.path.join(parent, spelled)  # noqa: PTH118
                obstacle = self._unless_removed(path) if spelled else None
            else:
                obstacle = self._obstacle_above(parent) if name else None
            self._obstacles[folder] = obstacle
        return self._obstacles[folder]

    def _unless_removed(self, path: str) -> str | None:
        """Return a path if it is in the way; None if it is removed first."""
        if self._is_removed(path):
            return None
        return path if not is_real_folder(path) or self._stays(path) else None

    def _is_removed(self, path: str) -> bool:
        folder, name = os.path.split(self._key(path))
        return name in self._removed_files.get(folder, _NO_NAMES)

    def _stays(self, folder: str) -> bool:
        """Return whether a folder has files that are not removed first, or is empty.

        An empty folder belongs to no distribution, so nothing removes it.
        """
        return any(
            not self._is_removed(os.path.join(base, name))  # noqa: PTH118
            for base, _, names in os.walk(folder)
            for name in names
        ) or not os.listdir(folder)  # noqa: PTH208

    def _listing(self, folder: str) -> set[str] | None:
        if folder not in self._existing_names:
            # A folder is missing if its parent was found missing. A parent that was not listed yet
            # is not listed for this, since it need not be readable.
            parent = os.path.dirname(folder)  # noqa: PTH120
            is_parent_missing = self._existing_names.get(parent, _NO_NAMES) is None
            listing = None if is_parent_missing else self._read_folder(folder)
            self._existing_names[folder] = (
                None if listing is None else listing.files.keys() | listing.folders
            )
        return self._existing_names[folder]


def _has_content(path: str, content: str) -> bool:
    """Return whether a file has the content of a hash as RECORD writes it."""
    algorithm, _, digest = content.partition("=")
    if not content or os.path.islink(path) or not os.path.isfile(path):  # noqa: PTH113, PTH114
        return False
    with Path(path).open("rb") as stream:
        actual = hashlib.file_digest(cast("io.BytesIO", stream), algorithm).digest()
    return encode_digest(actual) == digest.rstrip("=")
