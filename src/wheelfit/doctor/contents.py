"""The recorded files of installed packages, and their present state.

Nothing of a package is imported. Paths are plain strings, for speed: there may be a hundred
thousand of them.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packaging.tags import InvalidTag, Tag, TooManyTagsError, parse_tag

from wheelfit.core.markers import VariantContext
from wheelfit.installation.choice_record import CHOICE_FILE, HostAndOverrides, parse_choice
from wheelfit.wheels.record import DIGEST_SIZES, encode_digest, parse_record
from wheelfit_runtime.errors import FileProblem, WheelfitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from packaging.utils import NormalizedName

    from wheelfit.core.requirements import Requirement
    from wheelfit.installation.installed import Installed

_REWRITING_INSTALLERS = frozenset({"conda", "debian", "rpm"})
"""Installers that write other content than in RECORD, and keep records of their own."""
_RECORDING_INSTALLERS = frozenset({"pip", "uv", "wheelfit"})
"""Installers that install wheels unchanged, and always write a RECORD."""
_TAG = re.compile(rb"^Tag:[ \t]*([!-~]+)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_MAX_WHEEL_FILE_SIZE = 64 * 1024
_MAX_TAGS = 1024


@dataclass(frozen=True, slots=True)
class OwnedFile:
    """A row of a RECORD, with an absolute path."""

    path: str
    """Absolute, without ``..``."""
    hash: str
    """As in RECORD; empty for files without a hash."""
    size: int | None

    @property
    def name(self) -> str:
        """The name without folders."""
        return self.path.rpartition(os.sep)[2]


# Compared by identity: to compare all files is too slow.
@dataclass(frozen=True, slots=True, eq=False)
class Package:
    """An installed distribution with its files and requirements."""

    installed: Installed
    files: tuple[OwnedFile, ...] = field(default=(), repr=False)
    """The files in RECORD; empty for a legacy or an editable package."""
    tags: frozenset[Tag] = field(default=frozenset(), repr=False)
    """The tags of its wheel; empty where they were not recorded."""
    requirements: tuple[Requirement, ...] = field(default=(), repr=False)
    """The requirements that apply on this machine; those of extras are left out, since no record
    lists the installed extras."""
    host_and_overrides: HostAndOverrides = HostAndOverrides()
    """The host and the overrides for which its variant was chosen, if recorded."""
    problem: str = ""
    """The reason why RECORD or METADATA cannot be read; empty if both can."""

    @property
    def name(self) -> NormalizedName:
        """Normalised name."""
        return self.installed.name

    @property
    def size(self) -> int:
        """Bytes of its files, as recorded."""
        return sum(file.size or 0 for file in self.files)

    def relative_path(self, file: OwnedFile) -> str:
        """Return the path of a file, relative to the folder of packages."""
        return file.path.removeprefix(str(self.installed.location) + os.sep)

    def __str__(self) -> str:
        return str(self.installed)


def read_packages(
    installed: Iterable[Installed], environment: Mapping[str, str]
) -> tuple[Package, ...]:
    """Read RECORD and METADATA of each distribution; faults are in the result.

    :param environment: the marker variables that decide which requirements apply.
    """
    return tuple(_read(entry, environment) for entry in installed)


def _read(entry: Installed, environment: Mapping[str, str]) -> Package:
    files: tuple[OwnedFile, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    problem = ""
    try:
        files = tuple(_files(entry))
        requirements = tuple(_requirements(entry, environment))
    except WheelfitError as error:
        problem = error.message
    return Package(entry, files, _tags(entry), requirements, _host_and_overrides(entry), problem)


def _tags(entry: Installed) -> frozenset[Tag]:
    if entry.legacy or entry.installer not in _RECORDING_INSTALLERS:
        return frozenset()  # other package managers make their own builds, with any tags
    tags: set[Tag] = set()
    for text in _TAG.findall((entry.record("WHEEL") or b"")[:_MAX_WHEEL_FILE_SIZE]):
        with suppress(InvalidTag, TooManyTagsError):
            tags |= parse_tag(text.decode("ascii"), limit=_MAX_TAGS)
    return frozenset(tags)


def _host_and_overrides(entry: Installed) -> HostAndOverrides:
    if entry.installer == "wheelfit":
        choice = parse_choice(entry.record(CHOICE_FILE) or b"")
        if choice is not None:
            return choice.host_and_overrides
    return HostAndOverrides()


def _files(entry: Installed) -> Iterator[OwnedFile]:
    if entry.legacy:
        return
    location = str(entry.location)
    data = entry.record("RECORD")
    if data is None:
        if entry.installer in _RECORDING_INSTALLERS:
            raise FileProblem("RECORD is missing, or no file that can be read")
        return  # other package managers keep their records elsewhere
    for row in parse_record(data, where=str(entry.path / "RECORD")).rows:
        path = row.path
        # On Windows every path is normalised, as it has other separators.
        may_lead_out = os.altsep or ".." in path or path.startswith(("/", "."))
        if may_lead_out:
            path = os.path.normpath(os.path.join(location, path))  # noqa: PTH118 - many paths
        else:
            path = f"{location}/{path}"
        is_size = row.size.isascii() and row.size.isdecimal() and len(row.size) < 20
        yield OwnedFile(path, row.hash, int(row.size) if is_size else None)


def _requirements(entry: Installed, environment: Mapping[str, str]) -> Iterator[Requirement]:
    for requirement in entry.metadata().requires:
        marker = requirement.marker
        if entry.label is not None and marker is not None and marker.uses_variants:
            continue  # only the machine can decide it (F-103), and a guess could be a false alarm
        if requirement.applies(environment, "", VariantContext.PLAIN):
            yield requirement


@dataclass(frozen=True, slots=True)
class RecordDifferences:
    """The files of a package that differ from its RECORD."""

    package: Package
    lost: tuple[OwnedFile, ...] = ()
    changed: tuple[OwnedFile, ...] = ()
    unreadable: tuple[OwnedFile, ...] = ()
    """Files that this user may not read."""


def compare_with_record(
    packages: Iterable[Package],
    shared: frozenset[str],
    roots: Iterable[Path],
    *,
    full: bool = False,
) -> tuple[RecordDifferences, ...]:
    """Compare the files of packages with RECORD: their existence and size.

    Files without a hash are ignored: tools write them after the installation, such as bytecode.

    :param shared: paths that several packages own; only their existence is checked.
    :param roots: the folders of the environment. Files elsewhere are ignored: pip's ``--target``
        records scripts at places where they never were.
    :param full: whether the content is compared too.
    """
    prefixes = tuple(f"{root}{os.sep}" for root in roots)
    differences = []
    for package in packages:
        if package.installed.installer in _REWRITING_INSTALLERS:
            continue
        lost, changed, unreadable = [], [], []
        for file in package.files:
            if not file.hash or not file.path.startswith(prefixes):
                continue
            try:
                size = os.stat(file.path).st_size  # noqa: PTH116  # many of them
            except PermissionError:
                unreadable.append(file)
                continue
            except (OSError, ValueError):  # a name with NUL is invalid
                lost.append(file)
                continue
            if file.path in shared:
                continue
            if file.size not in (None, size) or (full and not has_recorded_content(file)):
                changed.append(file)
        if lost or changed or unreadable:
            differences.append(
                RecordDifferences(package, tuple(lost), tuple(changed), tuple(unreadable))
            )
    return tuple(differences)


def has_recorded_content(file: OwnedFile) -> bool:
    """Return whether the content of a file is the recorded one; False if it cannot be read.

    True if RECORD has no hash of it, or one of an unknown algorithm.
    """
    algorithm, _, digest = file.hash.partition("=")
    if algorithm not in DIGEST_SIZES:
        return True
    with suppress(OSError, ValueError):
        # A row may name anything: a pipe would block, and a device never end.
        if not stat.S_ISREG(os.stat(file.path).st_mode):  # noqa: PTH116  # a path is a string
            return False
        with open(file.path, "rb") as stream:  # noqa: PTH123
            actual = hashlib.file_digest(stream, algorithm).digest()
        return encode_digest(actual) == digest.rstrip("=")
    return False
