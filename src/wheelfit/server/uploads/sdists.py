"""Check a source distribution by itself, by the rules for unpacking one to build it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from wheelfit.core.core_metadata import read_metadata
from wheelfit.core.requirements import parse_requirement
from wheelfit.core.strict_json import shortened
from wheelfit.errors import InvalidRequirement, InvalidSource, StorageUnavailable
from wheelfit.projects.archives import Limits, unpack_archive
from wheelfit.projects.names import release_of
from wheelfit.server.store.records import Violation
from wheelfit.wheels.dist_info import MOST_METADATA, header_value
from wheelfit.wheels.paths import path_fault, windows_fault
from wheelfit_runtime.errors import FileProblem, InvalidWheel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.utils import NormalizedName
    from packaging.version import Version

    from wheelfit.core.core_metadata import CoreMetadata


_UNSUSPICIOUS = 64 << 20  # bytes that an archive may unpack to, whatever the ratio
_LARGEST_RATIO = 50  # beyond that, what the public registry accepts
_MOST_MEMBERS = 50_000
"""The largest projects have half as many; to write each as a file takes time."""
_LONGEST = 120


_FIRST = (2, 4)
"""The first version of metadata whose ``License-File`` says where the file is."""


def license_files(metadata: bytes) -> tuple[str, ...]:
    r"""Return the paths of licences that must be there; before version 2.4 nobody knew where.

    >>> license_files(b"Metadata-Version: 2.4\\nName: x\\nVersion: 1\\nLicense-File: LICENSE\\n")
    ('LICENSE',)
    """
    version = header_value(metadata, "Metadata-Version") or ""
    major, _, minor = version.partition(".")
    if not (major.isdecimal() and minor.isdecimal()) or (int(major), int(minor)) < _FIRST:
        return ()
    try:
        return read_metadata(metadata, "").license.files
    except InvalidWheel:
        return ()  # which others find


class SdistFacts(NamedTuple):
    """The facts of a source distribution."""

    name: NormalizedName
    version: Version
    usual_name: str
    """How the file would be named today (PEP 625)."""
    metadata: bytes


def check_sdist(path: Path, filename: str) -> tuple[tuple[Violation, ...], SdistFacts | None]:
    """Look for what is wrong with a source distribution.

    :param path: where its bytes are; it is unpacked beside that, and removed again.
    :return: what is wrong, and what is known; None if that is too little.
    :raises StorageUnavailable: there is no room to unpack it.
    """
    release = release_of(filename)
    if release is None:
        message = "a source distribution is named name-version.tar.gz or name-version.zip"
        return (Violation("invalid-filename", message, filename),), None
    most = max(_UNSUSPICIOUS, _LARGEST_RATIO * path.stat().st_size)
    with tempfile.TemporaryDirectory(dir=path.parent, ignore_cleanup_errors=True) as folder:
        try:
            top = unpack_archive(
                path,
                Path(folder),
                filename,
                where=filename,
                limits=Limits(size=most, members=_MOST_MEMBERS),
            )
        except InvalidSource as error:
            message = error.message if error.note is None else f"{error.message}: {error.note}"
            return (Violation("unsound-archive", message[:1000], filename),), None
        except FileProblem as error:
            raise StorageUnavailable(error.message, where=filename) from error
        return _check_folder(top, filename, *release)


def _check_folder(
    top: Path, filename: str, name: NormalizedName, version: Version
) -> tuple[tuple[Violation, ...], SdistFacts | None]:
    violations = []
    stem = filename.removesuffix(".zip").removesuffix(".tar.gz")
    if top.name != stem:
        message = f"its folder is {top.name}, and not {stem} as in the file name"
        violations.append(Violation("wrong-folder", message, filename))
    information = top / "PKG-INFO"
    if information.is_symlink() or not information.is_file():
        message = f"it has no {top.name}/PKG-INFO"
        return (*violations, Violation("wrong-metadata", message, filename)), None
    if information.stat().st_size > MOST_METADATA:
        message = f"its PKG-INFO has more than {MOST_METADATA} bytes"
        return (*violations, Violation("wrong-metadata", message, filename)), None
    metadata = information.read_bytes()
    where = f"{filename}: PKG-INFO"
    try:
        core = read_metadata(metadata, filename)
    except InvalidWheel as error:
        return (*violations, Violation("wrong-metadata", error.message, where)), None
    if core.name != name:
        message = f"the name is {core.name}, in the file name {name}"
        violations.append(Violation("wrong-metadata", message, where))
    if core.version != version:
        message = f"the version is {core.version}, in the file name {version}"
        violations.append(Violation("wrong-metadata", message, where))
    violations += _dependencies(core, where)
    violations += _licenses(top, metadata, where)
    ending = filename[len(stem) :]
    usual = f"{name.replace('-', '_')}-{version}{ending}"
    return tuple(violations), SdistFacts(name, version, usual, metadata)


def _dependencies(core: CoreMetadata, where: str) -> Iterator[Violation]:
    """Yield dependencies that other installers cannot read, variant markers among them (F-109)."""
    for text in core.requires_texts:
        try:
            parse_requirement(text, allow_variant_markers=False)
        except InvalidRequirement as error:
            message = f"{shortened(text, _LONGEST)!r}: {error.message}"
            yield Violation("invalid-requirement", message, where)


def _licenses(top: Path, metadata: bytes, where: str) -> Iterator[Violation]:
    for path in license_files(metadata):
        # A path that leads elsewhere is not followed, not even to look.
        unsafe = path_fault(path) or windows_fault(path)
        if unsafe or not (top / path).is_file():
            yield Violation("missing-license", f"there is no licence {path[:300]!r}", where)
