"""Selectors: empty wheels that require one member of a family, so that the member is installed.

They are generated; their bytes depend only on their names, so their hashes are known before they
are built. An installed selector meets requirements on the name of the family, for every installer.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from wheelfit.wheels.record import RecordRow, format_record, row_for
from wheelfit_runtime.errors import FileProblem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.version import Version

    from wheelfit.core.bridges import BridgeFamily, FamilyMember
    from wheelfit.core.filename import WheelFilename

_DATE = (2026, 1, 1, 0, 0, 0)


def document_bytes(family: BridgeFamily, *members: FamilyMember) -> bytes:
    """Return the ``variant.json`` of members.

    :param members: members of the family, with labels.
    """
    return (json.dumps(family.document(members), indent=1) + "\n").encode()


def selector_wheel(family: BridgeFamily, filename: WheelFilename) -> dict[str, bytes]:
    """Return the files of the selector wheel of a member, by path.

    :raises FileProblem: the family has no such member; perhaps an earlier version of it had.
    """
    label, version = filename.label, filename.version
    member = family.member_of_wheel(filename)
    if member is None:
        raise FileProblem(
            f"the bridge {family.name} has no {label or 'plain'} build of {version} any more",
            where=filename.text,
            hint="lock again",
        )
    folder = f"{filename.name.replace('-', '_')}-{version}.dist-info"
    metadata_lines = [
        "Metadata-Version: 2.1",
        f"Name: {filename.name}",
        f"Version: {version}",
        f"Summary: Stands for {member.distribution} {version}",
        f"Requires-Dist: {exact_requirement(member, version)}",
        *(f"Requires-Dist: {text}" for text in member.requires),
    ]
    for extra in family.extras:
        metadata_lines += [
            f"Provides-Extra: {extra}",
            f"Requires-Dist: {member.distribution}[{extra}]=={version} ; extra == '{extra}'",
        ]
    wheel_lines = ["Wheel-Version: 1.0", "Generator: wheelfit bridge", "Root-Is-Purelib: false"]
    wheel_lines += [f"Tag: {tag}" for tag in sorted(map(str, filename.tags))]
    wheel_lines += [f"Variant-Label: {label}"]
    files = {
        f"{folder}/METADATA": ("\n".join(metadata_lines) + "\n").encode(),
        f"{folder}/WHEEL": ("\n".join(wheel_lines) + "\n").encode(),
        f"{folder}/variant.json": document_bytes(family, member),
    }
    rows = [row_for(path, content) for path, content in files.items()]
    record = f"{folder}/RECORD"
    return {**files, record: format_record([*rows, RecordRow(record)])}


def exact_requirement(member: FamilyMember, version: Version) -> str:
    """Return the requirement of exactly one version of a member, with the extras of its build."""
    extras = f"[{','.join(member.extras)}]" if member.extras else ""
    return f"{member.distribution}{extras}=={version}"


def added_requirements_of(member: FamilyMember, filename: WheelFilename) -> tuple[str, ...]:
    """Return the requirements that a family adds to the METADATA of a member's wheel."""
    requirements = list(member.requires)
    if member.extras:
        # Without the local version: in a lock for every machine a release has all builds.
        requirements.append(
            f"{filename.name}[{','.join(member.extras)}]=={filename.version.public}"
        )
    # A wheel for any platform also fits machines that its member is not for.
    if member.platforms and any(tag.platform == "any" for tag in filename.tags):
        return tuple(f"{text} ; {member.marker}" for text in requirements)
    return tuple(requirements)


def zip_files(files: dict[str, bytes]) -> bytes:
    """Return a ZIP archive of files, uncompressed so that its bytes depend on no library."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _DATE)
            entry.external_attr = 0o100644 << 16
            entry.create_system = 3
            archive.writestr(entry, content)
    return stream.getvalue()


class LazyHashes(Mapping[str, str]):
    """The hashes of a selector, computed when they are needed; a page may list hundreds."""

    def __init__(self, family: BridgeFamily, filename: WheelFilename) -> None:
        self._family = family
        self._filename = filename

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(zip_files(selector_wheel(self._family, self._filename))).hexdigest()

    def __getitem__(self, algorithm: str) -> str:
        if algorithm != "sha256":
            raise KeyError(algorithm)
        return self._digest

    def __iter__(self) -> Iterator[str]:
        return iter(("sha256",))

    def __len__(self) -> int:
        return 1
