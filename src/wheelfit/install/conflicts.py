"""Find out, before anything is written, whether an installation would destroy something.

A wheel may only write files that do not exist, that go with a distribution that is
replaced, or that exist with the very same content (several distributions share empty
``__init__.py`` files, for one). pip and uv overwrite silently.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from installer.scripts import Script

from wheelfit.errors import FileConflict, InvalidWheel
from wheelfit.install.entry_points import is_interpreter_name
from wheelfit.install.removal import recorded_files
from wheelfit.wheels.record import encode_digest, row_for

if TYPE_CHECKING:
    import io
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from installer.scripts import LauncherKind, ScriptSection

    from wheelfit.install.checked_wheel import CheckedWheel
    from wheelfit.install.environment import Environment
    from wheelfit.install.installed import Installed

__all__ = ["Layout", "lay_out", "scheme_folders"]


def __dir__() -> list[str]:
    return __all__


_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Layout:
    """Say what is written where by one wheel."""

    wheel: CheckedWheel
    """The wheel."""
    present: frozenset[tuple[str, str]]
    """(scheme, path) of the files that are there already with the same content."""


def scheme_folders(folders: Mapping[str, Path], name: str) -> dict[str, Path]:
    """Return the folder of each scheme for one distribution; headers have one of their own.

    :param folders: by scheme name.
    :param name: of the distribution.
    """
    return {**folders, "headers": folders["headers"] / name}


def lay_out(
    wheels: Sequence[CheckedWheel],
    environment: Environment,
    *,
    leaving: frozenset[str],
    staying: Iterable[Installed],
    replace: bool = False,
) -> tuple[Layout, ...]:
    """Compare what will be written with what exists, and with each other.

    :param wheels: what will be installed together.
    :param leaving: files that are removed before.
    :param staying: the distributions that are not removed; asked only if there is a conflict.
    :param replace: what belongs to no distribution may be replaced.
    :raises FileConflict: something would be overwritten; all conflicts of a wheel are named.
    :raises InvalidWheel: a member would leave the environment through a link.
    """
    disk = _Disk()
    owners = _Owners(staying)
    scripts = str(environment.schemes.scripts)
    taken: dict[str, tuple[str, str]] = {}
    layouts = []
    for wheel in wheels:
        folders = scheme_folders(environment.schemes.folders(), wheel.pin.name)
        where = wheel.pin.filename.text
        present = set()
        conflicts: list[str] = []
        for scheme, path, content in _writes(wheel, environment):
            root = str(folders[scheme])
            final = os.path.join(root, *path.split("/"))  # noqa: PTH118  # many of them
            if disk.leaves(os.path.dirname(final), root):  # noqa: PTH120
                raise InvalidWheel(
                    f"{path} would leave the environment through a link", where=where
                )
            if os.path.dirname(final) == scripts and is_interpreter_name(os.path.basename(final)):  # noqa: PTH119, PTH120
                raise InvalidWheel(
                    f"{path} would take the place of the Python interpreter", where=where
                )
            other = taken.get(final)
            if other is not None:
                if other[1] == content and content:
                    present.add((scheme, path))
                else:
                    conflicts.append(f"{final} is also in {other[0]}")
                continue
            taken[final] = where, content
            if final in leaving or not disk.exists(final):
                continue
            if disk.has_content(final, content):
                present.add((scheme, path))
            elif owner := owners.of(final):
                conflicts.append(f"{final} belongs to {owner}")
            elif not replace or (os.path.isdir(final) and not os.path.islink(final)):  # noqa: PTH112, PTH114
                conflicts.append(f"{final} belongs to no installed distribution")
        if conflicts:
            _refuse(conflicts, where)
        layouts.append(Layout(wheel, frozenset(present)))
    return tuple(layouts)


def _refuse(conflicts: list[str], where: str) -> None:
    more = len(conflicts) - _SHOWN
    shown = conflicts[:_SHOWN] + ([f"and {more} more"] if more > 0 else [])
    raise FileConflict(
        f"{conflicts[0]}, and this wheel would overwrite it",
        where=where,
        note="\n".join(shown) if len(conflicts) > 1 else None,
        hint="nothing was changed; uninstall what owns the file, or move the file away",
    )


def _writes(wheel: CheckedWheel, environment: Environment) -> Iterator[tuple[str, str, str]]:
    """Yield scheme, path and ``algorithm=digest`` of everything written; "" if unknown."""
    for part in wheel.parts:
        rewritten = part.member == f"{wheel.dist_info}/METADATA"
        yield part.scheme, part.path, "" if rewritten else part.row.hash
    for name in (*wheel.generated, "RECORD"):
        yield wheel.root, f"{wheel.dist_info}/{name}", ""
    interpreter = environment.interpreter
    for command in wheel.commands:
        script = Script(
            command.name, command.module, command.attribute, cast("ScriptSection", command.section)
        )
        name, data = script.generate(
            str(interpreter.executable), cast("LauncherKind", interpreter.launcher)
        )
        yield "scripts", name, row_for(name, data).hash


class _Disk:
    """Answer questions about files; each folder is looked at once."""

    def __init__(self) -> None:
        self._names: dict[str, frozenset[str] | None] = {}
        self._leaves: dict[tuple[str, str], bool] = {}

    def exists(self, path: str) -> bool:
        """Say whether something is in the way: the path itself, or a file among its folders."""
        folder, name = os.path.split(path)
        names = self._listing(folder)
        if names is not None:
            # A file system may ignore case, then the listing does not tell.
            return name in names or (bool(names) and os.path.lexists(path))
        # There is no such folder; a file of its name would be in the way as well.
        while names is None and name:
            folder, name = os.path.split(folder)
            names = self._listing(folder)
        return names is not None and name in names

    def _listing(self, folder: str) -> frozenset[str] | None:
        if folder not in self._names:
            above = os.path.dirname(folder)  # noqa: PTH120
            if above != folder and self._listing(above) is None:
                self._names[folder] = None  # nothing is below what does not exist
            else:
                try:
                    self._names[folder] = frozenset(os.listdir(folder))  # noqa: PTH208
                except OSError:
                    self._names[folder] = None
        return self._names[folder]

    def leaves(self, folder: str, root: str) -> bool:
        """Say whether a folder below a root leads out of it through a link (CVE-2026-34591)."""
        key = folder, root
        if key not in self._leaves:
            real, base = os.path.realpath(folder), os.path.realpath(root)
            self._leaves[key] = os.path.commonpath([real, base]) != base
        return self._leaves[key]

    def has_content(self, path: str, content: str) -> bool:
        """Say whether a file has the content of a hash as RECORD writes it."""
        algorithm, _, digest = content.partition("=")
        if not content or os.path.islink(path) or not os.path.isfile(path):  # noqa: PTH113, PTH114
            return False
        with Path(path).open("rb") as stream:
            found = hashlib.file_digest(cast("io.BytesIO", stream), algorithm).digest()
        return encode_digest(found) == digest.rstrip("=")


class _Owners:
    """Know which distribution a file belongs to; RECORDs are read when first asked."""

    def __init__(self, distributions: Iterable[Installed]) -> None:
        self._distributions = distributions
        self._of: dict[str, str] | None = None

    def of(self, path: str) -> str:
        """Return the owner in words; empty if nobody has it in RECORD."""
        if self._of is None:
            self._of = {}
            for distribution in self._distributions:
                try:
                    files = recorded_files(distribution)
                except InvalidWheel:
                    continue
                self._of |= dict.fromkeys(files, str(distribution))
        return self._of.get(path, "")
