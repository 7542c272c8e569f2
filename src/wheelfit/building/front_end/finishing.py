"""Conversion of a backend's wheel to one that may be published, and checks of the result."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wheelfit.building.variant_wheel import repack_wheel
from wheelfit.checking import checks
from wheelfit.checking.findings import Finding, Severity
from wheelfit.checking.tool_profiles import CheckOptions
from wheelfit.checking.wheels.wheel import check_wheel
from wheelfit.core.abi_exports import FILE as EXPORTS_FILE
from wheelfit.core.abi_exports import AbiExports, write_abi_exports
from wheelfit.core.core_metadata import edit_metadata, read_metadata, without_variant_markers
from wheelfit.core.filename import parse_wheel_filename
from wheelfit.core.markers import VariantContext
from wheelfit.errors import BuildFailed, InvalidFilename, NeedsExtra
from wheelfit.wheels.archive import WheelArchive
from wheelfit.wheels.binaries.instructions import with_instructions
from wheelfit.wheels.binaries.reading import binaries_of
from wheelfit.wheels.binaries.unguarded_instructions import claimed_level, unguarded_code
from wheelfit.wheels.rewrite import RewriteOptions, rewrite
from wheelfit_runtime.errors import IntegrityError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from wheelfit.building.front_end.toolchains.rust import CompiledCrates
    from wheelfit.building.front_end.variants import WheelToBuild
    from wheelfit.core.document import VariantDocument
    from wheelfit.core.properties import PropertySet
    from wheelfit.wheels.zip_directory import Member

_MAX_NOTES = 5


@dataclass(frozen=True, slots=True)
class BackendWheel:
    """A wheel that a backend built."""

    path: Path
    content: str
    """A digest of all its files without dist-info."""
    crates: CompiledCrates | None = None
    """The crates that cargo compiled for it; None if cargo did not run."""


def read_built_wheel(path: Path, name: str) -> BackendWheel:
    """Read the plain wheel that a backend built.

    :raises BuildFailed: it is invalid, or a variant (B-10).
    """
    try:
        filename = parse_wheel_filename(path.name)
        if filename.label is not None:
            raise BuildFailed(
                f"the backend built variant {filename.label} of {name} instead of a plain wheel",
                where=path.name,
                hint="remove variant settings from the project and from the environment variables",
            )
        with WheelArchive(path, filename) as archive:
            archive.verify()
            info = f"{archive.dist_info}/"
            digest = hashlib.sha256()
            for row in sorted(archive.record.rows, key=lambda row: row.path):
                if not row.path.startswith(info):
                    digest.update(f"{row.path}\0{row.hash}\0".encode())
    except (InvalidFilename, IntegrityError) as error:
        raise BuildFailed(
            f"the backend built an invalid wheel of {name}: {error.message}",
            where=path.name,
            note=error.note,
            hint="report it to the maintainers of its build backend",
        ) from None
    return BackendWheel(path, digest.hexdigest())


def with_dependencies(
    source: Path, folder: Path, requirements: Iterable[str], epoch: int | None
) -> Path:
    """Return a copy of a wheel with further dependencies.

    :param requirements: the further dependencies; those that the wheel has are ignored.
    """
    with WheelArchive(source) as archive:
        data = archive.metadata()
    present = read_metadata(data, source.name).requires_texts
    metadata = edit_metadata(data, added=[text for text in requirements if text not in present])
    return _with_file(source, folder, "METADATA", metadata, epoch)


def with_exports(source: Path, folder: Path, exports: AbiExports, epoch: int | None) -> Path:
    """Return a copy of a wheel that declares the exports of its library (B-61)."""
    return _with_file(source, folder, EXPORTS_FILE, write_abi_exports(exports), epoch)


def _with_file(source: Path, folder: Path, name: str, data: bytes, epoch: int | None) -> Path:
    """Return a copy of a wheel with a file of its dist-info replaced."""
    destination = folder / source.name
    with WheelArchive(source) as archive:
        replaced = {f"{archive.dist_info}/{name}": data}
        options = RewriteOptions(epoch=epoch)
        rewrite(source, destination, replace_members=replaced, options=options, open_source=archive)
    return destination


def reproducible_copy(source: Path, folder: Path, epoch: int) -> Path:
    """Return a copy of a wheel whose order, times and modes do not depend on this machine."""
    destination = folder / source.name
    rewrite(source, destination, options=RewriteOptions(epoch=epoch, is_reproducible=True))
    return destination


def finish_wheel(
    raw: BackendWheel,
    choice: WheelToBuild,
    document: VariantDocument | None,
    folder: Path,
    *,
    name: str,
    epoch: int | None,
) -> tuple[Path, tuple[str, ...]]:
    """Write the requested wheel, and check it as an index would (B-18, B-54).

    :return: the wheel, and remarks about it.
    :raises BuildFailed: the wheel breaks a rule.
    """
    notes: list[str] = []
    if choice.label is None or document is None:
        path = _with_resolved_markers(raw.path, folder, epoch)
    else:
        path = repack_wheel(
            raw.path,
            folder,
            label=choice.label,
            document=document,
            options=RewriteOptions(epoch=epoch),
            add_details=lambda details: notes.extend(details.notes),
        )
    findings = _findings(path, choice.properties)
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if errors:
        raise BuildFailed(
            f"the built wheel of {name} breaks a rule: {errors[0].message}",
            where=path.name,
            note="\n".join(error.message for error in errors[1 : _MAX_NOTES + 1]) or None,
            hint=errors[0].remedy,
        )
    notes += notes_above_level(path, choice.properties)
    # Remarks about the document were reported before the build.
    notes += [
        f"{finding.member}: {finding.message}" if finding.member else finding.message
        for finding in findings
        if finding.code in _REPORTED
        or (finding.severity is Severity.WARNING and finding.member != "variant.json")
    ]
    return path, tuple(dict.fromkeys(notes))


_REPORTED = frozenset({checks.NO_SUCH_CODE.code, checks.UNCLAIMED_CODE.code})
"""Findings that contradict the label, which are reported whatever their severity."""


def _findings(path: Path, properties: PropertySet) -> list[Finding]:
    """Check a wheel; with the extra ``build``, also the GPU code of a wheel for GPUs (B-60)."""
    try:
        options = CheckOptions(binaries=not _GPU_NAMESPACES.isdisjoint(properties.namespaces))
        return check_wheel(path, path.name, where=path.name, options=options)[0]
    except NeedsExtra:
        return check_wheel(path, path.name, where=path.name)[0]


_GPU_NAMESPACES = frozenset({"nvidia", "amd"})


def _with_resolved_markers(source: Path, folder: Path, epoch: int | None) -> Path:
    """Return a plain wheel with its variant markers resolved: it has no properties (B-40)."""
    with WheelArchive(source) as archive:
        metadata = archive.metadata()
    resolved = without_variant_markers(
        metadata, VariantContext.PLAIN, where=source.name, filtered=False
    )
    if resolved == metadata:
        return source
    return _with_file(source, folder, "METADATA", resolved, epoch)


_MAX_BYTES = 8 << 20
"""Bytes of all examined binaries, so that the check takes only some seconds.

`wheelfit check` has no such limit.
"""


def notes_above_level(path: Path, properties: PropertySet) -> Iterator[str]:
    """Yield binaries with unguarded code above the level that the wheel claims.

    Nothing is examined without the extra ``build``.
    """
    features = properties.to_mapping().get("x86_64", {})
    claimed = claimed_level(features)
    if claimed is None:
        return
    remaining_size = _MAX_BYTES
    is_whole = True

    def is_wanted(member: Member) -> bool:
        nonlocal remaining_size, is_whole
        # The project does not compile the libraries that a repair adds.
        if member.size > remaining_size or ".libs/" in member.name:
            is_whole = False
            return False
        remaining_size -= member.size
        return True

    try:
        with WheelArchive(path) as archive:
            binaries = binaries_of(archive, is_wanted=is_wanted, add_facts=with_instructions)
    except NeedsExtra:
        return
    # Without features, `claimed` is the default v1, which the wheel does not claim itself.
    claim = f"claims {claimed}" if features else "claims no level"
    for finding in unguarded_code(binaries, claimed, is_whole=is_whole):
        yield (
            f"{finding}; the wheel {claim}, and on an older processor it fails with an illegal "
            "instruction: look for flags like -march=native in the project"
        )
